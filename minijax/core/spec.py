"""PartitionSpec: which mesh axes shard which dimension of an array.

A spec knows names only: neither the mesh nor the array. Checking it against a mesh is
the work of `NamedSharding` in `core/sharding.py`.
"""

import enum
from collections.abc import Iterator
from typing import Any, cast, final

from minijax.core.errors import sharding as errors
from minijax.core.interned import Interned

__all__ = [
    "UNCONSTRAINED",
    "P",
    "PartitionSpec",
    "Unconstrained",
    "UnreducedKind",
]

type Partition = Any
"""One entry of a spec: None, an axis name, a tuple of names, or UNCONSTRAINED."""


class UnreducedKind(enum.Enum):
    """The reduction that is still to be done over the unreduced axes."""

    sum = enum.auto()
    max = enum.auto()
    min = enum.auto()


@final
class Unconstrained:
    """The type of `UNCONSTRAINED`: the compiler chooses how to shard a dimension."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"  # pickled as a reference to the one below


UNCONSTRAINED = Unconstrained()


@final
class PartitionSpec(Interned):
    """How an array is laid out over named mesh axes.

    Entry `i` tells how dimension `i` is sharded: `None` (not), an axis name, a tuple
    of names (the first is major), or `P.UNCONSTRAINED` (as the compiler likes).
    Missing entries mean None. `unreduced` names axes over which every device holds a
    summand of the value (or another operand of `unreduced_kind`); `reduced` names
    axes over which the value is equal and its cotangent is unreduced.

    Equal specs are one object. `('x',)` is written `'x'`, and `()` None; no
    more is normalised, so `P('x')` and `P('x', None)` differ.

    Raises ValueError where one axis is used in two of the three roles.
    Source: upstream `jax/_src/partition_spec.py`.

    >>> P(("x",), None, ("x", "y"))
    P('x', None, ('x', 'y'))
    >>> P("x") is P(("x",))
    True
    >>> P("x", unreduced={"y"})
    P('x', unreduced={'y'}, unreduced_kind=sum)
    """

    __slots__ = ("partitions", "reduced", "unreduced", "unreduced_kind")
    partitions: tuple[Partition, ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]
    unreduced_kind: UnreducedKind | None

    UNCONSTRAINED = UNCONSTRAINED

    def __new__(
        cls,
        *partitions: Partition,
        unreduced: set[str] | frozenset[str] = frozenset(),
        reduced: set[str] | frozenset[str] = frozenset(),
        unreduced_kind: UnreducedKind | None = None,
    ) -> "PartitionSpec":
        """Normalise the arguments, then make or find the spec."""
        unreduced = _as_frozenset("unreduced", unreduced)
        if unreduced and unreduced_kind is None:
            unreduced_kind = UnreducedKind.sum
        return cls._intern(
            tuple(_normalize(p) for p in partitions),
            unreduced,
            _as_frozenset("reduced", reduced),
            unreduced_kind,
        )

    def _fill(self, *content: Any) -> None:
        partitions, unreduced, reduced, kind = content
        _check(partitions, unreduced, reduced, kind)
        self._set(
            partitions=partitions,
            unreduced=unreduced,
            reduced=reduced,
            unreduced_kind=kind,
        )

    def __repr__(self) -> str:
        parts = [repr(self.partitions)[1:-1]] if self.partitions else []
        if not self.unreduced and not self.reduced:
            return f"P({''.join(parts)})"
        parts = [p.removesuffix(",") for p in parts]
        for argument in ("unreduced", "reduced"):
            if axes := getattr(self, argument):
                parts.append(f"{argument}={errors.show_set(axes)}")
        if self.unreduced_kind is not None:
            parts.append(f"unreduced_kind={self.unreduced_kind.name}")
        return f"P({', '.join(parts)})"

    # --- as a sequence of its entries

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        if self.unreduced or self.reduced:
            raise errors.spec_with_axes_as_tuple("pspec[...]", "spec.partitions[...]")
        return self.partitions[index]

    def __iter__(self) -> Iterator[Partition]:
        if self.unreduced or self.reduced:
            raise errors.spec_with_axes_as_tuple("*pspec", "*spec.partitions")
        return iter(self.partitions)

    def index(self, value: Partition) -> int:
        """The first dimension sharded as `value`; ValueError if there is none."""
        return self.partitions.index(_normalize(value))

    def count(self, value: Partition) -> int:
        """How many dimensions are sharded as `value`."""
        return self.partitions.count(_normalize(value))

    def __add__(self, other: object) -> "PartitionSpec":
        if isinstance(other, PartitionSpec):
            if self.unreduced_kind is not other.unreduced_kind:
                raise errors.different_unreduced_kinds(self, other)
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
                unreduced_kind=self.unreduced_kind,
            )
        if not isinstance(other, tuple):
            return NotImplemented
        entries = cast(tuple[Any, ...], other)
        self._refuse_reduced(entries, "__add__")
        return PartitionSpec(*self.partitions, *entries)

    def __radd__(self, other: object) -> "PartitionSpec":
        if not isinstance(other, tuple):
            return NotImplemented
        entries = cast(tuple[Any, ...], other)
        self._refuse_reduced(entries, "__radd__")
        return PartitionSpec(*entries, *self.partitions)

    def _refuse_reduced(self, other: object, method: str) -> None:
        for argument in ("unreduced", "reduced"):
            if getattr(self, argument):
                raise errors.tuple_plus_reduced_spec(self, other, argument, method)

    # --- derived specs

    def update(
        self,
        partitions: Any = None,
        unreduced: set[str] | frozenset[str] | None = None,
        reduced: set[str] | frozenset[str] | None = None,
        unreduced_kind: UnreducedKind | None = None,
    ) -> "PartitionSpec":
        """This spec with some parts replaced. None keeps a part.

        The kind goes when nothing is left unreduced (upstream raises there).

        >>> P("x", unreduced={"y"}).update(unreduced=set(), reduced={"y"})
        P('x', reduced={'y'})
        """
        unreduced = self.unreduced if unreduced is None else unreduced
        kept_kind = self.unreduced_kind if unreduced else None
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=unreduced,
            reduced=self.reduced if reduced is None else reduced,
            unreduced_kind=unreduced_kind or kept_kind,
        )

    def padded(self, ndim: int) -> "PartitionSpec":
        """This spec with None appended up to rank `ndim` (a longer one is kept).

        >>> P("x").padded(3)
        P('x', None, None)
        """
        missing = ndim - len(self.partitions)
        if missing <= 0:
            return self
        # Straight to the table: padding is hot, and the parts are already normal.
        return PartitionSpec._intern(
            self.partitions + (None,) * missing,
            self.unreduced,
            self.reduced,
            self.unreduced_kind,
        )

    def for_aval(self, ndim: int) -> "PartitionSpec":
        """The spec as the type of a rank `ndim` value holds it.

        Padded, and with None for UNCONSTRAINED: a type says only what is known.

        >>> P(P.UNCONSTRAINED, "x").for_aval(3)
        P(None, 'x', None)
        """
        if UNCONSTRAINED not in self.partitions:
            return self.padded(ndim)
        known = [None if p is UNCONSTRAINED else p for p in self.partitions]
        return self.update(known).padded(ndim)

    def cotangent(self) -> "PartitionSpec":
        """The spec of this value's cotangent: unreduced and reduced change places.

        >>> P("x", reduced={"y"}).cotangent()
        P('x', unreduced={'y'}, unreduced_kind=sum)
        """
        return PartitionSpec(
            *self.partitions, unreduced=self.reduced, reduced=self.unreduced
        )

    # --- questions

    def axes_of(self, dim: int) -> tuple[str, ...]:
        """The names that shard dimension `dim`, major first; () where there are none.

        >>> spec = P("x", None, ("y", "z"))
        >>> spec.axes_of(0), spec.axes_of(1), spec.axes_of(2), spec.axes_of(3)
        (('x',), (), ('y', 'z'), ())
        """
        if dim >= len(self.partitions):
            return ()
        return _names(self.partitions[dim])

    @property
    def axes(self) -> tuple[str, ...]:
        """All names that shard some dimension, in the order written.

        >>> P("z", None, ("y", "x"), reduced={"w"}).axes
        ('z', 'y', 'x')
        """
        return tuple(name for p in self.partitions for name in _names(p))

    def check_rank(self, rank: int) -> None:
        """Raise ValueError if a value of this rank has fewer dimensions than entries.

        >>> P("x").check_rank(0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: PartitionSpec P('x',) is only valid for values of rank at least...
        """
        if rank < len(self.partitions):
            raise errors.rank_too_low("PartitionSpec", self, len(self), rank)


P = PartitionSpec


def _names(partition: Partition) -> tuple[str, ...]:
    if partition is None or partition is UNCONSTRAINED:
        return ()
    return cast(
        tuple[str, ...], partition if isinstance(partition, tuple) else (partition,)
    )


def _normalize(partition: Partition) -> Partition:
    """One spelling per meaning: `('x',)` and `['x']` are 'x', and `()` is None."""
    if not isinstance(partition, tuple | list):
        return partition
    names = cast(tuple[Any, ...] | list[Any], partition)
    for name in names:
        if isinstance(name, tuple | list):
            raise errors.nested_partition(names, cast(object, name))
    if len(names) == 0:
        return None
    return names[0] if len(names) == 1 else tuple(names)


def _as_frozenset(argument: str, axes: object) -> frozenset[str]:
    if not isinstance(axes, set | frozenset):
        raise errors.axes_not_a_set(argument, axes)
    return frozenset(cast(set[str], axes))


def _check(
    partitions: tuple[Partition, ...],
    unreduced: frozenset[str],
    reduced: frozenset[str],
    kind: object,
) -> None:
    """Each axis has one role, and the kind fits."""
    for argument, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if None in cast(frozenset[object], axes):
            raise errors.none_in_axes(argument)
    if unreduced & reduced:
        raise errors.unreduced_and_reduced(unreduced, reduced)
    if kind is not None and not isinstance(kind, UnreducedKind):
        raise errors.bad_unreduced_kind(kind)
    if kind is not None and not unreduced:
        raise errors.unreduced_kind_alone(kind)
    for partition in partitions:
        for name in _names(partition):
            if name in unreduced:
                raise errors.partitioned_and_reduced("unreduced", partitions, unreduced)
            if name in reduced:
                raise errors.partitioned_and_reduced("reduced", partitions, reduced)
