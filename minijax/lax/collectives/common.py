"""What the collectives share: lowering attributes, and batching along the mapped axis.

`vmap` of a collective over another name than the mapped one only shifts dimensions.
Over the mapped name itself the devices are the rows of a dimension, and the collective
becomes a movement of data within one array. Each page gives that for the simplest
case, one name and no groups, as its `own` function; `batch_collective` reduces every
other case to it:

* groups: rows are put in the order of the groups and split into `(group, member)`; the
  collective acts over the members, and the groups are one more dimension;
* several names, of which one is mapped: the other devices' operands are gathered, so
  that all names together are one dimension; afterwards each device takes its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.collectives.axes import Groups, names_size, params_names
from minijax.lax.collectives.axis_index import axis_index
from minijax.lax.collectives.primitives import all_gather_p
from minijax.lax.joining import concatenate, split
from minijax.lax.shapes import broadcast, moveaxis, reshape
from minijax.lax.slicing import dynamic_index_in_dim
from minijax.lowering import sharding
from minijax.lowering.dialect import attr

# ---------------------------------------------------------------------- lowering


def group_attributes(
    ctx: Any, names: Sequence[str], groups: Groups, *, global_ids: bool = True
) -> dict[str, Any]:
    """Between which devices an operation moves data, and by which channel."""
    attributes = {
        "replica_groups": sharding.replica_groups(ctx.mesh, names, groups),
        "channel_handle": sharding.channel_handle(),
    }
    return attributes | ({"use_global_device_ids": attr("unit")} if global_ids else {})


# -------------------------------------------------------------------- rearranging


def split_dim(x: Any, dim: int, parts: int) -> Any:
    """Splits a dimension into `(parts, rest)`."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], parts, shape[dim] // parts, *shape[dim + 1 :]))


def fold_dim(x: Any, dim: int) -> Any:
    """Folds a dimension and the next one into one."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def take_rows(x: Any, rows: Sequence[int]) -> Any:
    """The rows of dimension 0 in this order; equal to the operand if in order."""
    if tuple(rows) == tuple(range(typeof(x).shape[0])):
        return x
    each = rows_of(x)
    return concatenate([each[r] for r in rows], 0)


def rows_of(x: Any) -> list[Any]:
    """The rows of dimension 0, one by one; each keeps the dimension."""
    return split(x, (1,) * typeof(x).shape[0])


def rows_in_front(x: Any, d: int | None, size: int) -> Any:
    """The mapped dimension as dimension 0; an operand without it is repeated."""
    return broadcast(x, (size,)) if d is None else moveaxis(x, d, 0)


# ----------------------------------------------------------------------- batching

Params = dict[str, Any]
#: `own(x, d, size, params) -> (out, out_d)`: the collective over dimension `d` alone,
#: which has `size` rows, one a device. `d` is None for an operand that all devices
#: share, and `out_d` for a result that is the same on all of them.
Own = Callable[[Any, int | None, int, Params], tuple[Any, int | None]]
#: `shift(params, d) -> (params, out_d)`: the parameters for an operand with a dimension
#: more, not acted over, at `d`; and where the result has that dimension.
Shift = Callable[[Params, int], tuple[Params, int]]


def batch_collective(
    primitive: Primitive, own: Own, shift: Shift, mixed: Own | None = None
) -> Callable[..., Any]:
    """The batching rule of a collective of one operand and one result.

    Its names are the parameter `axes` or `axis_name`; its groups, if it has any,
    `axis_index_groups`. `mixed` is a better way than gathering for several names
    without groups.
    """

    def batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        (x,), (d,) = args, dims
        names = params_names(params)
        if axis.name not in names:
            if d is None:
                return primitive.bind(x, **params), [None]
            params, out_d = shift(params, d)
            return primitive.bind(x, **params), [out_d]
        primitive.abstract_eval(_one_row(x, d), **params)  # for its checks
        groups = params.get("axis_index_groups")
        if groups is None and len(names) == 1:
            out, out_d = own(x, d, axis.size, params)
            return [out], [out_d]
        x = rows_in_front(x, d, axis.size)
        if groups is None and mixed is not None:
            out, out_d = mixed(x, 0, names.index(axis.name), params)
        else:
            at = names.index(axis.name)
            out, out_d = _over_all(own, shift, x, names, at, params)
        return [out], [out_d]

    return batch


def _one_row(x: Any, d: int | None) -> Any:
    """The type that the collective was called with."""
    aval = typeof(x)
    if d is None:
        return aval
    return aval.update(shape=aval.shape[:d] + aval.shape[d + 1 :])


def _over_all(
    own: Own, shift: Shift, x: Any, names: tuple[str, ...], at: int, params: Params
) -> tuple[Any, int | None]:
    """Several names or groups, for rows in front that are mapped as `names[at]`."""
    rows = all_rows(x, names, at)
    groups = params.get("axis_index_groups")
    if groups is None:
        out, out_d = own(rows, 0, typeof(rows).shape[0], params)
        if out_d is None:
            return out, None
        out = moveaxis(out, out_d, 0)
    else:
        out = grouped(own, shift, rows, groups, params)
    return own_rows(out, names, at), 0


def all_rows(x: Any, names: tuple[str, ...], at: int) -> Any:
    """Every device's rows, in the order of the names, in front.

    The operand has the rows of this device in front, which are mapped as `names[at]`.
    """
    major, minor = names[:at], names[at + 1 :]
    shape = typeof(x).shape
    x = gather_rows(gather_rows(x, minor, 1), major, 0)
    return reshape(x, (names_size(major) * shape[0] * names_size(minor), *shape[1:]))


def own_rows(x: Any, names: tuple[str, ...], at: int) -> Any:
    """The rows of this device out of all rows; the inverse of `all_rows`."""
    major, minor, rows = names[:at], names[at + 1 :], typeof(x).shape[0]
    if minor:
        x = at_own_index(split_dim(x, 0, rows // names_size(minor)), minor, 1)
    if major:
        x = at_own_index(split_dim(x, 0, names_size(major)), major, 0)
    return x


def at_own_index(x: Any, names: tuple[str, ...], dim: int) -> Any:
    """What this device has along a dimension that counts all devices."""
    return dynamic_index_in_dim(x, axis_index(names), dim, keepdims=False)


def gather_rows(x: Any, names: tuple[str, ...], dim: int) -> Any:
    """All devices' operands, stacked along a new dimension."""
    if not names:
        return x
    return all_gather_p.bind1(
        x,
        all_gather_dimension=dim,
        axis_name=names,
        axis_index_groups=None,
        axis_size=names_size(names),
        tiled=False,
    )


def order_of(groups: tuple[Any, ...]) -> tuple[list[int], list[int]]:
    """The rows in the order of the groups, and what puts them back in their own."""
    order = [i for g in groups for i in g]
    return order, sorted(range(len(order)), key=order.__getitem__)


def grouped(
    own: Own, shift: Shift, rows: Any, groups: tuple[Any, ...], params: Params
) -> Any:
    """The collective within groups of rows; the result has its rows in front."""
    params = params | {"axis_index_groups": None}
    order, back = order_of(groups)
    if len({len(g) for g in groups}) > 1:
        # Only reductions have groups of unequal size: one result for each group.
        outs = [own(take_rows(rows, g), 0, len(g), params)[0] for g in groups]
        repeated = [
            broadcast(out, (len(g),)) for out, g in zip(outs, groups, strict=True)
        ]
        return take_rows(concatenate(repeated, 0), back)
    members = len(groups[0])
    x = split_dim(take_rows(rows, order), 0, len(groups))
    params, _ = shift(params, 0)
    out, d = own(x, 1, members, params)
    if d is None:
        out, d = broadcast(out, (members,)), 0
    return take_rows(fold_dim(moveaxis(out, d, 1), 0), back)
