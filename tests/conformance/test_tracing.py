"""What is recorded, and how it prints."""

from functools import partial
from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, text

X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.arange(3, dtype=np.float32)


def scalars_are_literals(jax: Any) -> Any:
    lax = jax.lax
    return [
        text(jax, lambda x: lax.mul(x, 2.0), 1.0),
        text(jax, lambda x: lax.add(lax.sin(x), x), V),
        text(jax, lambda x: lax.mul(x, np.float32(2)), V[0]),
        text(jax, lambda x: lax.add(x, 1), 3),
        text(jax, lambda x: (x, 1.0, 2, True, np.int32(3)), 1.0),
    ]


def results_are_trees(jax: Any) -> Any:
    lax = jax.lax
    return [
        text(jax, lambda d: {"b": lax.neg(d["a"]), "a": None}, {"a": V}),
        text(jax, lambda x: (), V),
        text(jax, lambda: lax.iota(np.int32, 3)),
        text(jax, lambda x, *, y: lax.add(x, y), V, y=V),
        text(jax, lambda *xs: xs[::-1], V, X),
        text(jax, lambda x: [x, x], V),
    ]


def unused_results_print_as_underscores(jax: Any) -> Any:
    lax = jax.lax

    def unused(x: Any) -> Any:
        lax.sin(x)
        return lax.cos(x)

    def split(x: Any) -> Any:
        return lax.split(x, (1, 1, 1))[1]

    return [text(jax, unused, V), text(jax, split, V)]


def captured_arrays_are_constants(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        return lax.add(lax.mul(x, V), V)

    closed = jax.make_jaxpr(f)(V)
    return [
        text(jax, f, V),
        text(jax, lambda x: lax.add(x, np.float32(3)), V[0]),
        [np.asarray(c) for c in closed.consts],
    ]


def parameters_print(jax: Any) -> Any:
    lax = jax.lax
    return [
        text(jax, lambda x: lax.broadcast_in_dim(x, (2, 3), (1,)), V),
        text(jax, lambda x: lax.reshape(x, (3, 2)), X),
        text(jax, lambda x: lax.transpose(x, (1, 0)), X),
        text(jax, lambda x: lax.reduce_sum(x, (0,)), X),
        text(jax, lambda x: lax.reduce_max(x, (0, 1)), X),
        text(jax, lambda x: lax.squeeze(lax.expand_dims(x, (0,)), (0,)), X),
        text(jax, lambda x: lax.slice(x, (0, 1), (2, 3)), X),
        text(jax, lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)), X),
        text(jax, lambda x: lax.pad(x, 0.0, [(1, 0, 0), (0, 2, 1)]), X),
        text(jax, lambda x, y: lax.concatenate([x, y], 0), X, X),
        text(jax, lambda x: lax.rev(x, (0,)), X),
        text(jax, lambda x: lax.integer_pow(x, 3), X),
        text(jax, lambda x: lax.convert_element_type(x, np.int32), X),
        text(jax, lambda x: lax.iota(np.float32, 4), X),
        text(jax, lambda x: lax.full_like(x, 2), X),
        text(jax, lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 3)), X, 1),
        text(jax, lambda x, i: lax.dynamic_update_slice(x, X[:1], (i, 0)), X, 1),
        text(jax, lambda x: lax.argmax(x, 1, np.int32), X),
        text(jax, lambda x: lax.clamp(0.0, x, 1.0), X),
        text(jax, lambda x: lax.select(lax.gt(x, x), x, x), X),
        text(jax, lambda x: lax.sign(lax.exp(lax.log1p(x))), X),
        text(jax, lambda x: lax.reduce_precision(x, 5, 10), X),
    ]


def nested_jits_print(jax: Any) -> Any:
    lax, jit = jax.lax, jax.jit

    @jit
    def inner(x: Any) -> Any:
        return lax.sin(x)

    def outer(x: Any) -> Any:
        return lax.add(inner(x), inner(lax.cos(x)))

    named = jit(lambda x: x)
    return [
        text(jax, outer, V),
        text(jax, jit(outer), V),
        text(jax, named, V),
        text(jax, jit(jit(jit(inner))), 1.0),
        text(jax, jit(partial(lax.add, np.float32(2))), V),
        text(jax, jit(inner, keep_unused=True), V),
        text(jax, jit(lambda x, y: x, donate_argnums=1), V, V),
    ]


def static_arguments(jax: Any) -> Any:
    make = jax.make_jaxpr(lambda x, n: jax.lax.integer_pow(x, n), static_argnums=1)
    return [str(make(V, 2)), str(make(V, 3))]


def shapes_are_returned(jax: Any) -> Any:
    f = jax.make_jaxpr(lambda x: {"a": jax.lax.sin(x)}, return_shape=True)
    jaxpr, shapes = f(V)
    return [str(jaxpr), str(shapes)]


def axis_env(jax: Any) -> Any:
    make = jax.make_jaxpr(lambda x: jax.lax.psum(x, "i"), axis_env=[("i", 4)])
    return str(make(V))


def shapes_without_running(jax: Any) -> Any:
    lax = jax.lax
    struct = jax.ShapeDtypeStruct((2, 3), np.float32)
    return [
        str(jax.eval_shape(lambda x: lax.reduce_sum(x, (0,)), struct)),
        str(jax.eval_shape(lambda d: {"b": d["a"]}, {"a": struct})),
        str(jax.eval_shape(lambda x: x, 1.0)),
        str(jax.eval_shape(lambda x, y: lax.add(x, y), V, y=V)),
        str(jax.make_jaxpr(lambda x: lax.neg(x))(struct)),
        str(struct),
        str(jax.ShapeDtypeStruct((), np.int32, weak_type=True)),
    ]


def parts_of_a_jaxpr(jax: Any) -> Any:
    closed = jax.make_jaxpr(lambda x: jax.lax.sin(jax.lax.mul(x, V)))(V)
    return [
        [str(a) for a in closed.in_avals],
        [str(a) for a in closed.out_avals],
        [str(e.primitive) for e in closed.eqns],
        [str(v.aval) for v in closed.jaxpr.constvars],
        [str(v.aval) for v in closed.eqns[0].invars],
        str(closed.jaxpr),
    ]


def derivatives_print(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        return lax.reduce_sum(lax.mul(lax.sin(x), x), (0,))

    return [
        text(jax, jax.grad(f), V),
        text(jax, jax.grad(jax.jit(f)), V),
        text(jax, jax.jit(jax.grad(f)), V),
        text(jax, lambda x, t: jax.jvp(f, (x,), (t,)), V, V),
        text(jax, lambda x, t: jax.jvp(jax.jit(f), (x,), (t,)), V, V),
        text(jax, lambda x: jax.vjp(f, x)[1](1.0), V),
        text(jax, lambda x, t: jax.linearize(f, x)[1](t), V, V),
        text(jax, jax.value_and_grad(f), V),
        text(jax, jax.vmap(jax.grad(f)), X),
    ]


def batches_print(jax: Any) -> Any:
    lax = jax.lax
    return [
        text(jax, jax.vmap(lambda x: lax.sin(x)), X),
        text(jax, jax.vmap(lambda x, y: lax.mul(x, y), (0, None)), X, V[0]),
        text(jax, jax.vmap(lambda x, y: lax.add(x, y), (1, 0)), X.T, X),
        text(jax, jax.vmap(lambda x: lax.reduce_sum(x, (0,)), 1), X),
        text(jax, jax.vmap(lambda x: x, 0, 1), X),
        text(jax, jax.vmap(jax.jit(lambda x: lax.sin(x))), X),
        text(jax, jax.vmap(lambda x: 1.0), X),
        text(jax, jax.vmap(jax.vmap(lambda x: lax.psum(x, "i"), axis_name="i")), X),
        text(jax, jax.vmap(lambda x, y: lax.concatenate([x, y], 0)), X, X),
        text(jax, jax.vmap(lambda x: lax.broadcast_in_dim(x, (2, 3), (1,))), X),
    ]


def wrong_arguments(jax: Any) -> Any:
    return [
        error(jax.make_jaxpr(lambda x: x), "text"),
        error(jax.make_jaxpr(lambda x: "text"), 1.0),
        error(jax.make_jaxpr(lambda x: {"a": object}), 1.0),
        error(jax.eval_shape, lambda x: x, "text"),
        error(jax.make_jaxpr(lambda x, y: x), 1.0),
    ]


test = conformance(globals())
