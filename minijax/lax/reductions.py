"""Reductions: sums, products, extrema and logical ones over dimensions; argmax, argmin.

    reduce_sum[axes=(0,)]:   f32[4,3] -> f32[3]

A reduction over a dimension that is sharded over Explicit axes sums over devices, too;
`out_sharding` may ask to leave that undone: the result is then unreduced.

StableHLO: `reduce`, with the operation in its region.
Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import Names, Shape, ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import Zero, zero_tangent
from minijax.core.mesh import NamedSharding, UnreducedKind
from minijax.core.out_sharding import canonicalize_sharding, typed
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.arithmetic import div, lexicographic, mul
from minijax.lax.cases import Case, unary
from minijax.lax.compare import eq
from minijax.lax.convert import convert_element_type
from minijax.lax.declared import reduce_sum_p
from minijax.lax.rules import (
    ANY,
    BOOL_OR_INT,
    Kinds,
    add_any,
    derivatives_from_result,
    remembered,
)
from minijax.lax.shapes import (
    broadcast_in_dim,
    full,
    reshape,
    squeeze,
)
from minijax.lax.slicing import pad, slice_in_dim
from minijax.lowering import dialect

# ----------------------------------------------------------------- public functions


def reduce_sum(operand: Any, axes: Iterable[int], *, out_sharding: Any = None) -> Any:
    """The sum over the dimensions `axes`, which go. ValueError where there are none."""
    return reduce_sum_p.bind1(
        operand,
        axes=tuple(axes),
        out_sharding=canonicalize_sharding(out_sharding, "reduce_sum"),
    )


def reduce_max(operand: Any, axes: Iterable[int], *, out_sharding: Any = None) -> Any:
    """The maximum over the dimensions `axes`; NaN if there is one."""
    return reduce_max_p.bind1(
        operand,
        axes=tuple(axes),
        out_sharding=canonicalize_sharding(out_sharding, "reduce_max"),
    )


def reduce_min(operand: Any, axes: Iterable[int], *, out_sharding: Any = None) -> Any:
    """The minimum over the dimensions `axes`; NaN if there is one."""
    return reduce_min_p.bind1(
        operand,
        axes=tuple(axes),
        out_sharding=canonicalize_sharding(out_sharding, "reduce_min"),
    )


def reduce_prod(operand: Any, axes: Iterable[int]) -> Any:
    """The product over the dimensions `axes`."""
    return reduce_prod_p.bind1(operand, axes=tuple(axes))


def reduce_and(operand: Any, axes: Iterable[int]) -> Any:
    """Whether all hold, over the dimensions `axes`; bitwise of integers."""
    return reduce_and_p.bind1(operand, axes=tuple(axes))


def reduce_or(operand: Any, axes: Iterable[int]) -> Any:
    """Whether any holds, over the dimensions `axes`; bitwise of integers."""
    return reduce_or_p.bind1(operand, axes=tuple(axes))


def reduce_xor(operand: Any, axes: Iterable[int]) -> Any:
    """Whether an odd number holds, over the dimensions `axes`; bitwise of integers."""
    return reduce_xor_p.bind1(operand, axes=tuple(axes))


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the first maximum along `axis`; of the first NaN if there is one."""
    dtype = dtypes.canonicalize_user_dtype(index_dtype, "argmax")
    return argmax_p.bind1(operand, axes=(axis,), index_dtype=dtype)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the first minimum along `axis`; of the first NaN if there is one."""
    dtype = dtypes.canonicalize_user_dtype(index_dtype, "argmin")
    return argmin_p.bind1(operand, axes=(axis,), index_dtype=dtype)


# ------------------------------------------------------------------ types of results


def check_axes(x: ShapedArray, axes: Shape) -> None:
    """Refuses repeated axes, and those that the operand does not have."""
    if len(axes) != len(set(axes)):
        raise errors.reduction_axes(axes)
    if not all(0 <= a < x.ndim for a in axes):
        raise errors.reduction_axes_range(axes, x)


def without(items: Sequence[Any], axes: Shape) -> tuple[Any, ...]:
    """What is left of one item per dimension.

    >>> without("abc", (1,))
    ('a', 'c')
    """
    return tuple(v for i, v in enumerate(items) if i not in axes)


def _check_number(name: str, x: ShapedArray, kinds: Kinds) -> None:
    if any(dtypes.issubdtype(x.dtype, k) for k in kinds):
        return
    if kinds == (np.number,):
        raise errors.dtype_not_accepted(name, x.dtype.name, None, ["number"])
    raise errors.logical_dtype(x.dtype)


def _reduction(
    name: str,
    kinds: Kinds,
    op: str,
    unit: Callable[[Any], Any],
    *,
    primitive: Primitive | None = None,
    kind: UnreducedKind | None = None,
    weak: bool = True,
) -> Primitive:
    """A reduction by a binary operation that has a unit.

    Args:
      kind: the unreduced sums that it passes on, and that `out_sharding` may ask for;
        None for those that know neither.
      weak: whether a weak operand gives a weak result.
    """
    prim = primitive or Primitive(name)

    @prim.def_abstract_eval
    @remembered
    def abstract_eval(x: ShapedArray, *, axes: Shape, out_sharding: Any = None) -> Any:
        rules.only_arrays(prim, [x])
        check_axes(x, axes)
        _check_number(name, x, kinds)

        def sums(_: str, __: Any) -> tuple[Names, Names]:
            if kind is None:
                return rules.no_sums(name, [x])
            return rules.unreduced_of(x, kind), rules.reduced_of(x)

        aval = rules.result_type(
            name,
            [x],
            without(x.shape, axes),
            x.dtype,
            weak and x.weak_type,
            partitions=lambda: without(x.sharding.spec.partitions, axes),
            sums=sums,
        )
        if out_sharding is None:
            return [aval]
        _check_out_sharding(name, x, axes, out_sharding, kind)
        return [aval.update(sharding=_with_reduced(typed(out_sharding, aval.shape), x))]

    @prim.def_lowering
    def lowering(ctx: Any, x: Any, *, axes: Shape, **_: Any) -> list[Any]:
        (out,) = ctx.avals_out
        init = dialect.constant(unit(out.dtype), out.dtype)
        region = combining(op, out.dtype)
        dims = {"dimensions": dialect.i64_array(axes)}
        type_ = dialect.ir_type(out)
        reduced = dialect.op1("stablehlo.reduce", (x, init), type_, dims, [region])
        return [ctx.with_sharding(reduced, out)]

    prim.batch = batch_reduction(prim)
    return prim


def combining(op: str, dtype: Any) -> dialect.Region:
    """The region of a reduction by `op`; complex numbers have extrema, too."""
    direction = {"stablehlo.maximum": "GT", "stablehlo.minimum": "LT"}.get(op)
    if direction is None or not dtypes.issubdtype(dtype, np.complexfloating):
        return dialect.combiner(op, dtype)
    scalar = ShapedArray((), dtype)
    type_ = dialect.ir_type(scalar)

    def body(x: Any, y: Any) -> list[Any]:
        chosen = lexicographic(direction, x, y, scalar)
        return [dialect.op1("stablehlo.select", (chosen, x, y), type_)]

    return dialect.Region((type_, type_), body)


def _check_out_sharding(
    name: str,
    x: ShapedArray,
    axes: Shape,
    out: NamedSharding,
    kind: UnreducedKind | None,
) -> None:
    """The sums that `out_sharding` leaves undone are sums of this operation."""
    if out.spec.reduced:
        raise errors.out_reduced(name, out)
    unreduced = out.spec.unreduced
    if not unreduced:
        return
    if out.spec.unreduced_kind is not kind:
        raise errors.out_kind(name, kind, out.spec)
    spec = x.sharding.spec
    summed = {n for a in axes for n in spec.axes_of(a)} | spec.unreduced
    if not unreduced <= summed:
        raise errors.out_unreduced(name, x, frozenset(axes), unreduced)


def _with_reduced(out: NamedSharding, x: ShapedArray) -> NamedSharding:
    reduced = x.sharding.spec.reduced
    return out.update(spec=out.spec.update(reduced=reduced)) if reduced else out


def batch_reduction(prim: Primitive) -> Callable[..., Any]:
    """Batching of an operation that removes the dimensions `axes`."""

    def batch(axis: Any, args: Any, dims: Any, *, axes: Shape, **params: Any) -> Any:
        (dim,) = dims
        moved = tuple(a + (a >= dim) for a in axes)
        at = dim - sum(a < dim for a in moved)
        sharding = params.get("out_sharding")
        if sharding is not None:
            parts = sharding.spec.partitions
            mapped = typeof(args[0]).sharding.spec.partitions[dim]
            spec = sharding.spec.update((*parts[:at], mapped, *parts[at:]))
            params["out_sharding"] = sharding.update(spec=spec)
        return prim.bind(*args, axes=moved, **params), [at]

    return batch


# ------------------------------------------------------------------- the primitives


def lowest(dtype: Any) -> Any:
    """The unit of the maximum: minus infinity, or the least number there is."""
    return _bound(dtype, -1)


def highest(dtype: Any) -> Any:
    """The unit of the minimum: infinity, or the greatest number there is."""
    return _bound(dtype, 1)


def _all_ones(dtype: Any) -> Any:
    """The unit of the bitwise and."""
    return np.asarray(-1).astype(dtype)


def _bound(dtype: Any, sign: int) -> Any:
    if dtypes.issubdtype(dtype, np.inexact):
        try:
            np.asarray(sign * np.inf, dtype)
        except (OverflowError, ValueError):
            info = dtypes.finfo(dtype)
            return info.min if sign < 0 else info.max
        return np.asarray(sign * np.inf, dtype)
    if dtypes.issubdtype(dtype, np.bool_):
        return sign > 0
    info = dtypes.iinfo(dtype)
    return info.min if sign < 0 else info.max


_NUMBER = (np.number,)
_reduction(
    "reduce_sum",
    _NUMBER,
    "stablehlo.add",
    lambda _: 0,
    primitive=reduce_sum_p,
    kind=UnreducedKind.sum,
)
reduce_prod_p = _reduction("reduce_prod", _NUMBER, "stablehlo.multiply", lambda _: 1)
reduce_max_p = _reduction(
    "reduce_max", ANY, "stablehlo.maximum", lowest, kind=UnreducedKind.max
)
reduce_min_p = _reduction(
    "reduce_min", ANY, "stablehlo.minimum", highest, kind=UnreducedKind.min
)
reduce_and_p = _reduction(
    "reduce_and", BOOL_OR_INT, "stablehlo.and", _all_ones, weak=False
)
reduce_or_p = _reduction(
    "reduce_or", BOOL_OR_INT, "stablehlo.or", lambda _: 0, weak=False
)
reduce_xor_p = _reduction(
    "reduce_xor", BOOL_OR_INT, "stablehlo.xor", lambda _: 0, weak=False
)
for _prim in (reduce_and_p, reduce_or_p, reduce_xor_p):
    _prim.def_nondifferentiable("neither bools nor integers change by small amounts")

# ---------------------------------------------------------------------- derivatives


def _sum_cotangent(ct: Any, x: Any, *, axes: Shape, out_sharding: Any) -> Any:
    aval = x.aval.to_cotangent()
    dims = without(range(aval.ndim), axes)
    explicit = aval.sharding if aval.mesh.explicit_axes else None
    return broadcast_in_dim(ct, aval.shape, dims, out_sharding=explicit)


reduce_sum_p.def_linear(_sum_cotangent)


def _chosen_tangent(g: Any, out: Any, x: Any, *, axes: Shape, **_: Any) -> Any:
    """The mean of the tangents at the places where the extremum is."""
    kept = [1 if i in axes else n for i, n in enumerate(typeof(x).shape)]
    is_extreme = eq(x, reshape(out, kept))
    places = convert_element_type(is_extreme, typeof(g).dtype)
    count = reduce_sum(places, axes)
    return div(reduce_sum(mul(g, places), axes), count)


derivatives_from_result(reduce_max_p, _chosen_tangent)
derivatives_from_result(reduce_min_p, _chosen_tangent)


@reduce_prod_p.def_jvp
def _prod_jvp(primals: Any, tangents: Any, *, axes: Shape) -> Any:
    """Multiplies pairs of numbers with their tangents, in a tree of halves."""
    (x,), (t,) = primals, tangents
    if type(t) is Zero:
        out = reduce_prod(x, axes)
        return [out], [zero_tangent(out)]
    shape = typeof(x).shape
    order = (*axes, *without(range(len(shape)), axes))
    sizes = (int(np.prod([shape[a] for a in axes])), *without(shape, axes))
    plain = order == tuple(range(len(shape))) and sizes == shape
    x, t = (v if plain else reshape(v, sizes, order) for v in (x, t))
    while (n := typeof(x).shape[0]) > 1:
        half = (n + 1) // 2
        whole = (x, t)
        x, t = (slice_in_dim(v, 0, half) for v in whole)
        y, u = (slice_in_dim(v, half, None) for v in whole)
        if n % 2:
            y, u = _one_more(y, 1), _one_more(u, 0)
        x, t = mul(x, y), add_any(mul(t, y), mul(x, u))
    if n == 0:
        dtype = typeof(x).dtype
        return [full(sizes[1:], 1, dtype)], [full(sizes[1:], 0, dtype)]
    return [squeeze(x, (0,))], [squeeze(t, (0,))]


def _one_more(x: Any, filler: int) -> Any:
    """An array with one more row, of fillers."""
    aval = typeof(x)
    config = [(0, 1, 0), *[(0, 0, 0)] * (aval.ndim - 1)]
    return pad(x, np.asarray(filler, aval.dtype)[()], config)


reduce_prod_p.without(transpose="it is not linear")

# ----------------------------------------------------------------------- argmax, argmin


def _arg_reduction(name: str, direction: str, unit: Callable[[Any], Any]) -> Primitive:
    prim = Primitive(name)

    @prim.def_abstract_eval
    @remembered
    def abstract_eval(x: ShapedArray, *, axes: Shape, index_dtype: Any) -> Any:
        rules.only_arrays(prim, [x])
        (axis,) = axes
        if not 0 <= axis < x.ndim:
            raise errors.arg_axis(axis, x.shape)
        if x.shape[axis] < 1:
            raise errors.arg_empty(axis, x.shape)
        if not dtypes.issubdtype(index_dtype, np.integer):
            raise errors.index_dtype(np.dtype(index_dtype).name)
        aval = rules.result_type(
            name,
            [x],
            without(x.shape, axes),
            index_dtype,
            partitions=lambda: without(x.sharding.spec.partitions, axes),
            sums=rules.no_sums,
        )
        return [aval]

    @prim.def_lowering
    def lowering(ctx: Any, x: Any, *, axes: Shape, index_dtype: Any) -> list[Any]:
        (aval,), (out,) = ctx.avals_in, ctx.avals_out
        index = dialect.tensor(aval.shape, index_dtype)
        along = {"iota_dimension": dialect.i64(axes[0])}
        places = ctx.with_sharding(
            dialect.op1("stablehlo.iota", [], index, along), aval
        )
        init = dialect.constant(unit(aval.dtype), aval.dtype)
        start = dialect.constant(0, index_dtype)
        value = ShapedArray((), aval.dtype)
        region = _choice(direction, value, ShapedArray((), index_dtype))
        best = dialect.tensor(out.shape, aval.dtype)
        results = dialect.op(
            "stablehlo.reduce",
            [x, places, init, start],
            [best, dialect.ir_type(out)],
            {"dimensions": dialect.i64_array(axes)},
            [region],
        )
        return ctx.with_shardings(results, [out, out])[1:]

    prim.def_nondifferentiable("an index does not change by small amounts")
    prim.batch = batch_reduction(prim)
    return prim


def _choice(direction: str, value: ShapedArray, index: ShapedArray) -> dialect.Region:
    """Of two pairs (value, index) the better one: NaN first, then the lower index."""
    scalar, place = dialect.ir_type(value), dialect.ir_type(index)

    def body(x: Any, i: Any, y: Any, j: Any) -> list[Any]:
        better = dialect.compare(direction, x, y, value)
        is_nan = dialect.compare("NE", x, x, value)
        bit = better.type
        take = dialect.op1("stablehlo.or", (better, is_nan), bit)
        tie = dialect.compare("EQ", x, y, value)
        first = dialect.compare("LT", i, j, index)
        tie_first = dialect.op1("stablehlo.and", (tie, first), bit)
        take_index = dialect.op1("stablehlo.or", (take, tie_first), bit)
        return [
            dialect.op1("stablehlo.select", (take, x, y), scalar),
            dialect.op1("stablehlo.select", (take_index, i, j), place),
        ]

    return dialect.Region((scalar, place, scalar, place), body)


argmax_p = _arg_reduction("argmax", "GT", lowest)
argmin_p = _arg_reduction("argmin", "LT", highest)

_SUM = {"axes": (0,), "out_sharding": None}
_ALL = {"axes": (0, 1), "out_sharding": None}
_ARG = {"axes": (1,), "index_dtype": np.dtype(np.int32)}

CASES = [
    unary(reduce_sum_p, params=_SUM),
    unary(reduce_sum_p, params=_ALL),
    Case(reduce_sum_p, [(2, 3, 2)], {"axes": (0, 2), "out_sharding": None}),
    unary(reduce_sum_p, params=_SUM, dtypes=np.int32),
    *(unary(p, params=_SUM) for p in (reduce_max_p, reduce_min_p)),
    *(unary(p, params=_ALL, dtypes=np.int32) for p in (reduce_max_p, reduce_min_p)),
    unary(reduce_max_p, params=_ALL, dtypes=np.bool_),
    unary(reduce_prod_p, params={"axes": (0,)}),
    Case(reduce_prod_p, [(2, 3, 2)], {"axes": (2, 1)}),
    *(
        unary(p, params={"axes": (0,)}, dtypes=dtype)
        for p in (reduce_and_p, reduce_or_p, reduce_xor_p)
        for dtype in (np.bool_, np.int32)
    ),
    *(unary(p, params=_ARG, smooth=()) for p in (argmax_p, argmin_p)),
    unary(argmax_p, params=_ARG | {"axes": (0,)}, dtypes=np.int32),
]
