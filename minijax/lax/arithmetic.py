"""Arithmetic: neg, add, sub, mul, div, max, min, integer_pow, square, rounding.

Operands of one operation have one dtype and one shape; a scalar goes with any shape.
`add` and `sub` are linear in both operands, `mul` in each, `div` in the first.

StableHLO: an operation each, but for `integer_pow` (multiplications) and
`one_minus_square`. Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

import operator
from enum import IntEnum
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import Zero, zero_tangent
from minijax.core.trace import typeof
from minijax.lax.cases import Case, binary, unary
from minijax.lax.compare import eq, gt
from minijax.lax.rules import (
    ANY,
    FLOAT,
    NUMBER,
    broadcast_like,
    broadcast_operands,
    cast_together,
    composed,
    const,
    derivatives,
    elementwise,
    emit,
    full_like,
    transpose_each,
)
from minijax.lax.select import select
from minijax.lowering import dialect

# ---------------------------------------------------------------------- neg, add, sub


def neg(x: Any) -> Any:
    """Elementwise `-x`."""
    return neg_p.bind1(x)


def add(x: Any, y: Any) -> Any:
    """Elementwise `x + y`, of two arrays of one dtype.

    TypeError where dtypes differ or shapes do not fit: nothing is promoted here.
    """
    x, y = cast_together(x, y)
    return add_p.bind1(x, y)


def sub(x: Any, y: Any) -> Any:
    """Elementwise `x - y`, of two arrays of one dtype."""
    x, y = cast_together(x, y)
    return sub_p.bind1(x, y)


neg_p = elementwise("neg", NUMBER, op="stablehlo.negate", sums=rules.linear)
neg_p.def_linear(lambda ct, _: neg(ct))

add_p = elementwise("add", NUMBER, NUMBER, op="stablehlo.add", sums=rules.added)
sub_p = elementwise("sub", NUMBER, NUMBER, op="stablehlo.subtract", sums=rules.added)


@add_p.def_jvp
def _add_jvp(primals: Any, tangents: Any) -> Any:
    out, (dx, dy) = add(*primals), tangents
    if type(dx) is not Zero and type(dy) is not Zero:
        return [out], [add(dx, dy)]
    return [out], [_only_tangent(out, dx, dy)]


@sub_p.def_jvp
def _sub_jvp(primals: Any, tangents: Any) -> Any:
    out, (dx, dy) = sub(*primals), tangents
    if type(dx) is not Zero and type(dy) is not Zero:
        return [out], [sub(dx, dy)]
    return [out], [_only_tangent(out, dx, dy if type(dy) is Zero else neg(dy))]


def _only_tangent(out: Any, dx: Any, dy: Any) -> Any:
    """The tangent of a sum of which at most one term has one."""
    known = dy if type(dx) is Zero else dx
    return zero_tangent(out) if type(known) is Zero else broadcast_like(known, out)


add_p.transpose = transpose_each(lambda ct, x, y: ct, lambda ct, x, y: ct)
sub_p.transpose = transpose_each(lambda ct, x, y: ct, lambda ct, x, y: neg(ct))

# --------------------------------------------------------------------------- mul, div


def mul(x: Any, y: Any) -> Any:
    """Elementwise `x * y`, of two arrays of one dtype."""
    x, y = cast_together(x, y)
    return mul_p.bind1(x, y)


def div(x: Any, y: Any) -> Any:
    """Elementwise `x / y`, of two arrays of one dtype; of integers, towards zero."""
    x, y = cast_together(x, y)
    return div_p.bind1(x, y)


def reciprocal(x: Any) -> Any:
    """Elementwise `1 / x`."""
    return integer_pow(x, -1)


mul_p = elementwise(
    "mul", NUMBER, NUMBER, op="stablehlo.multiply", sums=rules.multiplied
)
mul_p.transpose = transpose_each(
    lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)
)
derivatives(mul_p, lambda g, x, y: mul(g, y), lambda g, x, y: mul(x, g))

div_p = elementwise("div", NUMBER, NUMBER, op="stablehlo.divide", sums=rules.divided)
# Linear in the numerator only, so that the denominator is never asked for.
div_p.transpose = transpose_each(lambda ct, x, y: div(ct, y), lambda ct, x, y: None)
derivatives(
    div_p,
    lambda g, x, y: div(g, y),
    lambda g, x, y: mul(mul(neg(g), x), integer_pow(y, -2)),
)

# -------------------------------------------------------------------------- max, min


def max(x: Any, y: Any) -> Any:
    """The greater of each pair of elements; of complex ones, by real part first."""
    x, y = cast_together(x, y)
    return max_p.bind1(x, y)


def min(x: Any, y: Any) -> Any:
    """The lesser of each pair of elements; of complex ones, by real part first."""
    x, y = cast_together(x, y)
    return min_p.bind1(x, y)


max_p = elementwise("max", ANY, ANY)
min_p = elementwise("min", ANY, ANY)


def _extremum_lowering(op: str, direction: str) -> Any:
    def lowering(ctx: Any, x: Any, y: Any) -> list[Any]:
        (out,) = ctx.avals_out
        if not dtypes.issubdtype(out.dtype, np.complexfloating):
            return emit(ctx, op, x, y)
        x, y = broadcast_operands(ctx, (x, y))
        operands = (lexicographic(direction, x, y, out), x, y)
        picked = dialect.op1("stablehlo.select", operands, dialect.ir_type(out))
        return [ctx.with_sharding(picked, out)]

    return lowering


def lexicographic(direction: str, x: Any, y: Any, aval: ShapedArray) -> Any:
    """Compares complex values by real part, and where those are equal by imaginary."""
    part = aval.update(dtype=np.abs(np.zeros((), aval.dtype)).dtype)
    type_ = dialect.ir_type(part)
    xr, yr = (dialect.op1("stablehlo.real", (v,), type_) for v in (x, y))
    same = dialect.compare("EQ", xr, yr, part)
    by_real = dialect.compare(direction, xr, yr, part)
    xi, yi = (dialect.op1("stablehlo.imag", (v,), type_) for v in (x, y))
    by_imag = dialect.compare(direction, xi, yi, part)
    operands = (same, by_imag, by_real)
    return dialect.op1("stablehlo.select", operands, by_real.type)


max_p.lowering = _extremum_lowering("stablehlo.maximum", "GT")
min_p.lowering = _extremum_lowering("stablehlo.minimum", "LT")


def share_of_max(x: Any, y: Any) -> Any:
    """How much of the tangent of `max(x, y)` is that of `x`: 1, 0, or half in a tie."""
    above, tie = gt(x, y), eq(x, y)
    one, zero, half = (full_like(above, v, typeof(x).dtype) for v in (1, 0, 0.5))
    return select(above, one, select(tie, half, zero))


derivatives(
    max_p,
    lambda g, x, y: mul(g, share_of_max(x, y)),
    lambda g, x, y: mul(g, share_of_max(y, x)),
)
derivatives(
    min_p,
    lambda g, x, y: mul(g, share_of_max(y, x)),
    lambda g, x, y: mul(g, share_of_max(x, y)),
)

# ---------------------------------------------------------------------------- powers


def integer_pow(x: Any, y: int) -> Any:
    """Elementwise `x ** y` for a Python integer `y`."""
    return integer_pow_p.bind1(x, y=operator.index(y))


def square(x: Any) -> Any:
    """Elementwise `x * x`."""
    return square_p.bind1(x)


def one_minus_square(x: Any) -> Any:
    """Elementwise `1 - x * x`, computed as `(1 + x) * (1 - x)`.

    So it is accurate where `x` is close to 1. It is an operation of its own for its
    derivative `-2 * x`, which the product rule would compute from differences.
    """
    return one_minus_square_p.bind1(x)


def _power_dtype(x: ShapedArray, *, y: int) -> Any:
    if y < 0 and dtypes.issubdtype(x.dtype, np.integer):
        raise errors.negative_integer_power(x, y)
    return x.dtype


integer_pow_p = elementwise("integer_pow", NUMBER, result=_power_dtype)


@composed
def _by_multiplications(x: Any, *, y: int) -> Any:
    """Squares `x` again and again, and multiplies those that the bits of `y` name."""
    if y == 3:  # the order of factors that upstream has for this one
        return mul(mul(x, x), x)
    rest, power, out = abs(y), x, None
    while rest:
        if rest & 1:
            out = power if out is None else mul(out, power)
        rest >>= 1
        if rest:
            power = mul(power, power)
    if out is None:
        return full_like(x, 1)
    return div(const(x, 1), out) if y < 0 else out


integer_pow_p.lowering = _by_multiplications


def _power_tangent(g: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return full_like(g, 0)
    if y == 1:
        return g
    return mul(g, mul(const(x, y), x if y == 2 else integer_pow(x, y - 1)))


derivatives(integer_pow_p, _power_tangent)

square_p = elementwise("square", NUMBER)


@square_p.def_lowering
def _square_lowering(ctx: Any, x: Any) -> list[Any]:
    if dtypes.issubdtype(ctx.avals_in[0].dtype, np.integer):
        return dialect.op("stablehlo.multiply", (x, x), [x.type])
    return emit(ctx, "chlo.square", x)


derivatives(square_p, lambda g, x: mul(g, mul(const(x, 2), x)))

one_minus_square_p = elementwise("one_minus_square", NUMBER)
one_minus_square_p.def_lowering(
    composed(lambda x: mul(add(const(x, 1), x), sub(const(x, 1), x)))
)
derivatives(one_minus_square_p, lambda g, x: mul(g, mul(const(x, -2), x)))

# -------------------------------------------------------------------------- rounding


class RoundingMethod(IntEnum):
    """What `round` makes of numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1

    def __repr__(self) -> str:
        return str(int(self))


def floor(x: Any) -> Any:
    """The greatest integer that is not greater, elementwise, as a float."""
    return floor_p.bind1(x)


def ceil(x: Any) -> Any:
    """The least integer that is not less, elementwise."""
    return ceil_p.bind1(x)


def round(
    x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO
) -> Any:
    """The nearest integer, elementwise."""
    return round_p.bind1(x, rounding_method=RoundingMethod(rounding_method))


def is_finite(x: Any) -> Any:
    """Whether each element is a number other than the infinities."""
    return is_finite_p.bind1(x)


floor_p = elementwise("floor", FLOAT, op="stablehlo.floor")
ceil_p = elementwise("ceil", FLOAT, op="stablehlo.ceil")
round_p = elementwise("round", FLOAT)
is_finite_p = elementwise(
    "is_finite", FLOAT, op="stablehlo.is_finite", result=lambda _: np.dtype(np.bool_)
)


@round_p.def_lowering
def _round_lowering(ctx: Any, x: Any, *, rounding_method: RoundingMethod) -> list[Any]:
    away = rounding_method is RoundingMethod.AWAY_FROM_ZERO
    return emit(ctx, f"stablehlo.round_nearest_{'afz' if away else 'even'}", x)


for _prim in (floor_p, ceil_p, round_p, is_finite_p):
    _prim.def_nondifferentiable("steps are flat")

_AWAY = {"rounding_method": RoundingMethod.AWAY_FROM_ZERO}
_EVEN = {"rounding_method": RoundingMethod.TO_NEAREST_EVEN}

CASES = [
    unary(neg_p),
    unary(neg_p, dtypes=np.complex64),
    unary(square_p),
    unary(square_p, dtypes=np.int32),
    unary(one_minus_square_p),
    unary(floor_p),
    unary(ceil_p),
    unary(is_finite_p, smooth=()),
    unary(round_p, params=_AWAY, smooth=()),
    unary(round_p, params=_EVEN, smooth=()),
    *(unary(integer_pow_p, params={"y": y}) for y in (-3, -2, -1, 1, 2, 3, 6)),
    *(
        case
        for prim in (add_p, sub_p, mul_p, div_p, max_p, min_p)
        for case in binary(prim)
    ),
    *(
        Case(prim, [(3,), (3,)], dtypes=dtype)
        for prim in (add_p, sub_p, mul_p, div_p, max_p, min_p)
        for dtype in (np.int32, np.complex64)
    ),
]
