"""Elements moved to other places: axes, broadcasting, repetition, rolling, padding.

Upstream: `jax/_src/numpy/lax_numpy.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.errors import numpy as errors
from minijax.core.errors import shapes as shape_errors
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.trace import typeof
from minijax.lax import joining, promote, shapes, slicing
from minijax.lax.numeric import remainder
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays, cast
from minijax.lax.rearrange import ravel, reshape, take
from minijax.lax.shapes import canonicalize_axes, canonicalize_axis, canonicalize_shape

Axes = int | Sequence[int] | None

# ----------------------------------------------------------------------------- axes


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Moves axes to other places; the others keep their order.

    >>> import minijax.numpy as jnp
    >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    (a,) = as_arrays("moveaxis", a)
    ndim = typeof(a).ndim
    sources, destinations = (
        canonicalize_axes(_as_tuple(v), ndim) for v in (source, destination)
    )
    if len(sources) != len(destinations):
        raise errors.move_lengths(sources, destinations)
    order = [i for i in range(ndim) if i not in sources]
    for place, i in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, i)
    return shapes.transpose(a, order)


def _as_tuple(axes: Any) -> Any:
    """Several axes as a tuple; one, or None, as it is."""
    return tuple(axes) if np.ndim(axes) else axes


def expand_dims(a: Any, axis: Any) -> Any:
    """New axes of size 1, at these places of the result.

    >>> import minijax.numpy as jnp
    >>> jnp.expand_dims(jnp.zeros(3), 0).shape
    (1, 3)
    """
    (a,) = as_arrays("expand_dims", a)
    return shapes.expand_dims(a, tuple(axis) if np.ndim(axis) else (axis,))


# --------------------------------------------------------------------- broadcasting


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """An array repeated along new axes, and along those of size 1.

    >>> import minijax.numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    (array,) = as_arrays("broadcast_to", array)
    to = canonicalize_sharding(out_sharding, "jnp.broadcast_to")
    return shapes.broadcast_to(array, canonicalize_shape(shape), out_sharding=to)


def broadcast_arrays(*args: Any) -> list[Any]:
    """Arrays broadcast to their common shape."""
    return promote.broadcast_arrays(*as_arrays("broadcast_arrays", *args))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that several shapes broadcast to.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return promote.broadcast_shapes(*(canonicalize_shape(s) for s in shapes))


# ----------------------------------------------------------------------- repetition


def tile(A: Any, reps: Any) -> Any:
    """The whole array, repeated along each axis.

    >>> import minijax.numpy as jnp
    >>> jnp.tile(jnp.arange(2), 2)
    Array([0, 1, 0, 1], dtype=int32)
    """
    (A,) = as_arrays("tile", A)
    counts = canonicalize_shape(reps)
    rank = max(len(counts), typeof(A).ndim)
    counts = (1,) * (rank - len(counts)) + counts
    return joining.tile(shapes.broadcast_to_rank(A, rank), counts)


# ------------------------------------------------------------------- rolls and flips


def roll(a: Any, shift: Any, axis: Axes = None) -> Any:
    """Elements moved by `shift` places; what leaves at the end comes in at the start.

    >>> import minijax.numpy as jnp
    >>> jnp.roll(jnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    (a,) = as_arrays("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), typeof(a).shape)
    aval = typeof(a)
    axes = canonicalize_axes(_as_tuple(axis), aval.ndim)
    if any(aval.sharding.spec.axes_of(i) for i in axes):
        raise shape_errors.roll_sharded(aval, axes)
    if isinstance(shift, int | np.integer | np.ndarray | tuple | list):
        known = np.broadcast_to(np.asarray(shift), (len(axes),))
        return _roll_static(a, shift=tuple(int(s) for s in known), axes=axes)
    return _roll_dynamic(a, shift, axes=axes)


@outlined("_roll_static", static=("shift", "axes"))
def _roll_static(a: Any, *, shift: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    for by, axis in zip(shift, axes, strict=True):
        size = typeof(a).shape[axis]
        at = (-by) % size if size else 0
        if at:
            last = slicing.slice_in_dim(a, at, size, axis=axis)
            first = slicing.slice_in_dim(a, 0, at, axis=axis)
            a = joining.concatenate([last, first], axis)
    return a


@outlined("_roll_dynamic", static=("axes",))
def _roll_dynamic(a: Any, shift: Any, *, axes: tuple[int, ...]) -> Any:
    (shift,) = as_arrays("roll", shift)
    by = shapes.broadcast_to(shift, (len(axes),))
    for i, axis in enumerate(axes):
        size = typeof(a).shape[axis]
        if not size:
            continue
        this = slicing.index_in_dim(by, i, 0, keepdims=False)
        start = remainder(this, np.asarray(size, typeof(this).dtype)[()])
        twice = joining.concatenate([a, a], axis)
        back = np.asarray(size, typeof(this).dtype)[()] - start
        a = slicing.dynamic_slice_in_dim(twice, back, size, axis)
    return a


def flip(m: Any, axis: Axes = None) -> Any:
    """Elements in the opposite order along axes, all of them by default.

    >>> import minijax.numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    (m,) = as_arrays("flip", m)
    return _flip(m, axes=canonicalize_axes(_as_tuple(axis), typeof(m).ndim))


@outlined("_flip", static=("axes",))
def _flip(m: Any, *, axes: tuple[int, ...]) -> Any:
    return shapes.rev(m, axes)


def fliplr(m: Any) -> Any:
    """Elements in the opposite order along the second axis."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """Elements in the opposite order along the first axis."""
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """The plane of two axes, turned by `k` right angles."""
    (m,) = as_arrays("rot90", m)
    one, other = (canonicalize_axis(i, typeof(m).ndim) for i in axes)
    if one == other:
        raise errors.same_axes()
    order = list(range(typeof(m).ndim))
    order[one], order[other] = order[other], order[one]
    turns = k % 4
    if turns == 0:
        return m
    if turns == 2:
        return flip(flip(m, one), other)
    if turns == 1:
        return shapes.transpose(flip(m, other), order)
    return flip(shapes.transpose(m, order), other)


# -------------------------------------------------------------------------- padding

#: Modes in which padding repeats elements of the array.
_BY_INDEX = ("edge", "reflect", "symmetric", "wrap")


def pad(
    array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0
) -> Any:
    """An array with more elements around it.

    Args:
      array: what is padded.
      pad_width: how many elements, before and after, along each axis; or one pair, or
        one number, for all of them.
      mode: `constant`, or one that repeats elements: `edge`, `reflect`, `symmetric`,
        `wrap`.
      constant_values: a scalar; or several, in the forms of `pad_width`.

    >>> import minijax.numpy as jnp
    >>> jnp.pad(jnp.ones(2), (1, 2))
    Array([0., 1., 1., 0., 0.], dtype=float32)
    """
    (array,) = as_arrays("pad", array)
    ndim = typeof(array).ndim
    pairs = np.broadcast_to(np.asarray(pad_width), (ndim, 2)).tolist()
    widths = tuple((int(a), int(b)) for a, b in pairs)
    if mode == "constant":
        (values,) = as_arrays("pad", _as_array(constant_values))
        return _pad(array, values, widths=widths)
    if mode not in _BY_INDEX:
        raise errors.pad_mode(mode)
    for axis, width in enumerate(widths):
        if width != (0, 0):
            index = np.arange(typeof(array).shape[axis], dtype=np.int32)
            places: Any = np.pad(index, width, mode)  # type: ignore[call-overload]
            array = take(array, places, axis, mode="clip")
    return array


def _as_array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, tuple | list) else x


@outlined("_pad", static=("widths",))
def _pad(array: Any, values: Any, *, widths: tuple[tuple[int, int], ...]) -> Any:
    aval = typeof(array)
    values = cast(values, aval.dtype)
    if not typeof(values).shape:
        return slicing.pad(array, values, [(a, b, 0) for a, b in widths])
    values = shapes.broadcast_to(values, (aval.ndim, 2))
    for axis, width in enumerate(widths):
        for side in (0, 1):
            config = [(0, 0, 0)] * aval.ndim
            config[axis] = (width[0], 0, 0) if side == 0 else (0, width[1], 0)
            array = slicing.pad(array, values[axis, side], config)
    return array
