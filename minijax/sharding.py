"""The public names of `minijax.sharding`: meshes, specs and shardings."""

from minijax.core.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    UnreducedKind,
    get_abstract_mesh,
    get_concrete_mesh,
    use_abstract_mesh,
)
from minijax.transforms.axis_types import auto_axes, explicit_axes
from minijax.transforms.place import get_mesh, reshard, set_mesh

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "UnreducedKind",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_concrete_mesh",
    "get_mesh",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]
