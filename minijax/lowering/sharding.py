"""Meshes and specs as the compiler reads them: Shardy's attributes, replica groups.

An attribute holds its mesh in full. A pass of Shardy at the end of lowering (see
`lower.py`) moves the meshes out into symbols, `@mesh`, `@mesh_0` and so on; so
attributes do not depend on the module they stand in, and are remembered here.

Nothing else may live here but the spelling of attributes, and the operation that
states a sharding. Which values get one is for `lower.py` and the pages to say.

Sources: upstream `jax/_src/named_sharding.py` (`named_sharding_to_sdy_sharding`),
`jax/_src/lax/parallel.py` (`_try_mesh_axes_replica_group`); the Shardy dialect's
documentation, "Sharding representation".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from jaxlib.mlir import ir

from minijax.core.avals import ShapedArray
from minijax.core.mesh import (
    UNCONSTRAINED,
    BaseMesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
)
from minijax.core.mesh import replica_groups as dense_groups
from minijax.lowering.dialect import attr, dense_i64, op1

__all__ = [
    "channel_handle",
    "constrain",
    "manual_axes_attr",
    "per_value_sharding",
    "replica_groups",
    "says_nothing",
    "sharding_attr",
]


def sharding_attr(
    sharding: Sharding, ndim: int, *, open_auto: bool = False
) -> ir.Attribute:
    """How a rank `ndim` value is laid out, as Shardy's attribute.

    Args:
      open_auto: if the mesh has Auto axes, whether the compiler may shard each
        dimension further, over those. (Explicit axes never join: they are listed
        as replicated where the spec does not use them.)

    >>> from minijax.core.mesh import AbstractMesh, P
    >>> from minijax.lowering.dialect import building
    >>> mesh = AbstractMesh((2,), ("x",))
    >>> with building():
    ...     print(sharding_attr(NamedSharding(mesh, P("x")), 2))
    #sdy.sharding<mesh<["x"=2]>, [{"x"}, {}]>
    """
    return attr(f"#sdy.sharding{_sharding(sharding, ndim, open_auto)}")


def says_nothing(sharding: Sharding | None, aval: Any) -> bool:
    """Whether a sharding leaves a value wholly to the compiler, and so is not told."""
    if sharding is None or not isinstance(aval, ShapedArray):
        return True
    if not isinstance(sharding, NamedSharding) or aval.ndim == 0:
        return False
    partitions = sharding.spec.partitions
    return len(partitions) == aval.ndim and set(partitions) == {UNCONSTRAINED}


def constrain(
    values: Sequence[ir.Value],
    shardings: Iterable[Sharding | None],
    avals: Iterable[Any],
    *,
    open_auto: bool = False,
) -> list[ir.Value]:
    """Values of these types, laid out so from here on.

    None leaves a value as it is; so does a sharding all of whose dimensions are
    unconstrained, and any sharding leaves a token.
    """
    return [
        value
        if sharding is None or says_nothing(sharding, aval)
        else op1(
            "sdy.sharding_constraint",
            (value,),
            value.type,
            {"sharding": sharding_attr(sharding, aval.ndim, open_auto=open_auto)},
        )
        for value, sharding, aval in zip(values, shardings, avals, strict=True)
    ]


def per_value_sharding(
    shardings: Iterable[NamedSharding], ndims: Iterable[int], *, open_auto: bool
) -> ir.Attribute:
    """The shardings of the operands or results of one operation."""
    each = [_sharding(s, n, open_auto) for s, n in zip(shardings, ndims, strict=True)]
    return attr(f"#sdy.sharding_per_value<[{', '.join(each)}]>")


def manual_axes_attr(names: Sequence[str]) -> ir.Attribute:
    """The axes that a manual computation is per device along."""
    return attr(f"#sdy<manual_axes{{{', '.join(map(_quoted, names))}}}>")


@lru_cache(maxsize=4096)
def _sharding(sharding: Sharding, ndim: int, open_auto: bool) -> str:
    if not isinstance(sharding, NamedSharding):  # one device: a mesh without axes
        return f"<mesh<[]>, [{', '.join(['{}'] * ndim)}]>"
    mesh, spec = sharding.mesh, sharding.spec
    opened = open_auto and bool(mesh.auto_axes)
    parts = [_mesh(mesh), f"[{', '.join(_dim(spec, i, opened) for i in range(ndim))}]"]
    if opened:
        explicit = frozenset(mesh.explicit_axes) & sharding.replicated_axes
        parts.extend(_axes("replicated", mesh, explicit))
    parts.extend(_axes("unreduced", mesh, spec.unreduced))
    return f"<{', '.join(parts)}>"


def _dim(spec: PartitionSpec, dim: int, opened: bool) -> str:
    partition = spec.partitions[dim] if dim < len(spec.partitions) else None
    names = [_quoted(n) for n in spec.axes_of(dim)]
    if opened or partition is UNCONSTRAINED:
        names.append("?")
    return f"{{{', '.join(names)}}}"


def _axes(role: str, mesh: BaseMesh, names: frozenset[str]) -> list[str]:
    ordered = [_quoted(n) for n in mesh.axis_names if n in names]
    return [f"{role}={{{', '.join(ordered)}}}"] if ordered else []


def _mesh(mesh: BaseMesh) -> str:
    axes = ", ".join(f"{_quoted(n)}={s}" for n, s in mesh.shape_tuple)
    return f"mesh<[{axes}]>"


def _quoted(name: str) -> str:
    return '"' + str(name).replace("\\", "\\\\").replace('"', '\\"') + '"'


# ------------------------------------------------------------------- collectives


def replica_groups(
    mesh: BaseMesh,
    names: Sequence[str],
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> ir.Attribute:
    """Between which devices a collective over named axes moves data.

    Args:
      mesh: with all its axes, also those that are not manual.
      names: major first.
      axis_index_groups: a partition of the positions along the axes; each group of
        devices is split so, and a group shorter than others is filled up with -1.

    Without groups, and with more than one device, the attribute names the axes;
    otherwise it lists the devices.
    """
    if axis_index_groups is None and mesh.size > 1:
        return _mesh_axes_groups(mesh, tuple(names))
    whole = dense_groups(mesh, names)
    if axis_index_groups is None:
        return dense_i64(whole)
    parts = [[group[i] for i in part] for group in whole for part in axis_index_groups]
    rectangle = list(itertools.zip_longest(*parts, fillvalue=-1))
    return dense_i64(list(zip(*rectangle, strict=True)))


@lru_cache(maxsize=1024)
def _mesh_axes_groups(mesh: BaseMesh, names: tuple[str, ...]) -> ir.Attribute:
    sizes = ", ".join(
        f"#stablehlo.mesh_axis<name = {_quoted(n)}, size = {s}>"
        for n, s in mesh.shape_tuple
    )
    axes = ", ".join(f"#stablehlo.axis_ref<name = {_quoted(n)}>" for n in names)
    return attr(
        "#stablehlo.replica_group_mesh_axes<"
        f"mesh = #stablehlo.mesh<axes = [{sizes}]>, axes = [{axes}]>"
    )


def channel_handle() -> ir.Attribute:
    """The channel of collectives between the devices of one program."""
    return attr("#stablehlo.channel_handle<handle = 1, type = 1>")
