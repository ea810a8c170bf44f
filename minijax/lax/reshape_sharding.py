"""Which Explicit sharding a reshaped array has.

Only reshapes that split one dimension, or merge neighbours into one, keep a sharding;
dimensions of size 1 come and go. Anything else needs `out_sharding`, and says so.

Upstream: `jax/_src/lax/lax.py` (`_reshape_sharding_rule`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.errors import shapes as errors

Shape = tuple[int, ...]


def reshaped_partitions(
    operand: ShapedArray, sizes: Shape, dimensions: Shape | None
) -> list[Any]:
    """The partitions of the result. ShardingTypeError where none follows.

    >>> reshaped_partitions(ShapedArray((4, 3), "f4"), (2, 6), None)
    [None, None]
    """
    partitions = operand.sharding.spec.partitions
    if all(p is None for p in partitions):
        return [None] * len(sizes)
    old = [(n, p) for n, p in zip(operand.shape, partitions, strict=True) if n != 1]
    new = [n for n in sizes if n != 1]
    groups = _groups([n for n, _ in old], new)
    if groups is None:
        raise errors.reshape_sharding(operand, sizes)
    found = iter(old)
    out: list[Any] = []
    for before, after in groups:
        parts = [next(found)[1] for _ in range(before)]
        if before == after == 1 or not any(parts):
            out.extend([parts[0]] * after)
        elif dimensions is None:
            out.extend(_cut(operand, sizes, parts, new[len(out) : len(out) + after]))
        else:
            raise errors.reshape_sharding(operand, sizes)
    return _with_ones(operand, sizes, iter(out), len(old) != len(new))


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]] | None:
    """Runs of old dimensions that become runs of new ones; at most one changes."""
    if list(old) == list(new):
        return [(1, 1)] * len(old)
    if len(new) < len(old):
        merged = _groups(new, old)
        return None if merged is None else [(b, a) for a, b in merged]
    out: list[tuple[int, int]] = []
    rest: Iterator[int] = iter(new)
    for size in old:
        product, count = 1, 0
        while product < size:
            product *= next(rest, size + 1)
            count += 1
        if product != size:
            return None
        out.append((1, count))
    changed = sum(count != 1 for _, count in out)
    return out if changed == 1 and sum(c for _, c in out) == len(new) else None


def _cut(
    operand: ShapedArray, sizes: Shape, parts: list[Any], new: list[int]
) -> list[tuple[str, ...]]:
    """Deals mesh axes, major first, to the dimensions that one was split into."""
    names: list[Any] = []
    for part in parts:
        names.extend(part if isinstance(part, tuple) else (part,))
    while names[-1] is None:
        names.pop()
    if None in names:  # a whole dimension inside a sharded one: not one block
        raise errors.reshape_sharding(operand, sizes)
    mesh: Mapping[str, int] = operand.mesh.shape
    out: list[tuple[str, ...]] = []
    for size in new:
        mine: list[str] = []
        while names and size > 1:
            size, rest = divmod(size, mesh[names[0]])
            if rest:
                raise errors.reshape_sharding(operand, sizes)
            mine.append(names.pop(0))
        out.append(tuple(mine))
    if math.prod(mesh[n] for n in names) != 1:
        raise errors.reshape_sharding(operand, sizes)
    return out


def _with_ones(
    operand: ShapedArray, sizes: Shape, found: Iterator[Any], keep: bool
) -> list[Any]:
    """Puts in the dimensions of size 1; some keep what their place had before."""
    old = operand.sharding.spec.partitions
    out: list[Any] = []
    for i, size in enumerate(sizes):
        if size != 1:
            out.append(next(found))
        elif keep and i < len(old) and operand.shape[i] == 1:
            out.append(old[i])
        else:
            out.append(None)
    return out
