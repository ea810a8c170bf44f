"""`vmap`: which dimensions are mapped, where results get theirs, and named axes."""

from functools import partial
from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, text

X = np.arange(6, dtype=np.float32).reshape(2, 3)
C = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(3, dtype=np.float32)


def in_axes(jax: Any) -> Any:
    lax, vmap = jax.lax, jax.vmap

    def pair(x: Any, y: Any) -> Any:
        return lax.sub(lax.reduce_sum(x, (0,)), lax.reduce_max(y, (0,)))

    def of_tree(d: Any, s: Any) -> Any:
        return {"t": lax.mul(d["a"], s), "n": None, "u": (d["b"], s)}

    tree = {"a": X, "b": np.float32(4)}
    return [
        vmap(pair)(X, X),
        vmap(pair, 1)(X, X),
        vmap(pair, (0, 1))(X, X.T),
        vmap(pair, (0, -1))(X, X.T),
        vmap(pair, (None, 0))(V, X),
        vmap(pair, [0, None])(X, V),
        vmap(of_tree, ({"a": 0, "b": None}, None))(tree, np.float32(2)),
        vmap(of_tree, ({"a": 1, "b": None}, 0))(tree, V),
        vmap(of_tree, (None, 0))(tree, V),
        vmap(lambda x, *, y: lax.add(x, y))(V, y=V),
        vmap(lambda x, *, y: lax.add(x, y), None)(np.float32(1), y=V),
        vmap(lambda xs: lax.add(*xs), ((0, None),))((V, np.float32(1))),
    ]


def out_axes(jax: Any) -> Any:
    lax, vmap = jax.lax, jax.vmap
    return [
        vmap(lambda x: x, 0, 1)(X),
        vmap(lambda x: x, 0, -1)(C),
        vmap(lambda x: (x, lax.neg(x)), 0, (0, 1))(X),
        vmap(lambda x: {"a": x, "b": 1.0}, 0, {"a": 1, "b": None})(X),
        vmap(lambda x: 1.0)(X),
        vmap(lambda x: V)(X),
        vmap(lambda x: V, 0, 1)(X),
        vmap(lambda x: (), 0, 0)(X),
        vmap(lambda x: lax.transpose(x, (1, 0)), 2, 1)(C),
    ]


def sizes(jax: Any) -> Any:
    vmap = jax.vmap
    return [
        vmap(lambda x: x, None, axis_size=3)(V),
        vmap(lambda: 1.0, axis_size=2)(),
        vmap(lambda x: x, axis_size=3)(V),
        vmap(lambda x: jax.lax.axis_index("i"), axis_name="i")(V),
        vmap(lambda x: jax.lax.axis_size("i"), axis_name="i")(V),
    ]


def nested(jax: Any) -> Any:
    lax, vmap = jax.lax, jax.vmap

    def outer_product(x: Any, y: Any) -> Any:
        return vmap(lambda a: vmap(lambda b: lax.mul(a, b))(y))(x)

    return [
        outer_product(V, V),
        vmap(outer_product)(X, X),
        vmap(vmap(vmap(lambda x: lax.sin(x))), 2, 1)(C),
        text(jax, outer_product, V, V),
        text(jax, vmap(vmap(lambda x, y: lax.add(x, y), (0, None)), (None, 0)), V, V),
    ]


def named_axes(jax: Any) -> Any:
    lax, vmap = jax.lax, jax.vmap

    def normal(x: Any) -> Any:
        return lax.div(x, lax.psum(x, "i"))

    def both(x: Any) -> Any:
        return (
            lax.psum(x, ("i", "j")),
            lax.psum(x, "j"),
            lax.pmax(x, "i"),
            lax.axis_index("i"),
        )

    rows = vmap(vmap(both, axis_name="i"), axis_name="j")
    return [
        vmap(normal, axis_name="i")(V),
        vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(V),
        vmap(lambda x: lax.psum(1, "i"), axis_name="i", out_axes=None)(V),
        vmap(lambda x: lax.psum(np.float32(2), "i"), axis_name="i")(V),
        vmap(lambda x: lax.neg(lax.all_gather(x, "i")), axis_name="i", out_axes=None)(
            X
        ),
        vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), axis_name="i")(
            V
        ),
        rows(X),
        text(jax, rows, X),
        text(jax, vmap(jax.jit(normal), axis_name="i"), V),
        text(jax, vmap(jax.grad(normal), axis_name="i"), V),
    ]


def mapped_derivatives(jax: Any) -> Any:
    lax, vmap = jax.lax, jax.vmap

    def f(w: Any, x: Any) -> Any:
        return lax.reduce_sum(lax.tanh(lax.mul(w, x)), (0,))

    return [
        vmap(jax.grad(f), (None, 0))(V, X),
        jax.grad(lambda w: lax.reduce_sum(vmap(f, (None, 0))(w, X), (0,)))(V),
        vmap(lambda x, t: jax.jvp(partial(f, V), (x,), (t,)))(X, X),
        vmap(lambda x: jax.vjp(partial(f, V), x)[1](np.float32(1))[0])(X),
        vmap(lambda x: jax.linearize(partial(f, V), x)[1](x))(X),
        text(jax, vmap(jax.grad(f), (None, 0)), V, X),
    ]


def printed_inside(jax: Any) -> Any:
    seen: list[str] = []

    def note(x: Any) -> Any:
        seen.append(repr(x))
        return x

    jax.vmap(note)(V)
    jax.jit(note)(V)
    jax.jit(note)(1.0)
    return seen


def wrong_axes(jax: Any) -> Any:
    lax, vmap = jax.lax, jax.vmap

    def one(x: Any) -> Any:
        return x

    def add(x: Any, y: Any) -> Any:
        return lax.add(x, y)

    return [
        error(vmap, 3),
        error(lambda: vmap(one, "a")(V)),
        error(lambda: vmap(one, {"a": 0})(V)),
        error(lambda: vmap(one, (0, 0))(V)),
        error(lambda: vmap(add, (0,))(V, V)),
        error(vmap(one, 1), V),
        error(vmap(one, -2), V),
        error(vmap(one), 1.0),
        error(vmap(add), V, X),
        error(vmap(add, None), V, V),
        error(vmap(one), {}),
        error(vmap(one, axis_size=4), V),
        error(vmap(one, 0, 2), X),
        error(vmap(one, 0, -3), X),
        error(vmap(one, 0, None), X),
        error(vmap(one, 0, None, axis_name="i"), X),
        error(vmap(one, 0, (0, 1)), X),
        error(vmap(lambda x: (x, x), 0, (0, 1, 2)), X),
        error(vmap(lambda x: {"a": x}, 0, {"b": 0}), X),
        error(vmap(lambda d: d, ({"a": 0},)), {"b": V}),
        error(vmap(lambda d: d, ((0, 0),)), [V, V]),
        error(vmap(lambda x: "text"), V),
        error(vmap(one), "text"),
        error(lambda: vmap(one, 1.0)(V)),
        error(vmap(lambda x: 1 if x else 2), V).name,
        error(vmap(lambda x: lax.psum(x, "j"), axis_name="i"), V),
        error(lambda: lax.psum(V, "i")),
        error(jax.jit(lambda x: lax.psum(x, "i")), V),
        error(vmap(lambda x, *, y: x), V, y=X.T[:2]),
        error(vmap(lambda x: vmap(lambda y: y)(x)), V),
    ]


test = conformance(globals())
