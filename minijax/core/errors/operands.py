"""What minijax says about operands that an operation does not accept.

Functions of plain data that return the exception: dtypes, shapes that do not broadcast,
and types over a mesh that do not fit together. The wording is upstream's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from minijax.core.errors.shapes import ShardingTypeError

# --- dtypes

_FLOAT0 = (
    "float0s do not support any operations by design, because they are not compatible "
    "with non-trivial vector spaces. No implicit dtype conversion is done. You can use "
    "np.zeros_like(arr, dtype=np.float) to cast a float0 array to a regular zeros "
    "array. \nIf you didn't expect to get a float0 you might have accidentally taken a "
    "gradient with respect to an integer argument."
)


def float0_operand(name: str, position: int | None) -> TypeError:
    where = "array" if position is None else f"at position {position}"
    return TypeError(f"Called {name} with a float0 {where}. {_FLOAT0}")


def dtype_not_accepted(
    name: str, dtype: str, position: int | None, accepted: Iterable[str]
) -> TypeError:
    at = "" if position is None else f" at position {position}"
    return TypeError(
        f"{name} does not accept dtype {dtype}{at}. Accepted dtypes{at} are subtypes "
        f"of {', '.join(accepted)}."
    )


# The operations of several operands that numpy has, under upstream's names for them.
_NUMPY_EQUIVALENTS = {
    "add": "add",
    "atan2": "arctan2",
    "concatenate": "concatenate",
    "div": "divide",
    "eq": "equal",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "nextafter": "nextafter",
    "pow": "float_power",
    "select": "where",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "shift_right_logical": "right_shift",
    "sub": "subtract",
}


def different_dtypes(name: str, dtypes: Iterable[str]) -> TypeError:
    text = f"lax.{name} requires arguments to have the same dtypes, got "
    text += f"{', '.join(dtypes)}."
    if name in _NUMPY_EQUIVALENTS:
        text += (
            f" (Tip: jnp.{_NUMPY_EQUIVALENTS[name]} is a similar function that does "
            "automatic type promotion on inputs)."
        )
    return TypeError(text)


def pow_dtypes(x: object, y: object) -> TypeError:
    return TypeError(
        "the first argument to pow must have an inexact dtype (float or complex), and "
        "the second argument must have an inexact or integer dtype, and two inexact "
        f"dtypes must match, but got {x} and {y} respectively."
    )


def negative_integer_power(aval: object, y: int) -> TypeError:
    return TypeError(
        f"Integers cannot be raised to negative powers, got integer_pow({aval}, {y})"
    )


def bitcast_dtypes(old: object, new: Any) -> TypeError:
    return TypeError(
        "lax.bitcast_convert_type does not support bool or complex values unless the "
        f"operand and destination types match. Got operand dtype={old}, "
        f"new_dtype={new!r}. Consider using the arr.view() method instead."
    )


def bitcast_size(
    shape: object, old: object, old_bits: int, new: object, new_bits: int, last: int
) -> ValueError:
    return ValueError(
        f"Attempting to convert array of shape {shape} from {old} of size {old_bits} "
        f"bits to {new} of size {new_bits}, bits but {last} * {old_bits} != {new_bits}"
    )


def exponent_bits(bits: int) -> ValueError:
    return ValueError(f"reduce_precision: exponent_bits must be positive; got {bits}")


def mantissa_bits(bits: int) -> ValueError:
    return ValueError(
        f"reduce_precision: mantissa_bits must be non-negative; got {bits}"
    )


# --- shapes


def different_ranks(name: str, ranks: Collection[int]) -> TypeError:
    return TypeError(
        f"{name}: arrays must have the same number of dimensions, got {set(ranks)}"
    )


def incompatible_shapes(name: str, shapes: Iterable[Any]) -> TypeError:
    shown = ", ".join(str(tuple(s)) for s in shapes)
    return TypeError(f"{name} got incompatible shapes for broadcasting: {shown}.")


def clamp_shape(bound: str, shape: object, operand: object) -> TypeError:
    return TypeError(
        f"clamp requires {bound}.shape == operand.shape or {bound}.shape == (), got "
        f"{bound}.shape={shape}, operand.shape={operand}."
    )


def no_cases() -> ValueError:
    return ValueError("select_n() must have at least one case")


def case_shapes(shapes: Iterable[object]) -> TypeError:
    return TypeError(
        f"select cases must have the same shapes, got [{', '.join(map(str, shapes))}]."
    )


def which_shape(which: object, case: object) -> TypeError:
    return TypeError(
        "select `which` must be scalar or have the same shape as cases, got `which` "
        f"shape {which} but case shape {case}."
    )


def which_dtype(dtype: object) -> TypeError:
    return TypeError(f"select `which` must be boolean or integer type, got {dtype}.")


def too_many_cases() -> TypeError:
    return TypeError("select with boolean `which` cannot have > 2 cases.")


# --- meshes and Explicit shardings


def context_mesh(name: str, context: object, mesh: object, aval: str) -> ValueError:
    return ValueError(
        f"For primitive {name}, context mesh {context} should match the aval mesh "
        f"{mesh} for shape {aval}. This error occurs at source: "
    )


def different_meshes(one: object, other: object) -> ValueError:
    return ValueError(
        f"Mesh for all inputs should be equal. Got one mesh: {one} and another mesh: "
        f"{other}"
    )


def incompatible_shardings(name: str, specs: Iterable[Any]) -> ShardingTypeError:
    shown = ", ".join(str(tuple(s)) for s in specs)
    return ShardingTypeError(
        f"{name} got incompatible shardings for broadcasting: {shown}."
    )


def illegal_result(name: str, avals: Iterable[str], result: str) -> ShardingTypeError:
    return ShardingTypeError(
        f"{name} operation with inputs: {', '.join(avals)} produces an illegally "
        f"sharded result: {result}"
    )


def case_shardings(shardings: Iterable[object]) -> ShardingTypeError:
    return ShardingTypeError(
        "select cases must have the same shardings, got "
        f"[{', '.join(map(str, shardings))}]."
    )


def which_sharding(which: object, case: object) -> ShardingTypeError:
    return ShardingTypeError(
        "select `which` must be scalar or have the same sharding as cases, got "
        f"`which` sharding {which} but case sharding {case}."
    )


# --- Manual axes


def different_varying(name: str, varying: list[Any]) -> ValueError:
    return ValueError(
        f"Primitive {name} requires varying manual axes to match, but got {varying}. "
        "Please open an issue at https://github.com/jax-ml/jax/issues and as a "
        "temporary workaround pass the check_vma=False argument to `jax.shard_map`"
    )


# --- unreduced and reduced axes


def sums_not_implemented(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"unreduced/reduced rule for {name} is not implemented. Please file an issue "
        "at https://github.com/jax-ml/jax/issues"
    )


def unreduced_kind(wanted: object, found: object) -> ValueError:
    return ValueError(f"Expected unreduced_kind={wanted} but got {found}")


def different_reduced(specs: object) -> ShardingTypeError:
    return ShardingTypeError(
        f"All inputs should be reduced across the same mesh axes. Got specs: {specs}"
    )


def replicated_beside_reduced(aval: object, reduced: object) -> ShardingTypeError:
    return ShardingTypeError(
        "Inputs cannot be replicated on the same axes that another input is reduced "
        f"on. Got input type: {aval} and reduced spec: {reduced}"
    )


def sharded_beside_reduced(aval: object, reduced: object) -> ShardingTypeError:
    return ShardingTypeError(
        "Inputs cannot be sharded/varying on the same axes that another input is "
        "reduced on. Reshard the input which is reduced to be sharded on the mesh axes "
        "it is reduced on via `jax.sharding.reshard(inp, jax.P(...))`. Got input type: "
        f"{aval} and reduced spec: {reduced}"
    )


def nonlinear_of_unreduced(name: str, avals: Any) -> ShardingTypeError:
    if len(avals) == 1:
        return ShardingTypeError(
            f"{name} is a non-linear operation and cannot accept input that is "
            f"unreduced. Got {avals[0]}"
        )
    return ShardingTypeError(
        f"{name} is a non-linear operation and cannot accept inputs that are "
        f"unreduced. Got {tuple(avals)}"
    )


def different_unreduced(name: str, lhs: object, rhs: object) -> ShardingTypeError:
    return ShardingTypeError(
        f"lhs and rhs to `{name}` must be unreduced along the same mesh axes. Got "
        f"lhs={lhs}, rhs={rhs}"
    )


def one_unreduced(name: str, side: str, other: str) -> ShardingTypeError:
    return ShardingTypeError(
        f"{side} is unreduced while {other} is not. `{name}` operation does not allow "
        "this because there will be implicit communication. Please reduce "
        f"{side} via `reshard` before calling `{name}`."
    )


def both_unreduced(lhs: object, rhs: object) -> ShardingTypeError:
    return ShardingTypeError(
        "lhs and rhs to `mul` cannot be unreduced since mul is bilinear. Got "
        f"lhs={lhs}, rhs={rhs}"
    )


def other_not_reduced(unreduced_side: str, lhs: Any, rhs: Any) -> ShardingTypeError:
    other = "RHS" if unreduced_side == "LHS" else "LHS"
    return ShardingTypeError(
        f"{other} should be reduced along the same axes {unreduced_side} is unreduced "
        f"on. Got lhs={lhs} and rhs={rhs}"
    )


def unreduced_denominator(y: object) -> ValueError:
    return ValueError(
        f"The denominator cannot be unreduced passed to `div`. Got y={y!r}"
    )


def denominator_not_reduced(x: object, y: object) -> ValueError:
    return ValueError(
        "Denominator should be reduced along the same axes numerator is unreduced on. "
        f"Got x={x!r}, y={y!r}"
    )


# --- reductions


def reduction_axes(axes: object) -> ValueError:
    return ValueError(f"duplicate value in 'axes' of reduction: {axes}")


def reduction_axes_range(axes: object, shape: object) -> ValueError:
    return ValueError(
        f"reduction axes {axes} contains out-of-bounds indices for {shape}."
    )


def arg_axis(axis: int, shape: object) -> ValueError:
    return ValueError(f"Invalid axis {axis} for operand shape {shape}")


def arg_empty(axis: int, shape: object) -> ValueError:
    return ValueError(
        "argmin and argmax require non-empty reduced dimension. "
        f"operand.shape={shape} axis={axis}"
    )


def index_dtype(name: str) -> TypeError:
    return TypeError(f"index_dtype must be an integer type, but got {name}")


def logical_dtype(dtype: object) -> TypeError:
    return TypeError(
        f"logical reduction requires operand dtype bool or int, got {dtype}."
    )


def out_kind(name: str, kind: object, spec: object) -> ShardingTypeError:
    return ShardingTypeError(
        f"{name} requires `out_sharding`'s unreduced_kind to be {kind} but got {spec}"
    )


def out_unreduced(name: str, operand: Any, axes: Any, got: Any) -> ShardingTypeError:
    return ShardingTypeError(
        "out_sharding's unreduced axes should be in operand's specs that were "
        f"{name} over. Got operand={operand!r}, axes={axes}, unreduced_spec={got}"
    )


def out_reduced(name: str, sharding: object) -> ValueError:
    return ValueError(
        f"out_sharding passed to {name} cannot be reduced. Got "
        f"out_sharding={sharding!r}"
    )


def cumulative_negative_axis() -> ValueError:
    return ValueError("XLA operations do not allow negative axes")


def cumulative_sharded(aval: object, axis: int) -> ShardingTypeError:
    return ShardingTypeError(
        "Input should be unsharded over the axis being reduced. Got input "
        f"type={aval} and axis={axis}"
    )


def cumulative_axis(axis: int, shape: object) -> ValueError:
    return ValueError(f"axis {axis} is out of bounds for array of shape {shape}")


def sort_shapes(shapes: Iterable[object]) -> TypeError:
    shown = " ".join(map(str, shapes))
    return TypeError(f"Arguments to sort must have equal shapes, got: {shown}")


def sort_without_operands() -> TypeError:
    return TypeError("Sort requires at least one operand")


def sort_num_keys(num_keys: int, operands: int) -> ValueError:
    return ValueError(
        f"num_keys={num_keys} must be between 1 and len(operand)={operands}"
    )


def sort_one_key(num_keys: int) -> ValueError:
    return ValueError(f"num_keys={num_keys} must equal 1 for a single operand.")


def sort_sharded(sharding: object, dimension: int) -> ShardingTypeError:
    return ShardingTypeError(
        "Arguments to sort must be unsharded over the sorting dimension. Got arg "
        f"sharding={sharding} and sorting dimension={dimension}"
    )


def sort_shardings(shardings: Iterable[object]) -> ShardingTypeError:
    shown = " ".join(map(str, shardings))
    return ShardingTypeError(
        f"Arguments to sort must have equal shardings, got: {shown}"
    )


def top_k_complex() -> ValueError:
    return ValueError("top_k is not compatible with complex inputs.")


def top_k_sharded(aval: object, axis: int) -> ShardingTypeError:
    return ShardingTypeError(
        "The input should be unsharded over the axis along which to compute the top_k "
        f"values. Got input type={aval} and axis={axis}"
    )


def top_k_negative(k: int) -> ValueError:
    return ValueError(f"k argument to top_k must be nonnegative, got {k}")


def top_k_scalar(shape: object) -> TypeError:
    return TypeError(f"top_k operand must have >= 1 dimension, got {shape}")


def top_k_too_large(k: int, shape: object, axis: int) -> ValueError:
    return ValueError(
        "k argument to top_k must be no larger than size along axis; "
        f"got k={k} with shape={shape} and axis={axis}"
    )


# --- dot_general


def dot_range(side: str, batch: Any, contracting: Any, rank: int) -> TypeError:
    return TypeError(
        f"dot_general requires {side} dimension numbers to be nonnegative and less "
        f"than the number of axes of the {side} value, got {side}_batch of {batch} and "
        f"{side}_contracting of {contracting} for {side} of rank {rank}"
    )


def dot_batch_lengths(lhs: object, rhs: object) -> TypeError:
    return TypeError(
        "dot_general requires equal numbers of lhs_batch and rhs_batch dimensions, got "
        f"lhs_batch {lhs} and rhs_batch {rhs}."
    )


def dot_repeated(side: str, kind: str, dims: object) -> TypeError:
    return TypeError(
        f"dot_general requires {side} {kind} dimensions to be distinct, got "
        f"{side}_{kind} {dims}."
    )


def dot_overlap(side: str, batch: object, contracting: object) -> TypeError:
    return TypeError(
        f"dot_general requires {side} batch dimensions to be disjoint from contracting "
        f"dimensions, got {side}_batch {batch} and {side}_contracting {contracting}."
    )


def dot_batch_shapes(lhs: object, rhs: object) -> TypeError:
    return TypeError(
        "dot_general requires lhs batch dimensions and rhs batch dimensions to have "
        f"the same shape, got {lhs} and {rhs}."
    )


def dot_contracting_shapes(lhs: object, rhs: object) -> TypeError:
    return TypeError(
        "dot_general requires contracting dimensions to have the same shape, got "
        f"{lhs} and {rhs}."
    )


def dot_dtypes(lhs: object, rhs: object) -> TypeError:
    return TypeError(f"lax.dot_general argument type error: {lhs}, {rhs}")


def dot_narrower(preferred: object, result: object) -> TypeError:
    return TypeError(
        "`preferred_element_type` must not be narrower than the original type, got "
        f"preferred_element_type of {preferred} for result type of {result}."
    )


def dot_needs_numbers(lhs_shape: object, rhs_shape: object) -> ValueError:
    return ValueError(
        "jax.lax.dot: dimension_numbers must be specified when not performing simple "
        "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
        f"{lhs_shape=} {rhs_shape=}"
    )


def matmul_rank(lhs: int, rhs: int) -> ValueError:
    return ValueError(
        f"Arguments to batch_matmul must be at least 2D, got {lhs}, {rhs}"
    )


def matmul_ranks(lhs: int, rhs: int) -> ValueError:
    return ValueError(
        f"Arguments to batch_matmul must have same ndim, got {lhs}, {rhs}"
    )


def dot_precision(precision: object) -> ValueError:
    return ValueError(f"Invalid precision {precision!r}")


def dot_batch_specs(lhs: object, rhs: object) -> ShardingTypeError:
    return ShardingTypeError(
        "dot_general requires lhs batch dimensions and rhs batch dimensions to have "
        f"the same sharding, got {lhs} and {rhs}."
    )


def dot_contracting_specs(lhs: object, rhs: object) -> ShardingTypeError:
    return ShardingTypeError(
        "Contracting dimensions are sharded and it is ambiguous how the output should "
        "be sharded. Please specify the output sharding via the `out_sharding` "
        f"parameter. Got lhs_contracting_spec={lhs} and rhs_contracting_spec={rhs}"
    )


def dot_unreduced(lhs: object, rhs: object) -> ShardingTypeError:
    return ShardingTypeError(
        "lhs or rhs passed to dot_general cannot be unreduced. Got "
        f"lhs={lhs!r} and rhs={rhs!r}"
    )


def dot_out_unreduced_specs(lhs: object, rhs: object) -> ShardingTypeError:
    return ShardingTypeError(
        "lhs and rhs contracting dims should be sharded identically when out_sharding "
        "provided to dot_general mentions unreduced_axes. Got "
        f"lhs_contracting_spec={lhs}, rhs_contracting_spec={rhs}"
    )


def dot_out_unreduced(unreduced: object, spec: object) -> ShardingTypeError:
    return ShardingTypeError(
        "out_sharding's unreduced axes should be equal to the contracting specs. Got "
        f"unreduced axes={unreduced} and contracting spec={spec}"
    )


# --- rng_uniform


def rng_dtypes(a: object, b: object) -> ValueError:
    return ValueError(
        f"Arguments to rng_uniform must have identical dtypes, got {a} and {b}."
    )


def rng_shapes(a: object, b: object) -> ValueError:
    return ValueError(
        f"Arguments to rng_uniform must be scalars; got shapes {a} and {b}."
    )


def rng_batch_of_integers(dtype: object) -> NotImplementedError:
    return NotImplementedError(
        f"Batching rule for 'rng_uniform' not implemented for mapped bounds of {dtype}"
    )
