"""`top_level_all_gather`, outside of `shard_map`, on a mesh of Explicit axes.

    mesh i: 4          f32[8@i]                f32[8]{R:i}
    device 0..3        01 | 23 | 45 | 67  ->   01234567 on each

The value is unchanged; each device holds more of it, and the type remembers the axes
that were gathered as *reduced*: the cotangent comes back unreduced, and is summed and
scattered in one `reduce_scatter`. Not a primitive but a composition:
`jit(shard_map(all_gather(..., to='reduced')))`.

Upstream: `jax/_src/shard_map.py` (`top_level_all_gather`), which is private there.
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.errors import top_level as errors
from minijax.core.mesh import PartitionSpec, get_abstract_mesh
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.pytree import flatten_axis_resources, tree_flatten, tree_unflatten
from minijax.core.trace import typeof
from minijax.lax.collectives.all_gather import all_gather
from minijax.transforms.jit import jit
from minijax.transforms.shard_map import shard_map


def top_level_all_gather(xs: Any, out_sharding: Any, *, multi_dim: bool = False) -> Any:
    """Gathers arrays along mesh axes, keeping their values.

    Args:
      xs: a pytree of arrays sharded over Explicit axes of the context mesh.
      out_sharding: a pytree prefix of `xs` with PartitionSpecs or NamedShardings. Each
        dimension's entry is a prefix of the array's own; the axes left out are
        gathered and must be named in `reduced=`.
      multi_dim: whether more than one dimension may be gathered.

    Returns:
      The tree of `xs`; each array equal to its original, with the sharding asked for.

    Raises:
      ValueError: where the mesh is not all Explicit, where a target is no prefix, and
        where it does not name the gathered axes as reduced.
      TypeError: for a target that is no sharding.

    >>> import numpy as np, minijax
    >>> from minijax.sharding import AxisType, PartitionSpec as P
    >>> mesh = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
    >>> with minijax.set_mesh(mesh):
    ...     x = minijax.device_put(np.arange(8.0), P("i"))
    ...     y = minijax.top_level_all_gather(x, P(reduced={"i"}))
    ...     print(minijax.typeof(x), minijax.typeof(y))
    float32[8@i] float32[8]{R:i}
    """
    mesh = get_abstract_mesh()
    if mesh.empty or not mesh.are_all_axes_explicit:
        raise errors.not_explicit(mesh)
    leaves, tree = tree_flatten(xs)
    targets = flatten_axis_resources(
        "top_level_all_gather out_sharding", tree, out_sharding, True
    )
    gathered = [_gather(x, t, multi_dim) for x, t in zip(leaves, targets, strict=True)]
    return tree_unflatten(tree, gathered)


def _gather(x: Any, target: Any, multi_dim: bool) -> Any:
    aval = typeof(x)
    if not isinstance(aval, ShapedArray) or aval.mesh.empty:
        raise errors.not_sharded(type(x).__name__, aval)
    sharding = canonicalize_sharding(target, "top_level_all_gather")
    if sharding is None:
        raise errors.no_target(target)
    if aval.mesh != sharding.mesh.abstract_mesh:
        raise errors.other_mesh(aval.mesh, sharding.mesh)
    in_spec = aval.sharding.spec
    if len(sharding.spec.partitions) > aval.ndim:
        raise errors.rank(sharding.spec, aval)
    out_spec = sharding.spec.for_aval(aval.ndim)

    changed = _gathered_axes(aval, in_spec, out_spec, multi_dim)
    gathered = frozenset(n for _, names in changed for n in names)
    wanted = in_spec.update(out_spec.partitions, reduced=in_spec.reduced | gathered)

    def f_shmap(part: Any) -> Any:
        for dim, names in changed:
            part = all_gather(part, names, axis=dim, tiled=True, to="reduced")
        return part

    try:
        return jit(shard_map(f_shmap, out_specs=out_spec))(x)
    except ValueError as error:
        if wanted == out_spec:
            raise
        told = str(error), aval, sharding.spec, wanted
        raise errors.not_named_reduced(*told) from None


def _gathered_axes(
    aval: Any, in_spec: PartitionSpec, out_spec: PartitionSpec, multi_dim: bool
) -> list[tuple[int, tuple[str, ...]]]:
    """Per dimension that changes, the mesh axes to gather: those after the prefix."""
    changed: list[tuple[int, tuple[str, ...]]] = []
    for dim in range(aval.ndim):
        old, new = in_spec.axes_of(dim), out_spec.axes_of(dim)
        if old == new:
            continue
        if changed and not multi_dim:
            raise errors.several_dimensions(in_spec, out_spec)
        if not old:
            raise errors.not_sharded_on(aval, dim, out_spec)
        if old[: len(new)] != new:
            raise errors.not_a_prefix(in_spec, out_spec, dim)
        changed.append((dim, old[len(new) :]))
    return changed
