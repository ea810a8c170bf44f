"""Shapes, dtypes and elements rearranged as numpy means it: reshape, take, view.

What array methods do, and what `minijax.numpy` offers under the same names.

Upstream: `jax/_src/numpy/array_methods.py`, `lax_numpy.py`, `indexing.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numeric as errors
from minijax.core.mesh import NamedSharding, P, get_abstract_mesh
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.trace import typeof
from minijax.lax import shapes
from minijax.lax.arithmetic import add
from minijax.lax.auto import in_auto_axes
from minijax.lax.compare import eq, lt, ne
from minijax.lax.convert import bitcast_convert_type, convert
from minijax.lax.gather import gather
from minijax.lax.gather_scatter import GatherDimensionNumbers, GatherScatterMode
from minijax.lax.indexing import take_index
from minijax.lax.joining import stack
from minijax.lax.numeric import remainder, where
from minijax.lax.outlined import outlined
from minijax.lax.parts import complex, imag, real
from minijax.lax.promote import as_arrays, cast
from minijax.lax.rules import const, real_dtype
from minijax.lax.shapes import canonicalize_axis, full_like, iota
from minijax.lax.slicing import slice_in_dim
from minijax.lax.sorting import sort as lax_sort
from minijax.lax.statistics import axes_of
from minijax.lax.statistics import sum as sum_of

# ------------------------------------------------------------------------------ shape


def reshape(a: Any, shape: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The same elements in another shape, of which one size may be -1.

    `order="F"` reads and writes the first dimension fastest. TypeError where the sizes
    do not match.
    """
    (a,) = as_arrays("reshape", a)
    wanted = new_shape(a, shape)
    if order == "C":
        return shapes.reshape(a, wanted, out_sharding=out_sharding)
    if order != "F":
        raise errors.reshape_order(order)
    backwards = range(typeof(a).ndim)[::-1]
    return transpose(shapes.reshape(a, wanted[::-1], backwards))


def new_shape(a: Any, shape: Any) -> tuple[int, ...]:
    """A shape for `reshape` with its -1, if there is one, replaced."""
    aval = typeof(a)
    wanted = shapes.canonicalize_shape(shape)
    unknown = [i for i, d in enumerate(wanted) if d == -1]
    if len(unknown) > 1:
        raise errors.several_unknown_sizes(shape)
    product = prod(d for d in wanted if d != -1)
    if not unknown:
        if aval.size != product:
            raise errors.new_size(aval.shape, aval.size, shape, product)
        return wanted
    if not product or aval.size % product:
        raise errors.unknown_size(aval.shape, aval.size, shape, product)
    (i,) = unknown
    return (*wanted[:i], aval.size // product, *wanted[i + 1 :])


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """All elements in one dimension."""
    return reshape(a, -1 if typeof(a).size else 0, order, out_sharding=out_sharding)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """Dimensions in another order; without `axes` in the opposite order."""
    (a,) = as_arrays("transpose", a)
    ndim = typeof(a).ndim
    order = range(ndim)[::-1] if axes is None else axes
    return shapes.transpose(a, [canonicalize_axis(i, ndim) for i in order])


def matrix_transpose(a: Any) -> Any:
    """The last two dimensions exchanged. ValueError if there are fewer."""
    (a,) = as_arrays("matrix_transpose", a)
    ndim = typeof(a).ndim
    if ndim < 2:
        raise errors.matrix_transpose_rank(ndim)
    return shapes.transpose(a, (*range(ndim - 2), ndim - 1, ndim - 2))


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two dimensions exchanged."""
    (a,) = as_arrays("swapaxes", a)
    order = list(range(typeof(a).ndim))
    i, j = (canonicalize_axis(d, len(order)) for d in (axis1, axis2))
    order[i], order[j] = order[j], order[i]
    return shapes.transpose(a, order)


def squeeze(a: Any, axis: Any = None) -> Any:
    """Without dimensions of size 1: all, or those named. ValueError if not 1."""
    (a,) = as_arrays("squeeze", a)
    shape = typeof(a).shape
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    return shapes.squeeze(a, ones if axis is None else axes_of(a, axis))


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, out_sharding: Any = None
) -> Any:
    """Each element `repeats` times in a row: an int, or one per element.

    Over Explicit axes `out_sharding` says how the result is sharded; without, as `a`
    is, which must not be sharded along `axis` then.
    """
    (a,) = as_arrays("repeat", a)
    if axis is None:
        a, axis = ravel(a), 0
    to = canonicalize_sharding(out_sharding, "repeat")
    if to is None and get_abstract_mesh().explicit_axes:
        sharding = typeof(a).sharding
        if sharding.spec.axes_of(canonicalize_axis(axis, typeof(a).ndim)):
            raise errors.repeat_sharded()
        empty = sharding.mesh.empty
        to = NamedSharding(get_abstract_mesh(), P()) if empty else sharding
    if to is None:
        return _repeated(a, repeats, axis)
    return in_auto_axes(lambda x: _repeated(x, repeats, axis), to, a)


def _repeated(a: Any, repeats: Any, axis: int) -> Any:
    shape = typeof(a).shape
    at = canonicalize_axis(operator.index(axis), len(shape))
    counts = np.asarray(repeats)
    if counts.size == 1:
        count = operator.index(counts.reshape(())[()])
        wide = (*shape[: at + 1], count, *shape[at + 1 :])
        dims = [i for i in range(len(wide)) if i != at + 1]
        out = (*shape[:at], shape[at] * count, *shape[at + 1 :])
        return shapes.reshape(shapes.broadcast_in_dim(a, wide, dims), out)
    return take(a, np.repeat(np.arange(shape[at], dtype=np.int32), counts), axis=at)


# -------------------------------------------------------------------------- elements


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """Elements at `indices` along `axis`, of the flat array if that is None.

    An index out of bounds gives `fill_value`; in mode `clip` the nearest element, in
    mode `wrap` that at the index modulo the size.
    """
    if out is not None:
        raise errors.no_out("take")
    return _take(
        *as_arrays("take", a, indices),
        axis=None if axis is None else operator.index(axis),
        mode=mode,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


@outlined(
    "_take",
    static=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value"),
)
def _take(a: Any, indices: Any, *, axis: int | None, mode: Any, **options: Any) -> Any:
    if axis is None:
        a, axis = ravel(a), 0
    shape = typeof(a).shape
    at = canonicalize_axis(axis, len(shape))
    size, count = shape[at], typeof(indices).ndim
    indices, chosen = _wrapped(indices, size, mode)
    if size == 0 or typeof(indices).size == 0:
        if typeof(indices).size:
            raise errors.take_empty()
        out = (*shape[:at], *typeof(indices).shape, *shape[at + 1 :])
        return full_like(a, 0, shape=out)
    numbers = GatherDimensionNumbers(
        (*range(at), *range(at + count, len(shape) + count - 1)), (at,), (at,)
    )
    sizes = (*shape[:at], 1, *shape[at + 1 :])
    index = shapes.expand_dims(indices, (count,))
    return gather(a, index, numbers, sizes, mode=chosen, **options)


def _wrapped(indices: Any, size: int, mode: Any) -> tuple[Any, GatherScatterMode]:
    if mode in (None, "fill"):
        negative = lt(indices, const(indices, 0))
        wrapped = where(negative, add(indices, const(indices, size)), indices)
        return wrapped, GatherScatterMode.FILL_OR_DROP
    if mode == "wrap":
        rest = remainder(indices, const(indices, size))
        return rest, GatherScatterMode.PROMISE_IN_BOUNDS
    if mode == "clip":
        return indices, GatherScatterMode.CLIP
    raise errors.take_raise() if mode == "raise" else errors.take_mode(mode)


@outlined("sort", static=("axis", "descending", "stable"))
def sort(
    a: Any, axis: int | None = -1, *, stable: bool = True, descending: bool = False
) -> Any:
    """Elements in ascending order along `axis`, of the flat array if that is None."""
    (a,) = as_arrays("sort", a)
    if axis is None:
        a, axis = ravel(a), 0
    at = canonicalize_axis(axis, typeof(a).ndim)
    out = lax_sort(a, at, is_stable=stable)
    return shapes.rev(out, (at,)) if descending else out


@outlined("argsort", static=("axis", "descending", "stable"))
def argsort(
    a: Any, axis: int | None = -1, *, stable: bool = True, descending: bool = False
) -> Any:
    """The indices that would sort the array."""
    (a,) = as_arrays("argsort", a)
    if axis is None:
        a, axis = ravel(a), 0
    aval = typeof(a)
    at = canonicalize_axis(axis, aval.ndim)
    like = aval.sharding if aval.mesh.explicit_axes else None
    index = shapes.broadcasted_iota(
        dtypes.default_dtype("i"), aval.shape, at, out_sharding=like
    )
    if descending:  # equal elements keep their order, so both are read backwards
        a, index = shapes.rev(a, (at,)), shapes.rev(index, (at,))
    _, order = lax_sort((a, index), at, is_stable=stable)
    return shapes.rev(order, (at,)) if descending else order


@outlined("diagonal", static=("offset", "axis1", "axis2"))
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements whose indices along two axes differ by `offset`."""
    (a,) = as_arrays("diagonal", a)
    ndim = typeof(a).ndim
    i, j = (canonicalize_axis(d, ndim) for d in (axis1, axis2))
    a = _last_two(a, i, j)
    n, m = typeof(a).shape[-2:]
    size = max(min(n + min(offset, 0), m - max(offset, 0)), 0)
    rows, columns = (_count(size, max(k, 0)) for k in (-offset, offset))
    return take_index(a, (Ellipsis, rows, columns))


def _last_two(a: Any, i: int, j: int) -> Any:
    rest = [d for d in range(typeof(a).ndim) if d not in (i, j)]
    return shapes.transpose(a, (*rest, i, j))


def _count(size: int, start: int) -> Any:
    numbers = iota(dtypes.default_dtype("i"), size)
    return add(const(numbers, start), numbers) if start else numbers


@outlined("trace", static=("axis1", "axis2", "dtype"))
def trace(
    a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Any:
    """The sum of the diagonal."""
    (a,) = as_arrays("trace", a)
    ndim = typeof(a).ndim
    a = _last_two(a, canonicalize_axis(axis1, ndim), canonicalize_axis(axis2, ndim))
    int_dtype, shape = np.dtype(np.int32), typeof(a).shape[-2:]
    row, column = (shapes.broadcasted_iota(int_dtype, shape, d) for d in (0, 1))
    on_diagonal = eq(add(row, cast(offset, int_dtype)), column)
    masked = where(on_diagonal, a, full_like(a, 0))
    return sum_of(masked, axis=(-2, -1), dtype=dtype)


# ------------------------------------------------------------------------------ dtype


def astype(a: Any, dtype: Any, copy: bool = False) -> Any:
    """Elements converted to a dtype; of complex to bool, whether they are not zero."""
    (a,) = as_arrays("astype", a)
    wanted = dtypes.default_dtype("f")
    if dtype is not None:
        wanted = dtypes.canonicalize_user_dtype(dtype, "astype")
    if dtypes.issubdtype(typeof(a).dtype, np.complexfloating):
        if wanted == np.bool_:
            a = ne(a, const(a, 0))
        elif not dtypes.issubdtype(wanted, np.complexfloating):
            a = real(a)
    return convert(a, wanted)


def view(a: Any, dtype: Any = None, type: None = None) -> Any:
    """The same bytes read as another dtype; the last dimension grows or shrinks."""
    if type is not None:
        raise errors.view_type()
    (a,) = as_arrays("view", a)
    if dtype is None:
        return a
    wanted, aval = dtypes.canonicalize_user_dtype(dtype, "view"), typeof(a)
    if aval.dtype == wanted:
        return a
    if aval.ndim == 0:
        if aval.dtype.itemsize != wanted.itemsize:
            raise errors.view_scalar()
        return squeeze(view(shapes.expand_dims(a, (0,)), wanted))
    if aval.shape[-1] * aval.dtype.itemsize % wanted.itemsize:
        raise errors.view_size()
    return _view(a, aval.dtype, wanted)


def _view(a: Any, found: np.dtype[Any], wanted: np.dtype[Any]) -> Any:
    byte = np.dtype(np.uint8)
    if found == np.bool_:
        return view(convert(a, byte), wanted)
    if wanted == np.bool_:
        return convert(view(a, byte), wanted)
    if found.kind == "c":
        pairs = stack([real(a), imag(a)], typeof(a).ndim)
        return view(_merged(pairs), wanted)
    if wanted.kind == "c":
        flat = view(a, real_dtype(wanted))
        size, last = typeof(flat).shape[-1], typeof(flat).ndim - 1
        even, odd = (slice_in_dim(flat, i, size, 2, last) for i in (0, 1))
        return complex(even, odd)
    if found.itemsize < wanted.itemsize:
        factor, shape = wanted.itemsize // found.itemsize, typeof(a).shape
        a = shapes.reshape(a, (*shape[:-1], shape[-1] // factor, factor))
        return bitcast_convert_type(a, wanted)
    out = bitcast_convert_type(a, wanted)
    return _merged(out) if found.itemsize > wanted.itemsize else out


def _merged(a: Any) -> Any:
    return shapes.collapse(a, typeof(a).ndim - 2)
