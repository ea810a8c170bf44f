"""A few throw-away primitives, and jaxprs made of them by hand.

Lowering is tested before, and apart from, the pages of `lax`: what a primitive's own
lowering emits is tested with the page.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import AbstractToken, ShapedArray, abstract_token
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from minijax.core.mesh import AbstractMesh, AxisType, NamedSharding, P
from minijax.core.primitive import Primitive
from minijax.lowering.dialect import (
    attr,
    broadcast_in_dim,
    combiner,
    i64,
    ir_type,
    op,
    token_type,
)
from minijax.lowering.sharding import channel_handle, replica_groups


def primitive(name: str, lowering: Any) -> Primitive:
    made = Primitive(name)
    made.def_lowering(lowering)
    return made


def elementwise(name: str, operation: str) -> Primitive:
    def lower(ctx: Any, *xs: Any) -> Any:
        (aval,) = ctx.avals_out
        outs = op(operation, xs, [ir_type(aval)])
        return ctx.with_shardings(outs, ctx.avals_out)

    return primitive(name, lower)


sin = elementwise("sin", "stablehlo.sine")
cos = elementwise("cos", "stablehlo.cosine")
add = elementwise("add", "stablehlo.add")
mul = elementwise("mul", "stablehlo.multiply")


def _broadcast(ctx: Any, x: Any) -> Any:
    (aval,) = ctx.avals_out
    return [ctx.with_sharding(broadcast_in_dim(x, (), ir_type(aval)), aval)]


broadcast = primitive("broadcast", _broadcast)


def _psum(ctx: Any, x: Any, *, axes: Sequence[str]) -> Any:
    (aval,) = ctx.avals_out
    scalar = aval.update(shape=())
    outs = op(
        "stablehlo.all_reduce",
        [x],
        [ir_type(aval)],
        {
            "channel_handle": channel_handle(),
            "replica_groups": replica_groups(ctx.mesh, axes),
            "use_global_device_ids": attr("unit"),
        },
        [combiner("stablehlo.add", aval.dtype, lambda v: ctx.with_sharding(v, scalar))],
    )
    return ctx.with_shardings(outs, ctx.avals_out)


psum = primitive("psum", _psum)


def _all_to_all(ctx: Any, x: Any, *, axis: str, size: int, groups: Any) -> Any:
    attributes = {
        "channel_handle": channel_handle(),
        "split_dimension": i64(0),
        "concat_dimension": i64(0),
        "split_count": i64(size),
        "replica_groups": replica_groups(ctx.mesh, (axis,), groups),
    }
    types = [ir_type(a) for a in ctx.avals_out]
    return op("stablehlo.all_to_all", [x], types, attributes)


all_to_all = primitive("all_to_all", _all_to_all)
create_token = primitive(
    "create_token", lambda ctx: op("stablehlo.create_token", [], [token_type()])
)
after_all = primitive(
    "after_all", lambda ctx, *ts: op("stablehlo.after_all", ts, [token_type()])
)
call = primitive(
    "jit",
    lambda ctx, *xs, jaxpr, name, ins=None, outs=None: ctx.call(
        jaxpr, name, xs, ins, outs
    ),
)
state = primitive("state", lambda ctx, x: ctx.with_shardings([x], ctx.avals_out))
shard_map = primitive(
    "shard_map",
    lambda ctx, *xs, jaxpr, mesh, in_specs, out_specs, manual_axes: (
        ctx.manual_computation(jaxpr, xs, mesh, in_specs, out_specs, manual_axes)
    ),
)


def f32(*shape: int, sharding: NamedSharding | None = None) -> ShapedArray:
    return ShapedArray(shape, np.float32, sharding=sharding)


class Build:
    """A jaxpr under construction: `build(primitive, out_aval, *atoms, **params)`."""

    def __init__(self, *avals: Any):
        self.invars = [Var(a) for a in avals]
        self.eqns: list[JaxprEqn] = []

    def __call__(
        self, primitive: Primitive, out: Any, *atoms: Any, **params: Any
    ) -> Any:
        outs = out if isinstance(out, list) else [out]
        outvars = [Var(a) for a in outs]
        self.eqns.append(JaxprEqn(primitive, list(atoms), outvars, params))
        return outvars if isinstance(out, list) else outvars[0]

    def scalar(self, value: float, like: ShapedArray) -> Any:
        """A scalar literal, broadcast to a type."""
        literal = Literal(value, ShapedArray((), like.dtype, True))
        return self(broadcast, like, literal)

    def returns(self, *atoms: Any) -> Jaxpr:
        return Jaxpr([], self.invars, list(atoms), self.eqns)


def mesh(types: AxisType, **axes: int) -> AbstractMesh:
    return AbstractMesh(tuple(axes.values()), tuple(axes), (types,) * len(axes))


__all__ = [
    "AbstractToken",
    "AxisType",
    "Build",
    "NamedSharding",
    "P",
    "abstract_token",
    "add",
    "after_all",
    "all_to_all",
    "call",
    "cos",
    "create_token",
    "f32",
    "mesh",
    "mul",
    "psum",
    "shard_map",
    "sin",
    "state",
]
