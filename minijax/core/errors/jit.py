"""Errors of `jit` and of compiling."""

from __future__ import annotations

from collections.abc import Sequence


def not_callable(fun: object) -> TypeError:
    return TypeError(f"Expected a callable value, got {fun}")


def incompatible_devices(
    first: str, ids: Sequence[int], second: str, other: Sequence[int], platform: str
) -> ValueError:
    return ValueError(
        f"Received incompatible devices for jitted computation. Got {first} and device "
        f"ids {list(ids)} on platform {platform} and {second} and device ids "
        f"{list(other)} on platform {platform}. Move one of them with jax.device_put."
    )


def unhashable_static(value: object, error: object) -> ValueError:
    return ValueError(
        "Non-hashable static arguments are not supported. An error occurred while "
        f"trying to hash an object of type {type(value)}, {value}. The error was:\n"
        f"{type(error).__name__}: {error}\n"
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


def static_not_given(needed: int, count: int) -> ValueError:
    return ValueError(
        f"jitted function has static_argnums up to {needed - 1} but was called with "
        f"only {count} positional arguments."
    )


def not_an_abstract_array(function: object, value: object, path: str) -> TypeError:
    return TypeError(
        f"Error interpreting argument to {function} as an abstract array. The "
        f"problematic value is of type {type(value)} and was passed to the function "
        f"at path {path}.\nThis typically means that a jit-wrapped function was called "
        "with a non-array argument, and this argument was not marked as static using "
        "the static_argnums or static_argnames parameters of jax.jit."
    )


def spec_without_mesh(name: str, spec: object) -> ValueError:
    return ValueError(
        f"jit {name}={spec} is a PartitionSpec, which needs a mesh: use "
        "jax.set_mesh(mesh), or a NamedSharding(mesh, spec)."
    )


def wrong_call(expected: object, got: object) -> TypeError:
    return TypeError(
        "Function compiled with input pytree does not match the input pytree it was "
        f"called with: it was compiled for {expected} and called with {got}."
    )


def wrong_types(expected: Sequence[object], got: Sequence[object]) -> TypeError:
    return TypeError(
        "Argument types differ from the types for which this computation was compiled: "
        f"it was compiled for {[str(a) for a in expected]} and called with "
        f"{[str(a) for a in got]}."
    )
