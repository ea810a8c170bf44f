"""all_to_all of large operands on CPU devices: a loop over chunks, in place.

XLA:CPU has no operation that exchanges parts of an array. It copies every part out,
exchanges the copies, and joins what arrives: three copies of the operand in memory
that is fresh at each call. From some size on, most of the time goes into page faults.

So large operands are cut into chunks along a dimension that is neither sent nor
joined, and a loop exchanges one after the other. What XLA:CPU needs besides is then a
few chunks. Seen with its parts as a dimension of their own,

    f32[a,n*k,m], split_axis=1, concat_axis=1:   f32[a,n,k*m] -> f32[a,n,k*m]

operand and result have one shape, and a chunk of the one fills the same chunk of the
other: the loop works in place. XLA copies the operand first, unless it is donated.
Where `split_axis` and `concat_axis` differ, so do the shapes, and the op stays.

The elements are only moved, so the result is bit-identical. Only the program that is
compiled holds the loop; the one that `jit(f).lower(x)` shows holds the StableHLO op.
The measurements behind the sizes below, and what else was tried, are in
`docs/all_to_all_on_cpu.md`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.lowering import dialect

#: `canonical` in this variable keeps the StableHLO op at every size.
SWITCH = "MINIJAX_CPU_ALL_TO_ALL"

#: Bytes per device from which the loop is used. Below, it is as fast or slower.
THRESHOLD = 16 << 20

#: Bytes per device of one chunk, at most. A quarter of it was slower, since each chunk
#: costs a barrier; four times as much was no faster once the operand is donated.
CHUNK = 256 << 10

_CANONICAL = os.environ.get(SWITCH, "auto") == "canonical"
_INDEX = np.dtype(np.int32)


class Plan(NamedTuple):
    """How one exchange is cut.

    Attributes:
      view: the operand's shape as (what is in front, parts, the rest).
      dim: the dimension of `view` that is cut, 0 or 2.
      length: of one chunk along it, which divides it.
    """

    view: tuple[int, int, int]
    dim: int
    length: int


def plan(aval: ShapedArray, split: int, concat: int, size: int) -> Plan | None:
    """How to cut an operand, or None where the StableHLO op is the better way.

    >>> plan(ShapedArray((8, 1 << 20), np.float32), 0, 0, 8)
    Plan(view=(1, 8, 1048576), dim=2, length=8192)
    >>> plan(ShapedArray((8, 1 << 10), np.float32), 0, 0, 8)
    """
    total = aval.dtype.itemsize * math.prod(aval.shape)
    if _CANONICAL or split != concat or not total or total < THRESHOLD:
        return None
    front = math.prod(aval.shape[:split])
    view = (front, size, math.prod(aval.shape) // (front * size))
    chunks = -(-total // CHUNK)  # at least
    lengths = {d: _divisor(view[d], view[d] // chunks) for d in (0, 2)}
    # The larger chunks; if equal those in front, which are in one piece.
    dim = max(lengths, key=lambda d: lengths[d] / view[d])
    if lengths[dim] * total < view[dim] * CHUNK // 16:
        return None  # no divisor makes chunks of about the size
    return Plan(view, dim, lengths[dim])


def _divisor(number: int, most: int) -> int:
    """The largest divisor up to `most`; 0 if `most` is less than 1."""
    return next((d for d in range(most, 0, -1) if number % d == 0), 0)


def exchange_in_chunks(
    x: Any, plan: Plan, aval: ShapedArray, attributes: Mapping[str, Any]
) -> list[Any]:
    """Builds the loop; returns the result, which has the type of the operand.

    Args:
      aval: of the operand.
      attributes: of the StableHLO op.
    """
    view, dim, length = plan
    dims = ("split_dimension", "concat_dimension")
    attributes = {**attributes, **dict.fromkeys(dims, dialect.i64(1))}
    index = ShapedArray((), _INDEX)
    cut = (*view[:dim], length, *view[dim + 1 :])
    types = [dialect.ir_type(index), dialect.tensor(view, aval.dtype)]
    chunk = dialect.tensor(cut, aval.dtype)

    def more(i: Any, _: Any) -> list[Any]:
        end = dialect.constant(view[dim], _INDEX)
        return [dialect.compare("LT", i, end, index)]

    def step(i: Any, whole: Any) -> list[Any]:
        zero = dialect.constant(0, _INDEX)
        at = [i if d == dim else zero for d in range(len(view))]
        sizes = {"slice_sizes": dialect.i64_array(cut)}
        sent = dialect.op1("stablehlo.dynamic_slice", [whole, *at], chunk, sizes)
        got = dialect.op1("stablehlo.all_to_all", [sent], chunk, attributes)
        operands = [whole, got, *at]
        whole = dialect.op1("stablehlo.dynamic_update_slice", operands, types[1])
        ahead = dialect.constant(length, _INDEX)
        return [dialect.op1("stablehlo.add", [i, ahead], types[0]), whole]

    start = [dialect.constant(0, _INDEX), dialect.reshape(x, types[1])]
    regions = [dialect.Region(types, more), dialect.Region(types, step)]
    whole = dialect.op("stablehlo.while", start, types, regions=regions)[1]
    return [dialect.reshape(whole, dialect.ir_type(aval))]
