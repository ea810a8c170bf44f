"""What minijax says when a collective makes no sense.

Each function takes plain data (names, printed types) and returns the exception. Where
upstream has a wording this is it; a text may go on after upstream's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from minijax.core.errors.sharding import show_frozenset, show_set
from minijax.core.errors.tracing import in_scope

__all__: list[str] = []


# --- names and groups ----------------------------------------------------------------


def repeated_name(axis_name: object, name: object) -> ValueError:
    return ValueError(
        f"repeated axis in `source` argument: axis_name {axis_name!r} names {name!r} "
        "more than once"
    )


def unhashable_name(axis_name: object, kind: str) -> TypeError:
    return TypeError(
        f"unhashable type: '{kind}'; axis_name must be a string or a tuple of strings, "
        f"got {axis_name!r}"
    )


def positional_name(axis: int) -> ValueError:
    return ValueError(
        f"axis {axis} is out of bounds for array of dimension 0: axis_name must be a "
        f"name, not the integer {axis}"
    )


def out_of_bounds(axis: int, rank: int) -> ValueError:
    return ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")


def groups_do_not_cover(groups: object, names: object, size: int | None) -> ValueError:
    of = "" if size is None else f", which has {size}"
    return ValueError(
        "axis_index_groups must cover all indices exactly once: every index along axis "
        f"{names}{of}, from 0 up, must be in one group. Got {groups}"
    )


def groups_of_unequal_size(groups: Sequence[Sequence[int]]) -> ValueError:
    sizes = ", ".join(str(len(g)) for g in groups)
    return ValueError(
        f"Replica groups must be equally sized, got {groups}, of sizes {sizes}. The "
        "result has one shape on all devices, and that follows from the group's size."
    )


def groups_with_positions(axes: object) -> ValueError:
    return ValueError(
        "axis_index_groups only supported for sums over just named axes, but got: "
        f"{axes}"
    )


def extreme_of_sum(collective: str) -> ValueError:
    kind = collective.removeprefix("p")
    return ValueError(
        f"unreduced_{collective} cannot accept args with unreduced_kind="
        f"UnreducedKind.sum. Expected unreduced_kind=UnreducedKind.{kind}. The sum "
        "over the devices is still to be done: jax.lax.psum does it."
    )


def groups_not_invariant(collective: str, to: str) -> NotImplementedError:
    return NotImplementedError(
        f"{collective} to {to} with axis_index_groups: groups hold different results, "
        "so that the result varies over the axis. Leave `to` at 'varying'."
    )


def eager_collective(primitive: str) -> RuntimeError:
    return RuntimeError(
        f"{primitive} must be used within a mapped context like vmap or shard_map. "
        f"{in_scope({})}"
    )


def not_evaluated(primitive: str, name: object) -> NotImplementedError:
    """Upstream has no evaluation of these; the rest says what was meant."""
    return NotImplementedError(
        f"Evaluation rule for '{primitive}' not implemented: unbound axis name: {name}."
        f" Call {primitive} under jax.shard_map, or under jax.vmap with that axis_name."
    )


# --- manual axis types ---------------------------------------------------------------


def operand_is(
    kind: str, primitive: str, aval: str, names: Collection[str]
) -> ValueError:
    """The operand is unreduced or reduced (`kind`) over an axis that is acted on."""
    return ValueError(
        f"{primitive} cannot accept args which are {kind}. Got {aval} and "
        f"axes={show_set(names)}"
    )


def not_varying(
    primitive: str, varying: Collection[str], names: tuple[str, ...]
) -> ValueError:
    return ValueError(
        f"Collective {primitive} must be applied to a device-varying  type, but got "
        f"{show_frozenset(varying)} for collective acting over axis name {names}. "
        "Please open an issue at https://github.com/jax-ml/jax/issues and as a "
        "temporary workaround pass the check_vma=False argument to `jax.shard_map`"
    )


def not_under_shard_map(
    primitive: str, name: object, sizes: Mapping[str, int]
) -> ValueError:
    detail = f" {in_scope(sizes)}"
    if name in sizes:
        detail = f" Axis {name!r} is bound by vmap, not by a mesh."
    return ValueError(f"{primitive} should be called under jax.shard_map.{detail}")


def pvary_of_varying(axes: object, aval: object) -> ValueError:
    return ValueError(
        "pvary is a invariant->variant collective. This means that the axis names "
        "mentioned in `axes` passed to `pvary` must not be present in "
        f"`jax.typeof(inp).mat.varying`. Got axes={axes} and jax.typeof(inp)={aval}"
    )


def psum_of_invarying(axes: object, varying: Collection[str]) -> ValueError:
    return ValueError(
        "psum is a variant->invariant collective. This means that the axis names "
        "mentioned in `axes` passed to `psum` must be present in "
        f"`jax.typeof(inp).mat.varying`. Got axes={axes} and "
        f"jax.typeof(inp).mat.varying={show_frozenset(varying)}"
    )


def integer_axes(primitive: str, axes: object) -> ValueError:
    return ValueError(f"{primitive} does not accept integer axes. Got {axes}")


def preduced_of_varying(axes: object, varying: Collection[str]) -> ValueError:
    return ValueError(
        "preduced is a Invariant->Reduced collective. This means that the axis names "
        "mentioned in `axes` passed to `preduced` must not be present in "
        f"`jax.typeof(inp).mat.varying`. Got axes={axes} and "
        f"jax.typeof(inp).mat.varying={show_frozenset(varying)}"
    )


def cast_already(primitive: str, kind: str, aval: str, axes: object) -> ValueError:
    """A cast to where the operand already is, or from where it cannot be."""
    return ValueError(
        f"{primitive} input cannot be {kind} across the axis_name provided. Got "
        f"x={aval} and axis_name={axes}"
    )


def wants_some(primitive: str, kind: str, aval: str) -> ValueError:
    """The operand is nowhere varying, unreduced or reduced (`kind`)."""
    return ValueError(
        f"{primitive} only accepts inputs that are {kind}. Got {aval}{_made(kind)}"
    )


def _made(kind: str) -> str:
    """How a value comes to be varying, unreduced or reduced."""
    how = {
        "varying": "is sharded over the axis in in_specs, or cast by "
        "jax.lax.pcast(x, axis_name, to='varying')",
        "unreduced": "is one summand of several: jax.lax.pcast(x, axis_name, "
        "to='unreduced') makes it one",
        "reduced": "comes from jax.lax.all_gather(..., to='reduced'), or from "
        "jax.lax.pcast(x, axis_name, to='reduced')",
    }
    return f". A value that is {kind} {how[kind]}."


def cast_wants(
    primitive: str, change: str, kind: str, axes: object, held: Collection[str]
) -> ValueError:
    """None of the axes is where the cast starts from."""
    return ValueError(
        f"{primitive} is a {change} collective. This means that the axis names "
        f"mentioned in `axes` passed to `{primitive}` must be present in "
        f"`jax.typeof(x).mat.{kind}`. Got axes={axes} and "
        f"jax.typeof(x).mat.{kind}={show_frozenset(held)}"
    )


def collective_wants(
    primitive: str,
    change: str,
    kind: str,
    param: str,
    names: object,
    held: Collection[str],
) -> ValueError:
    """None of the axes is where the collective starts from."""
    return ValueError(
        f"{primitive} is a {change} collective. This means that the {param}={names} "
        f"passed to `{primitive}` must be present in jax.typeof(x).mat.{kind}="
        f"{show_frozenset(held)}{_made(kind)}"
    )


def collective_cannot_be(
    primitive: str, kind: str, aval: str, param: str, names: object
) -> ValueError:
    """The operand is `kind` over an axis that is acted on."""
    return ValueError(
        f"{primitive}'s input cannot be {kind} across the axis_name provided. Got "
        f"x={aval} and {param}={names}. Leave out the axes that it is {kind} over."
    )


def partly_varying(
    primitive: str, kind: str, missing: Collection[str], names: object
) -> ValueError:
    return ValueError(
        f"{primitive} over axis_name={names} needs an input that is {kind} over all "
        f"of them, but it is not over {show_set(missing)}. Use jax.lax.pcast first."
    )


def mixed_states(
    api: str, aval: object, axes: object, states: Collection[str]
) -> ValueError:
    return ValueError(
        f"{api} can only accept axis_name which corresponds to one of varying, "
        "unreduced, reduced or invarying state of the input. Got input type: "
        f"{aval}, axes: {axes} and input state: {show_set(states)}"
    )


def pcast_set(axis_name: object) -> TypeError:
    return TypeError(f"{axis_name=} must be a tuple or a str. Got {axis_name}")


def pcast_to(allowed: Collection[str], to: object) -> ValueError:
    return ValueError(
        f"Got unexpected `to` value. Allowed `to` values are: {show_set(allowed)}, "
        f"and to={to!r} is none of them"
    )


def pcast_unsupported(start: str, to: str) -> ValueError:
    return ValueError(f"Unsupported pcast from={start}, {to=}")


# --- single collectives --------------------------------------------------------------


def all_gather_to(allowed: Collection[str], to: object) -> ValueError:
    return ValueError(
        "Got unexpected `to` value for `jax.lax.all_gather`. Allowed `to` values are: "
        f"{show_set(allowed)}, and to={to!r} is none of them. They say what the "
        "result is over the axis that was gathered."
    )


def all_to_all_indivisible(size: int, axis_name: object, group: int) -> ValueError:
    return ValueError(
        f"The size of all_to_all split_axis ({size}) has to be divisible by the size "
        f"of the named axis {axis_name} ({group}). Pad that dimension to "
        f"{-(-size // group) * group}, or split another one."
    )


def all_to_all_size(group: int, size: int, axis_name: object) -> ValueError:
    return ValueError(
        "all_to_all requires the size of the mapped axis axis_name to equal "
        f"x.shape[split_axis], but they are {group} and {size} respectively. Each "
        f"of the {group} devices along axis_name={axis_name!r} gets one element. With "
        "tiled=True the dimension may be any multiple of that."
    )


def all_to_all_split(size: int, group: int) -> AssertionError:
    """A direct bind that the public function would have refused (upstream's class)."""
    return AssertionError((size, group))


def scatter_indivisible(size: int, count: int) -> ValueError:
    return ValueError(
        f"tiled reduce_scatter operand scatter dimension size {size} must be "
        f"divisible by shard_count {count}"
    )


def scatter_size(size: int, count: int) -> ValueError:
    return ValueError(
        f"reduce_scatter operand scatter dimension size {size} must match shard count "
        f"{count}"
    )


def ragged_not_integer(argument: str) -> ValueError:
    return ValueError(f"ragged_all_to_all {argument} must be integer type.")


def ragged_rank(argument: str, shape: Sequence[int]) -> ValueError:
    return ValueError(
        f"ragged_all_to_all {argument} must be rank 1 with positive dimension size, "
        f"but got shape {tuple(shape)}"
    )


def ragged_lengths(lengths: Sequence[int], size: int) -> ValueError:
    return ValueError(
        "ragged_all_to_all input_offsets, send_sizes, output_offsets and recv_sizes "
        f"must have one length, a multiple of the number of devices {size}, but got "
        f"lengths {tuple(lengths)}"
    )


def ragged_data(operand: str, output: str) -> ValueError:
    return ValueError(
        "ragged_all_to_all operand and output must agree in dtype and in all "
        f"dimensions but the first, but got {operand} and {output}"
    )


def perm_type(kind: type) -> TypeError:
    return TypeError(
        "`perm` passed to `jax.lax.ppermute` must be a list or a tuple. Got perm of "
        f"type {kind}"
    )


def perm_pairs(perm: object) -> ValueError:
    return ValueError(
        "`perm` passed to `jax.lax.ppermute` must hold pairs (source, destination), "
        f"got {perm}"
    )


def perm_not_unique(perm: object) -> ValueError:
    return ValueError(f"ppermute sources and destinations must be unique, got {perm}.")


def perm_out_of_range(perm: object, size: int) -> ValueError:
    return ValueError(
        f"ppermute sources and destinations must be indices into an axis of size "
        f"{size}, got {perm}."
    )


def perm_order() -> RuntimeError:
    return RuntimeError(
        "Make sure that the axis_name passed to jax.lax.ppermute is in the same order "
        "as the axis_names declared on the mesh. If you want to allow different order, "
        "you can disable the check via `with jax.raise_on_ppermute_sort_diff(False):` "
        "context manager."
    )


def single_axis(function: str, axis_name: object) -> TypeError:
    return TypeError(f"{function} only accepts a single axis, got {axis_name}")


def source_dtype(dtype: str) -> TypeError:
    return TypeError(f"pbroadcast dynamic source must be an i32 array, got {dtype}")


def source_shape(shape: Sequence[int]) -> ValueError:
    return ValueError(
        f"pbroadcast dynamic source must be a scalar, got shape {tuple(shape)}"
    )


def source_out_of_range(source: int, size: int) -> ValueError:
    return ValueError(
        f"collective broadcast doesn't fit in the axis size! Got source {source} for "
        f"an axis of size {size}"
    )


def not_a_permutation(perm: object) -> ValueError:
    return ValueError(f"`perm` does not represent a permutation: {perm}")
