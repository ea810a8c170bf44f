"""Errors of placing values: `device_put`, `reshard`, `with_sharding_constraint`."""

from __future__ import annotations


def set_mesh_while_tracing() -> ValueError:
    return ValueError("`set_mesh` can only be used outside of `jax.jit`.")


def get_mesh_while_tracing() -> ValueError:
    return ValueError(
        "`get_mesh` can only be used outside of `jax.jit`. Maybe you want "
        "`jax.sharding.get_abstract_mesh()`?"
    )


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


def not_explicit(
    name: str, spec: object, axis: str, kind: object, source: object
) -> ValueError:
    return ValueError(
        f"PartitionSpec passed to {name} cannot contain axis names that are of type "
        f"Auto or Manual. Got PartitionSpec: {spec} with axis name: {axis} of type: "
        f"{kind}. This error occurs at source:  {source}"
    )


def other_mesh(context: object, mesh: object, name: str, source: object) -> ValueError:
    return ValueError(
        f"Context mesh {context} should match the mesh of sharding {mesh} passed to "
        f"{name}. This error occurs at source:  {source}"
    )


def spec_length(spec: object, ndim: int, sharding: object) -> ValueError:
    return ValueError(
        f"Length of sharding.spec ({len(spec)}) must be equal to aval's ndim ({ndim}). "  # type: ignore[arg-type]
        f"Got sharding.spec {spec}, aval.ndim {ndim} and sharding {sharding}"
    )


def indivisible(
    names: object, dim: int, count: int, size: int, shape: object, sharding: object
) -> ValueError:
    return ValueError(
        f"Sharding spec {names} implies that array axis {dim} is partitioned {count} "
        f"times, but does not evenly divide the dimension size {size}. Got shape: "
        f"{shape} and sharding {sharding}"
    )


def no_reshard_target(target: object) -> ValueError:
    return ValueError(
        "Reshard should only be used with out_shardings which are non-None and have a "
        f"non-empty mesh. Got sharding {target}."
    )


def reshard_more_unreduced(old: object, new: object) -> ValueError:
    return ValueError(
        "out_sharding passed to `jax.reshard` cannot be more unreduced than the input. "
        f"Got input pspec: {old}, out pspec: {new}"
    )


def reshard_kinds(old: object, new: object) -> ValueError:
    return ValueError(
        "The unreduced_kind of input and output sharding passed to `jax.reshard` "
        f"should be the same. Got input spec: {old} and output spec: {new}"
    )


def constraint_differs(spec: object, wanted: object) -> AssertionError:
    return AssertionError(
        "`with_sharding_constraint` acts as an assert when all axes of mesh are of "
        f"type `Explicit`. The array sharding: {spec} did not match the sharding "
        f"provided: {wanted}. Please use `jax.sharding.reshard` to shard your input to "
        "the sharding you want."
    )


def constraint_not_auto(spec: object, mesh: object) -> ValueError:
    return ValueError(
        "The spec of NamedSharding passed to with_sharding_constraint can only refer "
        f"to Auto axes of the mesh. Got spec={spec} and mesh={mesh}. You probably "
        "meant to use `reshard` API?"
    )


# --- auto_axes and explicit_axes


def missing_target(argument: str) -> TypeError:
    return TypeError(f"Missing required keyword argument: '{argument}'")


def several_meshes(name: str, first: object, second: object) -> ValueError:
    return ValueError(
        f"Shardings passed to {name} should have the same mesh. Got one mesh {first} "
        f"and another {second}"
    )


def mesh_not_context(context: object, mesh: object) -> ValueError:
    return ValueError(
        f"Context mesh {context} must match the mesh passed to shardings {mesh}. "
        "Recommended approach is to use `jax.set_mesh` context manager."
    )


def from_manual() -> NotImplementedError:
    return NotImplementedError(
        "Going from `Manual` AxisType to `Auto` or `Explicit` AxisType is not allowed. "
        "Please file a bug at https://github.com/jax-ml/jax/issues with your use case"
    )


def empty_context() -> ValueError:
    return ValueError(
        "Context mesh cannot be empty. Please use `jax.set_mesh` API to enter into a "
        "mesh context when using `explicit_axes` API."
    )
