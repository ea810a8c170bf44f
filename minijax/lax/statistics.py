"""Reductions as numpy means them: sum, mean, var, max, any, argmax, cumsum and kin.

What array methods do, and what `minijax.numpy` offers under the same names: axes by
numpy's rules, `keepdims`, a result dtype, a mask.

Upstream: `jax/_src/numpy/reductions.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod as product
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numeric as errors
from minijax.core.errors import shapes as shape_errors
from minijax.core.trace import typeof
from minijax.lax import arithmetic as ar
from minijax.lax import cumulative, parts, reductions
from minijax.lax.convert import convert
from minijax.lax.integers import bitwise_and, bitwise_or
from minijax.lax.numeric import greater, not_equal, where
from minijax.lax.outlined import outlined
from minijax.lax.promote import (
    as_arrays,
    broadcast_arrays,
    cast,
    promote_dtypes_numeric,
)
from minijax.lax.rules import real_dtype
from minijax.lax.shapes import canonicalize_axis, expand_dims, reshape
from minijax.lax.transcendental import sqrt

DType = np.dtype[Any]
Axis = int | Sequence[int] | None


def axes_of(x: Any, axis: Axis) -> tuple[int, ...]:
    """numpy's `axis` argument as a tuple of axes."""
    ndim = typeof(x).ndim
    if axis is None:
        return tuple(range(ndim))
    given: Any = axis if isinstance(axis, tuple | list | np.ndarray) else (axis,)
    axes = tuple(canonicalize_axis(a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise errors.duplicate_axes(axis)
    return axes


def _wide_integer(dtype: DType) -> DType:
    """Sums of small integers and of booleans are of the default integer dtype."""
    for kind, base in (("u", np.unsignedinteger), ("i", np.integer)):
        wide = dtypes.default_dtype(kind)  # type: ignore[arg-type]
        if dtypes.issubdtype(dtype, base):
            return wide if dtype.itemsize < wide.itemsize else dtype
    return dtypes.default_dtype("i") if dtype == np.bool_ else dtype


def _computed_in(dtype: DType) -> DType:
    """Half precision is summed in single."""
    half = dtype.name in ("float16", "bfloat16")
    return np.dtype(np.float32) if half else dtype


def _check_where(name: str, where: Any) -> Any:
    if where is None:
        return None
    (mask,) = as_arrays(name, where)
    if typeof(mask).dtype != np.bool_:
        raise errors.where_dtype(name, typeof(mask).dtype)
    return mask


def _reduce(
    name: str,
    a: Any,
    axis: Axis,
    reduce: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    unit: Callable[[DType], Any] | None,
    *,
    wanted: DType,
    computed: DType | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """What all reductions share; `unit(dtype)` stands for what `where` hides."""
    if out is not None:
        raise errors.no_out(name)
    mask = _check_where(name, where)
    axes = axes_of(a, axis)
    if initial is None and unit is None:
        if mask is not None:
            raise errors.where_without_initial(name)
        if 0 in [typeof(a).shape[d] for d in axes]:
            raise errors.reduce_nothing(name)
    a = convert(a, computed or wanted)
    dtype = typeof(a).dtype
    if mask is not None:
        hidden = unit(dtype) if unit else np.asarray(initial, dtype)[()]
        a = _masked(mask, a, hidden)
    result = reduce(a, axes)
    if initial is not None:
        if typeof(initial).shape:
            raise errors.initial_shape(typeof(initial).shape)
        result = combine(cast(initial, dtype), result)
    if keepdims:
        result = expand_dims(result, axes)
    return convert(result, wanted)


def _masked(mask: Any, a: Any, hidden: Any) -> Any:
    return where(mask, a, hidden)


def _result_dtype(name: str, a: Any, dtype: Any, wide: bool) -> DType:
    if dtype is not None:
        return dtypes.canonicalize_user_dtype(dtype, name)
    found = typeof(a).dtype
    return _wide_integer(found) if wide else found


# ----------------------------------------------------------------- sums and products


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum of elements; of small integers and booleans, a default integer."""
    (a,) = promote_dtypes_numeric(*as_arrays("sum", a))
    wanted = _result_dtype("sum", a, dtype, promote_integers)
    return _reduce(
        "sum",
        a,
        axis,
        reductions.reduce_or if wanted == np.bool_ else reductions.reduce_sum,
        bitwise_or if wanted == np.bool_ else ar.add,
        lambda d: np.zeros((), d)[()],
        wanted=wanted,
        computed=_computed_in(wanted),
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product of elements."""
    (a,) = promote_dtypes_numeric(*as_arrays("prod", a))
    wanted = _result_dtype("prod", a, dtype, promote_integers)
    return _reduce(
        "prod",
        a,
        axis,
        reductions.reduce_and if wanted == np.bool_ else reductions.reduce_prod,
        bitwise_and if wanted == np.bool_ else ar.mul,
        lambda d: np.ones((), d)[()],
        wanted=wanted,
        computed=_computed_in(wanted),
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


def _count(a: Any, axis: Axis, keepdims: bool, mask: Any, dtype: DType) -> Any:
    """How many elements are reduced, in a float dtype."""
    if mask is None:
        shape = typeof(a).shape
        return np.asarray(product(shape[i] for i in axes_of(a, axis)), dtype)[()]
    mask = broadcast_arrays(mask, a)[0]
    return sum(mask, axis, dtype=dtype, keepdims=keepdims)


def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """The mean of elements, in a float or complex dtype."""
    (a,) = as_arrays("mean", a)
    mask = _check_where("mean", where)
    if out is not None:
        raise errors.no_out("mean")
    if dtype is None:
        wanted = dtypes.to_inexact_dtype(typeof(a).dtype)
    else:
        wanted = dtypes.canonicalize_user_dtype(dtype, "mean")
    computed = _computed_in(wanted)
    count = _count(a, axis, keepdims, mask, computed)
    total = sum(a, axis, dtype=computed, keepdims=keepdims, where=mask)
    return convert(ar.div(total, count), wanted)


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The variance: the mean square distance from the mean."""
    (a,) = as_arrays("var", a)
    if out is not None:
        raise errors.no_out("var")
    if correction is None:
        correction = ddof
    elif ddof:
        raise errors.ddof_and_correction()
    return _var(
        a,
        axis=_static_axis(axis),
        dtype=dtype,
        correction=correction,
        keepdims=keepdims,
        where=where,
    )


def _static_axis(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list | np.ndarray) else axis


@outlined("_var", static=("axis", "dtype", "keepdims"))
def _var(
    a: Any, *, axis: Any, dtype: Any, correction: Any, keepdims: bool, where: Any
) -> Any:
    mask, found = _check_where("var", where), typeof(a).dtype
    computed, wanted = _var_dtypes(found, dtype)
    a = convert(a, computed)
    center = mean(a, axis, dtype=computed, keepdims=True, where=mask)
    distance = ar.sub(a, center)
    if dtypes.issubdtype(computed, np.complexfloating):
        square = parts.real(ar.mul(distance, parts.conj(distance)))
    else:
        square = ar.square(distance)
    dtype = typeof(square).dtype
    count = _count(a, axis, keepdims, mask, dtype)
    count = ar.sub(count, cast(correction, dtype))
    total = sum(square, axis, dtype=dtype, keepdims=keepdims, where=mask)
    result = convert(ar.div(total, count), wanted)
    return _masked(greater(count, 0), result, np.nan)


def _var_dtypes(found: DType, dtype: Any) -> tuple[DType, DType]:
    """In which dtype to compute, and which to return."""
    if dtype is not None:
        wanted = dtypes.canonicalize_user_dtype(dtype, "var")
        is_complex = [dtypes.issubdtype(d, np.complexfloating) for d in (found, wanted)]
        if is_complex == [True, False]:
            raise errors.complex_var_dtype()
        return _computed_in(wanted), wanted
    if not dtypes.issubdtype(found, np.inexact):
        found = dtypes.to_inexact_dtype(found)
    return _computed_in(found), real_dtype(found)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The standard deviation: the square root of the variance."""
    (a,) = as_arrays("std", a)
    if out is not None:
        raise errors.no_out("std")
    if correction is None:
        correction = ddof
    elif ddof:
        raise errors.ddof_and_correction()
    return _std(
        a,
        axis=_static_axis(axis),
        dtype=dtype,
        correction=correction,
        keepdims=keepdims,
        where=where,
    )


@outlined("_std", static=("axis", "dtype", "keepdims"))
def _std(a: Any, **options: Any) -> Any:
    return sqrt(_var(a, **options))


# -------------------------------------------------------------------- extremes, truth


def max(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The greatest element."""
    reduce = reductions.reduce_max
    return _extreme("max", a, axis, reduce, ar.max, out, keepdims, initial, where)


def min(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The least element."""
    reduce = reductions.reduce_min
    return _extreme("min", a, axis, reduce, ar.min, out, keepdims, initial, where)


def _extreme(
    name: str,
    a: Any,
    axis: Axis,
    reduce: Any,
    combine: Any,
    out: None,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    (a,) = as_arrays(name, a)
    return _reduce(
        name,
        a,
        axis,
        reduce,
        combine,
        None,
        wanted=typeof(a).dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The greatest element minus the least."""
    if out is not None:
        raise errors.no_out("ptp")
    (a,) = as_arrays("ptp", a)
    return _ptp(a, axis=_static_axis(axis), keepdims=keepdims)


@outlined("_ptp", static=("axis", "keepdims"))
def _ptp(a: Any, *, axis: Any, keepdims: bool) -> Any:
    return ar.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def any(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """Whether some element is not zero."""
    return _truth("any", a, axis, reductions.reduce_or, False, out, keepdims, where)


def all(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """Whether every element is not zero."""
    return _truth("all", a, axis, reductions.reduce_and, True, out, keepdims, where)


def _truth(
    name: str,
    a: Any,
    axis: Axis,
    reduce: Any,
    unit: bool,
    out: None,
    keepdims: bool,
    where: Any,
) -> Any:
    (a,) = as_arrays(name, a)
    a = cast(a, np.dtype(np.bool_))
    return _reduce(
        name,
        a,
        axis,
        reduce,
        bitwise_or,
        lambda _: np.bool_(unit),
        wanted=np.dtype(np.bool_),
        out=out,
        keepdims=keepdims,
        where=where,
    )


def argmax(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The index of the greatest element, the first of several."""
    return _argument("argmax", a, axis, reductions.argmax, out, keepdims)


def argmin(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The index of the least element, the first of several."""
    return _argument("argmin", a, axis, reductions.argmin, out, keepdims)


def _argument(
    name: str, a: Any, axis: int | None, find: Any, out: None, keepdims: bool | None
) -> Any:
    (a,) = as_arrays(name, a)
    if out is not None:
        raise errors.no_out(name)
    aval = typeof(a)
    if axis is None:
        a, at, dims = reshape(a, (aval.size,)), 0, tuple(range(aval.ndim))
    else:
        at = canonicalize_axis(operator.index(axis), aval.ndim)
        dims = (at,)
    if typeof(a).shape[at] == 0:
        raise errors.argument_of_nothing(name)
    found = find(a, at, dtypes.default_dtype("i"))
    return expand_dims(found, dims) if keepdims else found


# ------------------------------------------------------------------------- cumulative


@outlined("cumsum", static=("axis", "dtype"))
def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running sums along `axis`, of the flat array if that is None."""
    return _running("cumsum", cumulative.cumsum, a, axis, dtype)


@outlined("cumprod", static=("axis", "dtype"))
def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running products along `axis`, of the flat array if that is None."""
    return _running("cumprod", cumulative.cumprod, a, axis, dtype)


def _running(name: str, run: Any, a: Any, axis: int | None, dtype: Any) -> Any:
    (a,) = as_arrays(name, a)
    aval = typeof(a)
    if axis is None or not aval.ndim:
        if aval.sharding.spec.axes:
            raise shape_errors.cumulative_sharded(name, aval)
        a = reshape(a, (aval.size,))
    at = canonicalize_axis(axis or 0, typeof(a).ndim)
    wanted = computed = _result_dtype(name, a, dtype, aval.dtype == np.bool_)
    if wanted == np.bool_:
        a, computed = not_equal(a, 0), dtypes.default_dtype("i")
    return convert(run(convert(a, computed), at), wanted)
