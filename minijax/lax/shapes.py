"""Operations that change a shape and no value: broadcast, reshape, transpose and kin.

Each takes one operand (`iota` none) and moves its elements to other places. All are
linear: their tangent map is the operation itself, and their transposes are in this file
or in `declared`. Operations on several arrays are in `joining.py`, on parts of arrays
in `slicing.py`.

Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray, replicated
from minijax.core.errors import shapes as errors
from minijax.core.mesh import NamedSharding, get_abstract_mesh
from minijax.core.out_sharding import canonicalize_sharding, typed
from minijax.core.primitive import Primitive
from minijax.core.rules import linear, only_arrays, result_type
from minijax.core.trace import Tracer, is_evaluating, typeof
from minijax.lax.cases import Case
from minijax.lax.declared import convert_element_type_p, reduce_sum_p, reshard_p
from minijax.lax.reshape_sharding import reshaped_partitions
from minijax.lowering import dialect
from minijax.lowering.dialect import i64, i64_array, ir_type, op1, tensor

Shape = tuple[int, ...]
Partitions = Sequence[Any]

# ------------------------------------------------------------------ small helpers


def canonicalize_axis(axis: SupportsIndex, ndim: int) -> int:
    """An axis in `[-ndim, ndim)` as one in `[0, ndim)`.

    >>> canonicalize_axis(-1, 3)
    2
    """
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise errors.axis_out_of_bounds(i, ndim)
    return i + ndim if i < 0 else i


def canonicalize_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """One axis, several, or None for all, as a tuple of axes in `[0, ndim)`."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, Sequence):
        out = tuple(canonicalize_axis(a, ndim) for a in axes)
        if len(set(out)) != len(out):
            raise errors.repeated_axis(out)
        return out
    return (canonicalize_axis(axes, ndim),)


def canonicalize_shape(shape: Any) -> Shape:
    """A user's shape as a tuple of ints; one int stands for a shape of rank 1."""
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    try:
        return tuple(d if type(d) is int else operator.index(d) for d in shape)
    except TypeError:
        raise errors.bad_shape(shape) from None


def check_shapelike(op: str, what: str, given: Any) -> None:
    """Refuses what is no sequence of nonnegative integers."""
    if not isinstance(given, tuple | list | np.ndarray):
        raise errors.shapelike_type(op, what, given)
    if not all(hasattr(d, "__index__") for d in given):
        raise errors.shapelike_not_integers(op, what, given)
    if any(d < 0 for d in given):
        raise errors.shapelike_bound(op, what, "nonnegative", given)


def is_array(x: Any) -> bool:
    """Whether `x` is an array already, and not a Python or numpy value."""
    return isinstance(x, Tracer) or not isinstance(
        x, np.ndarray | np.generic | bool | int | float | complex
    )


def asarray(x: Any) -> Any:
    """Makes a Python or numpy value an array where values are computed.

    While tracing it stays what it is: the trace makes it a literal or a constant.
    """
    if is_array(x) or not is_evaluating():
        return x
    shape = typeof(x).shape
    return broadcast_in_dim_p.bind1(
        x, shape=shape, broadcast_dimensions=tuple(range(len(shape))), sharding=None
    )


def with_shape(
    name: str, aval: ShapedArray, shape: Shape, partitions: Callable[[], Partitions]
) -> ShapedArray:
    """The type of a result that has everything but the shape from one operand.

    `partitions` computes the new partitions from the operand's; it is asked only
    where the mesh has Explicit axes.
    """
    return result_type(
        name,
        [aval],
        shape,
        aval.dtype,
        aval.weak_type,
        partitions=partitions,
        sums=linear,
    )


def for_vmap(
    axis: Any, sharding: NamedSharding | None, dim: int = 0
) -> NamedSharding | None:
    """An `out_sharding` with the mapped dimension put in."""
    if sharding is None:
        return None
    spec = sharding.spec.padded(dim)
    auto = sharding.mesh.auto_axes  # of which a type does not tell
    names = axis.explicit or axis.spmd_name
    parts, mapped = spec.partitions, tuple(n for n in names if n not in auto)
    return sharding.update(spec=spec.update((*parts[:dim], mapped, *parts[dim:])))


# --------------------------------------------------------------- broadcast_in_dim


def broadcast_in_dim(
    operand: Any,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Any:
    """Broadcasts: dimension `i` becomes dimension `broadcast_dimensions[i]`.

    Dimensions of size 1 are repeated, as are those that the operand lacks. StableHLO
    `broadcast_in_dim`; TypeError where the sizes do not fit.
    """
    out_sharding = canonicalize_sharding(out_sharding, "broadcast_in_dim")
    aval = typeof(operand)
    is_typed = is_array(operand) or isinstance(operand, np.generic)
    same = aval.shape == tuple(shape) and out_sharding in (None, aval.sharding)
    in_place = list(broadcast_dimensions) == list(range(aval.ndim))
    if is_typed and same and in_place:
        return operand
    if aval.shape == tuple(shape) and in_place and not same:
        return reshard_p.bind1(operand, dst_sharding=out_sharding)
    return broadcast_in_dim_p.bind1(
        operand,
        shape=tuple(shape),
        broadcast_dimensions=tuple(broadcast_dimensions),
        sharding=out_sharding,
    )


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """Adds leading dimensions of these sizes."""
    if len(sizes) == 0 and out_sharding is None:
        return asarray(operand)
    shape = typeof(operand).shape
    dims = range(len(sizes), len(sizes) + len(shape))
    return broadcast_in_dim(operand, (*sizes, *shape), dims, out_sharding=out_sharding)


def broadcast_to(
    operand: Any, shape: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """Broadcasts as numpy does: leading dimensions are added, ones are repeated."""
    aval, shape = typeof(operand), tuple(shape)
    if aval.shape == shape and out_sharding in (None, aval.sharding):
        return asarray(operand)
    lead = len(shape) - len(aval.shape)
    if lead < 0:
        raise errors.broadcast_to_fewer_dims(aval.shape, shape)
    if any(d not in (1, s) for d, s in zip(aval.shape, shape[lead:], strict=True)):
        requested = ShapedArray(shape, aval.dtype)
        raise errors.incompatible_broadcast(aval, str(requested))
    if out_sharding is not None:
        _check_broadcast_sharding(aval, shape, out_sharding)
    dims = range(lead, len(shape))
    return broadcast_in_dim(operand, shape, dims, out_sharding=out_sharding)


def _check_broadcast_sharding(aval: ShapedArray, shape: Shape, to: Any) -> None:
    """A dimension that is sharded already stays so."""
    old = aval.sharding.spec.partitions
    new = to.spec.padded(len(shape)).partitions[len(shape) - aval.ndim :]
    if any(a is not None and a != b for a, b in zip(old, new, strict=True)):
        requested = ShapedArray(shape, aval.dtype, sharding=typed(to, shape))
        raise errors.incompatible_broadcast(aval, str(requested))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Adds leading dimensions of size 1 up to `rank`."""
    ndim = len(typeof(x).shape)
    return asarray(x) if ndim == rank else broadcast(x, (1,) * (rank - ndim))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Inserts dimensions of size 1 at these places of the result."""
    if len(set(dimensions)) != len(dimensions):
        raise errors.repeated_axis(dimensions, " in lax.expand_dims")
    shape = typeof(array).shape
    ndim = len(shape) + len(dimensions)
    new = [canonicalize_axis(i, ndim) for i in dimensions]
    if len(set(new)) != len(new):
        raise errors.repeated_axis(new, " in lax.expand_dims")
    sizes = iter(shape)
    out_shape = [1 if i in new else next(sizes) for i in range(ndim)]
    return broadcast_in_dim(array, out_shape, [i for i in range(ndim) if i not in new])


broadcast_in_dim_p = Primitive("broadcast_in_dim")


@broadcast_in_dim_p.def_abstract_eval
def _broadcast_type(
    operand: Any, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> list[ShapedArray]:
    only_arrays(broadcast_in_dim_p, [operand])
    _check_broadcast(operand.shape, shape, broadcast_dimensions)
    if sharding is not None:
        return [operand.update(shape=shape, sharding=typed(sharding, shape))]
    old = operand.sharding.spec.partitions

    def partitions() -> Partitions:
        at = dict(zip(broadcast_dimensions, old, strict=True))
        return [at.get(i) for i in range(len(shape))]

    return [with_shape("broadcast_in_dim", operand, shape, partitions)]


def _check_broadcast(operand: Shape, shape: Shape, dims: Shape) -> None:
    check_shapelike("broadcast_in_dim", "shape", shape)
    check_shapelike("broadcast_in_dim", "broadcast_dimensions", dims)
    ndim = len(operand)
    if ndim != len(dims):
        raise errors.broadcast_dims_length(dims, ndim)
    if len(shape) < ndim:
        raise errors.broadcast_rank(ndim, len(shape))
    if not set(dims) <= set(range(len(shape))):
        raise errors.broadcast_dims_subset(dims, ndim, shape)
    if any(n not in (1, shape[d]) for n, d in zip(operand, dims, strict=True)):
        raise errors.broadcast_sizes(operand, shape, dims)
    if len(dims) != len(set(dims)):
        raise errors.broadcast_dims_repeated(dims)


@broadcast_in_dim_p.def_lowering
def _broadcast_lowering(
    ctx: Any, x: Any, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> Any:
    (aval,) = ctx.avals_out
    if x.type != ir_type(aval):
        x = dialect.broadcast_in_dim(x, broadcast_dimensions, ir_type(aval))
    return [ctx.with_sharding(x, aval)]


def _broadcast_transpose(
    ct: Any, operand: Any, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> Any:
    spec = operand.aval.sharding.spec.partitions
    ones = [
        i
        for i, (n, s) in enumerate(zip(operand.aval.shape, spec, strict=True))
        if n == 1 and s is None
    ]
    kept = [d for i, d in enumerate(broadcast_dimensions) if i not in ones]
    axes = tuple(i for i in range(len(shape)) if i not in kept)
    return expand_dims(sum_over(ct, axes), ones)


def sum_over(x: Any, axes: tuple[int, ...]) -> Any:
    """Sums over axes: `reduce_sum`, or nothing where there are no axes."""
    return reduce_sum_p.bind1(x, axes=axes, out_sharding=None) if axes else x


broadcast_in_dim_p.def_linear(_broadcast_transpose)


@broadcast_in_dim_p.def_batch
def _broadcast_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    shape: Shape,
    broadcast_dimensions: Shape,
    sharding: Any,
) -> Any:
    operand = moveaxis(args[0], dims[0], 0)
    # numpy adds, as it does upstream, whose printed programs show its integers.
    shifted = np.add(broadcast_dimensions, 1)
    out = broadcast_in_dim_p.bind1(
        operand,
        shape=(axis.size, *shape),
        broadcast_dimensions=(0, *shifted.astype(np.int64)),
        sharding=for_vmap(axis, sharding),
    )
    return [out], [0]


@broadcast_in_dim_p.def_pretty
def _broadcast_pretty(eqn: Any) -> dict[str, Any]:
    """The shape shows in the type of the result, and no dimensions are no news."""
    dims = eqn.params["broadcast_dimensions"]
    return {"broadcast_dimensions": dims} if dims else {}


# ------------------------------------------------------------------------ reshape


def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The same elements, in row-major order, in another shape.

    With `dimensions` the operand is first transposed by that permutation. No size may
    be -1 (`reshape` of an array, or of `minijax.numpy`, infers it). ValueError where
    the sizes do not match, also under tracing (upstream finds that when it lowers).
    """
    aval, sizes = typeof(operand), canonicalize_shape(new_sizes)
    dims = None if dimensions is None else tuple(map(operator.index, dimensions))
    if dims == tuple(range(aval.ndim)):
        dims = None
    out_sharding = canonicalize_sharding(out_sharding, "reshape")
    same = out_sharding is None or out_sharding == aval.sharding
    if aval.shape and aval.shape == sizes and dims is None and same:
        if is_array(operand):
            return operand
    return reshape_p.bind1(
        operand, dimensions=dims, new_sizes=sizes, sharding=out_sharding
    )


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None):
    """Folds the dimensions `start_dimension:stop_dimension` into one."""
    shape = typeof(operand).shape
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    folded = int(np.prod(shape[lo:hi], dtype=np.int64))
    return reshape(operand, (*shape[:lo], folded, *shape[hi:]))


reshape_p = Primitive("reshape")


@reshape_p.def_abstract_eval
def _reshape_type(
    operand: Any, *, dimensions: Shape | None, new_sizes: Shape, sharding: Any
) -> list[ShapedArray]:
    only_arrays(reshape_p, [operand])
    if any(d < 0 for d in new_sizes):
        raise errors.reshape_negative(new_sizes)
    if dimensions is not None and set(dimensions) != set(range(operand.ndim)):
        raise errors.reshape_dimensions(dimensions, operand.shape)
    if int(np.prod(new_sizes, dtype=np.int64)) != operand.size:
        raise errors.reshape_size(operand.size, new_sizes)
    if sharding is not None:
        _check_reshape_sums(operand, sharding)
        return [operand.update(shape=new_sizes, sharding=typed(sharding, new_sizes))]
    return [
        with_shape(
            "reshape",
            operand,
            new_sizes,
            lambda: reshaped_partitions(operand, new_sizes, dimensions),
        )
    ]


def _check_reshape_sums(operand: ShapedArray, sharding: NamedSharding) -> None:
    """A reshape neither sums nor leaves sums to be done."""
    old, new = operand.sharding.spec, sharding.spec
    for kind in ("unreduced", "reduced"):
        has, wanted = getattr(old, kind), getattr(new, kind)
        if has and has != wanted:
            raise errors.reshape_sums_differ(kind, new, operand)
        if wanted and not has:
            raise errors.reshape_sums(kind, sharding)
    if old.unreduced and old.unreduced_kind is not new.unreduced_kind:
        raise errors.reshape_unreduced_kind(new, operand)


@reshape_p.def_lowering
def _reshape_lowering(
    ctx: Any, x: Any, *, dimensions: Shape | None, new_sizes: Shape, sharding: Any
) -> Any:
    if dimensions is not None:
        aval = ctx.avals_in[0]
        moved = tensor(tuple(aval.shape[d] for d in dimensions), aval.dtype)
        x = dialect.transpose(x, dimensions, moved)
    (aval,) = ctx.avals_out
    return [ctx.with_sharding(dialect.reshape(x, ir_type(aval)), aval)]


def _reshape_transpose(
    ct: Any,
    operand: Any,
    *,
    dimensions: Shape | None,
    new_sizes: Shape,
    sharding: Any,
) -> Any:
    aval = operand.aval
    shape, spec = aval.shape, aval.sharding.spec.partitions
    if dimensions is not None:
        shape = tuple(shape[d] for d in dimensions)
        spec = tuple(spec[d] for d in dimensions)
    explicit = aval.mesh.explicit_axes
    to = aval.to_cotangent().sharding
    to = to.update(spec=to.spec.update(partitions=spec)) if explicit else None
    out = reshape(ct, shape, out_sharding=to)
    return out if dimensions is None else transpose(out, _inverse(dimensions))


reshape_p.def_linear(_reshape_transpose)


@reshape_p.def_batch
def _reshape_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    dimensions: Shape | None,
    new_sizes: Shape,
    sharding: Any,
) -> Any:
    operand = moveaxis(args[0], dims[0], 0)
    if dimensions is not None:
        dimensions = (0, *(d + 1 for d in dimensions))
    sizes, to = (axis.size, *new_sizes), for_vmap(axis, sharding)
    return [reshape(operand, sizes, dimensions, out_sharding=to)], [0]


# ---------------------------------------------------------------------- transpose


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Permutes dimensions: dimension `i` of the result is `permutation[i]`."""
    order = tuple(operator.index(d) for d in permutation)
    if order == tuple(range(len(typeof(operand).shape))) and is_array(operand):
        return operand
    return transpose_p.bind1(operand, permutation=order)


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """Moves one dimension to another place; the others keep their order."""
    ndim = len(typeof(x).shape)
    source = canonicalize_axis(source, ndim)
    destination = canonicalize_axis(destination, ndim)
    if source == destination:
        return x
    order = [i for i in range(ndim) if i != source]
    order.insert(destination, source)
    return transpose(x, order)


def _inverse(permutation: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(tuple(permutation)))


transpose_p = Primitive("transpose")


@transpose_p.def_abstract_eval
def _transpose_type(operand: Any, *, permutation: Shape) -> list[ShapedArray]:
    only_arrays(transpose_p, [operand])
    if sorted(permutation) != list(range(operand.ndim)):
        raise errors.transpose_permutation(permutation, operand.shape)
    shape = tuple(operand.shape[i] for i in permutation)
    old = operand.sharding.spec.partitions
    return [
        with_shape("transpose", operand, shape, lambda: [old[i] for i in permutation])
    ]


@transpose_p.def_lowering
def _transpose_lowering(ctx: Any, x: Any, *, permutation: Shape) -> Any:
    (aval,) = ctx.avals_out
    out = dialect.transpose(x, permutation, ir_type(aval))
    return [ctx.with_sharding(out, aval)]


transpose_p.def_linear(lambda ct, _, permutation: transpose(ct, _inverse(permutation)))


@transpose_p.def_batch
def _transpose_batch(_: Any, args: Any, dims: Any, *, permutation: Shape) -> Any:
    (bdim,) = dims
    order = (bdim, *(i if i < bdim else i + 1 for i in permutation))
    return [transpose(args[0], order)], [0]


# ------------------------------------------------------------------------ squeeze


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Removes dimensions of size 1. ValueError for others."""
    ndim = len(typeof(array).shape)
    dims = tuple(sorted(canonicalize_axis(i, ndim) for i in dimensions))
    if not dims and is_array(array):
        return array
    return squeeze_p.bind1(array, dimensions=dims)


squeeze_p = Primitive("squeeze")


@squeeze_p.def_abstract_eval
def _squeeze_type(operand: Any, *, dimensions: Shape) -> list[ShapedArray]:
    only_arrays(squeeze_p, [operand])
    shape, gone = operand.shape, set(dimensions)
    if len(gone) != len(dimensions):
        raise errors.squeeze_repeated(dimensions)
    if not all(0 <= d < len(shape) for d in dimensions):
        raise errors.squeeze_range(dimensions)
    if any(shape[d] != 1 for d in dimensions):
        raise errors.squeeze_size(shape, dimensions)
    kept = [i for i in range(len(shape)) if i not in gone]
    old = operand.sharding.spec.partitions
    new_shape = tuple(shape[i] for i in kept)
    return [with_shape("squeeze", operand, new_shape, lambda: [old[i] for i in kept])]


@squeeze_p.def_lowering
def _squeeze_lowering(ctx: Any, x: Any, *, dimensions: Shape) -> Any:
    (aval,) = ctx.avals_out
    return [ctx.with_sharding(dialect.reshape(x, ir_type(aval)), aval)]


squeeze_p.def_linear(lambda ct, _, dimensions: expand_dims(ct, dimensions))


@squeeze_p.def_batch
def _squeeze_batch(_: Any, args: Any, dims: Any, *, dimensions: Shape) -> Any:
    operand = moveaxis(args[0], dims[0], 0)
    return [squeeze(operand, [d + 1 for d in dimensions])], [0]


# ---------------------------------------------------------------------------- rev


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverses the order of elements along these dimensions."""
    return rev_p.bind1(operand, dimensions=tuple(dimensions))


rev_p = Primitive("rev")


@rev_p.def_abstract_eval
def _rev_type(operand: Any, *, dimensions: Shape) -> list[ShapedArray]:
    only_arrays(rev_p, [operand])
    check_shapelike("rev", "dimensions", dimensions)
    if len(set(dimensions)) != len(dimensions):
        raise errors.rev_repeated(dimensions)
    if dimensions and max(dimensions) >= operand.ndim:
        raise errors.rev_range(dimensions, operand.ndim)
    return [with_shape("rev", operand, operand.shape, lambda: operand.sharding.spec)]


@rev_p.def_lowering
def _rev_lowering(ctx: Any, x: Any, *, dimensions: Shape) -> Any:
    attributes = {"dimensions": i64_array(dimensions)}
    (aval,) = ctx.avals_out
    out = op1("stablehlo.reverse", (x,), ir_type(aval), attributes)
    return [ctx.with_sharding(out, aval)]


rev_p.def_linear(lambda ct, _, dimensions: rev(ct, dimensions))


@rev_p.def_batch
def _rev_batch(_: Any, args: Any, dims: Any, *, dimensions: Shape) -> Any:
    (bdim,) = dims
    return [rev(args[0], [d + (d >= bdim) for d in dimensions])], [bdim]


# --------------------------------------------------------------------------- iota


def iota(dtype: Any, size: int) -> Any:
    """`[0, 1, ..., size - 1]` of a number dtype."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None
) -> Any:
    """An array of `shape` whose elements are their index along `dimension`."""
    return iota_p.bind1(
        dtype=dtypes.canonicalize_user_dtype(dtype, "iota"),
        shape=canonicalize_shape(shape),
        dimension=operator.index(dimension),
        sharding=canonicalize_sharding(out_sharding, "broadcasted_iota"),
    )


iota_p = Primitive("iota")


@iota_p.def_abstract_eval
def _iota_type(
    *, dtype: Any, shape: Shape, dimension: int, sharding: Any
) -> list[ShapedArray]:
    check_shapelike("iota", "shape", shape)
    if not dtypes.issubdtype(dtype, np.number):
        raise errors.iota_dtype(np.dtype(dtype).name)
    if not 0 <= dimension < len(shape):
        raise errors.iota_dimension(dimension, shape)
    if sharding is None:
        sharding = replicated(get_abstract_mesh(), len(shape))
    return [ShapedArray(shape, dtype, sharding=typed(sharding, shape))]


@iota_p.def_lowering
def _iota_lowering(
    ctx: Any, *, dtype: Any, shape: Shape, dimension: int, sharding: Any
) -> Any:
    attributes = {"iota_dimension": i64(dimension)}
    (aval,) = ctx.avals_out
    out = op1("stablehlo.iota", (), ir_type(aval), attributes)
    return [ctx.with_sharding(out, aval)]


iota_p.def_nondifferentiable("it has no operand")
iota_p.without(batch="it has no operand")

# --------------------------------------------------------------------------- full


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None):
    """An array of `shape` that holds one scalar, cast to `dtype` if that is given."""
    shape, aval = canonicalize_shape(shape), typeof(fill_value)
    if aval.shape:
        raise errors.full_not_scalar(aval.shape)
    if dtype is None:
        value = scalar_of(fill_value, aval.dtype, aval.weak_type)
    else:
        value = scalar_of(fill_value, dtypes.canonicalize_user_dtype(dtype, "full"))
    return broadcast(value, shape, out_sharding=sharding)


def scalar_of(value: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Any:
    """A scalar as one of exactly this dtype; an equation only if it is an array."""
    aval = typeof(value)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return value
    if is_array(value) or weak_type:
        return convert_element_type_p.bind1(
            value, new_dtype=dtype, weak_type=weak_type, sharding=None
        )
    return np.asarray(value).astype(dtype)[()]


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Any:
    """An array of the shape, dtype and Explicit sharding of `x`; see `zeros` too.

    The result does not vary over Manual axes, even if `x` does.
    """
    aval = typeof(x)
    weak = dtype is None and aval.weak_type
    to = aval.dtype if dtype is None else dtypes.canonicalize_dtype(np.dtype(dtype))
    value = scalar_of(fill_value, to, weak)
    if shape is None and sharding is None and aval.sharding.spec.axes:
        sharding = aval.sharding
    return full(aval.shape if shape is None else shape, value, sharding=sharding)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape, dtype and Explicit sharding of `x`."""
    return full_like(x, 0)


_BROADCAST = {"shape": (4, 3, 2), "broadcast_dimensions": (1, 2), "sharding": None}
_RESHAPE = {"new_sizes": (2, 3), "dimensions": None, "sharding": None}
CASES = [
    Case(broadcast_in_dim_p, [(3, 2)], _BROADCAST),
    Case(broadcast_in_dim_p, [(3, 1)], _BROADCAST),
    Case(broadcast_in_dim_p, [()], _BROADCAST | {"broadcast_dimensions": ()}),
    Case(reshape_p, [(3, 2)], _RESHAPE),
    Case(reshape_p, [(3, 2)], _RESHAPE | {"dimensions": (1, 0)}),
    Case(transpose_p, [(3, 2, 4)], {"permutation": (2, 0, 1)}),
    Case(squeeze_p, [(3, 1, 2, 1)], {"dimensions": (1, 3)}),
    Case(rev_p, [(3, 2)], {"dimensions": (0,)}),
    Case(
        iota_p,
        [],
        {
            "dtype": np.dtype(np.int32),
            "shape": (3, 2),
            "dimension": 0,
            "sharding": None,
        },
        batches=False,
    ),
]
