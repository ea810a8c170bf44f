"""Indices as users write them, parsed: which entry is about which axes.

Upstream: `jax/_src/numpy/indexing.py` (`NDIndexer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numeric as errors
from minijax.core.errors import tracing as tracing_errors
from minijax.core.trace import Tracer, is_value, typeof
from minijax.lax.arithmetic import add
from minijax.lax.compare import lt
from minijax.lax.rules import const
from minijax.lax.select import select
from minijax.lax.shapes import Shape

# -------------------------------------------------------------------------- parsing


class Part(NamedTuple):
    """One entry of an index, and the axes of the array that it is about.

    kind: `none`, `ellipsis`, `slice`, `integer` (known when traced), `array` (of
    integers, any rank), or `boolean`.
    """

    kind: str
    index: Any
    axes: tuple[int, ...]


def parse(index: Any, shape: Shape) -> list[Part]:
    """The entries of an index into an array of `shape`.

    IndexError for too many of them, or for something that is no index.
    """
    entries = _as_tuple(index)
    pairs = [_classified(i) for i in entries]
    counts = [
        len(np.shape(i) if not is_value(i) else typeof(i).shape)
        if kind == "boolean"
        else int(kind in ("slice", "integer", "array"))
        for kind, i in pairs
    ]
    dots = [n for n, (kind, _) in enumerate(pairs) if kind == "ellipsis"]
    if len(dots) > 1:
        raise errors.two_ellipses()
    total = sum(counts)
    if total > len(shape):
        raise errors.too_many_indices(len(shape), total)
    if dots:
        counts[dots[0]] = len(shape) - total
    parts, axis = [], 0
    for (kind, i), count in zip(pairs, counts, strict=True):
        parts.append(Part(kind, i, tuple(range(axis, axis + count))))
        axis += count
    return parts


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, Sequence) and not isinstance(index, str):
        inside = any(
            i is None
            or i is Ellipsis
            or isinstance(i, Sequence | slice)
            or (is_value(i) and typeof(i).shape)
            for i in index
        )
        raise errors.sequence_index(inside)
    return (index,)


def _classified(i: Any) -> tuple[str, Any]:
    """The kind of an entry, and the entry, as an array if it is a list."""
    if i is None:
        return "none", i
    if i is Ellipsis:
        return "ellipsis", i
    if isinstance(i, slice):
        return "slice", i
    if isinstance(i, str):
        raise errors.string_index(i)
    if isinstance(i, int | np.integer) and not isinstance(i, bool):
        return "integer", i
    if isinstance(i, Sequence):
        i = np.asarray(i) if len(i) else np.zeros(0, np.int32)
    if not is_value(i):
        raise errors.bad_index(i)
    dtype = typeof(i).dtype
    if dtype == np.bool_:
        return "boolean", i
    if not dtypes.issubdtype(dtype, np.integer):
        raise errors.indexer_dtype(getattr(i, "dtype", np.dtype(type(i))))
    return "array", i.astype(dtype) if isinstance(i, np.ndarray) else i


def expanded(parts: Sequence[Part], ndim: int) -> list[Part]:
    """With full slices for the ellipsis and for axes that are not mentioned."""
    everything = slice(None)
    out: list[Part] = []
    for part in parts:
        if part.kind == "ellipsis":
            out.extend(Part("slice", everything, (a,)) for a in part.axes)
        else:
            out.append(part)
    used = sum(len(p.axes) for p in parts)
    out.extend(Part("slice", everything, (a,)) for a in range(used, ndim))
    return out


def check_slices(parts: Sequence[Part]) -> None:
    """Refuses slices whose bounds are not known when traced. IndexError."""
    for position, part in enumerate(parts):
        if part.kind != "slice":
            continue
        s = part.index
        for bound in (s.start, s.stop, s.step):
            if isinstance(bound, Tracer) and bound.concrete() is None:
                origin = bound.origin()
                raise errors.dynamic_slice_index(s, position, origin)


def without_masks(parts: Sequence[Part], shape: Shape) -> list[Part]:
    """Masks replaced by the indices where they hold; scalar ones stay."""
    out: list[Part] = []
    for position, part in enumerate(parts):
        if part.kind != "boolean":
            out.append(part)
            continue
        mask = part.index
        if isinstance(mask, Tracer):
            mask = mask.concrete()
            if mask is None:
                raise tracing_errors.nonconcrete_boolean_index(part.index.aval.short())
        mask = np.asarray(mask)
        expected = [shape[a] for a in part.axes]
        if any(n not in (0, m) for n, m in zip(mask.shape, expected, strict=True)):
            raise errors.boolean_shape(position, mask.shape, expected)
        if not part.axes:
            out.append(Part("boolean", bool(mask), ()))
            continue
        for found, axis in zip(np.nonzero(mask), part.axes, strict=True):
            out.append(Part("array", found.astype(np.int32), (axis,)))
    return out


def index_dtype(shape: Shape) -> np.dtype[Any]:
    """A dtype that can hold every index into an array of this shape."""
    large = any(n > np.iinfo(np.int32).max for n in shape)
    return np.dtype(np.int64 if large else np.int32)


def from_end(i: Any, size: int) -> Any:
    """An index or an array of them, with negative ones counted from the end."""
    if dtypes.issubdtype(typeof(i).dtype, np.unsignedinteger):
        return i
    negative = i < 0 if isinstance(i, np.ndarray) else lt(i, const(i, 0))
    return select(negative, add(i, const(i, size)), i)
