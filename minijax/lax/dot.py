"""dot_general: products of arrays, summed over shared dimensions.

    dot_general(x: f32[b,i,k], y: f32[b,k,j], (((2,), (1,)), ((0,), (0,)))): f32[b,i,j]

Each operand's dimensions are *batch* (in both operands and the result), *contracting*
(in both operands, summed over), or free. The result has the batch dimensions, then the
free ones of the left operand, then those of the right.

Over Explicit axes: a contraction of two dimensions sharded alike needs `out_sharding`,
which either names no axis (the sum over devices is done) or says that the result is
unreduced over just those axes (it is left to do). The latter is how the gradient of a
weight that is *reduced* over an axis becomes unreduced over it.

StableHLO: `dot_general`. Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import NO_NAMES, Names, Shape, ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import Zero, is_undefined
from minijax.core.mesh import NamedSharding
from minijax.core.out_sharding import canonicalize_sharding, typed
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.cases import Case
from minijax.lax.convert import convert
from minijax.lax.rules import cast_together, derivatives, real_dtype, remembered
from minijax.lax.shapes import transpose
from minijax.lowering import dialect

#: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`
DimensionNumbers = tuple[tuple[Shape, Shape], tuple[Shape, Shape]]


class Precision(Enum):
    """How exactly the hardware computes products: faster, or closer to float32."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISIONS = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "high": Precision.HIGH,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "default": Precision.DEFAULT,
}


def canonicalize_precision(precision: Any) -> tuple[Precision, Precision] | None:
    """A precision for each operand, from one for both, or names of them.

    >>> canonicalize_precision("highest")
    (Precision.HIGHEST, Precision.HIGHEST)
    """
    if precision is None:
        return None
    pair = precision if isinstance(precision, tuple | list) else (precision,) * 2
    found = [p if isinstance(p, Precision) else _PRECISIONS.get(p) for p in pair]
    if len(found) != 2 or None in found:
        raise errors.dot_precision(precision)
    return found[0], found[1]  # type: ignore[return-value]


# ----------------------------------------------------------------- public functions


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The general product of two arrays.

    Args:
      dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.
      precision: a `Precision`, its name, or a pair of these for the operands.
      preferred_element_type: the dtype of the result, if not that of the operands.
      out_sharding: over Explicit axes, how the result is laid out.

    TypeError where dimensions or dtypes do not fit; ShardingTypeError where shardings
    do not, or leave open how the result is laid out.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    preferred = preferred_element_type
    if preferred is not None:
        preferred = dtypes.canonicalize_user_dtype(preferred, "dot")
    lhs, rhs = cast_together(lhs, rhs)
    return dot_general_p.bind1(
        lhs,
        rhs,
        dimension_numbers=(
            (_ints(lhs_contract), _ints(rhs_contract)),
            (_ints(lhs_batch), _ints(rhs_batch)),
        ),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred,
        out_sharding=canonicalize_sharding(out_sharding, "dot_general"),
    )


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The same; without dimension numbers, of vectors and matrices as in `x @ y`."""
    if dimension_numbers is None:
        a, b = typeof(lhs).shape, typeof(rhs).shape
        if not (1 <= len(a) <= 2 and 1 <= len(b) <= 2 and a[-1] == b[0]):
            raise errors.dot_needs_numbers(a, b)
        dimension_numbers = (((len(a) - 1,), (0,)), ((), ()))
    return dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Products of the matrices in the last two dimensions; the others are batches."""
    a, b = len(typeof(lhs).shape), len(typeof(rhs).shape)
    if min(a, b) < 2:
        raise errors.matmul_rank(a, b)
    if a != b:
        raise errors.matmul_ranks(a, b)
    batch = tuple(range(a - 2))
    return dot_general(lhs, rhs, (((a - 1,), (b - 2,)), (batch, batch)), precision)


def _ints(dims: Iterable[int]) -> Shape:
    return tuple(int(d) for d in dims)


# ------------------------------------------------------------------------- its type

dot_general_p = Primitive("dot_general")


@dot_general_p.def_abstract_eval
@remembered
def _dot_type(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: DimensionNumbers,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: NamedSharding | None,
) -> list[ShapedArray]:
    rules.only_arrays(dot_general_p, (lhs, rhs))
    _check_dims(lhs.shape, rhs.shape, dimension_numbers)
    out = rules.result_type(
        "dot_general",
        (lhs, rhs),
        _joined(lhs.shape, rhs.shape, dimension_numbers),
        _dot_dtype(lhs.dtype, rhs.dtype, preferred_element_type),
        lhs.weak_type and rhs.weak_type,
        partitions=lambda: _dot_partitions(lhs, rhs, dimension_numbers, out_sharding),
        sums=_dot_sums,
    )
    if out_sharding is None:
        return [out]
    if out_sharding.spec.unreduced:
        _check_unreduced(lhs, rhs, dimension_numbers, out_sharding)
    to = typed(out_sharding, out.shape)
    return [out.update(sharding=to.update(spec=to.spec.update(reduced=NO_NAMES)))]


def _joined(lhs: Sequence[Any], rhs: Sequence[Any], dims: DimensionNumbers) -> Any:
    """One item per dimension of the result, from those of the operands."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    batch = [lhs[i] for i in lhs_batch]
    left = [lhs[i] for i in free(len(lhs), lhs_contract, lhs_batch)]
    right = [rhs[i] for i in free(len(rhs), rhs_contract, rhs_batch)]
    return (*batch, *left, *right)


def free(ndim: int, contracting: Shape, batch: Shape) -> list[int]:
    """The dimensions of an operand that are neither contracting nor batch."""
    return [i for i in range(ndim) if i not in contracting and i not in batch]


def _check_dims(lhs: Shape, rhs: Shape, dims: DimensionNumbers) -> None:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    for side, shape, contract, batch in (
        ("lhs", lhs, lhs_contract, lhs_batch),
        ("rhs", rhs, rhs_contract, rhs_batch),
    ):
        if not all(0 <= d < len(shape) for d in (*contract, *batch)):
            raise errors.dot_range(side, batch, contract, len(shape))
    if len(lhs_batch) != len(rhs_batch):
        raise errors.dot_batch_lengths(lhs_batch, rhs_batch)
    _check_distinct(dims)
    batches = [lhs[i] for i in lhs_batch], [rhs[i] for i in rhs_batch]
    if batches[0] != batches[1]:
        raise errors.dot_batch_shapes(*map(tuple, batches))
    summed = [lhs[i] for i in lhs_contract], [rhs[i] for i in rhs_contract]
    if summed[0] != summed[1]:
        raise errors.dot_contracting_shapes(*map(tuple, summed))


def _check_distinct(dims: DimensionNumbers) -> None:
    contracts, batches = dims
    sides = ("lhs", "rhs")
    for kind, named in (("batch", batches), ("contracting", contracts)):
        for side, axes in zip(sides, named, strict=True):
            if len(set(axes)) != len(axes):
                raise errors.dot_repeated(side, kind, axes)
    for side, contract, batch in zip(sides, contracts, batches, strict=True):
        if set(contract) & set(batch):
            raise errors.dot_overlap(side, batch, contract)


def _dot_dtype(lhs: Any, rhs: Any, preferred: Any) -> Any:
    """The wider of two dtypes, or the one asked for."""
    left, right = _width(lhs), _width(rhs)
    if left == right and lhs != rhs:
        raise errors.dot_dtypes(lhs, rhs)
    result = lhs if left >= right else rhs
    if preferred is None or preferred == result:
        return result
    floating = dtypes.issubdtype(result, np.floating)
    if not floating and _bits(preferred) < _bits(result):
        raise errors.dot_narrower(preferred, result)
    return preferred


def _width(dtype: Any) -> tuple[bool, int, int, int, bool]:
    """Orders dtypes: complex above real, then by range, precision, size and sign."""
    is_complex = dtypes.issubdtype(dtype, np.complexfloating)
    part = real_dtype(dtype) if is_complex else dtype
    signed = not dtypes.issubdtype(part, np.unsignedinteger)
    if not dtypes.issubdtype(part, np.floating):
        return (is_complex, -1, -1, _bits(part), signed)
    info = dtypes.finfo(part)
    return (is_complex, int(info.maxexp), int(info.nmant), _bits(part), signed)


def _bits(dtype: Any) -> int:
    if dtypes.issubdtype(dtype, np.bool_):
        return 1
    if dtypes.issubdtype(dtype, np.integer):
        return dtypes.iinfo(dtype).bits
    return np.dtype(dtype).itemsize * 8


def _dot_partitions(
    lhs: ShapedArray, rhs: ShapedArray, dims: DimensionNumbers, out: Any
) -> Any:
    """How each dimension of the result is sharded, if that is clear."""
    left, right = (a.sharding.spec.padded(a.ndim).partitions for a in (lhs, rhs))
    if out is not None:
        return [None] * len(_joined(left, right, dims))  # `out_sharding` will say
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    batch = tuple(left[i] for i in lhs_batch), tuple(right[i] for i in rhs_batch)
    if batch[0] != batch[1]:
        raise errors.dot_batch_specs(*batch)
    summed = (
        tuple(left[i] for i in lhs_contract),
        tuple(right[i] for i in rhs_contract),
    )
    if any(a is not None and b is not None for a, b in zip(*summed, strict=True)):
        raise errors.dot_contracting_specs(*summed)
    return _joined(left, right, dims)


def _dot_sums(_: str, avals: Sequence[ShapedArray]) -> tuple[Names, Names]:
    if any(rules.unreduced_of(a) for a in avals):
        raise errors.dot_unreduced(*avals)
    return NO_NAMES, NO_NAMES


def _check_unreduced(
    lhs: ShapedArray, rhs: ShapedArray, dims: DimensionNumbers, out: NamedSharding
) -> None:
    """The result may be unreduced over the axes of the contracting dimensions only."""
    contract, _ = dims
    specs = [
        tuple(a.sharding.spec.padded(a.ndim).partitions[i] for i in named)
        for a, named in zip((lhs, rhs), contract, strict=True)
    ]
    if specs[0] != specs[1]:
        raise errors.dot_out_unreduced_specs(*specs)
    summed = {n for i in contract[0] for n in lhs.sharding.spec.axes_of(i)}
    if out.spec.unreduced != summed:
        raise errors.dot_out_unreduced(out.spec.unreduced, specs[0])


# ------------------------------------------------ lowering, printing, derivatives


@dot_general_p.def_lowering
def _dot_lowering(
    ctx: Any, lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any, **_: Any
) -> list[Any]:
    (left, right), (out,) = ctx.avals_in, ctx.avals_out
    if left.dtype != right.dtype:
        lhs = dialect.convert(lhs, left, left.update(dtype=out.dtype))
        rhs = dialect.convert(rhs, right, right.update(dtype=out.dtype))
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    named = {
        "lhs_batching_dimensions": lhs_batch,
        "rhs_batching_dimensions": rhs_batch,
        "lhs_contracting_dimensions": lhs_contract,
        "rhs_contracting_dimensions": rhs_contract,
    }
    numbers = ", ".join(f"{k} = {list(map(int, v))}" for k, v in named.items() if v)
    levels = precision or (Precision.DEFAULT, Precision.DEFAULT)
    config = ", ".join(f"#stablehlo<precision {p}>" for p in levels)
    attributes = {
        "dot_dimension_numbers": dialect.attr(f"#stablehlo.dot<{numbers}>"),
        "precision_config": dialect.attr(f"[{config}]"),
    }
    type_ = dialect.ir_type(out)
    product = dialect.op1("stablehlo.dot_general", (lhs, rhs), type_, attributes)
    return [ctx.with_sharding(product, out)]


@dot_general_p.def_pretty
def _dot_pretty(eqn: Any) -> dict[str, Any]:
    shown = {k: v for k, v in eqn.params.items() if v is not None}
    contract, batch = eqn.params["dimension_numbers"]
    shown["dimension_numbers"] = tuple(
        tuple(list(dims) for dims in pair) for pair in (contract, batch)
    )
    shown.pop("out_sharding", None)  # the type of the result shows it
    return shown


@dot_general_p.def_transpose
def _dot_transpose(
    cts: Any, lhs: Any, rhs: Any, *, dimension_numbers: DimensionNumbers, **params: Any
) -> list[Any]:
    (ct,) = cts
    if type(ct) is Zero:
        return [None, None]
    if is_undefined(lhs):
        return [_cotangent(ct, lhs.aval, rhs, dimension_numbers, **params), None]
    contract, batch = (pair[::-1] for pair in dimension_numbers)
    swapped = (contract, batch)
    return [None, _cotangent(ct, rhs.aval, lhs, swapped, swap=True, **params)]


def _cotangent(
    ct: Any,
    x: ShapedArray,
    y: Any,
    dims: Any,
    *,
    swap: bool = False,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    """The cotangent of the operand of type `x`: the product of `ct` with the other.

    `ct` has batch dimensions, then those free in x, then in y (in y, then x if `swap`).
    """
    del out_sharding  # of the result, hence of `ct`
    (x_contract, y_contract), (x_batch, y_batch) = dims
    x_free = free(x.ndim, x_contract, x_batch)
    y_free = free(len(typeof(y).shape), y_contract, y_batch)
    batch = len(x_batch)
    start = batch + (0 if swap else len(x_free))
    ct_dims = tuple(range(start, start + len(y_free)))
    numbers = ((ct_dims, tuple(y_free)), (tuple(range(batch)), y_batch))
    by_y = [x_contract[i] for i in np.argsort(y_contract, kind="stable")]
    order = [*x_batch, *x_free, *by_y]
    product = dot_general(
        ct,
        y,
        numbers,
        precision,
        preferred_element_type,
        out_sharding=_permuted(x.to_cotangent(), order),
    )
    out = transpose(product, [int(i) for i in np.argsort(order)])
    return convert(out, x.dtype, x.weak_type) if typeof(out).dtype != x.dtype else out


def _permuted(x: ShapedArray, order: Sequence[int]) -> NamedSharding | None:
    """The sharding of a value with its dimensions in another order."""
    if not x.mesh.explicit_axes:
        return None
    spec = x.sharding.spec.padded(x.ndim)
    return x.sharding.update(spec=spec.update([spec.partitions[i] for i in order]))


def _product(x: Any, y: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    return dot_general_p.bind1(x, y, dimension_numbers=dimension_numbers, **params)


derivatives(
    dot_general_p,
    lambda g, x, y, **params: _product(g, y, **params),
    lambda g, x, y, **params: _product(x, g, **params),
)

# -------------------------------------------------------------------------- batching


@dot_general_p.def_batch
def _dot_batch(
    _: Any, args: Any, dims: Any, *, dimension_numbers: DimensionNumbers, **params: Any
) -> Any:
    ndims = [len(typeof(x).shape) for x in args]
    numbers, at = _batched_dims(ndims, dims, dimension_numbers)
    out_sharding = params["out_sharding"]
    if out_sharding is not None:
        which = 0 if dims[0] is not None else 1
        mapped = typeof(args[which]).sharding.spec.partitions[dims[which]]
        parts = out_sharding.spec.partitions
        spec = out_sharding.spec.update((*parts[:at], mapped, *parts[at:]))
        params["out_sharding"] = out_sharding.update(spec=spec)
    lhs, rhs = args
    return [dot_general(lhs, rhs, numbers, **params)], [at]


def _batched_dims(
    ndims: Sequence[int], mapped: Sequence[int | None], dims: DimensionNumbers
) -> tuple[DimensionNumbers, int]:
    """Dimension numbers with a mapped dimension, and its place in the result.

    Mapped in both operands, it is one more batch dimension; in one, a free one.
    """
    contract, batch = (
        tuple(_moved(d, m) for d, m in zip(pair, mapped, strict=True)) for pair in dims
    )
    left, right = mapped
    if left is not None and right is not None:
        return (contract, ((left, *batch[0]), (right, *batch[1]))), 0  # type: ignore
    which = 0 if left is not None else 1
    own = free(ndims[which], contract[which], batch[which])
    at = own.index(mapped[which])  # type: ignore[arg-type]
    before = len(batch[0]) if which == 0 else ndims[0] - len(contract[0])
    return (contract, batch), before + at  # type: ignore[return-value]


def _moved(dims: Shape, mapped: int | None) -> Shape:
    return dims if mapped is None else tuple(d + (d >= mapped) for d in dims)


def _case(lhs: Shape, rhs: Shape, dims: Any, **options: Any) -> Case:
    params = {
        "dimension_numbers": dims,
        "precision": None,
        "preferred_element_type": options.pop("preferred", None),
        "out_sharding": None,
    }
    return Case(dot_general_p, [lhs, rhs], params, **options)


CASES = [
    _case((2, 3), (3, 4), (((1,), (0,)), ((), ()))),
    _case((3,), (3,), (((0,), (0,)), ((), ()))),
    _case((2,), (3,), (((), ()), ((), ()))),
    _case((2, 3, 4), (5, 2, 4), (((2,), (2,)), ((0,), (1,)))),
    _case((2, 3, 4), (4, 2, 3), (((1, 2), (2, 0)), ((0,), (1,)))),
    _case((2, 3), (3, 4), (((1,), (0,)), ((), ())), dtypes=np.int32),
    _case(
        (2, 3),
        (3, 4),
        (((1,), (0,)), ((), ())),
        dtypes=np.float16,
        preferred=np.dtype(np.float32),
        smooth=(),
    ),
]
