"""What minijax says when a mesh, a PartitionSpec or a sharding makes no sense.

Each function takes plain data and returns the exception; the caller raises it. Where
upstream has a wording, this is that wording, so that a program which reads messages
cannot tell the two apart. Nothing but exceptions and their texts may live here.
"""

from collections.abc import Collection, Iterable

__all__ = ["DuplicateSpecError", "IndivisibleError"]


class IndivisibleError(ValueError):
    """A sharded dimension does not split into equal shards."""


class DuplicateSpecError(Exception):
    """A PartitionSpec uses one mesh axis more than once.

    Not a `ValueError`, as upstream: a caller that knows which argument the spec
    belongs to catches it and says so, using `mesh` and `pspec`.
    """

    def __init__(self, message: str, mesh: object, pspec: object) -> None:
        """Keep the offending mesh and spec beside the message."""
        super().__init__(message)
        self.mesh = mesh
        self.pspec = pspec


def show_set(names: Iterable[object]) -> str:
    """A set of axis names, in sorted order so that a message never varies by run.

    >>> show_set({"y", "x"})
    "{'x', 'y'}"
    """
    return "{" + ", ".join(sorted(map(repr, names))) + "}"


def show_frozenset(names: Collection[object]) -> str:
    """The same for a frozenset.

    >>> show_frozenset({"y", "x"}), show_frozenset(())
    ("frozenset({'x', 'y'})", 'frozenset()')
    """
    return f"frozenset({show_set(names)})" if names else "frozenset()"


# --- PartitionSpec -------------------------------------------------------------------


def nested_partition(partition: object, nested: object) -> ValueError:
    """A tuple of axis names holds another tuple."""
    return ValueError(
        "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
        f"{partition} and the nested tuple: {nested}"
    )


def axes_not_a_set(argument: str, value: object) -> TypeError:
    """`unreduced=` or `reduced=` is neither a set nor a frozenset."""
    return TypeError(
        f"{argument} argument of PartitionSpec should of type `frozenset` or `set`. "
        f"Got type {type(value)}"
    )


def none_in_axes(argument: str) -> ValueError:
    """`unreduced=` or `reduced=` contains None."""
    return ValueError(
        f"{argument} cannot contain None. All elements in {argument} should refer to "
        "the mesh axes."
    )


def unreduced_and_reduced(
    unreduced: Collection[object], reduced: Collection[object]
) -> ValueError:
    """An axis is both unreduced and reduced."""
    return ValueError(
        "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got "
        f"unreduced: {show_frozenset(unreduced)} and reduced: {show_frozenset(reduced)}"
    )


def partitioned_and_reduced(
    argument: str, partitions: object, axes: Collection[object]
) -> ValueError:
    """An axis that shards a dimension is also in `argument`, unreduced or reduced."""
    return ValueError(
        f"partitions cannot overlap with {argument} axes passed to PartitionSpec. Got "
        f"partitions: {partitions} and {argument} axes: {show_frozenset(axes)}"
    )


def bad_unreduced_kind(kind: object) -> TypeError:
    """`unreduced_kind=` is not an UnreducedKind."""
    return TypeError(
        "Expected unreduced_kind to be of type `jax.sharding.UnreducedKind` but got "
        f"{type(kind)}"
    )


def unreduced_kind_alone(kind: object) -> ValueError:
    """`unreduced_kind=` is given and nothing is unreduced."""
    return ValueError(
        "`unreduced_kind` should be `None` when `unreduced` is an empty set. Got "
        f"unreduced_kind={kind!r} and unreduced=frozenset()"
    )


def spec_with_axes_as_tuple(how: str, instead: str) -> ValueError:
    """A spec with unreduced or reduced axes is read as if it were only a tuple."""
    return ValueError(
        f"Using {how} is dangerous when PartitionSpec has non-empty "
        f"unreduced/reduced set. Please use {instead}"
    )


def different_unreduced_kinds(left: object, right: object) -> TypeError:
    """`spec + spec` with two kinds of pending reduction."""
    return TypeError(
        "PartitionSpec can't be added if the unreduced_kind differs in self and other."
        f" Got self={left!r} and other={right!r}"
    )


def tuple_plus_reduced_spec(
    spec: object, other: object, argument: str, method: str
) -> TypeError:
    """`spec + tuple` where the spec has unreduced or reduced axes."""
    return TypeError(
        f"other {other} cannot be of instance `tuple` when self {spec} has {argument} "
        f"in `{method}` of PartitionSpec."
    )


# --- Mesh and AbstractMesh -----------------------------------------------------------


def none_axis_name(axis_names: object) -> ValueError:
    """A mesh axis is named None."""
    return ValueError(f"Mesh axis names cannot be None. Got: {axis_names}")


def repeated_axis_name(axis_names: object) -> ValueError:
    """Two mesh axes have one name (upstream accepts this, and loses an axis)."""
    return ValueError(f"Mesh axis names must be distinct. Got: {axis_names}")


def not_a_device(device: object) -> TypeError:
    return TypeError(
        f"Mesh takes an array of devices, as of jax.devices(), and got {device!r} of "
        f"type {type(device)} among them."
    )


def mesh_rank(ndim: int, num_names: int) -> ValueError:
    """The device array has another rank than there are axis names."""
    return ValueError(
        "Mesh requires the ndim of its first argument (`devices`) to equal the length "
        "of its second argument (`axis_names`), but got devices.ndim == "
        f"{ndim} and len(axis_names) == {num_names}."
    )


def sizes_and_names(axis_sizes: object, axis_names: object) -> ValueError:
    """An AbstractMesh has another number of sizes than of names."""
    return ValueError(
        "Number of axis names should match the number of axis_sizes. Got "
        f"axis_names={axis_names} and axis_sizes={axis_sizes}"
    )


def bad_axis_types(what: str, axis_types: tuple[object, ...]) -> TypeError:
    """Something that is no AxisType was passed as one."""
    return TypeError(
        f"axis_types passed to {what} must be of type `jax.sharding.AxisType`. Got "
        f"{axis_types} of type {tuple(type(t) for t in axis_types)}"
    )


def types_and_names(axis_names: object, axis_types: object) -> ValueError:
    """Another number of axis types than of axis names."""
    return ValueError(
        "Number of axis names should match the number of axis_types. Got "
        f"axis_names={axis_names} and axis_types={axis_types}"
    )


def no_devices(attribute: str) -> ValueError:
    """An AbstractMesh is asked for what only devices could tell."""
    return ValueError(f"AbstractMesh does not implement {attribute}")


def not_an_abstract_mesh(mesh: object) -> ValueError:
    """`use_abstract_mesh` of something else."""
    return ValueError(
        f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh)}"
    )


def not_a_mesh(mesh: object) -> ValueError:
    """`set_mesh` of something else."""
    return ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}")


def set_manual_mesh(mesh: object) -> ValueError:
    """`set_mesh` of a mesh with Manual axes."""
    return ValueError(
        f"mesh {mesh} contains manual axes which is not allowed when using "
        "`jax.set_mesh`. Please use `jax.shard_map` to enter into `Manual` mode "
        "instead."
    )


def context_mesh_size(
    new: object, new_size: int, previous: object, previous_size: int
) -> ValueError:
    """`use_abstract_mesh` inside another mesh, of another number of devices."""
    return ValueError(
        "use_abstract_mesh cannot change the size of the mesh. Got new mesh: "
        f"{new} with size={new_size} and prev mesh: {previous} with "
        f"size={previous_size}"
    )


# --- Shardings -----------------------------------------------------------------------


def not_a_spec(spec: object) -> TypeError:
    """The second argument of NamedSharding is no PartitionSpec."""
    return TypeError(
        "NamedSharding takes a `jax.sharding.PartitionSpec` as its spec. Got "
        f"{spec!r} of type {type(spec)}"
    )


def not_a_mesh_for_sharding(mesh: object) -> TypeError:
    """The first argument of NamedSharding is no mesh."""
    return TypeError(
        "NamedSharding takes a `jax.sharding.Mesh` or `jax.sharding.AbstractMesh` as "
        f"its mesh. Got {mesh!r} of type {type(mesh)}"
    )


def duplicate_axes(
    argument: str, mesh: object, spec: object, duplicates: Iterable[object]
) -> DuplicateSpecError:
    """A spec uses mesh axes more than once."""
    shown = ", ".join(sorted(f"`{name}`" for name in duplicates))
    return DuplicateSpecError(
        f"A single {argument} specification can map every mesh axis to at most one "
        f"positional dimension, but {spec} has duplicate entries for {shown}",
        mesh,
        spec,
    )


def unknown_axis(axis: object, spec: object, axis_names: object) -> ValueError:
    """A spec shards a dimension over an axis that the mesh lacks."""
    return ValueError(
        f"Resource axis: {axis} of {spec} is not found in mesh: {axis_names}. A spec "
        "shards dimensions over axes of the mesh, by their names."
    )


def unconstrained_without_auto(spec: object, axis_types: object) -> ValueError:
    """A spec leaves a dimension to the compiler, and no mesh axis is Auto."""
    return ValueError(
        f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. "
        f"Got mesh axis_types: {axis_types}"
    )


def unknown_reduced_axis(
    kind: str, axis: object, axis_names: object, spec: object
) -> ValueError:
    """An unreduced or reduced axis (`kind`) that the mesh lacks."""
    return ValueError(
        f"{kind.capitalize()} axes {axis} is not found in "
        f"mesh.axis_names={axis_names!r}. Got pspec={spec!r}"
    )


def reduced_axis_not_explicit(
    kind: str, axes: Collection[object], mesh: object
) -> ValueError:
    """An unreduced or reduced axis (`kind`) that is Auto or Manual."""
    return ValueError(
        f"{kind.capitalize()} axes can only refer to mesh axes that is of type "
        f"`Explicit`. Got {kind} axes: {show_frozenset(axes)} and mesh: {mesh}. "
        "jax.make_mesh(..., axis_types=...) takes AxisType.Explicit for each axis."
    )


def rank_too_low(what: str, shown: object, needs: int, rank: int) -> ValueError:
    """A sharding or a spec (`what`) with more entries than a value has dimensions."""
    hint = " For scalars the PartitionSpec should be P()" if rank == 0 else ""
    return ValueError(
        f"{what} {shown} is only valid for values of rank at least {needs}, but was "
        f"applied to a value of rank {rank}.{hint}"
    )


def indivisible(
    sharding: object, dim: int, shape: tuple[int, ...], factors: tuple[int, ...]
) -> IndivisibleError:
    """Dimension `dim` of `shape` does not split into `factors[dim]` equal shards."""
    return IndivisibleError(
        f"{sharding} implies that array axis {dim} is partitioned {factors[dim]} "
        f"times, but the dimension size is {shape[dim]} (full shape: {shape}, "
        f"per-dimension tiling factors: {factors} should evenly divide the shape)"
    )


def abstract_sharding(attribute: str) -> ValueError:
    """A sharding over an AbstractMesh is asked for its devices."""
    return ValueError(
        f"{attribute} is not implemented for `jax.sharding.AbstractMesh`."
    )


def unknown_memory_kind(
    platform: str, kinds: Iterable[str], memory_kind: str
) -> ValueError:
    """The devices have no memory of that kind."""
    return ValueError(
        f"Could not find memory addressable by device {platform}. Device {platform} "
        f"can address the following memory kinds: {', '.join(kinds)}. Got memory "
        f"kind: {memory_kind}"
    )
