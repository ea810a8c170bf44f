"""Arrays made from values, or from nothing but a shape.

Every function returns an array, also under a trace: there a numpy value becomes a
constant of the program, and a Python scalar a literal.

Upstream: `jax/_src/numpy/array_constructors.py`, `array_creation.py`.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import abstract_token
from minijax.core.errors import dtypes as dtype_errors
from minijax.core.errors import numpy as errors
from minijax.core.mesh import NamedSharding
from minijax.core.out_sharding import canonicalize_sharding, typed
from minijax.core.pytree import tree_leaves
from minijax.core.trace import is_value, typeof
from minijax.lax import shapes
from minijax.lax.arithmetic import add, div, floor, mul, sub
from minijax.lax.convert import convert, convert_element_type_p
from minijax.lax.gradients import copy as lax_copy
from minijax.lax.joining import concatenate
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays, as_value, broadcast_arrays
from minijax.lax.rules import const
from minijax.lax.rules import full_like as lax_full_like
from minijax.lax.shapes import (
    broadcasted_iota,
    canonicalize_shape,
    expand_dims,
    is_array,
)
from minijax.runtime.placement import device_put as put_value
from minijax.transforms.place import device_put

# ---------------------------------------------------------------------- from values


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of a value, a numpy array, or a nested list of such things.

    A Python number gives a weakly typed scalar. TypeError for what is no array of
    numbers, ValueError for None.

    >>> import minijax.numpy as jnp
    >>> jnp.asarray([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    value = as_value(a)
    if dtype is not None:
        dtype = dtypes.canonicalize_user_dtype(dtype, "array")
    if isinstance(value, list | tuple):
        out = _of_sequence(value, dtype)
    elif is_value(value):
        if typeof(value) is abstract_token:
            raise dtype_errors.not_an_array_type(a, "object")
        out = _of_value(value, dtype)
    elif value is None:
        raise errors.array_of_none()
    else:
        out = _of_value(_numpy(value), dtype)
    if copy and out is a:
        out = lax_copy(out)
    if device is not None:
        return device_put(out, device)
    to = canonicalize_sharding(out_sharding, "jnp.array")
    return out if to is None else _sharded(out, to)


def _sharded(x: Any, to: NamedSharding) -> Any:
    """An array of this sharding over Explicit axes."""
    aval, to = typeof(x), typed(to, typeof(x).shape)
    if aval.sharding == to:
        return x
    return convert_element_type_p.bind1(
        x, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=to
    )


def array(
    object: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The same, but always a copy, and with at least `ndmin` dimensions.

    >>> import minijax.numpy as jnp
    >>> jnp.array([[1], [2]], dtype=jnp.int8)
    Array([[1], [2]], dtype=int8)
    """
    out = asarray(object, dtype, copy=copy, device=device, out_sharding=out_sharding)
    return expand_dims(out, range(ndmin - out.ndim)) if out.ndim < ndmin else out


def _numpy(x: Any) -> Any:
    """Something foreign as a numpy array, if numpy can read numbers from it."""
    found = np.asarray(x)
    if not dtypes.is_array_dtype(found.dtype):
        raise dtype_errors.not_an_array_type(x, found.dtype)
    return found


def _of_value(x: Any, dtype: Any) -> Any:
    if is_array(x):
        return x if dtype is None else convert(x, dtype)
    if dtype is not None:
        x = _cast(x, dtype)
    return put_value(x)


def _cast(x: Any, dtype: Any) -> Any:
    return np.asarray(x, dtype if isinstance(x, int) else None).astype(dtype)


def _of_sequence(x: Sequence[Any], dtype: Any) -> Any:
    leaves = [as_value(leaf) for leaf in tree_leaves(x, is_leaf=lambda v: v is None)]
    if builtins.any(leaf is None for leaf in leaves):
        raise errors.array_of_none()
    for leaf in leaves:
        if not is_value(leaf):
            _numpy(leaf)
    if dtype is None:
        dtype = dtypes.result_type(*leaves) if leaves else dtypes.default_dtype("f")
    if builtins.any(is_value(v) and is_array(v) for v in leaves):
        return concatenate([expand_dims(asarray(v, dtype), (0,)) for v in x], 0)
    return put_value(np.array(x, dtype))


def copy(a: Any) -> Any:
    """A copy of an array."""
    return array(a)


def astype(x: Any, dtype: Any) -> Any:
    """Elements converted to a dtype."""
    return asarray(x).astype(dtype)


# --------------------------------------------------------------- filled with a value


def _made(x: Any) -> Any:
    """A scalar that lax left to the trace, as an array."""
    return x if is_array(x) else put_value(x)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array that holds one value everywhere, or an array broadcast to `shape`.

    >>> import minijax.numpy as jnp
    >>> jnp.full((2,), 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    out_sharding = canonicalize_sharding(out_sharding, "full")
    (fill_value,) = as_arrays("full", fill_value)
    if dtype is not None:
        dtype = dtypes.canonicalize_user_dtype(dtype, "full")
    if typeof(fill_value).shape:
        value = asarray(fill_value, dtype)
        out = shapes.broadcast_to(value, canonicalize_shape(shape))
        out = out if out_sharding is None else device_put(out, out_sharding)
    else:
        out = _made(shapes.full(shape, fill_value, dtype, sharding=out_sharding))
    return out if device is None else device_put(out, device)


def zeros(
    shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array of zeros, of dtype float32 by default.

    >>> import minijax.numpy as jnp
    >>> jnp.zeros((2,))
    Array([0., 0.], dtype=float32)
    """
    kind = float if dtype is None else dtype
    to = canonicalize_sharding(out_sharding, "jnp.zeros")
    return full(shape, 0, kind, device=device, out_sharding=to)


def ones(
    shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array of ones, of dtype float32 by default.

    >>> import minijax.numpy as jnp
    >>> jnp.ones(2, jnp.int32)
    Array([1, 1], dtype=int32)
    """
    kind = float if dtype is None else dtype
    to = canonicalize_sharding(out_sharding, "jnp.ones")
    return full(shape, 1, kind, device=device, out_sharding=to)


def empty(
    shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """The same as `zeros`: there is no memory that was not written."""
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array like `a`, in shape, dtype and Explicit sharding, that holds one value.

    `a` may also be anything that has a shape and a dtype.

    >>> import minijax.numpy as jnp
    >>> jnp.full_like(jnp.zeros(2), 3)
    Array([3., 3.], dtype=float32)
    """
    if dtype is not None:
        dtype = dtypes.canonicalize_user_dtype(dtype, "full_like")
    if not is_value(a) and hasattr(a, "shape") and hasattr(a, "dtype"):
        sizes = a.shape if shape is None else shape
        kind = a.dtype if dtype is None else dtype
        return full(sizes, fill_value, kind, device=device, out_sharding=out_sharding)
    (a,) = as_arrays("full_like", a)
    (value,) = as_arrays("full_like", fill_value)
    if typeof(value).shape:
        aval = typeof(a)
        sizes = aval.shape if shape is None else shape
        return full(sizes, value, aval.dtype if dtype is None else dtype)
    sizes = None if shape is None else canonicalize_shape(shape)
    out = _made(lax_full_like(a, value, dtype, shape=sizes, sharding=out_sharding))
    return out if device is None else device_put(out, device)


def zeros_like(
    a: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of zeros of the shape and dtype of `a`."""
    to = canonicalize_sharding(out_sharding, "jnp.zeros_like")
    return full_like(a, 0, dtype, shape, device=device, out_sharding=to)


def ones_like(
    a: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of ones of the shape and dtype of `a`."""
    to = canonicalize_sharding(out_sharding, "jnp.ones_like")
    return full_like(a, 1, dtype, shape, device=device, out_sharding=to)


def empty_like(a: Any, dtype: Any = None, shape: Any = None, **where: Any) -> Any:
    """The same as `zeros_like`."""
    return full_like(a, 0, dtype, shape, **where)


# ----------------------------------------------------------------------- sequences


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Numbers from `start` up to, not including, `stop`; of one argument, up to that.

    The arguments must be known when traced.

    >>> import minijax.numpy as jnp
    >>> jnp.arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
    given = [v for v in (start, stop, step) if v is not None]
    if dtype is None:
        dtype = dtypes.result_type(*given)
    else:
        dtype = dtypes.canonicalize_user_dtype(dtype, "arange")
    start, stop, step = (None if v is None else _known(v) for v in (start, stop, step))
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise errors.step_zero()
    size = max(0, math.ceil((stop - start) / step))
    to = canonicalize_sharding(out_sharding, "jnp.arange")
    out = broadcasted_iota(dtype, (size,), 0, out_sharding=to)
    first, by = (np.asarray(v).astype(dtype)[()] for v in (start, step))
    if step != 1:
        out = mul(by, out)
    if start != 0:
        out = add(first, out)
    return out if device is None else device_put(out, device)


def _known(x: Any) -> Any:
    """A bound as a Python number; an error that tells where from if it is traced."""
    if isinstance(x, int | float):
        return x
    integer = dtypes.issubdtype(typeof(x).dtype, np.integer)
    return operator.index(x) if integer else float(x)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from `start` to `stop`, at equal distances.

    >>> import minijax.numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = operator.index(num)
    if num < 0:
        raise errors.negative_samples(num)
    return _linspace(
        *as_arrays("linspace", start, stop),
        num=num,
        endpoint=endpoint,
        retstep=retstep,
        dtype=dtype,
        axis=axis,
    )


@outlined("_linspace", static=("num", "endpoint", "retstep", "dtype", "axis"))
def _linspace(
    start: Any,
    stop: Any,
    *,
    num: int,
    endpoint: bool,
    retstep: bool,
    dtype: Any,
    axis: int,
) -> Any:
    computed = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    wanted = computed
    if dtype is not None:
        wanted = dtypes.canonicalize_user_dtype(dtype, "linspace")
        computed = dtypes.to_inexact_dtype(dtypes.result_type(computed, wanted))
    start, stop = broadcast_arrays(convert(start, computed), convert(stop, computed))
    parts = num - 1 if endpoint else num
    step = sub(stop, start)
    step = div(step, const(step, parts)) if parts > 0 else lax_full_like(step, np.nan)
    out = _points(start, stop, num, parts)
    if dtypes.issubdtype(wanted, np.integer):
        out = floor(out)
    out = convert(shapes.moveaxis(out, 0, axis), wanted)
    return (out, step) if retstep else out


def _points(start: Any, stop: Any, num: int, parts: int) -> Any:
    """Means of both ends, with weights that have no rounding errors at the ends."""
    shape = typeof(start).shape
    if num < 2:
        return shapes.broadcast_to(expand_dims(start, (0,)), (num, *shape))
    count = const(start, parts)
    number = broadcasted_iota(typeof(start).dtype, (parts,), 0)
    number = shapes.reshape(number, (parts, *(1,) * len(shape)))
    share = div(number, count)
    below = mul(shapes.reshape(start, (1, *shape)), sub(const(start, 1), share))
    above = mul(div(shapes.reshape(stop, (1, *shape)), count), number)
    out = add(below, above)
    return out if parts == num else concatenate([out, expand_dims(stop, (0,))], 0)
