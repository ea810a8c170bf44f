"""The value of every collective, however its names are bound, against `lockstep`.

One name or two, in both orders, each mapped by vmap or a mesh axis; with and without
groups, with batched and unbatched operands, with `check_vma` and without.
"""

from __future__ import annotations

import numpy as np
import pytest

import minijax as jax
from minijax import lax
from tests.lax.collectives.programs import (
    all_of_them,
    expected_of,
    numbers,
    program,
    run,
    ways,
)
from tests.lockstep import World

ONE = {"i": 4}
TWO = {"i": 2, "j": 3}
ORDERS = [("i",), ("j",), ("i", "j"), ("j", "i")]
GROUPS = {4: [[0, 2], [3, 1]], 6: [[5, 0, 2], [1, 4, 3]]}


def check(sizes, mesh, fun, expected, *xs, jit=True, **options):
    """One program, whose result is an array or a dict of arrays."""
    got = run(jax, sizes, mesh, fun, *xs, jit=jit, **options)
    if not isinstance(expected, dict):
        got, expected = {"": got}, {"": expected}
    assert got.keys() == expected.keys()
    for name, want in expected.items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)
        assert got[name].dtype == np.asarray(want).dtype, name


def size_of(sizes, names):
    return int(np.prod([sizes[n] for n in names]))


def operand(sizes, n):
    return numbers(*sizes.values(), n, n, 2)


@pytest.mark.parametrize("mesh", [(), ("i",)])
@pytest.mark.parametrize("groups", [None, GROUPS[4]])
@pytest.mark.parametrize("check_vma", [False, True])
def test_one_name(mesh, groups, check_vma):
    x = operand(ONE, 2 if groups else 4)
    expected = expected_of(World(ONE), x, "i", groups)
    check(ONE, mesh, all_of_them("i", groups), expected, x, check_vma=check_vma)


def test_one_name_without_jit():
    x = operand(ONE, 4)
    expected = expected_of(World(ONE), x, "i")
    check(ONE, (), all_of_them("i"), expected, x, jit=False)


@pytest.mark.parametrize("mesh", ways(("i", "j")))
@pytest.mark.parametrize("names", [("i",), ("i", "j"), ["j", "i"]])
def test_two_names(mesh, names):
    x = operand(TWO, size_of(TWO, names))
    expected = expected_of(World(TWO), x, names)
    check(TWO, mesh, all_of_them(names), expected, x)


@pytest.mark.parametrize("mesh", ways(("i", "j")))
def test_groups_over_two_names(mesh):
    names = ("j", "i")
    x = operand(TWO, 3)
    expected = expected_of(World(TWO), x, names, GROUPS[6])
    check(TWO, mesh, all_of_them(names, GROUPS[6]), expected, x)


@pytest.mark.parametrize("mesh", [(), ("j",), ("i", "k")])
def test_three_names(mesh):
    sizes, names = {"i": 2, "j": 2, "k": 2}, ("k", "i", "j")
    x = operand(sizes, 8)
    expected = expected_of(World(sizes), x, names)
    check(sizes, mesh, all_of_them(names), expected, x)


@pytest.mark.parametrize("groups", [None, GROUPS[4]])
def test_unbatched_operand(groups):
    n = 2 if groups else 4
    x = numbers(n, n, 2)
    stacked = np.broadcast_to(x, (4, *x.shape))
    expected = expected_of(World(ONE), stacked, "i", groups)
    f = all_of_them("i", groups)
    rows = jax.vmap(lambda _, v: f(v), in_axes=(0, None), axis_name="i")
    got = jax.jit(rows)(np.zeros(4), x)
    for name, want in expected.items():
        np.testing.assert_array_equal(np.asarray(got[name]), want, err_msg=name)


@pytest.mark.parametrize("groups", [None, GROUPS[4]])
@pytest.mark.parametrize("mesh", [(), ("i",)])
@pytest.mark.parametrize("dim", [0, 2])
def test_an_unnamed_vmap_inside_is_a_loop(groups, mesh, dim):
    n = 2 if groups else 4
    x, world = numbers(4, 3, n, n, 2), World(ONE)
    each = [expected_of(world, x[:, k], "i", groups) for k in range(3)]
    expected = {k: np.stack([e[k] for e in each], axis=1) for k in each[0]}

    def f(v):
        return jax.vmap(all_of_them("i", groups), in_axes=dim)(v)

    check(ONE, mesh, f, expected, np.moveaxis(x, 1, 1 + dim))


@pytest.mark.parametrize("mesh", [(), ("i",)])
@pytest.mark.parametrize("check_vma", [False, True])
def test_sums_over_groups_of_unequal_size(mesh, check_vma):
    groups, x = [[1, 3, 0], [2]], numbers(4, 2)
    expected = World(ONE).psum(x, "i", axis_index_groups=groups)

    def f(v):
        return lax.psum(v, "i", axis_index_groups=groups)

    check(ONE, mesh, f, expected, x, check_vma=check_vma)


PERMS = [
    [(0, 1), (1, 2), (2, 3), (3, 0)],
    [(0, 2)],
    [(3, 0), (0, 3)],
    [],
]


@pytest.mark.parametrize("perm", PERMS)
@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_ppermute(perm, mesh):
    x = numbers(4, 3)
    expected = World(ONE).ppermute(x, "i", perm)
    check(ONE, mesh, lambda v: lax.ppermute(v, "i", perm), expected, x)


@pytest.mark.parametrize("mesh", ways(("i", "j")))
def test_ppermute_over_two_names(mesh):
    perm, x = [(0, 5), (5, 1), (2, 2)], numbers(2, 3, 2)
    expected = World(TWO).ppermute(x, ("i", "j"), perm)
    check(TWO, mesh, lambda v: lax.ppermute(v, ("i", "j"), perm), expected, x)


def test_pshuffle_and_pswapaxes():
    x, world = numbers(4, 4, 2), World(ONE)
    shuffled = run(jax, ONE, (), lambda v: lax.pshuffle(v, "i", [2, 0, 3, 1]), x)
    np.testing.assert_array_equal(shuffled, x[[2, 0, 3, 1]])
    swapped = run(jax, ONE, (), lambda v: lax.pswapaxes(v, "i", 0), x)
    np.testing.assert_array_equal(swapped, world.all_to_all(x, "i", 0, 0))


@pytest.mark.parametrize("mesh", ways(("i", "j")))
@pytest.mark.parametrize("names", [*ORDERS, "j"])
def test_axis_index_and_size(mesh, names):
    x = numbers(2, 3)
    expected = World(TWO).axis_index(names)
    check(TWO, mesh, lambda _: lax.axis_index(names), expected, x)
    sizes = []
    run(jax, TWO, mesh, lambda v: sizes.append(lax.axis_size(names)) or v, x)
    assert set(sizes) == {int(expected.max()) + 1}


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_sums_of_what_is_the_same_everywhere(mesh):
    seen = []

    def f(v):
        seen.append((lax.psum(1, "i"), lax.psum(2.5, "i"), lax.psum(True, "i")))
        seen.append(lax.psum(1, "i", axis_index_groups=[[0, 1], [2, 3]]))
        return lax.add(v, lax.psum(np.ones(2, np.float32), "i"))

    check(ONE, mesh, f, numbers(4, 2) + 4, numbers(4, 2))
    assert seen[0][:2] == (4, 10.0)
    assert type(seen[0][0]) is int
    assert int(seen[0][2]) == 4
    assert seen[1] == 2


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_booleans_are_counted(mesh):
    x = numbers(4, 2) > 2
    expected = np.broadcast_to(x.sum(0, np.int32), (4, 2))
    check(ONE, mesh, lambda v: lax.psum(v, "i"), expected, x)


def test_sums_over_dimensions_and_names():
    x = numbers(4, 3, 2)

    def f(v):
        return lax.psum(v, (1, "i"))

    got = jax.vmap(f, axis_name="i", out_axes=None)(x)
    np.testing.assert_array_equal(np.asarray(got), x.sum((0, 2)))
    for f in (jax.jit, jax.vmap):  # counted from the end, traced or not
        last = f(lambda v: lax.psum(v, -1))(x)
        np.testing.assert_array_equal(np.asarray(last), lax.psum(x, -1))
    inner = jax.vmap(lambda v: lax.psum(v, 0), in_axes=1)(x[0])
    np.testing.assert_array_equal(np.asarray(inner), x[0].sum(0))


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_pmean(mesh):
    x = numbers(4, 2)
    expected = np.broadcast_to(x.mean(0), (4, 2)).astype(np.float32)
    check(ONE, mesh, lambda v: lax.pmean(v, "i"), expected, x)


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_means_of_groups_of_unequal_size(mesh):
    groups, x = [[1, 3, 0], [2]], numbers(4, 2) * 3
    sums = World(ONE).psum(x, "i", axis_index_groups=groups)
    expected = sums / np.array([3, 3, 1, 3], np.float32)[:, None]

    def f(v):
        return lax.pmean(v, "i", axis_index_groups=groups)

    check(ONE, mesh, f, expected, x)


def test_over_no_name_a_device_is_alone():
    x = numbers(1, 3)
    assert lax.psum(x, ()) is x
    np.testing.assert_array_equal(lax.all_gather(x, (), axis=1), x[:, None])
    np.testing.assert_array_equal(lax.all_gather(x, (), tiled=True), x)
    np.testing.assert_array_equal(lax.psum_scatter(x, ()), x[0])
    np.testing.assert_array_equal(lax.psum_scatter(x, (), tiled=True), x)
    np.testing.assert_array_equal(lax.all_to_all(x, (), 0, 1), x.T)
    np.testing.assert_array_equal(lax.all_to_all(x, (), 1, 0, tiled=True), x)


@pytest.mark.parametrize("to", ["invarying", "reduced"])
@pytest.mark.parametrize("names", ORDERS)
@pytest.mark.parametrize("mesh", ways(("i", "j")))
def test_all_gather_to(to, names, mesh):
    x = numbers(2, 3, 2)

    def f(v):
        v = lax.expand_dims(v, (0,))
        out = lax.all_gather(v, names, axis=1, tiled=True, to=to)
        reduced = tuple(jax.typeof(out).manual.reduced)
        return lax.squeeze(lax.pcast(out, reduced, to="varying"), (0,))

    check(TWO, mesh, f, World(TWO).all_gather(x, names, tiled=True), x)


@pytest.mark.parametrize("to", ["invarying", "reduced"])
@pytest.mark.parametrize("mesh", ways(("i", "j")))
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("tiled", [False, True])
def test_all_gather_to_in_the_order_of_one_group(to, mesh, axis, tiled):
    x, names = numbers(2, 3, 2, 2), ("j", "i")
    how = {"axis": axis, "tiled": tiled, "axis_index_groups": [[4, 0, 5, 1, 3, 2]]}

    def f(v):
        out = lax.all_gather(v, names, to=to, **how)
        manual = jax.typeof(out).manual
        assert not manual.varying
        assert manual.reduced == (set(mesh) if to == "reduced" else set())
        return lax.pcast(out, tuple(manual.reduced), to="varying")

    want = World(TWO).all_gather(x, names, **how)
    check(TWO, mesh, f, want, x)
    # Linear: <ct, J x> = <J^T ct, x>.
    linear = program(jax, TWO, mesh, f)
    ct = numbers(*want.shape) % 5
    back = jax.jit(lambda v, c: jax.vjp(linear, v)[1](c)[0])(x, ct)
    assert np.vdot(np.asarray(back), x) == np.vdot(ct, want)


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_pargmax_of_nan(mesh):
    x = np.array([[1, 5], [np.nan, 5], [3, 2], [np.nan, 7]], np.float32)
    expected = np.broadcast_to(np.array([1, 3], np.int32), (4, 2))
    check(ONE, mesh, lambda v: lax.pargmax(v, "i"), expected, x)


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_pbroadcast_from_a_computed_source(mesh):
    x = numbers(4, 2)
    source = np.array([2, 2, 2, 2], np.int32)
    expected = np.broadcast_to(x[2], (4, 2))
    check(ONE, mesh, lambda v, s: lax.pbroadcast(v, "i", s), expected, x, source)


def test_leaves_of_several_dtypes():
    tree = {"a": numbers(4, 2), "b": [numbers(4, 3).astype(np.int8), None]}
    tree["c"] = (numbers(4) > 1, numbers(4, 1).astype(np.complex64))
    f = jax.vmap(lambda v: lax.psum(v, "i"), axis_name="i", out_axes=None)
    got = f(tree)
    want = jax.tree.map(lambda x: World(ONE).psum(x, "i")[0], tree)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for y, z in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(y), z)
        assert y.dtype == z.dtype
