"""The wording of every error and warning about dtypes.

Each function takes plain data and returns the exception for the caller to raise (or the
text of the warning). The texts are upstream's, from its ``dtypes.py``.
"""

from collections.abc import Sequence


class TypePromotionError(ValueError):
    """Raised where two dtypes have no common dtype to be promoted to."""


def not_an_array_type(value: object, dtype: object) -> TypeError:
    """Return the error for a value, such as a string, that no array can hold."""
    return TypeError(
        f"Value '{value}' with dtype {dtype} is not a valid JAX array type. Only "
        "arrays of numeric types are supported by JAX."
    )


def not_an_array_dtype(dtype: object) -> TypeError:
    """Return the error for a dtype that no array can have."""
    return TypeError(
        f"Dtype {dtype} is not a valid JAX array type. Only arrays of numeric types "
        "are supported by JAX."
    )


def array_as_dtype() -> ValueError:
    """Return the error for an array where a dtype is asked for."""
    return ValueError(
        "Passing an array as a dtype argument is no longer supported; instead of "
        "dtype=arr use dtype=arr.dtype."
    )


def unsupported_user_dtype(dtype: object, fun_name: str | None) -> TypeError:
    """Return the error for a dtype argument that no array can have."""
    where = f" in {fun_name}" if fun_name else ""
    return TypeError(
        f"JAX only supports number, bool, and string dtypes, got dtype {dtype}{where}"
    )


def missing_user_dtype() -> ValueError:
    """Return the error for a dtype argument that is None."""
    return ValueError("dtype must be specified.")


def no_dtype(value: object) -> TypeError:
    """Return the error for a value of which no dtype can be told."""
    return TypeError(f"Cannot determine dtype of {value}")


def dtype_of_none() -> ValueError:
    """Return the error for asking for the dtype of None."""
    return ValueError("Invalid argument to dtype: None.")


def scalar_overflow(value: int, dtype: object) -> OverflowError:
    """Return the error for a Python integer that does not fit the default integer."""
    return OverflowError(f"Python int {value} too large to convert to {dtype}")


def nothing_to_promote() -> ValueError:
    """Return the error for `result_type` without arguments."""
    return ValueError("at least one array or dtype is required")


def not_promotable(dtype: object) -> ValueError:
    """Return the error for a dtype that takes no part in promotion."""
    return ValueError(f"{dtype=} is not a valid dtype for JAX type promotion.")


def no_promotion_path(nodes: Sequence[str], narrow: str | None) -> TypePromotionError:
    """Return the error for dtypes without a common one.

    ``narrow`` names what among them is never promoted implicitly ("8-bit floats"), or
    is None.
    """
    message = (
        f"Input dtypes {tuple(nodes)} have no available implicit dtype promotion path. "
    )
    if narrow is None:
        message += "Try explicitly casting inputs to the desired output type."
    else:
        target = "int32" if "integers" in narrow else "float32"
        message += (
            f"To avoid unintended promotion, {narrow} do not support implicit "
            "promotion. If you'd like your inputs to be promoted to another type, you "
            f"can do so explicitly using e.g. x.astype('{target}')"
        )
    return TypePromotionError(message)


def truncation_warning(dtype: object, canonical: str, fun_name: str) -> str:
    """Return the warning for asking for 64 bits where 32 are all there is."""
    where = f" requested in {fun_name}" if fun_name else ""
    return (
        f"Explicitly requested dtype {dtype}{where} is not available, and will be "
        f"truncated to dtype {canonical}. To enable more dtypes, set the "
        "jax_enable_x64 configuration option or the JAX_ENABLE_X64 shell environment "
        "variable. See https://github.com/jax-ml/jax#current-gotchas for more."
    )
