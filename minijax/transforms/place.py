"""Placing values: `device_put`, `reshard`, `with_sharding_constraint`, `set_mesh`.

`reshard` changes the sharding in a value's type, over Explicit axes; a
`sharding_constraint` tells the compiler how to lay a value out over Auto axes, and the
type does not change. Both are the identity on values and linear.

StableHLO: `sdy.sharding_constraint`.
Upstream: `jax/_src/pjit.py` (`reshard_p`, `sharding_constraint_p`),
`jax/_src/api.py` (`device_put`).
"""

from __future__ import annotations

from typing import Any

from minijax.core import mesh as meshes
from minijax.core.avals import ShapedArray, replicated
from minijax.core.errors import place as errors
from minijax.core.mesh import (
    UNCONSTRAINED,
    AxisType,
    BaseMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    UnreducedKind,
    get_abstract_mesh,
    get_concrete_mesh,
)
from minijax.core.out_sharding import canonicalize_sharding, typed
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    flatten_axes,
    flatten_axis_resources,
    tree_flatten,
    tree_map,
    tree_unflatten,
)
from minijax.core.staging import check_live
from minijax.core.token import Token
from minijax.core.trace import Tracer, is_evaluating, typeof
from minijax.lax.declared import reshard_p
from minijax.lax.shapes import for_vmap
from minijax.lowering.sharding import constrain
from minijax.runtime.array import Array
from minijax.runtime.placement import device_put as put_one

# ---------------------------------------------------------------------- public verbs


class set_mesh(meshes.set_mesh):
    """Makes a mesh the context mesh, from now on or for a `with` block.

    Raises ValueError while a function is being traced.

    >>> import minijax
    >>> with set_mesh(minijax.make_mesh((2, 4), ("x", "y"))):
    ...     print(minijax.sharding.get_abstract_mesh().axis_names)
    ('x', 'y')

    Upstream: `jax/_src/sharding_impls.py` (`set_mesh`).
    """

    def __init__(self, mesh: Mesh | None):
        if not is_evaluating():
            raise errors.set_mesh_while_tracing()
        super().__init__(mesh)


def get_mesh() -> Mesh:
    """The mesh of `set_mesh`; the empty one where none is set.

    Raises ValueError while a function is being traced.

    >>> get_mesh().empty
    True

    Upstream: `jax/_src/sharding_impls.py` (`get_mesh`).
    """
    if not is_evaluating():
        raise errors.get_mesh_while_tracing()
    return get_concrete_mesh()


def device_put(x: Any, device: Any = None) -> Any:
    """Puts a pytree of arrays on devices.

    Args:
      x: a pytree of arrays, numpy arrays and scalars; under a trace, of tracers.
      device: a pytree prefix of devices, shardings, or PartitionSpecs over the context
        mesh; None leaves a value where it is.

    Returns:
      The same tree of arrays.

    Raises:
      ValueError: where a sharding does not cut a shape into equal parts.

    >>> import numpy as np
    >>> device_put({"a": np.arange(3)})
    {'a': Array([0, 1, 2], dtype=int32)}

    Upstream: `jax/_src/api.py` (`device_put`).
    """
    leaves, tree = tree_flatten(x)
    targets = flatten_axes("device_put device", tree, device)
    placed = [_put(v, t) for v, t in zip(leaves, targets, strict=True)]
    return tree_unflatten(tree, placed)


def _put(x: Any, target: Any) -> Any:
    if isinstance(target, PartitionSpec):
        target = _over_context(target)
    if is_evaluating():
        if isinstance(x, Tracer):
            check_live(x)
        else:
            return put_one(x, target)
    if not isinstance(target, NamedSharding):
        return x  # one device: the compiler decides
    mesh = target.mesh.abstract_mesh
    place = reshard if mesh.are_all_axes_explicit else with_sharding_constraint
    return place(x, target)


def _over_context(spec: PartitionSpec) -> NamedSharding:
    mesh = get_concrete_mesh()
    if mesh.empty:
        raise errors.spec_without_mesh(spec)
    return NamedSharding(mesh, spec)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Changes the sharding in the type of arrays, over Explicit axes.

    Args:
      xs: a pytree of arrays.
      out_shardings: a pytree prefix of PartitionSpecs or NamedShardings.

    Raises:
      ValueError: without a mesh, or for axes that are not Explicit.

    >>> import numpy as np, minijax
    >>> from minijax.sharding import AxisType, PartitionSpec as P, reshard
    >>> mesh = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
    >>> with minijax.set_mesh(mesh):
    ...     print(minijax.typeof(reshard(np.arange(8), P("i"))))
    int32[8@i]

    Upstream: `jax/_src/pjit.py` (`reshard`).
    """
    leaves, tree = tree_flatten(xs)
    targets = flatten_axis_resources("reshard out_shardings", tree, out_shardings, True)
    moved = [_reshard(x, t) for x, t in zip(leaves, targets, strict=True)]
    return tree_unflatten(tree, moved)


def _reshard(x: Any, target: Any) -> Any:
    to = canonicalize_sharding(target, "reshard", check_mesh=False)
    if to is None:
        raise errors.no_reshard_target(target)
    aval = typeof(x)
    ndim = aval.ndim if isinstance(aval, ShapedArray) else 0
    to = to.update(spec=to.spec.for_aval(ndim))
    return reshard_p.bind1(x, dst_sharding=to)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Tells the compiler how to lay arrays out over Auto axes.

    Args:
      x: a pytree of arrays.
      shardings: a pytree prefix of NamedShardings, or PartitionSpecs over the context
        mesh.

    Returns:
      The same values.

    >>> import numpy as np, minijax
    >>> from minijax.sharding import AxisType, NamedSharding, PartitionSpec as P
    >>> mesh = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    >>> place = lambda x: with_sharding_constraint(x * 2, NamedSharding(mesh, P("i")))
    >>> print(minijax.jit(place)(np.arange(4)).sharding.spec)
    P('i',)

    Upstream: `jax/_src/pjit.py` (`with_sharding_constraint`).
    """
    leaves, tree = tree_flatten(x)
    targets = flatten_axes("with_sharding_constraint shardings", tree, shardings)
    return tree_unflatten(
        tree, [_constrained(v, t) for v, t in zip(leaves, targets, strict=True)]
    )


def _constrained(x: Any, target: Any) -> Any:
    context: BaseMesh = get_abstract_mesh()
    if isinstance(target, PartitionSpec):
        if context.empty:
            raise errors.spec_without_mesh(target)
        target = NamedSharding(context, target)
    if not isinstance(target, Sharding):
        raise errors.not_a_target("with_sharding_constraint", target)
    if isinstance(target, NamedSharding):
        aval = typeof(x)
        target.spec.check_rank(aval.ndim)
        if context.are_all_axes_explicit:
            _assert_sharded(aval, target)
            return x
        abstract = target.mesh.abstract_mesh
        for name in target.spec.axes:
            if abstract.axis_type(name) is not AxisType.Auto:
                raise errors.constraint_not_auto(target.spec, abstract)
    return sharding_constraint_p.bind1(x, sharding=target)


def _assert_sharded(aval: ShapedArray, target: NamedSharding) -> None:
    """Over Explicit axes the type says already how a value is laid out."""
    found, wanted = aval.sharding.spec, target.spec.padded(aval.ndim)
    for old, new in zip(found.partitions, wanted.partitions, strict=True):
        if new is not UNCONSTRAINED and old != new:
            raise errors.constraint_differs(found, wanted)


def block_until_ready(x: Any) -> Any:
    """Waits until all arrays and tokens of a pytree are computed; returns the pytree.

    >>> block_until_ready({"a": 1, "b": None})
    {'a': 1, 'b': None}

    Upstream: `jax/_src/api.py` (`block_until_ready`).
    """

    def wait(leaf: Any) -> Any:
        if isinstance(leaf, (Array, Token)):
            leaf.block_until_ready()
        return leaf

    return tree_map(wait, x)


# ------------------------------------------------------------------------- reshard


@reshard_p.def_abstract_eval
def _reshard_type(aval: ShapedArray, *, dst_sharding: NamedSharding) -> list[Any]:
    to = canonicalize_sharding(dst_sharding, "reshard", check_mesh=False)
    assert to is not None
    old, new = aval.sharding.spec, to.spec
    if new.unreduced and new.unreduced_kind is not UnreducedKind.sum:
        if new.unreduced - old.unreduced:
            raise errors.reshard_more_unreduced(old, new)
    if old.unreduced and new.unreduced and old.unreduced_kind != new.unreduced_kind:
        raise errors.reshard_kinds(old, new)
    return [aval.update(sharding=typed(to, aval.shape))]


@reshard_p.def_lowering
def _reshard_lowering(ctx: Any, x: Any, **_: Any) -> Any:
    return [ctx.with_sharding(x, ctx.avals_out[0])]


def _reshard_transpose(ct: Any, operand: Any, **_: Any) -> Any:
    aval = operand.aval.to_cotangent()
    return ct if aval.mesh.empty else reshard_p.bind1(ct, dst_sharding=aval.sharding)


reshard_p.def_linear(_reshard_transpose)


@reshard_p.def_batch
def _reshard_batch(
    axis: Any, args: Any, dims: Any, *, dst_sharding: NamedSharding
) -> Any:
    (x,), (d,) = args, dims
    return reshard_p.bind(x, dst_sharding=for_vmap(axis, dst_sharding, d)), [d]


@reshard_p.def_pretty
def _reshard_pretty(_: Any) -> dict[str, Any]:
    return {}  # the type of the result tells it


# -------------------------------------------------------------- sharding_constraint

sharding_constraint_p = Primitive("sharding_constraint")


@sharding_constraint_p.def_abstract_eval
def _constraint_type(aval: ShapedArray, *, sharding: Sharding) -> list[Any]:
    """The same, over the mesh of the sharding where there was none."""
    if not aval.mesh.empty or not isinstance(sharding, NamedSharding):
        return [aval]
    mesh = sharding.mesh.abstract_mesh
    return [aval.update(sharding=replicated(mesh, aval.ndim))]


@sharding_constraint_p.def_lowering
def _constraint_lowering(ctx: Any, x: Any, *, sharding: Sharding) -> Any:
    (aval,) = ctx.avals_in
    if isinstance(sharding, NamedSharding) and aval.sharding.spec.axes:
        sharding = sharding.update(spec=_with_explicit(sharding.spec, aval))
    return constrain([x], [sharding], ctx.avals_in)


def _with_explicit(spec: PartitionSpec, aval: ShapedArray) -> PartitionSpec:
    """A spec over Auto axes, joined to what the type says of the Explicit ones."""
    told = aval.sharding.spec
    return spec.update([told.axes_of(i) + spec.axes_of(i) for i in range(aval.ndim)])


sharding_constraint_p.def_linear(
    lambda ct, _, sharding: sharding_constraint_p.bind1(ct, sharding=sharding)
)


@sharding_constraint_p.def_batch
def _constraint_batch(axis: Any, args: Any, dims: Any, *, sharding: Any) -> Any:
    (x,), (d,) = args, dims
    if isinstance(sharding, NamedSharding):
        spec = sharding.spec.padded(d)
        parts, mapped = spec.partitions, axis.spmd_name or UNCONSTRAINED
        spec = spec.update((*parts[:d], mapped, *parts[d:]))
        sharding = sharding.update(spec=spec)
    return sharding_constraint_p.bind(x, sharding=sharding), [d]
