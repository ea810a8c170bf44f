"""Linear algebra: norms, and other names of products.

Decompositions are not here: they are calls of libraries, and teach nothing on tracing.

Upstream: `jax/_src/numpy/linalg.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numpy as errors
from minijax.core.trace import typeof
from minijax.lax import arithmetic as ar
from minijax.lax import parts
from minijax.lax.compare import ne
from minijax.lax.numeric import matmul as matmul
from minijax.lax.numeric import power
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays
from minijax.lax.rearrange import matrix_transpose as matrix_transpose
from minijax.lax.rules import const
from minijax.lax.shapes import canonicalize_axis, expand_dims
from minijax.lax.statistics import max, min, sum
from minijax.lax.transcendental import sqrt
from minijax.numpy.products import outer as outer
from minijax.numpy.products import tensordot as tensordot


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The length of a vector, or the size of a matrix.

    Args:
      x: an array.
      ord: of vectors: 2 by default, any number, `inf`, `-inf` or 0 (how many elements
        are not zero). Of matrices: `"fro"` by default, 1, -1, `inf` or `-inf`.
      axis: one axis for vectors, two for matrices. By default the whole array, which
        without `ord` may be of any rank.
      keepdims: whether the reduced axes stay, with size 1.

    Raises ValueError for a norm that there is not.

    >>> import minijax.numpy as jnp
    >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    (x,) = as_arrays("jnp.linalg.norm", x)
    axis = tuple(axis) if isinstance(axis, list) else axis
    return _norm(x, ord=ord, axis=axis, keepdims=keepdims)


@outlined("norm", static=("ord", "axis", "keepdims"))
def _norm(x: Any, *, ord: Any, axis: Any, keepdims: bool) -> Any:
    if not dtypes.issubdtype(typeof(x).dtype, np.inexact):
        x = x.astype(dtypes.to_inexact_dtype(typeof(x).dtype))
    ndim = typeof(x).ndim
    if axis is None:
        if ord is None:
            out = sqrt(sum(_squares(x)))
            return expand_dims(out, range(ndim)) if keepdims else out
        axes = tuple(range(ndim))
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(canonicalize_axis(i, ndim) for i in given)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise errors.norm_axes(axis)
    return _matrix_norm(x, ord, axes, keepdims)


def _squares(x: Any) -> Any:
    if dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        return parts.real(ar.mul(x, parts.conj(x)))
    return ar.mul(x, x)


def _vector_norm(x: Any, ord: Any, axis: int, keepdims: bool) -> Any:
    if ord is None or ord == 2:
        return sqrt(sum(_squares(x), axis, keepdims=keepdims))
    size = parts.abs(x)
    if ord == np.inf:
        return max(size, axis, keepdims=keepdims)
    if ord == -np.inf:
        return min(size, axis, keepdims=keepdims)
    if ord == 0:
        found = ne(x, const(x, 0))
        return sum(found, axis, dtype=typeof(size).dtype, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    if isinstance(ord, str):
        raise errors.norm_order(ord, 1)
    total = sum(power(size, ord), axis, keepdims=keepdims)
    return power(total, 1.0 / ord)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord is None or ord in ("f", "fro"):
        return sqrt(sum(_squares(x), axes, keepdims=keepdims))
    row, column = axes
    summed, kept = (row, column) if abs_of(ord) == 1 else (column, row)
    if abs_of(ord) not in (1, np.inf):
        raise errors.norm_order(ord, 2)
    extreme = max if ord > 0 else min
    total = sum(parts.abs(x), summed, keepdims=True)
    out = extreme(total, kept, keepdims=True)
    return out if keepdims else out.squeeze(axes)


def abs_of(ord: Any) -> Any:
    """The absolute value of an order that is a number; else itself."""
    return ord if isinstance(ord, str) else np.abs(ord)
