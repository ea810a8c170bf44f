"""Which donated arguments' memory the compiler is told to reuse, and how.

Two ways exist. An argument *aliases* a result of the same shard shape and dtype: the
compiler must put that result there. An argument is a *donor* where only the number of
elements fits, or where the compiler has yet to choose the results' shardings: it may.

Upstream: `jax/_src/interpreters/mlir.py` (`_set_up_aliases`).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from minijax.core.avals import ShapedArray
from minijax.core.mesh import UNCONSTRAINED, NamedSharding, Sharding

__all__ = ["Donation", "is_open", "plan_donation"]


class Donation(NamedTuple):
    """The plan: indices of arguments.

    aliases: to the index of the result that takes its place. unused: as printed.
    """

    aliases: dict[int, int]
    donors: frozenset[int]
    unused: list[str]


def plan_donation(
    in_avals: Sequence[Any],
    out_avals: Sequence[Any],
    donated: Sequence[bool],
    in_shardings: Sequence[Sharding | None],
    out_shardings: Sequence[Sharding | None],
    partitioned: bool,
) -> Donation:
    """Pairs donated arguments with results, each result once, first come first served.

    `partitioned` says whether the program runs on several devices, and so whether the
    compiler decides about shardings that are not given.

    >>> x, y = ShapedArray((4,), "float32"), ShapedArray((2, 2), "float32")
    >>> plan_donation([x, x], [x, y], [True, True], [None] * 2, [None] * 2, False)
    Donation(aliases={0: 0}, donors=frozenset({1}), unused=[])
    """
    ins = [_shard(a, s) for a, s in zip(in_avals, in_shardings, strict=True)]
    outs = [_shard(a, s) for a, s in zip(out_avals, out_shardings, strict=True)]
    undecided = [partitioned and is_open(s) for s in out_shardings]
    aliases, donors, left = _same_type(ins, outs, donated, undecided)

    # What is left may take the place of a result with as many elements.
    taken = set(aliases.values())
    free = [s for o, s in enumerate(outs) if s is not None and o not in taken]
    sizes = Counter(s.size for s in free)
    unused: list[str] = []
    for i, shard in sorted(left, key=lambda pair: pair[0]):
        if sizes[shard.size] > 0:
            sizes[shard.size] -= 1
            donors.add(i)
        elif any(undecided):
            donors.add(i)
        else:
            unused.append(str(shard))
    return Donation(aliases, frozenset(donors), unused)


def _same_type(
    ins: Sequence[ShapedArray | None],
    outs: Sequence[ShapedArray | None],
    donated: Sequence[bool],
    undecided: Sequence[bool],
) -> tuple[dict[int, int], set[int], list[tuple[int, ShapedArray]]]:
    """Aliases, donors, and the arguments to which no result of their type is left."""
    offered = defaultdict[ShapedArray, deque[int]](deque)
    for i, (shard, is_donated) in enumerate(zip(ins, donated, strict=True)):
        if shard is not None and is_donated:
            offered[shard].append(i)
    aliases: dict[int, int] = {}
    donors: set[int] = set()
    for o, shard in enumerate(outs):
        if shard is not None and offered[shard]:
            i = offered[shard].popleft()
            if undecided[o]:
                donors.add(i)
            else:
                aliases[i] = o
    left = [(i, shard) for shard, queue in offered.items() for i in queue]
    return aliases, donors, left


def is_open(sharding: Sharding | None) -> bool:
    """Whether the compiler chooses this sharding, wholly or in part."""
    return sharding is None or (
        isinstance(sharding, NamedSharding)
        and UNCONSTRAINED in sharding.spec.partitions
    )


def _shard(aval: Any, sharding: Sharding | None) -> ShapedArray | None:
    """What one device holds; None for tokens."""
    if not isinstance(aval, ShapedArray):
        return None
    shape = aval.shape if sharding is None else sharding.shard_shape(aval.shape)
    return ShapedArray(shape, aval.dtype)
