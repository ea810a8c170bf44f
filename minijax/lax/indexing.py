"""Indexing as numpy means it: `x[index]` and `x.at[index].set(y)`.

An index is parsed into one `Part` per entry (`index_parsing.py`), and then carried out
in the simplest way that does:

1. `slice`: only integers and slices that are known when traced;
2. `dynamic_slice`: also integer scalars that are not;
3. `gather`: also arrays of integers, or boolean masks, which must be known when traced.

An update is a `scatter` by the same plan as the gather (`index_planning.py`).

Upstream: `jax/_src/numpy/indexing.py`, `jax/_src/ops/scatter.py`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numeric as errors
from minijax.core.mesh import P
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.trace import Tracer, typeof
from minijax.lax.auto import in_auto_axes
from minijax.lax.gather import gather
from minijax.lax.gather_scatter import GatherScatterMode, as_scatter
from minijax.lax.index_parsing import (
    Part,
    check_slices,
    expanded,
    from_end,
    index_dtype,
    parse,
    without_masks,
)
from minijax.lax.index_planning import Plan, plan_gather
from minijax.lax.promote import as_arrays, cast, promote_dtypes
from minijax.lax.shapes import (
    Shape,
    broadcast_in_dim,
    broadcast_to,
    expand_dims,
    full_like,
    rev,
    squeeze,
)
from minijax.lax.slicing import dynamic_slice, slice

Mode = str | GatherScatterMode | None

# ---------------------------------------------------------------- slices, known or not


class _Cut(NamedTuple):
    """A block, and what is done to it afterwards."""

    start: list[Any]
    limit: list[int]
    sizes: list[int]
    strides: list[int]
    reverse: list[int]
    drop: list[int]
    new: list[int]

    def finish(self, x: Any) -> Any:
        if self.reverse:
            x = rev(x, self.reverse)
        if self.drop:
            x = squeeze(x, self.drop)
        return expand_dims(x, self.new) if self.new else x


def _cut(parts: Sequence[Part], shape: Shape, wrap: bool, clip: bool = False) -> _Cut:
    """The block that integers, scalars and slices are about."""
    cut = _Cut([], [], [], [], [], [], [])
    for part in expanded(parts, len(shape)):
        if part.kind == "none":
            cut.new.append(len(cut.start) - len(cut.drop) + len(cut.new))
            continue
        (axis,) = part.axes
        n, step = shape[axis], 1
        if part.kind == "slice":
            lo, hi, step = part.index.indices(n)
            count = len(range(lo, hi, step))
            limit = max(lo, hi)
            if step < 0:
                cut.reverse.append(axis)
                limit = lo + 1
                lo = lo + (count - 1) * step if count else limit
        else:
            if not n:
                raise errors.empty_axis(axis)
            lo, count = part.index, 1
            if part.kind == "integer":
                lo = int(lo) + (n if wrap and lo < 0 else 0)
                lo = min(max(lo, 0), n - 1) if clip else lo
            limit = lo + 1 if part.kind == "integer" else 0
            cut.drop.append(axis)
        cut.limit.append(limit)
        cut.start.append(lo)
        cut.sizes.append(count)
        cut.strides.append(abs(step))
    return cut


def _static(x: Any, parts: Sequence[Part], mode: GatherScatterMode, wrap: bool) -> Any:
    """The first way; None where it does not do."""
    if any(p.kind in ("array", "boolean") for p in parts):
        return None
    shape = typeof(x).shape
    clip = mode is GatherScatterMode.CLIP
    for part in parts:
        if part.kind == "integer":
            n, i = shape[part.axes[0]], operator.index(part.index)
            at = i + n if wrap and i < 0 else i
            if not 0 <= at < n and not (clip and n):
                return None
    cut = _cut(parts, shape, wrap, clip)
    strides = cut.strides if any(s != 1 for s in cut.strides) else None
    if strides is None and not any(cut.start) and tuple(cut.limit) == shape:
        return cut.finish(x)
    return cut.finish(slice(x, cut.start, cut.limit, strides))


def _dynamic(x: Any, parts: Sequence[Part], wrap: bool) -> Any:
    """The second way; None where it does not do."""
    for part in parts:
        scalar = part.kind != "array" or not typeof(part.index).shape
        unit = part.kind != "slice" or part.index.step in (None, 1, -1)
        if part.kind == "boolean" or not scalar or not unit:
            return None
    shape = typeof(x).shape
    cut = _cut(parts, shape, wrap=False)
    dtype = index_dtype(shape)
    start = [cast(i, dtype) for i in cut.start]
    if wrap:
        start = [from_end(i, n) for i, n in zip(start, shape, strict=True)]
    block = dynamic_slice(x, start, cut.sizes, allow_negative_indices=False)
    return cut.finish(block)


# ---------------------------------------------------------------------------- reading


def take_index(
    x: Any,
    index: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
    out_sharding: Any = None,
) -> Any:
    """`x[index]`; also `x.at[index].get(...)`, whose options these are."""
    shape = typeof(x).shape
    parts = parse(index, shape)
    out = _as_block(x, parts, mode, wrap_negative_indices)
    if out is not None:
        return out
    parts = without_masks(parts, shape)
    options = (indices_are_sorted, unique_indices, mode, _as_fill(fill_value))

    def taken(x: Any, *indices: Any) -> Any:
        return _gathered(x, _replaced(parts, indices), wrap_negative_indices, *options)

    to = canonicalize_sharding(out_sharding, ".get")
    if to is None:
        return taken(x, *_indices(parts))
    return in_auto_axes(taken, to, x, *_indices(parts))


def _indices(parts: Sequence[Part]) -> list[Any]:
    """The arrays of an index."""
    return [p.index for p in parts if p.kind == "array"]


def _replaced(parts: Sequence[Part], indices: Sequence[Any]) -> list[Part]:
    """An index with other arrays."""
    found = iter(indices)
    return [p._replace(index=next(found)) if p.kind == "array" else p for p in parts]


def _gathered(
    x: Any,
    parts: Sequence[Part],
    wrap: bool,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Mode,
    fill_value: Any,
) -> Any:
    """The third way."""
    plan, vectors = plan_gather(parts, typeof(x).shape, wrap)
    y = expand_dims(x, plan.scalar_masks) if plan.scalar_masks else x
    if 0 in plan.shape:
        return full_like(y, 0, shape=tuple(plan.shape))
    if typeof(vectors).size:
        y = gather(
            y,
            vectors,
            plan.numbers,
            plan.window,
            unique_indices=unique_indices or not plan.advanced,
            indices_are_sorted=indices_are_sorted or not plan.advanced,
            mode=mode,
            fill_value=fill_value,
        )
    if plan.reverse:
        y = rev(y, plan.reverse)
    return expand_dims(y, plan.new_dims) if plan.new_dims else y


def _as_block(x: Any, parts: Sequence[Part], mode: Mode, wrap: bool) -> Any:
    """The first two ways; None where they do not do."""
    chosen = GatherScatterMode.PROMISE_IN_BOUNDS
    if mode is not None:
        chosen = GatherScatterMode.from_any(mode)
    if chosen is GatherScatterMode.FILL_OR_DROP or _is_cut_up(x, parts):
        return None
    check_slices(parts)
    out = _static(x, parts, chosen, wrap)
    return _dynamic(x, parts, wrap) if out is None else out


def _as_fill(value: Any) -> Any:
    if value is None:
        return None
    if np.ndim(value):
        raise errors.fill_value_scalar()
    return value.item() if isinstance(value, np.ndarray) else value


def _is_cut_up(x: Any, parts: Sequence[Part]) -> bool:
    """Whether `x` lies in shards on devices, and the index takes a part of it.

    The parts of a block are not where the block's sharding would have them.
    """
    if isinstance(x, Tracer):
        return False
    sharding = x.sharding
    if sharding.num_devices == 1 or sharding.is_fully_replicated:
        return False
    return any(p.kind in ("integer", "array") or _is_partial(p, x) for p in parts)


def _is_partial(part: Part, x: Any) -> bool:
    if part.kind != "slice":
        return False
    n = x.shape[part.axes[0]]
    lo, hi, step = part.index.indices(n)
    return abs(step) != 1 or abs(hi - lo) != n


# --------------------------------------------------------------------------- updating


def update_index(
    x: Any,
    index: Any,
    y: Any,
    scatter: Callable[..., Any],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
    wrap_negative_indices: bool = True,
    out_sharding: Any = None,
) -> Any:
    """`x` with `scatter` applied to the elements at `index`."""
    (x,) = as_arrays("scatter", x)
    aval, y = typeof(x), _as_update(x, y)
    if dtypes.result_type(x, y) != aval.dtype:
        message = errors.unsafe_scatter(typeof(y).dtype, aval.dtype)
        warnings.warn(message, FutureWarning, stacklevel=4)
    parts = without_masks(parse(index, aval.shape), aval.shape)
    options = (scatter, indices_are_sorted, unique_indices, mode)

    def updated(x: Any, y: Any, *indices: Any) -> Any:
        return _scattered(
            x, y, _replaced(parts, indices), wrap_negative_indices, *options
        )

    to = canonicalize_sharding(out_sharding, ".set")
    if to is None:
        return updated(x, y, *_indices(parts))
    return in_auto_axes(updated, to, x, y, *_indices(parts))


def _scattered(
    x: Any,
    y: Any,
    parts: Sequence[Part],
    wrap: bool,
    scatter: Callable[..., Any],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Mode,
) -> Any:
    """An update, as a scatter."""
    aval = typeof(x)
    plan, vectors = plan_gather(parts, aval.shape, wrap)
    if 0 in plan.shape:
        return x
    x, y = promote_dtypes(x, y)
    y = _as_windows(y, vectors, plan, aval)
    if plan.new_dims:
        y = squeeze(y, plan.new_dims)
    if plan.reverse:
        y = rev(y, plan.reverse)
    if plan.scalar_masks:
        x = expand_dims(x, plan.scalar_masks)
    out = scatter(
        x,
        vectors,
        y,
        as_scatter(plan.numbers),
        indices_are_sorted=indices_are_sorted or not plan.advanced,
        unique_indices=unique_indices or not plan.advanced,
        mode=mode,
    )
    if plan.scalar_masks:
        out = squeeze(out, plan.scalar_masks)
    return cast(out, aval.dtype, aval.weak_type)


def _as_windows(y: Any, vectors: Any, plan: Plan, aval: Any) -> Any:
    """Updates broadcast to the shape of the index, and sharded as it and `x` are."""
    if not aval.mesh.explicit_axes:
        return broadcast_to(y, tuple(plan.shape))
    parts = list(aval.sharding.spec.partitions)
    for axis in plan.scalar_masks:
        parts.insert(axis, None)
    of_index = iter(typeof(vectors).sharding.spec.partitions)
    found: list[Any] = []
    for i, axis in enumerate(plan.sources):
        if axis is not None:
            found.append(parts[axis])
        else:
            found.append(None if i in plan.new_dims else next(of_index, None))
    spec = P(*found)
    ndim, shape = typeof(y).ndim, tuple(plan.shape)
    dims = range(len(shape) - ndim, len(shape))
    return broadcast_in_dim(
        y, shape, dims, out_sharding=aval.sharding.update(spec=spec)
    )


def _as_update(x: Any, y: Any) -> Any:
    """An update as a value; a Python int is of the operand's dtype where it fits."""
    dtype = typeof(x).dtype
    if isinstance(y, int) and dtypes.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        if info.min <= y <= info.max:
            return np.asarray(y, dtype)[()]
    return np.asarray(y) if isinstance(y, list | tuple) else y


def rows(x: Any, unstack: Callable[[Any], Sequence[Any]]) -> Iterator[Any]:
    """Iterates over the first dimension, a hundred rows at a time."""
    shape = typeof(x).shape
    if not shape:
        raise errors.iterate_scalar()
    if shape[0] <= 100:
        yield from unstack(x)
        return
    for lo in range(0, shape[0], 100):
        hi = min(lo + 100, shape[0])
        rest = [0] * (len(shape) - 1)
        yield from unstack(slice(x, [lo, *rest], [hi, *shape[1:]]))
