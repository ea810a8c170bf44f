"""Errors of placing values: `device_put`, `reshard`, `with_sharding_constraint`."""

from __future__ import annotations


def set_mesh_while_tracing() -> ValueError:
    return ValueError("`set_mesh` can only be used outside of `jax.jit`.")


def spec_without_mesh(spec: object) -> ValueError:
    return ValueError(
        "Using PartitionSpec when you are not under a mesh context is not allowed. "
        "Please pass a NamedSharding instance or enter into a mesh context via "
        f"`jax.set_mesh`. Got {spec}"
    )


def not_a_target(name: str, value: object) -> TypeError:
    return TypeError(
        f"`out_sharding` argument of {name} only supports instances of `NamedSharding` "
        f"or `PartitionSpec`. Got {value} of type: {type(value)}"
    )


def auto_axis_in_reshard(spec: object, name: str, kind: object) -> ValueError:
    return ValueError(
        "PartitionSpec passed to reshard cannot contain axis names that are of type "
        f"Auto or Manual. Got PartitionSpec: {spec} with axis name: {name} of type: "
        f"{kind}."
    )


def reshard_mesh(context: object, mesh: object) -> ValueError:
    return ValueError(
        f"Context mesh {context} should match the mesh of sharding {mesh} passed to "
        "reshard."
    )


def constraint_on_explicit(spec: object, name: str) -> ValueError:
    return ValueError(
        "PartitionSpec passed to with_sharding_constraint cannot contain axis names "
        f"that are of type Explicit or Manual, but {spec} names {name}. Use "
        "`jax.sharding.reshard` for Explicit axes."
    )


def rank_too_long(name: str, spec: object, aval: object) -> ValueError:
    return ValueError(
        f"{name} got {spec}, which has more entries than {aval} has dimensions"
    )
