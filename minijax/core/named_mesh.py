"""Meshes: devices in an array whose axes have names, sizes and types.

`AbstractMesh` is names and sizes, which is all that tracing needs; `Mesh` is the same
with devices. What can be computed from names and sizes alone, such as the groups of
devices that a collective runs over, is here too. What the compiler is told about a mesh
is in `lowering`.
"""

import collections
import contextvars
import enum
import functools
import math
import types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast, final

import numpy as np
import numpy.typing as npt

from minijax.core.errors import sharding as errors
from minijax.core.interned import Interned

__all__ = [
    "EMPTY_ABSTRACT_MESH",
    "EMPTY_MESH",
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "BaseMesh",
    "Device",
    "Mesh",
    "get_entered_mesh",
    "is_local",
    "replica_groups",
]

type Device = Any
"""A device object of jaxlib, which core does not import. A mesh reads its `id`,
`platform` and `device_kind`, and asks which process and which memories it has."""


class AxisType(enum.Enum):
    """Who decides how arrays are laid out along a mesh axis.

    Auto: the compiler. Explicit: the type of each value. Manual: nobody, the program
    is already per device, inside `shard_map`.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AbstractDevice:
    """The kind of device that a mesh is made of, for an AbstractMesh.

    >>> AbstractDevice("cpu", None, "cpu")
    AbstractDevice(device_kind=cpu, num_cores=None, platform=cpu)
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def __str__(self) -> str:
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, "
            f"platform={self.platform}"
        )

    def __repr__(self) -> str:
        return f"AbstractDevice({self})"


class BaseMesh(Interned):
    """What Mesh and AbstractMesh share: named axes, each with a size and a type."""

    __slots__ = (
        "_type_of",
        "abstract_mesh",
        "auto_axes",
        "axis_names",
        "axis_sizes",
        "axis_types",
        "explicit_axes",
        "manual_axes",
        "shape",
        "shape_tuple",
        "size",
    )
    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    shape: Mapping[str, int]
    shape_tuple: tuple[tuple[str, int], ...]
    size: int
    auto_axes: tuple[str, ...]
    explicit_axes: tuple[str, ...]
    manual_axes: tuple[str, ...]
    abstract_mesh: "AbstractMesh"
    _type_of: Mapping[str, AxisType]

    def _fill_axes(
        self,
        sizes: tuple[int, ...],
        names: tuple[str, ...],
        axis_types: tuple[AxisType, ...],
        size: int,
    ) -> None:
        typed = tuple(zip(names, axis_types, strict=True))
        pairs = tuple(zip(names, sizes, strict=True))
        self._set(
            axis_sizes=sizes,
            axis_names=names,
            axis_types=axis_types,
            size=size,
            shape_tuple=pairs,
            shape=collections.OrderedDict(pairs),
            auto_axes=tuple(n for n, t in typed if t is AxisType.Auto),
            explicit_axes=tuple(n for n, t in typed if t is AxisType.Explicit),
            manual_axes=tuple(n for n, t in typed if t is AxisType.Manual),
            _type_of=types.MappingProxyType(dict(typed)),
        )

    @property
    def empty(self) -> bool:
        """Whether the mesh holds no device at all, as where no mesh is set."""
        return self.size == 0

    def axis_type(self, name: str) -> AxisType:
        """The type of one axis; KeyError for a name that is not in the mesh."""
        return self._type_of[name]

    # As upstream, each of these is False for a mesh without axes.

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether the compiler lays everything out."""
        return 0 < len(self.axis_names) == len(self.auto_axes)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether types say how everything is laid out."""
        return 0 < len(self.axis_names) == len(self.explicit_axes)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether this is the inside of a full `shard_map`."""
        return 0 < len(self.axis_names) == len(self.manual_axes)

    @property
    def are_all_axes_auto_or_manual(self) -> bool:
        """Whether no type says how anything is laid out."""
        return bool(self.axis_names) and not self.explicit_axes

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        """Whether the compiler lays nothing out."""
        return bool(self.axis_names) and not self.auto_axes


@final
class AbstractMesh(BaseMesh):
    """A mesh without its devices: what tracing sees, so that a trace is reusable.

    Axes are Explicit unless `axis_types` says otherwise. `abstract_device` tells the
    kind of the devices, where it is known. Equal abstract meshes are one object.

    Raises ValueError or TypeError where sizes, names and types do not fit together.
    Source: upstream `jax/_src/mesh.py`.

    >>> AbstractMesh((2, 4), ("x", "y"))
    AbstractMesh('x': 2, 'y': 4, axis_types=(Explicit, Explicit))
    >>> AbstractMesh((2,), ("x",)) is AbstractMesh((2,), ("x",))
    True
    """

    __slots__ = ("abstract_device",)
    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: str | Sequence[str],
        axis_types: AxisType | tuple[AxisType, ...] | None = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> "AbstractMesh":
        """Normalise the arguments, then make or find the mesh."""
        names = _as_names(axis_names)
        kinds = _as_axis_types(names, axis_types, "AbstractMesh", AxisType.Explicit)
        return cls._intern(tuple(axis_sizes), names, kinds, abstract_device)

    def _fill(self, *content: Any) -> None:
        sizes, names, axis_types, abstract_device = content
        if len(sizes) != len(names):
            raise errors.sizes_and_names(sizes, names)
        _check_names(names)
        # Upstream's convention: no axes, no devices (not one).
        self._fill_axes(sizes, names, axis_types, math.prod(sizes) if sizes else 0)
        self._set(abstract_device=abstract_device, abstract_mesh=self)

    def __repr__(self) -> str:
        axes = ", ".join(f"'{n}': {s}" for n, s in self.shape_tuple) or "()"
        device = f", {self.abstract_device}" if self.abstract_device else ""
        return f"AbstractMesh({axes}, axis_types={self.axis_types}{device})"

    def update(
        self,
        axis_sizes: Sequence[int] | None = None,
        axis_names: Sequence[str] | None = None,
        axis_types: tuple[AxisType, ...] | None = None,
    ) -> "AbstractMesh":
        """This mesh with some parts replaced. None keeps a part.

        >>> AbstractMesh((2,), ("x",)).update(axis_sizes=(4,))
        AbstractMesh('x': 4, axis_types=(Explicit,))
        """
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=self.abstract_device,
        )

    def update_axis_types(self, to: Mapping[str, AxisType]) -> "AbstractMesh":
        """This mesh with other types for the axes named.

        >>> AbstractMesh((2, 4), ("x", "y")).update_axis_types({"y": AxisType.Manual})
        AbstractMesh('x': 2, 'y': 4, axis_types=(Explicit, Manual))
        """
        old = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(to.get(n, t) for n, t in old))

    @property
    def devices(self) -> npt.NDArray[np.object_]:
        """Refused: an abstract mesh has none."""
        raise errors.no_devices("devices")

    @property
    def device_ids(self) -> npt.NDArray[np.int_]:
        """Refused: an abstract mesh has none."""
        raise errors.no_devices("device_ids")


@final
class Mesh(BaseMesh):
    """Devices in an array whose axes have names.

    Args:
      devices: an array of devices, or nested sequences of them.
      axis_names: one name per axis.
      axis_types: one AxisType per axis; Auto by default.

    Equal meshes are one object. Raises ValueError or TypeError where the arguments do
    not fit together. Source: upstream `jax/_src/mesh.py`.

    >>> @dataclass(frozen=True)
    ... class Cpu:
    ...     id: int
    ...     platform = device_kind = "cpu"
    >>> mesh = Mesh([[Cpu(0), Cpu(1)], [Cpu(2), Cpu(3)]], ("x", "y"))
    >>> print(mesh)
    Mesh('x': 2, 'y': 2, axis_types=(Auto, Auto))
    >>> mesh.device_ids
    array([[0, 1],
           [2, 3]])
    """

    __slots__ = ("device_ids", "devices", "flat_devices")
    devices: npt.NDArray[np.object_]
    device_ids: npt.NDArray[np.int_]
    flat_devices: tuple[Device, ...]

    def __new__(
        cls,
        devices: Any,
        axis_names: str | Sequence[str],
        axis_types: AxisType | tuple[AxisType, ...] | None = None,
    ) -> "Mesh":
        """Normalise the arguments, then make or find the mesh."""
        array = np.asarray(devices, dtype=object)
        names = _as_names(axis_names)
        if any(name is None for name in cast(tuple[object, ...], names)):
            raise errors.none_axis_name(names)
        if array.ndim != len(names):
            raise errors.mesh_rank(array.ndim, len(names))
        kinds = _as_axis_types(names, axis_types, "Mesh", AxisType.Auto)
        for device in array.flat:
            if names and not hasattr(device, "id"):
                raise errors.not_a_device(device)
        return cls._intern(tuple(array.flat), array.shape, names, kinds)

    def _fill(self, *content: Any) -> None:
        flat, shape, names, axis_types = content
        _check_names(names)
        # `Mesh(np.empty((), object), ())` is how one writes "no mesh".
        missing = not names and flat[0] is None
        self._fill_axes(shape, names, axis_types, 0 if missing else len(flat))
        devices = np.array(flat, dtype=object).reshape(shape)
        devices.flags.writeable = False
        ids = [] if missing else [device.id for device in flat]
        self._set(
            devices=devices,
            flat_devices=() if missing else flat,
            device_ids=np.array(ids, dtype=int).reshape((0,) if missing else shape),
            abstract_mesh=_abstracted(shape, names, axis_types, flat),
        )

    def __str__(self) -> str:
        if self.empty:
            return "Mesh()"
        axes = ", ".join(f"'{n}': {s}" for n, s in self.shape_tuple)
        return f"Mesh({axes}, axis_types={self.axis_types})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names!r}, "
            f"axis_types={self.axis_types})"
        )

    def update(
        self,
        devices: Any = None,
        axis_names: Sequence[str] | None = None,
        axis_types: tuple[AxisType, ...] | None = None,
    ) -> "Mesh":
        """This mesh with some parts replaced. None keeps a part."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    @property
    def local_devices(self) -> list[Device]:
        """The devices that this process can address, in mesh order."""
        return [d for d in self.flat_devices if is_local(d)]

    @property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return not all(map(is_local, self.flat_devices))

    # `with mesh:` is upstream's older way, from before `set_mesh`: it resolves bare
    # specs but is not the context mesh. Meshes are shared, so nesting is kept in a
    # variable and not on the object.

    def __enter__(self) -> Self:
        warnings.warn(
            "`with mesh:` context manager has been deprecated. Please use `with "
            "jax.set_mesh(mesh):` instead.",
            category=DeprecationWarning,
            stacklevel=2,
        )
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _entered.set(_entered.get()[:-1])


def _as_names(axis_names: str | Sequence[str]) -> tuple[str, ...]:
    return (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)


def _as_axis_types(
    names: tuple[str, ...], given: object, what: str, default: AxisType
) -> tuple[AxisType, ...]:
    if given is None:
        return (default,) * len(names)
    kinds = cast(tuple[Any, ...], given if isinstance(given, tuple) else (given,))
    if not all(isinstance(kind, AxisType) for kind in kinds):
        raise errors.bad_axis_types(what, kinds)
    if len(names) != len(kinds):
        raise errors.types_and_names(names, kinds)
    return kinds


def _check_names(names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names):
        raise errors.repeated_axis_name(names)


def _abstracted(
    shape: tuple[int, ...],
    names: tuple[str, ...],
    axis_types: tuple[AxisType, ...],
    devices: tuple[Device, ...],
) -> AbstractMesh:
    if not names:
        return EMPTY_ABSTRACT_MESH
    described = None
    if devices:
        device = devices[0]
        cores_attribute = {"tpu": "num_cores", "gpu": "core_count"}
        cores = getattr(device, cores_attribute.get(device.platform, ""), None)
        described = AbstractDevice(device.device_kind, cores, device.platform)
    return AbstractMesh(shape, names, axis_types, abstract_device=described)


def is_local(device: Device) -> bool:
    """Whether this process can address the device."""
    return device.process_index == device.client.process_index()


_entered: contextvars.ContextVar[tuple[Mesh, ...]] = contextvars.ContextVar(
    "entered_meshes", default=()
)


def get_entered_mesh() -> Mesh:
    """The mesh of the innermost `with mesh:`; the empty one outside all of them."""
    return _entered.get()[-1] if _entered.get() else EMPTY_MESH


EMPTY_ABSTRACT_MESH = AbstractMesh((), ())
EMPTY_MESH = Mesh(np.empty((), dtype=object), ())


# --- Names to positions --------------------------------------------------------------


def replica_groups(mesh: BaseMesh, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The groups of devices between which a collective over `names` moves data.

    A device is its position in the flattened mesh. Within a group positions are
    row-major in the order of `names`, which need not be the order of the mesh; the
    groups follow the remaining axes, in mesh order. KeyError for an unknown name.

    >>> mesh = AbstractMesh((2, 4), ("x", "y"))
    >>> replica_groups(mesh, ("x",))
    ((0, 4), (1, 5), (2, 6), (3, 7))
    >>> replica_groups(mesh, ("y", "x"))
    ((0, 4, 1, 5, 2, 6, 3, 7),)
    """
    return _replica_groups(mesh, tuple(names))


@functools.lru_cache(4096)
def _replica_groups(
    mesh: BaseMesh, names: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    group_size = math.prod(mesh.shape[name] for name in names)
    others = [name for name in mesh.axis_names if name not in names]
    order = [mesh.axis_names.index(name) for name in (*others, *names)]
    positions = np.arange(mesh.size).reshape(mesh.axis_sizes).transpose(order)
    groups = positions.reshape(-1, group_size).tolist()
    return tuple(tuple(group) for group in groups)
