"""Questions about arrays: what is where, what is equal, how large it is.

Upstream: `jax/_src/numpy/indexing.py`, `lax_numpy.py`, `ufuncs.py`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numpy as errors
from minijax.core.trace import typeof
from minijax.lax import arithmetic as ar
from minijax.lax import compare, parts, shapes
from minijax.lax.gather import gather
from minijax.lax.gather_scatter import GatherDimensionNumbers, GatherScatterMode
from minijax.lax.integers import bitwise_and, bitwise_or
from minijax.lax.outlined import outlined
from minijax.lax.promote import (
    as_arrays,
    broadcast_shapes,
    cast,
    promote_args,
    promote_dtypes,
)
from minijax.lax.rearrange import ravel
from minijax.lax.rules import const
from minijax.lax.select import select
from minijax.lax.shapes import canonicalize_axis
from minijax.lax.statistics import all as all_of
from minijax.lax.statistics import sum as sum_of
from minijax.numpy.elementwise import isfinite, isnan

# ------------------------------------------------------------------------ by index


def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: Any = None
) -> Any:
    """Elements at indices along an axis; the other axes of both broadcast.

    An index out of bounds gives NaN, or the least integer; in mode `clip`, the nearest
    element.

    >>> import minijax.numpy as jnp
    >>> x = jnp.array([[3, 1], [2, 4]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    arr, indices = as_arrays("take_along_axis", arr, indices)
    if not dtypes.issubdtype(typeof(indices).dtype, np.integer):
        raise errors.along_axis_dtype(typeof(indices).dtype)
    if axis is None:
        arr, axis = ravel(arr), 0
    ranks = typeof(arr).ndim, typeof(indices).ndim
    if ranks[0] != ranks[1]:
        raise errors.along_axis_ranks(*ranks)
    at = canonicalize_axis(operator.index(axis), ranks[0])
    return _along(arr, indices, axis=at, mode=mode)


@outlined("take_along_axis", static=("axis", "mode"))
def _along(arr: Any, indices: Any, *, axis: int, mode: Any) -> Any:
    sizes, counts = list(typeof(arr).shape), list(typeof(indices).shape)
    size, count = sizes[axis], counts[axis]
    sizes[axis] = counts[axis] = 1
    common = list(broadcast_shapes(tuple(sizes), tuple(counts)))
    arr = shapes.broadcast_to(arr, (*common[:axis], size, *common[axis + 1 :]))
    wanted = (*common[:axis], count, *common[axis + 1 :])
    indices = shapes.broadcast_to(indices, wanted)
    zero, whole = const(indices, 0), const(indices, size)
    indices = select(compare.lt(indices, zero), ar.add(indices, whole), indices)
    others = tuple(i for i in range(len(common)) if i != axis)
    numbers = GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    places = shapes.reshape(indices, (*wanted, 1))
    chosen = GatherScatterMode.from_any(mode)
    return gather(arr, places, numbers, (1,) * len(common), mode=chosen)


# ------------------------------------------------------------------------ by value


def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """Where to insert `v` into the sorted vector `a` to keep it sorted.

    Each element of `v` is compared with every element of `a`, which is quick on
    parallel hardware, and takes memory for all the comparisons.

    >>> import minijax.numpy as jnp
    >>> jnp.searchsorted(jnp.array([1, 2, 4]), jnp.array([0, 2, 9]))
    Array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise errors.search_side(side)
    a, v = promote_dtypes(*as_arrays("searchsorted", a, v))
    if typeof(a).ndim != 1:
        raise errors.search_rank()
    return _searchsorted(a, v, side=side)


@outlined("searchsorted", static=("side",))
def _searchsorted(a: Any, v: Any, *, side: str) -> Any:
    ndim, (size,) = typeof(v).ndim, typeof(a).shape
    wide = (*typeof(v).shape, size)
    row = shapes.broadcast_in_dim(a, wide, (ndim,))
    column = shapes.broadcast_in_dim(v, wide, range(ndim))
    before = compare.lt if side == "left" else compare.le
    return sum_of(before(row, column), axis=ndim, dtype=np.int32)


# --------------------------------------------------------------------- comparisons


@outlined("isclose", static=("equal_nan",))
def isclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether `abs(a - b) <= atol + rtol * abs(b)`, or both are the same infinity.

    With `equal_nan`, a NaN is close to a NaN.
    """
    a, b = promote_args("isclose", a, b)
    if not dtypes.issubdtype(typeof(a).dtype, np.inexact):
        return compare.eq(a, b)
    dtype = np.zeros((), typeof(a).dtype).real.dtype
    rtol, atol = cast(rtol, dtype), cast(atol, dtype)
    both_nan = bitwise_and(isnan(a), isnan(b))
    finite = isfinite(b)
    distance = parts.abs(ar.sub(a, b))
    margin = ar.add(atol, ar.mul(rtol, parts.abs(b)))
    close = compare.le(distance, margin)
    same = bitwise_or(compare.eq(a, b), bitwise_and(finite, close))
    return bitwise_or(same, both_nan) if equal_nan else same


@outlined("allclose", static=("equal_nan",))
def allclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether all elements are close, see `isclose`."""
    return all_of(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements.

    >>> import minijax.numpy as jnp
    >>> jnp.array_equal(jnp.arange(2), jnp.array([0, 1]))
    Array(True, dtype=bool)
    """
    a1, a2 = as_arrays("array_equal", a1, a2)
    if typeof(a1).shape != typeof(a2).shape:
        return shapes.asarray(np.bool_(False))
    a1, a2 = promote_args("array_equal", a1, a2)
    same = compare.eq(a1, a2)
    if equal_nan:
        same = bitwise_or(same, bitwise_and(compare.ne(a1, a1), compare.ne(a2, a2)))
    return all_of(same)


# ---------------------------------------------------------------------------- size


def shape(a: Any) -> tuple[int, ...]:
    """The shape of a value.

    >>> shape([[1, 2]])
    (1, 2)
    """
    return np.shape(a) if isinstance(a, list | tuple) else typeof(a).shape


def ndim(a: Any) -> int:
    """The number of dimensions of a value."""
    return len(shape(a))


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements of a value, or its size along an axis."""
    found = shape(a)
    if axis is None:
        return int(np.prod(found, dtype=np.int64))
    return found[canonicalize_axis(axis, len(found))]
