"""Distributions: uniform, normal and others, made of uniform bits.

Each function checks its arguments and calls a compiled one. They compute what upstream
computes in the same order of operations, so that values agree bit by bit.

Upstream: `jax/_src/random/core.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import Shape
from minijax.core.errors import random as errors
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add, div, max, min, mul, neg, sub
from minijax.lax.compare import ge, gt, le, lt
from minijax.lax.convert import bitcast_convert_type, convert_element_type
from minijax.lax.gradients import stop_gradient
from minijax.lax.integers import bitwise_and, bitwise_or, shift_right_logical
from minijax.lax.parts import complex as complex_of
from minijax.lax.parts import nextafter, rem
from minijax.lax.promote import broadcast_shapes
from minijax.lax.select import clamp, select
from minijax.lax.shapes import (
    broadcast_to,
    broadcast_to_rank,
    canonicalize_shape,
    full_like,
)
from minijax.lax.slicing import index_in_dim
from minijax.lax.special import erf, erf_inv
from minijax.lax.transcendental import log, log1p
from minijax.random.keys import check_key, random_bits, split
from minijax.transforms.axis_types import with_out_sharding
from minijax.transforms.jit import jit


def float_dtype(name: str, dtype: Any) -> Any:
    """The canonical dtype for a float argument `dtype`; the default float for None."""
    found = dtypes.canonicalize_user_dtype(float if dtype is None else dtype, name)
    if not dtypes.issubdtype(found, np.floating):
        raise errors.sampler_dtype(name, "a float", found)
    return found


def check_parameters(name: str, shape: Any, *parameters: Any) -> Shape:
    """The shape of a sample: as asked for, or what the parameters broadcast to."""
    shapes = [typeof(p).shape for p in parameters]
    if shape is None:
        return broadcast_shapes(*shapes)
    shape = canonicalize_shape(shape)
    result = broadcast_shapes(shape, *shapes)
    if result != shape:
        raise errors.parameter_shapes(name, result, shape)
    return shape


# -------------------------------------------------------------------------- uniform


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Any:
    """Floats between `minval`, inclusive, and `maxval`, exclusive.

    ValueError for a dtype that is no float.

    >>> import minijax
    >>> minijax.random.uniform(minijax.random.key(0))
    Array(0.947667, dtype=float32)
    """
    check_key("uniform", key)
    dtype, shape = float_dtype("uniform", dtype), canonicalize_shape(shape)
    return _uniform(key, minval, maxval, shape, dtype, out_sharding)


def uniform_floats(
    key: Any, low: Any, high: Any, shape: Shape, dtype: Any, out_sharding: Any = None
) -> Any:
    """Random bits as the mantissa of a float between 1 and 2, which is then moved."""
    low, high = (
        broadcast_to_rank(convert_element_type(x, dtype), len(shape))
        for x in (low, high)
    )
    info = dtypes.finfo(dtype)
    kind = np.dtype(f"uint{info.bits}")
    drawn = np.dtype(np.uint8) if info.nmant < 8 else kind
    bits = random_bits(key, shape, drawn, out_sharding)
    bits = convert_element_type(bits, kind)
    shift = drawn.itemsize * 8 - info.nmant
    mantissa = shift_right_logical(bits, kind.type(shift))
    one = np.ones((), dtype)
    floats = bitcast_convert_type(bitwise_or(mantissa, one.view(kind)[()]), dtype)
    floats = sub(floats, one[()])
    return max(low, add(mul(floats, sub(high, low)), low))


_uniform = jit(uniform_floats, static_argnums=(3, 4, 5))


# --------------------------------------------------------------------------- normal


def normal(
    key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Samples of mean 0 and variance 1; of a complex dtype, in both parts together.

    ValueError for a dtype that is neither float nor complex.

    >>> import minijax
    >>> minijax.random.normal(minijax.random.key(0))
    Array(1.6226422, dtype=float32)
    """
    check_key("normal", key)
    dtype = dtypes.canonicalize_user_dtype(float if dtype is None else dtype, "normal")
    if not dtypes.issubdtype(dtype, np.inexact):
        raise errors.sampler_dtype("normal", "a float or complex", dtype)
    return _normal(key, canonicalize_shape(shape), dtype, out_sharding)


def _any_normal(key: Any, shape: Shape, dtype: Any, out_sharding: Any) -> Any:
    if not dtypes.issubdtype(dtype, np.complexfloating):
        return _normal_floats(key, shape, dtype, out_sharding)
    part = np.zeros((), dtype).real.dtype
    keys = [index_in_dim(split(key), i, 0, keepdims=False) for i in (0, 1)]
    parts = [_normal_floats(k, shape, part, out_sharding) for k in keys]
    return div(complex_of(*parts), np.asarray(np.sqrt(2), dtype)[()])


def _normal_floats(key: Any, shape: Shape, dtype: Any, out_sharding: Any) -> Any:
    one = np.ones((), dtype)
    low = np.nextafter(-one, np.zeros((), dtype), dtype=dtype)[()]
    drawn = _uniform(key, low, one[()], shape, dtype, out_sharding)
    return mul(np.asarray(np.sqrt(2), dtype)[()], erf_inv(drawn))


_normal = jit(_any_normal, static_argnums=(1, 2, 3))


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Samples of the normal distribution that lie between `lower` and `upper`.

    >>> import minijax
    >>> -1 < minijax.random.truncated_normal(minijax.random.key(0), -1, 2) < 2
    Array(True, dtype=bool)
    """
    check_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = check_parameters("truncated_normal", shape, lower, upper)

    def draw(key: Any, lower: Any, upper: Any) -> Any:
        return _truncated(key, lower, upper, shape, dtype)

    return with_out_sharding(draw, "truncated_normal", out_sharding)(key, lower, upper)


def _truncated_normal(key: Any, low: Any, high: Any, shape: Shape, dtype: Any) -> Any:
    root = np.asarray(np.sqrt(2), dtype)[()]
    low, high = convert_element_type(low, dtype), convert_element_type(high, dtype)
    ends = erf(div(low, root)), erf(div(high, root))
    samples = mul(root, erf_inv(_uniform(key, *ends, shape, dtype, None)))
    # Rounding may have brought a sample to an end, or past it.
    inf = np.asarray(np.inf, dtype)[()]
    low = broadcast_to(nextafter(stop_gradient(low), inf), shape)
    high = broadcast_to(nextafter(stop_gradient(high), neg(inf)), shape)
    return min(high, max(low, samples))


_truncated = jit(_truncated_normal, static_argnums=(3, 4))


# ------------------------------------------------------------------------- integers


def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Integers between `minval`, inclusive, and `maxval`, exclusive.

    The bounds may be arrays that broadcast to `shape`. TypeError for a dtype that is
    no integer, ValueError for bounds that do not broadcast.

    >>> import minijax
    >>> minijax.random.randint(minijax.random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    check_key("randint", key)
    dtype = dtypes.canonicalize_user_dtype(int if dtype is None else dtype, "randint")
    if not dtypes.issubdtype(dtype, np.integer):
        raise errors.randint_dtype(dtype)
    low, high = (_as_array(x) for x in (minval, maxval))
    shape = check_parameters("randint", shape, low, high)
    return _randint(key, low, high, shape, dtype, out_sharding)


def _as_array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, (list, tuple)) else x


def _random_integers(
    key: Any, low: Any, high: Any, shape: Shape, dtype: Any, out_sharding: Any
) -> Any:
    if dtypes.iinfo(dtype).bits >= 32:
        return _wide_integers(key, low, high, shape, dtype, out_sharding)
    # Those of few bits are drawn as int32, which also holds one past the greatest.
    info, wide = dtypes.iinfo(dtype), np.dtype(np.int32)
    first, last = np.int32(info.min), np.int32(info.max)
    low = clamp(first, convert_element_type(low, wide), last)
    high = clamp(first, convert_element_type(high, wide), np.int32(last + 1))
    drawn = _wide_integers(key, low, high, shape, wide, out_sharding)
    return convert_element_type(drawn, dtype)


def _wide_integers(
    key: Any, low: Any, high: Any, shape: Shape, dtype: Any, out_sharding: Any
) -> Any:
    """Draws twice as many bits as an integer has, and takes the remainder.

    That is nearly without bias. The remainder of the long number `a * m + b`, where
    `m = 2 ** bits`, is computed from those of `a`, `b` and `m`.
    """
    greatest = np.asarray(dtypes.iinfo(dtype).max, dtype)[()]
    low, high = _as_integers(low), _as_integers(high)
    beyond = gt(high, clip_to(greatest, typeof(high).dtype))
    low, high = (broadcast_to_rank(clip_to(x, dtype), len(shape)) for x in (low, high))
    unsigned = np.dtype(f"uint{dtypes.iinfo(dtype).bits}")
    keys = [index_in_dim(split(key), i, 0, keepdims=False) for i in (0, 1)]
    upper, lower = (random_bits(k, shape, unsigned, out_sharding) for k in keys)

    span = convert_element_type(sub(high, low), unsigned)
    one = full_like(span, 1)
    span = select(broadcast_to(le(high, low), typeof(span).shape), one, span)
    whole = bitwise_and(beyond, gt(high, low))  # `high` is one more than fits
    whole = broadcast_to(whole, typeof(span).shape)
    span = select(whole, add(span, unsigned.type(1)), span)
    m = rem(full_like(span, 1 << (unsigned.itemsize * 4)), span)
    m = rem(mul(m, m), span)
    offset = add(mul(rem(upper, span), m), rem(lower, span))
    offset = rem(offset, span)
    return add(low, convert_element_type(offset, dtype))


_randint = jit(_random_integers, static_argnums=(3, 4, 5))


def _as_integers(x: Any) -> Any:
    if dtypes.issubdtype(typeof(x).dtype, np.integer):
        return x
    return convert_element_type(x, dtypes.default_dtype("i"))


def clip_to(x: Any, dtype: Any) -> Any:
    """Integers converted to a dtype; those out of its range to its nearest."""
    found, wanted = dtypes.iinfo(typeof(x).dtype), dtypes.iinfo(dtype)
    if found.min < wanted.min:
        x = max(x, np.asarray(wanted.min, typeof(x).dtype)[()])
    if found.max > wanted.max:
        x = min(x, np.asarray(wanted.max, typeof(x).dtype)[()])
    return convert_element_type(x, dtype)


# ------------------------------------------------------------------- other samplers


def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, *, out_sharding: Any = None
) -> Any:
    """Bools that are true with probability `p`, of the shape of `p` by default.

    TypeError for a `p` that is no float.

    >>> import minijax
    >>> minijax.random.bernoulli(minijax.random.key(0), 0.5, (4,))
    Array([False, False,  True,  True], dtype=bool)
    """
    check_key("bernoulli", key)
    aval = typeof(p)
    if not dtypes.issubdtype(aval.dtype, np.floating):
        raise errors.bernoulli_dtype(aval.dtype)
    shape = check_parameters("bernoulli", shape, p)

    def draw(key: Any, p: Any) -> Any:
        return _bernoulli(key, p, shape)

    return with_out_sharding(draw, "bernoulli", out_sharding)(key, p)


def _less_than(key: Any, p: Any, shape: Shape) -> Any:
    dtype = typeof(p).dtype
    drawn = _uniform(key, 0.0, 1.0, shape, dtype, None)
    return lt(drawn, broadcast_to(convert_element_type(p, dtype), shape))


_bernoulli = jit(_less_than, static_argnums=2)


def exponential(
    key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Samples of the density `exp(-x)` for positive `x`.

    >>> import minijax
    >>> minijax.random.exponential(minijax.random.key(0)) > 0
    Array(True, dtype=bool)
    """
    check_key("exponential", key)
    dtype = float_dtype("exponential", dtype)
    shape = canonicalize_shape(shape)

    def draw(key: Any) -> Any:
        return _exponential(key, shape, dtype)

    return with_out_sharding(draw, "exponential", out_sharding)(key)


_exponential = jit(
    lambda key, shape, dtype: neg(
        log1p(neg(_uniform(key, 0.0, 1.0, shape, dtype, None)))
    ),
    static_argnums=(1, 2),
)


def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Samples of the density `exp(-(x + exp(-x)))`.

    `mode` is `"low"`, the default, or `"high"`, which draws more bits and so reaches
    farther.

    >>> import minijax
    >>> minijax.random.gumbel(minijax.random.key(0), (3,)).shape
    (3,)
    """
    check_key("gumbel", key)
    if mode not in (None, "low", "high"):
        raise errors.unknown_mode("gumbel", mode)
    dtype = float_dtype("gumbel", dtype)
    shape = canonicalize_shape(shape)

    def draw(key: Any) -> Any:
        return _gumbel(key, shape, dtype, mode or "low")

    return with_out_sharding(draw, "gumbel", out_sharding)(key)


def _gumbel_floats(key: Any, shape: Shape, dtype: Any, mode: str) -> Any:
    info = dtypes.finfo(dtype)
    if mode == "low":
        u = _uniform(key, info.tiny, 1.0, shape, dtype, None)
        return neg(log(neg(log(u))))
    both = _uniform(key, 0.0, 1.0, (2, *shape), dtype, None)
    high, low = (index_in_dim(both, i, 0, keepdims=False) for i in (0, 1))
    unit, half, fine = (
        np.asarray(x, dtype)[()] for x in (2.0**-info.nmant, 0.5, _finest(info))
    )
    x = select(ge(high, half), high, add(add(high, mul(unit, low)), fine))
    return neg(log(neg(log1p(neg(x)))))


def _finest(info: Any) -> float:
    return np.maximum(2.0 ** -(2 * info.nmant + 1), float(info.tiny))


_gumbel = jit(_gumbel_floats, static_argnums=(1, 2, 3))
