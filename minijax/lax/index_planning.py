"""The gather or scatter that an index with arrays in it means.

Arrays in an index are broadcast against one another, and their dimensions come where
the first of them stands, or first of all if something else stands between them. Slices
that take every element are left alone; others are one more index.

Upstream: `jax/_src/numpy/indexing.py` (`_index_to_gather`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from minijax.core.errors import numeric as errors
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add, mul
from minijax.lax.gather_scatter import GatherDimensionNumbers
from minijax.lax.index_parsing import (
    Part,
    check_slices,
    expanded,
    from_end,
    index_dtype,
)
from minijax.lax.joining import concatenate
from minijax.lax.promote import broadcast_arrays, cast
from minijax.lax.shapes import Shape, broadcast_in_dim, expand_dims, iota, rev


@dataclass
class Plan:
    """A gather in the making, and what is done to its result `y` afterwards."""

    #: Index arrays, each with the dimension of all indices that its first one is.
    indices: list[tuple[Any, int]] = field(default_factory=list)
    indices_shape: list[int] = field(default_factory=list)
    #: The shape of the result, and which axis of the operand each dimension is.
    shape: list[int] = field(default_factory=list)
    sources: list[int | None] = field(default_factory=list)
    new_dims: list[int] = field(default_factory=list)
    reverse: list[int] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    collapsed: list[int] = field(default_factory=list)
    mapped: list[int] = field(default_factory=list)
    #: Dimensions of the operand that scalar booleans stand for.
    scalar_masks: list[int] = field(default_factory=list)
    y_axis: int = 0
    advanced: bool = False

    @property
    def numbers(self) -> GatherDimensionNumbers:
        return GatherDimensionNumbers(
            tuple(self.offset), tuple(sorted(self.collapsed)), tuple(self.mapped)
        )

    def index_vectors(self, dtype: np.dtype[Any]) -> Any:
        """All indices in one array, with the index vectors in its last dimension."""
        if not self.indices:
            return np.zeros((0,), dtype)
        if len(self.indices) == 1:
            ((g, _),) = self.indices
            return expand_dims(g, (typeof(g).ndim,))
        shape = [*self.indices_shape, 1]
        columns = [
            broadcast_in_dim(g, shape, range(i, i + typeof(g).ndim))
            for g, i in self.indices
        ]
        return concatenate(columns, len(shape) - 1)


def plan_gather(parts: Sequence[Part], shape: Shape, wrap: bool) -> tuple[Plan, Any]:
    """The gather for an index without masks, and its index vectors."""
    check_slices(parts)
    adjacent = _adjacent([p.kind in ("array", "integer") for p in parts])
    plan = Plan()
    parts, shape = _scalar_masks(expanded(parts, len(shape)), shape, plan)
    if wrap:
        parts = [_wrapped(p, shape) for p in parts]
    dtype = index_dtype(shape)
    plan.advanced = any(p.kind == "array" and typeof(p.index).shape for p in parts)
    chosen: list[int] = []
    if plan.advanced:
        chosen = [n for n, p in enumerate(parts) if p.kind in ("array", "integer")]
    for position, part in enumerate(parts):
        if chosen and position == (chosen[0] if adjacent else 0):
            _add_arrays(plan, [parts[n] for n in chosen], dtype)
        if position in chosen:
            plan.window.append(1)
        else:
            _add_part(plan, part, shape, dtype)
    return plan, plan.index_vectors(dtype)


def _adjacent(marks: Sequence[bool]) -> bool:
    at = [n for n, marked in enumerate(marks) if marked]
    return all(b - a == 1 for a, b in pairwise(at))


def _scalar_masks(
    parts: Sequence[Part], shape: Shape, plan: Plan
) -> tuple[list[Part], Shape]:
    """A scalar mask is an array of one index or none, into a new axis of size 1."""
    out: list[Part] = []
    sizes: list[int] = []
    for part in parts:
        at = len(sizes)
        if part.kind == "boolean":
            plan.scalar_masks.append(at)
            out.append(Part("array", np.arange(int(part.index), dtype=np.int32), (at,)))
            sizes.append(1)
        else:
            out.append(part._replace(axes=tuple(range(at, at + len(part.axes)))))
            sizes.extend(shape[a] for a in part.axes)
    return out, tuple(sizes)


def _wrapped(part: Part, shape: Shape) -> Part:
    if part.kind == "integer":
        i, n = part.index, shape[part.axes[0]]
        return part._replace(index=i + n if i < 0 else i)
    if part.kind == "array":
        return part._replace(index=from_end(part.index, shape[part.axes[0]]))
    return part


def _add_arrays(plan: Plan, parts: Sequence[Part], dtype: np.dtype[Any]) -> None:
    """The arrays of an index, which are broadcast against one another."""
    arrays = broadcast_arrays(*[p.index for p in parts])
    start, shape = len(plan.indices_shape), typeof(arrays[0]).shape
    plan.indices.extend((cast(a, dtype), start) for a in arrays)
    axes = [p.axes[0] for p in parts]
    plan.indices_shape += shape
    plan.mapped += axes
    plan.collapsed += axes
    plan.shape += shape
    plan.sources += [None] * len(shape)
    plan.y_axis += len(shape)


def _add_part(plan: Plan, part: Part, shape: Shape, dtype: np.dtype[Any]) -> None:
    if part.kind == "none":
        plan.new_dims.append(len(plan.shape))
        plan.shape.append(1)
        plan.sources.append(None)
        return
    (axis,) = part.axes
    if part.kind == "slice":
        _add_slice(plan, part.index, axis, shape[axis], dtype)
        return
    if not shape[axis]:
        raise errors.empty_axis(axis)
    plan.indices.append((cast(part.index, dtype), len(plan.indices_shape)))
    plan.collapsed.append(axis)
    plan.mapped.append(axis)
    plan.window.append(1)


def _add_slice(
    plan: Plan, index: Any, axis: int, size: int, dtype: np.dtype[Any]
) -> None:
    lo, hi, step = index.indices(size)
    count = len(range(lo, hi, step))
    plan.shape.append(count)
    plan.sources.append(axis)
    at = len(plan.indices_shape)
    if step == 1:
        if count != size:
            plan.indices.append((dtype.type(lo), at))
            plan.mapped.append(axis)
        plan.window.append(count)
        plan.offset.append(plan.y_axis)
    else:
        every = add(dtype.type(lo), mul(dtype.type(step), iota(dtype, count)))
        if step < 0:
            plan.reverse.append(plan.y_axis)
            every = rev(every, (0,))
        plan.window.append(1)
        plan.indices.append((every, at))
        plan.mapped.append(axis)
        plan.indices_shape.append(count)
        plan.collapsed.append(axis)
    plan.y_axis += 1
