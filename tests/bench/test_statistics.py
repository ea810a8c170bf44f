"""Statistics on a fake clock: what was put in comes out."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from minijax_bench import measure, statistics
from minijax_bench.measure import Budget

from tests.bench.machine import Machine

SIZES = [2**k for k in range(10, 27)]
alphas = st.floats(1e-7, 1e-2)
betas = st.floats(1e-13, 1e-8)


def medians(cost, sizes, outliers=()):
    found = []
    for size in sizes:
        m = Machine(cost, outliers)
        budget = Budget(iterations=11, warmup=2, seconds=1e9)
        samples = measure.call_and_block(m.run, lambda s=size: s, budget, m.clock)
        found.append(statistics.summarise(samples).p50)
    return found


@given(alphas, betas)
def test_alpha_and_beta_are_recovered(alpha, beta):
    assume(beta * SIZES[-1] > alpha / 100)  # else beta is lost in rounding
    times = medians(lambda size: alpha + beta * size, SIZES)
    line = statistics.fit(SIZES, times)
    assert line.refused == ""
    assert line.residual < 1e-6
    assert line.alpha == pytest.approx(alpha, rel=1e-4, abs=1e-9)
    assert line.beta == pytest.approx(beta, rel=1e-4)


@given(alphas, betas, st.integers(2, 12), st.floats(1.0, 100.0))
def test_an_outlier_moves_no_median_and_is_kept(alpha, beta, when, big):
    m = Machine(lambda size: alpha + beta * size, {when: big})
    samples = measure.call_and_block(m.run, lambda: 1024, Budget(11, 2, 1e9), m.clock)
    found = statistics.summarise(samples)
    assert len(samples) == found.count == 11
    assert found.p50 == pytest.approx(alpha + beta * 1024, rel=1e-3, abs=1e-9)
    assert found.max == max(samples) >= big
    assert found.p99 > big / 2


def test_warm_up_is_not_kept():
    m = Machine(lambda x: 1.0, {0: 50.0, 1: 50.0})
    samples = measure.call_and_block(m.run, lambda: 0, Budget(3, 2, 1e9), m.clock)
    assert samples == [1.0, 1.0, 1.0]


def test_the_time_cap_stops_after_the_least_samples():
    m = Machine(lambda x: 10.0)
    samples = measure.call_and_block(m.run, lambda: 0, Budget(1000, 0, 5.0), m.clock)
    assert len(samples) == measure.LEAST
    samples = measure.call_and_block(m.run, lambda: 0, Budget(1000, 0, 95.0), m.clock)
    assert len(samples) == 10


def test_the_time_cap_stops_the_warm_up():
    m = Machine(lambda x: 10.0)
    measure.call_and_block(m.run, lambda: 0, Budget(1, 1000, 25.0), m.clock)
    assert m.calls == 3 + 1


def test_what_feeds_a_call_is_not_timed():
    m = Machine(lambda x: 1.0)

    def feed():
        m.now += 1000.0
        return 0

    assert measure.call_and_block(m.run, feed, Budget(2, 0, 1e9), m.clock) == [1, 1]


def test_in_flight_divides_by_the_number_of_calls():
    class Shared(Machine):
        def block_until_ready(self):
            self.now += 0.5
            return self

    m = Shared(lambda x: 0.0)
    budget = Budget(2, 0, 1e9)
    assert measure.in_flight(m.run, lambda: 0, budget, m.clock) == [0.5, 0.5]
    assert m.calls == 2 * measure.IN_FLIGHT


def test_alternating_rounds_share_a_drift():
    m = Machine(lambda x: x + m.now / 1e4)
    runs = [
        lambda b, x=x: measure.call_and_block(m.run, lambda: x, b, m.clock)
        for x in (1.0, 1.0)
    ]
    one, two = measure.alternating(runs, Budget(30, 0, 1e9), 10)
    assert len(one) == len(two) == 30
    assert np.median(one) == pytest.approx(np.median(two), rel=0.01)
    assert np.mean(one) == pytest.approx(np.mean(two), rel=1e-6)


def test_every_second_round_goes_backwards():
    seen = []
    runs = [lambda b, n=n: seen.append(n) or [0.0] for n in "ab"]
    measure.alternating(runs, Budget(4), 4)
    assert "".join(seen) == "abbaabba"


@given(st.floats(1e-6, 1e-2), st.floats(1e-7, 1e-2))
def test_a_slope_tells_launch_from_exchange(launch, exchange):
    lengths = [1, 4, 8]
    found = statistics.slope(lengths, [launch + k * exchange for k in lengths])
    assume(not found.refused)
    assert found.launch == pytest.approx(launch, rel=1e-3, abs=1e-8)
    assert found.exchange == pytest.approx(exchange, rel=1e-6)


@pytest.mark.parametrize(
    ("times", "why"),
    [([3.0, 2.0], "took no longer"), ([1.0, 9.0], "came out negative")],
)
def test_a_slope_that_is_noise_is_refused(times, why):
    assert why in statistics.slope([1, 4], times).refused


def test_a_fit_that_misses_by_a_quarter_is_refused_with_the_figure():
    line = statistics.fit([1, 10, 100, 1000], [1.0, 9.0, 1.0, 9.0])
    assert line.residual > 0.25
    assert line.refused == f"its residual of {line.residual:.0%} is above 25%"


def test_times_that_do_not_grow_are_refused():
    line = statistics.fit([1, 2, 4], [1.0, 1.0, 0.99])
    assert "do not grow" in line.refused
    assert line.beta == 0


def test_a_negative_latency_is_held_at_zero():
    line = statistics.fit([100, 200, 400], [0.9, 2.0, 4.1])
    assert line.alpha == 0
    assert line.refused == ""
    assert line.beta == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("sizes", [[1, 2], [1, 1, 1, 2]])
def test_two_sizes_give_no_line(sizes):
    assert "three sizes" in statistics.fit(sizes, [1.0] * len(sizes)).refused


def test_percentiles_are_those_of_numpy():
    x = [float(i) for i in range(1, 101)]
    found = statistics.summarise(x)
    assert (found.p50, found.min, found.max) == (50.5, 1.0, 100.0)
    assert (found.p90, found.p99) == pytest.approx((90.1, 99.01))
    assert found.stdev == pytest.approx(np.std(x, ddof=1))


@given(st.lists(st.floats(1e-6, 1e-3), min_size=5, max_size=40), st.floats(0.2, 5.0))
def test_a_band_holds_the_true_ratio_of_scaled_samples(samples, factor):
    ratio, low, high = statistics.ratio_band([factor * s for s in samples], samples)
    assert ratio == pytest.approx(factor)
    assert low <= ratio * (1 + 1e-9)
    assert ratio <= high * (1 + 1e-9)


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=30))
def test_the_band_of_a_median_lies_around_it(values):
    median, low, high = statistics.median_band(values)
    assert median == pytest.approx(np.median(values))
    assert min(values) - 1e-9 <= low <= median + 1e-9
    assert median - 1e-9 <= high <= max(values) + 1e-9


def test_a_band_is_the_same_each_time():
    samples = [1.0, 2.0, 3.0, 4.0]
    again = [statistics.ratio_band(samples, samples) for _ in range(2)]
    assert again[0] == again[1]
