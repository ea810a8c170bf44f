"""ragged_all_to_all: an operation of XLA for TPU and GPU, made of gathers for CPU.

The text for TPU is compared with upstream's. What batching and differentiation make of
it is evaluated by `tests.lockstep_jaxpr`, and on CPU devices.
"""

import re

import numpy as np
import pytest

import minijax
from minijax.lowering.lower import lower_to_module
from tests.lax.collectives.programs import program, ways
from tests.lockstep import World
from tests.lockstep_jaxpr import evaluate

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
    f = upstream.jit(_f(upstream, groups)).trace(*_arguments())
    theirs = f.lower(lowering_platforms=("tpu",)).as_text()
    for platform in ("tpu", "gpu", "cpu"):
        ours = _text(_f(minijax, groups), _arguments(), platform)
        assert _calls(ours) == _calls(theirs)
    # What is compiled for a CPU, which has no such operation.
    ours = _text(_f(minijax, groups), _arguments(), "cpu", runnable=True)
    assert not _calls(ours)
    assert "all_gather" in ours


def _text(f, args, platform="tpu", runnable=False):
    jaxpr = minijax.make_jaxpr(f)(*args).jaxpr
    how = {"num_partitions": 4, "platform": platform, "runnable": runnable}
    return str(lower_to_module(jaxpr, "f", **how))


def _calls(text):
    lines = [line.strip() for line in text.splitlines() if "@ragged_all_to_all" in line]
    return [re.sub(r"%\w+", "%", line) for line in lines]


def test_every_element_of_a_batch_is_a_part_of_one_exchange():
    (call,) = _calls(_text(_f(minijax, batch=0), _arguments(3)))
    types = "tensor<12xf32>, tensor<24xf32>" + ", tensor<12xi32>" * 4
    assert f"({types}) -> tensor<24xf32>" in call


def _parts(seed, groups, each=2, rest=()):
    """Parts of random sizes, which tile what is sent and leave gaps where received.

    Every argument has the devices in front, in the order that `groups` counts.
    """
    rng = np.random.default_rng(seed)
    n, m = sum(map(len, groups)), len(groups[0])
    where = np.zeros((4, n, m * each), np.int32)
    read_from, sent, written_at, received = where
    sent[:] = rng.integers(0, 4, sent.shape)
    read_from[:] = np.cumsum(sent, 1) - sent
    most = 0
    for group in groups:
        for r, receiver in enumerate(group):
            at = int(rng.integers(0, 2))
            for part in rng.permutation(m * each):
                s, k = divmod(int(part), each)
                received[receiver, part] = sent[group[s], r * each + k]
                written_at[group[s], r * each + k] = at
                at += int(received[receiver, part]) + int(rng.integers(0, 2))
            most = max(most, at)
    operand = rng.integers(1, 99, (n, int(sent.sum(1).max()) + 1, *rest))
    output = -rng.integers(1, 99, (n, most + 1, *rest))
    return [operand.astype(np.float32), output.astype(np.float32), *where]


def _exchange(names, groups):
    def f(*args):
        return minijax.lax.ragged_all_to_all(
            *args, axis_name=names, axis_index_groups=groups
        )

    return f


def _stacked(args, sizes, names):
    """Devices in the order of `names` become one dimension for each axis."""
    order = [names.index(n) for n in sizes]
    shape = [sizes[n] for n in names]
    out = []
    for x in args:
        x = x.reshape(*shape, *x.shape[1:])
        rest = range(len(names), x.ndim)
        out.append(np.transpose(x, (*order, *rest)))
    return out


TWO = {"i": 2, "j": 2}
WAYS = [
    ({"i": 4}, mesh, ("i",), groups)
    for mesh in ((), ("i",))
    for groups in (None, [[3, 0], [1, 2]], [[2], [0], [1], [3]])
]
WAYS += [
    (TWO, mesh, names, groups)
    for mesh in ways(("i", "j"))
    for names in (("i", "j"), ("j", "i"))
    for groups in (None, [[3, 0], [1, 2]])
]


@pytest.mark.parametrize(("sizes", "mesh", "names", "groups"), WAYS)
def test_by_definition(sizes, mesh, names, groups):
    parts = _parts(len(mesh), groups or [range(4)], rest=(2,) if groups else ())
    args = _stacked(parts, sizes, names)
    world, f = World(sizes), program(minijax, sizes, mesh, _exchange(names, groups))
    how = {"axis_name": names, "axis_index_groups": groups}
    want = world.ragged_all_to_all(*args, **how)
    (got,) = evaluate(minijax.make_jaxpr(f)(*args), *args)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.asarray(minijax.jit(f)(*args)), want)

    # Linear in the operand and the output together.
    def both(x, y):
        return f(x, y, *args[2:])

    def back(x, y, ct):
        return minijax.vjp(both, x, y)[1](ct)

    ct = np.arange(want.size, dtype=np.float32).reshape(want.shape) % 7
    cts = evaluate(minijax.make_jaxpr(back)(*args[:2], ct), *args[:2], ct)
    on_devices = minijax.jit(back)(*args[:2], ct)
    for got, of in zip(on_devices, cts, strict=True):
        np.testing.assert_array_equal(np.asarray(got), of)
    there = evaluate(
        minijax.make_jaxpr(lambda x, y: minijax.jvp(both, (x, y), (x, y))[1])(
            *args[:2]
        ),
        *args[:2],
    )
    np.testing.assert_array_equal(there[0], want)
    assert sum(np.vdot(c, x) for c, x in zip(cts, args[:2], strict=True)) == np.vdot(
        ct, want
    )


@pytest.mark.parametrize("groups", [None, [[3, 0], [1, 2]]])
@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_a_batch_is_a_loop(mesh, groups):
    """Over another axis, whose elements have parts of sizes of their own."""
    each = [_parts(seed, groups or [range(4)]) for seed in range(3)]
    longest = [max(e[k].shape[1] for e in each) for k in range(2)]
    for e in each:
        e[:2] = [
            np.pad(x, ((0, 0), (0, n - x.shape[1])))
            for x, n in zip(e[:2], longest, strict=True)
        ]
    args = [np.stack(x, 1) for x in zip(*each, strict=True)]
    how = {"axis_name": ("i",), "axis_index_groups": groups}
    world = World({"i": 4})
    want = np.stack([world.ragged_all_to_all(*e, **how) for e in each], 1)
    f = program(minijax, {"i": 4}, mesh, minijax.vmap(_exchange("i", groups)))
    (got,) = evaluate(minijax.make_jaxpr(f)(*args), *args)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.asarray(minijax.jit(f)(*args)), want)


def test_arguments_that_do_not_fit():
    x, four = np.zeros((4, 8), np.float32), np.zeros((4, 4), np.int32)
    f = minijax.vmap(_exchange("i", None), axis_name="i")
    with pytest.raises(ValueError, match="must have one length, a multiple of"):
        f(x, x, four, four, four, four[:, :3])
    with pytest.raises(ValueError, match="must have one length, a multiple of"):
        f(x, x, *[four[:, :3]] * 4)
    with pytest.raises(ValueError, match="must agree in dtype and in all dimensions"):
        f(x, x.astype(np.int32), *[four] * 4)


def test_cotangents_travel_back():
    f = _f(minijax)
    operand, output, *where = _arguments()

    def pulled(operand, output, ct, *where):
        _, back = minijax.vjp(lambda x, y: f(x, y, *where), operand, output)
        return back(ct)

    text = _text(pulled, (operand, output, output, *where))
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
