"""Operations that join arrays or take them apart: concatenate, stack, split, tile.

    concatenate([a, b], 0)        one array of all parts, along a dimension they have
    stack([a, b], 0)              along a new dimension
    split(x, (2, 3), 0)           the transpose of concatenate
    unstack(x, 0)                 the transpose of stack

Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.avals import NO_NAMES, Names, ShapedArray
from minijax.core.errors import shapes as errors
from minijax.core.linear import Zero, aval_of, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.rules import only_arrays, reduced_of, result_type, unreduced_of
from minijax.core.trace import is_value, typeof
from minijax.lax.cases import Case
from minijax.lax.rules import (
    batch_front,
    cast_together,
    check_same_dtypes,
    instantiate,
    remembered,
)
from minijax.lax.shapes import (
    Shape,
    canonicalize_axis,
    canonicalize_shape,
    is_array,
    reshape,
    sum_over,
    with_shape,
)
from minijax.lowering import dialect
from minijax.lowering.dialect import i64, i64_array, ir_type, op1, tensor

# ------------------------------------------------------------------- shared rules


def _same_sums(name: str, avals: Sequence[ShapedArray]) -> tuple[Names, Names]:
    """Operands side by side: all are sums over the same axes, or none is."""
    kinds = {(unreduced_of(a), reduced_of(a)) for a in avals} - {(NO_NAMES, NO_NAMES)}
    if len({u for u, _ in kinds if u}) > 1:
        raise errors.joined_sums("unreduced", {u for u, _ in kinds})
    if len({r for _, r in kinds if r}) > 1:
        raise errors.joined_sums("reduced", {r for _, r in kinds})
    unreduced = NO_NAMES.union(*(u for u, _ in kinds))
    return unreduced, NO_NAMES.union(*(r for _, r in kinds))


def _joined(
    name: str,
    avals: Sequence[ShapedArray],
    shape: Shape,
    partitions: Callable[[Any], Any],
) -> list[ShapedArray]:
    check_same_dtypes(name, avals)

    def of_first() -> Any:
        shardings = [a.sharding for a in avals if not a.mesh.empty]
        if any(s != shardings[0] for s in shardings):
            raise errors.joined_shardings([a.sharding for a in avals])
        return partitions(list(shardings[0].spec.partitions)) if shardings else ()

    weak = all(a.weak_type for a in avals)
    dtype = avals[0].dtype
    return [
        result_type(
            name, avals, shape, dtype, weak, partitions=of_first, sums=_same_sums
        )
    ]


def _shapes(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(str(a.shape) for a in avals)


def _in_front(axis: Any, args: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Every operand with the mapped dimension in front; those without are repeated."""
    return [batch_front(x, axis, d) for x, d in zip(args, dims, strict=True)]


def concatenate_values(xs: Sequence[Any], dim: int, out: ShapedArray) -> Any:
    """The StableHLO of a concatenation; a tree of 16 at a time compiles faster."""
    while len(xs) > 1:
        xs = [_concatenate_op(xs[i : i + 16], dim, out) for i in range(0, len(xs), 16)]
    return xs[0]


def _concatenate_op(xs: Sequence[Any], dim: int, out: ShapedArray) -> Any:
    size = sum(x.type.shape[dim] for x in xs)
    shape = (*out.shape[:dim], size, *out.shape[dim + 1 :])
    return op1(
        "stablehlo.concatenate", xs, tensor(shape, out.dtype), {"dimension": i64(dim)}
    )


# -------------------------------------------------------------------- concatenate


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Joins arrays along a dimension; the others must agree. TypeError if not."""
    operands = list(operands)
    if len(operands) == 0:
        raise errors.concatenate_nothing()
    (first, *others) = operands
    if not others and is_value(first) and is_array(first):
        return first
    return concatenate_p.bind1(*cast_together(*operands), dimension=dimension)


concatenate_p = Primitive("concatenate")


@concatenate_p.def_abstract_eval
@remembered
def _concatenate_type(*operands: Any, dimension: int) -> list[ShapedArray]:
    only_arrays(concatenate_p, operands)
    first = operands[0]
    if len({o.ndim for o in operands}) != 1:
        raise errors.concatenate_ranks(_shapes(operands))
    if not 0 <= dimension < first.ndim:
        raise errors.concatenate_dimension(dimension, _shapes(operands))
    rest = {o.shape[:dimension] + o.shape[dimension + 1 :] for o in operands}
    if len(rest) > 1:
        raise errors.concatenate_shapes(dimension, _shapes(operands))
    size = sum(o.shape[dimension] for o in operands)
    shape = (*first.shape[:dimension], size, *first.shape[dimension + 1 :])
    return _joined("concatenate", operands, shape, lambda parts: parts)


@concatenate_p.def_lowering
def _concatenate_lowering(ctx: Any, *xs: Any, dimension: int) -> Any:
    (out,) = ctx.avals_out
    return [ctx.with_sharding(concatenate_values(xs, dimension, out), out)]


def _linear_in_all(primitive: Primitive) -> None:
    """The jvp of a primitive that is linear in all its operands together."""

    @primitive.def_jvp
    def _(primals: Any, tangents: Any, **params: Any) -> Any:
        outs = primitive.bind(*primals, **params)
        return outs, primitive.bind(*map(instantiate, tangents), **params)


_linear_in_all(concatenate_p)


@concatenate_p.def_transpose
def _concatenate_transpose(cts: Any, *operands: Any, dimension: int) -> Any:
    (ct,) = cts
    if type(ct) is Zero:
        return [None] * len(operands)
    parts = split(ct, [aval_of(o).shape[dimension] for o in operands], dimension)
    return [
        p if is_undefined(o) else None for p, o in zip(parts, operands, strict=True)
    ]


@concatenate_p.def_batch
def _concatenate_batch(axis: Any, args: Any, dims: Any, *, dimension: int) -> Any:
    return [concatenate(_in_front(axis, args, dims), dimension + 1)], [0]


# -------------------------------------------------------------------------- split


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Cuts an array along `axis` into parts of these sizes."""
    axis = canonicalize_axis(axis, typeof(operand).ndim)
    return split_p.bind(operand, sizes=canonicalize_shape(tuple(sizes)), axis=axis)


split_p = Primitive("split")


@split_p.def_abstract_eval
@remembered
def _split_type(operand: Any, *, sizes: Shape, axis: int) -> list[ShapedArray]:
    only_arrays(split_p, [operand])
    if any(s < 0 for s in sizes):
        raise errors.split_negative(list(sizes))
    if sum(sizes) != operand.shape[axis]:
        raise errors.split_sum(sum(sizes), axis, list(operand.shape))
    before, after = operand.shape[:axis], operand.shape[axis + 1 :]
    return [cut_type("split", operand, (*before, s, *after), "split") for s in sizes]


def cut_type(
    name: str, operand: ShapedArray, shape: Shape, verb: str, *others: ShapedArray
) -> ShapedArray:
    """The type of a part of an array, which keeps the array's Explicit sharding.

    ShardingTypeError where the part cannot be sharded so; `others` are more operands,
    indices and the like, which only matter to what varies.
    """

    def partitions() -> Any:
        if all(s == 1 for s in shape):
            return (None,) * len(shape)
        spec = operand.sharding.spec
        for i, (old, new) in enumerate(zip(operand.shape, shape, strict=True)):
            cut = int(np.prod([operand.mesh.shape[n] for n in spec.axes_of(i)]))
            if old != new and new % cut:
                part = spec.partitions[i]
                raise errors.cut_sharded(verb, new, cut, part, operand.short(), shape)
        return spec.partitions

    return result_type(
        name,
        [operand, *others],
        shape,
        operand.dtype,
        operand.weak_type,
        partitions=partitions,
        sums=lambda _, avals: (unreduced_of(avals[0], None), reduced_of(avals[0])),
    )


def slice_value(
    x: Any,
    start: Sequence[int],
    limit: Sequence[int],
    strides: Sequence[int],
    type: Any,
) -> Any:
    """The StableHLO of a static slice."""
    attributes = {
        "start_indices": i64_array(start),
        "limit_indices": i64_array(limit),
        "strides": i64_array(strides),
    }
    return op1("stablehlo.slice", (x,), type, attributes)


def _runs(aval: ShapedArray, axis: int, sizes: Sequence[int]) -> Any:
    """Start and limit indices of one run after the other along `axis`."""
    at = 0
    for size in sizes:
        start, limit = [0] * aval.ndim, list(aval.shape)
        start[axis], limit[axis] = at, at + size
        yield start, limit
        at += size


@split_p.def_lowering
def _split_lowering(ctx: Any, x: Any, *, sizes: Shape, axis: int) -> Any:
    (aval,), ones = ctx.avals_in, (1,) * ctx.avals_in[0].ndim
    runs = zip(_runs(aval, axis, sizes), ctx.avals_out, strict=True)
    outs = [slice_value(x, lo, hi, ones, ir_type(out)) for (lo, hi), out in runs]
    return ctx.with_shardings(outs, ctx.avals_out)


_linear_in_all(split_p)


@split_p.def_transpose
def _split_transpose(cts: Any, operand: Any, *, sizes: Shape, axis: int) -> Any:
    if all(type(ct) is Zero for ct in cts):
        return [None]
    return [concatenate([instantiate(ct) for ct in cts], axis)]


@split_p.def_batch
def _split_batch(_: Any, args: Any, dims: Any, *, sizes: Shape, axis: int) -> Any:
    (bdim,) = dims
    outs = split(args[0], sizes, axis + (axis >= bdim))
    return outs, [bdim] * len(outs)


# -------------------------------------------------------------- stack and unstack


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays of one shape along a new dimension. ValueError if they differ."""
    if len(operands) == 0:
        raise errors.stack_nothing()
    axis = canonicalize_axis(axis, typeof(operands[0]).ndim + 1)
    return stack_p.bind1(*cast_together(*operands), axis=axis)


def unstack(operand: Any, axis: int = 0) -> list[Any]:
    """The slices of an array along a dimension, without that dimension."""
    aval = typeof(operand)
    if aval.ndim == 0:
        raise errors.unstack_scalar(aval.shape)
    return unstack_p.bind(operand, axis=canonicalize_axis(axis, aval.ndim))


stack_p = Primitive("stack")
unstack_p = Primitive("unstack")


@stack_p.def_abstract_eval
@remembered
def _stack_type(*operands: Any, axis: int) -> list[ShapedArray]:
    only_arrays(stack_p, operands)
    if len({o.ndim for o in operands}) != 1:
        raise errors.stack_ranks(_shapes(operands))
    if len({o.shape for o in operands}) != 1:
        raise errors.stack_shapes(_shapes(operands))
    old = operands[0].shape
    shape = (*old[:axis], len(operands), *old[axis:])
    return _joined(
        "stack", operands, shape, lambda parts: [*parts[:axis], None, *parts[axis:]]
    )


@unstack_p.def_abstract_eval
@remembered
def _unstack_type(operand: Any, *, axis: int) -> list[ShapedArray]:
    only_arrays(unstack_p, [operand])
    shape = operand.shape[:axis] + operand.shape[axis + 1 :]

    def partitions() -> Any:
        old = operand.sharding.spec.partitions
        if old[axis] is not None:
            raise errors.unstack_sharded(axis, operand.short())
        return old[:axis] + old[axis + 1 :]

    return [with_shape("unstack", operand, shape, partitions)] * operand.shape[axis]


@stack_p.def_lowering
def _stack_lowering(ctx: Any, *xs: Any, axis: int) -> Any:
    (out,) = ctx.avals_out
    one = tensor((*out.shape[:axis], 1, *out.shape[axis + 1 :]), out.dtype)
    dims = [i for i in range(out.ndim) if i != axis]
    wide = [dialect.broadcast_in_dim(x, dims, one) for x in xs]
    return [ctx.with_sharding(concatenate_values(wide, axis, out), out)]


@unstack_p.def_lowering
def _unstack_lowering(ctx: Any, x: Any, *, axis: int) -> Any:
    (aval,), ones = ctx.avals_in, (1,) * ctx.avals_in[0].ndim
    one = tensor((*aval.shape[:axis], 1, *aval.shape[axis + 1 :]), aval.dtype)
    runs = _runs(aval, axis, [1] * aval.shape[axis])
    return [
        ctx.with_sharding(
            dialect.reshape(slice_value(x, lo, hi, ones, one), ir_type(out)), out
        )
        for (lo, hi), out in zip(runs, ctx.avals_out, strict=True)
    ]


_linear_in_all(stack_p)
_linear_in_all(unstack_p)


@stack_p.def_transpose
def _stack_transpose(cts: Any, *operands: Any, axis: int) -> Any:
    (ct,) = cts
    if type(ct) is Zero:
        return [None] * len(operands)
    parts = unstack_p.bind(ct, axis=axis)
    return [
        p if is_undefined(o) else None for p, o in zip(parts, operands, strict=True)
    ]


@unstack_p.def_transpose
def _unstack_transpose(cts: Any, operand: Any, *, axis: int) -> Any:
    if all(type(ct) is Zero for ct in cts):
        return [None]
    return [stack([instantiate(ct) for ct in cts], axis)]


@stack_p.def_batch
def _stack_batch(axis_data: Any, args: Any, dims: Any, *, axis: int) -> Any:
    bdim = dims[0]
    if bdim is not None and all(d == bdim for d in dims):
        after = axis > bdim
        out = stack_p.bind1(*args, axis=axis + after)
        return [out], [bdim if after else bdim + 1]
    return [stack(_in_front(axis_data, args, dims), axis + 1)], [0]


@unstack_p.def_batch
def _unstack_batch(_: Any, args: Any, dims: Any, *, axis: int) -> Any:
    (bdim,) = dims
    outs = unstack_p.bind(args[0], axis=axis + (axis >= bdim))
    return outs, [bdim - (axis < bdim)] * len(outs)


# --------------------------------------------------------------------------- tile


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Repeats the whole array `reps[i]` times along dimension `i`."""
    return tile_p.bind1(operand, reps=canonicalize_shape(tuple(reps)))


tile_p = Primitive("tile")


@tile_p.def_abstract_eval
@remembered
def _tile_type(x: Any, *, reps: Shape) -> list[ShapedArray]:
    only_arrays(tile_p, [x])
    if x.ndim != len(reps):
        raise errors.tile_reps(len(reps), x.ndim)

    def partitions() -> Any:
        old = x.sharding.spec.partitions
        for i, (rep, part) in enumerate(zip(reps, old, strict=True)):
            if rep != 1 and part is not None:
                raise errors.tile_sharded(i, x, reps)
        return old

    shape = tuple(n * r for n, r in zip(x.shape, reps, strict=True))
    return [with_shape("tile", x, shape, partitions)]


def _interleaved(reps: Sequence[int], shape: Shape) -> Shape:
    return tuple(n for pair in zip(reps, shape, strict=True) for n in pair)


@tile_p.def_lowering
def _tile_lowering(ctx: Any, x: Any, *, reps: Shape) -> Any:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    ones = _interleaved([1] * aval.ndim, aval.shape)
    wide = _interleaved(reps, aval.shape)
    x = dialect.reshape(x, tensor(ones, aval.dtype))
    if wide != ones:
        x = dialect.broadcast_in_dim(x, range(len(wide)), tensor(wide, aval.dtype))
    return [ctx.with_sharding(dialect.reshape(x, ir_type(out)), out)]


def _tile_transpose(ct: Any, operand: Any, *, reps: Shape) -> Any:
    aval = operand.aval
    to = None
    if aval.mesh.explicit_axes:
        spec = aval.to_cotangent().sharding.spec
        parts = [p for part in spec.partitions for p in (None, part)]
        to = aval.sharding.update(spec=spec.update(partitions=parts))
    wide = reshape(ct, _interleaved(reps, aval.shape), out_sharding=to)
    return sum_over(wide, tuple(range(0, 2 * aval.ndim, 2)))


tile_p.def_linear(_tile_transpose)


@tile_p.def_batch
def _tile_batch(_: Any, args: Any, dims: Any, *, reps: Shape) -> Any:
    (bdim,) = dims
    return [tile(args[0], (*reps[:bdim], 1, *reps[bdim:]))], [bdim]


CASES = [
    Case(concatenate_p, [(3, 2), (1, 2)], {"dimension": 0}),
    Case(concatenate_p, [(3, 1), (3, 2), (3, 1)], {"dimension": 1}),
    Case(split_p, [(3, 4)], {"sizes": (1, 3), "axis": 1}),
    Case(stack_p, [(3, 2), (3, 2)], {"axis": 1}),
    Case(unstack_p, [(3, 2)], {"axis": 0}),
    Case(tile_p, [(3, 2)], {"reps": (2, 3)}),
]
