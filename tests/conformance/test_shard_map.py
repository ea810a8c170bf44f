"""`shard_map`: specs, what bodies close over, partly Manual meshes, and derivatives."""

from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, ops, text

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
V = np.arange(8, dtype=np.float32) / 8


def _mesh(jax: Any, explicit: bool = False) -> Any:
    kinds = jax.sharding.AxisType
    kind = kinds.Explicit if explicit else kinds.Auto
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)


def _map(jax: Any, f: Any, ins: Any, outs: Any, **options: Any) -> Any:
    return jax.shard_map(f, mesh=_mesh(jax), in_specs=ins, out_specs=outs, **options)


def _total(jax: Any, x: Any) -> Any:
    return jax.lax.reduce_sum(x, tuple(range(np.ndim(x))))


def _pull(jax: Any, f: Any) -> Any:
    """The gradient as a program to print, from a cotangent that the user gives.

    The one that `grad` starts from upstream reshards over a mesh of Auto axes, which
    says nothing; minijax does not.
    """
    return lambda *xs: jax.vjp(f, *xs)[1](np.float32(1))


def specs(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    cases = [
        (P("x"), P("x")),
        (P("x", "y"), P("x", "y")),
        (P(("x", "y")), P(("x", "y"))),
        (P(("y", "x")), P(("y", "x"))),
        (P(None, "y"), P(None, "y")),
        (P(), P()),
        (P("x"), P("x", "y")),
    ]
    programs = [_map(jax, lambda a: lax.mul(a, 2.0), i, o) for i, o in cases]
    return [
        [text(jax, f, X) for f in programs],
        [jax.jit(programs[i])(X) for i in (1, 3)],
        [programs[i](X) for i in (0, 2, 5)],
        error(jax.jit(_map(jax, lambda a: a, P("x"), P())), X),
    ]


def prefix_trees(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec

    def f(d: Any, s: Any) -> Any:
        return {"a": lax.mul(d["a"], s), "b": (d["b"], s)}

    tree = {"a": V, "b": [V, None]}
    return [
        text(jax, _map(jax, f, (P("x"), P()), {"a": P("x"), "b": (P("x"), P())}),
             tree, 2.0),
        text(jax, _map(jax, f, ({"a": P("x"), "b": P("y")}, P()),
             {"a": P("x"), "b": (P("y"), P())}), tree, 2.0),
        text(jax, _map(jax, lambda a, b: a, (P("x"), None), P("x")), V, V),
        text(jax, _map(jax, lambda a, b: a, P("x"), P("x")), V, V),
        text(jax, _map(jax, lambda: 1.0, (), P())),
        text(jax, _map(jax, lambda a: (), P("x"), ()), V),
    ]  # fmt: skip


def closures(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec

    def outer(s: Any) -> Any:
        f = _map(jax, lambda a: lax.mul(a, s), P("x"), P("x"))
        return _total(jax, f(V))

    w = np.float32(3)
    return [
        jax.jit(outer)(2.0),
        jax.grad(outer)(2.0),
        jax.vmap(outer)(V[:3]),
        text(jax, outer, 2.0),
        text(jax, _pull(jax, outer), 2.0),
        text(jax, _map(jax, lambda a: lax.mul(a, w), P("x"), P("x")), V),
        _map(jax, lambda a: lax.add(a, V[:4]), P("x"), P("x"))(V),
    ]


def partly_manual(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec

    def f(a: Any) -> Any:
        return lax.psum(lax.sin(a), "x")

    some = _map(jax, f, P("x"), P(), axis_names={"x"})
    g = jax.jit(some)
    return [text(jax, g, V), g(V), ops(g.lower(V).as_text())]


def without_the_check(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    loose = {"check_vma": False}

    def total(a: Any) -> Any:
        return lax.psum(lax.mul(a, a), "x")

    f = _map(jax, total, P("x"), P(), **loose)
    g = _map(jax, lambda a: lax.sin(a), P("x"), P("x"), **loose)
    return [
        text(jax, f, V),
        jax.jit(f)(V),
        text(jax, _pull(jax, lambda a: _total(jax, f(a))), V),
        jax.jit(jax.grad(lambda a: _total(jax, f(a))))(V),
        jax.jit(jax.grad(lambda a: _total(jax, g(a))))(V),
    ]


def nested(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec

    def inner(a: Any) -> Any:
        return lax.psum(a, ("x", "y"))

    def outer(a: Any) -> Any:
        both = jax.shard_map(inner, in_specs=P("y"), out_specs=P(), axis_names={"y"})
        return both(a)

    f = _map(jax, outer, P("x"), P(), axis_names={"x"})
    with jax.set_mesh(_mesh(jax)):
        return [text(jax, jax.jit(f), V), jax.jit(f)(V)]


def in_and_around_jit(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    inner = jax.jit(lambda a: lax.psum(lax.sin(a), "x"))
    f = _map(jax, inner, P("x"), P())
    return [text(jax, jax.jit(f), V), jax.jit(f)(V), f(V)]


def derivatives(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec

    def body(a: Any, b: Any) -> Any:
        return lax.psum(lax.mul(lax.sin(a), b), "x")

    f = _map(jax, body, (P("x", "y"), P(None, "y")), P(None, "y"))

    def loss(a: Any, b: Any) -> Any:
        return _total(jax, f(a, b))

    b = X[:1] + 1
    wide = np.concatenate([b] * 4)
    return [
        text(jax, _pull(jax, loss), X, wide),
        jax.jit(jax.grad(loss, (0, 1)))(X, wide),
        jax.grad(loss)(X, wide),
        text(jax, lambda a, t: jax.jvp(lambda a: loss(a, wide), (a,), (t,)), X, X),
        text(jax, lambda a: jax.linearize(lambda a: loss(a, wide), a)[1](a), X),
        jax.jit(jax.grad(lambda a: _total(jax, jax.grad(loss)(a, wide))))(X),
        text(jax, jax.jit(_pull(jax, jax.jit(loss))), X, wide),
        text(jax, _pull(jax, _map(jax, lambda s: lax.sin(s), P(), P())), V[0]),
    ]


def batches(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    f = _map(jax, lambda a: lax.psum(lax.cos(a), "y"), P("x", "y"), P("x"))
    stacked = np.stack([X, X + 1])
    spmd = jax.vmap(_map(jax, lambda a: lax.sin(a), P("y"), P("y")), spmd_axis_name="x")
    return [
        text(jax, jax.vmap(f), stacked),
        jax.jit(jax.vmap(f))(stacked),
        text(jax, jax.vmap(f, 1, 2), np.moveaxis(stacked, 0, 1)),
        text(jax, spmd, X.T),
        jax.jit(jax.vmap(_pull(jax, lambda a: _total(jax, f(a)))))(stacked),
    ]


def explicit_types(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    mesh = _mesh(jax, explicit=True)
    with jax.set_mesh(mesh):
        a = jax.device_put(X, P("x", "y"))
        inferred = jax.shard_map(lambda a: lax.psum(a, "y"), out_specs=P("x"))
        given = jax.shard_map(
            lambda a: lax.sin(a), in_specs=P("x", "y"), out_specs=P("x", "y")
        )
        return [
            text(jax, inferred, a),
            jax.jit(inferred)(a),
            str(jax.typeof(inferred(a))),
            text(jax, jax.grad(lambda a: _total(jax, given(a))), a),
            error(jax.shard_map(lambda a: a, in_specs=P("y"), out_specs=P("y")), a),
        ]


def texts_of_modules(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    f = _map(jax, lambda a: lax.psum(a, "y"), P("x", "y"), P("x"))
    g = _map(jax, lambda a: lax.all_gather(a, "x", tiled=True), P("x"), P("x"))
    return [jax.jit(f).lower(X).as_text(), jax.jit(g).lower(V).as_text()]


def wrong_calls(jax: Any) -> Any:
    P = jax.sharding.PartitionSpec

    def one(a: Any) -> Any:
        return a

    return [
        error(lambda: _map(jax, 3, P(), P())),
        error(lambda: _map(jax, one, P("z"), P())(V)),
        error(lambda: _map(jax, one, P("x"), P("z"))(V)),
        error(lambda: _map(jax, one, "x", P())(V)),
        error(lambda: _map(jax, one, P("x"), "x")(V)),
        error(lambda: _map(jax, one, (P(), P()), P())(V)),
        error(lambda: _map(jax, one, {"a": P()}, P())({"b": V})),
        error(lambda: _map(jax, one, P("x"), (P(), P()))(V)),
        error(lambda: _map(jax, one, P("x", "y"), P())(V)),
        error(lambda: _map(jax, one, P("y"), P("y"))(V[:6])),
        error(lambda: _map(jax, one, P(("x", "y")), P("y"))(V[:6])),
        error(lambda: _map(jax, one, P("x"), P(None, None, "x"))(V)),
        error(lambda: _map(jax, one, P("x"), P())(V)).name,
        error(lambda: _map(jax, one, P("x"), P("x"), axis_names={"z"})(V)),
        error(lambda: _map(jax, one, P("x"), P("x"), axis_names={"y"})(V)),
        error(lambda: _map(jax, one, P("x"), P("x"), axis_names=("x",))(V)),
        error(lambda: jax.shard_map(one, in_specs=P(), out_specs=P())(V)),
        error(lambda: jax.shard_map(one, mesh=3, in_specs=P(), out_specs=P())(V)),
        error(lambda: _map(jax, lambda a: "text", P("x"), P("x"))(V)).name,
        error(lambda: _map(jax, one, P("x"), P("x"))("text")),
        error(lambda: _map(jax, one, P("x"), P("x"))(V, V)),
        error(jax.jit(_map(jax, one, P("x"), P())), V),
        error(jax.jit(_map(jax, lambda a: 1 if a else 2, P("x"), P())), V).name,
    ]


test = conformance(globals())
