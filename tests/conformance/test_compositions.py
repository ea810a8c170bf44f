"""Every order of up to three transformations: same values, and jaxprs that check."""

import contextlib
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minijax
from minijax.core.check import check_jaxpr
from minijax.core.jaxpr import JaxprEqn
from minijax.transforms.shard_map_primitive import inside, shard_map_p

Fun = Callable[[Any], Any]
X = np.array([0.3, -0.5, 0.8, 1.1], np.float32)


def base(jax: Any, x: Any) -> Any:
    """Not linear, and every result depends on every element."""
    lax = jax.lax
    return lax.mul(lax.sin(x), lax.reduce_sum(lax.mul(x, x), (0,)))


# Each turns a function of a vector, of any length, to another such.


def jit(jax: Any, f: Fun) -> Fun:
    return jax.jit(f)


def vmap(jax: Any, f: Fun) -> Fun:
    def mapped(x: Any) -> Any:
        rows = jax.lax.concatenate([x, jax.lax.neg(x)], 0)
        rows = jax.lax.reshape(rows, (2, x.shape[0]))
        return jax.lax.reduce_sum(jax.vmap(f)(rows), (0,))

    return mapped


def grad(jax: Any, f: Fun) -> Fun:
    return jax.grad(lambda x: jax.lax.reduce_sum(f(x), (0,)))


def jvp(jax: Any, f: Fun) -> Fun:
    return lambda x: jax.jvp(f, (x,), (x,))[1]


def linearize(jax: Any, f: Fun) -> Fun:
    return lambda x: jax.linearize(f, x)[1](x)


def vjp(jax: Any, f: Fun) -> Fun:
    return lambda x: jax.vjp(f, x)[1](x)[0]


def shard_map(jax: Any, f: Fun) -> Fun:
    auto = jax.sharding.AxisType.Auto
    mesh, spec = jax.make_mesh((2,), "i", (auto,)), jax.sharding.PartitionSpec("i")
    return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)


def checkpoint(jax: Any, f: Fun) -> Fun:
    return jax.checkpoint(f)


VERBS = [jit, vmap, grad, jvp, linearize, vjp, shard_map, checkpoint]
# Those that stand for others where three are run: compiling takes most of the time.
FEW = [v for v in VERBS if v in (vmap, grad, jvp, shard_map, checkpoint)]
Word = tuple[Callable[..., Fun], ...]


def words(outermost: Callable[..., Fun], thirds: list[Any]) -> list[Word]:
    """All that can be: a mesh axis cannot be mapped twice."""
    tails = [t for n in (0, 1) for t in itertools.product(VERBS, repeat=n)]
    if outermost in thirds:
        tails += itertools.product(thirds, repeat=2)
    return [w for t in tails if (w := (outermost, *t)).count(shard_map) < 2]


def compose(jax: Any, word: Word) -> Fun:
    def f(x: Any) -> Any:
        return base(jax, x)

    for verb in reversed(word):
        f = verb(jax, f)
    return f


def _enter(eqn: JaxprEqn) -> Any:
    """Binds the axis names that an equation binds for its body."""
    if eqn.primitive is not shard_map_p:
        return contextlib.nullcontext()
    params = eqn.params
    return inside(params["mesh"], params["newly_manual_axes"], params["check_vma"])


def name(word: Word) -> str:
    return " ".join(verb.__name__ for verb in word)


@pytest.mark.parametrize("outermost", VERBS, ids=lambda v: v.__name__)
def test_values_are_the_same(
    outermost: Callable[..., Fun], upstream: ModuleType
) -> None:
    """All of them in one program, as compiling is what takes the time."""
    chosen = words(outermost, FEW)

    def values(jax: Any) -> dict[str, Any]:
        return jax.jit(lambda x: {name(w): compose(jax, w)(x) for w in chosen})(X)

    found, expected = values(minijax), values(upstream)
    for word in chosen:
        np.testing.assert_allclose(
            np.asarray(found[name(word)]),
            np.asarray(expected[name(word)]),
            rtol=1e-4,
            atol=1e-5,
            err_msg=name(word),
        )


@pytest.mark.parametrize("outermost", VERBS, ids=lambda v: v.__name__)
def test_jaxprs_check(outermost: Callable[..., Fun]) -> None:
    for word in words(outermost, VERBS):
        jaxpr = minijax.make_jaxpr(compose(minijax, word))(X)
        check_jaxpr(jaxpr.jaxpr, _enter)
        (aval,) = jaxpr.out_avals
        assert (aval.shape, aval.dtype) == ((4,), np.float32), name(word)
