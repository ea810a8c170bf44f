"""gather: windows of an array, each at an index of its own.

    x f32[4,3] = rows a b c d      indices [[3], [0]]      ->  rows d a, f32[2,3]

It is what indexing with arrays means. Linear in the operand; the transpose adds the
windows back where they came from, by a scatter. An operand and indices that are both
mapped become a gather with one more batch dimension.

StableHLO: `gather`, which moves windows inside as mode CLIP does; for FILL_OR_DROP the
result is masked afterwards.
Upstream: `jax/_src/lax/slicing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import NO_NAMES, Names, ShapedArray
from minijax.core.errors import indexing as errors
from minijax.core.linear import Zero, is_undefined, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.rules import only_arrays, reduced_of, result_type, unreduced_of
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add_p
from minijax.lax.cases import Case
from minijax.lax.declared import scatter_add_p
from minijax.lax.gather_scatter import (
    Check,
    GatherDimensionNumbers,
    GatherScatterMode,
    as_scatter,
    check_integers,
    combiner,
    shifted,
    windows_shape,
)
from minijax.lax.rules import cast_together, instantiate, remembered
from minijax.lax.shapes import Shape, canonicalize_shape, moveaxis
from minijax.lowering import dialect
from minijax.lowering.dialect import attr, i64_array, ir_type, op1, tensor


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Windows of `operand` of the sizes `slice_sizes`, one for each index vector.

    Args:
      start_indices: integers; its last dimension holds the index vectors.
      dimension_numbers: see `gather_scatter`.
      mode: what an index out of bounds does; by default it is promised not to happen.
      fill_value: for mode `fill`; by default NaN, or the least integer (of unsigned
        ones the greatest), or True.
    """
    if not isinstance(dimension_numbers, GatherDimensionNumbers):
        raise errors.dimension_numbers("gather", type(dimension_numbers))
    chosen = GatherScatterMode.PROMISE_IN_BOUNDS
    if mode is not None:
        chosen = GatherScatterMode.from_any(mode)
    if chosen is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = _default_fill(typeof(operand).dtype)
    operand, start_indices = cast_together(operand, start_indices)
    return gather_p.bind1(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=canonicalize_shape(tuple(slice_sizes)),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=chosen,
        fill_value=fill_value,
    )


def _default_fill(dtype: Any) -> Any:
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtypes.issubdtype(dtype, np.signedinteger):
        return int(np.iinfo(dtype).min)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return int(np.iinfo(dtype).max)
    return True


gather_p = Primitive("gather")

# ------------------------------------------------------------ abstract evaluation


@gather_p.def_abstract_eval
@remembered
def _gather_type(
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **_: Any,
) -> list[ShapedArray]:
    only_arrays(gather_p, [operand, indices])
    check_integers(indices)
    _check_dims(operand, indices, dimension_numbers)
    _check_sizes(operand, indices, dimension_numbers, slice_sizes)

    def partitions() -> Sequence[Any]:
        return _partitions(operand, indices, dimension_numbers, slice_sizes)

    return [
        result_type(
            "gather",
            [operand, indices],
            windows_shape(dimension_numbers, indices.shape, slice_sizes),
            operand.dtype,
            operand.weak_type,
            partitions=partitions,
            sums=_gather_sums,
        )
    ]


def _check_dims(
    operand: ShapedArray, indices: ShapedArray, numbers: GatherDimensionNumbers
) -> None:
    check, rank = Check("gather"), operand.ndim
    if indices.ndim < 1:
        raise errors.no_index_vectors("Gather", indices.ndim)
    offset, collapsed, mapped, batching, indices_batching = numbers
    check.sorted("offset_dims", offset)
    check.unique("offset_dims", offset)
    out_rank = len(offset) + indices.ndim - 1
    for i, d in enumerate(offset):
        if not 0 <= d < out_rank:
            raise errors.offset_range(i, d, out_rank)
    if len(mapped) != indices.shape[-1]:
        count, last = len(mapped), indices.ndim - 1
        raise errors.index_vector_size(
            "Gather", "start_index_map", count, last, indices.shape[-1]
        )
    for i, d in enumerate(mapped):
        if not 0 <= d < rank:
            raise errors.index_map_range("start_index_map", rank, i, d)
    check.unique("start_index_map", mapped)
    check.proper("collapsed_slice_dims", collapsed, rank)
    check.proper("operand_batching_dims", batching, rank)
    check.disjoint("collapsed_slice_dims", collapsed, "operand_batching_dims", batching)
    check.disjoint("start_index_map", mapped, "operand_batching_dims", batching)
    check.batch(
        operand, indices, batching, "start_indices_batching_dims", indices_batching
    )


def _check_sizes(
    operand: ShapedArray,
    indices: ShapedArray,
    numbers: GatherDimensionNumbers,
    sizes: Shape,
) -> None:
    if operand.ndim != len(sizes):
        raise errors.slice_sizes_length(len(sizes), operand.ndim)
    offset, collapsed, _, batching, _ = numbers
    if len(sizes) != len(offset) + len(collapsed) + len(batching):
        raise errors.slice_sizes_count(len(sizes), offset, collapsed, batching)
    if 0 not in indices.shape:
        for i, (size, n) in enumerate(zip(sizes, operand.shape, strict=True)):
            if not 0 <= size <= n:
                raise errors.slice_size_range(i, n, size)
    for i, d in enumerate(collapsed):
        if sizes[d] != 1:
            raise errors.collapsed_size(sizes[d], d, i)
    for i, d in enumerate(batching):
        if sizes[d] > 1:
            raise errors.batching_size(sizes[d], d, i)


def _partitions(
    operand: ShapedArray,
    indices: ShapedArray,
    numbers: GatherDimensionNumbers,
    sizes: Shape,
) -> Sequence[Any]:
    """Whole dimensions of the operand keep their sharding, as do batch dimensions.

    ShardingTypeError where another dimension is sharded: it would take communication.
    """
    ours = operand.sharding.spec.partitions
    theirs = list(indices.sharding.spec.partitions) or [None] * indices.ndim
    ours = ours or (None,) * operand.ndim
    batch = list(
        zip(
            numbers.operand_batching_dims,
            numbers.start_indices_batching_dims,
            strict=True,
        )
    )
    whole = all(
        sizes[i] == operand.shape[i] or ours[i] is None for i in numbers.start_index_map
    )
    agree = all(None in (ours[i], theirs[j]) or ours[i] == theirs[j] for i, j in batch)
    free = set(range(indices.ndim)) - set(numbers.start_indices_batching_dims)
    if not (whole and agree and all(theirs[j] is None for j in free)):
        raise errors.gather_sharding(operand, indices)
    for i, j in batch:
        theirs[j] = theirs[j] or ours[i]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    inner = iter([ours[i] for i in range(operand.ndim) if i not in gone])
    outer = iter(theirs)
    rank = len(numbers.offset_dims) + indices.ndim - 1
    return [
        next(inner) if i in numbers.offset_dims else next(outer) for i in range(rank)
    ]


def _gather_sums(name: str, avals: Sequence[ShapedArray]) -> tuple[Names, Names]:
    operand, indices = avals
    if unreduced_of(operand, None) or unreduced_of(indices, None):
        raise errors.unreduced_gather(name)
    if reduced_of(indices):
        raise errors.reduced_indices(indices.short())
    return NO_NAMES, reduced_of(operand)


# ----------------------------------------------------------------------- lowering


@gather_p.def_lowering
def _gather_lowering(
    ctx: Any,
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
    **_: Any,
) -> Any:
    (aval,) = ctx.avals_out
    if 0 in aval.shape:
        return [ctx.with_sharding(dialect.full(aval, 0), aval)]
    mask = None
    if mode is GatherScatterMode.FILL_OR_DROP:
        inside, indices = _inside(ctx, indices, dimension_numbers, slice_sizes)
        outer = [i for i in range(aval.ndim) if i not in dimension_numbers.offset_dims]
        mask = (inside, outer)
    attributes = {
        "dimension_numbers": attr(_numbers_text(dimension_numbers, ctx.avals_in[1])),
        "slice_sizes": i64_array(slice_sizes),
        "indices_are_sorted": attr("true" if indices_are_sorted else "false"),
    }
    out = op1("stablehlo.gather", (operand, indices), ir_type(aval), attributes)
    if mask is not None:
        mask_type = tensor(aval.shape, np.dtype(bool))
        wide = mask[0]
        if wide.type != mask_type:
            wide = dialect.broadcast_in_dim(wide, mask[1], mask_type)
        fill = dialect.full(aval, np.asarray(fill_value).astype(aval.dtype)[()])
        out = op1("stablehlo.select", (wide, out, fill), ir_type(aval))
    return [ctx.with_sharding(out, aval)]


def _numbers_text(numbers: GatherDimensionNumbers, indices: ShapedArray) -> str:
    fields = numbers._asdict().items()
    parts = [f"{name} = {list(dims)}" for name, dims in fields if dims]
    parts.append(f"index_vector_dim = {indices.ndim - 1}")
    return f"#stablehlo.gather<{', '.join(parts)}>"


def _inside(
    ctx: Any, indices: Any, numbers: GatherDimensionNumbers, sizes: Shape
) -> tuple[Any, Any]:
    """Which windows lie within the operand, and the indices in a signed dtype."""
    operand, aval = ctx.avals_in
    large = any(n > np.iinfo(np.int32).max for n in operand.shape)
    signed = aval.update(dtype=np.dtype(np.int64 if large else np.int32))
    if aval.dtype != signed.dtype:
        indices = dialect.convert(indices, aval, signed)
    last = [operand.shape[d] - sizes[d] for d in numbers.start_index_map]
    bound = dialect.constant(np.array(last, signed.dtype))
    least = dialect.compare("GE", indices, dialect.full(signed, 0), signed)
    if aval.ndim > 1:
        row = tensor((1,) * (aval.ndim - 1) + (len(last),), signed.dtype)
        bound = dialect.broadcast_in_dim(bound, (aval.ndim - 1,), row)
        if row != ir_type(signed):
            bound = dialect.broadcast_in_dim(bound, range(aval.ndim), ir_type(signed))
    most = dialect.compare("LE", indices, bound, signed)
    both_type = tensor(aval.shape, np.dtype(bool))
    both = op1("stablehlo.and", (least, most), both_type)
    true = dialect.constant(np.True_)
    out = ShapedArray(aval.shape[:-1], np.bool_)
    return dialect.reduce_op("stablehlo.and", both, true, [aval.ndim - 1], out), indices


# -------------------------------------------------------------------- derivatives


@gather_p.def_jvp
def _gather_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    outs = gather_p.bind(*primals, **params)
    t = tangents[0]
    if type(t) is Zero:
        return outs, [zero_tangent(outs[0])]
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        params["fill_value"] = 0
    return outs, gather_p.bind(t, primals[1], **params)


@gather_p.def_transpose
def _gather_transpose(
    cts: Any,
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    **_: Any,
) -> Any:
    (ct,) = cts
    if type(ct) is Zero or not is_undefined(operand):
        return [None, None]
    zeros = instantiate(Zero(operand.aval.to_cotangent()))
    zeros, indices, ct = cast_together(zeros, indices, ct)
    out = scatter_add_p.bind1(
        zeros,
        indices,
        ct,
        dimension_numbers=as_scatter(dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
        update_jaxpr=combiner(add_p, operand.aval.dtype),
        update_consts=(),
    )
    return [out, None]


# ----------------------------------------------------------------------- batching


@gather_p.def_batch
def _gather_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **params: Any,
) -> Any:
    (operand, indices), (d, index_dim) = args, dims
    offset, collapsed, mapped, batching, indices_batching = dimension_numbers
    offset = shifted(offset)
    if d is not None:
        operand = moveaxis(operand, d, 0)
        collapsed, mapped, batching = map(shifted, (collapsed, mapped, batching))
    if index_dim is not None:
        indices = moveaxis(indices, index_dim, 0)
        indices_batching = shifted(indices_batching)
    if index_dim is None:  # the mapped dimension is part of every window
        offset, slice_sizes = (0, *offset), (axis.size, *slice_sizes)
    elif d is None:  # windows of several elements may now overlap
        params |= {"unique_indices": False, "indices_are_sorted": False}
    else:
        slice_sizes = (min(axis.size, 1), *slice_sizes)
        batching, indices_batching = (0, *batching), (0, *indices_batching)
    numbers = GatherDimensionNumbers(
        offset, collapsed, mapped, batching, indices_batching
    )
    out = gather_p.bind(
        operand, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params
    )
    return out, [0]


def _rows(numbers: GatherDimensionNumbers, sizes: Shape, **params: Any) -> Case:
    options = {
        "dimension_numbers": numbers,
        "slice_sizes": sizes,
        "unique_indices": False,
        "indices_are_sorted": False,
        "mode": GatherScatterMode.CLIP,
        "fill_value": None,
    } | params

    def make(rng: np.random.Generator) -> list[Any]:
        x = rng.uniform(size=(4, 3)).astype(np.float32)
        return [x, np.array([[3], [0], [3]], np.int32)]

    shapes, kinds = [(4, 3), (3, 1)], [np.float32, np.int32]
    return Case(gather_p, shapes, options, kinds, make=make)


_ROW = GatherDimensionNumbers((1,), (0,), (0,))
CASES = [
    _rows(_ROW, (1, 3)),
    _rows(_ROW, (1, 2)),
    _rows(_ROW, (1, 3), mode=GatherScatterMode.FILL_OR_DROP, fill_value=0),
    _rows(_ROW, (1, 3), mode=GatherScatterMode.PROMISE_IN_BOUNDS),
    _rows(GatherDimensionNumbers((0, 1), (), (0,)), (2, 3)),
]
