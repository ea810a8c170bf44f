"""`device_put`, `reshard`, constraints and context meshes; gathers at the top level."""

from typing import Any

import numpy as np

from minijax.transforms import place
from tests.conformance.harness import conformance, error, ops, text

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def _mesh(jax: Any, explicit: bool = False) -> Any:
    kinds = jax.sharding.AxisType
    kind = kinds.Explicit if explicit else kinds.Auto
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)


def _constraint(jax: Any, x: Any, sharding: Any) -> Any:
    home = jax.lax if hasattr(jax.lax, "with_sharding_constraint") else place
    return home.with_sharding_constraint(x, sharding)


def _gather(jax: Any, *args: Any, **options: Any) -> Any:
    """Private upstream, public here."""
    if hasattr(jax, "top_level_all_gather"):
        return jax.top_level_all_gather(*args, **options)
    return jax._src.shard_map.top_level_all_gather(*args, **options)


def putting(jax: Any) -> Any:
    P, N = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    mesh, devices = _mesh(jax), jax.devices()
    specs = [P(), P("x"), P("x", "y"), P(None, "y"), P(("y", "x"))]
    return [
        [jax.device_put(X, N(mesh, s)) for s in specs],
        jax.device_put(X),
        jax.device_put(1.5),
        jax.device_put(2, devices[1]),
        jax.device_put({"a": X, "b": (1, None)}, devices[2]),
        jax.device_put((X, X), (devices[1], N(mesh, P("x")))),
        jax.device_put(jax.device_put(X, N(mesh, P("x"))), N(mesh, P("y"))),
    ]


def wrong_places(jax: Any) -> Any:
    P, N = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    mesh, odd = _mesh(jax), np.ones((6, 3), np.float32)
    return [
        error(jax.device_put, odd, N(mesh, P("x"))),
        error(jax.device_put, odd, N(mesh, P(None, "y"))),
        error(jax.device_put, np.float32(1), N(mesh, P("x"))).name,
        error(jax.device_put, X, P("x")).name,
        error(jax.device_put, (X, X), (jax.devices()[0],)).name,
        error(jax.device_put, "text"),
        error(jax.jit(lambda x: x, in_shardings=N(mesh, P("x"))), odd),
        error(jax.jit(lambda x: x, out_shardings=N(mesh, P("x"))), odd),
        error(jax.jit(lambda x: x, in_shardings=P("x")), X),
        error(jax.jit(lambda x: x, in_shardings=(N(mesh, P()), N(mesh, P()))), X),
        error(jax.jit(lambda x: (x, x), out_shardings=(N(mesh, P()),)), X).name,
        error(lambda: N(mesh, P("q"))),
        error(lambda: N(mesh, P("x", "x"))),
        error(lambda: jax.make_mesh((4, 4), ("x", "y"))),
    ]


def constraints(jax: Any) -> Any:
    P, N = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    mesh = _mesh(jax)

    def f(x: Any) -> Any:
        return _constraint(jax, jax.lax.neg(x), N(mesh, P("x", "y")))

    def loss(x: Any) -> Any:
        return jax.lax.reduce_sum(f(x), (0, 1))

    with jax.set_mesh(mesh):
        spec = jax.jit(lambda x: _constraint(jax, x, P("x")))(X)
    return [
        jax.jit(f)(X),
        spec,
        ops(jax.jit(f).lower(X).as_text()),
        ops(jax.jit(jax.vmap(f)).lower(np.stack([X, X])).as_text()),
        error(
            jax.jit(lambda x: _constraint(jax, x, N(mesh, P("x", "y", None)))), X
        ).name,
    ]


def context_meshes(jax: Any) -> Any:
    P = jax.sharding.PartitionSpec
    mesh, other = _mesh(jax), _mesh(jax, explicit=True)
    seen = [str(jax.sharding.get_abstract_mesh())]
    with jax.set_mesh(mesh):
        seen.append(str(jax.sharding.get_abstract_mesh()))
        with jax.set_mesh(other):
            seen.append(str(jax.sharding.get_abstract_mesh()))
        put = jax.device_put(X, P("x"))
    seen.append(str(jax.sharding.get_abstract_mesh()))

    def inside(x: Any) -> Any:
        with jax.set_mesh(mesh):
            return x

    return [seen, put, error(jax.jit(inside), X)]


def resharding(jax: Any) -> Any:
    P, reshard = jax.sharding.PartitionSpec, jax.sharding.reshard
    with jax.set_mesh(_mesh(jax, explicit=True)):
        x = jax.device_put(X, P("x", "y"))

        def loss(x: Any) -> Any:
            return jax.lax.reduce_sum(jax.lax.sin(reshard(x, P("y"))), (0, 1))

        return [
            reshard(x, P("y")),
            jax.jit(lambda x: reshard(x, P(None, "x")))(x),
            str(jax.typeof(reshard(x, P("y")))),
            text(jax, lambda x: reshard(x, P()), x),
            text(jax, jax.grad(loss), x),
            text(jax, jax.vmap(lambda x: reshard(x, P("y"))), jax.device_put(X, P())),
            error(reshard, x, P("q")),
            error(reshard, x, P("x", "y", None)).name,
            error(reshard, x, "x").name,
        ]


def types_over_explicit_axes(jax: Any) -> Any:
    lax, P = jax.lax, jax.sharding.PartitionSpec
    with jax.set_mesh(_mesh(jax, explicit=True)):
        x = jax.device_put(X, P("x", "y"))
        y = jax.device_put(X, P("x"))
        return [
            text(jax, lambda x: lax.sin(x), x),
            text(jax, lambda x: lax.transpose(x, (1, 0)), x),
            text(jax, lambda x: lax.reduce_sum(x, (0,)), x),
            text(jax, lambda x: x * 2 + 1, x),
            text(jax, lambda x: lax.broadcast(x, (3,)), x),
            text(jax, lambda x: lax.expand_dims(x, (1,)), x),
            text(jax, jax.jit(lambda x: lax.neg(x)), x),
            text(jax, jax.grad(lambda x: lax.reduce_sum(lax.sin(x), (0, 1))), x),
            text(jax, lambda x, y: lax.mul(x, y), x, y),
            error(lambda: lax.dot(x, lax.transpose(x, (1, 0)))),
        ]


def gathering_at_the_top_level(jax: Any) -> Any:
    P = jax.sharding.PartitionSpec
    with jax.set_mesh(_mesh(jax, explicit=True)):
        x = jax.device_put(X, P("x", "y"))
        z = jax.device_put(X, P(("x", "y")))

        def f(x: Any) -> Any:
            return _gather(jax, x, P("x", reduced={"y"}))

        def pull(ct: Any) -> Any:
            ct = jax.sharding.reshard(ct, P("x", unreduced={"y"}))
            return jax.vjp(f, x)[1](ct)[0]

        return [
            f(x),
            str(jax.typeof(f(x))),
            text(jax, f, x),
            text(jax, lambda z: _gather(jax, z, P("x", reduced={"y"})), z),
            text(jax, lambda x: _gather(jax, x, P("x", "y")), x),
            text(jax, pull, X),
            ops(jax.jit(f).lower(x).as_text()),
            ops(jax.jit(pull).lower(X).as_text()),
            error(_gather, jax, x, P("y", "y")).name,
            error(_gather, jax, x, P("y", None)),
            error(_gather, jax, x, P()),
            error(_gather, jax, x, None),
            error(_gather, jax, x, "x"),
            error(_gather, jax, x, P("x", reduced={"q"})).name,
            error(jax.vjp(f, x)[1], X).name,
        ]


test = conformance(globals())
