"""The transpose of every collective, against the matrix that `lockstep` spells out.

Every collective but pmax and pmin is linear. What its transpose must be is read off its
matrix, found by applying the lock-step collective to each basis vector; the cotangents
of all devices count. The derivative is taken around the named axes, and inside them.
"""

from __future__ import annotations

import numpy as np
import pytest

import minijax as jax
from minijax import lax
from tests.lax.collectives.programs import (
    CASES,
    all_of_them,
    expected_of,
    program,
    usable,
    ways,
)
from tests.lockstep import World

SIZES = {"i": 2, "j": 2}


LINEAR = {k: case for k, case in CASES.items() if case.linear}


def transposed(fun, x, ct):
    """The transpose of a linear function on stacked values, applied to `ct`."""
    rows = []
    for k in range(x.size):
        basis = np.zeros(x.size, x.dtype)
        basis[k] = 1
        rows.append(np.vdot(fun(basis.reshape(x.shape)), ct))
    return np.asarray(rows, x.dtype).reshape(x.shape)


def random(*shape):
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)


def vary(x, sizes):
    """A result that is the same along some axes may differ from now on."""
    held = jax.typeof(x).manual.varying
    env = [n for n in sizes if n not in held]
    return lax.pcast(x, tuple(env), to="varying") if env else x


def check(sizes, mesh, names, groups, check_vma, inside):
    n = len(groups[0]) if groups else int(np.prod([sizes[n] for n in names]))
    x, world = random(*sizes.values(), n, n, 2), World(sizes)
    linear = usable(LINEAR, groups)
    typed = mesh if check_vma else ()
    cts = {
        k: random(*y.shape)
        for k, y in expected_of(world, x, names, groups, linear).items()
    }

    def result(k):
        one = all_of_them(names, groups, {k: linear[k]})
        return lambda v: vary(one(v)[k], typed)

    def around(k):
        return result(k) if inside else program(jax, sizes, mesh, result(k), check_vma)

    def pulled(v, ct):
        return {k: jax.vjp(around(k), v)[1](ct[k])[0] for k in linear}

    f = program(jax, sizes, mesh, pulled, check_vma) if inside else pulled
    got = jax.jit(f)(x, cts)
    for k, case in linear.items():
        one = {k: case}
        want = transposed(
            lambda v, k=k, one=one: expected_of(world, v, names, groups, one)[k],
            x,
            cts[k],
        )
        np.testing.assert_array_equal(np.asarray(got[k]), want, err_msg=k)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize("groups", [None, [[1, 2], [3, 0]]])
@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_one_name(mesh, groups, check_vma, inside):
    check({"i": 4}, mesh, ("i",), groups, check_vma, inside)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("mesh", ways(("i", "j")))
def test_two_names(mesh, inside):
    check(SIZES, mesh, ("j", "i"), None, True, inside)


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_ppermute(mesh):
    perm, x = [(0, 2), (3, 0)], random(4, 3)
    f = program(jax, {"i": 4}, mesh, lambda v: lax.ppermute(v, "i", perm))
    ct = random(4, 3)
    want = transposed(lambda v: World({"i": 4}).ppermute(v, "i", perm), x, ct)
    np.testing.assert_array_equal(np.asarray(jax.vjp(f, x)[1](ct)[0]), want)


@pytest.mark.parametrize("to", ["invarying", "reduced"])
@pytest.mark.parametrize("names", [("i",), ("j", "i")])
@pytest.mark.parametrize("mesh", ways(("i", "j")))
def test_all_gather_to(to, names, mesh):
    """Copies are one value here: `vary` sums their cotangents, as it should."""
    x, world = random(2, 2, 3), World(SIZES)

    def f(v):
        out = lax.all_gather(v, names, to=to)
        reduced = tuple(jax.typeof(out).manual.reduced)
        return vary(lax.pcast(out, reduced, to="varying"), mesh)

    linear = program(jax, SIZES, mesh, f)
    ct = random(*np.shape(world.all_gather(x, names)))
    want = transposed(lambda v: world.all_gather(v, names), x, ct)
    np.testing.assert_array_equal(np.asarray(jax.vjp(linear, x)[1](ct)[0]), want)
    again = jax.jit(lambda v, c: jax.vjp(linear, v)[1](c)[0])(x, ct)
    np.testing.assert_array_equal(np.asarray(again), want)


@pytest.mark.parametrize("mesh", [(), ("i",)])
def test_second_derivatives_alternate_between_the_two(mesh):
    def f(v):
        return lax.all_to_all(v, "i", 0, 1)

    x = random(4, 4, 3)
    linear = program(jax, {"i": 4}, mesh, f)
    ct = random(4, 3, 4)
    there = lambda c: jax.vjp(linear, x)[1](c)[0]  # noqa: E731
    back = jax.vjp(there, ct)[1](x)[0]
    np.testing.assert_array_equal(np.asarray(back), np.asarray(linear(x)))


def test_pmax_has_no_derivative():
    f = program(jax, {"i": 4}, (), lambda v: lax.pmax(v, "i"))
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'pmax'"):
        jax.vjp(f, random(4, 2))
