"""What the types of operands say together: the mesh, shardings and manual axis types.

Most primitives compute the mesh part of a result's type in one of a few ways, and they
are all here: `result_type` puts them together. Where there is no mesh, which is the
common case, it costs a few comparisons by identity.

Two notions of "sum" run through this file. A value may be *unreduced* over some mesh
axes: the sum over devices is still to be done. And it may be *reduced*: it is the same
everywhere, and its cotangent will be unreduced. A `Sums` rule says what an operation
makes of them; they stand in the manual axis type for Manual axes and in the
PartitionSpec for Explicit ones, and rules do not care which.

Upstream: `jax/_src/lax/utils.py` (`standard_abstract_eval`), the `_ur_rule`s of
`jax/_src/lax/lax.py`, and `standard_vma_rule` in `jax/_src/core.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.avals import (
    EMPTY_MESH,
    NO_MANUAL,
    NO_NAMES,
    ManualAxisType,
    Names,
    Shape,
    ShapedArray,
    abstract_token,
    manual_type,
    replicated,
)
from minijax.core.errors import operands as errors
from minijax.core.errors import shapes as shape_errors
from minijax.core.mesh import (
    AbstractMesh,
    DuplicateSpecError,
    NamedSharding,
    PartitionSpec,
    UnreducedKind,
    get_abstract_mesh,
)
from minijax.core.trace import shaped

Avals = Sequence[ShapedArray]
#: Given a primitive's name and the operands' types: the axes over which the result is
#: unreduced, and those over which it is reduced.
Sums = Callable[[str, Avals], tuple[Names, Names]]


# ------------------------------------------------------------------ the whole type


def result_type(
    name: str,
    avals: Avals,
    shape: Shape,
    dtype: Any,
    weak_type: bool = False,
    *,
    partitions: Callable[[], Sequence[Any]],
    sums: Sums,
) -> ShapedArray:
    """The type of a result, from its shape and dtype and the types of the operands.

    Args:
      partitions: how each dimension is sharded; asked only over Explicit axes.
      sums: see above; asked only where some operand is unreduced or reduced.
    """
    mesh = result_mesh(name, avals)
    if mesh is EMPTY_MESH:
        return shaped(shape, dtype, weak_type)
    unreduced, reduced = NO_NAMES, NO_NAMES
    if any(has_sums(a) for a in avals):
        unreduced, reduced = sums(name, avals)
    manual = join_manual(name, avals)
    explicit = frozenset(mesh.explicit_axes)
    if (unreduced or reduced) and not explicit.issuperset(unreduced | reduced):
        manual = manual_type(manual.varying, unreduced - explicit, reduced - explicit)
    sharding = replicated(mesh, len(shape))
    if explicit:
        spec = PartitionSpec(
            *partitions(), unreduced=unreduced & explicit, reduced=reduced & explicit
        )
        sharding = _checked(name, avals, shape, dtype, mesh, spec)
    return ShapedArray(shape, dtype, weak_type, sharding, manual)


def _checked(
    name: str, avals: Avals, shape: Shape, dtype: Any, mesh: Any, spec: PartitionSpec
) -> NamedSharding:
    """The sharding, or an error if one axis would shard two dimensions."""
    try:
        return NamedSharding(mesh, spec)
    except DuplicateSpecError as error:
        operands = [a.short() for a in avals]
        result = _shown(shape, dtype, spec)
        raise errors.illegal_result(name, operands, result) from error


def _shown(shape: Shape, dtype: Any, spec: PartitionSpec) -> str:
    """A type as it would print, had it been legal: `f32[8@x,8@x]`."""
    plain = ShapedArray(shape, dtype).short().partition("[")[0]
    dims: list[str] = []
    for i, size in enumerate(shape):
        names = spec.axes_of(i)
        over = names[0] if len(names) == 1 else f"({','.join(names)})"
        dims.append(f"{size}@{over}" if names else str(size))
    return f"{plain}[{','.join(dims)}]"


def result_mesh(name: str, avals: Avals) -> AbstractMesh:
    """The mesh of the operands, or else the one in force; they must agree."""
    around = get_abstract_mesh()
    found = None
    for aval in avals:
        mesh = aval.sharding.mesh
        if mesh is EMPTY_MESH or mesh is found:
            continue
        both_auto = mesh.are_all_axes_auto and around.are_all_axes_auto
        if around is not EMPTY_MESH and mesh is not around and not both_auto:
            raise errors.context_mesh(name, around, mesh, aval.short())
        if found is not None:
            if found.are_all_axes_auto and mesh.are_all_axes_auto:
                return around
            raise errors.different_meshes(found, mesh)
        found = mesh
    return around if found is None else found  # type: ignore[return-value]


def only_arrays(primitive: object, avals: Sequence[Any]) -> None:
    """Refuses tokens as operands."""
    for aval in avals:
        if not isinstance(aval, ShapedArray):
            raise shape_errors.unexpected_type(aval, primitive)


# ---------------------------------------------------------------- manual axis types


def join_manual(name: str, avals: Sequence[Any]) -> ManualAxisType:
    """What a result varies over: what all operands vary over. ValueError if not alike.

    The casts that make operands alike are the wrappers' business, not the rules'.

    >>> from minijax.core.avals import ShapedArray
    >>> join_manual("add", [ShapedArray((), "f4")] * 2)
    ManualAxisType(varying=set(), unreduced=set(), reduced=set())
    """
    first = None
    for aval in avals:
        if aval is abstract_token:
            continue
        varying = aval.manual.varying
        if first is None:
            first = varying
        elif varying is not first and varying != first:
            arrays = [a for a in avals if a is not abstract_token]
            found = [a.manual.varying for a in arrays]
            raise errors.different_varying(name, found)
    return manual_type(first) if first else NO_MANUAL


# ----------------------------------------------------------------------- shardings


def join_partitions(name: str, avals: Avals) -> list[Any]:
    """How each dimension of an elementwise result is sharded.

    Scalars do not count, nor do unsharded dimensions of size 1.
    """
    arrays = [a for a in avals if a.shape]
    if not arrays:
        return []
    specs = [a.sharding.spec.partitions for a in arrays]
    out: list[Any] = []
    for i, parts in enumerate(zip(*specs, strict=True)):
        if all(p == parts[0] for p in parts):
            out.append(parts[0])
            continue
        sizes = [a.shape[i] for a in arrays]
        told = [
            p for p, n in zip(parts, sizes, strict=True) if not (n == 1 and p is None)
        ]
        kinds = list(dict.fromkeys(p for p in parts if p is not None))
        if told and all(p == told[0] for p in told):
            out.append(told[0])
        elif len(kinds) > 1:
            raise errors.incompatible_shardings(name, specs)
        else:
            out.append(kinds[0] if kinds else None)
    return out


def join_shapes(name: str, avals: Avals) -> Shape:
    """The shape of an elementwise result: dimensions agree, or are 1, or all absent."""
    first = avals[0].shape
    if all(a.shape == first for a in avals):
        return first
    shapes = [a.shape for a in avals if a.shape]
    if len({len(s) for s in shapes}) > 1:
        raise errors.different_ranks(name, {len(s) for s in shapes})
    out: list[int] = []
    for sizes in zip(*shapes, strict=True):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise errors.incompatible_shapes(name, shapes)
        out.append(others.pop() if others else 1)
    return tuple(out)


# -------------------------------------------------------- unreduced and reduced axes


def has_sums(aval: Any) -> bool:
    """Whether a value is unreduced or reduced over anything."""
    manual, spec = aval.manual, aval.sharding.spec
    return bool(manual.unreduced or manual.reduced or spec.unreduced or spec.reduced)


def unreduced_of(
    aval: ShapedArray, kind: UnreducedKind | None = UnreducedKind.sum
) -> Names:
    """The axes, Manual or Explicit, over which a value is unreduced.

    ValueError where the reduction to be done is not of this kind.
    """
    spec = aval.sharding.spec
    if kind is not None and spec.unreduced and spec.unreduced_kind is not kind:
        raise errors.unreduced_kind(kind, spec.unreduced_kind)
    if aval.manual.unreduced and kind not in (None, UnreducedKind.sum):
        raise errors.unreduced_kind(kind, UnreducedKind.sum)  # Manual axes have sums
    return aval.manual.unreduced | spec.unreduced


def reduced_of(aval: ShapedArray) -> Names:
    """The axes, Manual or Explicit, over which a value is reduced."""
    return aval.manual.reduced | aval.sharding.spec.reduced


def no_sums(name: str, avals: Avals) -> tuple[Names, Names]:
    """For operations of which it is not clear what they make of sums: refuses."""
    raise errors.sums_not_implemented(name)


def nonlinear(name: str, avals: Avals) -> tuple[Names, Names]:
    """A function of the whole value: it must not be a sum still to be done."""
    reduced = join_reduced(avals)
    if any(unreduced_of(a) for a in avals):
        raise errors.nonlinear_of_unreduced(name, avals)
    return NO_NAMES, reduced


def linear(name: str, avals: Avals) -> tuple[Names, Names]:
    """Linear in one operand: sums stay as they are."""
    return unreduced_of(avals[0]), reduced_of(avals[0])


def added(name: str, avals: Avals) -> tuple[Names, Names]:
    """Sums of sums: both unreduced, or none."""
    reduced = join_reduced(avals)
    x, y = (unreduced_of(a) for a in avals)
    if x and y and x != y:
        raise errors.different_unreduced(name, x, y)
    if bool(x) != bool(y):
        sides = ("lhs", "rhs") if x else ("rhs", "lhs")
        raise errors.one_unreduced(name, *sides)
    return x, reduced


def multiplied(name: str, avals: Avals) -> tuple[Names, Names]:
    """A sum times a factor: the factor must be the same everywhere, hence reduced."""
    reduced = join_reduced(avals)
    lhs, rhs = avals
    x, y = unreduced_of(lhs), unreduced_of(rhs)
    if x and y:
        raise errors.both_unreduced(x, y)
    if x and x != reduced_of(rhs):
        raise errors.other_not_reduced("LHS", lhs, rhs)
    if y and y != reduced_of(lhs):
        raise errors.other_not_reduced("RHS", lhs, rhs)
    unreduced = x or y
    return unreduced, NO_NAMES if unreduced else reduced


def divided(name: str, avals: Avals) -> tuple[Names, Names]:
    """A sum divided by a value that is the same everywhere, hence reduced."""
    reduced = join_reduced(avals)
    x, y = avals
    unreduced = unreduced_of(x)
    if unreduced_of(y):
        raise errors.unreduced_denominator(y)
    if unreduced and unreduced != reduced_of(y):
        raise errors.denominator_not_reduced(x, y)
    return unreduced, NO_NAMES if unreduced else reduced


def join_reduced(avals: Avals) -> Names:
    """The axes over which all operands are reduced; they must agree."""
    kinds = {r for a in avals if (r := reduced_of(a))}
    if not kinds:
        return NO_NAMES
    if len(kinds) > 1:
        raise errors.different_reduced(kinds)
    (reduced,) = kinds
    if len(avals) == 1:
        return reduced
    mesh_axes = frozenset(get_abstract_mesh().axis_names)
    for aval in avals:
        spread = frozenset(aval.sharding.spec.axes) | aval.manual.varying
        spoken = spread | reduced_of(aval) | unreduced_of(aval, None)
        if (mesh_axes - spoken) & reduced:
            raise errors.replicated_beside_reduced(aval, reduced)
        if spread & reduced:
            raise errors.sharded_beside_reduced(aval, reduced)
    return reduced
