"""What gather and scatter share: which dimension means what, and how far one may reach.

A gather takes windows out of an operand, one for each index vector; a scatter puts
windows into it, and is the same thing read backwards:

    operand f32[4,3], indices i32[2,1] = [[3], [0]]:  windows f32[2,3]: rows 3 and 0

| dimensions of      | gather                        | scatter                         |
| ------------------ | ----------------------------- | ------------------------------- |
| windows, inner     | `offset_dims`                 | `update_window_dims`            |
| operand, left out  | `collapsed_slice_dims`        | `inserted_window_dims`          |
| operand, indexed   | `start_index_map`             | `scatter_dims_to_operand_dims`  |
| operand, batch     | `operand_batching_dims`       | `operand_batching_dims`         |
| indices, batch     | `start_indices_batching_dims` | `scatter_indices_batching_dims` |

The last dimension of the indices holds the index vectors. Source: StableHLO
specification, `gather` and `scatter`; upstream `jax/_src/lax/slicing.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import indexing as errors
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Var
from minijax.core.primitive import Primitive

Dims = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """Which dimension means what to a gather; see the table in this file."""

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which dimension means what to a scatter; see the table in this file."""

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()


class GatherScatterMode(enum.Enum):
    """What an index out of bounds does.

    * `CLIP`: the window is moved until it is inside;
    * `FILL_OR_DROP`: a gathered window is filled with a constant, a scattered one is
      dropped;
    * `PROMISE_IN_BOUNDS`: there is none, says the user.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name: `clip`, `fill`, `drop` or `promise_in_bounds`.

        >>> GatherScatterMode.from_any("fill")
        <GatherScatterMode.FILL_OR_DROP: 2>
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode not in _MODES:
            raise errors.unknown_mode(mode)
        return _MODES[mode]


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


def as_scatter(numbers: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """Those of the scatter that puts back what a gather takes: the same, renamed."""
    return ScatterDimensionNumbers(*numbers)


def as_gather(numbers: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """Those of the gather that takes what a scatter puts in: the same, renamed."""
    return GatherDimensionNumbers(*numbers)


def window_sizes(
    numbers: ScatterDimensionNumbers, rank: int, updates: Dims
) -> tuple[int, ...]:
    """The sizes of a scatter's windows along each dimension of the operand.

    >>> window_sizes(ScatterDimensionNumbers((1,), (0,), (0,)), 2, (5, 3))
    (1, 3)
    """
    alone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter(numbers.update_window_dims)
    return tuple(1 if i in alone else updates[next(sizes)] for i in range(rank))


def shifted(dims: Sequence[int]) -> Dims:
    """Dimension numbers after a new dimension in front."""
    return tuple(d + 1 for d in dims)


@lru_cache(maxsize=512)
def combiner(primitive: Primitive, dtype: Any) -> Jaxpr:
    """The program by which a scatter combines an element with an update."""
    x, y, out = (Var(ShapedArray((), dtype)) for _ in range(3))
    return Jaxpr([], [x, y], [out], [JaxprEqn(primitive, [x, y], [out], {})])


# ------------------------------------------------------------------------- checks


def check_integers(indices: ShapedArray) -> None:
    """Refuses indices that are no integers."""
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise errors.indices_dtype()


class Check:
    """The checks of dimension numbers, for messages about one operation."""

    def __init__(self, op: str):
        self.op = op

    def sorted(self, name: str, dims: Dims) -> None:
        if list(dims) != sorted(dims):
            raise errors.dims_not_sorted(self.op, name, dims)

    def unique(self, name: str, dims: Dims) -> None:
        if len(set(dims)) != len(dims):
            raise errors.dims_repeated(self.op, name, dims)

    def in_range(self, name: str, dims: Dims, rank: int) -> None:
        for d in dims:
            if not 0 <= d < rank:
                raise errors.dims_range(self.op, name, rank, d)

    def proper(self, name: str, dims: Dims, rank: int) -> None:
        self.sorted(name, dims)
        self.unique(name, dims)
        self.in_range(name, dims, rank)

    def disjoint(self, name: str, dims: Dims, other: str, others: Dims) -> None:
        if not set(dims).isdisjoint(others):
            raise errors.dims_overlap(self.op, name, other, dims, others)

    def batch(
        self,
        operand: ShapedArray,
        indices: ShapedArray,
        ours: Dims,
        name: str,
        theirs: Dims,
    ) -> None:
        """The dimensions that operand and indices have in common."""
        title = self.op.capitalize()
        self.unique(name, theirs)
        self.in_range(name, theirs, indices.ndim)
        if indices.ndim - 1 in theirs:
            raise errors.index_vector_batched(title, theirs)
        if len(ours) != len(theirs):
            raise errors.batching_counts(title, name, ours, theirs)
        mine = tuple(operand.shape[i] for i in ours)
        other = tuple(indices.shape[i] for i in theirs)
        if mine != other:
            raise errors.batching_sizes(title, "indices", mine, other)


def windows_shape(
    numbers: GatherDimensionNumbers, indices: Dims, slice_sizes: Dims
) -> tuple[int, ...]:
    """The shape of the windows together, the result of a gather."""
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    inner: Iterator[int] = iter([s for i, s in enumerate(slice_sizes) if i not in gone])
    outer = iter(indices[:-1])
    rank = len(numbers.offset_dims) + len(indices) - 1
    return tuple(
        next(inner) if i in numbers.offset_dims else next(outer) for i in range(rank)
    )
