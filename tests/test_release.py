"""What was traced and compiled goes when the function that it was for goes.

Caches belong to objects and die with them; what belongs to nobody is bounded.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.bounded import Bounded
from minijax.core.jaxpr import Jaxpr
from minijax.runtime.execute import Executable
from minijax.sharding import PartitionSpec as P
from minijax.transforms import compile as compiling
from minijax.transforms import evaluate

X = np.ones(4, np.float32)


def on_two_devices(f: Any) -> Any:
    kinds = (minijax.sharding.AxisType.Auto,)
    mesh = minijax.make_mesh((2,), ("i",), axis_types=kinds)
    return minijax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def with_vjp(f: Any) -> Any:
    fun = minijax.custom_vjp(lambda x: f(x))
    fun.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * x,))
    return fun


def with_jvp(f: Any) -> Any:
    fun = minijax.custom_jvp(lambda x: f(x))
    fun.defjvp(lambda x, t: (f(x[0]), t[0] * 2))
    return fun


def scanned(f: Any) -> Any:
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


def looped(f: Any) -> Any:
    return lambda x: lax.while_loop(lambda c: jnp.sum(c) < 3, f, x)


def summed(f: Any) -> Any:
    return lambda x: jnp.sum(f(x))


jit, vmap, grad = minijax.jit, minijax.vmap, minijax.grad
USES: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: jit(f)(X),
    "stages": lambda f: jit(f).lower(X).compile()(X),
    "vmap": lambda f: vmap(f)(X),
    "vmap of jit": lambda f: vmap(jit(f))(X),
    "jit of vmap": lambda f: jit(vmap(f))(X),
    "grad": lambda f: grad(summed(f))(X),
    "grad of jit": lambda f: grad(summed(jit(f)))(X),
    "jit of grad": lambda f: jit(grad(summed(f)))(X),
    "vjp": lambda f: minijax.vjp(f, X)[1](X),
    "linearize": lambda f: minijax.linearize(f, X)[1](X),
    "checkpoint": lambda f: grad(summed(minijax.checkpoint(f)))(X),
    "custom_vjp": lambda f: grad(summed(with_vjp(f)))(X),
    "custom_vjp alone": lambda f: with_vjp(f)(X),
    "custom_jvp": lambda f: grad(summed(with_jvp(f)))(X),
    "custom_jvp in jit": lambda f: jit(with_jvp(f))(X),
    "scan": lambda f: scanned(f)(X),
    "grad of scan": lambda f: grad(summed(scanned(f)))(X),
    "jit of scan": lambda f: jit(scanned(f))(X),
    "while_loop": lambda f: looped(f)(X),
    "cond": lambda f: lax.cond(True, f, lambda y: y, X),
    "shard_map": lambda f: on_two_devices(f)(X),
    "jit of shard_map": lambda f: jit(on_two_devices(f))(X),
    "grad of shard_map": lambda f: grad(summed(on_two_devices(f)))(X),
    "make_jaxpr": lambda f: minijax.make_jaxpr(f)(X),
    "eval_shape": lambda f: minijax.eval_shape(f, X),
}


@pytest.mark.parametrize("use", USES)
def test_functions_and_what_they_capture_are_freed(use: str) -> None:
    array, other = jnp.asarray(3.0) * 1, jnp.asarray(X) * 2

    def f(x: Any, array: Any = array, other: Any = other) -> Any:
        return x * array + other[0]

    alive = [weakref.ref(o) for o in (f, array, other)]
    USES[use](f)
    del f, array, other
    gc.collect()
    assert [r() for r in alive] == [None] * 3


def living(cls: type) -> int:
    gc.collect()
    return sum(type(o) is cls for o in gc.get_objects())


@pytest.mark.parametrize("use", ["jit", "vmap of jit", "grad of jit", "shard_map"])
def test_programs_are_freed(use: str) -> None:
    """All but the last few compiled ones, which are kept for functions made anew."""
    USES[use](lambda x: x * 3 + 1)  # single operations stay
    minijax.clear_caches()
    before = living(Jaxpr), living(Executable)
    for i in range(3):
        USES[use](lambda x, i=i: x * 3 + i)
    compiling._recent.clear()
    after = living(Jaxpr), living(Executable)
    assert after[0] <= before[0]
    # What evaluates single operations is bounded, and not of this function.
    assert after[1] <= before[1] + len(evaluate._executables)


def test_a_function_made_anew_is_not_compiled_anew() -> None:
    def call() -> Executable:
        f = minijax.jit(lambda x: x * 5 - 3)
        f(X)
        return next(iter(f._ready.values())).executable

    assert call() is call()


def test_programs_last_compiled_are_kept_in_a_bounded_number() -> None:
    assert compiling._recent.maxlen is not None
    assert len(compiling._recent) <= compiling._recent.maxlen
    assert isinstance(evaluate._executables, Bounded)


def test_an_evaluated_shard_map_leaves_no_entry() -> None:
    on_two_devices(lambda x: x * 2)(X)
    entries = len(evaluate._executables)
    for _ in range(3):
        on_two_devices(lambda x: x * 2)(X)
    assert len(evaluate._executables) == entries


def test_a_jitted_function_forgets_its_oldest_signatures() -> None:
    f = minijax.jit(lambda x, n: x * 2, static_argnums=1)
    f._ready.most = f._traced.most = 5
    for n in range(20):
        np.testing.assert_array_equal(f(X, n), X * 2)
    assert len(f._ready) == len(f._traced) == 5
    np.testing.assert_array_equal(f(X, 0), X * 2)


def test_arrays_that_a_program_was_given_are_freed() -> None:
    f = minijax.jit(lambda x, y: (x + y, y))
    x, y = jnp.asarray(X) * 1, jnp.asarray(X) * 2
    out = f(x, y)
    alive = [weakref.ref(o) for o in (x, y, *out)]
    del x, y, out
    assert [r() for r in alive] == [None] * 4
