"""Concrete arrays: buffers on devices, with a type and a sharding.

An `Array` wraps jaxlib's array object, which owns the buffers of all shards. Reading
one waits for the program that computes it. (Tokens are in `core.token`.)

Some methods of jaxlib's object look for jax, and import it where it is installed. Those
used here do not, but for the one that lists the shards, which is prevented. Arithmetic
and indexing are not here: they are traced operations, which `minijax.lax.operators`
adds.

Upstream: `jax/_src/array.py`.
"""

from __future__ import annotations

import operator
import sys
import threading
from typing import Any

import numpy as np
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib import xla_client as xc

from minijax.core.avals import ShapedArray
from minijax.core.errors import runtime as errors
from minijax.core.interned import Interned
from minijax.core.mesh import Device, Sharding, SingleDeviceSharding, UnreducedKind
from minijax.core.named_mesh import is_local
from minijax.core.trace import aval_of_type
from minijax.runtime.layout import (
    array_type,
    is_unreduced,
    layout_of,
    reduction_groups,
)

Index = tuple[slice, ...]

#: Arrays of at least so many bytes are printed without their elements.
_PRINT_LIMIT = 1 << 20
_REDUCTIONS: dict[Any, Any] = {
    UnreducedKind.sum: np.add,
    UnreducedKind.max: np.maximum,
    UnreducedKind.min: np.minimum,
}


class Kind(Interned):
    """All that is known of an array besides its data: type and placement.

    Equal kinds are one object, so a call looks its program up by their identities.
    """

    __slots__ = ("aval", "committed", "sharding")
    aval: ShapedArray
    sharding: Sharding
    committed: bool

    @classmethod
    def of(cls, aval: ShapedArray, sharding: Sharding, committed: bool) -> Kind:
        """The kind of this type and placement."""
        return cls._intern(aval, sharding, committed)

    def _fill(self, *content: Any) -> None:
        aval, sharding, committed = content
        self._set(aval=aval, sharding=sharding, committed=committed)


class Array:
    """An array of numbers on one or several devices.

    Made by `minijax.device_put` and by every operation, not by hand.

    Attributes:
      kind: its type and placement.
      aval: its type.
      sharding: a `NamedSharding` over a mesh of devices, or a `SingleDeviceSharding`.
      committed: whether the user chose its devices; an uncommitted array moves to
        where the other operands are.
    """

    # No `__slots__`: CPython makes objects that have them in a slower way, which shows
    # where a program has fifty results.
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # a value that compares elementwise
    _npy: np.ndarray | None = None  # set on an array once it was copied to the host

    def __init__(self, buf: Any, kind: Kind):
        self._buf = buf
        self.kind = kind

    @property
    def aval(self) -> ShapedArray:
        return self.kind.aval

    @property
    def sharding(self) -> Sharding:
        return self.kind.sharding

    @property
    def committed(self) -> bool:
        return self.kind.committed

    # --- type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, each counted once."""
        return self.aval.size * self.aval.dtype.itemsize

    # --- place

    @property
    def is_fully_replicated(self) -> bool:
        return self.sharding.is_fully_replicated

    @property
    def is_fully_addressable(self) -> bool:
        return self.sharding.is_fully_addressable

    def devices(self) -> set[Device]:
        """The devices that hold it."""
        self._check_not_deleted()
        return self.sharding.device_set

    @property
    def device(self) -> Device | Sharding:
        """Its device, or its sharding where there are several devices."""
        devices = self.devices()
        return next(iter(devices)) if len(devices) == 1 else self.sharding

    @property
    def addressable_shards(self) -> list[Shard]:
        """What each device of this process holds, in the order of the devices."""
        self._check_not_deleted()
        datas, shards = iter(self._shards()), []
        seen: dict[str, int] = {}
        for device, index in self.sharding.devices_indices_map(self.shape).items():
            replica_id = seen[str(index)] = seen.get(str(index), -1) + 1
            if is_local(device):
                shards.append(Shard(device, index, replica_id, next(datas)))
        return shards

    @property
    def global_shards(self) -> list[Shard]:
        """All shards; `addressable_shards` where the process sees every device."""
        return self.addressable_shards

    def addressable_data(self, index: int) -> Array:
        """What the device number `index` of this process holds."""
        self._check_not_deleted()
        return self._shards()[index]

    def _shards(self) -> list[Array]:
        """Each local shard as an array of its own that shares the buffer."""
        if isinstance(self.sharding, SingleDeviceSharding):
            return [self]
        shape = self.sharding.shard_shape(self.shape)
        local = [d for d in self.sharding.flat_devices if is_local(d)]
        shards = []
        for device, buf in zip(local, _single_device_arrays(self._buf), strict=True):
            sharding = SingleDeviceSharding(device)
            aval = array_type(shape, self.dtype, self.weak_type, sharding)
            xla = layout_of(sharding, len(shape)).xla
            buf = buf._rewrap_with_aval_and_sharding(aval, xla)
            shards.append(Array(buf, Kind.of(aval, sharding, True)))
        return shards

    # --- life

    def is_deleted(self) -> bool:
        """Whether the buffers are gone: deleted, or donated to a program."""
        return self._buf.is_deleted()

    def delete(self) -> None:
        """Frees the buffers. Any later use is an error."""
        self._buf.delete()
        self._npy = None

    def _check_not_deleted(self) -> None:
        if self._buf.is_deleted():
            raise errors.deleted(str(self.aval))

    def is_ready(self) -> bool:
        """Whether the program that computes it has finished."""
        return self._buf.is_ready()

    def block_until_ready(self) -> Array:
        """Waits until it is computed; raises what went wrong on the way."""
        self._buf.block_until_ready()
        return self

    def copy(self) -> Array:
        """A copy with buffers of its own, on the same devices."""
        self._check_not_deleted()
        layout = layout_of(self.sharding, self.ndim)
        always = [xc.ArrayCopySemantics.ALWAYS_COPY]
        (buf,) = xc.batched_copy_array_to_devices_with_sharding(
            [self._buf], [layout.device_list], [layout.xla], always
        )
        return Array(buf, self.kind)

    # --- value

    @property
    def _value(self) -> np.ndarray:
        """The whole array in host memory, read-only.

        A copy is kept for the next reading. A view of a CPU buffer is not, because a
        buffer that is looked at cannot be donated.
        """
        if self._buf.is_deleted():
            raise errors.deleted(str(self.aval))
        if self._npy is not None:
            return self._npy
        if is_unreduced(self.sharding):
            value, copied = self._reduced(), True
        else:
            value, copied = self._buf._to_np_array_did_copy()
        value.flags.writeable = False
        if copied:
            self._npy = value
        return value

    def _reduced(self) -> np.ndarray:
        """The value of an unreduced array: upstream refuses, we reduce on the host."""
        sharding: Any = self.sharding
        reduce = _REDUCTIONS[sharding.spec.unreduced_kind]
        value, chosen = np.zeros(self.shape, self.dtype), {}
        groups = reduction_groups(sharding)
        for group, shard in zip(groups, self.addressable_shards, strict=True):
            part, data = shard.index, shard.data._value
            if str(part) not in chosen:
                chosen[str(part)], value[part] = group, data
            elif chosen[str(part)] == group:
                value[part] = reduce(value[part], data)
        return value

    def __array__(
        self, dtype: Any = None, context: None = None, copy: bool | None = None
    ) -> np.ndarray:
        return np.asarray(self._value, dtype=dtype, copy=copy)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        self._one_device()
        self._check_not_deleted()
        return _jax.buffer_to_dlpack_managed_tensor(self._buf, stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self._one_device()
        cpu, cuda = 1, 2
        kind = cpu if device.platform == "cpu" else cuda
        return kind, 0 if kind == cpu else (device.local_hardware_id or 0)

    def _one_device(self) -> Device:
        devices = self.sharding.device_set
        if len(devices) > 1:
            raise errors.dlpack_many_devices(len(devices))
        return next(iter(devices))

    def tolist(self) -> Any:
        return self._value.tolist()

    def item(self, *args: Any) -> Any:
        """An element as a Python scalar: the only one, or the one at an index."""
        return self._value.item(*args)

    def tobytes(self, order: Any = "C") -> bytes:
        return self._value.tobytes(order)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise errors.no_len()
        return self.aval.shape[0]

    def __bool__(self) -> bool:
        if self.aval.size == 0:
            raise errors.empty_truth()
        if self.aval.size > 1:
            raise errors.ambiguous_truth()
        return bool(self._value)

    def _scalar(self) -> np.ndarray:
        if self.aval.shape:
            raise errors.not_a_scalar(self.ndim)
        return self._value

    def __float__(self) -> float:
        return self._scalar().__float__()

    def __int__(self) -> int:
        return self._scalar().__int__()

    def __complex__(self) -> complex:
        return self._scalar().__complex__()

    def __index__(self) -> int:
        if self.aval.shape or not np.issubdtype(self.dtype, np.integer):
            raise errors.not_an_index()
        return operator.index(self._value)

    # --- text

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype.name}"
        if self.weak_type:
            kind += ", weak_type=True"
        if is_unreduced(self.sharding):
            return f"Array(shape={self.shape}, {kind}, sharding={self.sharding})"
        prefix, width = "Array(", np.get_printoptions()["linewidth"]
        if self.size == 0:
            text = f"[], shape={self.shape}"
        elif self.nbytes >= _PRINT_LIMIT:
            text = f"shape={self.shape}"
        else:
            text = np.array2string(
                self._value,
                prefix=prefix,
                suffix=",",
                separator=", ",
                max_line_width=width,
            )
        last_line = len(text) - text.rfind("\n") + 1
        fits = last_line + len(kind) + 2 <= width
        return f"{prefix}{text},{' ' if fits else ' ' * len(prefix)}{kind})"

    def __str__(self) -> str:
        if is_unreduced(self.sharding) or self.nbytes >= _PRINT_LIMIT:
            return repr(self)
        return str(self._value)

    def __format__(self, spec: str) -> str:
        if is_unreduced(self.sharding):
            return repr(self)
        return format(self._value if self.ndim else self._value[()], spec)


class Shard:
    """What one device holds of an array.

    Attributes:
      device: the device.
      index: the part of the whole array, as slices.
      replica_id: how many devices before this one hold the same part.
      data: the part, as an array on that device.
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Device, index: Index, replica_id: int, data: Array):
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, "
            f"replica_id={self.replica_id}, data={self.data})"
        )


def _single_device_arrays(buf: Any) -> list[Any]:
    """The shards of jaxlib's array, without importing jax on the way.

    jaxlib gives each shard a type made by `jax.core` where it can import that, and
    none where it cannot. A None in `sys.modules` makes the import fail at once.
    """
    with _import_lock:
        if "jax" in sys.modules:
            return buf._arrays
        sys.modules["jax"] = None  # type: ignore[assignment]
        try:
            return buf._arrays
        finally:
            del sys.modules["jax"]


_import_lock = threading.Lock()
aval_of_type[Array] = lambda x: x.kind.aval
