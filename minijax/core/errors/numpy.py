"""The wording of errors of `minijax.numpy` itself.

Functions of plain data that return the exception; the wording is upstream's, where it
has one. Errors of operators and array methods are in `numeric`.
"""

from collections.abc import Sequence

Shape = Sequence[int]

# Creation.


def array_of_none() -> ValueError:
    """Return the error for making an array of None."""
    return ValueError("None is not a valid value for jnp.array")


def step_zero() -> ValueError:
    """Return the error for `arange` that never ends."""
    return ValueError("arange: step must not be zero")


def negative_samples(num: int) -> ValueError:
    """Return the error for `linspace` of fewer than no numbers."""
    return ValueError(f"Number of samples, {num}, must be non-negative.")


def diagonal_rank() -> ValueError:
    """Return the error for `diag` of something that is neither vector nor matrix."""
    return ValueError("diag input must be 1d or 2d")


def triangle_rank(function: str) -> ValueError:
    """Return the error for `tril` and `triu` of less than a matrix."""
    return ValueError(f"Argument to jax.numpy.{function} must be at least 2D")


def meshgrid_indexing(indexing: object) -> ValueError:
    """Return the error for an order of axes that `meshgrid` does not know."""
    return ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")


def meshgrid_rank() -> ValueError:
    """Return the error for arguments of `meshgrid` that are no vectors."""
    return ValueError("Arguments to jax.numpy.meshgrid must be 1D, or scalars")


# Joining and cutting.


def no_arrays(function: str) -> ValueError:
    """Return the error for joining no arrays."""
    need = "concatenate" if function == "concatenate" else "stack"
    return ValueError(f"Need at least one array to {need}.")


def zero_dimensional() -> ValueError:
    """Return the error for concatenating scalars."""
    return ValueError("Zero-dimensional arrays cannot be concatenated.")


def stack_shapes(one: Shape, other: Shape) -> ValueError:
    """Return the error for stacking arrays of different shapes."""
    return ValueError(f"All input arrays must have the same shape. Got {one}, {other}.")


def unequal_split(rest: int) -> ValueError:
    """Return the error for a size that does not divide into equal parts."""
    return ValueError(
        f"array split does not result in an equal division: rest is {rest}"
    )


def move_lengths(source: object, destination: object) -> ValueError:
    """Return the error for moving axes to another number of places."""
    return ValueError(
        "Inconsistent number of elements: "
        f"{len(list(source))} vs {len(list(destination))}"  # type: ignore[call-overload]
    )


def pad_mode(mode: object) -> NotImplementedError:
    """Return the error for a mode of padding that there is not."""
    return NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")


# Products.


def einsum_subscripts(kind: type) -> TypeError:
    """Return the error for subscripts that are no string."""
    return TypeError(
        f"einsum takes a string of subscripts first, as 'ij,jk->ik', and got {kind}."
    )


def einsum_operands(given: int, needed: int) -> ValueError:
    """Return the error for another number of operands than of terms."""
    return ValueError(
        f"einsum: the subscripts have {needed} terms, and there are {given} operands."
    )


def einsum_rank(term: str, ndim: int) -> ValueError:
    """Return the error for a term with another number of labels than dimensions."""
    return ValueError(
        f"einsum: the term {term!r} does not fit an operand of {ndim} dimensions."
    )


def einsum_size(label: str, one: int, other: int) -> ValueError:
    """Return the error for a label of dimensions of different sizes."""
    return ValueError(f"einsum: label {label!r} has the sizes {one} and {other}.")


def einsum_output(labels: str) -> ValueError:
    """Return the error for a label of the result that repeats, or is no operand's."""
    return ValueError(f"einsum: the result {labels!r} repeats or invents a label.")


def tensordot_axes(axes: object) -> ValueError:
    """Return the error for axes that `tensordot` does not understand."""
    return ValueError(
        f"tensordot axes must be an int or a pair of sequences of equal length, got "
        f"{axes}"
    )


def norm_order(order: object, ndim: int) -> ValueError:
    """Return the error for a norm that there is not."""
    return ValueError(
        f"Invalid order '{order}' for {'vector' if ndim == 1 else 'matrix'} norm."
    )


def norm_axes(axis: object) -> ValueError:
    """Return the error for a norm over more than two dimensions."""
    return ValueError(f"Invalid axis values ({axis}) for jnp.linalg.norm.")


# Searching.


def search_side(side: object) -> ValueError:
    """Return the error for a side that is none."""
    return ValueError(f"{side!r} is an invalid value for keyword 'side'. ")


def search_rank() -> ValueError:
    """Return the error for searching in something that is no vector."""
    return ValueError("a should be 1-dimensional")


def along_axis_ranks(arr: int, indices: int) -> ValueError:
    """Return the error for indices of another rank than the array."""
    return ValueError(
        f"indices and arr must have the same number of dimensions; {indices} vs. {arr}"
    )


def along_axis_dtype(dtype: object) -> TypeError:
    """Return the error for indices that are no integers."""
    return TypeError(f"take_along_axis indices must be of integer type, got {dtype}")


def quantile_dtype() -> TypeError:
    """Return the error for a quantile level that is no float."""
    return TypeError("quantile: q must be a float or an array of floats")


def quantile_method(method: object) -> ValueError:
    """Return the error for an interpolation that there is not."""
    return ValueError(
        "method can only be 'linear', 'lower', 'higher', 'midpoint', or 'nearest', got "
        f"{method}"
    )


def same_axes() -> ValueError:
    """Return the error for a plane whose two axes are one."""
    return ValueError("Axes must be different: rot90 turns a plane, which has two.")
