"""What minijax says about shapes, axes and indices that make no sense.

Functions of plain data that return the exception; the wording is upstream's, so that a
program which reads messages cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ShardingTypeError(Exception):
    """The Explicit shardings of the operands do not fit the operation."""


# --- axes and shapes


def axis_out_of_bounds(axis: int, ndim: int) -> ValueError:
    return ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")


def repeated_axis(axes: object, where: str = "") -> ValueError:
    return ValueError(f"repeated axis{where}: {axes}")


def bad_shape(shape: object) -> TypeError:
    return TypeError(
        f"Shapes must be 1D sequences of concrete values of integer type, got {shape}."
    )


def shapelike_type(op: str, what: str, given: object) -> TypeError:
    return TypeError(
        f"{op} {what} must be of type tuple/list/ndarray, got {type(given)}."
    )


def shapelike_not_integers(op: str, what: str, given: Iterable[Any]) -> TypeError:
    return TypeError(
        f"{op} {what} must have every element be an integer type, "
        f"got {tuple(map(type, given))}."
    )


def shapelike_bound(op: str, what: str, bound: str, given: object) -> TypeError:
    return TypeError(f"{op} {what} must have every element be {bound}, got {given}.")


def unexpected_type(aval: object, primitive: object) -> ValueError:
    return ValueError(
        f"Attempting to pass an unexpected type {aval} to a primitive: {primitive}"
    )


# --- broadcast_in_dim


def broadcast_dims_length(dims: object, ndim: int) -> TypeError:
    return TypeError(
        "broadcast_in_dim broadcast_dimensions must have length equal to operand "
        f"ndim; got broadcast_dimensions {dims} for operand ndim {ndim}."
    )


def broadcast_rank(ndim: int, target: int) -> TypeError:
    return TypeError(
        "broadcast_in_dim target broadcast shape must have equal or higher rank to "
        f"the operand shape; got operand ndim {ndim} and target broadcast ndim "
        f"{target}."
    )


def broadcast_dims_subset(dims: object, ndim: int, shape: object) -> TypeError:
    return TypeError(
        "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, "
        f"got {dims} for operand ndim {ndim} and shape {shape}."
    )


def broadcast_sizes(operand: object, shape: object, dims: object) -> TypeError:
    return TypeError(
        "broadcast_in_dim operand dimension sizes must either be 1, or be equal to "
        "their corresponding dimensions in the target broadcast shape; got operand of "
        f"shape {operand}, target broadcast shape {shape}, broadcast_dimensions "
        f"{dims} "
    )


def broadcast_dims_repeated(dims: object) -> TypeError:
    return TypeError(
        "broadcast_in_dim broadcast_dimensions must not contain duplicates, got "
        f"broadcast_dimensions {dims}"
    )


def incompatible_broadcast(aval: object, requested: str) -> ValueError:
    return ValueError(
        f"Incompatible types for broadcasting: input type={aval} and requested "
        f"type={requested}"
    )


def broadcast_to_fewer_dims(arr_shape: object, shape: object) -> ValueError:
    return ValueError(
        f"Cannot broadcast to shape with fewer dimensions: {arr_shape=} {shape=}"
    )


# --- reshape, transpose, squeeze, rev, iota, full


def reshape_negative(sizes: object) -> TypeError:
    return TypeError(f"reshape new_sizes must all be positive, got {sizes}.")


def reshape_dimensions(dimensions: object, shape: object) -> TypeError:
    return TypeError(
        "reshape dimensions must be a permutation of operand dimensions, got "
        f"dimensions {dimensions} for shape {shape}."
    )


def reshape_size(size: int, shape: Iterable[Any]) -> ValueError:
    shown = ",".join("newaxis" if s == -1 else str(s) for s in shape)
    comma = "," if "," not in shown else ""
    return ValueError(
        f"cannot reshape array of size {size} into shape ({shown}{comma})"
    )


def reshape_sharding(operand: object, sizes: object) -> ShardingTypeError:
    return ShardingTypeError(
        "This reshape is not supported. Please specify the sharding of the output via "
        "the `out_sharding` argument of jax.lax.reshape. Got operand type: "
        f"{operand}, new sizes: {sizes}"
    )


def roll_sharded(aval: Any, axes: object) -> ShardingTypeError:
    return ShardingTypeError(
        "`a` cannot be sharded on the axis being rolled over. Got arr "
        f"type={aval.short()} and axis={axes}"
    )


def cumulative_sharded(name: str, aval: object) -> ShardingTypeError:
    return ShardingTypeError(
        "The input should be fully replicated when axis is not specified to "
        f"{name}. Got input type={aval}"
    )


def reshape_sums_differ(kind: str, spec: object, operand: object) -> ValueError:
    return ValueError(
        f"out_sharding passed to reshape must be {kind} over the same mesh axes as "
        f"operand. Got out_sharding: {spec} and operand type: {operand}"
    )


def reshape_sums(kind: str, sharding: object) -> ValueError:
    return ValueError(
        f"out_sharding passed to `reshape` cannot contain {kind} axes. Got {sharding}"
    )


def reshape_unreduced_kind(spec: object, operand: object) -> ValueError:
    return ValueError(
        "out_sharding passed to reshape must have the same unreduced_kind as operand. "
        f"Got out_sharding: {spec} and operand type: {operand}"
    )


def transpose_permutation(permutation: object, shape: object) -> TypeError:
    return TypeError(
        "transpose permutation isn't a permutation of operand dimensions, got "
        f"permutation {permutation} for operand shape {shape}."
    )


def squeeze_repeated(dimensions: object) -> ValueError:
    return ValueError(f"dimensions are not unique: {dimensions}")


def squeeze_range(dimensions: object) -> ValueError:
    return ValueError(f"dimensions outside range [0, ndim): {dimensions}")


def squeeze_size(shape: object, dimensions: object) -> ValueError:
    return ValueError(
        "cannot select an axis to squeeze out which has size not equal to one, got "
        f"{shape=} and {dimensions=}"
    )


def rev_repeated(dimensions: object) -> TypeError:
    return TypeError(f"rev dimensions must be unique, got {dimensions}.")


def rev_range(dimensions: object, ndim: int) -> TypeError:
    return TypeError(
        "rev dimensions must all be less than operand ndim, got dimensions "
        f"{dimensions} for operand ndim {ndim}."
    )


def iota_dtype(dtype: object) -> TypeError:
    return TypeError(
        f"iota does not accept dtype {dtype}. Accepted dtypes are subtypes of "
        "integer, complexfloating, floating."
    )


def iota_dimension(dimension: int, shape: object) -> ValueError:
    return ValueError(
        "iota dimension must be between 0 and len(shape), got "
        f"{dimension=} for {shape=}"
    )


def full_not_scalar(shape: object) -> TypeError:
    return TypeError(
        f"full must be called with scalar fill_value, got fill_value.shape {shape}."
    )


# --- concatenate, stack, split, tile


def joined_shardings(shardings: Iterable[object]) -> ShardingTypeError:
    return ShardingTypeError(
        "All operands should have the same sharding. Got shardings "
        f"{', '.join(map(str, shardings))}"
    )


def joined_sums(kind: str, found: object) -> ShardingTypeError:
    same = " and have the same unreduced_kind" if kind == "unreduced" else ""
    return ShardingTypeError(
        f"All operands should be {kind} along the same mesh axes{same}. Got {kind} "
        f"specs: {found}"
    )


def concatenate_nothing() -> ValueError:
    return ValueError("concatenate requires a non-empty sequences of arrays")


def concatenate_ranks(shapes: str) -> TypeError:
    return TypeError(
        f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}."
    )


def concatenate_dimension(dimension: int, shapes: str) -> TypeError:
    return TypeError(
        f"concatenate dimension out of bounds: dimension {dimension} for shapes "
        f"{shapes}."
    )


def concatenate_shapes(dimension: int, shapes: str) -> TypeError:
    return TypeError(
        "Cannot concatenate arrays with shapes that differ in dimensions other than "
        f"the one being concatenated: concatenating along dimension {dimension} for "
        f"shapes {shapes}."
    )


def split_negative(sizes: object) -> ValueError:
    return ValueError(f"Sizes passed to split must be nonnegative, got {sizes}")


def split_sum(total: int, axis: int, shape: object) -> ValueError:
    return ValueError(
        f"Sum of sizes {total} must be equal to dimension {axis} of the operand shape "
        f"{shape}"
    )


def stack_nothing() -> ValueError:
    return ValueError("Need at least one array to stack.")


def stack_ranks(shapes: str) -> ValueError:
    return ValueError(
        f"Cannot stack arrays with different numbers of dimensions: got {shapes}."
    )


def stack_shapes(shapes: str) -> ValueError:
    return ValueError(f"All input arrays must have the same shape. Got {shapes}.")


def unstack_scalar(shape: object) -> ValueError:
    return ValueError(
        "unstack requires arrays with rank > 0, however a scalar array of shape "
        f"{shape} was passed."
    )


def unstack_sharded(axis: int, aval: str) -> ShardingTypeError:
    return ShardingTypeError(
        f"unstack operand cannot be sharded on the unstacking axis {axis}. Got operand "
        f"type={aval}"
    )


def tile_reps(count: int, ndim: int) -> TypeError:
    return TypeError(
        "reps length must be equal to the ndim of x, got "
        f"len(reps)={count} and x.ndim={ndim}."
    )


def tile_sharded(dim: int, aval: object, reps: object) -> ShardingTypeError:
    return ShardingTypeError(
        f"Operand cannot be sharded on dimension {dim} when the tiling is non-trivial. "
        f"Got input type: {aval} with reps: {reps}"
    )


def cut_sharded(
    verb: str, new: int, cut: int, part: object, aval: str, shape: object
) -> ShardingTypeError:
    return ShardingTypeError(
        f"{verb} on sharded dims where out dim ({new}) is not divisible by mesh axes "
        f"({cut}) with spec ({part}) is not implemented. Got input type={aval} and "
        f"output shape={shape}"
    )


def one_hot_sharding(found: object, given: object) -> ShardingTypeError:
    return ShardingTypeError(
        "The input part of spec in out_sharding should match the spec of `x`. Got "
        f"typeof(x).spec={found} and out_sharding.spec={given}"
    )
