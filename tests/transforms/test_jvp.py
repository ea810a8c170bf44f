"""`jvp`: tangents follow values, symbolic zeros cost nothing."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax

X = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3)
T = np.ones_like(X)


@pytest.mark.parametrize(
    ("f", "df"),
    [
        (jnp.sin, np.cos),
        (jnp.exp, np.exp),
        (lambda x: x**2, lambda x: 2 * x),
        (lambda x: 1 / x, lambda x: -1 / x**2),
        (jnp.tanh, lambda x: 1 / np.cosh(x) ** 2),
        (jnp.sqrt, lambda x: 0.5 / np.sqrt(x)),
        (jnp.log, lambda x: 1 / x),
        (lambda x: jnp.maximum(x, 0.5), lambda x: (x > 0.5) * 1.0),
        (minijax.jit(jnp.cos), lambda x: -np.sin(x)),
        (minijax.vmap(jnp.arctan), lambda x: 1 / (1 + x**2)),
        (lambda x: lax.stop_gradient(x), np.zeros_like),
    ],
)
def test_known_derivatives(f: Any, df: Any) -> None:
    y, t = minijax.jvp(f, (X,), (T,))
    np.testing.assert_allclose(y, f(X), rtol=1e-6)
    np.testing.assert_allclose(t, df(X), rtol=1e-5, atol=1e-6)


def test_trees_of_primals_have_trees_of_tangents() -> None:
    def f(d: Any, y: Any) -> Any:
        return {"p": d["a"] * y, "q": [d["a"], None]}

    out, tangent = minijax.jvp(f, ({"a": X}, X), ({"a": T}, 2 * T))
    np.testing.assert_allclose(out["p"], X**2, rtol=1e-6)
    np.testing.assert_allclose(tangent["p"], 3 * X, rtol=1e-6)
    np.testing.assert_array_equal(tangent["q"][0], T)


def test_the_tangent_is_linear_in_the_direction() -> None:
    def push(t: Any) -> Any:
        return minijax.jvp(lambda x: jnp.sin(x) * x, (X,), (t,))[1]

    u, v = X[::-1], X + 1
    np.testing.assert_allclose(push(2 * u + v), 2 * push(u) + push(v), rtol=1e-5)


def test_what_does_not_depend_on_the_input_computes_no_tangent() -> None:
    def f(x: Any, y: Any) -> Any:
        return x, jnp.exp(y)

    text = str(
        minijax.make_jaxpr(lambda t: minijax.jvp(lambda x: f(x, X), (X,), (t,)))(T)
    )
    assert text.count("exp") == 1
    assert "mul" not in text


def test_a_jitted_body_is_differentiated_once() -> None:
    inner = minijax.jit(lambda x: jnp.sin(x) * x)

    def f(x: Any) -> Any:
        return inner(inner(x))

    jaxpr = minijax.make_jaxpr(lambda x, t: minijax.jvp(f, (x,), (t,)))(X, T)
    first, second = [eqn.params["jaxpr"] for eqn in jaxpr.eqns]
    assert first is second


def test_second_tangents() -> None:
    def push(x: Any) -> Any:
        return minijax.jvp(lambda y: y**3, (x,), (np.float32(1),))[1]

    _, second = minijax.jvp(push, (np.float32(2),), (np.float32(1),))
    np.testing.assert_allclose(second, 12.0)


def test_auxiliary_results() -> None:
    def f(x: Any) -> Any:
        return x**2, {"x": x}

    y, t, aux = minijax.jvp(f, (X,), (T,), has_aux=True)
    np.testing.assert_allclose(y, X**2, rtol=1e-6)
    np.testing.assert_allclose(t, 2 * X, rtol=1e-6)
    np.testing.assert_array_equal(aux["x"], X)


def test_tangents_of_integers_are_float0() -> None:
    zero = np.zeros((), [("float0", "V")])
    y, t = minijax.jvp(lambda x, n: x * n, (2.0, 3), (1.0, zero))
    assert (float(y), float(t)) == (6.0, 3.0)


def test_tangents_keep_the_dtype_and_weak_type() -> None:
    half = X.astype(np.float16)
    _, t = minijax.jvp(jnp.sin, (half,), (half,))
    assert t.dtype == np.float16
    _, t = minijax.jvp(lambda x: x * 2, (1.0,), (1.0,))
    assert t.weak_type
