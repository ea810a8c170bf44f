"""Layouts: what jaxlib needs to know of a sharding, worked out once for each.

A sharding says by names where the parts of an array lie. jaxlib wants devices in a
list and one tile number per device, and a type object per array. Both are derived here
and kept, so that making an array or running a program does not compute them again.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxlib import xla_client as xc

from minijax.core.avals import ShapedArray
from minijax.core.errors import runtime as errors
from minijax.core.mesh import (
    AbstractMesh,
    AxisType,
    Device,
    IndivisibleError,
    NamedSharding,
    Sharding,
    UnreducedKind,
)
from minijax.core.trace import shaped

Shape = tuple[int, ...]

#: jaxlib copies the memory of a numpy array before it returns. Its default shares
#: aligned memory, and then a later change of the numpy array shows through.
COPY_NOW = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL


class Layout(NamedTuple):
    """A sharding of arrays of one rank, as jaxlib takes it.

    Fields:
      devices: in shard order.
      device_list: the same, as jaxlib's type.
      xla: jaxlib's sharding, which says which tile lies on which device.
      shared_tiles: whether several devices hold one part which is not the whole.
    """

    devices: list[Device]
    device_list: Any
    xla: Any
    shared_tiles: bool


@lru_cache(4096)
def layout_of(sharding: Sharding, ndim: int) -> Layout:
    """The layout of rank `ndim` arrays with this sharding."""
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        raise errors.abstract_sharding(sharding)
    devices = list(sharding.flat_devices)
    device_list = xc.DeviceList(tuple(devices))
    if not isinstance(sharding, NamedSharding) or len(devices) == 1:
        xla = xc.SingleDeviceSharding(devices[0])
        return Layout(devices, device_list, xla, False)
    tiles = [_axes_size(sharding, dim) for dim in range(ndim)]
    copies = sharding.mesh.size // math.prod(tiles)
    xla = xc.GSPMDSharding(device_list, hlo_sharding(sharding, ndim))
    shared = copies > 1 and not sharding.is_fully_replicated
    return Layout(devices, device_list, xla, shared)


def _axes_size(sharding: NamedSharding, dim: int) -> int:
    return math.prod(sharding.mesh.shape[name] for name in sharding.spec.axes_of(dim))


def hlo_sharding(sharding: NamedSharding, ndim: int) -> Any:
    """Which tile of a rank `ndim` array each device of the mesh holds.

    The mesh axes are permuted so that those of each dimension come first, in order;
    then the unreduced ones, which number the operands of the reduction; then the rest,
    which number the copies.
    """
    mesh, spec = sharding.mesh, sharding.spec
    used = [n for dim in range(ndim) for n in spec.axes_of(dim)]
    summed = [n for n in mesh.axis_names if n in spec.unreduced]
    rest = [n for n in mesh.axis_names if n not in used and n not in summed]
    tiles = [_axes_size(sharding, dim) for dim in range(ndim)]
    kinds = xc.OpSharding.Type
    groups = {kinds.UNREDUCED: summed, kinds.REPLICATED: rest}
    sizes = {k: math.prod(mesh.shape[n] for n in names) for k, names in groups.items()}
    kept = [kind for kind, size in sizes.items() if size > 1]
    if math.prod(tiles) == 1 and kinds.UNREDUCED not in kept:
        return xc.HloSharding.replicate()
    return xc.HloSharding.iota_tile(
        dims=[*tiles, *(sizes[kind] for kind in kept)],
        reshape_dims=mesh.axis_sizes,
        transpose_perm=[mesh.axis_names.index(n) for n in (*used, *summed, *rest)],
        subgroup_types=kept,
    )


@lru_cache(65536)
def array_type(
    shape: Shape, dtype: np.dtype[Any], weak_type: bool, sharding: Sharding
) -> ShapedArray:
    """The one type of the arrays with this sharding."""
    if not isinstance(sharding, NamedSharding):
        return shaped(shape, dtype, weak_type)
    return ShapedArray(shape, dtype, weak_type, visible_part(sharding, len(shape)))


@lru_cache(4096)
def visible_part(sharding: NamedSharding, ndim: int) -> NamedSharding:
    """What types tell of a sharding: the axes that are Explicit, and reductions.

    Where the compiler decides, the same program serves every choice.
    """
    mesh, spec = sharding.mesh.abstract_mesh, sharding.spec.for_aval(ndim)
    if AxisType.Auto in mesh.axis_types:
        shown = mesh.explicit_axes
        named = [spec.axes_of(dim) for dim in range(len(spec))]
        spec = spec.update([tuple(n for n in names if n in shown) for names in named])
    return NamedSharding(mesh, spec)


def check_divides(sharding: Sharding, shape: Shape) -> None:
    """Raises upstream's ValueError unless the sharding cuts `shape` in equal parts."""
    if not isinstance(sharding, NamedSharding):
        return
    rank = len(shape)
    visible = visible_part(sharding, rank)
    if len(visible.spec) > rank:
        if visible.spec.axes:
            typed = sharding.update(mesh=visible.mesh)
            raise errors.sharding_rank(sharding.spec, rank, typed)
        raise errors.sharding_rank_too_high(sharding, len(sharding.spec), rank)
    for dim, size in enumerate(shape):
        parts = _axes_size(visible, dim)
        if size % parts:
            spec = tuple(visible.spec)
            while spec[-1] is None:
                spec = spec[:-1]
            raise errors.uneven_sharding(spec, dim, parts, shape, visible)
    try:
        sharding.shard_shape(shape)
    except IndivisibleError as error:
        raise errors.indivisible_argument(error) from None


def is_unreduced(sharding: Sharding) -> bool:
    """Whether the devices hold operands of a reduction that is still to be done."""
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)


def reduction_groups(sharding: NamedSharding) -> list[int]:
    """Per device, the number of the group that it reduces with.

    The groups are those of equal position along all other axes, counted row-major.
    """
    mesh = sharding.mesh
    kept = [
        1 if name in sharding.spec.unreduced else size
        for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    ]
    groups = np.arange(math.prod(kept)).reshape(kept)
    return np.broadcast_to(groups, mesh.axis_sizes).ravel().tolist()


def _summands(shards: list[np.ndarray], sharding: Any) -> list[np.ndarray]:
    """Operands whose reduction is each shard: for a sum, the shard and zeros."""
    if sharding.spec.unreduced_kind is not UnreducedKind.sum:
        return shards
    groups = reduction_groups(sharding)
    return [
        shard if group not in groups[:position] else np.zeros_like(shard)
        for position, (group, shard) in enumerate(zip(groups, shards, strict=True))
    ]


def put_numpy(value: np.ndarray, aval: ShapedArray, sharding: Sharding) -> Any:
    """Copies a numpy array to the devices of a sharding; returns jaxlib's array.

    `value` has the shape and dtype of `aval`. Nothing is checked.
    """
    devices, _, xla, shared_tiles = layout_of(sharding, value.ndim)
    shards = [value] * len(devices)
    if not sharding.is_fully_replicated:
        parts = sharding.devices_indices_map(value.shape).values()
        shards = [value[index] for index in parts]
        if shared_tiles:  # jaxlib cannot copy from one address to several devices
            shards = [shard.copy() for shard in shards]
        if is_unreduced(sharding):
            shards = _summands(shards, sharding)
    return xc.batched_device_put(
        aval, xla, shards, devices, True, False, COPY_NOW, True
    )
