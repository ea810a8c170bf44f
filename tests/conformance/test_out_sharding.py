"""`out_sharding` of functions above lax: what has it, the types, and where results lie.

Samplers compute while the mesh axes are Auto, so their programs print otherwise than
upstream's; values, types and errors are the same.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minijax
from tests.conformance.explicit_programs import PROGRAMS, Program
from tests.conformance.harness import conformance, error
from tests.conformance.test_explicit import MESHES, make_mesh, operand

MESH = MESHES["two"]
X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize("home", ["lax", "numpy", "random", "nn"])
def test_every_function_takes_it_where_upstream_does(
    home: str, upstream: ModuleType
) -> None:
    ours, theirs = getattr(minijax, home), getattr(upstream, home)
    missing = []
    for name in sorted(set(dir(ours)) & set(dir(theirs))):
        fun = getattr(ours, name)
        if name.startswith("_") or not inspect.isfunction(inspect.unwrap(fun)):
            continue
        wanted = inspect.signature(getattr(theirs, name)).parameters
        found = inspect.signature(fun).parameters
        if "out_sharding" in wanted and "out_sharding" not in found:
            missing.append(name)
    assert not missing


def samplers(jax: Any) -> Any:
    P, random = jax.sharding.PartitionSpec, jax.random
    key = np.array([0, 7], np.uint32)
    to = {"out_sharding": P("x", "y")}
    logits = np.arange(4, dtype=np.float32)
    with jax.set_mesh(make_mesh(jax, MESH)):
        return [
            random.bernoulli(key, 0.5, (8, 4), **to),
            random.exponential(key, (8, 4), **to),
            random.gumbel(key, (8, 4), **to),
            random.truncated_normal(key, -1.0, 1.0, (8, 4), **to),
            random.permutation(key, X, **to),
            random.permutation(key, 8, out_sharding=P("x")),
            random.permutation(key, X, independent=True, **to),
            random.categorical(key, logits, shape=(8, 4), **to),
            random.uniform(key, (8, 4), **to),
            random.normal(key, (8, 4), **to),
            random.randint(key, (8, 4), 0, 9, **to),
            random.bits(key, (8, 4), **to),
            jax.jit(lambda k: random.gumbel(k, (8, 4), **to))(key),
            error(random.exponential, key, (8, 4), out_sharding=P("z")),
            error(random.bernoulli, key, 0.5, (8, 4), out_sharding="x"),
            error(random.permutation, key, X, out_sharding=3),
        ]


def numpy_functions(jax: Any) -> Any:
    P, jnp = jax.sharding.PartitionSpec, jax.numpy
    with jax.set_mesh(make_mesh(jax, MESH)):
        x = jax.device_put(X, P("x", "y"))
        i = jax.device_put(np.arange(8), P("x"))
        return [
            jnp.zeros_like(x, out_sharding=P("y")),
            jnp.ones_like(x, out_sharding=P(None, "x")),
            jnp.zeros_like(x),
            jnp.percentile(x, 50.0, axis=1, out_sharding=P("y")),
            jax.nn.one_hot(i, 8, out_sharding=P("x", "y")),
            jax.nn.one_hot(i, 8, axis=0, out_sharding=P("y", "x")),
            jax.nn.one_hot(i, 8),
            error(jax.nn.one_hot, i, 8, out_sharding=P("y", "x")),
            error(jax.nn.one_hot, i, 8, out_sharding="x"),
            error(jnp.ones_like, x, out_sharding=3),
        ]


def _spec(x: Any) -> Any:
    return x.sharding.spec.for_aval(x.ndim)


def _misplaced(program: Program) -> str | None:
    """What is wrong with where the results of a compiled program lie."""
    mesh = make_mesh(minijax, MESH)
    types = [operand(minijax, mesh, MESH, t) for t in program.operands]
    stated: list[Any] = []

    def fun(*xs: Any) -> Any:
        leaves = minijax.tree.leaves(program.fun(minijax, *xs))
        stated.extend(minijax.typeof(x).sharding.spec for x in leaves)
        return leaves

    with minijax.set_mesh(mesh):
        try:
            values = [
                minijax.device_put(np.ones(t.shape, t.dtype), t.sharding) for t in types
            ]
            minijax.make_jaxpr(fun)(*values)
        except Exception:  # it is refused, as `test_explicit` shows
            return None
        stated.clear()
        try:
            found = [_spec(x) for x in minijax.jit(fun)(*values)]
        except Exception as e:
            return f"{type(e).__name__}: {str(e)[:200]}"
    return None if found == stated else f"{found}, but the types say {stated}"


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
def test_compiled_programs_leave_results_where_their_types_say() -> None:
    chosen = PROGRAMS[::4]
    wrong = [f"{p.name} {p.operands}: {w}" for p in chosen if (w := _misplaced(p))]
    assert not wrong, "\n".join(wrong)


test = conformance(globals())
