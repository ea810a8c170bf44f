"""The context mesh, the one that code is traced under; and the door to all of meshes.

The values themselves are in `spec.py`, `named_mesh.py` and `sharding.py`; they are
offered here again, because who needs one mostly needs another.
"""

import contextvars
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from minijax.core.errors import sharding as errors
from minijax.core.errors.sharding import DuplicateSpecError, IndivisibleError
from minijax.core.named_mesh import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    AbstractDevice,
    AbstractMesh,
    AxisType,
    BaseMesh,
    Device,
    Mesh,
    get_entered_mesh,
    replica_groups,
)
from minijax.core.sharding import NamedSharding, Sharding, SingleDeviceSharding
from minijax.core.spec import UNCONSTRAINED, P, PartitionSpec, UnreducedKind

__all__ = [
    "EMPTY_ABSTRACT_MESH",
    "EMPTY_MESH",
    "UNCONSTRAINED",
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "BaseMesh",
    "Device",
    "DuplicateSpecError",
    "IndivisibleError",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "UnreducedKind",
    "get_abstract_mesh",
    "get_concrete_mesh",
    "get_entered_mesh",
    "replica_groups",
    "set_mesh",
    "use_abstract_mesh",
    "use_concrete_mesh",
]

# Two variables, because inside `shard_map` and under `use_abstract_mesh` the types of
# the axes change and the devices stay. They belong to the context: another thread
# starts without a mesh.

_abstract: contextvars.ContextVar[AbstractMesh] = contextvars.ContextVar(
    "abstract_mesh", default=EMPTY_ABSTRACT_MESH
)
_concrete: contextvars.ContextVar[Mesh] = contextvars.ContextVar(
    "concrete_mesh", default=EMPTY_MESH
)
get_abstract_mesh = _abstract.get
"""The abstract mesh that code is traced under; the empty one where none is set."""

get_concrete_mesh = _concrete.get
"""The mesh with devices of `set_mesh`; the empty one where none is set."""


class set_mesh:
    """Make `mesh` the context mesh, from now on or for a `with` block.

    None, or an empty mesh, means none. That it is not called while tracing is for the
    caller to check: this layer knows no traces.

    Raises ValueError for anything but a Mesh, and for one with Manual axes.

    >>> with set_mesh(EMPTY_MESH):
    ...     get_abstract_mesh()
    AbstractMesh((), axis_types=())
    """

    __slots__ = ("_previous",)

    def __init__(self, mesh: Mesh | None) -> None:
        """Set it; leaving the block, if there is one, restores what was before."""
        mesh = EMPTY_MESH if mesh is None else mesh
        if not isinstance(mesh, Mesh):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise errors.not_a_mesh(mesh)
        if mesh.manual_axes:
            raise errors.set_manual_mesh(mesh)
        self._previous = (_abstract.get(), _concrete.get())
        _abstract.set(mesh.abstract_mesh)
        _concrete.set(mesh)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None:
        abstract, concrete = self._previous
        _abstract.set(abstract)
        _concrete.set(concrete)


@contextmanager
def _use[T](variable: contextvars.ContextVar[T], value: T) -> Generator[None]:
    previous = variable.get()
    variable.set(value)
    try:
        yield
    finally:
        variable.set(previous)


def use_abstract_mesh(mesh: AbstractMesh) -> AbstractContextManager[None]:
    """Trace the `with` block under this abstract mesh; devices stay as they are.

    Raises ValueError for anything but an AbstractMesh, and where the mesh around has
    another number of devices.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
    ...     get_abstract_mesh()
    AbstractMesh('x': 2, axis_types=(Explicit,))
    """
    if not isinstance(mesh, AbstractMesh):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise errors.not_an_abstract_mesh(mesh)
    around = _abstract.get()
    if not mesh.empty and not around.empty and mesh.size != around.size:
        raise errors.context_mesh_size(mesh, mesh.size, around, around.size)
    return _use(_abstract, mesh)


def use_concrete_mesh(mesh: Mesh) -> AbstractContextManager[None]:
    """Change the devices of the context mesh for a `with` block, and nothing else."""
    return _use(_concrete, mesh)
