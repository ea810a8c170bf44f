"""all_to_all: every device sends a different part of its operand to every device.

    device   0      1      2      3           0      1      2      3
           [a b]  [e f]  [i j]  [m n]       [a e]  [b f]  [c g]  [d h]
           [c d]  [g h]  [k l]  [o p]   ->  [i m]  [j n]  [k o]  [l p]

(The parts of each device are read row by row.) Seen as one array, whose rows are the
devices, it is a transposition: device `i` sends its part `j` to device `j`, where it
stands at `i`.

Type: `f32[4,3]{V:i} -> f32[1,12]{V:i}` for `split_axis=0, concat_axis=1, tiled=True`.
In a group of n, `tiled` divides the size of `split_axis` by n and multiplies that of
`concat_axis` by n. The primitive always does that. Untiled, `split_axis` has size n and
goes away, and a new dimension stands at `concat_axis`; if those differ, the wrapper
puts a dimension of size 1 at the one and takes it away at the other.

StableHLO: `all_to_all`; nothing in groups of one. What is compiled for CPUs is another
program where the operand is large: `all_to_all_cpu.py`.
Upstream: `jax/_src/lax/parallel.py` (`all_to_all`, `pswapaxes`).
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import axis_env, is_evaluating, typeof
from minijax.lax.collectives.all_to_all_cpu import Plan, exchange_in_chunks, plan
from minijax.lax.collectives.axes import (
    AxisName,
    Groups,
    as_groups,
    as_names,
    canonical_axis,
    cast_to_varying,
    check_bound,
    check_varying,
    check_whole,
    group_size,
    operand_type,
    params_names,
)
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.common import (
    batch_collective,
    fold_dim,
    group_attributes,
    split_dim,
)
from minijax.lax.shapes import broadcast, expand_dims, moveaxis, squeeze, transpose
from minijax.lowering import dialect


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Splits every leaf of `x`, exchanges the parts, and joins what arrives.

    Args:
      x: a pytree of arrays.
      axis_name: a name or a tuple of names, the first of which counts slowest.
      split_axis: the dimension that is split into one part for each device.
      concat_axis: the dimension along which what arrives is joined, by sender;
        untiled, its place in the result, from which `split_axis` is gone.
      axis_index_groups: exchanges within each of these lists of indices along the
        axis. They must cover it, and have one size.
      tiled: whether parts may be longer than 1, and dimensions stay.

    Returns:
      With n devices in a group, tiled: the shape of `x` with `split_axis` divided and
      `concat_axis` multiplied by n. Untiled: the shape without `split_axis`, with n
      inserted at `concat_axis`.

    Raises:
      ValueError: axes out of bounds, sizes that do not fit, groups that do not cover.
      NameError: a name that is not bound.

    >>> import numpy as np, minijax
    >>> rows = np.array([[0, 1], [2, 3]])
    >>> minijax.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(rows)
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    groups = as_groups(axis_index_groups)

    def exchange(leaf: Any) -> Any:
        rank = operand_type(leaf).ndim
        split, concat = (canonical_axis(a, rank) for a in (split_axis, concat_axis))
        names = as_names(axis_name)
        size = group_size(names, groups)
        _check_size(typeof(leaf).shape[split], size, axis_name, tiled)
        if tiled or split == concat:
            return _bind(leaf, axis_name, names, split, concat, groups, tiled)
        if split < concat:
            concat += 1
            leaf = expand_dims(leaf, (concat,))
        else:
            leaf = expand_dims(leaf, (concat,))
            split += 1
        out = _bind(leaf, axis_name, names, split, concat, groups, tiled)
        return squeeze(out, (split,))

    return tree_map(exchange, x)


def _check_size(length: int, size: int, axis_name: Any, tiled: bool) -> None:
    if tiled and length % size:
        raise errors.all_to_all_indivisible(length, axis_name, size)
    if not tiled and length != size:
        raise errors.all_to_all_size(size, length, axis_name)


def _bind(
    x: Any,
    axis_name: Any,
    names: tuple[str, ...],
    split: int,
    concat: int,
    groups: Groups,
    tiled: bool,
) -> Any:
    if not names:
        return x  # a group of one
    return all_to_all_p.bind1(
        cast_to_varying(x, names),
        axis_name=axis_name if isinstance(axis_name, str) else names,
        split_axis=split,
        concat_axis=concat,
        axis_index_groups=groups,
        tiled=tiled,
    )


def pswapaxes(
    x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None
) -> Any:
    """Swaps a named axis with a dimension of every leaf: an `all_to_all` in place.

    >>> import numpy as np, minijax
    >>> rows = np.array([[0, 1], [2, 3]])
    >>> minijax.vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(rows)
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


all_to_all_p = Primitive("all_to_all")
all_to_all_p.axis_names = params_names


@all_to_all_p.def_abstract_eval
def _type(
    aval: ShapedArray,
    *,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    axis_index_groups: Groups,
    tiled: bool,
) -> list[ShapedArray]:
    names = as_names(axis_name)
    if is_evaluating() and not axis_env().sizes.keys() & set(names):
        raise errors.eager_collective("all_to_all")
    check_bound(names, "all_to_all")
    check_whole(aval, names, "all_to_all")
    size = group_size(names, axis_index_groups)
    shape = list(aval.shape)
    if shape[split_axis] % size:
        raise errors.all_to_all_split(shape[split_axis], size)
    check_varying(aval, names, "all_to_all")
    shape[split_axis] //= size
    shape[concat_axis] *= size
    return [aval.update(shape=shape, weak_type=False)]


@all_to_all_p.def_lowering
def _lowering(
    ctx: Any,
    x: Any,
    *,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    axis_index_groups: Groups,
    tiled: bool,
) -> list[Any]:
    del tiled  # the wrapper has seen to it
    names = as_names(axis_name)
    size = group_of(ctx, names, axis_index_groups)
    if size == 1:
        return [x]
    attributes = group_attributes(ctx, names, axis_index_groups, global_ids=False)
    attributes |= {
        "split_dimension": dialect.i64(split_axis),
        "concat_dimension": dialect.i64(concat_axis),
        "split_count": dialect.i64(size),
    }
    if chunks := _chunks(ctx, split_axis, concat_axis, size):
        return exchange_in_chunks(x, chunks, ctx.avals_in[0], attributes)
    out_type = dialect.ir_type(ctx.avals_out[0])
    return dialect.op("stablehlo.all_to_all", [x], [out_type], attributes)


def _chunks(ctx: Any, split: int, concat: int, size: int) -> Plan | None:
    """How to cut the operand, where the program is for CPUs and will be compiled."""
    if ctx.module.platform != "cpu" or ctx.manual_axes != set(ctx.mesh.axis_names):
        return None
    chunks = plan(ctx.avals_in[0], split, concat, size)
    return chunks if chunks and ctx.module.substitutes() else None


def group_of(ctx: Any, names: tuple[str, ...], groups: Groups) -> int:
    """The number of devices in a group, while lowering."""
    if groups is not None:
        return len(groups[0])
    size = 1
    for name in names:
        size *= ctx.mesh.shape[name]
    return size


# ------------------------------------------------------------------- derivatives


def _transpose(
    ct: Any, _: Any, *, split_axis: int, concat_axis: int, **params: Any
) -> Any:
    # The parts travel back. The primitive is bound itself, not by way of the wrapper,
    # because the operand is expanded already.
    return all_to_all_p.bind1(
        ct, split_axis=concat_axis, concat_axis=split_axis, **params
    )


all_to_all_p.def_linear(_transpose)

# ---------------------------------------------------------------------- batching


def _own(x: Any, d: int | None, size: int, params: Any) -> tuple[Any, int]:
    """Over the mapped name: rows and parts change places."""
    split, concat = params["split_axis"], params["concat_axis"]
    if d is None:
        x, d = broadcast(x, (size,)), 0
    if split == concat:
        dim = split + (d <= split)
        x = split_dim(x, dim, size)
        rows = d + (dim <= d)
        return fold_dim(_swapped(x, rows, dim), dim), d
    x = fold_dim(moveaxis(x, d, concat), concat)
    return split_dim(x, split, size), split


def _swapped(x: Any, a: int, b: int) -> Any:
    order = list(range(typeof(x).ndim))
    order[a], order[b] = order[b], order[a]
    return transpose(x, order)


def _shift(params: Any, d: int) -> tuple[Any, int]:
    split, concat = params["split_axis"], params["concat_axis"]
    shifted = {
        "split_axis": split + (d <= split),
        "concat_axis": concat + (d <= concat),
    }
    return params | shifted, d


def _mixed(x: Any, _: int | None, at: int, params: Any) -> tuple[Any, int]:
    """Over the mapped name and others, rows in front: one after the other.

    What arrives is collected in three leading dimensions, `(major, mapped, minor)`,
    which keep the order of the names, and is folded into `concat_axis` at the end.
    """
    names = params["axis_name"]
    major, minor = names[:at], names[at + 1 :]
    size = typeof(x).shape[0]
    split, concat = params["split_axis"] + 3, params["concat_axis"] + 3
    x = expand_dims(x, (0, 2))
    x = _exchange(x, major, split, 0, params)
    x = split_dim(x, split, size)  # the parts for the mapped rows: the new rows
    rows = split
    concat += split <= concat
    x = _exchange(x, minor, split + 1, 2, params)
    x = fold_dim(fold_dim(x, 0), 0)  # two dimensions less in front
    x = moveaxis(x, 0, concat - 3)
    return fold_dim(x, concat - 3), rows - 3


def _exchange(
    x: Any, names: tuple[str, ...], split: int, concat: int, params: Any
) -> Any:
    if not names:
        return x
    there = {"axis_name": names, "split_axis": split, "concat_axis": concat}
    return all_to_all_p.bind1(x, **(params | there))


all_to_all_p.batch = batch_collective(all_to_all_p, _own, _shift, _mixed)

# ------------------------------------------------------------------------- cases

CASES = [
    case(all_to_all, split_axis=split, concat_axis=concat, tiled=tiled)
    for split in (0, 1)
    for concat in (0, 1, 2)
    for tiled in (False, True)
]
