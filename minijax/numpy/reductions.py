"""Reductions beyond those of `lax/statistics.py`: means, quantiles, differences.

Upstream: `jax/_src/numpy/reductions.py`, `lax_numpy.py`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numpy as errors
from minijax.core.trace import typeof
from minijax.lax import arithmetic as ar
from minijax.lax import compare, shapes
from minijax.lax.convert import convert
from minijax.lax.integers import bitwise_not
from minijax.lax.numeric import multiply, true_divide, where
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays, broadcast_arrays, promote_args_inexact
from minijax.lax.rearrange import sort, take
from minijax.lax.rules import const
from minijax.lax.select import clamp
from minijax.lax.shapes import canonicalize_axis, expand_dims, moveaxis, reshape
from minijax.lax.slicing import slice as cut
from minijax.lax.statistics import any as any_of
from minijax.lax.statistics import axes_of, max, mean, min, sum
from minijax.transforms.axis_types import with_out_sharding


def _is_nan(x: Any) -> Any:
    return compare.ne(x, x)


def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    """The mean, of elements that may have weights.

    >>> import minijax.numpy as jnp
    >>> jnp.average(jnp.array([1.0, 4.0]), weights=jnp.array([2.0, 1.0]))
    Array(2., dtype=float32)
    """
    if weights is None:
        return mean(a, axis)
    a, weights = promote_args_inexact("average", a, weights)
    if typeof(weights).ndim != typeof(a).ndim and axis is not None:
        at = canonicalize_axis(axis, typeof(a).ndim)
        others = [i for i in range(typeof(a).ndim) if i != at]
        weights = expand_dims(weights, others)
    a, weights = broadcast_arrays(a, weights)
    return true_divide(sum(multiply(a, weights), axis), sum(weights, axis))


@outlined("count_nonzero", static=("axis", "keepdims"))
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not zero."""
    (a,) = as_arrays("count_nonzero", a)
    return sum(compare.ne(a, const(a, 0)), axis, keepdims=keepdims)


# ------------------------------------------------------------------- not counting NaN


def _without_nan(name: str, a: Any, value: Any) -> Any:
    (a,) = as_arrays(name, a)
    return where(_is_nan(a), const(a, value), a)


@outlined("nansum", static=("axis", "keepdims"))
def nansum(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of the elements that are numbers."""
    return sum(_without_nan("nansum", a, 0), axis, keepdims=keepdims)


@outlined("nanmean", static=("axis", "keepdims"))
def nanmean(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean of the elements that are numbers.

    >>> import minijax.numpy as jnp
    >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    (a,) = as_arrays("nanmean", a)
    if not dtypes.issubdtype(typeof(a).dtype, np.inexact):
        return mean(a, axis, keepdims=keepdims)
    found = convert(bitwise_not(_is_nan(a)), np.dtype(np.int32))
    count = sum(found, axis, dtype=typeof(a).dtype, keepdims=keepdims)
    return ar.div(nansum(a, axis, keepdims), count)


def nanmax(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The greatest element that is a number; NaN where there is none."""
    out = max(_without_nan("nanmax", a, -np.inf), axis, keepdims=keepdims)
    return _or_nan(out, a, axis, keepdims)


def nanmin(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The least element that is a number; NaN where there is none."""
    out = min(_without_nan("nanmin", a, np.inf), axis, keepdims=keepdims)
    return _or_nan(out, a, axis, keepdims)


def _or_nan(out: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    some = any_of(bitwise_not(_is_nan(a)), axis, keepdims=keepdims)
    return where(some, out, const(out, np.nan))


# -------------------------------------------------------------------------- quantiles


def median(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The middle element in sorted order, or the mean of the middle two.

    >>> import minijax.numpy as jnp
    >>> jnp.median(jnp.array([1.0, 5.0, 2.0]))
    Array(2., dtype=float32)
    """
    return quantile(a, 0.5, axis, keepdims=keepdims)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    method: str = "linear",
    keepdims: bool = False,
    *,
    out_sharding: Any = None,
) -> Any:
    """The same as `quantile`, with levels in percent.

    `out_sharding` says how the result is sharded over Explicit mesh axes, which are
    Auto while it is computed.
    """
    (q,) = promote_args_inexact("percentile", q)

    def level(a: Any, q: Any) -> Any:
        return quantile(a, ar.div(q, const(q, 100)), axis, method, keepdims)

    return with_out_sharding(level, "jnp.percentile", out_sharding)(a, q)


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Any:
    """Where a fraction `q` of the elements is less.

    Args:
      a: numbers; if one of them is NaN, so is the result.
      q: one level between 0 and 1, or a vector of them, whose axis then comes first.
      axis: one axis, several, or None for all.
      method: what is between two elements: `linear`, `lower`, `higher`, `midpoint` or
        `nearest`.
      keepdims: whether reduced axes stay, with size 1.

    >>> import minijax.numpy as jnp
    >>> jnp.quantile(jnp.arange(5.0), 0.375)
    Array(1.5, dtype=float32)
    """
    if method not in _METHODS:
        raise errors.quantile_method(method)
    if not dtypes.issubdtype(dtypes.dtype_of(q), np.inexact):
        raise errors.quantile_dtype()
    (a,) = promote_args_inexact("quantile", a)
    axes = axes_of(a, axis)
    return _quantile(
        a, *as_arrays("quantile", q), axes=axes, method=method, keep=keepdims
    )


@outlined("quantile", static=("axes", "method", "keep"))
def _quantile(a: Any, q: Any, *, axes: Any, method: str, keep: bool) -> Any:
    dtype = typeof(a).dtype
    kept = [1 if i in axes else n for i, n in enumerate(typeof(a).shape)]
    rest = [i for i in range(typeof(a).ndim) if i not in axes]
    sizes = [typeof(a).shape[i] for i in rest]
    order = (*rest, *axes)
    flat = reshape(shapes.transpose(a, order), (*sizes, _size(a, axes)))
    last = len(sizes)
    has_nan = any_of(_is_nan(flat), last, keepdims=True)
    flat = sort(where(has_nan, const(flat, np.nan), flat), last)
    out = _between(flat, convert(q, dtype), last, method)
    # The axis of several levels is the last one here, and the first one of the result.
    if typeof(q).ndim:
        out = moveaxis(out, last, 0)
    if not keep:
        return out
    return reshape(out, (*typeof(q).shape, *kept))


def _size(a: Any, axes: Any) -> int:
    return int(np.prod([typeof(a).shape[i] for i in axes], dtype=np.int64))


def _between(x: Any, q: Any, axis: int, method: str) -> Any:
    """The elements of sorted `x` at the levels `q`, along the last axis."""
    end = const(q, typeof(x).shape[axis] - 1)
    place = ar.mul(q, end)
    low, high = ar.floor(place), ar.ceil(place)
    if method == "nearest":
        place = ar.round(place, ar.RoundingMethod.TO_NEAREST_EVEN)
        return _at(x, place, end, axis)
    below, above = _at(x, low, end, axis), _at(x, high, end, axis)
    if method in ("lower", "higher"):
        return below if method == "lower" else above
    if method == "midpoint":
        return ar.mul(ar.add(below, above), const(below, 0.5))
    share = ar.sub(place, low)
    other = ar.sub(const(share, 1), share)
    return ar.add(multiply(below, other), multiply(above, share))


def _at(x: Any, place: Any, end: Any, axis: int) -> Any:
    index = convert(clamp(const(place, 0), place, end), np.dtype(np.int32))
    return take(x, index, axis, mode="clip")


# ------------------------------------------------------------------------ differences


@outlined("diff", static=("n", "axis"))
def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """Each element minus the one before it, `n` times over.

    >>> import minijax.numpy as jnp
    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    (a,) = as_arrays("diff", a)
    at = canonicalize_axis(axis, typeof(a).ndim)
    for _ in range(operator.index(n)):
        later, earlier = _cut(a, at, 1, 0), _cut(a, at, 0, 1)
        is_bool = typeof(a).dtype == np.bool_
        a = compare.ne(later, earlier) if is_bool else ar.sub(later, earlier)
    return a


def _cut(x: Any, axis: int, first: int, last: int) -> Any:
    """Without so many elements at both ends of an axis."""
    start, limit = [0] * typeof(x).ndim, list(typeof(x).shape)
    start[axis], limit[axis] = first, limit[axis] - last
    return cut(x, start, limit)
