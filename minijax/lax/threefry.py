"""threefry2x32: the hash that random bits come from.

    threefry2x32(k1: u32[], k2: u32[], x1: u32[n], x2: u32[n]): u32[n], u32[n]

Each pair of words (x1, x2) is mixed with the key (k1, k2) in 20 rounds of additions,
rotations and exclusive ors, which nobody knows how to invert without the key.

It is a primitive, as upstream, for the sake of its lowering: a loop over five groups of
four rounds. Written out, 20 rounds make XLA on CPU compile for minutes, because it
fuses them into one kernel and repeats each round in both of its uses.

StableHLO: `while`, around integer operations. Source: Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3" (2011). Upstream:
`jax/_src/random/threefry2x32.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.avals import NO_MANUAL, ShapedArray
from minijax.core.mesh import get_abstract_mesh, use_abstract_mesh
from minijax.core.staging import stage
from minijax.lax.arithmetic import add
from minijax.lax.cases import Case
from minijax.lax.integers import (
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right_logical,
)
from minijax.lax.rules import cast_together, elementwise
from minijax.lax.shapes import broadcast_to
from minijax.lax.slicing import index_in_dim
from minijax.lowering import dialect

UINT32 = np.dtype(np.uint32)
#: By how many bits each round rotates: even groups of four rounds, and odd ones.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS = 5
_PARITY = np.uint32(0x1BD11BDA)


def threefry2x32(k1: Any, k2: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """The Threefry-2x32 hash of the pairs `(x1, x2)` under the key `(k1, k2)`.

    All are uint32 and broadcast to one shape, which both results have.
    """
    first, second = threefry2x32_p.bind(*cast_together(k1, k2, x1, x2))
    return first, second


_WORDS: tuple[type, ...] = (np.uint32,)
threefry2x32_p = elementwise("threefry2x32", *(_WORDS,) * 4)
_one_result, _batch_one = threefry2x32_p.abstract_eval, threefry2x32_p.batch
threefry2x32_p.abstract_eval = lambda *avals: _one_result(*avals) * 2
threefry2x32_p.def_nondifferentiable("bits are not smooth")


@threefry2x32_p.def_batch
def _batch(axis: Any, args: Any, dims: Any) -> Any:
    outs, (dim,) = _batch_one(axis, args, dims)
    return outs, [dim, dim]


# ------------------------------------------------------------------------- lowering


def _start(k1: Any, k2: Any, x1: Any, x2: Any) -> list[Any]:
    """The state before the loop: the words, and what the first group adds to them."""
    k3 = bitwise_xor(bitwise_xor(k1, k2), _PARITY)
    return [add(x1, k1), add(x2, k2), k2, k3, k1]


def _group(i: Any, x1: Any, x2: Any, ka: Any, kb: Any, kc: Any, now: Any, then: Any):
    """Four rounds; then the schedule moves on, and the rotations change places."""
    for j in range(4):
        x1 = add(x1, x2)
        distance = index_in_dim(now, j, 0, keepdims=False)
        x2 = bitwise_xor(x1, _rotate_left(x2, distance))
    i = add(i, np.uint32(1))
    return [i, add(x1, ka), add(add(x2, kb), i), kb, kc, ka, then, now]


def _rotate_left(x: Any, distance: Any) -> Any:
    back = add(bitwise_xor(distance, np.uint32(31)), np.uint32(1))  # 32 - distance
    return bitwise_or(shift_left(x, distance), shift_right_logical(x, back))


@threefry2x32_p.def_lowering
def _lowering(ctx: Any, *operands: Any) -> list[Any]:
    words = ctx.avals_out[0]

    def start(*xs: Any) -> list[Any]:
        return _start(*(broadcast_to(x, words.shape) for x in xs))

    state = ctx.lower_jaxpr(_staged(start, ctx.avals_in), operands)
    scalar, table = ShapedArray((), UINT32), ShapedArray((4,), UINT32)
    avals = [scalar, *[words] * 5, table, table]
    body = _staged(_group, avals)
    types = [dialect.ir_type(a) for a in avals]

    def more(i: Any, *_: Any) -> list[Any]:
        end = dialect.constant(_GROUPS, UINT32)
        return [dialect.compare("LT", i, end, scalar)]

    def step(*values: Any) -> list[Any]:
        return ctx.lower_jaxpr(body, values)

    rotations = [dialect.constant(np.array(r, UINT32)) for r in _ROTATIONS]
    outs = dialect.op(
        "stablehlo.while",
        [dialect.constant(0, UINT32), *state, *rotations],
        types,
        regions=[dialect.Region(types, more), dialect.Region(types, step)],
    )
    return outs[1:3]


def _staged(fun: Any, avals: Any) -> Any:
    """Its program; as in `rules.composed`, without what operands vary over."""
    meshes = (a.mesh for a in avals if not a.mesh.empty)
    with use_abstract_mesh(next(meshes, get_abstract_mesh())):
        return stage(fun, [a.update(manual=NO_MANUAL) for a in avals])[0]


CASES = [
    Case(threefry2x32_p, [(), (), (3, 2), (3, 2)], dtypes=np.uint32),
    Case(threefry2x32_p, [(), (), (), (5,)], dtypes=np.uint32),
]
