"""Functions of each element: exponentials, angles, rounding, logic, and their kin.

Those that operators stand for (`add`, `multiply`, ...) are in `lax/numeric.py`.

Upstream: `jax/_src/numpy/ufuncs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.trace import typeof
from minijax.lax import arithmetic as ar
from minijax.lax import compare, integers, numeric, parts
from minijax.lax import transcendental as tr
from minijax.lax.convert import bitcast_convert_type, convert
from minijax.lax.numeric import conjugate, imag, real, where
from minijax.lax.outlined import outlined
from minijax.lax.promote import (
    as_arrays,
    broadcast_arrays,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
)
from minijax.lax.rules import const
from minijax.lax.select import select
from minijax.lax.shapes import full_like, is_array

Function = Callable[..., Any]


def _named(fun: Function, name: str, doc: str) -> Function:
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return fun


def _inexact(name: str, fun: Function, doc: str) -> Function:
    """A function of one operand, which is made a float first."""

    def applied(x: Any, /) -> Any:
        return fun(*promote_args_inexact(name, x))

    return _named(applied, name, doc)


exp = _inexact("exp", tr.exp, "`e ** x`.")
exp2 = _inexact("exp2", tr.exp2, "`2 ** x`.")
expm1 = _inexact("expm1", tr.expm1, "`exp(x) - 1`, exact also where `x` is small.")
log = _inexact("log", tr.log, "The natural logarithm.")
log1p = _inexact("log1p", tr.log1p, "`log(1 + x)`, exact also where `x` is small.")
sqrt = _inexact("sqrt", tr.sqrt, "The square root; NaN of negative floats.")
cbrt = _inexact("cbrt", tr.cbrt, "The cube root.")
sin = _inexact("sin", tr.sin, "The sine of an angle in radians.")
cos = _inexact("cos", tr.cos, "The cosine of an angle in radians.")
tan = _inexact("tan", tr.tan, "The tangent of an angle in radians.")
arcsin = _inexact("arcsin", tr.asin, "The angle of a sine.")
arccos = _inexact("arccos", tr.acos, "The angle of a cosine.")
arctan = _inexact("arctan", tr.atan, "The angle of a tangent.")
sinh = _inexact("sinh", tr.sinh, "The hyperbolic sine.")
cosh = _inexact("cosh", tr.cosh, "The hyperbolic cosine.")
tanh = _inexact("tanh", tr.tanh, "The hyperbolic tangent.")
arcsinh = _inexact("arcsinh", tr.asinh, "The inverse of `sinh`.")
arccosh = _inexact("arccosh", tr.acosh, "The inverse of `cosh`.")
arctanh = _inexact("arctanh", tr.atanh, "The inverse of `tanh`.")
asin, acos, atan, asinh, acosh, atanh = (
    arcsin,
    arccos,
    arctan,
    arcsinh,
    arccosh,
    arctanh,
)


def _scaled(name: str, fun: Function, factor: float, doc: str) -> Function:
    def applied(x: Any, /) -> Any:
        out = fun(*promote_args_inexact(name, x))
        return ar.mul(out, const(out, factor))

    return _named(applied, name, doc)


log2 = _scaled("log2", tr.log, 1 / np.log(2.0), "The logarithm to the base 2.")
log10 = _scaled("log10", tr.log, 1 / np.log(10.0), "The logarithm to the base 10.")
deg2rad = radians = _scaled("deg2rad", lambda x: x, np.pi / 180, "Degrees as radians.")
rad2deg = degrees = _scaled("rad2deg", lambda x: x, 180 / np.pi, "Radians as degrees.")


def arctan2(x1: Any, x2: Any, /) -> Any:
    """The angle of the point with ordinate `x1` and abscissa `x2`."""
    return tr.atan2(*promote_args_inexact("arctan2", x1, x2))


atan2 = arctan2


@outlined("hypot")
def hypot(x1: Any, x2: Any, /) -> Any:
    """`sqrt(x1 ** 2 + x2 ** 2)`, without overflow."""
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    x1, x2 = parts.abs(x1), parts.abs(x2)
    longer, shorter = ar.max(x1, x2), ar.min(x1, x2)
    is_zero = compare.eq(longer, const(longer, 0))
    ratio = ar.div(shorter, where(is_zero, full_like(longer, 1), longer))
    out = ar.mul(longer, tr.sqrt(ar.add(const(ratio, 1), ar.square(ratio))))
    return where(isinf(longer), longer, out)


# ---------------------------------------------------------------------- arithmetic


def square(x: Any, /) -> Any:
    """`x * x`."""
    (x,) = as_arrays("square", x)
    return ar.square(x)


def reciprocal(x: Any, /) -> Any:
    """`1 / x`."""
    (x,) = promote_args_inexact("reciprocal", x)
    return ar.integer_pow(x, -1)


def float_power(x1: Any, x2: Any, /) -> Any:
    """`x1 ** x2`, in a float dtype."""
    return tr.pow(*promote_args_inexact("float_power", x1, x2))


@outlined("fmod")
def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder with the sign of `x1`."""
    return parts.rem(*promote_args_numeric("fmod", x1, x2))


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 where `x` is negative, zero or positive."""
    (x,) = as_arrays("sign", x)
    return parts.sign(x)


def fabs(x: Any, /) -> Any:
    """The absolute value of a real number, as a float."""
    return parts.abs(*promote_args_inexact("fabs", x))


def logaddexp(x1: Any, x2: Any, /) -> Any:
    """`log(exp(x1) + exp(x2))`, without overflow.

    >>> import minijax.numpy as jnp
    >>> jnp.logaddexp(1000.0, 0.0)
    Array(1000., dtype=float32, weak_type=True)
    """
    x1, x2 = promote_args_inexact("logaddexp", x1, x2)
    x1, x2 = broadcast_arrays(x1, x2)
    # Chosen by `select`, and not by `max`, so that a tie has a derivative, too.
    first_is_greater = compare.ge(x1, x2)
    high, low = select(first_is_greater, x1, x2), select(first_is_greater, x2, x1)
    difference = ar.sub(low, high)
    # Of equal infinities that is NaN, which must not reach the derivatives either.
    undefined = compare.ne(difference, difference)
    difference = select(undefined, full_like(difference, 0), difference)
    out = ar.add(high, tr.log1p(tr.exp(difference)))
    return select(undefined, ar.add(x1, x2), out)


def clip(arr: Any, /, min: Any = None, max: Any = None) -> Any:
    """Elements kept between `min` and `max`, either of which may be None.

    >>> import minijax.numpy as jnp
    >>> jnp.clip(jnp.arange(4), 1, 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    return numeric.clip(arr, min=min, max=max)


# ------------------------------------------------------------------------ rounding


def _rounding(name: str, fun: Function, doc: str) -> Function:
    """Integers are their own result."""

    def applied(x: Any, /) -> Any:
        (x,) = as_arrays(name, x)
        dtype = typeof(x).dtype
        whole = dtype == np.bool_ or dtypes.issubdtype(dtype, np.integer)
        return x if whole else fun(x)

    return _named(applied, name, doc)


def _trunc(x: Any) -> Any:
    return where(compare.lt(x, const(x, 0)), ar.ceil(x), ar.floor(x))


def _rint(x: Any) -> Any:
    return ar.round(x, ar.RoundingMethod.TO_NEAREST_EVEN)


floor = _rounding("floor", ar.floor, "The greatest integer that is not greater.")
ceil = _rounding("ceil", ar.ceil, "The least integer that is not less.")
trunc = fix = outlined("trunc")(
    _rounding("trunc", _trunc, "The integer part, towards zero.")
)
rint = outlined("rint")(
    _rounding("rint", _rint, "The nearest integer; halves go to even.")
)

# ----------------------------------------------------------------- kinds of numbers


def _is_float(x: Any) -> bool:
    return dtypes.issubdtype(typeof(x).dtype, np.inexact)


def _is_complex(x: Any) -> bool:
    return dtypes.issubdtype(typeof(x).dtype, np.complexfloating)


def isnan(x: Any, /) -> Any:
    """Whether `x` is not a number."""
    (x,) = as_arrays("isnan", x)
    return compare.ne(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether `x` is a number other than the infinities."""
    (x,) = as_arrays("isfinite", x)
    if _is_complex(x):
        return integers.bitwise_and(isfinite(real(x)), isfinite(imag(x)))
    return ar.is_finite(x) if _is_float(x) else full_like(x, True, np.bool_)


@outlined("isinf")
def isinf(x: Any, /) -> Any:
    """Whether `x` is an infinity."""
    (x,) = as_arrays("isinf", x)
    if _is_complex(x):
        return integers.bitwise_or(isinf(real(x)), isinf(imag(x)))
    if not _is_float(x):
        return full_like(x, False, np.bool_)
    return compare.eq(parts.abs(x), const(x, np.inf))


def isposinf(x: Any, /) -> Any:
    """Whether `x` is plus infinity."""
    (x,) = as_arrays("isposinf", x)
    return (
        compare.eq(x, const(x, np.inf)) if _is_float(x) else full_like(x, False, bool)
    )


def isneginf(x: Any, /) -> Any:
    """Whether `x` is minus infinity."""
    (x,) = as_arrays("isneginf", x)
    return (
        compare.eq(x, const(x, -np.inf)) if _is_float(x) else full_like(x, False, bool)
    )


def signbit(x: Any, /) -> Any:
    """Whether the sign of `x` is minus, also of zeros and NaNs."""
    (x,) = as_arrays("signbit", x)
    if not _is_float(x):
        return compare.lt(x, const(x, 0))
    bits = np.dtype(f"int{typeof(x).dtype.itemsize * 8}")
    x = bitcast_convert_type(x, bits)
    return compare.lt(x, const(x, 0))


@outlined("nan_to_num", static=("copy",))
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """NaN as zero, and infinities as the greatest and least numbers there are."""
    (x,) = as_arrays("nan_to_num", x)
    if not _is_float(x):
        return x
    info = dtypes.finfo(typeof(x).dtype)
    x = where(compare.ne(x, x), _of(x, nan), x)
    greatest = info.max if posinf is None else posinf
    x = where(compare.eq(x, const(x, np.inf)), _of(x, greatest), x)
    least = info.min if neginf is None else neginf
    return where(compare.eq(x, const(x, -np.inf)), _of(x, least), x)


def _of(x: Any, value: Any) -> Any:
    dtype = typeof(x).dtype
    return convert(value, dtype) if is_array(value) else np.asarray(value, dtype)[()]


def iscomplexobj(x: Any) -> bool:
    """Whether a value is of a complex dtype."""
    return dtypes.issubdtype(dtypes.dtype_of(x), np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Whether a value is of no complex dtype."""
    return not iscomplexobj(x)


def isreal(x: Any) -> Any:
    """Whether the imaginary part is zero."""
    return compare.eq(*promote_args("isreal", imag(x), 0))


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not zero."""
    return compare.ne(*promote_args("iscomplex", imag(x), 0))


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a complex number, in radians or degrees."""
    out = arctan2(imag(z), real(z))
    return rad2deg(out) if deg else out


# ---------------------------------------------------------------------------- logic


def _truth(name: str, *xs: Any) -> list[Any]:
    """Operands as booleans: whether they are not zero."""
    arrays = as_arrays(name, *xs)
    return [
        x if typeof(x).dtype == np.bool_ else compare.ne(x, const(x, 0)) for x in arrays
    ]


def _logical(name: str, fun: Function, doc: str) -> Function:
    def applied(x1: Any, x2: Any, /) -> Any:
        return fun(*promote_args(name, *_truth(name, x1, x2)))

    return _named(applied, name, doc)


logical_and = _logical("logical_and", integers.bitwise_and, "Whether both hold.")
logical_or = _logical("logical_or", integers.bitwise_or, "Whether one or both hold.")
logical_xor = _logical("logical_xor", integers.bitwise_xor, "Whether just one holds.")


def logical_not(x: Any, /) -> Any:
    """Whether `x` does not hold."""
    return integers.bitwise_not(*_truth("logical_not", x))


def bitwise_count(x: Any, /) -> Any:
    """How many bits of an integer are set."""
    (x,) = as_arrays("bitwise_count", x)
    size = parts.abs(x) if dtypes.issubdtype(typeof(x).dtype, np.signedinteger) else x
    return convert(integers.population_count(size), np.dtype(np.uint8))


@outlined("heaviside")
def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 where `x1` is negative, 1 where it is positive, and `x2` where it is zero."""
    x1, x2 = promote_args_inexact("heaviside", x1, x2)
    zero, one = const(x1, 0), const(x1, 1)
    below, above, undefined = compare.lt(x1, zero), compare.gt(x1, zero), isnan(x1)
    return where(below, zero, where(above, one, where(undefined, x1, x2)))


def sinc(x: Any, /) -> Any:
    """`sin(pi * x) / (pi * x)`, and 1 at zero."""
    (x,) = promote_args_inexact("sinc", x)
    is_zero = compare.eq(x, const(x, 0))
    scaled = ar.mul(const(x, np.pi), where(is_zero, full_like(x, 1), x))
    return where(is_zero, full_like(x, 1), ar.div(tr.sin(scaled), scaled))


conj = conjugate
