"""What minijax says about slices, gathers and scatters that make no sense.

Functions of plain data that return the exception; the wording is upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minijax.core.errors.shapes import ShardingTypeError

# --- slice, pad


def index_out_of_bounds(index: int, axis: int, size: int) -> IndexError:
    return IndexError(
        f"index {index} is out of bounds for axis {axis} with size {size}"
    )


def slice_start_length(start: object, shape: object) -> TypeError:
    return TypeError(
        "slice start_indices must have length equal to the number of dimensions of the "
        f"operand, got indices {start} for operand shape {shape}."
    )


def slice_limit_length(start: object, limit: object) -> TypeError:
    return TypeError(
        "slice limit_indices must have the same length as start_indices, got "
        f"start_indices {start} and limit_indices {limit}."
    )


def slice_limit_large(limit: object, shape: object) -> TypeError:
    return TypeError(
        "slice limit_indices must be less than or equal to operand shape, got "
        f"limit_indices {limit} for operand shape {shape}."
    )


def slice_limit_small(start: object, limit: object) -> TypeError:
    return TypeError(
        "slice limit_indices must be greater than or equal to start_indices, got "
        f"start_indices {start} and limit_indices {limit}."
    )


def slice_strides_length(strides: object, shape: object) -> TypeError:
    return TypeError(
        "slice strides must have length equal to the number of dimensions of the "
        f"operand, got strides {strides} for operand shape {shape}."
    )


def slice_strides(strides: object) -> TypeError:
    return TypeError(f"slice strides must be positive, got {strides}")


def pad_dtypes(operand: object, value: object) -> TypeError:
    return TypeError(
        f"pad operand and padding_value must be same dtype: got {operand} and {value}."
    )


def pad_value_shape(shape: object) -> ValueError:
    return ValueError(
        f"padding_value must be a scalar; got np.shape(padding_value)={shape}"
    )


def pad_length(config: object, shape: object) -> ValueError:
    return ValueError(
        "length of padding_config must equal the number of axes of operand, got "
        f"padding_config {config} for operand shape {shape}"
    )


def pad_interior(config: object) -> ValueError:
    return ValueError(
        "interior padding in padding_config must be nonnegative, got padding_config "
        f"{config}"
    )


def pad_negative(result: object, config: object, shape: object) -> ValueError:
    return ValueError(
        f"Dimension size after padding is not at least 0, got result shape {result}, "
        f"for padding_config {config} and operand shape {shape}"
    )


# --- dynamic_slice, dynamic_update_slice


def indices_not_1d(shape: object) -> ValueError:
    return ValueError(f"Slice indices must be a 1D sequence, got {shape}")


def indices_length(count: int, shape: object) -> ValueError:
    return ValueError(
        "Length of slice indices must match number of operand dimensions "
        f"({count} vs {shape})"
    )


def negative_index(index: object, size: int) -> ValueError:
    return ValueError(
        f"Index {index} is out of bounds for dimension {size} if "
        "allow_negative_indices=False"
    )


def indices_not_scalars(name: str, index: object) -> TypeError:
    space = " " if name == "dynamic_slice" else ""
    return TypeError(
        f"start_indices arguments to {name} must be scalars, {space}got indices {index}"
    )


def index_dtypes(name: str, found: Iterable[str]) -> TypeError:
    colon = ":" if name == "dynamic_slice" else ""
    return TypeError(
        f"index arguments to {name} must be integers of the same type, got{colon} "
        f"{', '.join(found)}"
    )


def slice_sizes_large(sizes: object, shape: object) -> TypeError:
    return TypeError(
        "slice slice_sizes must be less than or equal to operand shape, got "
        f"slice_sizes {sizes} for operand shape {shape}."
    )


def slice_sizes_negative(sizes: object) -> TypeError:
    return TypeError(
        "slice slice_sizes must be greater than or equal to zero, got slice_sizes of "
        f"{sizes}."
    )


def update_rank(update: object, operand: object) -> TypeError:
    return TypeError(
        "dynamic_update_slice update must have the same rank as operand, got update "
        f"shape {update} for operand shape {operand}."
    )


def update_indices(index: object, operand: object) -> TypeError:
    return TypeError(
        "dynamic_update_slice start_indices must have length equal to the rank of "
        f"operand, got indices {index} for operand shape {operand}."
    )


def update_large(update: object, operand: object) -> TypeError:
    return TypeError(
        "dynamic_update_slice update shape must be smaller than operand shape, got "
        f"update shape {update} for operand shape {operand}."
    )


def update_sharding(operand: Any, update: Any) -> ShardingTypeError:
    def shown(aval: Any) -> str:
        kinds: dict[Any, tuple[str, ...]] = {}
        mesh = aval.sharding.mesh
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True):
            kinds[kind] = (*kinds.get(kind, ()), name)
        return f"{aval}({kinds})"

    return ShardingTypeError(
        "dynamic_update_slice operand sharding must be equal to update sharding, got "
        f"operand sharding {shown(operand)} and update sharding {shown(update)}."
    )


def update_reduced(operand: str, update: str) -> ShardingTypeError:
    return ShardingTypeError(
        "dynamic_update_slice operand and update must be reduced along the same axes. "
        f"Got operand sharding {operand} and update sharding {update}."
    )


def update_unreduced(operand: str, update: str) -> ShardingTypeError:
    return ShardingTypeError(
        "dynamic_update_slice operand and update must be unreduced along the same axes "
        "and with the same unreduced_kind. Got operand sharding "
        f"{operand} and update sharding {update}."
    )


def update_index_sums(index: object) -> ShardingTypeError:
    return ShardingTypeError(
        "dynamic_update_slice start_indices cannot have unreduced or reduced axes. Got "
        f"start_indices={index}"
    )


# --- gather and scatter: dimension numbers


def unknown_mode(mode: object) -> ValueError:
    return ValueError(f'Unknown gather mode "{mode}"')


def indices_dtype() -> ValueError:
    return ValueError("indices must have an integer type")


def dims_not_sorted(op: str, name: str, dims: object) -> TypeError:
    return TypeError(f"{name} in {op} op must be sorted; got {dims}")


def dims_repeated(op: str, name: str, dims: object) -> TypeError:
    return TypeError(f"{name} in {op} op must not repeat; got: {dims}.")


def dims_range(op: str, name: str, rank: int, dim: int) -> TypeError:
    return TypeError(
        f"Invalid {name} set in {op} op; valid range is [0, {rank}); got: {dim}."
    )


def dims_overlap(
    op: str, name: str, other: str, dims: object, others: object
) -> TypeError:
    return TypeError(
        f"{name} and {other} in {op} op must be disjoint; got: {dims} and {others}."
    )


def no_index_vectors(op: str, rank: int) -> TypeError:
    return TypeError(
        f"{op} index leaf dimension must be within [0, rank(indices) + 1). "
        f"rank(indices) is {rank} and {op.lower()} index leaf dimension is {rank - 1}."
    )


def offset_range(position: int, dim: int, rank: int) -> TypeError:
    return TypeError(
        f"Offset dimension {position} in gather op is out of bounds; got {dim}, but "
        f"should have been in [0, {rank})"
    )


def index_vector_size(
    op: str, name: str, count: int, index_vector_dim: int, size: int
) -> TypeError:
    end = "." if op == "Gather" else ""
    return TypeError(
        f"{op} op has {count} elements in {name} and the bound of dimension "
        f"{index_vector_dim=} of indices is {size}. These two numbers must be equal"
        f"{end}"
    )


def index_map_range(name: str, rank: int, position: int, dim: int) -> TypeError:
    mapping = " mapping" if name.startswith("scatter") else ""
    return TypeError(
        f"Invalid {name}{mapping}; domain is [0, {rank}), got: {position}->{dim}."
    )


def index_vector_batched(op: str, dims: object) -> TypeError:
    return TypeError(
        f"{op} op cannot have the index vector dimension as a batching dimension; got "
        f"{dims}."
    )


def batching_counts(op: str, name: str, ours: object, theirs: object) -> TypeError:
    space = "" if op == "Gather" else " "
    return TypeError(
        f"{op} op requires equal numbers of operand_batching_dims and {name}, got "
        f"{ours} and{space}{theirs}."
    )


def batching_sizes(op: str, what: str, ours: object, theirs: object) -> TypeError:
    return TypeError(
        f"{op} op requires operand batching dimensions and {what} batching dimensions "
        f"to have the same shape, got {ours} and {theirs}."
    )


# --- gather


def slice_sizes_length(count: int, rank: int) -> TypeError:
    return TypeError(
        "Gather op must have one slice size for every input dimension; got: "
        f"len(slice_sizes)={count}, input_shape.rank={rank}"
    )


def slice_sizes_count(
    count: int, offset: object, collapsed: object, batching: object
) -> TypeError:
    return TypeError(
        "All components of the offset index in a gather op must either be a offset "
        f"dimension or explicitly collapsed/batching; got len(slice_sizes)={count}, "
        f"output_slice_sizes={offset}, collapsed_slice_dims={collapsed}, "
        f"operand_batching_dims={batching}."
    )


def slice_size_range(position: int, bound: int, size: int) -> TypeError:
    return TypeError(
        f"Slice size at index {position} in gather op is out of range, must be within "
        f"[0, {bound} + 1), got {size}."
    )


def collapsed_size(size: int, dim: int, position: int) -> TypeError:
    return TypeError(
        f"Gather op can only collapse slice dims with bound 1, but bound is {size} for "
        f"index {dim} at position {position}."
    )


def batching_size(size: int, dim: int, position: int) -> TypeError:
    return TypeError(
        "Gather op can only have operand batching dims with bound 0/1, but bound is "
        f"{size} for index {dim} at position {position}."
    )


def gather_sharding(operand: object, indices: object) -> ShardingTypeError:
    return ShardingTypeError(
        "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the "
        "gather indexing as out sharding could not be resolved unambiguously (or would "
        f"require collectives on inputs). Got {operand=}, {indices=}"
    )


def unreduced_gather(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"unreduced rule for {name} is not implemented. Please file an issue at "
        "https://github.com/jax-ml/jax/issues"
    )


def reduced_indices(aval: str) -> ShardingTypeError:
    return ShardingTypeError(
        f"gather indices cannot be reduced. Got indices sharding {aval}."
    )


# --- scatter


def updates_rank(expected: int, rank: int) -> TypeError:
    return TypeError(f"Updates tensor must be of rank {expected}; got {rank}.")


def window_rank(size: int, rank: int) -> TypeError:
    return TypeError(
        f"Scatter op has window of size {size}; doesn't match operand of rank {rank}."
    )


def window_bounds(dim: int, size: int, bound: int) -> TypeError:
    return TypeError(
        "Bounds of the window dimensions of updates must not exceed the bounds of the "
        f"corresponding dimensions of operand. For dimension {dim}, updates bound is "
        f"{size}, operand bound is {bound}."
    )


def scatter_bounds(dim: int, size: int, bound: int) -> TypeError:
    return TypeError(
        "Bounds of the scatter dimensions of updates must be the same as the bounds of "
        "the corresponding dimensions of scatter indices. For scatter dimension "
        f"{dim}, updates bound is {size}, indices bound is {bound}."
    )


def scatter_sharding(
    operand: object, indices: object, updates: object
) -> ShardingTypeError:
    return ShardingTypeError(
        "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec "
        "for the scatter update as out sharding could not be resolved unambiguously "
        f"(or would require collectives on inputs). Got {operand=}, {indices=}, "
        f"{updates=}"
    )


def reduced_scatter() -> NotImplementedError:
    return NotImplementedError(
        "reduced rule for scatter is not implemented. Please file an issue at "
        "https://github.com/jax-ml/jax/issues"
    )


def unreduced_indices(aval: str) -> ShardingTypeError:
    return ShardingTypeError(
        f"scatter indices cannot be unreduced. Got indices sharding {aval}."
    )


def unreduced_scatter(operand: str, updates: str) -> ShardingTypeError:
    return ShardingTypeError(
        "scatter operand and updates must be unreduced along the same axes. Got "
        f"operand sharding {operand} and updates sharding {updates}."
    )


def scatter_mul_not_unique() -> NotImplementedError:
    return NotImplementedError(
        "scatter_mul gradients are only implemented if `unique_indices=True`"
    )


def scatter_not_unique() -> NotImplementedError:
    return NotImplementedError(
        "scatter transpose is only implemented where unique_indices=True"
    )


def dimension_numbers(name: str, kind: type) -> TypeError:
    return TypeError(
        f"lax.{name} takes dimension_numbers of type "
        f"{name.capitalize()}DimensionNumbers, and got {kind}."
    )
