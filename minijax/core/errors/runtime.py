"""Errors about devices, settings, and concrete arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def deleted(aval: str) -> RuntimeError:
    """An array is used after it was deleted or donated."""
    return RuntimeError(
        f"Array has been deleted with shape={aval}. Either a jitted function was given "
        "it as a donated argument (donate_argnums), or its delete() was called. Use "
        "the result instead, or do not donate the array."
    )


def empty_truth() -> ValueError:
    """`bool` of an array without elements."""
    return ValueError(
        "The truth value of an empty array is ambiguous. Use"
        " `array.size > 0` to check that an array is not empty."
    )


def ambiguous_truth() -> ValueError:
    """`bool` of an array with several elements."""
    return ValueError(
        "The truth value of an array with more than one element"
        " is ambiguous. Use a.any() or a.all()"
    )


def not_a_scalar(ndim: int) -> TypeError:
    """`float`, `int` or `complex` of an array that has dimensions."""
    return TypeError(
        f"Only scalar arrays can be converted to Python scalars; got arr.ndim={ndim}"
    )


def not_an_index() -> TypeError:
    """An array that is no integer scalar is used as an index."""
    return TypeError("Only integer scalar arrays can be converted to a scalar index.")


def no_len() -> TypeError:
    """`len` of a scalar."""
    return TypeError("len() of unsized object")


def integer_too_large(value: object, dtype: str) -> OverflowError:
    """A Python integer is beyond the range of its dtype."""
    return OverflowError(f"Python int {value} too large to convert to {dtype}")


def sharding_rank(spec: object, ndim: int, sharding: object) -> ValueError:
    """The spec has more entries than the type has dimensions."""
    return ValueError(
        f"Length of sharding.spec ({len(spec)}) must be equal to aval's ndim "  # type: ignore[arg-type]
        f"({ndim}). Got sharding.spec {spec}, aval.ndim {ndim} and sharding "
        f"{sharding}"
    )


def sharding_rank_too_high(sharding: object, needs: int, rank: int) -> ValueError:
    """The sharding has more entries than the value has dimensions."""
    hint = " For scalars the PartitionSpec should be P()" if rank == 0 else ""
    return ValueError(
        f"One of device_put args is incompatible with its sharding annotation "
        f"{sharding}: Sharding {sharding} is only valid for values of rank at least "
        f"{needs}, but was applied to a value of rank {rank}.{hint}"
    )


def indivisible_argument(error: ValueError) -> ValueError:
    """`error` says what a sharding does not divide."""
    return type(error)(f"One of device_put args was given the sharding {error}.")


def uneven_sharding(
    spec: tuple[object, ...],
    axis: int,
    parts: int,
    shape: tuple[int, ...],
    sharding: object,
) -> ValueError:
    """Explicit axes do not cut dimension `axis` into equal parts."""
    return ValueError(
        f"Sharding spec {spec} implies that array axis {axis} is partitioned "
        f"{parts} times, but does not evenly divide the dimension size "
        f"{shape[axis]}. Got shape: {shape} and sharding {sharding}"
    )


def abstract_sharding(sharding: object) -> ValueError:
    """An array is to be placed on a mesh that has no devices."""
    return ValueError(
        "is_fully_addressable is not implemented for "
        f"`jax.sharding.AbstractMesh`. An array needs devices; got {sharding}"
    )


def not_a_placement(value: object) -> ValueError:
    """`device_put` to something that is not a place."""
    return ValueError(
        "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`, "
        "`jax.Device`, `Format`, `jax.memory.Space` or a pytree of these values. "
        f"Received invalid value: {value}"
    )


def dlpack_many_devices(count: int) -> BufferError:
    """An array on several devices is to be handed over by DLPack."""
    return BufferError(
        "to_dlpack can only pack a dlpack tensor from an array on a singular "
        f"device, but an array with a Sharding over {count} devices was provided."
    )


def argument_count(expected: int, given: int) -> TypeError:
    """A program is called with too few or too many arguments."""
    return TypeError(
        f"The compiled program takes {expected} arguments but was given {given}."
    )


# --------------------------------------------------------- platforms and settings


def unknown_backend(name: str, available: Iterable[str]) -> RuntimeError:
    """No platform has this name."""
    return RuntimeError(
        f"Unknown backend {name}. Available backends are {list(available)}. "
        "A platform is cpu, cuda (or gpu), tpu, or the path of a PJRT plugin library."
    )


def plugin_not_found(name: str, wanted: str) -> RuntimeError:
    """The package with a platform's library is missing."""
    return RuntimeError(
        f"Backend '{name}' failed to initialize: no PJRT plugin library was found; "
        f"{wanted}."
    )


def backend_failed(name: str, reason: object) -> RuntimeError:
    """A platform's library is there but does not start."""
    return RuntimeError(f"Backend '{name}' failed to initialize: {reason}")


def config_too_late(setting: str) -> RuntimeError:
    """A setting is changed when it was already used."""
    return RuntimeError(
        f"{setting} config should be updated before backends are initialized i.e. "
        "before any operation is executed: call minijax.config right after the import."
    )


def bad_setting(name: str, wanted: str, value: object) -> ValueError:
    """A setting has a value that makes no sense."""
    return ValueError(f"{name} must be {wanted}, but it is {value!r}.")


# -------------------------------------------------------------------------- meshes


def bad_axis_sizes(axis_sizes: object) -> ValueError:
    """`make_mesh` is given something other than integers."""
    return ValueError(
        "`axis_sizes` passed to `make_mesh` should be a sequence of ints."
        f" Got {axis_sizes}"
    )


def too_few_devices(devices: int, shape: tuple[int, ...]) -> ValueError:
    """`make_mesh` needs more devices than there are."""
    return ValueError(
        f"Number of devices {devices} must be >= the product of mesh_shape {shape}"
    )


def axis_size_not_positive(devices: int, shape: tuple[int, ...]) -> ValueError:
    """`make_mesh` is given an axis of size 0 or less."""
    return ValueError(
        f"Number of devices {devices} must equal the product of mesh_shape {shape}: "
        "every axis must have at least one device"
    )


def no_spec_for(chosen: str, mesh: object) -> NotImplementedError:
    """The compiler chose a sharding that axes of the mesh do not express."""
    return NotImplementedError(
        f"The compiler chose the sharding {chosen}, which no PartitionSpec over the "
        f"mesh {mesh} expresses. Give this result a sharding by out_shardings."
    )


def effects_failed(failures: Sequence[Exception]) -> ExceptionGroup:
    """Several programs with effects failed since the last barrier."""
    text = "One or more previous effectful computations failed."
    return ExceptionGroup(text, failures)
