"""psum: the sum over devices, everywhere. pmean: that divided by their number.

    device   0     1     2     3          0     1     2     3
           [1 2] [3 4] [5 6] [7 8]  ->  [16 20] on every device

Type: `f32[2]{V:i} -> f32[2]`. What comes out is the same everywhere, so its type no
longer varies over the axis; the transpose says just that again, it is a `pvary`. Three
primitives, by what the type says of the operand:

* `psum_invariant`: varying -> invarying, under `check_vma`;
* `unreduced_psum`: unreduced -> invarying. The transpose is `preduced`;
* `psum`: where types do not follow the axis, that is under `vmap`, with `check_vma`
  off, and with groups (groups hold different sums, so the result varies). It may also
  sum over dimensions of its operand, which is what `vmap` makes of the mapped name. Its
  transpose is another psum.

StableHLO: `all_reduce`.
Upstream: `jax/_src/lax/parallel.py` (`psum`, `pmean`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.mesh import NamedSharding
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import Tracer, typeof
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
    operand_type,
    params_names,
    retyped,
    state_over,
    typed,
    untyped,
)
from minijax.lax.collectives.axis_index import axis_index
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.common import (
    batch_collective,
    group_attributes,
)
from minijax.lax.collectives.primitives import (
    preduced_p,
    psum_invariant_p,
    psum_p,
    pvary_p,
    unreduced_psum_p,
)
from minijax.lax.convert import convert_element_type
from minijax.lax.rules import const
from minijax.lax.shapes import broadcast_in_dim, moveaxis, sum_over
from minijax.lax.slicing import dynamic_index_in_dim
from minijax.lowering import dialect

Axes = tuple[Any, ...]


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sums every leaf of `x` over one or several named axes.

    Args:
      x: a pytree of arrays; booleans are counted as int32. What is no tracer is the
        same everywhere and is multiplied by the number of devices, so that
        `psum(1, 'i')` is the axis size, a Python int.
      axis_name: a name, a dimension of `x` (an int), or a tuple of those.
      axis_index_groups: sums within each of these lists of indices along the axis.

    Returns:
      Arrays of the shapes of `x`, less the dimensions summed over.

    >>> import minijax
    >>> minijax.vmap(lambda x: psum(x, "i"), axis_name="i")(np.array([1, 2, 4]))
    Array([7, 7, 7], dtype=int32)
    """
    axes = as_names(axis_name)
    if not axes:
        return x
    groups = as_groups(axis_index_groups)
    return tree_map(lambda leaf: _psum(leaf, axes, groups), x)


def _psum(x: Any, axes: Axes, groups: Groups) -> Any:
    if state_over(operand_type(x), axes, "jax.lax.psum") == "unreduced":
        check_groups(axes, groups)
        if groups is not None and len(groups) > 1:
            raise errors.groups_not_invariant("psum", "invarying")
        return unreduced_psum_p.bind1(x, axes=axes)
    size = check_groups(axes, groups)
    aval = typeof(x)
    if aval.dtype == np.bool_:
        x = convert_element_type(x, np.int32)
    axes = tuple(
        canonical_axis(a, aval.ndim) if isinstance(a, int) else a for a in axes
    )
    if not isinstance(x, Tracer):
        return _sum_of_constant(x, axes, size)
    check_bound(axes, "psum")
    named = typed(axes)
    if groups is not None or not named:
        x = cast_to_varying(x, axes)
        return psum_p.bind1(x, axes=axes, axis_index_groups=groups)
    if rest := untyped(axes):
        x = psum_p.bind1(x, axes=rest, axis_index_groups=None)
    return psum_invariant_p.bind1(cast_to_varying(x, named), axes=named)


def check_groups(axes: Axes, groups: Groups) -> int | None:
    """The number of devices summed over, where no tracer says which they are."""
    named = tuple(a for a in axes if not isinstance(a, int))
    if groups is None:
        return None
    if len(named) < len(axes):
        raise errors.groups_with_positions(axes)
    return group_size(named, groups, uneven=True)


def _sum_of_constant(x: Any, axes: Axes, size: int | None) -> Any:
    named = tuple(a for a in axes if not isinstance(a, int))
    total = group_size(named, None)  # of bound names only
    if size is None:
        size = total
    if dims := tuple(a for a in axes if isinstance(a, int)):
        x = sum_over(x, dims)
    if isinstance(x, bool | int | float | complex):
        return type(x)(size) * x
    return x * np.asarray(size, typeof(x).dtype)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean of every leaf over named axes: `psum` divided by the number of devices.

    Groups of unequal size are each divided by their own.

    >>> import numpy as np, minijax
    >>> minijax.vmap(lambda x: pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    groups = as_groups(axis_index_groups)
    if groups is not None and len({len(g) for g in groups}) > 1:
        members = sorted((i, len(g)) for g in groups for i in g)
        sizes = np.array([size for _, size in members], np.int32)
        mine = axis_index(as_names(axis_name))
        n = dynamic_index_in_dim(sizes, mine, keepdims=False)
    else:
        n = psum(1, axis_name, axis_index_groups=groups)
    return tree_map(lambda v: v / n, total)


# ------------------------------------------------ abstract evaluation and lowering


def without_dims(aval: ShapedArray, dims: Axes) -> ShapedArray:
    """The type after a reduction over dimensions."""
    if not dims:
        return aval.strip_weak_type()
    spec = aval.sharding.spec.padded(aval.ndim)
    parts = [p for i, p in enumerate(spec.partitions) if i not in dims]
    return aval.update(
        shape=tuple(n for i, n in enumerate(aval.shape) if i not in dims),
        weak_type=False,
        sharding=NamedSharding(aval.mesh, spec.update(partitions=parts)),
    )


def positions(axes: Axes) -> tuple[int, ...]:
    """The dimensions among the axes."""
    return tuple(a for a in axes if isinstance(a, int))


def reduction_type(name: str, invariant: bool) -> Callable[..., list[ShapedArray]]:
    """Abstract evaluation of psum, pmax and pmin.

    If `invariant` the result does not vary over typed axes, unless there are groups.
    """

    def abstract_eval(
        aval: ShapedArray, *, axes: Axes, axis_index_groups: Groups
    ) -> list[ShapedArray]:
        check_bound(axes, name)
        if axis_index_groups is not None and positions(axes):
            raise errors.groups_with_positions(axes)
        check_whole(aval, params_names({"axes": axes}), name)
        names = typed(axes)
        check_varying(aval, names, name)
        out = without_dims(aval, positions(axes))
        if names and invariant and axis_index_groups is None:
            return retyped(out, varying=out.manual.varying.difference(names))
        return [out]

    return abstract_eval


psum_p.abstract_eval = reduction_type("psum", invariant=False)


@psum_invariant_p.def_abstract_eval
def _invariant_type(aval: ShapedArray, *, axes: Axes) -> list[ShapedArray]:
    check_bound(axes, "psum")
    varying = aval.manual.varying
    if positions(axes):
        raise errors.integer_axes("psum_invariant", axes)
    if not varying.intersection(axes):
        raise errors.psum_of_invarying(axes, varying)
    check_whole(aval, axes, "psum_invariant")
    return retyped(aval, varying=varying.difference(axes))


@unreduced_psum_p.def_abstract_eval
def _unreduced_type(aval: ShapedArray, *, axes: Axes) -> list[ShapedArray]:
    name, manual = "unreduced_psum", aval.manual
    check_bound(axes, name)
    if not manual.unreduced:
        raise errors.wants_some(name, "unreduced", aval.short())
    if not manual.unreduced.intersection(axes):
        raise errors.collective_wants(
            name, "Unreduced -> Invariant", "unreduced", "axes", axes, manual.unreduced
        )
    if manual.varying.intersection(axes):
        raise errors.collective_cannot_be(name, "varying", aval.short(), "axes", axes)
    return retyped(aval, unreduced=manual.unreduced.difference(axes))


def all_reduce(
    operation: str, unit: Callable[[np.dtype[Any]], Any]
) -> Callable[..., list[Any]]:
    """The lowering of a reduction by a binary operation with this unit."""

    def lowering(
        ctx: Any, x: Any, *, axes: Axes, axis_index_groups: Groups = None
    ) -> list[Any]:
        (aval,), (out,) = ctx.avals_in, ctx.avals_out
        dims = positions(axes)
        if dims:
            init = dialect.constant(unit(aval.dtype), aval.dtype)
            x = dialect.reduce_op(operation, x, init, dims, out)
        names = params_names({"axes": axes})
        if not names:
            return [x]
        scalar = aval.update(shape=())
        region = dialect.combiner(
            operation, aval.dtype, lambda v: ctx.with_sharding(v, scalar)
        )
        attributes = group_attributes(ctx, names, axis_index_groups)
        outs = dialect.op("stablehlo.all_reduce", [x], [x.type], attributes, [region])
        return ctx.with_shardings(outs, ctx.avals_out)

    return lowering


psum_p.lowering = all_reduce("stablehlo.add", lambda _: 0)
psum_invariant_p.lowering = psum_p.lowering
unreduced_psum_p.lowering = psum_p.lowering

# ------------------------------------------------------------------- derivatives


def _psum_transpose(
    ct: Any, operand: Any, *, axes: Axes, axis_index_groups: Groups
) -> Any:
    # Each device's operand went into every device's result. (A dimension summed over
    # has one result, so there the cotangent is only repeated.)
    if dims := positions(axes):
        shape = operand.aval.shape
        kept = [i for i in range(len(shape)) if i not in dims]
        ct = broadcast_in_dim(ct, shape, kept)
    names = params_names({"axes": axes})
    return psum_p.bind1(ct, axes=names, axis_index_groups=axis_index_groups)


psum_p.def_linear(_psum_transpose)
psum_invariant_p.def_linear(lambda ct, _, *, axes: pvary_p.bind1(ct, axes=axes))
unreduced_psum_p.def_linear(lambda ct, _, *, axes: preduced_p.bind1(ct, axes=axes))

# ---------------------------------------------------------------------- batching


def batch_reduction(
    primitive: Primitive, repeated: Callable[[Any, int], Any]
) -> Callable[..., Any]:
    """The batching rule of psum, pmax and pmin.

    `repeated(x, n)` is the reduction of `n` times the same value. Over the mapped name
    the reduction is one over the mapped dimension, which `axes` can say itself.
    """

    def own(x: Any, d: int | None, _: int, params: Any) -> tuple[Any, None]:
        return primitive.bind1(x, axes=(d,), axis_index_groups=None), None

    def shift(params: Any, d: int) -> tuple[Any, int]:
        axes = tuple(a + (a >= d) if isinstance(a, int) else a for a in params["axes"])
        return params | {"axes": axes}, d - sum(
            isinstance(a, int) and a < d for a in axes
        )

    in_groups = batch_collective(primitive, own, shift)

    def batch(axis: Any, args: Any, dims: Any, *, axes: Axes, **groups: Any) -> Any:
        (x,), (d,) = args, dims
        if groups.get("axis_index_groups") is not None:
            return in_groups(axis, args, dims, axes=axes, **groups)
        if axis.name not in axes:
            if d is None or not positions(axes):
                return primitive.bind(x, axes=axes, **groups), [d]
            params, d = shift({"axes": axes, **groups}, d)
            return primitive.bind(x, **params), [d]
        if d is None:
            rest = tuple(a for a in axes if a != axis.name)
            if rest:
                x = primitive.bind1(x, axes=rest, **groups)
            return [repeated(x, axis.size)], [None]
        x = moveaxis(x, d, 0)
        axes = tuple(
            0 if a == axis.name else a + isinstance(a, int) if isinstance(a, int) else a
            for a in axes
        )
        return primitive.bind(x, axes=axes, **groups), [None]

    return batch


psum_p.axis_names = params_names
psum_p.batch = batch_reduction(psum_p, lambda x, n: mul(const(x, n), x))


def _batch_typed(primitive: Primitive) -> Callable[..., Any]:
    """psum over mesh axes that types speak of: never over the mapped name."""

    def batch(_: Any, args: Any, dims: Any, *, axes: Axes) -> Any:
        return primitive.bind(*args, axes=axes), list(dims)

    return batch


psum_invariant_p.batch = _batch_typed(psum_invariant_p)
unreduced_psum_p.batch = _batch_typed(unreduced_psum_p)

# ------------------------------------------------------------------------- cases

CASES = [case(psum)]
