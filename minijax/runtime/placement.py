"""Placing values: `device_put`, and the same for the arguments of a program.

A value is a numpy array, a Python scalar, an `Array` or a `Token`; a place is a
sharding. Where a value lies as wanted nothing is copied. Otherwise buffers are copied
from device to device where each device's part is the same before and after, and through
host memory elsewhere.

Upstream: `jax/_src/dispatch.py` (`_device_put_impl`), `jax/_src/interpreters/pxla.py`
(`shard_args`).
"""

from __future__ import annotations

import copyreg
from functools import cache, lru_cache
from typing import Any

import numpy as np
from jaxlib import xla_client as xc

from minijax.core.avals import ShapedArray
from minijax.core.errors import runtime as errors
from minijax.core.mesh import (
    Device,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)
from minijax.core.token import Token
from minijax.core.trace import shaped, typeof
from minijax.runtime.array import Array, Kind
from minijax.runtime.backend import devices
from minijax.runtime.layout import (
    array_type,
    check_divides,
    is_unreduced,
    layout_of,
    put_numpy,
)

#: What jaxlib takes for a token: any array without elements.
_TOKEN_DATA = np.zeros(0, bool)
TOKEN_TYPE = shaped((0,), np.dtype(bool))


def device_put(x: Any, device: Device | Sharding | None = None) -> Any:
    """Puts one value on devices, and commits it to them where they are given.

    Args:
      x: a numpy array, a Python or numpy scalar, an `Array` or a `Token`.
      device: a device, a sharding over devices, or `None` for the default device.

    Returns an `Array` (a `Token` for a token); `x` itself where it lies there already.
    A numpy array is copied: changing it later changes nothing.

    Raises ValueError where a sharding does not cut the shape into equal parts.

    >>> device_put(np.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    if device is None:
        if isinstance(x, Array | Token):
            return x
        sharding: Sharding = default_sharding()
    elif isinstance(device, Sharding):
        sharding = device
    elif isinstance(device, xc.Device):
        sharding = SingleDeviceSharding(device)
    else:
        raise errors.not_a_placement(device)
    if isinstance(x, Token):
        return Token(_put_token(x, sharding))
    if isinstance(x, Array):
        return _put_array(x, sharding)
    aval = typeof(x)
    return _put_host(x, aval, sharding, device is not None)


@cache
def default_sharding() -> SingleDeviceSharding:
    """Where values go that nobody placed: the first device of the default platform."""
    return SingleDeviceSharding(devices()[0])


def _put_host(x: Any, aval: ShapedArray, sharding: Sharding, committed: bool) -> Array:
    kind = _placed(aval, sharding, committed)
    return Array(put_numpy(_as_numpy(x, kind.aval), kind.aval, sharding), kind)


@lru_cache(4096)
def _placed(aval: ShapedArray, sharding: Sharding, committed: bool) -> Kind:
    """What an array of type `aval` is once it lies there, if it can."""
    check_divides(sharding, aval.shape)
    aval = array_type(aval.shape, aval.dtype, aval.weak_type, sharding)
    return Kind.of(aval, sharding, committed)


def _as_numpy(x: Any, aval: ShapedArray) -> np.ndarray:
    if type(x) is np.ndarray and x.dtype is aval.dtype:
        return x
    try:
        return np.asarray(x, aval.dtype)
    except OverflowError as error:
        raise errors.integer_too_large(x, aval.dtype.name) from error


def _put_array(x: Array, sharding: Sharding) -> Array:
    if x.sharding is sharding and x.committed:
        return x
    x._check_not_deleted()
    kind = _placed(x.aval, sharding, True)
    if x.sharding.is_equivalent_to(sharding, x.ndim):
        return Array(x._buf, kind)
    buf = _copy(x, sharding)
    if buf is None:
        buf = put_numpy(x._value, kind.aval, sharding)
    return Array(buf, kind)


def _copy(x: Array, sharding: Sharding) -> Any:
    """Copies from device to device; `None` where some part is not on one device."""
    old, new = layout_of(x.sharding, x.ndim), layout_of(sharding, x.ndim)
    here = x.sharding.devices_indices_map(x.shape).values()
    there = sharding.devices_indices_map(x.shape).values()
    if (
        list(here) != list(there)
        or old.devices[0].client is not new.devices[0].client
        or is_unreduced(x.sharding)
        or is_unreduced(sharding)
    ):
        return None
    reuse = [xc.ArrayCopySemantics.REUSE_INPUT]
    (buf,) = xc.batched_copy_array_to_devices_with_sharding(
        [x._buf], [new.device_list], [new.xla], reuse
    )
    return buf


def _put_token(token: Token, sharding: Sharding) -> Array:
    """A token is ready before it moves, so a fresh one says as much."""
    if token._buf.sharding is sharding:
        return token._buf
    token.block_until_ready()
    return new_token_buffer(sharding)


def new_token_buffer(sharding: Sharding) -> Array:
    """The buffer of a token that is ready, on every device of a sharding."""
    if isinstance(sharding, NamedSharding):
        sharding = NamedSharding(sharding.mesh, PartitionSpec())
    return _put_host(_TOKEN_DATA, TOKEN_TYPE, sharding, True)


def _reduce(x: Array) -> tuple[Any, ...]:
    return _unpickle, (np.array(x._value), x.weak_type)


def _unpickle(value: np.ndarray, weak_type: bool) -> Array:
    """An array on the default device: a pickle holds a value and not a place."""
    return _put_host(
        value, shaped(value.shape, value.dtype, weak_type), default_sharding(), False
    )


copyreg.pickle(Array, _reduce)  # type: ignore[arg-type]
