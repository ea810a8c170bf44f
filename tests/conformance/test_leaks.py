"""Tracers that outlive their trace, and what the library says of them."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.harness import conformance, error

V = np.arange(3, dtype=np.float32)


@pytest.fixture
def no_leaks() -> None:
    """Replaces the check that is on in all other files."""


def _leaked(transform: Any, *args: Any) -> Any:
    """A tracer of a function's argument, after the function has returned."""
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x)
        return x

    transform(f)(*args)
    return kept[0]


def used_eagerly(jax: Any) -> Any:
    """Also where the operation is compiled already for values of the tracer's type."""
    sin = jax.lax.sin
    sin(V), sin(np.float32(1))
    return [
        error(sin, _leaked(jax.jit, V)),
        error(sin, _leaked(jax.vmap, V)).name,
        error(sin, _leaked(jax.grad, 1.0)).name,
        error(sin, _leaked(jax.make_jaxpr, V)),
    ]


def used_in_another_trace(jax: Any) -> Any:
    sin = jax.lax.sin
    old = _leaked(jax.jit, V)
    return [
        error(jax.jit(lambda x: sin(old)), V),
        error(jax.jit(lambda x: jax.lax.add(x, old)), V),
        error(
            jax.grad(lambda x: jax.lax.reduce_sum(jax.lax.mul(x, old), (0,))), V
        ).name,
        error(jax.vmap(lambda x: jax.lax.add(x, old)), np.stack([V, V])).name,
    ]


def returned_from_another_trace(jax: Any) -> Any:
    old = _leaked(jax.jit, V)
    return [error(jax.jit(lambda x: old), V), error(jax.jit(lambda x: x), old)]


def intermediate_values(jax: Any) -> Any:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = jax.lax.sin(x)
        kept.append(y)
        return jax.lax.neg(y)

    jax.jit(f)(V)
    message = error(jax.lax.neg, kept[0]).message
    return [
        "The leaked intermediate value was created on line" in message,
        "traced for jit" in message,
        "float32[3]" in message,
    ]


test = conformance(globals())
