"""The collectives: for each the program, its bytes, and what must come out.

Sizes follow nccl-tests. `S`, the size column, is per device: the bytes that a device
gives (psum, psum_scatter, all_to_all, ragged_all_to_all, ppermute) or gets (all_gather,
top_level_all_gather). `algbw = S / t` and `busbw = algbw * factor`.

A *place* is a device's number in the order `Setting.order`: the mesh axes that the
collective leaves alone, then those it goes over. What must come out is computed here
by NumPy on the stacked parts of one family of places, with none of minijax's code.
`trial.py` puts a collective to work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import minijax
from minijax import lax
from minijax import numpy as jnp
from minijax.sharding import Mesh
from minijax.sharding import PartitionSpec as P

type Parts = np.ndarray[Any, Any]  # [places, *shape of one part]


@dataclass(frozen=True)
class Setting:
    """What the rows of one sweep have in common, apart from the collective."""

    mesh: Mesh
    axes: tuple[str, ...]
    dtype: np.dtype[Any]
    reduce: str = "sum"
    groups: tuple[tuple[int, ...], ...] | None = None
    layout: str = "flat"
    split: int = 0
    concat: int = 0

    @property
    def mesh_text(self) -> str:
        """The mesh as `--mesh` takes it."""
        return ",".join(f"{name}={n}" for name, n in self.mesh.shape.items())

    @property
    def order(self) -> tuple[str, ...]:
        """The mesh axes: those left alone, then those the collective goes over."""
        return (*(a for a in self.mesh.axis_names if a not in self.axes), *self.axes)

    @property
    def span(self) -> int:
        """The number of devices along the axes."""
        return int(np.prod([self.mesh.shape[a] for a in self.axes]))

    @property
    def ranks(self) -> int:
        """The number of devices that exchange with each other: `n` in the formulas."""
        return len(self.groups[0]) if self.groups else self.span

    @property
    def axis(self) -> Any:
        """The axes as minijax takes them."""
        return self.axes[0] if len(self.axes) == 1 else self.axes

    @property
    def devices(self) -> list[Any]:
        """The devices by place."""
        names = self.mesh.axis_names
        by_order = [names.index(a) for a in self.order]
        return list(self.mesh.devices.transpose(by_order).flat)

    def families(self) -> list[list[int]]:
        """The places that exchange with each other, in rank order."""
        starts = range(0, self.mesh.size, self.span)
        groups = self.groups or (tuple(range(self.span)),)
        return [[s + i for i in group] for s in starts for group in groups]


@dataclass(frozen=True)
class Operation:
    """One collective.

    Attributes:
      apply: the collective on a part, inside `shard_map`.
      expect: by NumPy: the parts of one family in, its results out.
      again: turns a result into the next part of a chain; None where there is none.
      hlo: the name of the HLO operation, then those that may stand in for it.
      factor: busbw / algbw for n ranks; `formula` is the same for people.
      gathers: whether S is what a device gets, not what it gives.
    """

    name: str
    apply: Callable[[Any, Setting], Any]
    expect: Callable[[Parts, Setting], Sequence[Any]]
    again: Callable[[Any, Any, Setting], Any] | None
    hlo: tuple[str, ...]
    factor: Callable[[int], float]
    formula: str
    divides: bool = True  # a part is cut in n
    gathers: bool = False
    reduces: bool = False
    groups: bool = True
    shaped: bool = True  # other layouts than flat

    def align(self, setting: Setting) -> int:
        """S is a multiple of so many elements."""
        n = setting.ranks
        if setting.layout == "flat":
            return n if self.divides else 1
        return n * n

    def part_shape(self, setting: Setting, count: int) -> tuple[int, ...]:
        """The shape of a part, for S of `count` elements."""
        n = setting.ranks
        have = count // n if self.gathers else count
        if setting.layout == "flat" or (setting.layout == "stacked" and self.gathers):
            return (have,)
        if setting.layout == "stacked" and setting.split == 1:
            return (have // n, n)
        return (n, have // n)


# ------------------------------------------------------------------- the programs


def _reduce(x: Any, s: Setting) -> Any:
    verb = {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}[s.reduce]
    return verb(x, s.axis, axis_index_groups=s.groups)


def _all_gather(x: Any, s: Setting) -> Any:
    tiled = s.layout != "stacked"
    return lax.all_gather(
        x, s.axis, axis=s.concat, tiled=tiled, axis_index_groups=s.groups
    )


def _psum_scatter(x: Any, s: Setting) -> Any:
    tiled = s.layout != "stacked"
    return lax.psum_scatter(
        x, s.axis, scatter_dimension=s.split, tiled=tiled, axis_index_groups=s.groups
    )


def _all_to_all(x: Any, s: Setting) -> Any:
    tiled = s.layout != "stacked"
    return lax.all_to_all(
        x, s.axis, s.split, s.concat, tiled=tiled, axis_index_groups=s.groups
    )


def _ppermute(x: Any, s: Setting) -> Any:
    n = s.ranks
    return lax.ppermute(x, s.axis, [(i, (i + 1) % n) for i in range(n)])


def sends(n: int, count: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Elements that rank i sends to rank j: half and one and a half times the mean.

    >>> sends(4, 16)
    array([[2, 6, 2, 6],
           [6, 2, 6, 2],
           [2, 6, 2, 6],
           [6, 2, 6, 2]], dtype=int32)
    """
    mean = count // n
    skew = mean // 2 if n % 2 == 0 else 0
    odd = np.add.outer(np.arange(n), np.arange(n)) % 2
    return (mean + skew * (2 * odd - 1)).astype(np.int32)


def _ragged(x: Any, s: Setting) -> Any:
    table = sends(s.ranks, x.shape[0])
    before = np.cumsum(table, axis=1, dtype=np.int32) - table
    lands = np.cumsum(table, axis=0, dtype=np.int32) - table
    rank = lax.axis_index(s.axis)
    own = [jnp.asarray(t)[rank] for t in (before, table, lands, table.T.copy())]
    return lax.ragged_all_to_all(x, jnp.zeros_like(x), *own, axis_name=s.axis)


def _top_level(x: Any, s: Setting) -> Any:
    return minijax.top_level_all_gather(x, P(s.order[: -len(s.axes)] or None,
                                             reduced=set(s.axes)))  # fmt: skip


# ------------------------------------------------------ what must come out, by NumPy


def _reduced(parts: Parts, s: Setting) -> list[Any]:
    wide = parts.astype(np.complex128 if parts.dtype.kind == "c" else np.float64)
    total = {"sum": np.sum, "max": np.max, "min": np.min}[s.reduce](wide, axis=0)
    return [total.astype(parts.dtype)] * len(parts)


def _gathered(parts: Parts, s: Setting) -> list[Any]:
    join = np.stack if s.layout == "stacked" else np.concatenate
    return [join(list(parts), axis=s.concat)] * len(parts)


def _cut(x: Any, n: int, s: Setting) -> list[Any]:
    if s.layout == "stacked":
        return [np.take(x, i, axis=s.split) for i in range(n)]
    return np.split(x, n, axis=s.split)


def _scattered(parts: Parts, s: Setting) -> list[Any]:
    return _cut(_reduced(parts, s)[0], len(parts), s)


def _exchanged(parts: Parts, s: Setting) -> list[Any]:
    cut = [_cut(part, len(parts), s) for part in parts]
    join = np.stack if s.layout == "stacked" else np.concatenate
    return [join([c[j] for c in cut], axis=s.concat) for j in range(len(parts))]


def _shifted(parts: Parts, s: Setting) -> list[Any]:
    return list(np.roll(parts, 1, axis=0))


def _regrouped(parts: Parts, s: Setting) -> list[Any]:
    table = sends(len(parts), parts.shape[1])
    cut = [
        np.split(p, np.cumsum(row)[:-1]) for p, row in zip(parts, table, strict=True)
    ]
    return [np.concatenate([c[j] for c in cut]) for j in range(len(parts))]


# ----------------------------------------------- from a result to the next of a chain


def _add_own(y: Any, x: Any, s: Setting) -> Any:
    """Adds each device's number: XLA turns the sum of equal values into a product."""
    return y + lax.axis_index(s.order).astype(y.dtype)


def _neighbours(y: Any, x: Any, s: Setting) -> Any:
    """The neighbour's slice: XLA cancels a gather whose own slice alone is read."""
    at = (lax.axis_index(s.axis) + 1) % s.ranks
    return lax.dynamic_slice(y.reshape(-1), (at * x.size,), (x.size,)).reshape(x.shape)


def _repeated(y: Any, x: Any, s: Setting) -> Any:
    return jnp.concatenate([y.reshape(-1)] * s.ranks).reshape(x.shape)


def _reshaped(y: Any, x: Any, s: Setting) -> Any:
    return y.reshape(x.shape)


def _share(n: int) -> float:
    return (n - 1) / n


def _ragged_share(n: int) -> float:
    return (n - 0.5) / n if n % 2 == 0 else (n - 1) / n


OPERATIONS = {
    op.name: op
    for op in (
        Operation(
            "psum", _reduce, _reduced, _add_own, ("all-reduce",),
            lambda n: 2 * (n - 1) / n, "2(n-1)/n", divides=False, reduces=True,
        ),
        Operation(
            "all_gather", _all_gather, _gathered, _neighbours, ("all-gather",),
            _share, "(n-1)/n", gathers=True,
        ),
        Operation(
            "psum_scatter", _psum_scatter, _scattered, _repeated,
            ("reduce-scatter",), _share, "(n-1)/n", reduces=True,
        ),
        Operation(
            "all_to_all", _all_to_all, _exchanged, _reshaped, ("all-to-all",),
            _share, "(n-1)/n",
        ),
        Operation(
            "ragged_all_to_all", _ragged, _regrouped, _reshaped,
            ("ragged-all-to-all", "all-to-all", "all-gather"), _ragged_share,
            "(n-1/2)/n, odd n (n-1)/n", groups=False, shaped=False,
        ),
        Operation(
            "ppermute", _ppermute, _shifted, _reshaped, ("collective-permute",),
            lambda n: 1.0, "1", divides=False, groups=False,
        ),
        Operation(
            "top_level_all_gather", _top_level, _gathered, None, ("all-gather",),
            _share, "(n-1)/n", gathers=True, groups=False, shaped=False,
        ),
    )
}  # fmt: skip
