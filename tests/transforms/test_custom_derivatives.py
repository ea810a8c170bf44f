"""checkpoint, custom rules, linear_transpose and Jacobians, held against upstream."""

from functools import partial
from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, text

X = np.array([0.3, -0.5, 0.8, 1.1], np.float32)
Y = np.array([[0.3, -0.5], [0.8, 1.1], [0.2, 0.7]], np.float32)


def _sum(jax: Any, x: Any) -> Any:
    return jax.lax.reduce_sum(x, tuple(range(np.ndim(x))))


def _every_way(jax: Any, f: Any, x: Any, forward: bool = True) -> list[Any]:
    def total(x: Any) -> Any:
        return _sum(jax, f(x))

    rows = np.stack([x, 2 * x, x - 1])
    found = [
        f(x),
        jax.jit(f)(x),
        jax.grad(total)(x),
        jax.jit(jax.grad(total))(x),
        jax.grad(jax.jit(total))(x),
        jax.vmap(f)(rows),
        jax.vmap(jax.grad(total))(rows),
        jax.vmap(jax.grad(jax.jit(total)), in_axes=1, out_axes=1)(rows.T),
        jax.grad(lambda r: _sum(jax, jax.vmap(f)(r)))(rows),
        jax.grad(lambda x: _sum(jax, jax.grad(total)(x)))(x),
        jax.jit(jax.grad(lambda x: _sum(jax, jax.grad(jax.jit(total))(x))))(x),
    ]
    if forward:
        found += [jax.jvp(f, (x,), (x,)), jax.jvp(jax.grad(total), (x,), (x,))]
    return found


# ------------------------------------------------------------------------- checkpoint


def checkpoint_every_way(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        scale = lax.exp(x[0])
        inner = jax.checkpoint(lambda v: lax.sin(lax.sin(v) * scale))
        return inner(x) * x

    return _every_way(jax, f, X)


def checkpoint_nested(jax: Any) -> Any:
    lax = jax.lax

    @jax.checkpoint
    def step(c: Any, x: Any) -> Any:
        c = jax.jit(jax.checkpoint(lambda c: lax.sin(c) * x))(c)
        return c, lax.cond(x > 0, lax.sin, lambda v: v * v, c)

    @jax.checkpoint
    def f(x: Any) -> Any:
        return lax.scan(step, x[0], x)[1]

    return _every_way(jax, f, X)


def checkpoint_text(jax: Any) -> Any:
    lax = jax.lax
    f = jax.checkpoint(lambda x: lax.sin(lax.sin(x)))
    return [
        text(jax, f, 1.0),
        text(jax, jax.grad(f), 1.0),
        text(jax, jax.jit(jax.grad(f)), 1.0),
        text(jax, jax.vmap(f), X),
        text(jax, lambda x: jax.jvp(f, (x,), (x,)), 1.0),
        jax.jit(jax.grad(f)).lower(1.0).as_text(),
    ]


def checkpoint_options(jax: Any) -> Any:
    lax, policies = jax.lax, jax.checkpoint_policies

    def f(x: Any) -> Any:
        return _sum(jax, lax.sin(lax.dot(lax.sin(x), lax.sin(x).T)))

    def power(n: int, x: Any) -> Any:
        return x if n == 0 else x * power(n - 1, x)

    square = np.outer(X, X)
    return [
        jax.grad(jax.checkpoint(f, policy=p))(square)
        for p in (
            policies.everything_saveable,
            policies.nothing_saveable,
            policies.dots_saveable,
        )
    ] + [
        jax.grad(jax.checkpoint(f, prevent_cse=False))(square),
        jax.checkpoint(power, static_argnums=0)(3, 2.0),
        jax.grad(partial(jax.remat(power, static_argnums=(0,)), 3))(2.0),
    ]


# ------------------------------------------------------------------------- custom_jvp


def _jvp_function(jax: Any) -> Any:
    lax = jax.lax

    @jax.custom_jvp
    def f(x: Any, y: Any = 2.0) -> Any:
        return lax.sin(x) * y

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 3.0 * dx * lax.exp(x) + dy

    return f


def custom_jvp_every_way(jax: Any) -> Any:
    f = _jvp_function(jax)
    return _every_way(jax, lambda x: f(x, x * x) * x, X)


def custom_jvp_in_loops(jax: Any) -> Any:
    f, lax = _jvp_function(jax), jax.lax

    def g(x: Any) -> Any:
        def body(c: Any, s: Any) -> Any:
            return lax.cond(s > 0, lambda c: f(c, s), lambda c: f(s, c), c), c

        return jax.checkpoint(lambda x: lax.scan(body, x[0], x)[1])(x)

    return _every_way(jax, g, X)


def custom_jvp_text(jax: Any) -> Any:
    f = _jvp_function(jax)
    return [
        text(jax, f, 1.0, 2.0),
        text(jax, f, 1.0),
        text(jax, jax.grad(f), 1.0, 2.0),
        text(jax, jax.vmap(f), X, X),
        text(jax, jax.jit(jax.grad(f)), 1.0, 2.0),
    ]


def custom_jvp_rules_per_argument(jax: Any) -> Any:
    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda t, out, x, y: t * out, None)
    g = jax.custom_jvp(lambda n, x: x**n, nondiff_argnums=(0,))
    g.defjvp(lambda n, primals, tangents: (g(n, *primals), n * tangents[0]))
    return [
        jax.grad(f, (0, 1))(2.0, 3.0),
        jax.vmap(jax.grad(f))(X, X),
        jax.grad(lambda x: g(3, x))(2.0),
        jax.jit(jax.grad(lambda x: g(3, x)))(2.0),
    ]


def custom_jvp_runs_as_python(jax: Any) -> Any:
    """Where values are known, the functions may look at them."""

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x * 2 if x > 0 else x * 3

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), t * (10 if x > 0 else 20)

    return [f(1.0), f(-1.0), jax.grad(f)(1.0), jax.grad(f)(-1.0)]


def custom_jvp_errors(jax: Any) -> Any:
    def run(rule: Any) -> Any:
        f = jax.custom_jvp(lambda x: x)
        f.defjvp(rule)
        return error(jax.grad(f), 1.0)

    def jitted(rule: Any) -> Any:
        f = jax.custom_jvp(lambda x: (x, x))
        f.defjvp(rule)
        return error(jax.jvp, jax.jit(f), (1.0,), (1.0,))

    three = np.ones(3, np.float32)
    return [
        error(jax.custom_jvp(lambda x: x), 1.0),
        error(_jvp_function(jax), 1.0, z=2.0),
        run(lambda p, t: p[0]),
        run(lambda p, t: (p[0], (t[0],))),
        run(lambda p, t: (p[0], three)),
        jitted(lambda p, t: ((p[0], p[0]), (t[0], three))),
    ]


# ------------------------------------------------------------------------- custom_vjp


def _vjp_function(jax: Any) -> Any:
    lax = jax.lax

    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return lax.sin(x) * y

    def fwd(x: Any, y: Any) -> Any:
        return f(x, y), (lax.cos(x), {"y": y})

    def bwd(res: Any, ct: Any) -> Any:
        cos, rest = res
        return ct * cos * rest["y"] * 2.0, _like(jax, ct * cos, rest["y"])

    f.defvjp(fwd, bwd)
    return f


def _like(jax: Any, ct: Any, x: Any) -> Any:
    return ct if np.shape(ct) == np.shape(x) else _sum(jax, ct)


def custom_vjp_every_way(jax: Any) -> Any:
    f = _vjp_function(jax)
    return _every_way(jax, lambda x: f(x, x * x) * x, X, forward=False)


def custom_vjp_of_what_is_not_mapped(jax: Any) -> Any:
    f = _vjp_function(jax)

    def total(x: Any, y: Any) -> Any:
        return _sum(jax, jax.vmap(f, (0, None))(x, y))

    return [
        jax.grad(total, (0, 1))(X, 2.0),
        jax.jit(jax.grad(total, (0, 1)))(X, 2.0),
        jax.grad(lambda y, x: total(x, y))(2.0, X),
    ]


def custom_vjp_in_loops(jax: Any) -> Any:
    f, lax = _vjp_function(jax), jax.lax

    def g(x: Any) -> Any:
        def body(c: Any, s: Any) -> Any:
            return lax.cond(s > 0, lambda c: f(c, s), lambda c: f(s, c), c), c

        return jax.checkpoint(lambda x: lax.scan(body, x[0], x)[1])(x)

    return _every_way(jax, g, X, forward=False)


def custom_vjp_text(jax: Any) -> Any:
    f = _vjp_function(jax)
    return [
        text(jax, f, 1.0, 2.0),
        text(jax, jax.grad(f), 1.0, 2.0),
        text(jax, jax.vmap(f), X, X),
        text(jax, jax.jit(jax.grad(f, (0, 1))), 1.0, 2.0),
    ]


def custom_vjp_options(jax: Any) -> Any:
    g = jax.custom_vjp(lambda fun, n, x: fun(x) * n, nondiff_argnums=(0, 1))
    g.defvjp(
        lambda fun, n, x: (fun(x) * n, x),
        lambda fun, n, x, ct: (ct * n * fun(x) * 100.0,),
    )
    h = jax.custom_vjp(lambda x, i: {"a": x["a"] * x["b"], "b": x["b"]})
    h.defvjp(
        lambda x, i: (h(x, i), x),
        lambda x, ct: ({"a": ct["a"] * 2.0, "b": None}, None),
    )
    two = {"a": np.float32(1), "b": np.float32(2)}
    return [
        jax.grad(lambda x: g(jax.lax.sin, 3.0, x))(2.0),
        jax.jit(jax.grad(lambda x: g(jax.lax.sin, 3.0, x)))(2.0),
        jax.grad(lambda x: h(x, 3)["a"])(two),
        jax.jit(jax.grad(lambda x: h(x, 3)["a"]))(two),
    ]


def custom_vjp_errors(jax: Any) -> Any:
    def run(fwd: Any, bwd: Any) -> Any:
        f = jax.custom_vjp(lambda *x: x[0])
        f.defvjp(fwd, bwd)
        return error(jax.grad(f), 1.0)

    def fwd(x: Any) -> Any:
        return x, None

    nondiff = jax.custom_vjp(lambda n, x: x, nondiff_argnums=(0,))
    nondiff.defvjp(lambda n, x: (x, None), lambda n, r, ct: (ct,))
    three = np.ones(3, np.float32)
    return [
        error(jax.custom_vjp(lambda x: x), 1.0),
        error(jax.jvp, _vjp_function(jax), (1.0, 2.0), (1.0, 1.0)),
        error(jax.jit(nondiff), 1.0, 2.0),
        run(lambda x: x, lambda r, c: (c,)),
        run(fwd, lambda r, c: c),
        run(fwd, lambda r, c: (c, c)),
        run(fwd, lambda r, c: (three,)),
    ]


# ------------------------------------------------------- linear_transpose, Jacobians


def linear_transpose(jax: Any) -> Any:
    lax, t = jax.lax, jax.linear_transpose
    shape = jax.ShapeDtypeStruct((4,), np.float32)

    @jax.jit
    def f(x: Any, y: Any) -> Any:
        c = lax.sin(X)
        return x * c + y[0], lax.scan(lambda c, s: (c + s, c), y[1], x)

    return [
        t(lambda x: 2.0 * x, np.float32(1))(np.float32(3)),
        t(lambda x: 2 * x, 1)(3),
        t(f, shape, X[:2])((X, (np.float32(2), X))),
        jax.jit(lambda ct: t(lambda x: x * X, shape)(ct))(X),
        error(t(lambda x: 2.0 * x, np.float32(1)), (3.0,)),
        error(t(lambda x: 2.0 * x, np.float32(1)), X),
        error(t, lambda x: x.astype(np.int32), np.float32(1)),
    ]


def jacobians(jax: Any) -> Any:
    lax = jax.lax

    def f(d: Any, s: Any) -> Any:
        return {"y": lax.sin(d["a"]) * d["b"] * s, "z": d["a"][0] * s}

    d = {"a": X, "b": np.float32(2)}

    def g(x: Any) -> Any:
        return lax.sin(lax.dot(x, x.T)), {"aux": x}

    return [
        jax.jacfwd(f)(d, 3.0),
        jax.jacrev(f)(d, 3.0),
        jax.jacobian(f, (0, 1))(d, 3.0),
        jax.jacfwd(f, (1, 0))(d, 3.0),
        jax.jacfwd(g, has_aux=True)(Y),
        jax.jacrev(g, has_aux=True)(Y),
        jax.hessian(lambda d: _sum(jax, f(d, 2.0)["y"]))(d),
        jax.jit(jax.hessian(lambda x: _sum(jax, g(x)[0])))(Y),
        jax.jacfwd(lambda z: z * z, holomorphic=True)(np.complex64(1 + 2j)),
        jax.jacrev(lambda z: z * z, holomorphic=True)(np.complex64(1 + 2j)),
    ]


def jacobian_errors(jax: Any) -> Any:
    return [
        error(jax.jacfwd(lambda x: x, argnums=(0, 1)), 1.0),
        error(jax.jacfwd(lambda x: x), 1),
        error(jax.jacrev(lambda x: x), 1),
        error(jax.jacrev(lambda x: x), 1j),
        error(jax.jacfwd(lambda x: x, holomorphic=True), 1.0),
        error(jax.jacrev(lambda x: x, holomorphic=True), 1.0),
    ]


test = conformance(globals())
