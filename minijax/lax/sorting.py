"""sort and top_k: order along a dimension.

`sort` takes several operands, orders them by the first `num_keys` of them, and moves
the others along. NaNs go to the end, and 0.0 equals -0.0. The tangents are moved just
as the values are.

StableHLO: `sort`, with the comparison in its region. CHLO: `top_k`.
Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import Shape, ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import Zero, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.cases import Case, unary
from minijax.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather
from minijax.lax.rules import (
    batch_at,
    cast_together,
    move_batch,
    real_dtype,
    remembered,
)
from minijax.lax.shapes import (
    broadcasted_iota,
    canonicalize_axis,
    expand_dims,
    reshape,
)
from minijax.lowering import dialect

# ------------------------------------------------------------------------------ sort


def sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Any:
    """Sorts along a dimension.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      is_stable: whether equal elements keep their order.
      num_keys: how many of the arrays say the order, the first one first.

    Returns the array, or a tuple of arrays.
    """
    if not isinstance(operand, Sequence):
        if num_keys != 1:
            raise errors.sort_one_key(num_keys)
        return _sorted([operand], dimension, is_stable, 1)[0]
    if not operand:
        raise errors.sort_without_operands()
    if not 1 <= num_keys <= len(operand):
        raise errors.sort_num_keys(num_keys, len(operand))
    operands = cast_together(*operand)
    return tuple(_sorted(operands, dimension, is_stable, num_keys))


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """Sorts `keys` along a dimension, and moves `values` along."""
    keys, values = sort((keys, values), dimension, is_stable, 1)
    return keys, values


def _sorted(xs: Sequence[Any], dimension: int, is_stable: bool, num_keys: int) -> Any:
    ndim = len(typeof(xs[0]).shape)
    return sort_p.bind(
        *xs,
        dimension=canonicalize_axis(dimension, ndim),
        is_stable=is_stable,
        num_keys=num_keys,
    )


sort_p = Primitive("sort")


@sort_p.def_abstract_eval
@remembered
def _sort_type(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> list[ShapedArray]:
    rules.only_arrays(sort_p, avals)
    if any(a.shape != avals[0].shape for a in avals):
        raise errors.sort_shapes(a.shape for a in avals)
    sharded = [a for a in avals if a.mesh.explicit_axes]
    for aval in sharded:
        if aval.sharding.spec.axes_of(dimension):
            raise errors.sort_sharded(aval.sharding, dimension)
        if aval.sharding is not sharded[0].sharding:
            raise errors.sort_shardings(a.sharding for a in sharded)
    rules.join_manual("sort", avals)
    return [_alone("sort", a) for a in avals]


def _alone(name: str, aval: ShapedArray) -> ShapedArray:
    """The type of a result like an operand, which must not be a sum."""
    return rules.result_type(
        name,
        [aval],
        aval.shape,
        aval.dtype,
        aval.weak_type,
        partitions=lambda: aval.sharding.spec.partitions,
        sums=rules.no_sums,
    )


@sort_p.def_lowering
def _sort_lowering(
    ctx: Any, *xs: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Any]:
    types = [dialect.tensor((), a.dtype) for a in ctx.avals_in for _ in range(2)]
    keys = [ShapedArray((), a.dtype) for a in ctx.avals_in[:num_keys]]

    def body(*values: Any) -> list[Any]:
        return [_precedes(keys, values)]

    outs = dialect.op(
        "stablehlo.sort",
        xs,
        [dialect.ir_type(a) for a in ctx.avals_out],
        {
            "dimension": dialect.i64(dimension),
            "is_stable": dialect.attr("true" if is_stable else "false"),
        },
        [dialect.Region(types, body)],
    )
    return ctx.with_shardings(outs, ctx.avals_out)


def _precedes(keys: Sequence[ShapedArray], values: Sequence[Any]) -> Any:
    """Whether the first of two elements comes first; `values` are pairs of keys."""
    pairs: list[tuple[Any, Any, ShapedArray]] = []
    for i, aval in enumerate(keys):
        pairs += _comparable(values[2 * i], values[2 * i + 1], aval)
    out = None
    for x, y, aval in reversed(pairs):
        less = _compare("LT", x, y, aval)
        if out is not None:
            equal = _compare("EQ", x, y, aval)
            both = dialect.op1("stablehlo.and", (equal, out), less.type)
            less = dialect.op1("stablehlo.or", (less, both), less.type)
        out = less
    return out


def _comparable(
    x: Any, y: Any, aval: ShapedArray
) -> list[tuple[Any, Any, ShapedArray]]:
    """One key, or the two parts of a complex one, with zeros and NaNs made equal."""
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        part = ShapedArray((), real_dtype(aval.dtype))
        type_ = dialect.ir_type(part)
        found: list[tuple[Any, Any, ShapedArray]] = []
        for name in ("stablehlo.real", "stablehlo.imag"):
            sides = [dialect.op1(name, (v,), type_) for v in (x, y)]
            found.append((_canonical(sides[0], part), _canonical(sides[1], part), part))
        return found
    if dtypes.issubdtype(aval.dtype, np.floating):
        return [(_canonical(x, aval), _canonical(y, aval), aval)]
    return [(x, y, aval)]


def _canonical(x: Any, aval: ShapedArray) -> Any:
    """A float with one zero and one NaN, which total order tells apart."""
    is_zero = dialect.compare("EQ", x, dialect.constant(0, aval.dtype), aval)
    zero = dialect.constant(0, aval.dtype)
    out = dialect.op1("stablehlo.select", (is_zero, zero, x), x.type)
    is_nan = dialect.compare("NE", x, x, aval)
    nan = dialect.constant(np.nan, aval.dtype)
    return dialect.op1("stablehlo.select", (is_nan, nan, out), x.type)


def _compare(direction: str, x: Any, y: Any, aval: ShapedArray) -> Any:
    if not dtypes.issubdtype(aval.dtype, np.floating):
        return dialect.compare(direction, x, y, aval)
    order = f"#stablehlo<comparison_direction {direction}>"
    attributes = {
        "comparison_direction": dialect.attr(order),
        "compare_type": dialect.attr("#stablehlo<comparison_type TOTALORDER>"),
    }
    bit = dialect.tensor((), np.dtype(bool))
    return dialect.op1("stablehlo.compare", (x, y), bit, attributes)


@sort_p.def_jvp
def _sort_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    first, dimension = typeof(primals[0]), params["dimension"]
    sharding = first.sharding if first.mesh.explicit_axes else None
    places = broadcasted_iota(np.uint32, first.shape, dimension, out_sharding=sharding)
    operands = cast_together(*primals, places)
    *outs, order = sort_p.bind(*operands, **params)
    order = expand_dims(order, (first.ndim,))
    return outs, [
        zero_tangent(x) if type(t) is Zero else along(t, order, dimension)
        for x, t in zip(outs, tangents, strict=True)
    ]


def along(x: Any, index: Any, dimension: int) -> Any:
    """The elements of `x` at the indices along a dimension that `index` holds.

    `index` has one dimension more than `x`, of size 1, in the last place.
    """
    ndim = len(typeof(x).shape)
    others = tuple(i for i in range(ndim) if i != dimension)
    numbers = GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    return gather(
        x,
        index,
        numbers,
        (1,) * ndim,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


sort_p.without(transpose="the order depends on the operand")


@sort_p.def_batch
def _sort_batch(
    axis: Any, args: Any, dims: Any, *, dimension: int, **params: Any
) -> Any:
    at = next(d for d in dims if d is not None)
    args = [
        batch_at(x, axis, at) if d is None else move_batch(x, d, at)
        for x, d in zip(args, dims, strict=True)
    ]
    outs = sort_p.bind(*args, dimension=dimension + (at <= dimension), **params)
    return outs, [at] * len(outs)


# ----------------------------------------------------------------------------- top_k


def top_k(operand: Any, k: int, *, axis: int = -1, is_stable: bool = True) -> Any:
    """The `k` greatest elements along an axis, greatest first, and their indices.

    Returns two arrays, the second of dtype int32.
    """
    ndim = len(typeof(operand).shape)
    if not ndim:
        raise errors.top_k_scalar(())
    return tuple(
        top_k_p.bind(
            operand,
            k=operator.index(k),
            axis=canonicalize_axis(axis, ndim),
            is_stable=is_stable,
        )
    )


top_k_p = Primitive("top_k")


@top_k_p.def_abstract_eval
@remembered
def _top_k_type(
    x: ShapedArray, *, k: int, axis: int, is_stable: bool
) -> list[ShapedArray]:
    rules.only_arrays(top_k_p, [x])
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise errors.top_k_complex()
    if k < 0:
        raise errors.top_k_negative(k)
    if x.shape[axis] < k:
        raise errors.top_k_too_large(k, list(x.shape), axis)
    if x.sharding.spec.axes_of(axis):
        raise errors.top_k_sharded(x, axis)
    shape: Shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values = _alone("top_k", x).update(shape=shape)
    return [values, values.update(dtype=np.dtype(np.int32))]


@top_k_p.def_lowering
def _top_k_lowering(
    ctx: Any, x: Any, *, k: int, axis: int, is_stable: bool
) -> list[Any]:
    (aval,), outs = ctx.avals_in, ctx.avals_out
    last = aval.ndim - 1
    swap = list(range(aval.ndim))
    swap[axis], swap[last] = last, axis

    def swapped(value: Any, shape: Shape, dtype: Any) -> Any:
        return dialect.transpose(value, swap, dialect.tensor(shape, dtype))

    def swap_shape(shape: Shape) -> Shape:
        return tuple(shape[i] for i in swap)

    if axis != last:
        x = swapped(x, swap_shape(aval.shape), aval.dtype)
    types = [dialect.tensor(swap_shape(o.shape), o.dtype) for o in outs]
    attributes = {"k": dialect.i64(k)}
    if not is_stable:
        attributes["is_stable"] = dialect.attr("false")
    found = dialect.op("chlo.top_k", (x,), types, attributes)
    if axis != last:
        pairs = zip(found, outs, strict=True)
        found = [swapped(v, o.shape, o.dtype) for v, o in pairs]
    return ctx.with_shardings(found, outs)


@top_k_p.def_jvp
def _top_k_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    values, index = top_k_p.bind(*primals, **params)
    (t,) = tangents
    places = reshape(index, (*typeof(index).shape, 1))
    moved = along(t, places, params["axis"])
    return [values, index], [moved, zero_tangent(index)]


top_k_p.without(transpose="the order depends on the operand")


@top_k_p.def_batch
def _top_k_batch(_: Any, args: Any, dims: Any, *, axis: int, **params: Any) -> Any:
    (dim,) = dims
    outs = top_k_p.bind(*args, axis=axis + (dim <= axis), **params)
    return outs, [dim, dim]


def _distinct(rng: np.random.Generator) -> list[Any]:
    return [rng.permutation(12).reshape(3, 4).astype(np.float32)]


def _with_passenger(rng: np.random.Generator) -> list[Any]:
    return [*_distinct(rng), rng.uniform(size=(3, 4)).astype(np.float32)]


_SORT = {"dimension": 1, "is_stable": True, "num_keys": 1}

CASES = [
    Case(sort_p, [(3, 4)], _SORT, make=_distinct),
    Case(sort_p, [(3, 4)], _SORT | {"dimension": 0}, make=_distinct),
    Case(sort_p, [(3, 4)] * 2, _SORT, make=_with_passenger),
    Case(sort_p, [(3, 4)] * 2, _SORT | {"num_keys": 2}, make=_with_passenger),
    unary(sort_p, params=_SORT, dtypes=np.int32),
    unary(sort_p, params=_SORT, dtypes=np.complex64),
    Case(top_k_p, [(3, 4)], {"k": 2, "axis": 1, "is_stable": True}, make=_distinct),
    Case(top_k_p, [(3, 4)], {"k": 2, "axis": 0, "is_stable": True}, make=_distinct),
]
