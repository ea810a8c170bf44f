"""`grad`, `vjp`, `linearize`: against finite differences and against each other."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax

RNG = np.random.default_rng(0)
X = RNG.uniform(0.2, 1.0, size=(3, 4)).astype(np.float32)
W = RNG.normal(size=(4, 2)).astype(np.float32)

FUNCTIONS: dict[str, Any] = {
    "polynomial": lambda x: jnp.sum(x**3 - 2 * x),
    "quotient": lambda x: jnp.sum(x / (1 + x**2)),
    "network": lambda x: jnp.mean(jnp.tanh(x @ W) ** 2),
    "softmax": lambda x: jnp.sum(
        jnp.exp(x) / jnp.sum(jnp.exp(x), 1, keepdims=True) * x
    ),
    "largest": lambda x: jnp.max(x) * jnp.min(x),
    "indexed": lambda x: x[0, 1] * x[2, 3] + x[1].sum(),
    "updated": lambda x: jnp.sum(jnp.asarray(x).at[0].multiply(x[1]) ** 2),
    "where": lambda x: jnp.sum(jnp.where(x > 0.5, x**2, jnp.sin(x))),
    "norm": lambda x: jnp.linalg.norm(x),
    "sorted": lambda x: jnp.sum(jnp.sort(x) * jnp.arange(4.0)),
    "jitted": minijax.jit(lambda x: jnp.sum(jnp.sin(x) * x)),
    "mapped": lambda x: jnp.sum(minijax.vmap(lambda r: r * jnp.sum(r))(x)),
    "cumulative": lambda x: jnp.sum(jnp.cumsum(x, 1) * jnp.cumprod(x, 0)),
    "concatenated": lambda x: jnp.sum(jnp.concatenate([x, x * x]).reshape(2, -1)[1]),
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_are_finite_differences(f: Any) -> None:
    direction = RNG.normal(size=X.shape).astype(np.float32)
    step = np.float32(2**-9)
    slope = (f(X + step * direction) - f(X - step * direction)) / (2 * step)
    gradient = minijax.jit(minijax.grad(f))(X)
    assert (gradient.shape, gradient.dtype) == (X.shape, X.dtype)
    np.testing.assert_allclose(
        np.sum(gradient * direction), slope, rtol=2e-2, atol=5e-3
    )


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_modes_agree(f: Any) -> None:
    def all_modes(x: Any, t: Any) -> Any:
        value, pushed = minijax.jvp(f, (x,), (t,))
        linear_value, f_jvp = minijax.linearize(f, x)
        pulled_value, f_vjp = minijax.vjp(f, x)
        both = minijax.value_and_grad(f)(x)
        values = (value, linear_value, pulled_value, both[0])
        (pulled,) = f_vjp(jnp.ones_like(value))
        return values, (pushed, f_jvp(t), jnp.vdot(pulled, t), jnp.vdot(both[1], t))

    t = np.ones_like(X)
    values, slopes = minijax.jit(all_modes)(X, t)
    np.testing.assert_allclose(values, [f(X)] * 4, rtol=1e-5)
    np.testing.assert_allclose(slopes, [slopes[0]] * 4, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["polynomial", "network", "softmax", "mapped"])
def test_the_hessian_is_symmetric(name: str) -> None:
    f = FUNCTIONS[name]

    def hessian_times(v: Any) -> Any:
        return minijax.jvp(minijax.grad(f), (X,), (v,))[1]

    u, v = RNG.normal(size=(2, *X.shape)).astype(np.float32)
    left, right = minijax.jit(
        lambda u, v: (jnp.vdot(u, hessian_times(v)), jnp.vdot(v, hessian_times(u)))
    )(u, v)
    np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)


def test_gradients_have_the_tree_of_the_argument() -> None:
    params = {"w": W, "b": [np.float32(1), None], "none": ()}

    def loss(params: Any, x: Any) -> Any:
        return jnp.sum(x @ params["w"]) * params["b"][0]

    found = minijax.grad(loss)(params, X)
    assert minijax.tree.structure(found) == minijax.tree.structure(params)
    both = minijax.grad(loss, (0, 1))(params, X)
    assert isinstance(both, tuple)
    assert both[1].shape == X.shape


def test_what_does_not_reach_the_result_has_gradient_zero() -> None:
    found = minijax.grad(lambda d: jnp.sum(d["x"]))({"x": X, "y": W})
    np.testing.assert_array_equal(found["y"], np.zeros_like(W))
    np.testing.assert_array_equal(minijax.grad(lambda x: 3.0)(X), np.zeros_like(X))


def test_auxiliary_results_pass_through_and_are_not_differentiated() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return jnp.sum(y), {"y": y, "count": 3}

    gradient, aux = minijax.grad(f, has_aux=True)(X)
    np.testing.assert_allclose(gradient, np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(aux["y"], np.sin(X), rtol=1e-5)
    assert aux["count"] == 3
    jitted = minijax.jit(minijax.value_and_grad(f, has_aux=True))
    (value, aux), gradient = jitted(X)
    np.testing.assert_allclose(value, np.sin(X).sum(), rtol=1e-5)


def test_auxiliary_results_of_a_gradient_of_a_gradient() -> None:
    def inner(x: Any) -> Any:
        return x**3, x

    def outer(x: Any) -> Any:
        gradient, aux = minijax.grad(inner, has_aux=True)(x)
        return gradient * aux

    np.testing.assert_allclose(minijax.grad(outer)(2.0), 36.0, rtol=1e-6)


def test_perturbations_are_not_confused() -> None:
    """d/dx (x * d/dy (x + y)) = 1, not 2."""
    inner = minijax.grad
    found = minijax.grad(lambda x: x * inner(lambda y: x + y)(1.0))(1.0)
    np.testing.assert_allclose(found, 1.0)


def test_a_pullback_can_be_used_many_times_and_mapped() -> None:
    y, f_vjp = minijax.vjp(lambda x: jnp.tanh(x @ W), X)
    basis = np.eye(y.size, dtype=np.float32).reshape(-1, *y.shape)
    (rows,) = minijax.vmap(f_vjp)(basis)
    (first,) = f_vjp(basis[0])
    assert rows.shape == (y.size, *X.shape)
    np.testing.assert_allclose(rows[0], first, rtol=1e-5)


def test_python_control_flow_on_values_is_followed() -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x) if x > 0 else jnp.cos(x)

    np.testing.assert_allclose(minijax.grad(f)(1.0), np.cos(1), rtol=1e-5)
    np.testing.assert_allclose(minijax.grad(f)(-1.0), np.sin(1), rtol=1e-5)


def test_complex_gradients_are_conjugate_wirtinger_derivatives() -> None:
    z = np.complex64(1 + 2j)
    np.testing.assert_allclose(
        minijax.grad(lambda z: jnp.real(z * jnp.conj(z)))(z), 2 * np.conj(z), rtol=1e-5
    )
    holomorphic = minijax.grad(lambda z: z**3, holomorphic=True)
    np.testing.assert_allclose(holomorphic(z), 3 * z**2, rtol=1e-5)


def test_integers_have_no_gradient() -> None:
    def f(x: Any, n: Any) -> Any:
        return x * n

    dx, dn = minijax.grad(f, (0, 1), allow_int=True)(2.0, 3)
    assert float(dx) == 3.0
    assert dn.dtype == [("float0", "V")]


def test_linear_programs_are_small() -> None:
    """The work on primals is done once, when linearizing."""
    _, f_jvp = minijax.linearize(lambda x: jnp.sin(jnp.exp(x) * 2), X)
    text = str(minijax.make_jaxpr(f_jvp)(X))
    assert "sin" not in text
    assert "exp" not in text


def test_stop_gradient() -> None:
    f = minijax.grad(lambda x: x * lax.stop_gradient(x))
    np.testing.assert_allclose(f(3.0), 3.0)
