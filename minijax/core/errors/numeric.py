"""What minijax says about operators, array methods and numpy functions.

Functions of plain data that return the exception; the wording is upstream's.
"""

from __future__ import annotations

from typing import Any

_AT = "https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html"
_ISSUE = "See https://github.com/jax-ml/jax/issues/4564 for more information."

# --- operands


def repeat_sharded() -> ValueError:
    return ValueError(
        "Please pass sharding to `jnp.repeat` via `out_sharding` parameter."
    )


def not_array_like(name: str, kind: type, position: int) -> TypeError:
    return TypeError(
        f"{name} requires ndarray or scalar arguments, got {kind} at position "
        f"{position}."
    )


def float0_operand(name: str) -> TypeError:
    return TypeError(
        f"Called {name} with a float0 array. float0s do not support any operations by "
        "design because they are not compatible with non-trivial vector spaces. No "
        "implicit dtype conversion is done. You can use np.zeros_like(arr, "
        "dtype=np.float) to cast a float0 array to a regular zeros array. \n"
        "If you didn't expect to get a float0 you might have accidentally taken a "
        "gradient with respect to an integer argument."
    )


def incompatible_shapes(shapes: object) -> ValueError:
    return ValueError(f"Incompatible shapes for broadcasting: shapes={shapes}")


def unsupported_operands(symbol: str, left: object, right: object) -> TypeError:
    names = f"{type(left).__name__!r} and {type(right).__name__!r}"
    return TypeError(f"unsupported operand type(s) for {symbol}: {names}")


def no_item_assignment() -> TypeError:
    return TypeError(
        "JAX arrays are immutable and do not support in-place item assignment. Instead "
        "of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method: " + _AT
    )


def no_flat() -> NotImplementedError:
    return NotImplementedError(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() "
        "instead."
    )


def contains_type(kind: type) -> TypeError:
    return TypeError(f"Array.__contains__: unsupported operand type {kind}.")


def contains_rank(shape: object) -> ValueError:
    return ValueError(
        "Array.__contains__: search array must be one-dimensional, got "
        f"arr.shape={shape}."
    )


def contains_scalar(shape: object) -> ValueError:
    return ValueError(
        f"Array.__contains__: query value must be a scalar, got query.shape={shape}"
    )


def iterate_scalar() -> TypeError:
    return TypeError("iteration over a 0-d array")


# --- arithmetic


def complex_floor_divide() -> TypeError:
    return TypeError("floor_divide does not support complex-valued inputs")


def complex_clip() -> ValueError:
    return ValueError(
        "Clip received a complex value either through the input or the min/max "
        "keywords. Complex values have no ordering and cannot be clipped. Please "
        "convert to a real value or array by taking the real or imaginary components "
        "via jax.numpy.real/imag respectively."
    )


def matmul_scalar(position: int, ndim: int) -> ValueError:
    return ValueError(
        f"matmul input operand {position} must have ndim at least 1, but it has ndim "
        f"{ndim}"
    )


def round_integers() -> NotImplementedError:
    return NotImplementedError("integer np.round not implemented for decimals < 0")


# --- methods


def no_out(name: str) -> NotImplementedError:
    return NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


def where_dtype(name: str, dtype: Any) -> ValueError:
    return ValueError(
        f"jnp.{name}: where must be None or a boolean array; got where.dtype={dtype!r}."
    )


def duplicate_axes(axis: object) -> ValueError:
    return ValueError(f"duplicate value in 'axis': {axis}")


def where_without_initial(name: str) -> ValueError:
    return ValueError(
        f"reduction operation {name} does not have an identity, so to use a where mask "
        "one has to specify 'initial'"
    )


def reduce_nothing(name: str) -> ValueError:
    return ValueError(
        f"zero-size array to reduction operation {name} which has no identity"
    )


def initial_shape(shape: object) -> ValueError:
    return ValueError(f"initial value must be a scalar. Got array of shape {shape}")


def argument_of_nothing(name: str) -> ValueError:
    return ValueError(f"attempt to get {name} of an empty sequence")


def complex_var_dtype() -> ValueError:
    return ValueError(
        "jax.numpy.var does not yet support real dtype parameters when computing the "
        "variance of an array of complex values. The semantics of numpy.var seem "
        "unclear in this case. Please comment on "
        "https://github.com/jax-ml/jax/issues/2283 if this behavior is important to "
        "you."
    )


def ddof_and_correction() -> ValueError:
    return ValueError("ddof and correction can't be provided simultaneously.")


def several_unknown_sizes(shape: object) -> TypeError:
    return TypeError(
        f"can only specify one unknown axis size with a `-1` value, got {shape}"
    )


def unknown_size(shape: object, size: int, wanted: object, product: int) -> TypeError:
    return TypeError(
        f"cannot reshape array of shape {shape} (size {size}) into shape {wanted} "
        f"because the product of specified axis sizes ({product}) does not evenly "
        f"divide {size}"
    )


def new_size(shape: object, size: int, wanted: object, product: int) -> TypeError:
    return TypeError(
        f"cannot reshape array of shape {shape} (size {size}) into shape {wanted} "
        f"(size {product})"
    )


def reshape_order(order: object) -> Exception:
    if order == "A":
        return NotImplementedError("np.reshape order=A is not implemented.")
    return ValueError(f"Unexpected value for 'order' argument: {order}.")


def matrix_transpose_rank(ndim: int) -> ValueError:
    return ValueError(
        f"x must be at least two-dimensional for matrix_transpose; got {ndim=}"
    )


def view_type() -> NotImplementedError:
    return NotImplementedError("`type` argument of array.view() is not supported.")


def view_scalar() -> ValueError:
    return ValueError(
        "view() of a 0d array is only supported if the itemsize is unchanged."
    )


def view_size() -> ValueError:
    return ValueError(
        "When changing to a larger dtype, its size must be a divisor of the total size "
        "in bytes of the last axis of the array."
    )


def take_raise() -> NotImplementedError:
    return NotImplementedError("The 'raise' mode to jnp.take is not supported.")


def take_mode(mode: object) -> ValueError:
    return ValueError(f"Invalid mode '{mode}' for np.take")


def take_empty() -> IndexError:
    return IndexError("Cannot do a non-empty jnp.take() from an empty axis.")


# --- indexing


def indexer_dtype(dtype: object) -> TypeError:
    return TypeError(
        f"Indexer must have integer or boolean type, got indexer with type {dtype}"
    )


def string_index(index: object) -> TypeError:
    return TypeError(f"JAX does not support string indexing; got idx={index!r}")


def bad_index(index: object) -> IndexError:
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer "
        f"or boolean arrays are valid indices. Got {index}"
    )


def two_ellipses() -> IndexError:
    return IndexError("an index can only have a single ellipsis ('...')")


def too_many_indices(ndim: int, count: int) -> IndexError:
    return IndexError(
        f"Too many indices: array is {ndim}-dimensional, but {count} were indexed"
    )


def sequence_index(arrays_inside: bool) -> TypeError:
    kind = "tuple" if arrays_inside else "array"
    return TypeError(
        "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
        f"`arr[{kind}(seq)]` instead of `arr[seq]`. {_ISSUE}"
    )


def dynamic_slice_index(index: object, position: int, origin: str) -> IndexError:
    return IndexError(
        "Array slice indices must have static start/stop/step to be used with NumPy "
        f"indexing syntax. Got {index} at position {position}. To index an array at a "
        "dynamic position with a static slice size, use x[jax.ds(start, size)] or "
        "lax.dynamic_slice/dynamic_update_slice instead (JAX does not support "
        f"dynamically sized arrays within traced functions).{origin}"
    )


def boolean_shape(position: int, found: object, expected: object) -> IndexError:
    return IndexError(
        f"boolean index did not match shape of indexed array in index {position}: got "
        f"{found}, expected {expected}"
    )


def empty_axis(axis: int) -> IndexError:
    return IndexError(f"index is out of bounds for axis {axis} with size 0")


def fill_value_scalar() -> ValueError:
    return ValueError("fill_value argument to indexed get() must be a scalar")


def unsafe_scatter(update: object, dtype: object) -> str:
    return (
        "scatter inputs have incompatible types: cannot safely cast value from "
        f"dtype={update} to dtype={dtype} with jax_numpy_dtype_promotion=standard. In "
        "future JAX releases this will result in an error."
    )


def matmul_types(a: object, b: object) -> ValueError:
    return ValueError(f"Incompatible types for matmul arguments: {a} and {b}")
