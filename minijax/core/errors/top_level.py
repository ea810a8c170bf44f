"""Errors of `top_level_all_gather`."""

from __future__ import annotations


def not_explicit(mesh: object) -> ValueError:
    return ValueError(
        "top_level_all_gather works when all mesh axes of context mesh are explicit. "
        f"Got {mesh}. Make one by jax.make_mesh(sizes, names, axis_types=...) with "
        "AxisType.Explicit for each axis, and enter it by jax.set_mesh(mesh)."
    )


def not_sharded(kind: str, aval: object) -> ValueError:
    return ValueError(
        f"top_level_all_gather takes arrays that are sharded over the context mesh, "
        f"but got a value of type {kind} ({aval}), which is not. Put it there first: "
        "jax.device_put(x, PartitionSpec(...)) within jax.set_mesh(mesh)."
    )


def no_target(target: object) -> ValueError:
    return ValueError(
        f"out_sharding passed to top_level_all_gather cannot be {target}. It should be "
        "a PartitionSpec or NamedSharding."
    )


def other_mesh(mesh: object, target: object) -> ValueError:
    return ValueError(
        f"Input sharding mesh {mesh} should be equal to out_sharding mesh {target}"
    )


def rank(spec: object, aval: object) -> ValueError:
    return ValueError(
        f"top_level_all_gather out_sharding {spec} is longer than the rank of {aval}"
    )


def several_dimensions(in_spec: object, out_spec: object) -> ValueError:
    return ValueError(
        "multiple dimensions cannot be all_gathered since multi_dim=False passed to "
        f"`top_level_all_gather`. Got {in_spec=} and {out_spec=}. Pass multi_dim=True "
        "to gather them one after the other."
    )


def not_sharded_on(aval: object, dim: int, out_spec: object) -> ValueError:
    return ValueError(
        f"top_level_all_gather doesn't allow input {aval} to be unsharded on dimension "
        f"{dim} when {out_spec=}. It only gathers; jax.sharding.reshard shards."
    )


def not_a_prefix(in_spec: object, out_spec: object, dim: int) -> ValueError:
    return ValueError(
        "top_level_all_gather maintains `top_level_all_gather(x, ...) == x` property. "
        f"The {in_spec=} and {out_spec=} don't satisfy this property. Please change "
        f"your out_spec of array dimension {dim} so that it's a prefix of in_spec. Of "
        "a dimension's axes the last ones are gathered and the first ones stay."
    )


def not_named_reduced(
    text: str, aval: object, out_spec: object, wanted: object
) -> ValueError:
    """`text` is what `shard_map` says of it: upstream says only that."""
    return ValueError(
        f"{text} This is top_level_all_gather of {aval} to out_sharding {out_spec}: "
        "the axes gathered stay in the type, as reduced, next to what the operand "
        f"is already reduced or unreduced over. Write {wanted} as its out_sharding."
    )
