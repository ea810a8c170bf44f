"""What minijax says of Python callbacks.

Upstream: `jax/_src/callback.py`, `jax/_src/debugging.py`, `jax/_src/ffi.py`.
"""

from __future__ import annotations

from collections.abc import Sequence


def no_jvp(kind: str) -> ValueError:
    advice = " Please use `jax.custom_jvp` to use callbacks while taking gradients."
    return ValueError(
        f"{kind} callbacks do not support JVP.{advice if kind == 'Pure' else ''}"
    )


def no_transpose(kind: str) -> ValueError:
    advice = " Please use `jax.custom_vjp` to use callbacks while taking gradients."
    return ValueError(
        f"{kind} callbacks do not support transpose.{advice if kind == 'Pure' else ''}"
    )


def ordered_vmap() -> ValueError:
    return ValueError("Cannot `vmap` ordered IO callback.")


def vmap_without_method(method: object) -> NotImplementedError:
    return NotImplementedError(
        "vmap is only supported for the pure_callback primitive when vmap_method is "
        "one of 'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', "
        f"or 'legacy_vectorized'. Got vmap_method={method!r}."
    )


def bad_vmap_method(allowed: Sequence[object], method: object) -> ValueError:
    return ValueError(
        f"vmap_method must be on of the allowed methods {list(allowed)}, "
        f"but got: {method}"
    )


def result_of_64_bits() -> ValueError:
    return ValueError(
        "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is "
        "disabled"
    )


def result_dtype(dtype: object) -> TypeError:
    return TypeError(
        f"No dtype_to_ir_type handler for dtype: {dtype}. A callback returns numbers "
        "or booleans: result_shape_dtypes says of which dtype."
    )


def no_numbers(dtype: object) -> TypeError:
    return TypeError(
        f"Dtype {dtype} is not a valid JAX array type. Only arrays of numeric types "
        "are supported by JAX."
    )


def wrong_count(expected: int, got: int) -> RuntimeError:
    return RuntimeError(
        "Mismatched number of outputs from callback. "
        f"Expected: {expected}, Actual: {got}"
    )


def wrong_shape(position: int, expected: object, got: object) -> RuntimeError:
    return RuntimeError(
        f"Incorrect output shape for return value #{position}: "
        f"Expected: {expected}, Actual: {got}"
    )


def wrong_dtype(position: int, expected: object, got: object) -> RuntimeError:
    return RuntimeError(
        f"Incorrect output dtype for return value #{position}: "
        f"Expected: {expected}, Actual: {got}"
    )


def not_callable(kind: type) -> TypeError:
    return TypeError(
        "first argument to jax.debug.callback must be callable, "
        f"but got an object of type {kind}"
    )


def unexpected_arguments(name: str, args: object, kwargs: object) -> TypeError:
    return TypeError(
        f"{name} received unexpected arguments in the two-call form: {args=} {kwargs=}"
    )


def unused_positional(args: Sequence[object]) -> ValueError:
    return ValueError(f"Unused positional arguments to `jax.debug.print`: {args}")


def unused_keywords(names: Sequence[str]) -> ValueError:
    return ValueError(
        f"Unused keyword arguments to `jax.debug.print`: {names}. You may be passing "
        'an f-string (i.e, `f"{x}"`) into `jax.debug.print` and instead should pass in '
        "a regular string."
    )


def unsupported_platform(platform: str) -> ValueError:
    return ValueError(f"`EmitPythonCallback` not supported on {platform} backend.")


def partly_manual() -> NotImplementedError:
    return NotImplementedError(
        "callbacks are only supported in spmd computations when all mesh axes are "
        "partitioned manually (no partial automatic sharding)."
    )


def sharding_inside_shard_map() -> NotImplementedError:
    return NotImplementedError(
        "callbacks do not support specifying sharding inside spmd computations"
    )


def not_one_device(kind: type) -> NotImplementedError:
    return NotImplementedError(
        f"pure_callback only supports SingleDeviceSharding, but got {kind}"
    )


def device_not_taking_part(device: object, devices: object) -> ValueError:
    return ValueError(
        f"Sharding provided to pure_callback specifies a device {device} that is not "
        f"in the device assignment ({devices})"
    )


def remat_effects(effects: object) -> NotImplementedError:
    return NotImplementedError(
        f"Effects not supported in AD of `checkpoint`/`remat`: {effects}"
    )
