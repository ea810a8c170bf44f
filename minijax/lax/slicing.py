"""Blocks of arrays: cutting them out, putting them in, and padding around them.

    slice(x, (1, 0), (3, 2))              rows 1 and 2, columns 0 and 1
    pad(x, 0., ((1, 2, 0),))              the transpose of slice
    dynamic_slice(x, (i, 0), (2, 2))      a block at an index that is computed
    dynamic_update_slice(x, y, (i, 0))    the same block replaced by y

A dynamic index that would make the block stick out is moved so that it does not.
StableHLO has an operation for each. Under `vmap`, where every element has its own
index, the last two become a gather and a scatter.

Upstream: `jax/_src/lax/slicing.py`; `pad` is in `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import NO_NAMES, Names, ShapedArray
from minijax.core.errors import indexing as errors
from minijax.core.linear import Zero, aval_of, is_undefined, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.rules import only_arrays, reduced_of, result_type, unreduced_of
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add, sub
from minijax.lax.cases import Case
from minijax.lax.compare import lt
from minijax.lax.convert import convert_element_type
from minijax.lax.gather import gather_p
from minijax.lax.gather_scatter import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from minijax.lax.joining import concatenate, cut_type, slice_value
from minijax.lax.outlined import outlined
from minijax.lax.rules import (
    batch_front,
    cast_together,
    check_same_dtypes,
    const,
    instantiate,
    remembered,
)
from minijax.lax.scatter import scatter_p
from minijax.lax.select import select
from minijax.lax.shapes import (
    Shape,
    broadcast,
    broadcast_in_dim,
    canonicalize_axis,
    check_shapelike,
    expand_dims,
    full_like,
    squeeze,
    sum_over,
)
from minijax.lowering.dialect import i64_array, ir_type, op1

# -------------------------------------------------------------------------- slice


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The elements from `start_indices` up to `limit_indices`, each `strides`-th one.

    TypeError where the indices are not within the array.
    """
    return slice_p.bind1(
        operand,
        start_indices=tuple(start_indices),
        limit_indices=tuple(limit_indices),
        strides=None if strides is None else tuple(strides),
    )


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """`operand[start_index:limit_index:stride]` along `axis`, a positive stride."""
    shape = typeof(operand).shape
    axis = canonicalize_axis(axis, len(shape))
    size = shape[axis]
    lo = 0 if start_index is None else operator.index(start_index)
    hi = size if limit_index is None else operator.index(limit_index)
    start, limit, strides = [0] * len(shape), list(shape), [1] * len(shape)
    start[axis] = lo + size if lo < 0 else lo
    limit[axis] = hi + size if hi < 0 else hi
    strides[axis] = operator.index(stride)
    return slice(operand, start, limit, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """`operand[index]` along `axis`, for an index known when traced."""
    shape, i = typeof(operand).shape, operator.index(index)
    axis = canonicalize_axis(axis, len(shape))
    at = i + shape[axis] if i < 0 else i
    if not 0 <= at < shape[axis]:
        raise errors.index_out_of_bounds(i, axis, shape[axis])
    out = slice_in_dim(operand, at, at + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


slice_p = Primitive("slice")


@slice_p.def_abstract_eval
@remembered
def _slice_type(
    operand: Any,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> list[ShapedArray]:
    only_arrays(slice_p, [operand])
    _check_slice(operand, start_indices, limit_indices, strides)
    steps = strides or (1,) * operand.ndim
    shape = tuple(
        len(range(lo, hi, step))
        for lo, hi, step in zip(start_indices, limit_indices, steps, strict=True)
    )
    return [cut_type("slice", operand, shape, "slicing")]


def _check_slice(
    operand: ShapedArray, start: Shape, limit: Shape, strides: Shape | None
) -> None:
    shape = operand.shape
    check_shapelike("slice", "start_indices", start)
    check_shapelike("slice", "limit_indices", limit)
    if len(shape) != len(start):
        raise errors.slice_start_length(start, shape)
    if len(start) != len(limit):
        raise errors.slice_limit_length(start, limit)
    if any(n < hi for n, hi in zip(shape, limit, strict=True)):
        raise errors.slice_limit_large(limit, shape)
    if any(hi < lo for lo, hi in zip(start, limit, strict=True)):
        raise errors.slice_limit_small(start, limit)
    if strides is not None:
        check_shapelike("slice", "strides", strides)
        if len(strides) != len(shape):
            raise errors.slice_strides_length(strides, shape)
        if any(s <= 0 for s in strides):
            raise errors.slice_strides(strides)


@slice_p.def_lowering
def _slice_lowering(
    ctx: Any,
    x: Any,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> Any:
    (aval,) = ctx.avals_out
    steps = strides or (1,) * len(start_indices)
    out = slice_value(x, start_indices, limit_indices, steps, ir_type(aval))
    return [ctx.with_sharding(out, aval)]


def _slice_transpose(
    ct: Any,
    operand: Any,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> Any:
    config: list[tuple[int, int, int]] = []
    steps = strides or (1,) * len(start_indices)
    shapes = zip(
        operand.aval.shape, typeof(ct).shape, start_indices, steps, strict=True
    )
    for size, count, lo, step in shapes:
        used = 0 if count == 0 else 1 + (count - 1) * step
        config.append((lo, size - lo - used, step - 1))
    return pad(ct, const(ct, 0), config)


slice_p.def_linear(_slice_transpose)


@slice_p.def_batch
def _slice_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> Any:
    (d,) = dims
    if strides is not None:
        strides = (*strides[:d], 1, *strides[d:])
    start = (*start_indices[:d], 0, *start_indices[d:])
    limit = (*limit_indices[:d], axis.size, *limit_indices[d:])
    return [slice(args[0], start, limit, strides)], [d]


# ---------------------------------------------------------------------------- pad


def pad(
    operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]
) -> Any:
    """Adds elements before, after and between those along each dimension.

    `padding_config` has `(low, high, interior)` per dimension; a negative low or high
    takes elements away instead.
    """
    operand, padding_value = cast_together(operand, padding_value)
    config = tuple((int(lo), int(hi), int(mid)) for lo, hi, mid in padding_config)
    return pad_p.bind1(operand, padding_value, padding_config=config)


pad_p = Primitive("pad")
Config = tuple[tuple[int, int, int], ...]


@pad_p.def_abstract_eval
@remembered
def _pad_type(
    operand: Any, padding_value: Any, *, padding_config: Config
) -> list[ShapedArray]:
    only_arrays(pad_p, [operand, padding_value])
    if operand.dtype != padding_value.dtype:
        raise errors.pad_dtypes(operand.dtype, padding_value.dtype)
    if padding_value.ndim:
        raise errors.pad_value_shape(padding_value.shape)
    if len(padding_config) != operand.ndim:
        raise errors.pad_length(padding_config, operand.shape)
    if any(mid < 0 for _, _, mid in padding_config):
        raise errors.pad_interior(padding_config)
    shape = tuple(
        lo + hi + n + max(n - 1, 0) * mid
        for (lo, hi, mid), n in zip(padding_config, operand.shape, strict=True)
    )
    if any(n < 0 for n in shape):
        raise errors.pad_negative(shape, padding_config, operand.shape)
    aval = cut_type("pad", operand, shape, "padding", padding_value)
    return [aval.update(weak_type=operand.weak_type and padding_value.weak_type)]


@pad_p.def_lowering
def _pad_lowering(ctx: Any, x: Any, value: Any, *, padding_config: Config) -> Any:
    (aval,) = ctx.avals_out
    low, high, interior = (
        zip(*padding_config, strict=True) if padding_config else [()] * 3
    )
    attributes = {
        "edge_padding_low": i64_array(low),
        "edge_padding_high": i64_array(high),
        "interior_padding": i64_array(interior),
    }
    out = op1("stablehlo.pad", (x, value), ir_type(aval), attributes)
    return [ctx.with_sharding(out, aval)]


@pad_p.def_jvp
def _pad_jvp(primals: Any, tangents: Any, *, padding_config: Config) -> Any:
    outs = pad_p.bind(*primals, padding_config=padding_config)
    tangents = cast_together(*map(instantiate, tangents))
    return outs, pad_p.bind(*tangents, padding_config=padding_config)


@pad_p.def_transpose
def _pad_transpose(
    cts: Any, operand: Any, padding_value: Any, *, padding_config: Config
) -> Any:
    (ct,) = cts
    if type(ct) is Zero:
        return [None, None]
    inner = pad(ct, const(ct, 0), [(-lo, -hi, 0) for lo, hi, _ in padding_config])
    steps = [mid + 1 for _, _, mid in padding_config]
    inner = slice(inner, [0] * len(steps), typeof(inner).shape, steps)
    around = None
    if is_undefined(padding_value):
        around = sub(_total(ct), _total(inner))
    return [inner if is_undefined(operand) else None, around]


def _total(x: Any) -> Any:
    return sum_over(x, tuple(range(typeof(x).ndim)))


def _spread(x: Any, like: Any, dims: Sequence[int]) -> Any:
    """Broadcasts to the shape of `like`, and to its sharding over Explicit axes."""
    aval = typeof(like)
    to = aval.sharding if aval.mesh.explicit_axes else None
    return broadcast_in_dim(x, aval.shape, dims, out_sharding=to)


@pad_p.def_batch
def _pad_batch(axis: Any, args: Any, dims: Any, *, padding_config: Config) -> Any:
    (x, value), (d, value_dim) = args, dims
    if d is None:
        x, d = batch_front(x, axis, None), 0
    config = (*padding_config[:d], (0, 0, 0), *padding_config[d:])
    if value_dim is None:
        return [pad(x, value, config)], [d]
    mask = pad(full_like(x, True, np.bool_), False, config)
    out = pad(x, const(x, 0), config)
    around = _spread(value, out, (d,))
    return [select(mask, out, around)], [d]


# ------------------------------------------------------------------ dynamic_slice


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """A block of the given sizes at an index that may be traced.

    Args:
      start_indices: one integer scalar per dimension, or an array of them.
      allow_negative_indices: whether a negative index counts from the end.
    """
    index = _canonical_indices(operand, start_indices, allow_negative_indices)
    operand, *index = cast_together(operand, *index)
    return dynamic_slice_p.bind1(operand, *index, slice_sizes=tuple(slice_sizes))


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_slice` along one dimension, and everything along the others."""
    index, negative, axis = _along(operand, start_index, axis, allow_negative_indices)
    sizes = list(typeof(operand).shape)
    sizes[axis] = operator.index(slice_size)
    return dynamic_slice(operand, index, sizes, allow_negative_indices=negative)


@outlined("dynamic_index_in_dim", static=("axis", "keepdims", "allow_negative_indices"))
def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`operand[index]` along `axis`, for an index that may be traced."""
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else squeeze(out, (axis,))


def _along(
    operand: Any, start: Any, axis: int, negative: bool
) -> tuple[list[Any], list[bool], int]:
    ndim = typeof(operand).ndim
    axis = canonicalize_axis(axis, ndim)
    index: list[Any] = [const(start, 0)] * ndim
    index[axis] = start
    return index, [negative and i == axis for i in range(ndim)], axis


def _canonical_indices(
    operand: Any, start: Any, negative: bool | Sequence[bool]
) -> Any:
    """Indices as scalars, negative ones counted from the end where that is allowed."""
    shape = typeof(operand).shape
    if not isinstance(start, Sequence):
        aval = typeof(start)
        if aval.ndim != 1:
            raise errors.indices_not_1d(aval.shape)
        start = [
            index_in_dim(start, i, 0, keepdims=False) for i in range(aval.shape[0])
        ]
    if len(start) != len(shape):
        raise errors.indices_length(len(start), shape)
    allowed = [negative] * len(shape) if isinstance(negative, bool) else negative
    return [_canonical(i, n, a) for i, n, a in zip(start, shape, allowed, strict=True)]


def _canonical(i: Any, size: int, negative: bool) -> Any:
    dtype = typeof(i).dtype
    if isinstance(i, int | np.integer):
        if i < 0 and not negative:
            raise errors.negative_index(i, size)
        return np.asarray(i + size if i < 0 else i, dtype)[()]
    if not negative or dtypes.issubdtype(dtype, np.unsignedinteger):
        return i
    negative_ = lt(i, const(i, 0))
    strong = convert_element_type(i, dtype)
    return select(negative_, add(strong, np.asarray(size, dtype)[()]), i)


dynamic_slice_p = Primitive("dynamic_slice")


def _check_indices(name: str, index: Sequence[ShapedArray]) -> None:
    if any(i.ndim for i in index):
        raise errors.indices_not_scalars(name, tuple(index))
    if index and any(
        i.dtype != index[0].dtype or not dtypes.issubdtype(i.dtype, np.integer)
        for i in index
    ):
        raise errors.index_dtypes(name, [i.dtype.name for i in index])


@dynamic_slice_p.def_abstract_eval
@remembered
def _dynamic_slice_type(
    operand: Any, *index: Any, slice_sizes: Shape
) -> list[ShapedArray]:
    only_arrays(dynamic_slice_p, [operand, *index])
    if any(n < s for n, s in zip(operand.shape, slice_sizes, strict=True)):
        raise errors.slice_sizes_large(slice_sizes, operand.shape)
    if any(s < 0 for s in slice_sizes):
        raise errors.slice_sizes_negative(slice_sizes)
    _check_indices("dynamic_slice", index)
    return [cut_type("dynamic_slice", operand, slice_sizes, "dynamic_slice", *index)]


@dynamic_slice_p.def_lowering
def _dynamic_slice_lowering(ctx: Any, x: Any, *index: Any, slice_sizes: Shape) -> Any:
    (aval,) = ctx.avals_out
    attributes = {"slice_sizes": i64_array(slice_sizes)}
    out = op1("stablehlo.dynamic_slice", (x, *index), ir_type(aval), attributes)
    return [ctx.with_sharding(out, aval)]


@dynamic_slice_p.def_jvp
def _dynamic_slice_jvp(primals: Any, tangents: Any, *, slice_sizes: Shape) -> Any:
    outs = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    t = tangents[0]
    if type(t) is Zero:
        return outs, [zero_tangent(outs[0])]
    return outs, dynamic_slice_p.bind(t, *primals[1:], slice_sizes=slice_sizes)


@dynamic_slice_p.def_transpose
def _dynamic_slice_transpose(
    cts: Any, operand: Any, *index: Any, slice_sizes: Shape
) -> Any:
    (ct,) = cts
    rest = [None] * len(index)
    if type(ct) is Zero or not is_undefined(operand):
        return [None, *rest]
    zeros = instantiate(Zero(operand.aval.to_cotangent()))
    operands = cast_together(zeros, ct, *index)
    return [dynamic_update_slice_p.bind1(*operands), *rest]


@dynamic_slice_p.def_batch
def _dynamic_slice_batch(axis: Any, args: Any, dims: Any, *, slice_sizes: Shape) -> Any:
    operand, *index = args
    every = tuple(range(len(slice_sizes)))
    packed, packed_dim = _packed(index, dims[1:])
    if not index:
        sizes = (*slice_sizes[: dims[0]], axis.size, *slice_sizes[dims[0] :])
        return [dynamic_slice_p.bind1(operand, slice_sizes=sizes)], [dims[0]]
    return gather_p.batch(
        axis,
        [operand, packed],
        [dims[0], packed_dim],
        dimension_numbers=GatherDimensionNumbers(every, (), every),
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


def _packed(index: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Scalar indices as one vector, mapped if any of them is."""
    if not index:
        return np.array([], np.int32), None
    if all(d is None for d in dims):
        return concatenate([broadcast(i, (1,)) for i in index], 0), None
    mapped = next(i for i, d in zip(index, dims, strict=True) if d is not None)
    shape, sharding = (*typeof(mapped).shape, 1), typeof(mapped).sharding
    to = sharding.update(spec=sharding.spec.padded(2)) if sharding.spec.axes else None
    columns = [
        broadcast_in_dim(i, shape, () if d is None else (0,), out_sharding=to)
        for i, d in zip(index, dims, strict=True)
    ]
    return concatenate(columns, 1), 0


# ----------------------------------------------------------- dynamic_update_slice


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """`operand` with the block at an index replaced by `update`."""
    index = _canonical_indices(operand, start_indices, allow_negative_indices)
    operand, update, *index = cast_together(operand, update, *index)
    return dynamic_update_slice_p.bind1(operand, update, *index)


def dynamic_update_slice_in_dim(
    operand: Any,
    update: Any,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_update_slice` along one dimension, from index 0 along the others."""
    index, negative, _ = _along(operand, start_index, axis, allow_negative_indices)
    return dynamic_update_slice(operand, update, index, allow_negative_indices=negative)


@outlined("dynamic_update_index_in_dim", static=("axis", "allow_negative_indices"))
def dynamic_update_index_in_dim(
    operand: Any,
    update: Any,
    index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`operand` with `operand[index]` along `axis` replaced by `update`."""
    if typeof(update).ndim != typeof(operand).ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


dynamic_update_slice_p = Primitive("dynamic_update_slice")


@dynamic_update_slice_p.def_abstract_eval
@remembered
def _dynamic_update_slice_type(
    operand: Any, update: Any, *index: Any
) -> list[ShapedArray]:
    name = "dynamic_update_slice"
    only_arrays(dynamic_update_slice_p, [operand, update, *index])
    if operand.ndim != update.ndim:
        raise errors.update_rank(update.shape, operand.shape)
    if operand.ndim != len(index):
        raise errors.update_indices(index, operand.shape)
    if any(n < s for n, s in zip(operand.shape, update.shape, strict=True)):
        raise errors.update_large(update.shape, operand.shape)
    check_same_dtypes(name, [operand, update])
    _check_indices(name, index)

    def partitions() -> Any:
        if operand.sharding != update.sharding:
            raise errors.update_sharding(operand, update)
        return operand.sharding.spec.partitions

    return [
        result_type(
            name,
            [operand, update, *index],
            operand.shape,
            operand.dtype,
            operand.weak_type and update.weak_type and all(i.weak_type for i in index),
            partitions=partitions,
            sums=_update_sums,
        )
    ]


def _update_sums(_: str, avals: Sequence[ShapedArray]) -> tuple[Names, Names]:
    operand, update, *index = avals
    found = (unreduced_of(operand, None), reduced_of(operand))
    if found[0] != unreduced_of(update, None):
        raise errors.update_unreduced(operand.short(), update.short())
    if found[1] != reduced_of(update):
        raise errors.update_reduced(operand.short(), update.short())
    none = (NO_NAMES, NO_NAMES)
    if any((unreduced_of(i, None), reduced_of(i)) != none for i in index):
        raise errors.update_index_sums([i.short() for i in index])
    return found


@dynamic_update_slice_p.def_lowering
def _dynamic_update_slice_lowering(ctx: Any, x: Any, update: Any, *index: Any) -> Any:
    (aval,) = ctx.avals_out
    operands = (x, update, *index)
    out = op1("stablehlo.dynamic_update_slice", operands, ir_type(aval))
    return [ctx.with_sharding(out, aval)]


@dynamic_update_slice_p.def_jvp
def _dynamic_update_slice_jvp(primals: Any, tangents: Any) -> Any:
    outs = dynamic_update_slice_p.bind(*primals)
    if all(type(t) is Zero for t in tangents[:2]):
        return outs, [zero_tangent(outs[0])]
    pair = map(instantiate, tangents[:2])
    return outs, dynamic_update_slice_p.bind(*pair, *primals[2:])


@dynamic_update_slice_p.def_transpose
def _dynamic_update_slice_transpose(
    cts: Any, operand: Any, update: Any, *index: Any
) -> Any:
    (ct,) = cts
    out: list[Any] = [None, None, *[None] * len(index)]
    if type(ct) is Zero:
        return out
    aval = aval_of(update)
    if is_undefined(operand):
        zeros = instantiate(Zero(typeof(ct).update(shape=aval.shape)))
        out[0] = dynamic_update_slice_p.bind1(ct, zeros, *index)
    if is_undefined(update):
        out[1] = dynamic_slice_p.bind1(ct, *index, slice_sizes=aval.shape)
    return out


@dynamic_update_slice_p.def_batch
def _dynamic_update_slice_batch(axis: Any, args: Any, dims: Any) -> Any:
    operand, update, *index = args
    if not index:
        return [broadcast(update, (axis.size,)) if dims[1] is None else update], [0]
    ndim = len(index)
    every = tuple(range(ndim))
    packed, packed_dim = _packed(index, dims[2:])
    return scatter_p.batch(
        axis,
        [operand, packed, update],
        [dims[0], packed_dim, dims[1]],
        dimension_numbers=ScatterDimensionNumbers(every, (), every),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        update_jaxpr=None,
        update_consts=(),
    )


def _at(*index: int) -> list[Any]:
    return [np.int32(i) for i in index]


def _block(rng: np.random.Generator) -> list[Any]:
    x, y = (rng.uniform(size=s).astype(np.float32) for s in ((4, 3), (2, 2)))
    return [x, y, *_at(3, 1)]


_F, _I = np.float32, np.int32
CASES = [
    Case(
        slice_p,
        [(4, 3)],
        {"start_indices": (1, 0), "limit_indices": (4, 2), "strides": s},
    )
    for s in (None, (2, 1))
] + [
    Case(pad_p, [(4, 3), ()], {"padding_config": ((1, 2, 0), (0, 1, 0))}),
    Case(pad_p, [(4, 3), ()], {"padding_config": ((-1, 2, 1), (2, -1, 2))}),
    Case(
        dynamic_slice_p,
        [(4, 3), (), ()],
        {"slice_sizes": (2, 2)},
        [_F, _I, _I],
        make=lambda rng: [rng.uniform(size=(4, 3)).astype(_F), *_at(1, 2)],
    ),
    Case(
        dynamic_update_slice_p,
        [(4, 3), (2, 2), (), ()],
        dtypes=[_F, _F, _I, _I],
        make=_block,
    ),
]
