"""Parts of numbers: real, imag, complex, conj; sign, abs; and rem, nextafter.

`real`, `imag`, `complex` and `conj` are linear over the reals.

StableHLO: an operation each; `conj` is built from its parts. CHLO: `next_after`.
Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import ShapedArray
from minijax.core.linear import Zero, zero_tangent
from minijax.core.trace import typeof
from minijax.lax.arithmetic import div, floor, mul, neg
from minijax.lax.cases import Case, binary, unary
from minijax.lax.compare import eq, ge
from minijax.lax.convert import convert_element_type
from minijax.lax.rules import (
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    broadcast_like,
    cast_together,
    composed,
    const,
    derivatives,
    derivatives_from_result,
    elementwise,
    emit,
    full_like,
    is_complex,
    real_dtype,
    transpose_each,
)
from minijax.lax.select import select
from minijax.lowering import dialect

# ------------------------------------------------------------------ complex numbers


def real(x: Any) -> Any:
    """The real part of each element of a complex array."""
    return real_p.bind1(x)


def imag(x: Any) -> Any:
    """The imaginary part of each element of a complex array."""
    return imag_p.bind1(x)


def complex(x: Any, y: Any) -> Any:
    """Elementwise `x + 1j * y`, of two arrays of one dtype, float32 or float64."""
    x, y = cast_together(x, y)
    return complex_p.bind1(x, y)


def conj(x: Any) -> Any:
    """The complex conjugate of each element; a real array becomes a complex one."""
    return conj_p.bind1(x, input_dtype=typeof(x).dtype)


def _part(x: ShapedArray) -> Any:
    return real_dtype(x.dtype)


def _whole(x: ShapedArray, *_: ShapedArray, **__: Any) -> Any:
    return np.promote_types(x.dtype, np.complex64)


_ELEMENTS = (np.float32, np.float64)

real_p = elementwise("real", COMPLEX, op="stablehlo.real", result=_part)
imag_p = elementwise("imag", COMPLEX, op="stablehlo.imag", result=_part)
complex_p = elementwise(
    "complex", _ELEMENTS, _ELEMENTS, op="stablehlo.complex", result=_whole
)
conj_p = elementwise("conj", (*_ELEMENTS, *COMPLEX), result=_whole)


def _zero_of(x: Any) -> Any:
    return np.zeros((), typeof(x).dtype)[()]


real_p.def_linear(lambda ct, _: complex(ct, _zero_of(ct)))
imag_p.def_linear(lambda ct, _: complex(_zero_of(ct), neg(ct)))


@complex_p.def_jvp
def _complex_jvp(primals: Any, tangents: Any) -> Any:
    x, y = (
        full_like(p, 0) if type(t) is Zero else t
        for p, t in zip(primals, tangents, strict=True)
    )
    return [complex(*primals)], [complex(x, y)]


complex_p.transpose = transpose_each(
    lambda ct, x, y: real(ct), lambda ct, x, y: imag(neg(ct))
)


@conj_p.def_lowering
@composed
def _conj_lowering(x: Any, *, input_dtype: Any) -> Any:
    if not is_complex(x):
        return complex(x, full_like(x, 0))
    return complex(real(x), neg(imag(x)))


conj_p.def_linear(lambda ct, x, *, input_dtype: _conj_cotangent(ct, input_dtype))


def _conj_cotangent(ct: Any, input_dtype: Any) -> Any:
    in_complex = dtypes.issubdtype(input_dtype, np.complexfloating)
    return conj(ct) if in_complex else real(ct)


# ------------------------------------------------------------------------ sign, abs


def sign(x: Any) -> Any:
    """-1, 0 or 1, elementwise; of complex elements `x / abs(x)`, and 0 of 0."""
    return sign_p.bind1(x)


def abs(x: Any) -> Any:
    """Elementwise absolute value, which is real."""
    return abs_p.bind1(x)


sign_p = elementwise("sign", NUMBER)
abs_p = elementwise(
    "abs", (np.signedinteger, *FLOAT, *COMPLEX), op="stablehlo.abs", result=_part
)


@sign_p.def_lowering
def _sign_lowering(ctx: Any, x: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    if not dtypes.issubdtype(aval.dtype, np.unsignedinteger):
        return emit(ctx, "stablehlo.sign", x)
    is_zero = dialect.compare("EQ", x, dialect.full(aval, 0), aval)
    operands = (is_zero, dialect.full(aval, 0), dialect.full(aval, 1))
    return dialect.op("stablehlo.select", operands, [dialect.ir_type(aval)])


@sign_p.def_jvp
def _sign_jvp(primals: Any, tangents: Any) -> Any:
    out = sign(*primals)
    if not is_complex(out):
        return [out], [zero_tangent(out)]
    # Only the angle matters: d sign(x) = 1j * sign(x) * d angle(x).
    turned = imag(mul(conj(out), tangents[0]))
    angle = div(turned, nonzero(abs(*primals)))
    return [out], [mul(out, complex(full_like(angle, 0), angle))]


sign_p.without(transpose="it is not linear")


def nonzero(x: Any) -> Any:
    """`x` with 1 in place of 0, for divisors of what does not matter there."""
    return select(eq(x, const(x, 0)), full_like(x, 1), x)


def _abs_tangent(g: Any, out: Any, x: Any) -> Any:
    if not is_complex(x):
        return select(ge(x, const(x, 0)), g, neg(g))
    turned, size = conj(x), convert_element_type(out, typeof(x).dtype)
    return real(mul(g, div(turned, nonzero(size))))


derivatives_from_result(abs_p, _abs_tangent)

# ------------------------------------------------------------------- rem, nextafter


def rem(x: Any, y: Any) -> Any:
    """The remainder of `x / y` truncated, elementwise; it has the sign of `x`."""
    x, y = cast_together(x, y)
    return rem_p.bind1(x, y)


def nextafter(x1: Any, x2: Any) -> Any:
    """The next float after `x1` towards `x2`, elementwise."""
    x1, x2 = cast_together(x1, x2)
    return nextafter_p.bind1(x1, x2)


_REAL = INT + FLOAT
rem_p = elementwise("rem", _REAL, _REAL, op="stablehlo.remainder")


def _quotient(x: Any, y: Any) -> Any:
    """`x / y`, truncated."""
    return mul(sign(div(x, y)), floor(abs(div(x, y))))


def _first_tangent(g: Any, x: Any, y: Any) -> Any:
    """The tangent of a result that moves as the first operand does."""
    avals = [typeof(x), typeof(y)]
    shape = rules.join_shapes("broadcast", avals)
    largest = avals[0] if avals[0].shape == shape else avals[1].update(shape=shape)
    return broadcast_like(g, largest)


derivatives(rem_p, _first_tangent, lambda g, x, y: mul(neg(g), _quotient(x, y)))

nextafter_p = elementwise("nextafter", FLOAT, FLOAT, op="chlo.next_after")
derivatives(nextafter_p, _first_tangent, None)


def _between_jumps(rng: np.random.Generator, x: Any, y: Any) -> list[Any]:
    """Operands of which the quotient stays between 2 and 3."""
    return [
        np.asarray(rng.uniform(2.3, 2.7, x), np.float32),
        np.asarray(rng.uniform(0.95, 1.05, y), np.float32),
    ]


CASES = [
    *(unary(p, dtypes=np.complex64) for p in (real_p, imag_p, sign_p, abs_p)),
    unary(conj_p, params={"input_dtype": np.dtype(np.complex64)}, dtypes=np.complex64),
    unary(conj_p, params={"input_dtype": np.dtype(np.float32)}),
    *binary(complex_p),
    unary(sign_p),
    unary(sign_p, dtypes=np.uint32),
    unary(abs_p),
    unary(abs_p, domain=(-0.9, -0.3)),
    Case(rem_p, [(3, 2), (3, 2)], make=lambda rng: _between_jumps(rng, (3, 2), (3, 2))),
    Case(rem_p, [(3, 2), ()], make=lambda rng: _between_jumps(rng, (3, 2), ())),
    Case(rem_p, [(), (3, 2)], make=lambda rng: _between_jumps(rng, (), (3, 2))),
    Case(rem_p, [(3,), (3,)], dtypes=np.int32),
    *binary(nextafter_p, smooth=()),
]
