"""Errors of `shard_map`.

Upstream's wording of them tells the mesh, the spec, and the place of both in the
user's arguments; the functions here take those places as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SpecFailure(NamedTuple):
    """One spec that does not fit: where it stands, what it is, and what it met."""

    spec_path: str  # `in_specs[1]`
    spec: object
    value_path: str  # `the passed args[1]`
    extra: str  # `, where args[1] is bound to f's parameter 'x',`
    aval: str
    rank: int


def not_callable(fun: object) -> TypeError:
    return TypeError(
        "shard_map requires a callable for its first argument, "
        f"but got {fun} of type {type(fun)}."
    )


def keyword_argument(name: str, function: str) -> TypeError:
    return TypeError(
        f"_shard_map.<locals>.wrapped() got an unexpected keyword argument '{name}'. "
        f"The function that shard_map made of {function} takes positional arguments, "
        "to which in_specs correspond."
    )


def no_context_mesh() -> ValueError:
    return ValueError(
        "The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a "
        "mesh context"
    )


def mesh_mismatch(context: object, mesh: object) -> ValueError:
    return ValueError(
        f"The context mesh {context} should match the mesh passed to shard_map {mesh}. "
        "Without mesh= shard_map takes the context mesh."
    )


def not_a_mesh(mesh: object) -> TypeError:
    return TypeError(
        "shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` "
        f"instance for its second argument, but got {mesh} of type {type(mesh)}."
    )


def empty_mesh(mesh: object) -> ValueError:
    return ValueError(f"shard_map requires a non-empty mesh. Got {mesh}")


def axis_names_type(axis_names: object) -> TypeError:
    return TypeError(
        "`axis_names` argument of shard_map should be of type `frozenset` or `set`. "
        f"Got type: {type(axis_names)}"
    )


def axis_names_subset(axis_names: str, mesh_names: str) -> ValueError:
    return ValueError(
        f"jax.shard_map requires axis_names={axis_names} to be a subset of "
        f"mesh.axis_names={mesh_names}"
    )


def in_specs_needed(axis_names: str, axis_types: str) -> TypeError:
    return TypeError(
        "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` "
        f"instances, but it was `None` when axis_names={axis_names} are of type "
        f"{axis_types}"
    )


def not_specs(prefix: str, found: Sequence[tuple[str, object]]) -> TypeError:
    lines = [
        f"  {prefix}_specs{path} is {x} of type {type(x).__name__}, "
        for path, x in found
    ]
    return TypeError(
        f"shard_map {prefix}_specs argument must be a pytree of "
        "`jax.sharding.PartitionSpec` instances, but:\n\n"
        + "\n\n".join(lines)
        + f"\n\nCheck the {prefix}_specs values passed to shard_map."
    )


def not_manual(
    prefix: str, manual: str, found: Sequence[tuple[str, str]]
) -> ValueError:
    lines = [f"  {prefix}_specs{path} refers to {name!r}" for path, name in found]
    return ValueError(
        f"shard_map {prefix}_specs argument must refer to an axis marked as manual "
        f"({manual}), but:\n\n"
        + "\n\n".join(lines)
        + f"\n\nCheck the {prefix}_specs values passed to shard_map."
    )


def reduced_not_manual(
    kind: str, prefix: str, spec: object, mesh: object
) -> ValueError:
    return ValueError(
        f"{kind} in {prefix}_specs {spec} can only be used when the mesh passed to "
        f"shard_map contains axis names of type `Manual`. Got mesh {mesh}"
    )


def spec_differs(spec: object, of_input: object, aval: object) -> ValueError:
    return ValueError(
        f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
        f"{of_input} for arg: {aval}. `in_specs` is an optional argument so you can "
        "omit specifying it and shard_map will infer the in_specs from the arguments. "
        "If you want to reshard your inputs, you can use `jax.reshard` on the "
        "arguments and then pass those args to shard_map."
    )


def in_spec_kind(kind: str, spec: object, aval: str) -> ValueError:
    return ValueError(
        f"in_specs containing {kind} {spec} passed to shard_map should be equal to the "
        f"{kind} present on the in_aval {aval}"
    )


def out_spec_kind(kind: str, spec: object, aval: str) -> ValueError:
    return ValueError(
        f"out_specs passed to shard_map should be equal to the {kind} present on the "
        f"out_aval. Got out_specs={spec} and out_aval={aval}"
    )


def spec_too_long(
    prefix: str, function: str, failures: Sequence[SpecFailure]
) -> ValueError:
    lines = [
        f"{f.spec_path} is {f.spec} which has length {_length(f.spec)}, but "
        f"{f.value_path}{f.extra} has shape {f.aval}, which has rank {f.rank} "
        f"(and {f.rank} < {_length(f.spec)})"
        for f in failures
    ]
    text = (
        f"shard_map applied to the function '{function}' was given an {prefix}_specs "
        "entry which is too long to be compatible with the corresponding "
        f"{prefix}put value from the function:\n\n{_bullets(lines)}\n\n"
        f"Entries in {prefix}_specs must be of length no greater than the number of "
        f"axes in the corresponding {prefix}put value.\n\n"
        f"Either revise the spec to be shorter, or modify '{function}' so that its "
        f"{prefix}puts have sufficient rank."
    )
    if any(f.rank == 0 for f in failures):
        text += (
            f"\n\nFor scalar values (rank 0), consider using an {prefix}_specs entry "
            "of `P()`, where `P = jax.sharding.PartitionSpec`."
        )
        if prefix == "out":
            text += (
                " In particular, for rank 0 outputs which are not constant over the "
                "mesh, add at least one (singleton) axis to them so that they can be "
                "concatenated using out_specs."
            )
    return ValueError(text)


def _length(spec: object) -> int:
    return len(getattr(spec, "partitions", ()))


def _bullets(lines: Sequence[str]) -> str:
    return lines[0] if len(lines) == 1 else "\n\n".join(f"* {x}" for x in lines)


def _mesh_shape(sizes: Sequence[int], names: Sequence[str]) -> str:
    return (
        f"The mesh given has shape {tuple(sizes)} with corresponding axis names "
        f"{tuple(names)}.\n\n"
    )


def not_divisible(
    function: str,
    sizes: Sequence[int],
    names: Sequence[str],
    failures: Sequence[tuple[SpecFailure, int, int, tuple[str, ...], int]],
) -> ValueError:
    """`failures` lists (what, dimension, its size, mesh axes, their size)."""
    lines: list[str] = []
    for f, dim, size, axes, total in failures:
        which = f"axes {axes} (of total size {total})"
        if len(axes) == 1:
            which = f"axis '{axes[0]}' (of size {total})"
        lines.append(
            f"{f.value_path} of shape {f.aval}{f.extra} corresponds to "
            f"{f.spec_path} of value {f.spec}, which maps array axis {dim} (of size "
            f"{size}) to mesh {which}, but {total} does not evenly divide {size}"
        )
    return ValueError(
        f"shard_map applied to the function '{function}' was given argument arrays "
        "with axis sizes that are not evenly divisible by the corresponding mesh axis "
        f"sizes:\n\n{_mesh_shape(sizes, names)}{_bullets(lines)}\n\n"
        "Array arguments' axis sizes must be evenly divisible by the mesh axis or axes "
        "indicated by the corresponding elements of the argument's in_specs entry. "
        "Consider checking that in_specs are correct, and if so consider changing the "
        f"mesh axis sizes or else padding the input and adapting '{function}' "
        "appropriately."
    )


def not_replicated(
    function: str,
    sizes: Sequence[int],
    names: Sequence[str],
    failures: Sequence[tuple[str, object, Sequence[str], str, str, str]],
) -> ValueError:
    """`failures` lists (path, spec, unmentioned axes, needed, offending, inferred)."""
    lines: list[str] = []
    over = ""
    for path, spec, unmentioned, needed, offending, inferred in failures:
        over = over or offending
        start = (
            f"{path} is {spec} which implies that the corresponding output value is "
        )
        if len(unmentioned) > 1:
            lines.append(
                f"{start}only varying across mesh axes {{{needed}}} and not "
                f"{{{offending}}}, but it was inferred to be possibly varying over "
                f"{{{inferred}}}"
            )
        else:
            lines.append(
                f"{start}replicated across mesh axis '{unmentioned[0]}', but could not "
                "infer replication over any axes"
            )
    return ValueError(
        f"shard_map applied to the function '{function}' was given out_specs which "
        "require replication which can't be statically inferred given the mesh:\n\n"
        f"{_mesh_shape(sizes, names)}{_bullets(lines)}\n\n"
        "Check if these output values are meant to be replicated over those mesh axes. "
        "If not, consider revising the corresponding out_specs entries. If so, "
        "consider disabling the check by passing the check_vma=False argument to "
        f"`jax.shard_map`.\n\nA sum over the devices is replicated: {_psum(over)}."
    )


def _psum(offending: str) -> str:
    """The call that sums over axes, given as `x` or `x,y`."""
    first, *rest = offending.split(",")
    return f"jax.lax.psum(out, {(first, *rest) if rest else first!r})"


def spmd_name_clash(prefix: str, names: object) -> ValueError:
    return ValueError(
        f"vmap spmd_axis_name cannot appear in shard_map {prefix}_specs: both name "
        f"{names}"
    )


def mapped_axis_clash(prefix: str, names: object) -> ValueError:
    return ValueError(
        f"vmapped away explicit mesh axis cannot appear in shard_map {prefix}_specs: "
        f"the mapped dimension is sharded over {names}. Each device maps its own rows, "
        "so that nothing else can be sharded over the same axis."
    )


def token_spec(spec: object) -> ValueError:
    return ValueError(
        f"a token has no dimensions to shard; its spec must be P(), but got {spec}"
    )
