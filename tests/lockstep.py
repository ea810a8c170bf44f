"""Collectives on stacked numpy arrays, straight from their definitions.

This is the second oracle of the tests: it shares no code with minijax and needs no
devices. A program is a function of a `Device`-free `World`: every value is an array
whose leading dimensions are the named axes, in the order of `World.sizes`, and whose
other dimensions are what one device sees.

    world = World({"x": 2, "y": 4})
    y = world.all_to_all(x, ("x", "y"), 0, 1, tiled=True)     # x: [2, 4, ...]

Each collective looks up, for every device, the values of all members of its group in
the order of the group, and computes what this device gets from those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Groups = Sequence[Sequence[int]] | None


class World:
    """The devices of a mesh: names and sizes of the leading dimensions of values."""

    def __init__(self, sizes: dict[str, int]):
        self.sizes = sizes
        self.names = tuple(sizes)

    def flat_index(self, device: tuple[int, ...], names: Sequence[str]) -> int:
        """Row-major in the order of `names`."""
        index = 0
        for name in names:
            index = index * self.sizes[name] + device[self.names.index(name)]
        return index

    def members(
        self, device: tuple[int, ...], names: Sequence[str], groups: Groups
    ) -> list[tuple[int, ...]]:
        """The devices of this device's group, in the order of the group."""
        along = []
        for indices in itertools.product(*(range(self.sizes[n]) for n in names)):
            other = list(device)
            for name, index in zip(names, indices, strict=True):
                other[self.names.index(name)] = index
            along.append(tuple(other))
        if groups is None:
            return along
        mine = self.flat_index(device, names)
        group = next(g for g in groups if mine in g)
        return [along[i] for i in group]

    def each(
        self,
        x: np.ndarray,
        axis_name: str | Sequence[str],
        groups: Groups,
        result: Callable[[list[np.ndarray], int], Any],
    ) -> np.ndarray:
        """`result(values of the group, own position in it)` for every device."""
        names = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
        outs = {}
        for device in itertools.product(*(range(n) for n in self.sizes.values())):
            members = self.members(device, names, groups)
            outs[device] = result([x[m] for m in members], members.index(device))
        shape = np.shape(next(iter(outs.values())))
        stacked = np.stack([np.asarray(outs[d]) for d in sorted(outs)])
        return stacked.reshape(*self.sizes.values(), *shape)

    # Each has the arguments of the function of `minijax.lax` that has its name.

    def psum(
        self, x: Any, names: Any, *, axis_index_groups: Groups = None
    ) -> np.ndarray:
        def total(xs: list[np.ndarray], _: int) -> Any:
            counted = xs[0].dtype == np.bool_ and len(names) > 0
            return np.sum(xs, 0, np.int32 if counted else xs[0].dtype)

        return self.each(x, names, axis_index_groups, total)

    def pmean(
        self, x: Any, names: Any, *, axis_index_groups: Groups = None
    ) -> np.ndarray:
        def mean(xs: list[np.ndarray], _: int) -> Any:
            exact = xs[0].dtype.kind in "biu"
            dtype = np.float32 if exact else xs[0].dtype
            return (np.sum(xs, 0, dtype) / np.asarray(len(xs), dtype)).astype(dtype)

        return self.each(x, names, axis_index_groups, mean)

    def pmax(
        self, x: Any, names: Any, *, axis_index_groups: Groups = None
    ) -> np.ndarray:
        return self.each(x, names, axis_index_groups, lambda xs, _: np.max(xs, 0))

    def pmin(
        self, x: Any, names: Any, *, axis_index_groups: Groups = None
    ) -> np.ndarray:
        return self.each(x, names, axis_index_groups, lambda xs, _: np.min(xs, 0))

    def all_gather(
        self,
        x: Any,
        names: Any,
        *,
        axis: int = 0,
        tiled: bool = False,
        axis_index_groups: Groups = None,
    ) -> np.ndarray:
        join = np.concatenate if tiled else np.stack
        return self.each(x, names, axis_index_groups, lambda xs, _: join(xs, axis))

    def psum_scatter(
        self,
        x: Any,
        names: Any,
        *,
        scatter_dimension: int = 0,
        tiled: bool = False,
        axis_index_groups: Groups = None,
    ) -> np.ndarray:
        def part(xs: list[np.ndarray], i: int) -> np.ndarray:
            total = np.sum(xs, 0, xs[0].dtype)
            if tiled:
                return np.split(total, len(xs), scatter_dimension)[i]
            return np.take(total, i, scatter_dimension)

        return self.each(x, names, axis_index_groups, part)

    def all_to_all(
        self,
        x: Any,
        names: Any,
        split_axis: int,
        concat_axis: int,
        *,
        tiled: bool = False,
        axis_index_groups: Groups = None,
    ) -> np.ndarray:
        def received(xs: list[np.ndarray], i: int) -> np.ndarray:
            if tiled:
                parts = [np.split(v, len(xs), split_axis)[i] for v in xs]
                return np.concatenate(parts, concat_axis)
            return np.stack([np.take(v, i, split_axis) for v in xs], concat_axis)

        return self.each(x, names, axis_index_groups, received)

    def pswapaxes(self, x: Any, names: Any, axis: int, **options: Any) -> np.ndarray:
        return self.all_to_all(x, names, axis, axis, **options)

    def ppermute(self, x: Any, names: Any, perm: Any) -> np.ndarray:
        def received(xs: list[np.ndarray], i: int) -> np.ndarray:
            sources = [source for source, target in perm if target == i]
            return xs[sources[0]] if sources else np.zeros_like(xs[0])

        return self.each(x, names, None, received)

    def pshuffle(self, x: Any, names: Any, perm: Sequence[int]) -> np.ndarray:
        return self.each(x, names, None, lambda xs, i: xs[perm[i]])

    def pbroadcast(self, x: Any, names: Any, source: int) -> np.ndarray:
        return self.each(x, names, None, lambda xs, _: xs[source])

    def pargmax(self, x: Any, name: str) -> np.ndarray:
        def first(xs: list[np.ndarray], _: int) -> np.ndarray:
            return np.argmax(xs, 0).astype(np.int32)

        return self.each(x, name, None, first)

    def pargmin(self, x: Any, name: str) -> np.ndarray:
        def first(xs: list[np.ndarray], _: int) -> np.ndarray:
            return np.argmin(xs, 0).astype(np.int32)

        return self.each(x, name, None, first)

    def ragged_all_to_all(
        self,
        operand: Any,
        output: Any,
        *where: Any,
        axis_name: Sequence[str],
        axis_index_groups: Groups = None,
    ) -> np.ndarray:
        """One part after the other; `where` is offsets and sizes, as in the call."""
        read_from, _, written_at, sizes = where
        out = np.array(output)
        for device in itertools.product(*(range(n) for n in self.sizes.values())):
            members = self.members(device, axis_name, axis_index_groups)
            each = sizes.shape[-1] // len(members)
            for s, sender in enumerate(members):
                for k in range(each):
                    sent, size = members.index(device) * each + k, s * each + k
                    n, start = sizes[device][size], read_from[sender][sent]
                    at = written_at[sender][sent]
                    out[device][at : at + n] = operand[sender][start : start + n]
        return out

    def axis_index(self, names: Any) -> np.ndarray:
        blank = np.zeros(tuple(self.sizes.values()))
        return self.each(blank, names, None, lambda _, i: np.int32(i))
