"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions, and powers.

Each function here comes with its derivative, written so that it reuses the result
where that is cheaper.

StableHLO: an operation each, or one of CHLO's. Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.trace import typeof
from minijax.lax.arithmetic import (
    add,
    div,
    integer_pow,
    max,
    mul,
    neg,
    one_minus_square,
    reciprocal,
    square,
    sub,
)
from minijax.lax.cases import Case, binary, unary
from minijax.lax.compare import eq
from minijax.lax.convert import convert_element_type
from minijax.lax.gradients import stop_gradient
from minijax.lax.parts import abs, complex, imag, nonzero, real
from minijax.lax.rules import (
    FLOAT,
    INEXACT,
    INT,
    broadcast_operands,
    cast_together,
    composed,
    const,
    derivatives,
    derivatives_from_result,
    elementwise,
    full_like,
    is_complex,
)
from minijax.lax.select import clamp, select
from minijax.lax.shapes import broadcast_in_dim
from minijax.lowering import dialect

# ------------------------------------------------------- exponentials and logarithms


def exp(x: Any) -> Any:
    """Elementwise exponential."""
    return exp_p.bind1(x)


def exp2(x: Any) -> Any:
    """Elementwise `2 ** x`."""
    return exp2_p.bind1(x)


def expm1(x: Any) -> Any:
    """Elementwise `exp(x) - 1`, accurate for small `x`."""
    return expm1_p.bind1(x)


def log(x: Any) -> Any:
    """Elementwise natural logarithm."""
    return log_p.bind1(x)


def log1p(x: Any) -> Any:
    """Elementwise `log(1 + x)`, accurate for small `x`."""
    return log1p_p.bind1(x)


def logistic(x: Any) -> Any:
    """Elementwise `1 / (1 + exp(-x))`."""
    return logistic_p.bind1(x)


exp_p = elementwise("exp", INEXACT, op="stablehlo.exponential")
exp2_p = elementwise("exp2", INEXACT)
expm1_p = elementwise("expm1", INEXACT, op="stablehlo.exponential_minus_one")
log_p = elementwise("log", INEXACT, op="stablehlo.log")
log1p_p = elementwise("log1p", INEXACT, op="stablehlo.log_plus_one")
logistic_p = elementwise("logistic", INEXACT)

exp2_p.def_lowering(composed(lambda x: exp(mul(const(x, math.log(2)), x))))
logistic_p.def_lowering(
    composed(lambda x: div(const(x, 1), add(const(x, 1), exp(neg(x)))))
)

derivatives_from_result(exp_p, lambda g, y, x: mul(g, y))
derivatives_from_result(exp2_p, lambda g, y, x: mul(log(const(x, 2)), mul(g, y)))
derivatives(expm1_p, lambda g, x: mul(g, exp(x)))
derivatives(log_p, lambda g, x: div(g, x))
derivatives(log1p_p, lambda g, x: div(g, add(x, const(x, 1))))
derivatives_from_result(logistic_p, lambda g, y, x: mul(g, mul(y, sub(const(y, 1), y))))

# ------------------------------------------------------------------------------ roots


def sqrt(x: Any) -> Any:
    """Elementwise square root."""
    return sqrt_p.bind1(x)


def rsqrt(x: Any) -> Any:
    """Elementwise `1 / sqrt(x)`."""
    return rsqrt_p.bind1(x)


def cbrt(x: Any) -> Any:
    """Elementwise cube root."""
    return cbrt_p.bind1(x)


sqrt_p = elementwise("sqrt", INEXACT, op="stablehlo.sqrt")
rsqrt_p = elementwise("rsqrt", INEXACT, op="stablehlo.rsqrt")
cbrt_p = elementwise("cbrt", FLOAT, op="stablehlo.cbrt")

derivatives_from_result(sqrt_p, lambda g, y, x: mul(g, div(const(x, 0.5), y)))
derivatives_from_result(rsqrt_p, lambda g, y, x: mul(g, mul(const(x, -0.5), div(y, x))))
derivatives_from_result(
    cbrt_p, lambda g, y, x: mul(g, mul(const(x, 1 / 3), integer_pow(y, -2)))
)

# ----------------------------------------------------------- trigonometric functions


def sin(x: Any) -> Any:
    """Elementwise sine."""
    return sin_p.bind1(x)


def cos(x: Any) -> Any:
    """Elementwise cosine."""
    return cos_p.bind1(x)


def tan(x: Any) -> Any:
    """Elementwise tangent."""
    return tan_p.bind1(x)


def asin(x: Any) -> Any:
    """Elementwise arc sine."""
    return asin_p.bind1(x)


def acos(x: Any) -> Any:
    """Elementwise arc cosine."""
    return acos_p.bind1(x)


def atan(x: Any) -> Any:
    """Elementwise arc tangent."""
    return atan_p.bind1(x)


def atan2(x: Any, y: Any) -> Any:
    """The angle of the point with ordinate `x` and abscissa `y`, elementwise."""
    x, y = cast_together(x, y)
    return atan2_p.bind1(x, y)


sin_p = elementwise("sin", INEXACT, op="stablehlo.sine")
cos_p = elementwise("cos", INEXACT, op="stablehlo.cosine")
tan_p = elementwise("tan", INEXACT, op="stablehlo.tan")
asin_p = elementwise("asin", INEXACT, op="chlo.asin")
acos_p = elementwise("acos", INEXACT, op="chlo.acos")
atan_p = elementwise("atan", INEXACT, op="chlo.atan")
atan2_p = elementwise("atan2", INEXACT, INEXACT, op="stablehlo.atan2")

_asin_chlo = asin_p.lowering
_asin_real = composed(
    lambda x: atan2(x, sqrt(mul(sub(const(x, 1), x), add(const(x, 1), x))))
)


@asin_p.def_lowering
def _asin_lowering(ctx: Any, x: Any) -> list[Any]:
    # As upstream, which mistrusts CHLO's expansion for real numbers.
    in_complex = dtypes.issubdtype(ctx.avals_in[0].dtype, np.complexfloating)
    return (_asin_chlo if in_complex else _asin_real)(ctx, x)


derivatives(sin_p, lambda g, x: mul(g, cos(x)))
derivatives(cos_p, lambda g, x: neg(mul(g, sin(x))))
derivatives_from_result(tan_p, lambda g, y, x: mul(g, add(const(x, 1), square(y))))
derivatives(asin_p, lambda g, x: mul(g, rsqrt(one_minus_square(x))))
derivatives(acos_p, lambda g, x: mul(g, neg(rsqrt(one_minus_square(x)))))
derivatives(atan_p, lambda g, x: div(g, add(const(x, 1), square(x))))
derivatives(
    atan2_p,
    lambda g, x, y: mul(g, div(y, add(square(x), square(y)))),
    lambda g, x, y: mul(g, div(neg(x), add(square(x), square(y)))),
)

# --------------------------------------------------------------- hyperbolic functions


def sinh(x: Any) -> Any:
    """Elementwise hyperbolic sine."""
    return sinh_p.bind1(x)


def cosh(x: Any) -> Any:
    """Elementwise hyperbolic cosine."""
    return cosh_p.bind1(x)


def tanh(x: Any) -> Any:
    """Elementwise hyperbolic tangent."""
    return tanh_p.bind1(x)


def asinh(x: Any) -> Any:
    """Elementwise inverse of `sinh`."""
    return asinh_p.bind1(x)


def acosh(x: Any) -> Any:
    """Elementwise inverse of `cosh`."""
    return acosh_p.bind1(x)


def atanh(x: Any) -> Any:
    """Elementwise inverse of `tanh`."""
    return atanh_p.bind1(x)


sinh_p = elementwise("sinh", INEXACT, op="chlo.sinh")
cosh_p = elementwise("cosh", INEXACT, op="chlo.cosh")
tanh_p = elementwise("tanh", INEXACT, op="stablehlo.tanh")
asinh_p = elementwise("asinh", INEXACT, op="chlo.asinh")
acosh_p = elementwise("acosh", INEXACT, op="chlo.acosh")
atanh_p = elementwise("atanh", INEXACT, op="chlo.atanh")

derivatives(sinh_p, lambda g, x: mul(g, cosh(x)))
derivatives(cosh_p, lambda g, x: mul(g, sinh(x)))
derivatives_from_result(tanh_p, lambda g, y, x: mul(g, one_minus_square(y)))
derivatives(
    acosh_p,
    lambda g, x: mul(g, mul(rsqrt(sub(x, const(x, 1))), rsqrt(add(x, const(x, 1))))),
)
derivatives(atanh_p, lambda g, x: div(g, one_minus_square(x)))


def _asinh_tangent(g: Any, x: Any) -> Any:
    """`g / sqrt(1 + x * x)`, with `x` scaled first so that its square is finite."""
    is_c = is_complex(x)
    size = max(abs(real(x)), abs(imag(x))) if is_c else abs(x)
    half = dtypes.finfo(typeof(size).dtype).maxexp // 2
    limits = const(size, 1), const(size, 2.0 ** (half + 2))
    scaled = mul(size, const(size, 2.0 ** -(half - 2)))
    inverse = reciprocal(stop_gradient(clamp(limits[0], scaled, limits[1])))
    if not is_c:
        root = rsqrt(add(square(mul(x, inverse)), square(inverse)))
        return mul(g, mul(inverse, root))
    re, im = mul(real(x), inverse), mul(imag(x), inverse)
    whole = complex(
        add(square(re), one_minus_square(im)), mul(const(re, 2), mul(re, im))
    )
    root = rsqrt(whole)
    slope = complex(mul(real(root), inverse), mul(imag(root), inverse))
    infinite = eq(size, const(size, np.inf))
    return mul(g, select(infinite, full_like(x, 0), slope))


derivatives(asinh_p, _asinh_tangent)

# ----------------------------------------------------------------------------- powers


def pow(x: Any, y: Any) -> Any:
    """Elementwise `x ** y`, for inexact `x` and `y` of the same dtype or integer."""
    x, y = cast_together(x, y)
    return pow_p.bind1(x, y)


def _pow_dtype(x: ShapedArray, y: ShapedArray) -> Any:
    by_integer = dtypes.issubdtype(y.dtype, np.integer)
    if x.dtype != y.dtype and not by_integer:
        raise errors.pow_dtypes(x.dtype, y.dtype)
    return x.dtype


pow_p = elementwise("pow", INEXACT, INT + INEXACT, result=_pow_dtype, same_dtypes=False)


@pow_p.def_lowering
def _pow_lowering(ctx: Any, x: Any, y: Any) -> list[Any]:
    (_, y_aval), (out,) = ctx.avals_in, ctx.avals_out
    if y_aval.dtype != out.dtype:
        y = dialect.convert(y, y_aval, y_aval.update(dtype=out.dtype))
        ctx.avals_in[1] = y_aval.update(dtype=out.dtype)
    values = broadcast_operands(ctx, (x, y))
    power = dialect.op1("stablehlo.power", values, dialect.ir_type(out))
    return [ctx.with_sharding(power, out)]


def _base_tangent(g: Any, out: Any, x: Any, y: Any) -> Any:
    by_integer = dtypes.issubdtype(typeof(y).dtype, np.integer)
    y = convert_element_type(y, typeof(x).dtype)
    if not by_integer:
        return mul(g, mul(y, pow(x, sub(y, full_like(y, 1)))))
    shape = typeof(out).shape
    x, y = (_spread(v, shape) for v in (x, y))
    is_zero, zeros = eq(y, const(y, 0)), full_like(y, 0)
    slope = mul(nonzero(y), pow(x, sub(y, full_like(y, 1))))
    return mul(g, select(is_zero, zeros, slope))


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    found = typeof(x).shape
    if found == shape:
        return x
    return broadcast_in_dim(x, shape, range(len(shape)) if found else ())


def _exponent_tangent(g: Any, out: Any, x: Any, y: Any) -> Any:
    tangent = mul(g, mul(log(nonzero(x)), out))
    return convert_element_type(tangent, typeof(y).dtype)


derivatives_from_result(pow_p, _base_tangent, _exponent_tangent)

CASES = [
    *(unary(prim) for prim in (exp_p, exp2_p, expm1_p, log_p, log1p_p, logistic_p)),
    *(unary(prim) for prim in (sqrt_p, rsqrt_p, cbrt_p)),
    *(unary(prim) for prim in (sin_p, cos_p, tan_p, asin_p, acos_p, atan_p)),
    *(unary(prim) for prim in (sinh_p, cosh_p, tanh_p, asinh_p, atanh_p)),
    unary(acosh_p, domain=(1.5, 2.5)),
    *(
        unary(prim, dtypes=np.complex64)
        for prim in (exp_p, log_p, sqrt_p, sin_p, cos_p, tanh_p, asin_p, asinh_p)
    ),
    *binary(atan2_p),
    *binary(pow_p),
    Case(pow_p, [(3, 2), ()], dtypes=[np.float32, np.int32]),
]
