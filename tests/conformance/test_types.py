"""Promotion: operators on arrays, numpy values and Python scalars of every dtype."""

import operator
from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, text

V = np.arange(1, 4, dtype=np.float32)
DTYPES = ["bool", "int8", "uint8", "int32", "uint32", "float16", "float32", "complex64"]
SCALARS: list[Any] = [True, 2, 2.0, 2j, np.int8(2), np.float32(2), np.float16(2)]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "eq", "and_"]


def _array(dtype: str) -> np.ndarray:
    return np.arange(1, 4).astype(dtype)


def _type(jax: Any, f: Any, *args: Any) -> Any:
    """The type of the result, without computing it; or what is wrong."""
    try:
        return str(jax.make_jaxpr(f)(*args).out_avals[0])
    except TypeError as e:
        return type(e).__name__


def arrays_with_arrays(jax: Any) -> Any:
    return {
        f"{op} {a} {b}": _type(jax, getattr(operator, op), _array(a), _array(b))
        for op in ("add", "truediv")
        for a in DTYPES
        for b in DTYPES
    }


def arrays_with_scalars(jax: Any) -> Any:
    return {
        f"{op} {a} {s!r}": _type(
            jax, lambda x, s=s, f=op: getattr(operator, f)(x, s), x
        )
        for op in BINARY
        for a in ("bool", "int8", "int32", "float16", "float32", "complex64")
        for s in SCALARS
        for x in [_array(a)]
    }


def scalars_with_arrays(jax: Any) -> Any:
    return {
        f"{s!r} {op} {a}": _type(
            jax, lambda x, s=s, f=op: getattr(operator, f)(s, x), x
        )
        for op in ("add", "sub", "truediv", "pow", "mod")
        for a in ("int8", "int32", "float16", "float32", "complex64")
        for s in SCALARS[:4]
        for x in [_array(a)]
    }


def weak_types_spread(jax: Any) -> Any:
    lax = jax.lax
    programs = [
        lambda x: x + 1,
        lambda x: x * x,
        lambda x: lax.sin(x),
        lambda x: lax.full_like(x, 3),
        lambda x: lax.convert_element_type(x, np.float32),
        lambda x: lax.neg(x) - 1,
        lambda x: lax.select(x > 0, x, x),
        lambda x: lax.broadcast(x, (2,)),
        lambda x: lax.reduce_sum(lax.broadcast(x, (2,)), (0,)),
        lambda x: -x,
        lambda x: x**2,
        lambda x: x == 1,
    ]
    return [[_type(jax, f, x) for x in (1.0, 2, np.float32(1), 1j)] for f in programs]


def operators_print(jax: Any) -> Any:
    w = V.astype(np.int32)
    return [
        text(jax, lambda x, y: (x + y, x - y, x * y, x / y), V, V),
        text(jax, lambda x, y: (x // y, x % y, x**y), V, V),
        text(jax, lambda x, y: (x // y, x % y, x / y), w, w),
        text(jax, lambda x: (x**2, x**3.0, x**0.5, x**-1, 2**x), V),
        text(jax, lambda x: (-x, +x, abs(x)), V),
        text(jax, lambda x, y: (x < y, x <= y, x == y, x != y, x > y, x >= y), V, V),
        text(jax, lambda x, y: (x & y, x | y, x ^ y, ~x, x << y, x >> y), w, w),
        text(jax, lambda x: (1 + x, 1 - x, 2 * x, 1 / x), V),
        text(jax, lambda x, y: x + y, V, V[:1]),
        text(jax, lambda x, y: x * y, V, V.reshape(3, 1)),
        text(jax, lambda x, y: x + y, V, w),
        text(jax, lambda x, y: x @ y, V.reshape(1, 3), V),
        text(jax, lambda x: list(x), V),
        text(jax, lambda x: x.T, V.reshape(1, 3)),
        text(jax, lambda x: round(x), V),
        text(jax, lambda x: divmod(x, 2), V),
    ]


def values_of_operators(jax: Any) -> Any:
    x, y = jax.device_put(V), jax.device_put(V[::-1] - 2)
    f = jax.jit(
        lambda x, y: (x // y, x % y, y**3, abs(y), 2 - x, x @ y, -y % x, divmod(y, x))
    )
    return [x + y, x * 2, 2 / x, x > y, -x, f(x, x), f(x, y)[2:]]


def wrong_operands(jax: Any) -> Any:
    x = jax.device_put(V)
    return [
        error(lambda: x + "text"),
        error(lambda: "text" + x),
        error(lambda: x + None),
        error(lambda: operator.add(x, [1.0])),
        error(lambda: x + V[:2]),
        error(lambda: x & x),
        error(lambda: ~x),
        error(lambda: x @ x[:2]),
        error(lambda: x @ 1.0),
        error(lambda: bool(x)),
        error(lambda: int(x)),
        error(lambda: float(x)).name,
        error(lambda: [1, 2][x]),
        error(lambda: len(x[0])),
        error(lambda: iter(x[0])).name,
        error(lambda: hash(x)),
        error(lambda: x.__setitem__(0, 1.0)),
        error(jax.jit(lambda x: x.__setitem__(0, 1.0)), x),
        error(jax.jit(lambda x: x + "text"), x),
        error(jax.jit(lambda x: iter(x)), 1.0),
    ]


def scalars_as_python(jax: Any) -> Any:
    x = jax.device_put(np.float32(2.5))
    n = jax.device_put(np.int32(3))
    return [
        float(x),
        int(x),
        complex(x),
        bool(x),
        [10, 20, 30, 40][n],
        list(range(n)),
        f"{x:.2f}",
        str(n),
        repr(x),
        repr(jax.device_put(V)),
        repr(jax.device_put(V.astype(np.float16))),
        repr(jax.device_put(V > 1)),
        str(jax.device_put(V)),
    ]


test = conformance(globals())
