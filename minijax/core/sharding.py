"""Shardings: how an array is cut into shards, and on which devices they lie.

`NamedSharding` is a mesh and a `PartitionSpec` checked against it;
`SingleDeviceSharding` is one device. Shard shapes, index maps and equivalence are
computed here from names and sizes; the compiler's own sharding attributes are in
`lowering`.
"""

import collections
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from minijax.core.errors import sharding as errors
from minijax.core.interned import Interned
from minijax.core.named_mesh import (
    AbstractMesh,
    AxisType,
    BaseMesh,
    Device,
    Mesh,
    is_local,
)
from minijax.core.spec import UNCONSTRAINED, PartitionSpec, UnreducedKind

__all__ = ["NamedSharding", "Sharding", "SingleDeviceSharding"]

type Shape = tuple[int, ...]
type Index = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Where the shards of a rank n array lie, without names.

    factors: into how many tiles each dimension is cut. tiles: per device, in order,
    the coordinates of its tile. terms: per device, the number of the group that it
    reduces with (a device alone in its group holds the value itself), and by which
    reduction. manual: which coordinates along Manual axes, where the tiling is not the
    whole story.
    """

    factors: Shape
    tiles: tuple[Shape, ...]
    terms: tuple[int, ...]
    reduction: UnreducedKind | None
    manual: tuple[int, ...]


class Sharding(Interned):
    """How an array is cut into shards, and on which devices they lie.

    A subclass says which devices (`_devices`) and which tile lies on which
    (`_tiling`); everything else follows. `memory_kind` is None only where there are
    no devices to ask.
    """

    __slots__ = ("is_fully_replicated", "memory_kind")
    memory_kind: str | None
    is_fully_replicated: bool
    """Whether each device holds the whole value."""

    def _devices(self, attribute: str) -> tuple[Device, ...]:
        """The devices, for a property of this name, in shard order."""
        raise NotImplementedError

    def _tiling(self, ndim: int) -> Tiling:
        raise NotImplementedError

    @property
    def flat_devices(self) -> tuple[Device, ...]:
        """The devices in order. ValueError over an AbstractMesh."""
        return self._devices("_device_assignment")

    @property
    def device_set(self) -> set[Device]:
        """The devices as a set. ValueError over an AbstractMesh."""
        return set(self._devices("device_set"))

    @property
    def num_devices(self) -> int:
        """How many devices there are."""
        return len(self._devices("num_devices"))

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process. ValueError over an AbstractMesh."""
        return set(filter(is_local, self._devices("addressable_devices")))

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return all(map(is_local, self._devices("is_fully_addressable")))

    def check_compatible_aval(self, shape: Shape) -> None:
        """Raise ValueError where the array has too few dimensions."""

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of every shard of an array of this shape.

        IndivisibleError where a dimension cannot be cut into equal parts.
        """
        shape = tuple(global_shape)
        self.check_compatible_aval(shape)
        factors = self._tiling(len(shape)).factors
        for dim, (size, factor) in enumerate(zip(shape, factors, strict=True)):
            if size % factor:
                raise errors.indivisible(self, dim, shape, factors)
        return tuple(s // f for s, f in zip(shape, factors, strict=True))

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Per device the part of the array that lies on it, in device order.

        A dimension that is not cut has `slice(None)`. Of an unreduced array it tells
        which part each device holds a summand of (upstream refuses that).
        """
        shard = self.shard_shape(global_shape)
        tiling = self._tiling(len(shard))

        def part(tile: Shape) -> Index:
            return tuple(
                slice(None) if factor == 1 else slice(t * size, (t + 1) * size)
                for t, size, factor in zip(tile, shard, tiling.factors, strict=True)
            )

        devices = self.flat_devices
        return {d: part(t) for d, t in zip(devices, tiling.tiles, strict=False)}

    def is_equivalent_to(self, other: "Sharding", ndim: int) -> bool:
        """Whether both put the same parts of a rank `ndim` array on the same devices.

        Names do not matter, nor do axis types.
        """
        if self is other:
            return True
        return (
            self.memory_kind == other.memory_kind
            and self._place() == other._place()
            and self._tiling(ndim) == other._tiling(ndim)
        )

    def _place(self) -> tuple[Device, ...] | None:
        """The devices, or None where there are none."""
        return self.flat_devices


@final
class NamedSharding(Sharding):
    """A mesh, and a PartitionSpec that speaks of its axes.

    The mesh may be abstract: that is the sharding in the type of a traced value. Equal
    shardings are one object, and the checks run once for each.

    Raises:
      DuplicateSpecError: an axis shards twice.
      ValueError: an axis that is not in the mesh; UNCONSTRAINED without an Auto axis;
        an unreduced or reduced axis that is not Explicit; an unknown memory kind.
      TypeError: not a mesh, or not a spec.

    Source: upstream `jax/_src/named_sharding.py`.

    >>> mesh = AbstractMesh((2, 4), ("x", "y"))
    >>> sharding = NamedSharding(mesh, PartitionSpec(("y", "x"), None))
    >>> sharding.shard_shape((16, 3))
    (2, 3)
    >>> NamedSharding(mesh, PartitionSpec("q"))
    Traceback (most recent call last):
    ValueError: Resource axis: q of P('q',) is not found in mesh: ('x', 'y').
    """

    __slots__ = ("mesh", "spec")
    mesh: Mesh | AbstractMesh
    spec: PartitionSpec

    def __new__(
        cls,
        mesh: Mesh | AbstractMesh,
        spec: PartitionSpec,
        *,
        memory_kind: str | None = None,
    ) -> "NamedSharding":
        """Make or find the sharding."""
        if not isinstance(mesh, BaseMesh):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise errors.not_a_mesh_for_sharding(mesh)
        if not isinstance(spec, PartitionSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise errors.not_a_spec(spec)
        if isinstance(mesh, Mesh) and not mesh.empty:
            memory_kind = _memory_kind(mesh.flat_devices[0], memory_kind)
        return cls._intern(mesh, spec, memory_kind)

    def _fill(self, *content: Any) -> None:
        mesh, spec, memory_kind = content
        _check_spec(mesh, spec)
        cut = math.prod(mesh.shape[name] for name in spec.axes)
        whole = mesh.size == 1 or (cut == 1 and not spec.unreduced)
        self._set(
            mesh=mesh, spec=spec, memory_kind=memory_kind, is_fully_replicated=whole
        )

    def __repr__(self) -> str:
        memory = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{memory})"

    def update(
        self,
        *,
        mesh: Mesh | AbstractMesh | None = None,
        spec: Any = None,
        memory_kind: str | None = None,
    ) -> "NamedSharding":
        """This sharding with some parts replaced. None keeps a part.

        `spec` may be a tuple of entries.
        """
        spec = self.spec if spec is None else spec
        return NamedSharding(
            self.mesh if mesh is None else mesh,
            spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec),
            memory_kind=self.memory_kind if memory_kind is None else memory_kind,
        )

    def with_memory_kind(self, kind: str) -> "NamedSharding":
        """This sharding in memory of another kind."""
        return self.update(memory_kind=kind)

    @property
    def num_devices(self) -> int:
        """How many devices there are."""
        return self.mesh.size

    @property
    def replicated_axes(self) -> frozenset[str]:
        """The mesh axes that the spec does not mention."""
        mentioned = self.spec.unreduced.union(self.spec.reduced, self.spec.axes)
        return frozenset(self.mesh.axis_names) - mentioned

    def check_compatible_aval(self, shape: Shape) -> None:
        """Raise ValueError where the spec has more entries than the array has rank."""
        if len(shape) < len(self.spec):
            raise errors.rank_too_low("Sharding", self, len(self.spec), len(shape))

    def _devices(self, attribute: str) -> tuple[Device, ...]:
        if isinstance(self.mesh, AbstractMesh):
            raise errors.abstract_sharding(attribute)
        return self.mesh.flat_devices

    def _place(self) -> tuple[Device, ...] | None:
        return None if isinstance(self.mesh, AbstractMesh) else self.mesh.flat_devices

    def _tiling(self, ndim: int) -> Tiling:
        return _named_tiling(self.mesh.abstract_mesh, self.spec, ndim)


@final
class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> SingleDeviceSharding("a device").shard_shape((4, 2))
    (4, 2)
    """

    __slots__ = ("device",)
    device: Device

    def __new__(
        cls, device: Device, *, memory_kind: str | None = None
    ) -> "SingleDeviceSharding":
        """Make or find the sharding."""
        return cls._intern(device, _memory_kind(device, memory_kind))

    def _fill(self, *content: Any) -> None:
        device, memory_kind = content
        self._set(device=device, memory_kind=memory_kind, is_fully_replicated=True)

    def __repr__(self) -> str:
        memory = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"SingleDeviceSharding(device={self.device!r}{memory})"

    def with_memory_kind(self, kind: str) -> "SingleDeviceSharding":
        """This sharding in memory of another kind."""
        return SingleDeviceSharding(self.device, memory_kind=kind)

    def _devices(self, attribute: str) -> tuple[Device, ...]:
        return (self.device,)

    def _tiling(self, ndim: int) -> Tiling:
        return _single_tiling(ndim)


@functools.lru_cache(64)
def _single_tiling(ndim: int) -> Tiling:
    return Tiling((1,) * ndim, ((0,) * ndim,), (0,), None, (0,))


@functools.lru_cache(4096)
def _named_tiling(mesh: AbstractMesh, spec: PartitionSpec, ndim: int) -> Tiling:
    """The tiling of a rank `ndim` array; entries beyond its rank say nothing."""
    sizes = mesh.axis_sizes
    # Row k: where each device stands along mesh axis k.
    stands = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
    along = dict(zip(mesh.axis_names, stands, strict=True))

    def position(names: tuple[str, ...]) -> npt.NDArray[np.int_]:
        index = np.zeros(math.prod(sizes), dtype=int)
        for name in names:  # the first name is major
            index = index * mesh.shape[name] + along[name]
        return index

    dims = [spec.axes_of(dim) for dim in range(ndim)]
    tiles = [position(names).tolist() for names in dims]
    summed = frozenset(n for n in spec.unreduced if mesh.shape[n] != 1)
    apart = tuple(name for name in mesh.axis_names if name not in summed)
    return Tiling(
        factors=tuple(math.prod(mesh.shape[n] for n in names) for names in dims),
        tiles=tuple(zip(*tiles, strict=True)) if tiles else ((),) * math.prod(sizes),
        terms=tuple(_renumbered(position(apart).tolist())) if summed else (0,),
        reduction=spec.unreduced_kind if summed else None,
        manual=tuple(position(mesh.manual_axes).tolist()) if mesh.manual_axes else (0,),
    )


def _renumbered(labels: list[int]) -> Iterator[int]:
    """Labels in order of first use, so that equal groupings compare equal."""
    seen: dict[int, int] = {}
    for label in labels:
        yield seen.setdefault(label, len(seen))


def _check_spec(mesh: BaseMesh, spec: PartitionSpec) -> None:
    """The spec speaks of this mesh, and sensibly."""
    uses = collections.Counter(spec.axes)
    if duplicates := [name for name, count in uses.items() if count > 1]:
        raise errors.duplicate_axes("NamedSharding spec", mesh, spec, duplicates)
    for name in spec.axes:
        if name not in mesh.axis_names:
            raise errors.unknown_axis(name, spec, mesh.axis_names)
    if UNCONSTRAINED in spec.partitions and not mesh.auto_axes:
        raise errors.unconstrained_without_auto(spec, mesh.axis_types)
    for kind, names in (("unreduced", spec.unreduced), ("reduced", spec.reduced)):
        for name in sorted(names, key=str):
            if name not in mesh.axis_names:
                raise errors.unknown_reduced_axis(kind, name, mesh.axis_names, spec)
            if mesh.axis_type(name) is not AxisType.Explicit:
                raise errors.reduced_axis_not_explicit(kind, names, mesh)


@functools.lru_cache(256)  # asked for each new sharding, and slow to answer
def _memory_kind(device: Device, given: str | None) -> str | None:
    """The kind of memory to use on a device: its default one unless given."""
    if given is None:
        # A device of a topology that is only compiled for has no memories to ask.
        default = getattr(device, "default_memory", None)
        return None if default is None else default().kind
    kinds = [memory.kind for memory in device.addressable_memories()]
    if given not in kinds:
        raise errors.unknown_memory_kind(device.platform, kinds, given)
    return given
