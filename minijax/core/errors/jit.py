"""Errors of `jit` and of compiling."""

from __future__ import annotations

from collections.abc import Sequence

from minijax.core.errors.sharding import IndivisibleError


def incompatible_devices(
    first: str, ids: Sequence[int], second: str, other: Sequence[int], platform: str
) -> ValueError:
    return ValueError(
        f"Received incompatible devices for jitted computation. Got {first} with "
        f"device ids {list(ids)} on platform {platform} and {second} with device ids "
        f"{list(other)} on platform {platform}. Move one of them with jax.device_put."
    )


def unhashable_static(value: object, error: object, which: str) -> ValueError:
    return ValueError(
        "Non-hashable static arguments are not supported. An error occurred while "
        f"trying to hash an object of type {type(value)}, {value}. The error was:\n"
        f"{type(error).__name__}: {error}\n"
        f"It is {which}, which is static: each of its values is a program of its own, "
        "found by its hash. Pass a tuple for a list, or do not mark it as static."
    )


def argnums_out_of_range(what: str, argnums: object, count: int) -> ValueError:
    return ValueError(
        f"Jitted function has {what}={argnums}, but only accepts {count} positional "
        "arguments."
    )


def invalid_argnames(what: str, names: object) -> ValueError:
    return ValueError(
        f"Jitted function has invalid argnames {names} in {what}. Function does not "
        "take these args."
    )


def not_an_abstract_array(function: object, value: object, path: str) -> TypeError:
    return TypeError(
        f"Error interpreting argument to {function} as an abstract array. The "
        f"problematic value is of type {type(value)} and was passed to the function "
        f"at path {path}.\nThis typically means that a jit-wrapped function was called "
        "with a non-array argument, and this argument was not marked as static using "
        "the static_argnums or static_argnames parameters of jax.jit."
    )


def spec_without_mesh(name: str, spec: object) -> RuntimeError:
    return RuntimeError(
        "jit requires a non-empty mesh in context if you are passing `PartitionSpec`s "
        f"to {name}. You can define a context mesh via `jax.set_mesh(mesh)`. "
        f"Alternatively, provide `Sharding`s to {name} and then the mesh context "
        f"manager is not required. Got {spec}"
    )


def wrong_call(differences: Sequence[tuple[str, str, str, str]]) -> TypeError:
    """Each difference is where it is, what is there now, what was, and why."""
    lines = [
        f"    * at {place}, seen {was} but now given {now}, so {why}"
        for place, now, was, why in differences
    ]
    return TypeError(
        "Function compiled with input pytree does not match the input pytree it was "
        f"called with. There are {len(lines)} mismatches, including:\n"
        + "\n".join(lines)
    )


def wrong_types(differences: Sequence[tuple[str, object, object]]) -> TypeError:
    """Each difference is the argument's name, its type when compiled, and now."""
    lines = [
        f"Argument '{name}' compiled with {expected} and called with {got}"
        for name, expected, got in differences
    ]
    most = 5
    which = f"The first {most} of {len(lines)}" if len(lines) >= most else "The"
    return TypeError(
        "Argument types differ from the types for which this computation was "
        "compiled. Perhaps you are calling the compiled executable with a different "
        f"enable_x64 mode than when it was AOT compiled? {which} mismatches are:\n"
        + "\n".join(lines[:most])
    )


def ordered_on_several_devices(effects: object) -> ValueError:
    return ValueError(
        "The following ordered effects are not supported for more than 1 device: "
        f"{effects}"
    )


def bad_placement(
    what: str, path: str, sharding: object, error: ValueError
) -> ValueError:
    """`error` says why a sharding does not fit an argument or a result."""
    start = f"One of pjit {what} with pytree key path {path}"
    if isinstance(error, IndivisibleError):
        return IndivisibleError(f"{start} was given the sharding {error}.")
    return ValueError(
        f"{start} is incompatible with its sharding annotation {sharding}: {error}"
    )
