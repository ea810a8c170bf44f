"""The wording of errors about random numbers: seeds, keys and samplers.

Each function takes plain data and returns the exception for the caller to raise. The
texts are upstream's, from its `random` package, where it has one.
"""

from collections.abc import Sequence

Shape = Sequence[int]

# Seeds and keys.


def seed_not_scalar(function: str, shape: Shape) -> TypeError:
    """Return the error for a seed that is an array."""
    return TypeError(
        f"{function} accepts a scalar seed, but was given an array of shape {shape} "
        "!= (). Use jax.vmap for batching"
    )


def seed_not_integer(seed: object) -> TypeError:
    """Return the error for a seed that is no integer."""
    return TypeError(f"PRNG key seed must be an integer; got {seed}")


def unknown_implementation(name: object) -> ValueError:
    """Return the error for another generator than threefry."""
    return ValueError(
        f'unrecognized PRNG implementation "{name}". Did you mean one of: '
        '"threefry2x32"? (It is the only generator that minijax has.)'
    )


def key_type(kind: type) -> TypeError:
    """Return the error for a key that is no value at all."""
    return TypeError(f"unexpected PRNG key type {kind}")


def not_key_data(value: object) -> TypeError:
    """Return the error for a key that is no array."""
    return TypeError(
        "JAX encountered invalid PRNG key data: expected key_data to have ndim, shape, "
        f"and dtype attributes. Got {value}"
    )


def key_data_rank(ndim: int) -> TypeError:
    """Return the error for a key that is a scalar."""
    return TypeError(
        "JAX encountered invalid PRNG key data: expected key_data.ndim >= 1; got "
        f"ndim={ndim}"
    )


def key_data_shape(shape: Shape) -> TypeError:
    """Return the error for a key that does not end with a dimension of size 2."""
    return TypeError(
        "JAX encountered invalid PRNG key data: expected key_data.shape to end with "
        f"(2,); got shape={shape}"
    )


def key_data_dtype(dtype: object) -> TypeError:
    """Return the error for a key of another dtype than uint32."""
    return TypeError(
        "JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got "
        f"dtype={dtype}"
    )


def not_a_single_key(function: str, shape: Shape) -> ValueError:
    """Return the error for several keys where one is expected."""
    return ValueError(
        f"{function} accepts a single key, but was given a key array of shape {shape} "
        "!= (). Use jax.vmap for batching."
    )


def fold_in_not_scalar(shape: Shape) -> TypeError:
    """Return the error for folding an array into a key."""
    return TypeError(
        f"fold_in accepts a scalar, but was given an array ofshape {shape} != (). "
        "Use jax.vmap for batching."
    )


def fold_in_range(data: int) -> OverflowError:
    """Return the error for folding in a Python integer that no uint32 holds."""
    return OverflowError(f"Python integer {data} out of bounds for uint32")


def negative_shape(shape: Shape) -> ValueError:
    """Return the error for a shape with a negative size; upstream fails in MLIR."""
    return ValueError(f"shapes must have nonnegative sizes, got {shape}")


def too_many_bits(shape: Shape) -> NotImplementedError:
    """Return the error for more elements than 32 bits count."""
    return NotImplementedError(
        f"random arrays have at most 2 ** 32 elements, and shape {shape} has more. "
        "Split the key, and draw parts."
    )


# Samplers.


def sampler_dtype(function: str, kind: str, dtype: object) -> ValueError:
    """Return the error for a dtype that a distribution does not have."""
    return ValueError(
        f"dtype argument to `{function}` must be {kind} dtype, got {dtype}"
    )


def randint_dtype(dtype: object) -> TypeError:
    """Return the error for drawing integers of a dtype that is none."""
    return TypeError(f"randint only accepts integer dtypes, got {dtype}")


def parameter_shapes(function: str, result: Shape, shape: Shape) -> ValueError:
    """Return the error for parameters that do not broadcast to the shape asked for."""
    return ValueError(
        f"{function} parameter shapes must be broadcast-compatible with shape "
        "argument, and the result of broadcasting the shapes must equal the shape "
        f"argument, but got result {result} for shape argument {shape}."
    )


def bernoulli_dtype(dtype: object) -> TypeError:
    """Return the error for a probability that is no float."""
    return TypeError(
        f"bernoulli probability `p` must have a floating dtype, got {dtype}."
    )


def unknown_mode(function: str, mode: object) -> ValueError:
    """Return the error for a mode that a sampler does not have."""
    if function == "gumbel":
        return ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return ValueError(f"got mode={mode!r}, expected 'high' or 'low'")


# Permutations and choices.


def not_permutable(dtype: object) -> TypeError:
    """Return the error for permuting a scalar that is no integer."""
    return TypeError(f"x must be an integer or at least 1-dimensional, got {dtype}")


def choice_shape(shape: object) -> TypeError:
    """Return the error for a shape that is no sequence."""
    return TypeError(
        f"shape argument of jax.random.choice must be a sequence, got {shape}"
    )


def choice_of_nothing() -> ValueError:
    """Return the error for choosing among no values."""
    return ValueError("a must be greater than 0 unless no samples are taken")


def choice_too_many(draws: int, size: int) -> ValueError:
    """Return the error for choosing more values than there are, each at most once."""
    return ValueError(
        f"Cannot take a larger sample (size {draws}) than population (size {size}) "
        "when 'replace=False'"
    )


def choice_probabilities(shape: Shape, size: int) -> ValueError:
    """Return the error for probabilities that are not one per value."""
    return ValueError(
        "p must be None or a 1D vector with the same size as a.shape[axis]. p has "
        f"shape {shape} and a.shape[axis] is {size}."
    )


def categories_too_few(draws: int, size: int) -> ValueError:
    """Return the error for drawing more categories than there are."""
    return ValueError(
        f"Number of samples without replacement ({draws}) cannot exceed number of "
        f"categories ({size})."
    )
