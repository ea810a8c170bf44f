"""Arithmetic as numpy means it: operands promoted, then primitives applied.

What array operators do, and what `minijax.numpy` offers under the same names. Each
function gives upstream's equations in upstream's order.

Upstream: `jax/_src/numpy/ufuncs.py`, `tensor_contractions.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numeric as errors
from minijax.core.mesh import NamedSharding
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.trace import Tracer, typeof
from minijax.lax import arithmetic as ar
from minijax.lax import compare, integers, parts, transcendental
from minijax.lax.convert import convert
from minijax.lax.dot import dot_general
from minijax.lax.outlined import outlined
from minijax.lax.promote import (
    as_arrays,
    as_value,
    broadcast_arrays,
    cast,
    check_array_like,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes,
    promote_dtypes_numeric,
    promote_shapes,
)
from minijax.lax.rules import const
from minijax.lax.select import select
from minijax.lax.shapes import expand_dims, full_like, squeeze, transpose

# --------------------------------------------------------------- two operands, plain


def add(x: Any, y: Any) -> Any:
    """`x + y`; of booleans, or."""
    x, y = promote_args("add", x, y)
    return integers.bitwise_or(x, y) if _is_bool(x) else ar.add(x, y)


def subtract(x: Any, y: Any) -> Any:
    """`x - y`."""
    return ar.sub(*promote_args("subtract", x, y))


def multiply(x: Any, y: Any) -> Any:
    """`x * y`; of booleans, and."""
    x, y = promote_args("multiply", x, y)
    return integers.bitwise_and(x, y) if _is_bool(x) else ar.mul(x, y)


def true_divide(x: Any, y: Any) -> Any:
    """`x / y`, in a float or complex dtype."""
    return ar.div(*promote_args_inexact("true_divide", x, y))


def _is_bool(x: Any) -> bool:
    return typeof(x).dtype == np.bool_


def _binary(name: str, fun: Callable[[Any, Any], Any], doc: str) -> Any:
    """A function that only promotes its two operands."""

    def promoting(x: Any, y: Any) -> Any:
        return fun(*promote_args(name, x, y))

    promoting.__name__ = promoting.__qualname__ = name
    promoting.__doc__ = doc
    return promoting


equal = _binary("equal", compare.eq, "`x == y`, elementwise.")
not_equal = _binary("not_equal", compare.ne, "`x != y`, elementwise.")
bitwise_and = _binary("bitwise_and", integers.bitwise_and, "`x & y`.")
bitwise_or = _binary("bitwise_or", integers.bitwise_or, "`x | y`.")
bitwise_xor = _binary("bitwise_xor", integers.bitwise_xor, "`x ^ y`.")
maximum = _binary("maximum", ar.max, "The greater of each two elements.")
minimum = _binary("minimum", ar.min, "The lesser of each two elements.")


def _ordering(name: str, fun: Callable[[Any, Any], Any], doc: str) -> Any:
    """A comparison; complex numbers by real part, then by imaginary part."""

    def ordering(x: Any, y: Any) -> Any:
        x, y = promote_args(name, x, y)
        if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
            return fun(x, y)
        rx, ry = parts.real(x), parts.real(y)
        by_imag = fun(parts.imag(x), parts.imag(y))
        return select(compare.eq(rx, ry), by_imag, fun(rx, ry))

    ordering.__name__ = ordering.__qualname__ = name
    ordering.__doc__ = doc
    return ordering


greater = _ordering("greater", compare.gt, "`x > y`, elementwise.")
greater_equal = _ordering("greater_equal", compare.ge, "`x >= y`, elementwise.")
less = _ordering("less", compare.lt, "`x < y`, elementwise.")
less_equal = _ordering("less_equal", compare.le, "`x <= y`, elementwise.")


def left_shift(x: Any, y: Any) -> Any:
    """`x << y`, of integers."""
    return integers.shift_left(*promote_args_numeric("left_shift", x, y))


def right_shift(x: Any, y: Any) -> Any:
    """`x >> y`, of integers; keeps the sign of signed ones."""
    x, y = promote_args_numeric("right_shift", x, y)
    if dtypes.issubdtype(typeof(x).dtype, np.unsignedinteger):
        return integers.shift_right_logical(x, y)
    return integers.shift_right_arithmetic(x, y)


# ------------------------------------------------------------------------ one operand


def negative(x: Any) -> Any:
    """`-x`."""
    (x,) = as_arrays("negative", x)
    return ar.neg(x)


def positive(x: Any) -> Any:
    """`+x`, which is `x`."""
    (x,) = as_arrays("positive", x)
    return x


def absolute(x: Any) -> Any:
    """The absolute value; of complex numbers, a real one."""
    (x,) = as_arrays("absolute", x)
    dtype = typeof(x).dtype
    unsigned = _is_bool(x) or dtypes.issubdtype(dtype, np.unsignedinteger)
    return x if unsigned else parts.abs(x)


def invert(x: Any) -> Any:
    """`~x`, of integers or booleans."""
    (x,) = as_arrays("invert", x)
    return integers.bitwise_not(x)


def conjugate(x: Any) -> Any:
    """The complex conjugate."""
    (x,) = as_arrays("conjugate", x)
    return parts.conj(x) if _is_complex(x) else x


def real(x: Any) -> Any:
    """The real part; of real numbers, themselves."""
    (x,) = as_arrays("real", x)
    return parts.real(x) if _is_complex(x) else x


def imag(x: Any) -> Any:
    """The imaginary part; of real numbers, zeros."""
    (x,) = as_arrays("imag", x)
    return parts.imag(x) if _is_complex(x) else full_like(x, 0)


def _is_complex(x: Any) -> bool:
    return dtypes.issubdtype(typeof(x).dtype, np.complexfloating)


# --------------------------------------------------------------------------- choices


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where `condition` holds, else of `y`."""
    check_array_like("where", condition, x, y)
    return _where(condition, x, y)


@outlined("_where")
def _where(condition: Any, x: Any, y: Any) -> Any:
    condition, x, y = map(as_value, (condition, x, y))
    if not _is_bool(condition):
        condition = compare.ne(condition, const(condition, 0))
    x, y = promote_dtypes(x, y)
    if typeof(condition).ndim == 0:
        x, y = broadcast_arrays(x, y)
    else:
        condition, x, y = broadcast_arrays(condition, x, y)
    return x if 0 in typeof(x).shape else select(condition, x, y)


@outlined("clip")
def clip(arr: Any, *, min: Any = None, max: Any = None) -> Any:
    """Elements kept between `min` and `max`, either of which may be None."""
    check_array_like("clip", arr)
    given = [v for v in (arr, min, max) if v is not None]
    if any(_is_complex(v) for v in given):
        raise errors.complex_clip()
    if min is not None:
        arr = maximum(min, arr)
    return arr if max is None else minimum(max, arr)


@outlined("round", static=("decimals",))
def round(a: Any, decimals: int = 0) -> Any:
    """Rounds to a number of decimals; halves go to even."""
    (a,) = as_arrays("round", a)
    decimals, dtype = operator.index(decimals), typeof(a).dtype
    if dtypes.issubdtype(dtype, np.integer):
        if decimals < 0:
            raise errors.round_integers()
        return a
    if decimals > np.log10(float(dtypes.finfo(dtype).max)):
        return a  # finer than the dtype can tell
    if _is_complex(a):
        return parts.complex(
            _round(parts.real(a), decimals), _round(parts.imag(a), decimals)
        )
    return _round(a, decimals)


def _round(x: Any, decimals: int) -> Any:
    to_even = ar.RoundingMethod.TO_NEAREST_EVEN
    if decimals == 0:
        return ar.round(x, to_even)
    dtype = typeof(x).dtype
    if dtype == np.float16:
        x = convert(x, np.dtype(np.float32))
    factor = const(x, 10**decimals)
    out = ar.div(ar.round(ar.mul(x, factor), to_even), factor)
    return convert(out, dtype) if dtype == np.float16 else out


# -------------------------------------------------------------- division with a rest


@outlined("floor_divide")
def floor_divide(x: Any, y: Any) -> Any:
    """`x // y`, rounded towards minus infinity."""
    x, y = promote_args_numeric("floor_divide", x, y)
    dtype = typeof(x).dtype
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return ar.div(x, y)
    if dtypes.issubdtype(dtype, np.integer):
        quotient = ar.div(x, y)
        signs_differ = not_equal(parts.sign(x), parts.sign(y))
        rest = not_equal(parts.rem(x, y), 0)
        too_large = bitwise_and(signs_differ, rest)
        return _where(too_large, subtract(quotient, 1), quotient)
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise errors.complex_floor_divide()
    return _float_divmod(x, y)[0]


@outlined("remainder")
def remainder(x: Any, y: Any) -> Any:
    """`x % y`, which has the sign of `y`."""
    x, y = promote_args_numeric("remainder", x, y)
    zero = const(x, 0)
    if dtypes.issubdtype(typeof(y).dtype, np.integer):
        y = _where(equal(y, 0), full_like(y, 1), y)
    truncated = parts.rem(x, y)
    not_zero = compare.ne(truncated, zero)
    signs_differ = not_equal(compare.lt(truncated, zero), compare.lt(y, zero))
    wrong = bitwise_and(signs_differ, not_zero)
    return select(wrong, add(truncated, y), truncated)


@outlined("divmod")
def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """`(x // y, x % y)`."""
    x, y = promote_args_numeric("divmod", x, y)
    if dtypes.issubdtype(typeof(x).dtype, np.integer):
        return floor_divide(x, y), remainder(x, y)
    return _float_divmod(x, y)


def _float_divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """As CPython does it (`float_divmod` in `floatobject.c`)."""
    rest = parts.rem(x, y)
    dividend = _where(equal(y, 0), x, subtract(x, rest))
    quotient = true_divide(dividend, y)
    has_rest = not_equal(rest, 0)
    wrong = bitwise_and(has_rest, not_equal(parts.sign(y), parts.sign(rest)))
    rest = select(wrong, add(rest, y), rest)
    quotient = select(wrong, subtract(quotient, 1.0), quotient)
    return ar.round(quotient), rest


# ----------------------------------------------------------------------------- power


def power(x: Any, y: Any) -> Any:
    """`x ** y`. An integer `y` that is known when traced becomes multiplications."""
    check_array_like("power", x, y)
    x, y = as_value(x), as_value(y)
    exponent = _known_integer(y)
    if exponent is not None:
        (base,) = promote_dtypes_numeric(x)
        return ar.integer_pow(base, exponent)
    x, y = promote_shapes(x, y)
    px, py = promote_args_numeric("power", x, y)
    if dtypes.issubdtype(typeof(px).dtype, np.integer):
        return _integer_power(px, py)
    floats = dtypes.issubdtype(typeof(x).dtype, np.inexact)
    if floats and dtypes.issubdtype(typeof(y).dtype, np.integer):
        return transcendental.pow(x, y)  # differentiable in x at 0
    return transcendental.pow(px, py)


def _known_integer(y: Any) -> int | None:
    if isinstance(y, Tracer) and y.concrete() is None:
        return None
    try:
        return operator.index(y)
    except TypeError:
        return None


def _integer_power(x: Any, y: Any) -> Any:
    """By repeated squaring; six bits of `y` suffice, as more would overflow."""
    zero, one = const(y, 0), const(y, 1)
    is_zero = bitwise_and(compare.eq(x, zero), compare.ne(y, zero))
    out = _where(is_zero, zero, one)
    for _ in range(6):
        out = _where(bitwise_and(y, one), multiply(out, x), out)
        x = multiply(x, x)
        y = integers.shift_right_logical(y, one)
    return out


# -------------------------------------------------------------------------- products


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    dtype: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`a @ b`: the product of matrices in the last two dimensions.

    `out_sharding` says over Explicit axes how the result is laid out.
    """
    to = canonicalize_sharding(out_sharding, "dot_general")
    a, b = as_arrays("matmul", a, b)
    avals = typeof(a), typeof(b)
    for i, aval in enumerate(avals):
        if aval.ndim < 1:
            raise errors.matmul_scalar(i, aval.ndim)
    a_shape, b_shape = avals[0].shape, avals[1].shape
    ranks = [max(len(s) - 2, 0) for s in (a_shape, b_shape)]
    count = max(ranks)
    a_lead = (None,) * (count - ranks[0]) + a_shape[: ranks[0]]
    b_lead = (None,) * (count - ranks[1]) + b_shape[: ranks[1]]
    plan = _MatmulPlan(avals, a_lead, b_lead)
    if len(a_shape) > 1:
        plan.a_other.append(count)
    if len(b_shape) > 1:
        plan.b_other.append(count + (len(a_shape) > 1))
    if dtype is None:
        wanted, weak = dtypes.result_type(a, b, return_weak_type_flag=True)
    else:
        wanted, weak = dtypes.canonicalize_user_dtype(dtype, "matmul"), False
    a, b = squeeze(a, plan.a_squeeze), squeeze(b, plan.b_squeeze)
    contracting = typeof(a).ndim - 1, typeof(b).ndim - 1 - (len(b_shape) > 1)
    out = dot_general(
        a,
        b,
        (((contracting[0],), (contracting[1],)), (plan.a_batch, plan.b_batch)),
        precision=precision,
        preferred_element_type=wanted,
        out_sharding=None if to is None else plan.before(to),
    )
    out = transpose(out, plan.order)
    if plan.both_squeeze:
        out = expand_dims(out, plan.both_squeeze)
    return cast(out, wanted, weak)


class _MatmulPlan:
    """What to do with each leading dimension: batch, squeeze, or leave free."""

    def __init__(self, avals: Any, a_lead: Sequence[Any], b_lead: Sequence[Any]):
        self.batch: list[int] = []
        self.a_other: list[int] = []
        self.b_other: list[int] = []
        self.a_batch: list[int] = []
        self.b_batch: list[int] = []
        self.a_squeeze: list[int] = []
        self.b_squeeze: list[int] = []
        self.both_squeeze: list[int] = []
        for i, (n, m) in enumerate(zip(a_lead, b_lead, strict=True)):
            self._place(avals, i, n, m)

    @property
    def order(self) -> list[int]:
        """How the dimensions of the product are permuted for the result."""
        kept = [*self.batch, *self.a_other, *self.b_other]
        return np.argsort(kept, kind="stable").tolist()

    def before(self, to: NamedSharding) -> NamedSharding:
        """The sharding of the product, from that of the result."""
        order = self.order
        spec = to.spec.padded(len(order) + len(self.both_squeeze))
        kept = [p for i, p in enumerate(spec.partitions) if i not in self.both_squeeze]
        found = dict(zip(order, kept, strict=False))
        parts = [found[i] for i in range(len(order))] + kept[len(order) :]
        return to.update(spec=spec.update(parts))

    def _place(self, avals: Any, i: int, n: int | None, m: int | None) -> None:
        a_at = len(self.batch) + len(self.a_other)
        b_at = len(self.batch) + len(self.b_other)
        if n is None:
            self.b_other.append(i)
        elif m is None:
            self.a_other.append(i)
        elif n == m and n != 1:
            self.a_batch.append(a_at)
            self.b_batch.append(b_at)
            self.batch.append(i)
        elif 1 not in (n, m):
            raise errors.matmul_types(*avals)
        else:
            if n == 1:
                self.a_squeeze.append(a_at + len(self.a_squeeze))
            if m == 1:
                self.b_squeeze.append(b_at + len(self.b_squeeze))
            if n == m:
                self.both_squeeze.append(i)
            else:
                (self.b_other if n == 1 else self.a_other).append(i)


def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    dtype: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The last dimension of `a` times the second to last of `b`; scalars multiply.

    `out_sharding` says over Explicit axes how the result is laid out.
    """
    a, b = as_arrays("dot", a, b)
    ndims = typeof(a).ndim, typeof(b).ndim
    if dtype is None:
        wanted, weak = dtypes.result_type(a, b, return_weak_type_flag=True)
    else:
        wanted, weak = dtypes.canonicalize_user_dtype(dtype, "dot"), False
    if 0 in ndims:
        numbers: Any = (((), ()), ((), ()))
    elif ndims[1] == 1:
        numbers = (((ndims[0] - 1,), (0,)), ((), ()))
    else:
        numbers = (((ndims[0] - 1,), (ndims[1] - 2,)), ((), ()))
    out = dot_general(
        a,
        b,
        numbers,
        precision=precision,
        preferred_element_type=wanted,
        out_sharding=out_sharding,
    )
    return cast(out, wanted, weak)
