"""ppermute: every device sends its value to at most one device.

    device   0    1    2    3          0    1    2    3
             a    b    c    d    ->    d    a    b    0      [(0,1), (1,2), (3,0)]

Who receives nothing has zeros. Type: `f32[2]{V:i} -> f32[2]{V:i}`. The transpose sends
everything back.

StableHLO: `collective_permute`.
Upstream: `jax/_src/lax/parallel.py` (`ppermute`, `pshuffle`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.mesh import replica_groups
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.lax.collectives.axes import (
    as_names,
    cast_to_varying,
    check_bound,
    check_evaluated,
    check_varying,
    check_whole,
    names_size,
    params_names,
)
from minijax.lax.collectives.common import (
    batch_collective,
    rows_in_front,
    rows_of,
)
from minijax.lax.joining import concatenate
from minijax.lax.shapes import moveaxis, zeros_like
from minijax.lowering import dialect
from minijax.lowering.sharding import channel_handle

Perm = tuple[tuple[int, int], ...]


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends every leaf of `x` along named axes.

    Args:
      x: a pytree of arrays.
      axis_name: a name or a tuple of names in the order of the mesh.
      perm: pairs `(source, destination)` of indices; no source and no destination may
        occur twice.

    Raises:
      TypeError: `perm` is not a list or tuple.
      ValueError: an index twice, or out of range.
      RuntimeError: names in another order than the mesh axes.

    >>> import minijax
    >>> f = lambda x: ppermute(x, "i", [(0, 1), (1, 2)])
    >>> minijax.vmap(f, axis_name="i")(np.array([7, 8, 9]))
    Array([0, 7, 8], dtype=int32)
    """
    names = as_names(axis_name)
    if not isinstance(perm, list | tuple):
        raise errors.perm_type(type(perm))
    pairs = _as_pairs(perm)

    check_evaluated(names, "ppermute")

    def send(leaf: Any) -> Any:
        if not names:
            _check(pairs, 1)
            return leaf if pairs else zeros_like(leaf)
        leaf = cast_to_varying(leaf, names)
        return ppermute_p.bind1(leaf, axis_name=names, perm=pairs)

    return tree_map(send, x)


def _as_pairs(perm: Sequence[Any]) -> Perm:
    pairs: list[tuple[int, int]] = []
    for pair in map(tuple, perm):
        if len(pair) != 2:
            raise errors.perm_pairs(perm)
        pairs.append((operator.index(pair[0]), operator.index(pair[1])))
    return tuple(pairs)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Device `i` gets the value of device `perm[i]`.

    >>> import minijax
    >>> f = lambda x: pshuffle(x, "i", [2, 0, 1])
    >>> minijax.vmap(f, axis_name="i")(np.array([7, 8, 9]))
    Array([9, 7, 8], dtype=int32)
    """
    if set(perm) != set(range(len(perm))):
        raise errors.not_a_permutation(perm)
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


ppermute_p = Primitive("ppermute")
ppermute_p.axis_names = params_names


@ppermute_p.def_abstract_eval
def _type(
    aval: ShapedArray, *, axis_name: tuple[str, ...], perm: Perm
) -> list[ShapedArray]:
    check_bound(axis_name, "ppermute")
    check_varying(aval, axis_name, "ppermute")
    check_whole(aval, axis_name, "ppermute")
    _check(perm, names_size(axis_name))
    return [aval]


def _check(perm: Perm, size: int) -> None:
    """Refuses indices that occur twice or are out of range."""
    for ends in zip(*perm, strict=True):
        if len({i % size for i in ends}) < len(ends):
            raise errors.perm_not_unique(perm)
        if not all(-size <= i < size for i in ends):
            raise errors.perm_out_of_range(perm, size)


@ppermute_p.def_lowering
def _lowering(ctx: Any, x: Any, *, axis_name: tuple[str, ...], perm: Perm) -> list[Any]:
    groups = replica_groups(ctx.mesh, axis_name)
    if any(list(g) != sorted(g) for g in groups):
        raise errors.perm_order()
    pairs = [(g[source], g[target]) for g in groups for source, target in perm]
    attributes = {
        "source_target_pairs": dialect.dense_i64(np.reshape(pairs, (-1, 2))),
        "channel_handle": channel_handle(),
    }
    return dialect.op("stablehlo.collective_permute", [x], [x.type], attributes)


def _transpose(ct: Any, _: Any, *, axis_name: tuple[str, ...], perm: Perm) -> Any:
    back = tuple((target, source) for source, target in perm)
    return ppermute_p.bind1(ct, axis_name=axis_name, perm=back)


ppermute_p.def_linear(_transpose)


def _own(x: Any, d: int | None, size: int, params: Any) -> tuple[Any, int]:
    """Over the mapped name: the rows in another order."""
    x, d = rows_in_front(x, d, size), 0 if d is None else d
    sources = {target % size: source % size for source, target in params["perm"]}
    rows = rows_of(x)
    taken = [
        rows[sources[i]] if i in sources else zeros_like(rows[i]) for i in range(size)
    ]
    return moveaxis(concatenate(taken, 0), 0, d), d


ppermute_p.batch = batch_collective(ppermute_p, _own, lambda params, d: (params, d))
