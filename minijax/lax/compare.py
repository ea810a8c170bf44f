"""Comparisons of elements: eq, ne, ge, gt, le, lt. The result is of dtype bool.

Complex numbers have no order: of them there are only `eq` and `ne`.

StableHLO: `compare`. Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.primitive import Primitive
from minijax.lax.cases import binary
from minijax.lax.rules import (
    ANY,
    ORDERED,
    Kinds,
    broadcast_operands,
    cast_together,
    elementwise,
)
from minijax.lowering import dialect

_BOOL = np.dtype(np.bool_)


def eq(x: Any, y: Any) -> Any:
    """Elementwise `x == y`, of two arrays of one dtype."""
    x, y = cast_together(x, y)
    return eq_p.bind1(x, y)


def ne(x: Any, y: Any) -> Any:
    """Elementwise `x != y`, of two arrays of one dtype."""
    x, y = cast_together(x, y)
    return ne_p.bind1(x, y)


def ge(x: Any, y: Any) -> Any:
    """Elementwise `x >= y`, of two arrays of one real dtype."""
    x, y = cast_together(x, y)
    return ge_p.bind1(x, y)


def gt(x: Any, y: Any) -> Any:
    """Elementwise `x > y`, of two arrays of one real dtype."""
    x, y = cast_together(x, y)
    return gt_p.bind1(x, y)


def le(x: Any, y: Any) -> Any:
    """Elementwise `x <= y`, of two arrays of one real dtype."""
    x, y = cast_together(x, y)
    return le_p.bind1(x, y)


def lt(x: Any, y: Any) -> Any:
    """Elementwise `x < y`, of two arrays of one real dtype."""
    x, y = cast_together(x, y)
    return lt_p.bind1(x, y)


def _comparison(name: str, kinds: Kinds) -> Primitive:
    prim = elementwise(name, kinds, kinds, result=lambda *_: _BOOL)

    @prim.def_lowering
    def lowering(ctx: Any, x: Any, y: Any) -> list[Any]:
        (out,) = ctx.avals_out
        x, y = broadcast_operands(ctx, (x, y))
        operand = ctx.avals_in[0].update(shape=out.shape, sharding=out.sharding)
        return [dialect.compare(name.upper(), x, y, operand)]

    prim.def_nondifferentiable("a bool does not change with small changes")
    return prim


eq_p = _comparison("eq", ANY)
ne_p = _comparison("ne", ANY)
ge_p = _comparison("ge", ORDERED)
gt_p = _comparison("gt", ORDERED)
le_p = _comparison("le", ORDERED)
lt_p = _comparison("lt", ORDERED)

CASES = [
    case
    for prim in (eq_p, ne_p, ge_p, gt_p, le_p, lt_p)
    for case in [*binary(prim, smooth=()), *binary(prim, dtypes=np.int32)]
]
