"""Keys: where random bits come from, with no state anywhere.

A key is a `uint32[2]`: what `key_data` gives upstream. It is plain data, so it goes
through `jit`, `vmap`, `scan` and `shard_map` like any array, several keys are a
`uint32[n, 2]`, and `k1, k2 = split(key)` unpacks two. (Upstream's `key` wraps the same
two words in an array of a dtype of its own, `key<fry>`, whose use costs a family of
primitives; its older `PRNGKey` returns what is returned here.)

Bits come from a *counter*: element number `i` of an array is a hash of the key and of
`i`. So each device can compute its own part of a sharded array, and no draw depends on
another. The hash is in `lax/threefry.py`, and all results are, bit by bit, those of
upstream with its default settings.

Upstream: `jax/_src/random/threefry2x32.py`, `jax/_src/random/prng.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import Shape
from minijax.core.errors import random as errors
from minijax.core.trace import is_value, typeof
from minijax.lax.arithmetic import add, mul
from minijax.lax.convert import convert_element_type
from minijax.lax.integers import (
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right_logical,
)
from minijax.lax.joining import stack
from minijax.lax.shapes import broadcasted_iota, canonicalize_shape, full
from minijax.lax.slicing import index_in_dim
from minijax.lax.threefry import UINT32, threefry2x32
from minijax.numpy.creation import asarray
from minijax.transforms.jit import jit

# -------------------------------------------------------------------------- counts


def _counted(key: Any, shape: Shape, out_sharding: Any = None) -> tuple[Any, Any]:
    """The hashes of the numbers of all elements of an array, in row-major order."""
    if any(n < 0 for n in shape):
        raise errors.negative_shape(shape)
    if math.prod(shape) > 1 << 32:
        raise errors.too_many_bits(shape)
    low = full(shape, np.uint32(0), sharding=out_sharding)
    stride = 1
    for i, n in reversed(list(enumerate(shape))):
        along = broadcasted_iota(UINT32, shape, i, out_sharding=out_sharding)
        part = along if stride == 1 else mul(along, np.uint32(stride))
        low = part if i == len(shape) - 1 else add(low, part)
        stride *= n
    # A count has two words; with at most 2 ** 32 elements the high one is 0.
    return threefry2x32(*words(key), np.uint32(0), low)


def words(key: Any) -> tuple[Any, Any]:
    """The two words of a key, as scalars."""
    first, second = (index_in_dim(key, i, 0, keepdims=False) for i in (0, 1))
    return first, second


# ----------------------------------------------------------------------------- keys


def key(seed: Any, *, impl: str | None = None) -> Any:
    """Makes a key from an integer.

    Args:
      seed: a scalar integer; one that is not of Python may be traced.
      impl: `"threefry2x32"` or None, which is the same.

    Returns:
      A `uint32[2]`.

    Raises TypeError for what is no scalar integer, ValueError for another `impl`.

    >>> import minijax
    >>> minijax.random.key(0)
    Array([0, 0], dtype=uint32)
    """
    return _make_key("key", seed, impl)


def PRNGKey(seed: Any, *, impl: str | None = None) -> Any:
    """The same as `key`, by upstream's older name."""
    return _make_key("PRNGKey", seed, impl)


def _make_key(name: str, seed: Any, impl: str | None) -> Any:
    if impl not in (None, "threefry2x32"):
        raise errors.unknown_implementation(impl)
    if isinstance(seed, int):
        seed = np.int64(seed)  # OverflowError for more bits than it has
    if isinstance(seed, np.generic):
        wide = seed.dtype
        seed = seed.astype(dtypes.canonicalize_dtype(wide))
    if not is_value(seed):
        seed = asarray(seed)
    aval = typeof(seed)
    if aval.shape:
        raise errors.seed_not_scalar(name, aval.shape)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise errors.seed_not_integer(aval.short())
    return _seed_key(seed)


@jit
def _seed_key(seed: Any) -> Any:
    aval = typeof(seed)
    low = convert_element_type(seed, UINT32)
    if aval.dtype.itemsize < 8:
        return stack([np.uint32(0), low])
    high = shift_right_logical(seed, aval.dtype.type(32))
    return stack([convert_element_type(high, UINT32), low])


def check_key(name: str, key: Any, *, single: bool = True) -> None:
    """Refuses what is no key, or several keys where the function `name` wants one."""
    if key is None or isinstance(key, (list, tuple, dict)):
        raise errors.key_type(type(key))
    if not is_value(key) or not hasattr(key, "shape"):
        raise errors.not_key_data(key)
    aval = typeof(key)
    if not aval.shape:
        raise errors.key_data_rank(0)
    if aval.shape[-1] != 2:
        raise errors.key_data_shape(aval.shape)
    if aval.dtype != UINT32:
        raise errors.key_data_dtype(aval.dtype)
    if single and len(aval.shape) > 1:
        raise errors.not_a_single_key(name, aval.shape)


def key_data(keys: Any) -> Any:
    """The bits of one or more keys, which here are the keys themselves.

    >>> import minijax
    >>> minijax.random.key_data(minijax.random.key(7))
    Array([0, 7], dtype=uint32)
    """
    check_key("key_data", keys, single=False)
    return keys


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> Any:
    """Keys from their bits: a uint32 array whose last dimension has size 2."""
    if impl not in (None, "threefry2x32"):
        raise errors.unknown_implementation(impl)
    check_key("wrap_key_data", key_bits_array, single=False)
    return key_bits_array


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """Makes new keys from one, which should not be used again.

    Args:
      key: a single key.
      num: how many, or their shape.

    Returns:
      A `uint32[*num, 2]`.

    >>> import minijax
    >>> one, other = minijax.random.split(minijax.random.key(0))
    >>> one
    Array([1797259609, 2579123966], dtype=uint32)
    """
    check_key("split", key)
    return _split(key, canonicalize_shape(num))


def _split_key(key: Any, shape: Shape) -> Any:
    return stack(_counted(key, shape), axis=len(shape))


_split = jit(_split_key, static_argnums=1)


def fold_in(key: Any, data: Any) -> Any:
    """Makes a new key from a key and a scalar integer, such as the number of a step.

    OverflowError for a Python integer that no uint32 holds.

    >>> import minijax
    >>> minijax.random.fold_in(minijax.random.key(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    check_key("fold_in", key)
    if isinstance(data, int) and not 0 <= data < 1 << 32:
        raise errors.fold_in_range(data)
    data = asarray(data, dtype=UINT32)
    if data.shape:
        raise errors.fold_in_not_scalar(data.shape)
    return _fold_in(key, data)


@jit
def _fold_in(key: Any, data: Any) -> Any:
    return stack(threefry2x32(*words(key), np.uint32(0), data))


# ----------------------------------------------------------------------------- bits


def bits(
    key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Uniform random bits, as unsigned integers; uint32 by default.

    `out_sharding` says how the result is sharded over Explicit mesh axes.

    >>> import minijax
    >>> minijax.random.bits(minijax.random.key(0))
    Array(4070199207, dtype=uint32)
    """
    check_key("bits", key)
    dtype = dtypes.canonicalize_user_dtype(dtype or default_uint(), "bits")
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise errors.sampler_dtype("bits", "an unsigned int", dtype)
    return _bits(key, canonicalize_shape(shape), dtype, out_sharding)


def default_uint() -> Any:
    """The dtype of unsigned integers where none is asked for."""
    return dtypes.default_dtype("u")


def random_bits(key: Any, shape: Shape, dtype: Any, out_sharding: Any = None) -> Any:
    """The same for arguments that are known to be right."""
    high, low = _counted(key, shape, out_sharding)
    if dtype.itemsize < 8:
        return convert_element_type(bitwise_xor(high, low), dtype)
    high, low = convert_element_type(high, dtype), convert_element_type(low, dtype)
    return bitwise_or(shift_left(high, dtype.type(32)), low)


_bits = jit(random_bits, static_argnums=(1, 2, 3))
