"""`jvp`, `linearize`, `vjp`, `grad`: values, options, and what they refuse."""

from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, text

X = np.arange(6, dtype=np.float32).reshape(2, 3) / 6
V = np.arange(3, dtype=np.float32) / 3
Z = np.array([1 + 2j, 3 - 1j], np.complex64)
ONE = np.float32(1)


def _total(jax: Any, x: Any) -> Any:
    return jax.lax.reduce_sum(x, tuple(range(np.ndim(x))))


def arguments(jax: Any) -> Any:
    lax, grad = jax.lax, jax.grad

    def f(x: Any, y: Any, *, z: Any = 1.0) -> Any:
        return lax.mul(lax.mul(lax.sin(x), lax.exp(y)), z)

    return [
        grad(f)(1.0, 2.0),
        grad(f, 1)(1.0, 2.0),
        grad(f, -1)(1.0, 2.0),
        grad(f, (0, 1))(1.0, 2.0),
        grad(f, [1, 0])(1.0, 2.0),
        grad(f, (0,))(1.0, 2.0),
        grad(f)(1.0, 2.0, z=3.0),
        grad(lambda d: lax.mul(d["a"], d["b"][0]))({"a": 2.0, "b": [3.0, None]}),
        jax.value_and_grad(f)(1.0, 2.0),
        jax.value_and_grad(f, (0, 1))(1.0, 2.0),
        grad(lambda x, y: _total(jax, lax.mul(x, y)))(X, X),
        grad(lambda x: 1.0)(2.0),
        grad(lambda x, y: x)(2.0, 1),
        grad(lambda x: _total(jax, lax.convert_element_type(x, np.float32)))(
            V.astype(np.float16)
        ),
    ]


def auxiliary_results(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        y = lax.sin(x)
        return lax.mul(y, x), {"y": y, "n": 3, "v": V}

    return [
        jax.grad(f, has_aux=True)(1.0),
        jax.value_and_grad(f, has_aux=True)(1.0),
        jax.vjp(f, 1.0, has_aux=True)[::2],
        jax.vjp(f, 1.0, has_aux=True)[1](2.0),
        jax.linearize(f, 1.0, has_aux=True)[::2],
        jax.linearize(f, 1.0, has_aux=True)[1](2.0),
        jax.jvp(f, (1.0,), (2.0,), has_aux=True),
        text(jax, jax.grad(f, has_aux=True), 1.0),
    ]


def integers(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any, n: Any) -> Any:
        return lax.mul(x, lax.convert_element_type(n, np.float32))

    n = np.int32(3)
    return [
        jax.grad(f, (0, 1), allow_int=True)(ONE, n),
        jax.grad(f, 1, allow_int=True)(ONE, n),
        jax.vjp(f, ONE, n)[1](ONE),
        jax.grad(lambda d: f(d["x"], d["n"]), allow_int=True)({"x": ONE, "n": n}),
        jax.vjp(lambda x: (x, lax.convert_element_type(x, np.int32)), ONE)[0],
        text(jax, jax.grad(f, (0,)), ONE, n),
    ]


def complex_numbers(jax: Any) -> Any:
    lax = jax.lax

    def real_of(z: Any) -> Any:
        return lax.real(lax.mul(z, lax.conj(z)))

    z = np.complex64(1 + 2j)
    return [
        jax.grad(lambda z: lax.mul(z, z), holomorphic=True)(z),
        jax.grad(lambda z: lax.sin(z), holomorphic=True)(z),
        jax.vjp(real_of, z)[1](ONE),
        jax.grad(real_of)(z),
        jax.grad(lambda x: real_of(lax.complex(x, x)))(ONE),
        jax.grad(lambda x: lax.imag(lax.exp(lax.complex(x, ONE))))(ONE),
        jax.jvp(lambda z: lax.mul(z, z), (Z,), (Z,)),
        jax.vjp(lambda z: lax.mul(z, z), Z)[1](Z),
        text(jax, lambda z: jax.vjp(real_of, z)[1](ONE), z),
    ]


def higher_orders(jax: Any) -> Any:
    lax, grad = jax.lax, jax.grad

    def f(x: Any) -> Any:
        return lax.mul(lax.sin(x), lax.integer_pow(x, 3))

    def hvp(x: Any, v: Any) -> Any:
        g = grad(lambda x: _total(jax, f(x)))
        return jax.jvp(g, (x,), (v,))[1]

    return [
        grad(grad(f))(1.0),
        grad(grad(grad(f)))(1.0),
        jax.jit(grad(jax.jit(grad(jax.jit(f)))))(1.0),
        hvp(V, V),
        jax.grad(lambda x: _total(jax, hvp(x, V)))(V),
        jax.jvp(lambda x: jax.jvp(f, (x,), (1.0,))[1], (1.0,), (1.0,)),
        jax.vmap(grad(grad(f)))(V),
        grad(lambda x: grad(lambda y: lax.mul(lax.mul(x, y), y))(x))(3.0),
        grad(lambda x: lax.mul(x, grad(lambda y: lax.add(x, y))(1.0)))(1.0),
        text(jax, grad(grad(f)), 1.0),
        text(jax, lambda x: jax.jvp(grad(f), (x,), (1.0,)), 1.0),
    ]


def pushed_forward(jax: Any) -> Any:
    lax, jvp = jax.lax, jax.jvp

    def f(x: Any, y: Any) -> Any:
        return {"s": lax.sin(x), "p": [lax.mul(x, y)]}

    return [
        jvp(f, (V, V), (V, V)),
        jvp(lambda d: lax.exp(d["a"]), ({"a": V},), ({"a": V},)),
        jvp(lambda x: V, (V,), (V,)),
        jvp(lambda x: (x, 1.0), (1.0,), (2.0,)),
        jax.linearize(f, V, V)[0],
        jax.linearize(f, V, V)[1](V, V),
        jax.linearize(lambda x: V, V)[1](V),
        text(jax, lambda x: jax.linearize(f, x, x)[1](x, x), V),
    ]


def pulled_back(jax: Any) -> Any:
    lax = jax.lax
    y, pull = jax.vjp(lambda x, d: (lax.mul(x, d["a"]), lax.neg(x)), V, {"a": V})
    return [
        y,
        pull((V, V)),
        pull((V, V)),
        jax.vjp(lambda x: lax.reduce_max(x, (0,)), V)[1](ONE),
        jax.vjp(lambda x: (), V)[1](()),
        text(jax, lambda c: pull((c, c)), V),
    ]


def stopped(jax: Any) -> Any:
    lax = jax.lax
    stop = lax.stop_gradient
    return [
        jax.grad(lambda x: lax.mul(x, stop(x)))(3.0),
        jax.jvp(lambda x: stop(x), (1.0,), (1.0,)),
        text(jax, jax.grad(lambda x: lax.mul(x, stop(lax.sin(x)))), 3.0),
    ]


def control_in_python(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        return lax.sin(x) if x > 0 else lax.cos(x)

    return [error(jax.grad(f), V).name]


def wrong_calls(jax: Any) -> Any:
    lax, grad = jax.lax, jax.grad

    def one(x: Any) -> Any:
        return x

    _, pull = jax.vjp(lambda x: {"a": x, "b": (x,)}, V)
    _, push = jax.linearize(one, V)
    return [
        error(grad, 3),
        error(grad(one), 1),
        error(grad(one), np.complex64(1)),
        error(grad(one), "text"),
        error(grad(one), V),
        error(grad(lambda x: (x, x)), 1.0).name,
        error(grad(lambda x: {"a": x}), 1.0).name,
        error(grad(lambda x: None), 1.0),
        error(grad(lambda x: "text"), 1.0),
        error(grad(lambda x: lax.convert_element_type(x, np.int32)), 1.0),
        error(grad(lambda x: lax.complex(x, x)), 1.0),
        error(grad(one, holomorphic=True), 1.0),
        error(grad(lambda z: lax.real(z), holomorphic=True), np.complex64(1)),
        error(grad(one, 1), 1.0),
        error(grad(one, (0, 2)), 1.0),
        error(grad(one, -2), 1.0),
        error(grad(one, has_aux=True), 1.0).name,
        error(grad(lambda x: (1, 1, 2), has_aux=True), 1.0),
        error(jax.value_and_grad(one), 1),
        error(jax.value_and_grad(one), V),
        error(jax.jvp, one, (V,), (V, V)),
        error(jax.jvp, one, V, V),
        error(jax.jvp, one, (V,), (X,)),
        error(jax.jvp, one, (V,), (V.astype(np.int32),)),
        error(jax.jvp, one, (1,), (1,)),
        error(jax.jvp, lambda d: d, ({"a": V},), ({"b": V},)),
        error(jax.jvp, one, ("text",), ("text",)),
        error(jax.jvp, 3, (V,), (V,)),
        error(pull, (V, V)),
        error(pull, {"a": X, "b": (V,)}),
        error(pull, {"a": V.astype(np.int32), "b": (V,)}),
        error(push, X),
        error(push, V, V),
        error(push, V.astype(np.int32)),
        error(jax.vjp, 3, 1.0),
        error(jax.vjp, lambda x: "text", 1.0),
        error(jax.linearize, one, "text"),
        error(jax.linearize, lambda x: "text", 1.0),
    ]


test = conformance(globals())
