"""pcast: change what the type says a value is over mesh axes. No data moves.

    f32[2]               f32[2]{V:i}
    5 5 | 5 5 | 5 5  ->  5 5 | 5 5 | 5 5      pvary: the copies may differ from now on

| primitive | from -> to | transpose |
| --- | --- | --- |
| `pvary` | invarying -> varying | `psum_invariant` |
| `preduced` | invarying -> reduced | `unreduced_psum` |
| `vary_unreduced_cast` | varying -> unreduced | `reduced_vary_cast` |
| `reduced_vary_cast` | reduced -> varying | `vary_unreduced_cast` |

StableHLO: nothing, the operand itself.
Upstream: `jax/_src/lax/parallel.py` (`pcast`), `jax/_src/core.py` (`pvary`).
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import ShapedArray, replicated
from minijax.core.errors import collectives as errors
from minijax.core.errors import tracing as tracing_errors
from minijax.core.mesh import get_abstract_mesh
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import axis_env, is_evaluating
from minijax.lax.collectives.axes import (
    check_bound,
    check_whole,
    in_mesh_order,
    operand_type,
    retyped,
    state_over,
)
from minijax.lax.collectives.primitives import (
    preduced_p,
    psum_invariant_p,
    pvary_p,
    reduced_vary_cast_p,
    unreduced_psum_p,
    vary_unreduced_cast_p,
)

_CASTS = {
    ("invarying", "varying"): pvary_p,
    ("invarying", "reduced"): preduced_p,
    ("varying", "unreduced"): vary_unreduced_cast_p,
    ("reduced", "varying"): reduced_vary_cast_p,
}
_ALLOWED_TO = ("reduced", "unreduced", "varying")


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Casts the manual axis type of every leaf of `x` over one or several mesh axes.

    Args:
      x: a pytree of arrays, inside `shard_map`.
      axis_name: a mesh axis or a tuple of them.
      to: `'varying'`, `'unreduced'` or `'reduced'`.

    Raises ValueError if no such cast exists: see the table above.

    >>> import numpy as np, minijax
    >>> from minijax.sharding import PartitionSpec as P
    >>> mesh = minijax.make_mesh((2,), ("i",))
    >>> f = lambda x: pcast(x, "i", to="varying")
    >>> minijax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P("i"))(np.ones(1))
    Array([1., 1.], dtype=float32)
    """
    if isinstance(axis_name, set | frozenset):
        raise errors.pcast_set(axis_name)
    if not axis_name:
        return x
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    if to not in _ALLOWED_TO:
        raise errors.pcast_to(_ALLOWED_TO, to)

    def cast(leaf: Any) -> Any:
        start = state_over(operand_type(leaf), names, "jax.lax.pcast")
        primitive = _CASTS.get((start, to))
        if primitive is None:
            raise errors.pcast_unsupported(start, to)
        return bind_cast(primitive, leaf, names)

    return tree_map(cast, x)


def pvary(x: Any, axis_name: Any) -> Any:
    """Casts every leaf of `x` from invarying to varying over the mesh axes named."""
    if not axis_name:
        return x
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    return tree_map(lambda leaf: bind_cast(pvary_p, leaf, names), x)


def vary_unreduced_cast(x: Any, axis_name: Any) -> Any:
    """Casts every leaf of `x` from varying to unreduced: a sum still to be made."""
    if not axis_name:
        return x
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    return tree_map(lambda leaf: bind_cast(vary_unreduced_cast_p, leaf, names), x)


def bind_cast(primitive: Primitive, x: Any, names: tuple[str, ...]) -> Any:
    """Binds a cast, or does nothing where types do not follow manual axes."""
    env = axis_env()
    if not env.check_vma and all(n in env.manual for n in names):
        return x
    for name in names:
        if name not in env.sizes:
            if is_evaluating():
                raise errors.not_under_shard_map(primitive.name, name, env.sizes)
            raise tracing_errors.found_unbound_axis(name, primitive.name, env.sizes)
        if name not in env.manual:
            raise errors.not_under_shard_map(primitive.name, name, env.sizes)
    return primitive.bind1(x, axes=in_mesh_order(names))


# --------------------------------------------------------------- abstract evaluation


@pvary_p.def_abstract_eval
def _pvary_type(aval: ShapedArray, *, axes: tuple[str, ...]) -> list[ShapedArray]:
    check_bound(axes, "pvary")
    check_whole(aval, axes, "pvary")
    if aval.manual.varying.intersection(axes):
        raise errors.pvary_of_varying(axes, aval)
    if aval.mesh.empty:  # a constant from outside
        aval = aval.update(sharding=replicated(get_abstract_mesh(), aval.ndim))
    return retyped(aval, varying=aval.manual.varying.union(axes))


@preduced_p.def_abstract_eval
def _preduced_type(aval: ShapedArray, *, axes: tuple[str, ...]) -> list[ShapedArray]:
    manual = aval.manual
    check_bound(axes, "preduced")
    if manual.varying.intersection(axes):
        raise errors.preduced_of_varying(axes, manual.varying)
    if manual.reduced.intersection(axes):
        raise errors.cast_already("preduced", "reduced", aval.short(), axes)
    return retyped(aval, reduced=manual.reduced.union(axes))


@vary_unreduced_cast_p.def_abstract_eval
def _vary_unreduced_type(
    aval: ShapedArray, *, axes: tuple[str, ...]
) -> list[ShapedArray]:
    manual, name = aval.manual, "vary_unreduced_cast"
    check_bound(axes, name)
    check_whole(aval, axes, name)
    if not manual.varying:
        raise errors.wants_some(name, "varying", aval.short())
    if not manual.varying.issuperset(axes):
        raise errors.cast_wants(
            name, "Varying->Unreduced", "varying", axes, manual.varying
        )
    return retyped(
        aval,
        varying=manual.varying.difference(axes),
        unreduced=manual.unreduced.union(axes),
    )


@reduced_vary_cast_p.def_abstract_eval
def _reduced_vary_type(
    aval: ShapedArray, *, axes: tuple[str, ...]
) -> list[ShapedArray]:
    manual, name = aval.manual, "reduced_vary_cast"
    check_bound(axes, name)
    if not manual.reduced:
        raise errors.wants_some(name, "reduced", aval.short())
    if manual.varying.intersection(axes):
        raise errors.cast_already(name, "varying", aval.short(), axes)
    if not manual.reduced.issuperset(axes):
        raise errors.cast_wants(
            name, "Reduced->Varying", "reduced", axes, manual.reduced
        )
    return retyped(
        aval,
        varying=manual.varying.union(axes),
        reduced=manual.reduced.difference(axes),
    )


# ------------------------------------------------ lowering, derivatives and batching

_TRANSPOSES = {
    pvary_p: psum_invariant_p,
    preduced_p: unreduced_psum_p,
    vary_unreduced_cast_p: reduced_vary_cast_p,
    reduced_vary_cast_p: vary_unreduced_cast_p,
}


def _define(primitive: Primitive, transposed: Primitive) -> None:
    """The rules that all four casts share."""

    def batch(_: Any, args: Any, dims: Any, *, axes: tuple[str, ...]) -> Any:
        # A cast acts on the type alone, and vmap's names are in no type.
        return primitive.bind(*args, axes=axes), list(dims)

    primitive.lowering = lambda _, x, *, axes: [x]
    primitive.def_linear(lambda ct, _, *, axes: transposed.bind1(ct, axes=axes))
    primitive.batch = batch


for _primitive, _transposed in _TRANSPOSES.items():
    _define(_primitive, _transposed)
