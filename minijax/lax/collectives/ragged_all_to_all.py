"""ragged_all_to_all: an `all_to_all` whose parts have different sizes.

    device     0           1                       0            1
            [a b c]     [d e f]        ->       [a d e]      [b c f]
    sends    1, 2        2, 1

Device `i` sends `operand[input_offsets[j]:][:send_sizes[j]]` to device `j`, which
writes it into its output at `output_offsets[j]` (as given by the sender). Where nothing
arrives, the result is `output`. `recv_sizes[j]` is how much arrives from device `j`.
Along the leading dimension only.

Type: that of `output`. StableHLO: the custom call `ragged_all_to_all`, which XLA
implements for GPU and TPU. For CPU it has none; what is compiled there gathers all
arguments, and each device takes what it receives.
Upstream: `jax/_src/lax/parallel.py` (`ragged_all_to_all`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.linear import Zero, is_undefined, zero_tangent
from minijax.core.mesh import replica_groups
from minijax.core.primitive import Primitive
from minijax.core.trace import axis_env, extend_axis_env, is_evaluating, typeof
from minijax.lax.arithmetic import add, div, mul, sub
from minijax.lax.collectives.all_to_all import all_to_all_p
from minijax.lax.collectives.axes import (
    Groups,
    as_groups,
    as_names,
    cast_to_varying,
    check_bound,
    group_size,
    names_size,
    params_names,
)
from minijax.lax.collectives.common import (
    all_rows,
    at_own_index,
    gather_rows,
    order_of,
    own_rows,
    rows_in_front,
    take_rows,
)
from minijax.lax.compare import eq, ge, gt, lt
from minijax.lax.convert import convert_element_type
from minijax.lax.gather import GatherDimensionNumbers, gather
from minijax.lax.integers import bitwise_and, bitwise_not, bitwise_or
from minijax.lax.joining import concatenate, split
from minijax.lax.reductions import reduce_max
from minijax.lax.rules import batch_at, composed, const, full_like, instantiate
from minijax.lax.select import select
from minijax.lax.shapes import (
    broadcast_in_dim,
    broadcasted_iota,
    expand_dims,
    moveaxis,
    reshape,
    sum_over,
    transpose,
    zeros_like,
)
from minijax.lowering import dialect

_ARGUMENTS = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = None,
) -> Any:
    """Exchanges parts of different sizes along a named axis.

    Args:
      operand: what is sent, `[rows, ...]`.
      output: what the result is where nothing arrives, `[rows, ...]`.
      input_offsets: the first row for each receiver, `int[n]`.
      send_sizes: the number of rows for each receiver.
      output_offsets: the row at which each receiver writes them.
      recv_sizes: the number of rows that each sender sends to this device.
      axis_name: a name or a tuple of names.
      axis_index_groups: exchanges within each of these lists of indices.

    Raises:
      ValueError: offsets or sizes that are no integers of rank 1.
    """
    where = (input_offsets, send_sizes, output_offsets, recv_sizes)
    return ragged_all_to_all_p.bind1(
        operand,
        output,
        *where,
        axis_name=as_names(axis_name),
        axis_index_groups=as_groups(axis_index_groups),
    )


ragged_all_to_all_p = Primitive("ragged_all_to_all")
ragged_all_to_all_p.axis_names = params_names


@ragged_all_to_all_p.def_abstract_eval
def _type(
    operand: ShapedArray,
    output: ShapedArray,
    *where: ShapedArray,
    axis_name: tuple[str, ...],
    axis_index_groups: Groups,
) -> list[ShapedArray]:
    if is_evaluating() and not axis_env().sizes.keys() & set(axis_name):
        raise errors.eager_collective("ragged_all_to_all")
    for name, aval in zip(_ARGUMENTS, where, strict=True):
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise errors.ragged_not_integer(name)
    for name, aval in zip(_ARGUMENTS, where, strict=True):
        if aval.ndim != 1 or aval.shape[0] < 1:
            raise errors.ragged_rank(name, aval.shape)
    check_bound(axis_name, "ragged_all_to_all")
    size = group_size(axis_name, axis_index_groups)
    lengths = tuple(aval.shape[0] for aval in where)
    if len(set(lengths)) > 1 or lengths[0] % size:
        raise errors.ragged_lengths(lengths, size)
    if operand.dtype != output.dtype or operand.shape[1:] != output.shape[1:]:
        raise errors.ragged_data(operand.short(), output.short())
    return [output.strip_weak_type()]


@ragged_all_to_all_p.def_lowering
def _lowering(
    ctx: Any, *values: Any, axis_name: tuple[str, ...], axis_index_groups: Groups
) -> list[Any]:
    if ctx.module.platform == "cpu" and ctx.module.substitutes():
        how = {"names": axis_name, "groups": axis_index_groups}
        with extend_axis_env(ctx.mesh.shape.items()):
            return composed(_by_gathers)(ctx, *values, **how)
    groups = replica_groups(ctx.mesh, axis_name)
    if axis_index_groups is not None:
        groups = [[g[i] for i in part] for g in groups for part in axis_index_groups]
    config = {
        "channel_id": dialect.i64(1),
        "replica_groups": dialect.dense_i64(groups),
    }
    attributes = {
        "call_target_name": dialect.string("ragged_all_to_all"),
        "backend_config": ir.DictAttr.get(config),
        "api_version": dialect.i32(4),
    }
    types = [dialect.ir_type(ctx.avals_out[0])]
    return dialect.op("stablehlo.custom_call", values, types, attributes)


# -------------------------------------------------------------------- derivatives


@ragged_all_to_all_p.def_jvp
def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand_dot, output_dot, *_ = tangents
    outs = ragged_all_to_all_p.bind(*primals, **params)
    if type(operand_dot) is Zero and type(output_dot) is Zero:
        return outs, [zero_tangent(outs[0])]
    dots = [instantiate(operand_dot), instantiate(output_dot)]
    return outs, ragged_all_to_all_p.bind(*dots, *primals[2:], **params)


@ragged_all_to_all_p.def_transpose
def _transpose(
    cts: Any,
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    **params: Any,
) -> list[Any]:
    (ct,) = cts
    if type(ct) is Zero:
        return [None] * 6
    # Where each part was read from and written to, as the receivers know it.
    received_at = _exchanged(output_offsets, params)
    read_from = _exchanged(input_offsets, params)
    operand_ct = output_ct = None
    if is_undefined(operand):
        operand_ct = ragged_all_to_all_p.bind1(
            ct,
            instantiate(Zero(operand.aval.to_cotangent())),
            received_at,
            recv_sizes,
            read_from,
            send_sizes,
            **params,
        )
    if is_undefined(output):
        output_ct = _where_nothing_arrived(ct, received_at, recv_sizes)
    return [operand_ct, output_ct, None, None, None, None]


def _exchanged(offsets: Any, params: Any) -> Any:
    return all_to_all_p.bind1(
        offsets, split_axis=0, concat_axis=0, tiled=True, **params
    )


def _where_nothing_arrived(ct: Any, starts: Any, sizes: Any) -> Any:
    """The cotangent with zeros in the rows that were written."""
    aval, parts = typeof(ct), typeof(starts).shape[0]
    dtype = typeof(starts).dtype
    rows = broadcasted_iota(dtype, (aval.shape[0], parts), 0)
    first = broadcast_in_dim(starts, rows.shape, (1,))
    size = broadcast_in_dim(sizes, rows.shape, (1,))
    outside = bitwise_or(lt(rows, first), ge(rows, add(first, size)))
    times = sum_over(convert_element_type(bitwise_not(outside), dtype), (1,))
    written = gt(times, zeros_like(times))
    return select(broadcast_in_dim(written, aval.shape, (0,)), zeros_like(ct), ct)


# ----------------------------------------------------------------------- batching


@ragged_all_to_all_p.def_batch
def _batch(
    axis: Any, args: Any, dims: Any, *, axis_name: Any, axis_index_groups: Any
) -> Any:
    """Over another axis: all elements of the batch are parts of one exchange."""
    if axis.name in axis_name:
        return _over_mapped(axis, args, dims, axis_name, axis_index_groups)
    data = [
        batch_at(x, axis, 0) if d is None else moveaxis(x, d, 0)
        for x, d in zip(args[:2], dims[:2], strict=True)
    ]
    where = [
        batch_at(x, axis, 1) if d is None else moveaxis(x, d, 1)
        for x, d in zip(args[2:], dims[2:], strict=True)
    ]
    # Rows of element k come after those of the elements before it.
    for position, rows in ((0, data[0]), (2, data[1])):
        offsets = where[position]
        aval = typeof(offsets)
        element = broadcasted_iota(aval.dtype, aval.shape, 1)
        step = const(element, typeof(rows).shape[1])
        where[position] = add(offsets, mul(element, step))
    merged = [_merged(x) for x in (*data, *where)]
    if axis_index_groups is None:
        out = ragged_all_to_all_p.bind1(
            *merged, axis_name=axis_name, axis_index_groups=None
        )
    else:
        out = _by_gathers(*merged, names=axis_name, groups=axis_index_groups)
    shape = typeof(out).shape
    n = axis.size
    return [reshape(out, (n, shape[0] // n, *shape[1:]))], [0]


def _over_mapped(
    axis: Any, args: Any, dims: Any, names: tuple[str, ...], groups: Groups
) -> Any:
    """Over the mapped name: rows of one array, fetched by a gather.

    The devices along further names hand over all they have, as in `batch_collective`.
    """
    for_checks = [_element(x, d) for x, d in zip(args, dims, strict=True)]
    _type(*for_checks, axis_name=names, axis_index_groups=groups)
    at = names.index(axis.name)
    rows = [
        all_rows(cast_to_varying(rows_in_front(x, d, axis.size), names), names, at)
        for x, d in zip(args, dims, strict=True)
    ]
    if groups is None:
        groups = (tuple(range(typeof(rows[0]).shape[0])),)
    return [own_rows(_in_groups(rows, groups), names, at)], [0]


def _by_gathers(*args: Any, names: tuple[str, ...], groups: Groups) -> Any:
    """Made of what every platform has.

    Each device takes what it receives from the arguments of all. So it is on a CPU,
    and for a batch within groups, which upstream has not.
    """
    rows = [gather_rows(cast_to_varying(x, names), names, 0) for x in args]
    every = (tuple(range(names_size(names))),)
    return at_own_index(_in_groups(rows, groups or every), names, 0)


def _in_groups(rows: Sequence[Any], groups: tuple[Any, ...]) -> Any:
    """The results of all devices, from all their arguments."""
    order, back = order_of(groups)
    parts = zip(*(_grouped(x, order, groups) for x in rows), strict=True)
    return take_rows(concatenate([_fetched(*part) for part in parts], 0), back)


def _element(x: Any, d: int | None) -> Any:
    """The type of one element of a batch."""
    aval = typeof(x)
    if d is None:
        return aval
    return aval.update(shape=aval.shape[:d] + aval.shape[d + 1 :])


def _grouped(x: Any, order: list[int], groups: tuple[Any, ...]) -> list[Any]:
    """The rows of each group, in its order."""
    return list(split(take_rows(x, order), [len(g) for g in groups]))


def _fetched(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
) -> Any:
    """What each of `n` devices ends up with, all arguments having them in front.

    Seen by a receiver: part `p` of `parts` comes from device `p * n // parts`; it is
    written to the rows from `first[p]` on. Where parts overlap the last one counts.
    """
    del send_sizes  # the receivers know them
    (n, length), (_, total) = typeof(operand).shape[:2], typeof(output).shape[:2]
    parts = typeof(recv_sizes).shape[1]
    shape = (n, total, parts)  # (receiver, row, part)

    def along(x: Any, dims: tuple[int, ...]) -> Any:
        return broadcast_in_dim(convert_element_type(x, np.int32), shape, dims)

    row, part = (
        broadcasted_iota(np.int32, shape, 1),
        broadcasted_iota(np.int32, shape, 2),
    )
    first = along(_to_receivers(output_offsets, n), (0, 2))
    into = sub(row, first)
    arrives = bitwise_and(ge(into, const(into, 0)), lt(into, along(recv_sizes, (0, 2))))
    last = reduce_max(select(arrives, part, full_like(part, -1)), (2,))
    sender = div(mul(part, const(part, n)), const(part, parts))
    start = along(_to_receivers(input_offsets, n), (0, 2))
    source = add(mul(sender, const(part, length)), add(start, into))
    chosen = eq(part, along(last, (0, 1)))
    source = sum_over(select(chosen, source, zeros_like(source)), (2,))
    taken = _rows_at(_merged(operand), source)
    written = ge(last, const(last, 0))
    return select(broadcast_in_dim(written, typeof(taken).shape, (0, 1)), taken, output)


def _to_receivers(offsets: Any, n: int) -> Any:
    """`all_to_all` of what senders have for each part, all devices in front."""
    parts = typeof(offsets).shape[1] // n
    x = reshape(offsets, (n, n, parts))
    return reshape(transpose(x, (1, 0, 2)), (n, n * parts))


def _rows_at(x: Any, rows: Any) -> Any:
    """`x[rows]`; what is out of bounds is clipped, and nobody reads it."""
    shape, lead = typeof(x).shape, typeof(rows).ndim
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(lead, lead + len(shape) - 1)),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
    )
    at = expand_dims(rows, (lead,))
    return gather(x, at, numbers, (1, *shape[1:]), mode="clip")


def _merged(x: Any) -> Any:
    shape = typeof(x).shape
    return reshape(x, (shape[0] * shape[1], *shape[2:]))
