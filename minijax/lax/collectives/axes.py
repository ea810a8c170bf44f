"""Axis names, groups and manual axis types: what every collective checks.

Only core is imported here, because the elementwise operations need `pvary`, and with
it this file. Batching along a named axis, which needs them in turn, is in `common.py`.

A name may be bound in two ways, and the difference matters under `check_vma`. A mesh
axis that `shard_map` binds is *typed*: types say whether a value varies over it. A name
that `vmap` binds is not: it never appears in a type and is never cast.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from math import prod
from typing import Any

from minijax.core.avals import Names, ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.errors import tracing as tracing_errors
from minijax.core.trace import (
    Tracer,
    axis_env,
    axis_size,
    current_trace,
    is_evaluating,
    typeof,
    use_trace,
)
from minijax.lax.collectives.primitives import pvary_p

AxisName = str | tuple[str, ...]
Groups = tuple[tuple[int, ...], ...] | None


# ------------------------------------------------------------------------- names


def as_names(axis_name: Any) -> tuple[Any, ...]:
    """The names as a tuple, a list being as good; refuses repeated ones.

    >>> as_names("i"), as_names(["x", "y"]), as_names(())
    (('i',), ('x', 'y'), ())
    """
    if isinstance(axis_name, tuple | list):
        names = tuple(axis_name)
    else:
        names = (axis_name,)
    for k, name in enumerate(names):
        if isinstance(name, set | dict | list):
            raise errors.unhashable_name(axis_name, type(name).__name__)
        if name in names[:k] and not isinstance(name, int):
            raise errors.repeated_name(axis_name, name)
    return names


def params_names(params: dict[str, Any]) -> tuple[str, ...]:
    """The named axes among a collective's parameters: its `axis_names` rule."""
    names = params["axes"] if "axes" in params else params["axis_name"]
    names = names if isinstance(names, tuple) else (names,)
    return tuple(n for n in names if not isinstance(n, int))


def check_bound(names: Iterable[Any], primitive: str) -> None:
    """Refuses unbound names, in a primitive's abstract evaluation."""
    sizes = axis_env().sizes
    for name in names:
        if name not in sizes and not isinstance(name, int):
            raise tracing_errors.found_unbound_axis(name, primitive, sizes)


def check_evaluated(names: Iterable[Any], primitive: str) -> None:
    """Refuses unbound names where values are concrete, as upstream does for these."""
    sizes = axis_env().sizes
    missing = [n for n in names if n not in sizes and not isinstance(n, int)]
    if not missing:
        return
    trace = current_trace()
    while hasattr(trace, "parent"):
        trace = trace.parent  # pyright: ignore[reportAttributeAccessIssue]
    with use_trace(trace):
        if is_evaluating():
            raise errors.not_evaluated(primitive, missing[0])


def names_size(names: Iterable[str]) -> int:
    """How many indices the axes have together."""
    return prod(axis_size(name) for name in names)


def canonical_axis(axis: Any, rank: int) -> int:
    """A dimension from 0 up; the error shows it as it was given.

    >>> canonical_axis(-1, 3)
    2
    """
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise errors.out_of_bounds(axis, rank)
    return axis % rank


def operand_type(x: Any) -> ShapedArray:
    """The type of an array; refuses tokens, as numpy does, and what is no value."""
    try:
        aval = typeof(x)
    except tracing_errors.NotAValueError as error:
        raise TypeError(str(error)) from None
    if not isinstance(aval, ShapedArray):
        origin = x.origin() if isinstance(x, Tracer) else ""
        raise tracing_errors.array_conversion(aval.short(), origin)
    return aval


# ------------------------------------------------------------------------ groups


def as_groups(axis_index_groups: Any) -> Groups:
    """Groups as a tuple of tuples of ints, which equations can hold."""
    if axis_index_groups is None:
        return None
    return tuple(tuple(map(operator.index, g)) for g in map(tuple, axis_index_groups))


def group_size(names: tuple[Any, ...], groups: Groups, *, uneven: bool = False) -> int:
    """How many members the collective has: the axis size, or that of a group.

    Groups must cover the axis exactly, and have one size unless `uneven`. An unbound
    name is an error here only where there are no groups, as upstream has it.
    """
    for name in names:
        if isinstance(name, int):
            raise errors.positional_name(name)
    if groups is None:
        return names_size(names)
    members = [i for g in groups for i in g]
    if set(members) != set(range(len(members))):
        raise errors.groups_do_not_cover(groups, names, None)
    if not axis_env().sizes.keys() >= set(names):
        return len(groups[0])  # whoever needs the names says which is missing
    total = names_size(names)
    if len(members) != total:
        raise errors.groups_do_not_cover(groups, names, total)
    if not uneven and len({len(g) for g in groups}) > 1:
        raise errors.groups_of_unequal_size(groups)
    return len(groups[0])


# -------------------------------------------------------------- manual axis types


def typed(names: Iterable[Any]) -> tuple[str, ...]:
    """Those of the names that types speak of: mesh axes under `check_vma`."""
    env = axis_env()
    return tuple(n for n in names if n in env.manual) if env.check_vma else ()


def untyped(names: Iterable[Any]) -> tuple[Any, ...]:
    """The other names."""
    those = typed(names := tuple(names))
    return tuple(n for n in names if n not in those)


def check_whole(aval: ShapedArray, names: Iterable[str], primitive: str) -> None:
    """Refuses an operand that is unreduced or reduced over one of the names."""
    if not (aval.manual.unreduced or aval.manual.reduced):
        return  # nearly always
    acted: Names = frozenset(names)
    for kind in ("unreduced", "reduced"):
        if getattr(aval.manual, kind) & acted:
            raise errors.operand_is(kind, primitive, aval.short(), acted)


def check_varying(aval: ShapedArray, names: tuple[str, ...], primitive: str) -> None:
    """Refuses an operand that does not vary over every typed name."""
    if any(n not in aval.manual.varying for n in typed(names)):
        raise errors.not_varying(primitive, aval.manual.varying, names)


def cast_to_varying(x: Any, names: Iterable[Any]) -> Any:
    """What wrappers do first: pvary over the typed names that are missing."""
    varying = operand_type(x).manual.varying
    missing = [n for n in typed(names) if n not in varying]
    return pvary_p.bind1(x, axes=in_mesh_order(missing)) if missing else x


def in_mesh_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names in the order in which their mesh axes were bound."""
    return tuple(n for n in axis_env().sizes if n in set(names))


def state_over(aval: ShapedArray, names: Iterable[str], api: str) -> str:
    """Which one of the four states the value has over all the names.

    Names bound by vmap have none.
    """
    manual, env = aval.manual, axis_env()
    kinds = ("varying", "unreduced", "reduced")
    states = {
        next((k for k in kinds if n in getattr(manual, k)), "invarying")
        for n in names
        if n in env.manual or n not in env.sizes
    }
    if len(states) > 1:
        raise errors.mixed_states(api, aval, tuple(names), states)
    return states.pop() if states else "invarying"


def retyped(aval: ShapedArray, **changes: Iterable[str]) -> list[ShapedArray]:
    """The type with some of its manual sets replaced, as a rule returns it."""
    return [aval.update(manual=aval.manual.update(**changes))]
