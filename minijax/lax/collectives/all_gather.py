"""all_gather: every device gets the values of all, side by side.

    device   0    1    2    3          0    1    2    3
            [a]  [b]  [c]  [d]   ->  [a b c d] on every device

Three primitives, by what the type says of the result:

* `all_gather`, `f32[1]{V:i} -> f32[4]{V:i}`: that the copies are equal is forgotten.
  Transpose: `reduce_scatter`, as the cotangents of all copies count.
* `all_gather_invariant`, `f32[1]{V:i} -> f32[4]`: the copies are one value, which has
  one cotangent. Transpose: each device takes its own slice.
* `all_gather_reduced`, `f32[1]{V:i} -> f32[4]{R:i}`: the cotangent of a reduced value
  is unreduced, a sum still to be made. Transpose: `unreduced_reduce_scatter`.

StableHLO: `all_gather`, after a `broadcast_in_dim` if untiled.
Upstream: `jax/_src/lax/parallel.py` (`all_gather`, `all_gather_reduced`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import axis_env, typeof
from minijax.lax.arithmetic import mul
from minijax.lax.collectives.axes import (
    Groups,
    as_groups,
    as_names,
    canonical_axis,
    cast_to_varying,
    check_bound,
    check_varying,
    check_whole,
    group_size,
    names_size,
    operand_type,
    params_names,
    retyped,
    typed,
)
from minijax.lax.collectives.axis_index import axis_index
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.common import (
    batch_collective,
    fold_dim,
    group_attributes,
    take_rows,
)
from minijax.lax.collectives.primitives import (
    all_gather_invariant_p,
    all_gather_p,
    all_gather_reduced_p,
    reduce_scatter_p,
    unreduced_reduce_scatter_p,
)
from minijax.lax.shapes import broadcast_in_dim, expand_dims, moveaxis, squeeze
from minijax.lax.slicing import dynamic_slice_in_dim
from minijax.lowering import dialect

Names = tuple[str, ...]
_PRIMITIVES = {
    "varying": all_gather_p,
    "invarying": all_gather_invariant_p,
    "reduced": all_gather_reduced_p,
}


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Gathers every leaf of `x` along named axes.

    Args:
      x: a pytree of arrays.
      axis_name: a name or a tuple of names, the first of which counts slowest.
      axis_index_groups: gathers within each of these lists of indices, in their order.
      axis: where the gathered dimension goes in the result.
      tiled: whether the values are concatenated along `axis`, instead of stacked.
      to: what the result's type says: `'varying'`, `'invarying'` or `'reduced'`.
        Ignored where types do not follow the axis. Several groups hold different
        results, of which only `'varying'` is true.

    >>> import minijax
    >>> minijax.vmap(lambda x: all_gather(x, "i"), axis_name="i")(np.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    if to not in _PRIMITIVES:
        raise errors.all_gather_to(_PRIMITIVES, to)
    names = as_names(axis_name)
    groups = as_groups(axis_index_groups)
    if not typed(names) and not axis_env().check_vma:
        to = "varying"
    size = group_size(names, groups)
    if to != "varying" and groups is not None and len(groups) > 1:
        raise errors.groups_not_invariant("all_gather", to)

    def gather(leaf: Any) -> Any:
        rank = operand_type(leaf).ndim
        dim = canonical_axis(axis, rank if tiled else rank + 1)
        if not names:
            return leaf if tiled else expand_dims(leaf, (dim,))
        if to == "varying":
            leaf = cast_to_varying(leaf, names)
            return _bind(all_gather_p, leaf, names, dim, tiled, size, groups)
        if groups is None:
            return _gather_to(_PRIMITIVES[to], leaf, names, dim, tiled)
        # One group is the whole axis, in an order of its own.
        order = [i for group in groups for i in group]
        rows = _gather_to(_PRIMITIVES[to], leaf, names, 0, False)
        out = moveaxis(take_rows(rows, order), 0, dim)
        return fold_dim(out, dim) if tiled else out

    return tree_map(gather, x)


def _bind(
    primitive: Primitive,
    x: Any,
    names: Names,
    dim: int,
    tiled: bool,
    size: int,
    groups: Groups = None,
) -> Any:
    params = {"axis_index_groups": groups} if primitive is all_gather_p else {}
    return primitive.bind1(
        x,
        all_gather_dimension=dim,
        axis_name=names,
        axis_size=size,
        tiled=tiled,
        **params,
    )


def _gather_to(
    primitive: Primitive, x: Any, names: Names, dim: int, tiled: bool
) -> Any:
    """To invarying or reduced, which can only be said of typed names."""
    manual = typeof(x).manual
    partly = manual.varying.intersection(names)
    # What is reduced over a name cannot be cast; the primitive says so.
    if primitive is all_gather_invariant_p or (
        partly and not manual.reduced.intersection(names)
    ):
        x = cast_to_varying(x, names)
    blocks = list(_blocks(names))
    if len(blocks) == 1 and blocks[0][0]:
        return _bind(primitive, x, names, dim, tiled, names_size(names))
    # Last name first, each one in front; the dimensions of all then become one.
    for is_typed, block in reversed(blocks):
        p = primitive if is_typed else all_gather_p
        x = _bind(p, x, block, 0, False, names_size(block))
    for _ in blocks[1:]:
        x = fold_dim(x, 0)
    x = moveaxis(x, 0, dim)
    return fold_dim(x, dim) if tiled else x


def _blocks(names: Names) -> Iterator[tuple[bool, Names]]:
    """Runs of typed and untyped names, in order."""
    block: list[str] = []
    those = set(typed(names))
    for name in names:
        if block and (block[-1] in those) != (name in those):
            yield block[-1] in those, tuple(block)
            block = []
        block.append(name)
    yield block[-1] in those, tuple(block)


# --------------------------------------------------------------- abstract evaluation


def _gathered(
    aval: ShapedArray, *, all_gather_dimension: int, axis_size: int, tiled: bool
) -> ShapedArray:
    shape = list(aval.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return aval.update(shape=shape)


@all_gather_p.def_abstract_eval
def _type(
    aval: ShapedArray, *, axis_name: Names, axis_index_groups: Groups, **how: Any
) -> list[ShapedArray]:
    check_bound(axis_name, "all_gather")
    check_whole(aval, axis_name, "all_gather")
    check_varying(aval, axis_name, "all_gather")
    return [_gathered(aval, **how)]


@all_gather_invariant_p.def_abstract_eval
def _invariant_type(
    aval: ShapedArray, *, axis_name: Names, **how: Any
) -> list[ShapedArray]:
    check_bound(axis_name, "all_gather_invariant")
    check_whole(aval, axis_name, "all_gather_invariant")
    out = _gathered(aval, **how)
    return retyped(out, varying=aval.manual.varying.difference(axis_name))


@all_gather_reduced_p.def_abstract_eval
def _reduced_type(
    aval: ShapedArray, *, axis_name: Names, **how: Any
) -> list[ShapedArray]:
    name, manual = "all_gather_reduced", aval.manual
    check_bound(axis_name, name)
    if not manual.varying:
        raise errors.wants_some(name, "varying", aval.short())
    if not manual.varying.intersection(axis_name):
        raise errors.collective_wants(
            name, "Varying -> Reduced", "varying", "axis_name", axis_name,
            manual.varying,
        )  # fmt: skip
    if manual.reduced.intersection(axis_name):
        raise errors.collective_cannot_be(
            name, "reduced", aval.short(), "axis_name", axis_name
        )
    if missing := set(axis_name) - manual.varying:
        raise errors.partly_varying(name, "varying", missing, axis_name)
    return retyped(
        _gathered(aval, **how),
        varying=manual.varying.difference(axis_name),
        reduced=manual.reduced.union(axis_name),
    )


# -------------------------------------------------------------------- lowering


@all_gather_p.def_lowering
def _lowering(
    ctx: Any,
    x: Any,
    *,
    all_gather_dimension: int,
    axis_name: Names,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Groups = None,
) -> list[Any]:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    dim = all_gather_dimension
    if tiled and not aval.shape[dim]:
        # StableHLO gathers no dimension of size 0.
        return [dialect.full(out, 0)]
    if not tiled:
        shape = (*aval.shape[:dim], 1, *aval.shape[dim:])
        kept = [i for i in range(len(shape)) if i != dim]
        one = dialect.tensor(shape, aval.dtype)
        x = dialect.broadcast_in_dim(x, kept, one)
    attributes = group_attributes(ctx, axis_name, axis_index_groups)
    attributes["all_gather_dim"] = dialect.i64(dim)
    return dialect.op("stablehlo.all_gather", [x], [dialect.ir_type(out)], attributes)


all_gather_invariant_p.lowering = all_gather_p.lowering
all_gather_reduced_p.lowering = all_gather_p.lowering

# ------------------------------------------------------------------ derivatives


def _scatter(primitive: Primitive) -> Callable[..., Any]:
    def transpose(ct: Any, _: Any, *, all_gather_dimension: int, **params: Any) -> Any:
        return primitive.bind1(ct, scatter_dimension=all_gather_dimension, **params)

    return transpose


def _own_slice(
    ct: Any,
    _: Any,
    *,
    all_gather_dimension: int,
    axis_name: Names,
    axis_size: int,
    tiled: bool,
) -> Any:
    dim = all_gather_dimension
    size = typeof(ct).shape[dim] // axis_size
    start = mul(axis_index(axis_name), np.int32(size))
    out = dynamic_slice_in_dim(ct, start, size, dim)
    return out if tiled else squeeze(out, (dim,))


all_gather_p.def_linear(_scatter(reduce_scatter_p))
all_gather_reduced_p.def_linear(_scatter(unreduced_reduce_scatter_p))
all_gather_invariant_p.def_linear(_own_slice)

# --------------------------------------------------------------------- batching


def _own(x: Any, d: int | None, size: int, params: Any) -> tuple[Any, None]:
    """Over the mapped name: the rows are there already, in one array."""
    dim = params["all_gather_dimension"]
    if d is None:
        shape = list(typeof(x).shape)
        shape.insert(dim, size)
        x = broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i != dim])
    else:
        x = moveaxis(x, d, dim)
    return (fold_dim(x, dim) if params["tiled"] else x), None


def _shift(params: Any, d: int) -> tuple[Any, int]:
    dim = params["all_gather_dimension"]
    if d <= dim:
        return params | {"all_gather_dimension": dim + 1}, d
    return params, d if params["tiled"] else d + 1


for _p in _PRIMITIVES.values():
    _p.axis_names = params_names
    _p.batch = batch_collective(_p, _own, _shift)

# ------------------------------------------------------------------------- cases

CASES = [
    case(all_gather, axis=axis, tiled=tiled)
    for axis in (0, 1, -1)
    for tiled in (False, True)
]
