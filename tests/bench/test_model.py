"""Predicted times: the formulas against a count of messages, and their manners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minijax_bench import model
from minijax_bench.errors import BadInput
from minijax_bench.model import Axis, Link
from minijax_bench.statistics import Line

LINK = Link(1e-6, 1e9)
networks = st.sampled_from(model.NETWORKS)
collectives = st.sampled_from(sorted(model.KINDS))


def busiest_link(n, both_ways):
    """Parts of S/n over the busiest link when each device sends one to each other."""
    load = [0] * (2 * n)
    for source in range(n):
        for d in range(1, n):
            back = both_ways and (d > n - d or (d == n - d and source % 2))
            hops = n - d if back else d
            for h in range(hops):
                at = (source - h) % n + n if back else (source + h) % n
                load[at] += 1
    return max(load)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 16])
def test_an_exchange_loads_links_as_counted(n):
    for network, both in (("ring", False), ("torus", True)):
        _, share = model.steps_and_share(network, n, "exchange")
        counted = busiest_link(n, both)
        if both and n % 4 == 2:  # the farthest part is split between both ways
            counted -= 0.5
        assert share * n == pytest.approx(counted)


@pytest.mark.parametrize("n", [2, 8, 1024, 2**20])
@pytest.mark.parametrize("network", model.NETWORKS)
def test_no_prediction_beats_the_bytes_that_must_arrive(n, network):
    axis, size = Axis("x", network, n), 1e6
    ports = 2 if network == "torus" else 1
    least = size * (n - 1) / n / (LINK.bandwidth * ports)
    for name in ("all_gather", "psum_scatter", "all_to_all"):
        assert model.predict(name, size, [axis], [LINK]) >= least * (1 - 1e-9)
    both = model.predict("psum", size, [axis], [LINK])
    assert both == 2 * model.predict("all_gather", size, [axis], [LINK])


@given(collectives, networks, st.integers(1, 2**19), st.floats(1, 1e9))
def test_more_bytes_or_devices_never_take_less_time(name, network, n, size):
    def predict(n, size):
        return model.predict(name, size, [Axis("x", network, n)], [LINK])

    assert predict(n, size) <= predict(n, 2 * size)
    assert predict(n, size) <= predict(2 * n, size) * (1 + 1e-9)


@given(collectives, networks, st.integers(1, 4096), st.floats(1, 1e9))
def test_an_axis_of_one_device_costs_nothing(name, network, n, size):
    one, axis = Axis("y", "ring", 1), Axis("x", network, n)
    alone = model.predict(name, size, [axis], [LINK])
    for axes in ([one, axis], [axis, one]):
        assert model.predict(name, size, axes, [LINK, LINK]) == alone


def test_a_gather_moves_small_parts_over_the_second_axis():
    axes = model.parse("x=switch:4,y=switch:2")
    found = model.predict("all_gather", 8e6, axes, [Link(0.0, 1e9)] * 2)
    assert found == pytest.approx(8e6 * 3 / 4 / 1e9 + 2e6 * 1 / 2 / 1e9)


def test_a_million_devices_are_closed_formulas():
    axes = model.parse("x=ring:1048576:1us:50GB/s")
    found = model.predict("all_gather", 2**20, axes, [Link(1e-6, 50e9)])
    assert found == pytest.approx(1048575e-6 + 2**20 / 50e9, rel=1e-3)


@pytest.mark.parametrize(
    "text",
    ["", "x", "x=mesh:4", "x=ring:0", "x=ring:4:1us", "x=ring:4:1:2",
     "x=ring:2000000", "x=ring:2048,y=ring:2048"],
)  # fmt: skip
def test_what_is_no_topology(text):
    with pytest.raises(BadInput):
        model.parse(text)


@given(collectives, st.integers(2, 64), st.floats(1e-6, 1e-3), st.floats(1e-12, 1e-9))
def test_the_fitted_link_predicts_the_fit(name, n, alpha, beta):
    line = Line(alpha, beta, 0.01)
    link = model.fitted_link(name, line, n)
    for size in (1024, 2**20):
        found = model.predict(name, size, [Axis("x", "switch", n)], [link])
        assert found == pytest.approx(line(size))


def test_a_refused_fit_gives_no_link():
    with pytest.raises(BadInput, match="residual"):
        model.fitted_link("psum", Line(1.0, 1.0, 0.5, "its residual is high"), 8)
    with pytest.raises(BadInput, match="one device"):
        model.fitted_link("psum", Line(1.0, 1.0, 0.1), 1)
