"""Arrays joined to one, and cut into several.

Upstream: `jax/_src/numpy/lax_numpy.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minijax.core.errors import numpy as errors
from minijax.core.trace import typeof
from minijax.lax import joining, shapes
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays, is_array_like, promote_dtypes
from minijax.lax.rearrange import ravel
from minijax.lax.shapes import canonicalize_axis, expand_dims


def _arrays(name: str, arrays: Any) -> list[Any]:
    """A sequence of arrays, or an array as that of its rows."""
    if is_array_like(arrays) and typeof(arrays).shape:
        return list(shapes.asarray(arrays))
    if not len(arrays):
        raise errors.no_arrays(name)
    return as_arrays(name, *arrays)


def concatenate(arrays: Sequence[Any], axis: int | None = 0, dtype: Any = None) -> Any:
    """Joins arrays along an axis that they have; flat, if that is None.

    >>> import minijax.numpy as jnp
    >>> jnp.concatenate([jnp.zeros(1), jnp.ones(2)])
    Array([0., 1., 1.], dtype=float32)
    """
    xs = _arrays("concatenate", arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    ndim = typeof(xs[0]).ndim
    if ndim == 0:
        raise errors.zero_dimensional()
    at = canonicalize_axis(operator.index(axis), ndim)
    xs = [x.astype(dtype) for x in xs] if dtype is not None else promote_dtypes(*xs)
    return joining.concatenate(xs, at)


def stack(arrays: Sequence[Any], axis: int = 0, out: None = None, dtype: Any = None):
    """Joins arrays of one shape along a new axis.

    >>> import minijax.numpy as jnp
    >>> jnp.stack([jnp.zeros(2), jnp.ones(2)], axis=1)
    Array([[0., 1.],
           [0., 1.]], dtype=float32)
    """
    xs = _arrays("stack", arrays)
    first = typeof(xs[0]).shape
    for x in xs:
        if typeof(x).shape != first:
            raise errors.stack_shapes(first, typeof(x).shape)
    xs = [x.astype(dtype) for x in xs] if dtype is not None else promote_dtypes(*xs)
    return joining.stack(xs, operator.index(axis))


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, one by one: the opposite of `stack`."""
    (x,) = as_arrays("unstack", x)
    return tuple(joining.unstack(x, axis))


def vstack(tup: Sequence[Any], dtype: Any = None) -> Any:
    """Joins along the first axis; vectors are rows."""
    return concatenate([atleast_2d(x) for x in _arrays("vstack", tup)], 0, dtype)


def hstack(tup: Sequence[Any], dtype: Any = None) -> Any:
    """Joins along the second axis; vectors along their only one."""
    xs = [atleast_1d(x) for x in _arrays("hstack", tup)]
    return concatenate(xs, 0 if typeof(xs[0]).ndim == 1 else 1, dtype)


def column_stack(tup: Sequence[Any]) -> Any:
    """Joins along the second axis; vectors are columns."""
    xs = [atleast_1d(x) for x in _arrays("column_stack", tup)]
    columns = [expand_dims(x, (1,)) if typeof(x).ndim == 1 else x for x in xs]
    return concatenate(columns, 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` after `arr`; both flat, if the axis is None."""
    return concatenate([arr, values], axis)


def atleast_1d(*arys: Any) -> Any:
    """Scalars as vectors, and other arrays as they are."""
    outs = [_atleast_1d(x) for x in arys]
    return outs[0] if len(outs) == 1 else outs


@outlined("atleast_1d")
def _atleast_1d(x: Any) -> Any:
    (x,) = as_arrays("atleast_1d", x)
    return x if typeof(x).ndim else expand_dims(x, (0,))


def atleast_2d(*arys: Any) -> Any:
    """Vectors as rows, scalars as matrices of one element."""
    outs = [_atleast_2d(x) for x in arys]
    return outs[0] if len(outs) == 1 else outs


@outlined("atleast_2d")
def _atleast_2d(x: Any) -> Any:
    (x,) = as_arrays("atleast_2d", x)
    return expand_dims(x, range(max(0, 2 - typeof(x).ndim)))


# -------------------------------------------------------------------------- cutting


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cuts an array at places along an axis, or into a number of equal parts.

    ValueError where the size does not divide into equal parts.

    >>> import minijax.numpy as jnp
    >>> [x.shape for x in jnp.split(jnp.arange(5), [1, 3])]
    [(1,), (2,), (2,)]
    """
    return _cut("split", ary, indices_or_sections, axis, equal=True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The same, but with parts that may differ in size by one.

    >>> import minijax.numpy as jnp
    >>> [x.shape for x in jnp.array_split(jnp.arange(5), 3)]
    [(2,), (2,), (1,)]
    """
    return _cut("array_split", ary, indices_or_sections, axis, equal=False)


def _cut(name: str, ary: Any, where: Any, axis: int, equal: bool) -> list[Any]:
    (ary,) = as_arrays(name, ary)
    at = canonicalize_axis(axis, typeof(ary).ndim)
    size = typeof(ary).shape[at]
    if isinstance(where, tuple | list) or np.ndim(where):
        marks = [0, *(slice(operator.index(i)).indices(size)[1] for i in where), size]
        sizes = [max(0, b - a) for a, b in pairwise(marks)]
        if sum(sizes) != size:
            return [_part(ary, at, a, b) for a, b in pairwise(marks)]
    else:
        count = operator.index(where)
        if equal and size % count:
            raise errors.unequal_split(size % count)
        part, longer = divmod(size, count)
        sizes = [part + 1] * longer + [part] * (count - longer)
    return list(joining.split(ary, sizes, at))


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    """Marks that are not in order: parts then overlap, or are empty."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Cuts along the second axis; of a vector, along its only one."""
    return split(ary, indices_or_sections, 0 if typeof(ary).ndim == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Cuts along the first axis."""
    return split(ary, indices_or_sections, 0)
