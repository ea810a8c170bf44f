"""pbroadcast: every device gets the value of one of them, the source.

    device   0   1   2   3          0   1   2   3
             a   b   c   d    ->    c   c   c   c        source=2

Type: `f32[2]{V:i} -> f32[2]{V:i}`: that the copies are equal is forgotten. The
transpose sums the cotangents of all copies on the source; the others have zeros.

StableHLO: `collective_broadcast` for GPU. XLA has none for other platforms, where it is
an `all_gather` of which one row is kept.
Upstream: `jax/_src/lax/parallel.py` (`pbroadcast`); it has no lowering but for GPU.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.mesh import replica_groups
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import typeof
from minijax.lax.collectives.all_gather import all_gather
from minijax.lax.collectives.axes import (
    AxisName,
    as_names,
    cast_to_varying,
    check_bound,
    check_evaluated,
    check_varying,
    check_whole,
    names_size,
    params_names,
)
from minijax.lax.collectives.axis_index import axis_index
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.common import batch_collective, group_attributes
from minijax.lax.collectives.psum import psum
from minijax.lax.compare import eq
from minijax.lax.select import select
from minijax.lax.shapes import zeros_like
from minijax.lax.slicing import dynamic_index_in_dim, index_in_dim
from minijax.lowering import dialect
from minijax.lowering.sharding import channel_handle


def pbroadcast(x: Any, axis_name: Any, source: Any) -> Any:
    """Gives every device along named axes the value of one of them, for every leaf.

    Args:
      x: a pytree of arrays.
      axis_name: a name or a tuple of names, the first of which counts slowest.
      source: the index of the device, an int, or an `int32[]` that is computed.

    Raises:
      ValueError: an int that is no index of the axis, or an array that is no scalar.
      TypeError: an array that is not int32.

    >>> import minijax
    >>> f = lambda x: pbroadcast(x, "i", 2)
    >>> minijax.vmap(f, axis_name="i")(np.array([7, 8, 9]))
    Array([9, 9, 9], dtype=int32)
    """
    names = as_names(axis_name)
    if not isinstance(source, int):
        return _computed(x, names, source)

    check_evaluated(names, "pbroadcast")

    def send(leaf: Any) -> Any:
        if not names:
            _check_source(source, 1)
            return leaf
        return pbroadcast_p.bind1(
            cast_to_varying(leaf, names),
            axis_name=axis_name if isinstance(axis_name, str) else names,
            source=operator.index(source),
        )

    return tree_map(send, x)


def _computed(x: Any, names: tuple[str, ...], source: Any) -> Any:
    """From a device that the program computes: all values, of which one is kept."""
    aval = typeof(source)
    if aval.dtype != np.int32:
        raise errors.source_dtype(str(aval.dtype))
    if aval.shape:
        raise errors.source_shape(aval.shape)
    gathered = all_gather(x, names)
    return tree_map(lambda v: dynamic_index_in_dim(v, source, 0, False), gathered)


def _check_source(source: int, size: int) -> None:
    if not 0 <= source < size:
        raise errors.source_out_of_range(source, size)


pbroadcast_p = Primitive("pbroadcast")
pbroadcast_p.axis_names = params_names


@pbroadcast_p.def_abstract_eval
def _type(aval: ShapedArray, *, axis_name: AxisName, source: int) -> list[ShapedArray]:
    names = as_names(axis_name)
    check_bound(names, "pbroadcast")
    check_varying(aval, names, "pbroadcast")
    check_whole(aval, names, "pbroadcast")
    _check_source(source, names_size(names))
    return [aval]


@pbroadcast_p.def_lowering
def _lowering(ctx: Any, x: Any, *, axis_name: AxisName, source: int) -> list[Any]:
    names, (aval,) = as_names(axis_name), ctx.avals_in
    groups = replica_groups(ctx.mesh, names)
    if ctx.module.platform == "gpu":
        first = [[g[source], *g[:source], *g[source + 1 :]] for g in groups]
        attributes = {
            "replica_groups": dialect.dense_i64(first),
            "channel_handle": channel_handle(),
        }
        return dialect.op("stablehlo.collective_broadcast", [x], [x.type], attributes)
    rank = aval.ndim
    one = dialect.tensor((1, *aval.shape), aval.dtype)
    every = dialect.tensor((len(groups[0]), *aval.shape), aval.dtype)
    attributes = group_attributes(ctx, names, None) | {"all_gather_dim": dialect.i64(0)}
    rows = dialect.op1(
        "stablehlo.all_gather", [dialect.reshape(x, one)], every, attributes
    )
    window = {
        "start_indices": dialect.i64_array([source, *[0] * rank]),
        "limit_indices": dialect.i64_array([source + 1, *aval.shape]),
        "strides": dialect.i64_array([1] * (rank + 1)),
    }
    row = dialect.op1("stablehlo.slice", [rows], one, window)
    return [dialect.reshape(row, x.type)]


def _transpose(ct: Any, _: Any, *, axis_name: AxisName, source: int) -> Any:
    names = as_names(axis_name)
    total = cast_to_varying(psum(ct, names), names)
    is_source = eq(axis_index(names), np.int32(source))
    return select(is_source, total, zeros_like(total))


pbroadcast_p.def_linear(_transpose)


def _own(x: Any, d: int | None, size: int, params: Any) -> tuple[Any, None]:
    """Over the mapped name: one of the rows."""
    if d is None:
        return x, None
    return index_in_dim(x, params["source"], d, keepdims=False), None


pbroadcast_p.batch = batch_collective(pbroadcast_p, _own, lambda params, d: (params, d))

# ------------------------------------------------------------------------- cases

CASES = [case(pbroadcast, source=0, groups=False)]
