"""Functions of neural networks: activations, softmax, one_hot.

Only what people write in examples. Names and values are upstream's; where upstream
gives a derivative by hand (that of `relu` at zero, say), the formula here is one that
has that derivative by itself.

Upstream: `jax/_src/nn/functions.py`, `jax/_src/ops/special.py`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import shapes as errors
from minijax.core.mesh import NamedSharding, PartitionSpec
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.trace import typeof
from minijax.lax import compare, shapes
from minijax.lax import transcendental as tr
from minijax.lax.convert import convert
from minijax.lax.gradients import stop_gradient
from minijax.lax.joining import split
from minijax.lax.numeric import (
    absolute,
    add,
    clip,
    maximum,
    minimum,
    multiply,
    negative,
    power,
    subtract,
    true_divide,
    where,
)
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays, promote_args_inexact
from minijax.lax.rules import const
from minijax.lax.select import select
from minijax.lax.shapes import canonicalize_axis, expand_dims, full_like
from minijax.lax.special import erfc
from minijax.lax.statistics import axes_of, max, mean, sum
from minijax.numpy.elementwise import exp, expm1, isfinite, log, logaddexp, sign
from minijax.numpy.elementwise import square as squared
from minijax.numpy.elementwise import tanh as tanh

Axis = Any

# ------------------------------------------------------------------------ activations


@outlined("relu")
def relu(x: Any) -> Any:
    """`max(x, 0)`, whose derivative at 0 is 0.

    >>> import minijax, minijax.numpy as jnp
    >>> minijax.nn.relu(jnp.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    (x,) = as_arrays("relu", x)
    # By `select`, as a tie of `max` has the derivative 1/2. A NaN stays one.
    return select(compare.le(x, const(x, 0)), full_like(x, 0), x)


@outlined("relu6")
def relu6(x: Any) -> Any:
    """`min(max(x, 0), 6)`, whose derivative at both bounds is 0."""
    x = relu(x)
    return select(compare.ge(x, const(x, 6)), full_like(x, 6), x)


@outlined("leaky_relu")
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """`x`, times `negative_slope` where it is negative."""
    (x,) = as_arrays("leaky_relu", x)
    return where(compare.ge(x, const(x, 0)), x, multiply(negative_slope, x))


@outlined("elu")
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """`x`, or `alpha * (exp(x) - 1)` where it is negative."""
    (x,) = as_arrays("elu", x)
    is_positive = compare.gt(x, const(x, 0))
    # What is not chosen must not overflow, or the derivative would be NaN.
    safe = where(compare.gt(x, const(x, 0)), 0.0, x)
    return where(is_positive, x, multiply(alpha, expm1(safe)))


@outlined("celu")
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """`max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)`."""
    return add(
        maximum(x, 0.0), multiply(alpha, expm1(true_divide(minimum(x, 0.0), alpha)))
    )


@outlined("selu")
def selu(x: Any) -> Any:
    """`elu`, scaled so that mean 0 and variance 1 stay what they are."""
    return multiply(
        1.0507009873554804934193349852946, elu(x, 1.6732632423543772848170429916717)
    )


def gelu(x: Any, approximate: bool = True) -> Any:
    """`x` times the probability that a normal variable is less.

    `approximate` takes a formula with `tanh` for that.

    >>> import minijax
    >>> minijax.nn.gelu(1.0)
    Array(0.841192, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("gelu", x)
    if not approximate:
        half = multiply(0.5, x)
        return multiply(half, erfc(multiply(negative(x), const(x, np.sqrt(0.5)))))
    inner = multiply(np.sqrt(2 / np.pi).item(), add(x, multiply(0.044715, power(x, 3))))
    return multiply(x, multiply(0.5, add(1.0, tanh(inner))))


def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`.

    >>> import minijax
    >>> minijax.nn.sigmoid(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return tr.logistic(*promote_args_inexact("sigmoid", x))


@outlined("silu")
def silu(x: Any) -> Any:
    """`x * sigmoid(x)`."""
    (x,) = promote_args_inexact("silu", x)
    return multiply(x, sigmoid(x))


swish = silu


@outlined("softplus")
def softplus(x: Any) -> Any:
    """`log(1 + exp(x))`, without overflow."""
    return logaddexp(x, 0.0)


@outlined("log_sigmoid")
def log_sigmoid(x: Any) -> Any:
    """`log(sigmoid(x))`, without overflow."""
    return negative(softplus(negative(x)))


@outlined("soft_sign")
def soft_sign(x: Any) -> Any:
    """`x / (1 + abs(x))`."""
    return true_divide(x, add(absolute(x), 1))


@outlined("hard_tanh")
def hard_tanh(x: Any) -> Any:
    """`x`, kept between -1 and 1."""
    (x,) = as_arrays("hard_tanh", x)
    above, below = compare.gt(x, const(x, 1)), compare.lt(x, const(x, -1))
    return where(above, 1, where(below, -1, x))


@outlined("hard_sigmoid")
def hard_sigmoid(x: Any) -> Any:
    """`relu6(x + 3) / 6`."""
    return true_divide(relu6(add(x, 3.0)), 6.0)


@outlined("squareplus")
def squareplus(x: Any, b: Any = 4) -> Any:
    """`(x + sqrt(x ** 2 + b)) / 2`."""
    (x,) = promote_args_inexact("squareplus", x)
    return true_divide(add(x, tr.sqrt(add(squared(x), b))), 2)


@outlined("glu", static=("axis",))
def glu(x: Any, axis: int = -1) -> Any:
    """The first half along an axis, times the sigmoid of the second."""
    (x,) = as_arrays("glu", x)
    at = canonicalize_axis(axis, typeof(x).ndim)
    half = typeof(x).shape[at] // 2
    first, second = split(x, (half, half), at)
    return multiply(first, sigmoid(second))


# ---------------------------------------------------------------------------- softmax


def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """Positive numbers of sum 1 along an axis, in proportion to `exp(x)`.

    `where`, a mask, leaves elements out; they become 0.

    >>> import minijax, minijax.numpy as jnp
    >>> minijax.nn.softmax(jnp.zeros(2))
    Array([0.5, 0.5], dtype=float32)
    """
    unnormalized = exp(_shifted("softmax", x, axis, where))
    total = sum(unnormalized, axis, where=where, keepdims=True)
    return _masked(where, true_divide(unnormalized, total), 0)


def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """`log(softmax(x))`, without overflow; -inf where `where` leaves elements out."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    return _log_softmax(x, axis=axis, where=where)


@outlined("log_softmax", static=("axis",))
def _log_softmax(x: Any, *, axis: Axis, where: Any) -> Any:
    shifted = _shifted("log_softmax", x, axis, where)
    total = log(sum(exp(shifted), axis, where=where, keepdims=True))
    return _masked(where, subtract(shifted, total), -np.inf)


def _shifted(name: str, x: Any, axis: Axis, mask: Any) -> Any:
    """`x` minus its maximum, which changes no proportion and prevents overflow."""
    (x,) = promote_args_inexact(name, x)
    top = max(x, axis, where=mask, initial=-np.inf, keepdims=True)
    if mask is not None:
        x = where(mask, x, top)  # else what is left out may overflow
    return subtract(x, stop_gradient(top))


def _masked(mask: Any, x: Any, hidden: Any) -> Any:
    return x if mask is None else where(mask, x, hidden)


def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """`log(sum(b * exp(a)))`, without overflow.

    Args:
      a: an array.
      axis: over what is summed; None means everything.
      b: factors, 1 by default.
      keepdims: whether the reduced axes stay, with size 1.
      return_sign: whether to return the logarithm of the absolute value, and the sign.
      where: a mask of what is summed.

    >>> import minijax, minijax.numpy as jnp
    >>> minijax.nn.logsumexp(jnp.array([1000.0, 0.0]))
    Array(1000., dtype=float32)
    """
    (a,) = promote_args_inexact("logsumexp", a)
    axes = axes_of(a, axis)
    mask = where
    if b is not None:
        a, b = promote_args_inexact("logsumexp", a, b)
        mask = _both(mask, compare.ne(b, const(b, 0)))
    top = max(a, axes, where=mask, initial=-np.inf)
    top = stop_gradient(select(isfinite(top), top, full_like(top, 0)))
    terms = exp(subtract(a, expand_dims(top, axes)))
    terms = terms if b is None else multiply(terms, b)
    total = sum(terms, axes, where=mask)
    signs, total = sign(total), absolute(total)
    out = add(log(total), top)
    if b is not None and not return_sign:
        out = _masked(compare.ge(signs, const(signs, 0)), out, np.nan)
    if keepdims:
        out, signs = expand_dims(out, axes), expand_dims(signs, axes)
    return (out, signs) if return_sign else out


def _both(mask: Any, other: Any) -> Any:
    return other if mask is None else multiply(mask, other)


# ------------------------------------------------------------------------------ others


def one_hot(
    x: Any,
    num_classes: int,
    *,
    dtype: Any = None,
    axis: int = -1,
    out_sharding: Any = None,
) -> Any:
    """Vectors that are 1 at the index `x`, and 0 elsewhere.

    An index that is out of range gives only zeros. `out_sharding` may shard the new
    dimension over Explicit mesh axes; `ShardingTypeError` where it has the others
    sharded in another way than `x`.

    >>> import minijax, minijax.numpy as jnp
    >>> minijax.nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    kind = dtypes.canonicalize_user_dtype(float if dtype is None else dtype, "one_hot")
    x = np.asarray(x) if isinstance(x, list | tuple) else x
    (x,) = as_arrays("one_hot", x)
    at = canonicalize_axis(axis, typeof(x).ndim + 1)
    to = canonicalize_sharding(out_sharding, "jax.nn.one_hot")
    count = operator.index(num_classes)
    return _one_hot(x, num_classes=count, dtype=kind, axis=at, out_sharding=to)


@outlined("_one_hot", static=("num_classes", "dtype", "axis", "out_sharding"))
def _one_hot(
    x: Any, *, num_classes: int, dtype: Any, axis: int, out_sharding: Any
) -> Any:
    rank = typeof(x).ndim + 1
    row = expand_dims(x, (axis,))
    shape = [1] * rank
    shape[axis] = num_classes
    to = None if out_sharding is None else _class_sharding(x, axis, out_sharding)
    classes = shapes.broadcasted_iota(typeof(x).dtype, shape, axis, out_sharding=to)
    return convert(compare.eq(row, classes), dtype)


def _class_sharding(x: Any, axis: int, to: NamedSharding) -> NamedSharding:
    """Of the row of classes: only its own dimension is sharded."""
    spec = to.spec.for_aval(typeof(x).ndim + 1)
    found = typeof(x).sharding.spec
    rest = PartitionSpec(*spec[:axis], *spec[axis + 1 :])
    if rest != found:
        raise errors.one_hot_sharding(found, rest)
    own = [spec[axis] if d == axis else None for d in range(len(spec))]
    return to.update(spec=PartitionSpec(*own))


@outlined("standardize", static=("axis",))
def standardize(
    x: Any,
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
) -> Any:
    """Shifted and scaled to mean 0 and variance 1 along an axis."""
    (x,) = promote_args_inexact("standardize", x)
    if mean is None:
        mean = _mean(x, axis, where)
    if variance is None:
        variance = subtract(_mean(squared(x), axis, where), squared(mean))
        variance = clip(variance, min=0)  # rounding may have made it negative
    return multiply(subtract(x, mean), tr.rsqrt(add(variance, epsilon)))


def _mean(x: Any, axis: Axis, mask: Any) -> Any:
    return mean(x, axis, keepdims=True, where=mask)
