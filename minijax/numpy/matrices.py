"""Matrices made from a few numbers or from parts of others, and grids.

Upstream: `jax/_src/numpy/array_creation.py`, `lax_numpy.py`.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numpy as errors
from minijax.core.trace import typeof
from minijax.lax import shapes
from minijax.lax.arithmetic import add
from minijax.lax.compare import eq, ge
from minijax.lax.convert import convert
from minijax.lax.numeric import where
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays
from minijax.lax.rearrange import diagonal
from minijax.lax.select import select
from minijax.lax.shapes import broadcasted_iota, expand_dims
from minijax.lax.shapes import full_like as lax_full_like
from minijax.lax.slicing import pad
from minijax.transforms.place import device_put


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, **where: Any
) -> Any:
    """A matrix with ones on the diagonal number `k`, and zeros elsewhere.

    >>> import minijax.numpy as jnp
    >>> jnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    shape = (operator.index(N), operator.index(N if M is None else M))
    kind = _float_by_default(dtype, "eye")
    row, column = _places(shape)
    on = eq(add(row, _offset(k)), column)
    out = convert(on, kind)
    return device_put(out, *where.values()) if where else out


def identity(n: int, dtype: Any = None) -> Any:
    """A square matrix with ones on its diagonal."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """A matrix with ones on and below the diagonal number `k`."""
    shape = (operator.index(N), operator.index(N if M is None else M))
    return convert(_on_or_below(shape, k), _float_by_default(dtype, "tri"))


def _float_by_default(dtype: Any, name: str) -> Any:
    return dtypes.canonicalize_user_dtype(float if dtype is None else dtype, name)


def _places(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The row and column number of each element."""
    kind = np.dtype(np.int32)
    row, column = (broadcasted_iota(kind, shape, i) for i in (0, 1))
    return row, column


def _offset(k: Any) -> Any:
    return np.int32(operator.index(k))


def _on_or_below(shape: tuple[int, ...], k: int) -> Any:
    kind = np.dtype(np.int32)
    row = add(broadcasted_iota(kind, shape, 0), _offset(k))
    return ge(row, broadcasted_iota(kind, shape, 1))


@outlined("tril", static=("k",))
def tril(m: Any, k: int = 0) -> Any:
    """The elements of a matrix on and below the diagonal number `k`, else zeros.

    >>> import minijax.numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    (m,) = as_arrays("tril", m)
    if typeof(m).ndim < 2:
        raise errors.triangle_rank("tril")
    mask = _on_or_below(typeof(m).shape[-2:], k)
    return select(_spread(mask, m), m, lax_full_like(m, 0))


@outlined("triu", static=("k",))
def triu(m: Any, k: int = 0) -> Any:
    """The elements of a matrix on and above the diagonal number `k`, else zeros."""
    (m,) = as_arrays("triu", m)
    if typeof(m).ndim < 2:
        raise errors.triangle_rank("triu")
    mask = _on_or_below(typeof(m).shape[-2:], k - 1)
    return select(_spread(mask, m), lax_full_like(m, 0), m)


def _spread(mask: Any, m: Any) -> Any:
    aval = typeof(m)
    to = aval.sharding if aval.mesh.explicit_axes else None
    return shapes.broadcast(mask, aval.shape[:-2], out_sharding=to)


def diag(v: Any, k: int = 0) -> Any:
    """The matrix with this diagonal; of a matrix, its diagonal.

    >>> import minijax.numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    (v,) = as_arrays("diag", v)
    return _diag(v, k=operator.index(k))


@outlined("_diag", static=("k",))
def _diag(v: Any, *, k: int) -> Any:
    ndim = typeof(v).ndim
    if ndim == 2:
        return diagonal(v, offset=k)
    if ndim != 1:
        raise errors.diagonal_rank()
    zero = np.zeros((), typeof(v).dtype)[()]
    v = pad(v, zero, ((max(0, -k), max(0, k), 0),))
    (size,) = typeof(v).shape
    row, column = _places((size, size))
    on = eq(add(row, _offset(k)), column)
    return where(on, expand_dims(v, (1,)), zero)


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False) -> list[Any]:
    """The coordinates of a grid, an array for each axis.

    >>> import minijax.numpy as jnp
    >>> x, y = jnp.meshgrid(jnp.arange(3), jnp.arange(2))
    >>> x.shape
    (2, 3)
    """
    if indexing not in ("xy", "ij"):
        raise errors.meshgrid_indexing(indexing)
    arrays = as_arrays("meshgrid", *xi)
    if builtins.any(typeof(a).ndim > 1 for a in arrays):
        raise errors.meshgrid_rank()
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) >= 2:
        order[:2] = [1, 0]
    sizes = [int(np.prod(typeof(a).shape)) for a in arrays]
    full_shape = [sizes[i] for i in order]
    out = []
    for i, a in enumerate(arrays):
        shape = [1] * len(arrays) if sparse else full_shape
        shape[order[i] : order[i] + 1] = [sizes[i]]
        flat = shapes.reshape(a, (sizes[i],))
        out.append(shapes.broadcast_in_dim(flat, shape, (order[i],)))
    return out
