"""ragged_all_to_all: XLA has none for CPU, so texts and shapes are all there is."""

import numpy as np
import pytest

import minijax

GROUPS = [[0, 1], [2, 3]]


def _f(jax, groups=None, batch=None):
    P = jax.sharding.PartitionSpec
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((4,), ("i",), axis_types=auto)

    def exchange(*args):
        return jax.lax.ragged_all_to_all(*args, axis_name="i", axis_index_groups=groups)

    body = exchange if batch is None else jax.vmap(exchange, in_axes=batch)
    lead = P("i") if batch is None else P(None, "i")
    return jax.shard_map(
        body, mesh=mesh, in_specs=lead, out_specs=lead, check_vma=False
    )


def _arguments(*lead):
    where = [np.zeros((*lead, 16), np.int32)] * 4
    data = [np.zeros((*lead, n), np.float32) for n in (16, 32)]
    return data + where


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_lowers_as_upstream(upstream, groups):
    def text(jax):
        return jax.jit(_f(jax, groups)).lower(*_arguments()).as_text()

    assert text(minijax) == text(upstream)


def test_every_element_of_a_batch_is_a_part_of_one_exchange():
    text = minijax.jit(_f(minijax, batch=0)).lower(*_arguments(3)).as_text()
    (call,) = [line for line in text.splitlines() if "@ragged_all_to_all" in line]
    types = "tensor<12xf32>, tensor<24xf32>" + ", tensor<12xi32>" * 4
    assert f"({types}) -> tensor<24xf32>" in call


def test_a_batch_in_groups_keeps_them():
    f = _f(minijax, GROUPS, batch=0)
    text = minijax.jit(f).lower(*_arguments(3)).as_text()
    assert "dense<[[0, 1], [2, 3]]>" in text


def test_over_the_mapped_name_itself_it_is_refused():
    def f(*args):
        return minijax.lax.ragged_all_to_all(*args, axis_name="i")

    with pytest.raises(NotImplementedError, match="Please open a feature request!"):
        minijax.vmap(f, axis_name="i")(*_arguments(16))


def test_cotangents_travel_back():
    f = _f(minijax)
    operand, output, *where = _arguments()

    def pulled(operand, output, ct):
        _, back = minijax.vjp(lambda x, y: f(x, y, *where), operand, output)
        return back(ct)

    lowered = minijax.jit(pulled).lower(operand, output, output)
    text = lowered.as_text()
    # One for the operand; the output's cotangent is only masked.
    assert text.count("@ragged_all_to_all") == 1
    assert text.count("stablehlo.all_to_all") == 2
    assert "stablehlo.select" in text


def test_what_is_written_has_no_cotangent_in_the_output():
    from_page = minijax.lax.collectives.ragged_all_to_all
    ct = np.arange(1.0, 9.0, dtype=np.float32)
    starts, sizes = np.array([1, 5], np.int32), np.array([2, 1], np.int32)
    kept = from_page._where_nothing_arrived(ct, starts, sizes)
    np.testing.assert_array_equal(np.asarray(kept), [1, 0, 0, 4, 5, 0, 7, 8])
