"""A user's `out_sharding`: what it may be, and how it becomes part of a type.

Many functions take `out_sharding`, a PartitionSpec or a NamedSharding over Explicit
axes. `canonicalize_sharding` is what their public part does with it, `typed` what their
abstract evaluation does; `visible` is the part of a spec that a type shows.

Upstream: `jax/_src/sharding_impls.py` (`canonicalize_sharding`), `jax/_src/core.py`
(`get_sharding`, `modify_spec_for_auto_manual`).
"""

from __future__ import annotations

import math
from typing import Any

from minijax.core.avals import Shape
from minijax.core.errors import place as errors
from minijax.core.mesh import (
    AxisType,
    BaseMesh,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
)
from minijax.core.source import user_source


def canonicalize_sharding(
    sharding: Any, name: str, *, check_mesh: bool = True
) -> NamedSharding | None:
    """A target over the context mesh, or over its own where there is none.

    Args:
      sharding: a PartitionSpec over the context mesh, a NamedSharding, or None.
      name: of the function it was passed to.
      check_mesh: whether the mesh must be the context mesh.

    TypeError for other things; ValueError for a spec without a mesh, and for axes that
    are not Explicit.

    >>> canonicalize_sharding(None, "reshape") is None
    True
    """
    if sharding is None:
        return None
    context = get_abstract_mesh()
    if isinstance(sharding, PartitionSpec):
        if context.empty:
            raise errors.spec_without_mesh(sharding)
        sharding = NamedSharding(context, sharding)
    elif not isinstance(sharding, NamedSharding):
        raise errors.not_a_target(name, sharding)
    elif sharding.mesh.empty:
        return None
    mesh = sharding.mesh.abstract_mesh
    both_auto = mesh.are_all_axes_auto and context.are_all_axes_auto
    if check_mesh and not (both_auto or context.empty or mesh == context):
        raise errors.other_mesh(context, mesh, name, user_source())
    spec = sharding.spec
    for axis in (*spec.axes, *spec.unreduced, *spec.reduced):
        if mesh.axis_type(axis) is not AxisType.Explicit:
            kind = mesh.axis_type(axis)
            raise errors.not_explicit(name, spec, axis, kind, user_source())
    return sharding if mesh is sharding.mesh else NamedSharding(mesh, spec)


def typed(sharding: NamedSharding, shape: Shape) -> NamedSharding:
    """The same, as the sharding of a type of this shape.

    ValueError where the spec is too long, or a dimension is not cut into equal parts.
    """
    spec = sharding.spec.for_aval(len(shape))
    full = sharding if spec is sharding.spec else sharding.update(spec=spec)
    if len(spec) != len(shape):
        raise errors.spec_length(spec, len(shape), full)
    for dim, size in enumerate(shape):
        names = spec.axes_of(dim)
        count = math.prod(full.mesh.shape[n] for n in names)
        if size % count:
            raise errors.indivisible(names, dim, count, size, shape, full)
    return full


def visible(spec: PartitionSpec, mesh: BaseMesh) -> PartitionSpec:
    """The part of a spec that names Explicit axes of this mesh.

    >>> from minijax.core.mesh import AbstractMesh
    >>> kinds = (AxisType.Explicit, AxisType.Auto)
    >>> mesh = AbstractMesh((2, 2), ("x", "y"), axis_types=kinds)
    >>> visible(PartitionSpec(("x", "y"), "y"), mesh)
    P('x', None)
    """
    shown = frozenset(mesh.explicit_axes)
    partitions = [
        tuple(n for n in spec.axes_of(i) if n in shown) for i in range(len(spec))
    ]
    unreduced, reduced = spec.unreduced & shown, spec.reduced & shown
    return spec.update(partitions, unreduced=unreduced, reduced=reduced)
