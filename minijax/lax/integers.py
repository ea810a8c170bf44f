"""Operations on bits: and, or, xor, not, shifts, population_count, clz.

On bools, the first four are logical. None has a derivative.

StableHLO: `and`, `or`, `xor`, `not`, `shift_left`, `shift_right_logical`,
`shift_right_arithmetic`, `popcnt`, `count_leading_zeros`.
Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.primitive import Primitive
from minijax.lax.cases import binary, unary
from minijax.lax.rules import BOOL_OR_INT, INT, Kinds, cast_together, elementwise


def bitwise_not(x: Any) -> Any:
    """Each bit, or bool, inverted."""
    return not_p.bind1(x)


def bitwise_and(x: Any, y: Any) -> Any:
    """Bitwise and, of two arrays of one integer dtype or bool."""
    x, y = cast_together(x, y)
    return and_p.bind1(x, y)


def bitwise_or(x: Any, y: Any) -> Any:
    """Bitwise or, of two arrays of one integer dtype or bool."""
    x, y = cast_together(x, y)
    return or_p.bind1(x, y)


def bitwise_xor(x: Any, y: Any) -> Any:
    """Bitwise exclusive or, of two arrays of one integer dtype or bool."""
    x, y = cast_together(x, y)
    return xor_p.bind1(x, y)


def shift_left(x: Any, y: Any) -> Any:
    """`x << y`; shifts that are negative or too far give 0."""
    x, y = cast_together(x, y)
    return shift_left_p.bind1(x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    """`x >> y`, filled up with zeros."""
    x, y = cast_together(x, y)
    return shift_right_logical_p.bind1(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """`x >> y`, filled up with copies of the sign."""
    x, y = cast_together(x, y)
    return shift_right_arithmetic_p.bind1(x, y)


def population_count(x: Any) -> Any:
    """How many bits of each integer are set."""
    return population_count_p.bind1(x)


def clz(x: Any) -> Any:
    """How many zeros each integer begins with."""
    return clz_p.bind1(x)


def _bits(name: str, *kinds: Kinds, op: str) -> Primitive:
    prim = elementwise(name, *kinds, op=f"stablehlo.{op}")
    prim.def_nondifferentiable("integers do not change by small amounts")
    return prim


not_p = _bits("not", BOOL_OR_INT, op="not")
and_p = _bits("and", BOOL_OR_INT, BOOL_OR_INT, op="and")
or_p = _bits("or", BOOL_OR_INT, BOOL_OR_INT, op="or")
xor_p = _bits("xor", BOOL_OR_INT, BOOL_OR_INT, op="xor")
shift_left_p = _bits("shift_left", INT, INT, op="shift_left")
shift_right_logical_p = _bits("shift_right_logical", INT, INT, op="shift_right_logical")
shift_right_arithmetic_p = _bits(
    "shift_right_arithmetic", INT, INT, op="shift_right_arithmetic"
)
population_count_p = _bits("population_count", INT, op="popcnt")
clz_p = _bits("clz", INT, op="count_leading_zeros")

CASES = [
    unary(not_p, dtypes=np.bool_),
    unary(not_p, dtypes=np.int32),
    unary(population_count_p, dtypes=np.uint32),
    unary(clz_p, dtypes=np.int32),
    *(
        case
        for prim in (and_p, or_p, xor_p, shift_left_p, shift_right_logical_p)
        for case in binary(prim, dtypes=np.uint32)
    ),
    *binary(and_p, dtypes=np.bool_),
    *binary(shift_right_arithmetic_p, dtypes=np.int32),
]
