"""StableHLO as functions: the MLIR context, types, attributes, and operations.

This is all that a primitive's page needs to lower itself. Everything runs inside
`with building():`, which `lower_to_module` has entered. A rule returns a list of
values, and so does `op`; `op1` returns the only result:

    @sin_p.def_lowering
    def _(ctx, x):
        return op("stablehlo.sine", [x], [x.type])

    @iota_p.def_lowering
    def _(ctx, *, dimension):
        dim = {"iota_dimension": i64(dimension)}
        return op("stablehlo.iota", [], [ir_type(ctx.avals_out[0])], dim)

* types: `ir_type(aval)`, `tensor(shape, dtype)`, `token_type()`; `x.type` of a value.
* attributes: `i64(3)`, `i64_array((0, 1))`, `bools((True,))`, `string("x")`,
  `dense_i64(rows)`; any other in MLIR's own syntax: `attr("#stablehlo<precision
  DEFAULT>")`. All are remembered, so asking again costs a dictionary lookup.
* regions: `op(..., regions=[Region(types, body)])`, where `body(*values)` builds the
  region's operations and returns its results; `combiner("stablehlo.add", dtype)` is
  the region of reductions.
* constants: `constant(2.0, dtype)`, `full(aval, 0)`.

Operations are built by name: the builders that jaxlib generates take twice the time,
and their signatures differ between versions. The verifier checks the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _stablehlo
from jaxlib.mlir.dialects import sdy

from minijax.core import dtypes
from minijax.core.avals import AbstractValue, ShapedArray

__all__ = [
    "Region",
    "attr",
    "bools",
    "broadcast_in_dim",
    "building",
    "combiner",
    "compare",
    "constant",
    "context",
    "convert",
    "dense_i64",
    "element_type",
    "fill_region",
    "full",
    "i32",
    "i64",
    "i64_array",
    "ir_type",
    "op",
    "op1",
    "reduce_op",
    "reshape",
    "string",
    "tensor",
    "token_type",
    "transpose",
]

# ------------------------------------------------------------------- the context


class _Context(ir.Context):
    """jaxlib's `ir.Context` fills itself with other dialects: its base does not."""

    def __init__(self) -> None:
        super(ir.Context, self).__init__()


@lru_cache(maxsize=1)
def context() -> ir.Context:
    """The one MLIR context of the process, made when first asked for (5 ms).

    One is enough, since a context is safe for threads; types and attributes live as
    long as it does, which is what lets them be remembered.
    """
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = _Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    # Two of the extension modules themselves: the Python ones over them are long.
    for dialect in (sdy, _chlo, _stablehlo):
        dialect.register_dialect(made)
    return made


@contextmanager
def building() -> Iterator[None]:
    """A `with` block in which types, attributes and operations can be made."""
    with context(), ir.Location.unknown():
        yield


# ------------------------------------------------------------------------- types

_ELEMENTS = {
    "bool": "i1",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    **{f"int{n}": f"i{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
}


@cache
def element_type(dtype: np.dtype[Any]) -> ir.Type:
    """The MLIR type of a dtype's elements; `float0` stands as booleans."""
    if dtype == dtypes.float0:
        return ir.Type.parse("i1")
    # The small floats are named alike: float8_e4m3fn is f8E4M3FN.
    small = dtype.name.replace("float", "f").replace("_", "").upper()
    return ir.Type.parse(_ELEMENTS.get(dtype.name) or small.replace("F", "f", 1))


_tensors: dict[tuple[tuple[int, ...], np.dtype[Any]], ir.Type] = {}


def tensor(shape: tuple[int, ...], dtype: Any) -> ir.Type:
    """The type of tensors of a shape and dtype.

    >>> with building():
    ...     print(tensor((4, 2), np.float32), tensor((), bool))
    tensor<4x2xf32> tensor<i1>
    """
    found = _tensors.get((shape, dtype))
    if found is None:
        element = element_type(np.dtype(dtype))
        found = _tensors[shape, dtype] = ir.RankedTensorType.get(shape, element)
    return found


@lru_cache(maxsize=1)
def token_type() -> ir.Type:
    """The type of tokens."""
    return ir.Type.parse("!stablehlo.token")


def ir_type(aval: AbstractValue) -> ir.Type:
    """The MLIR type of an abstract value: a ranked tensor or a token.

    >>> with building():
    ...     print(ir_type(ShapedArray((4,), np.int32)))
    tensor<4xi32>
    """
    if isinstance(aval, ShapedArray):
        return tensor(aval.shape, aval.dtype)
    return token_type()


# -------------------------------------------------------------------- attributes


@lru_cache(maxsize=4096)
def attr(text: str) -> ir.Attribute:
    """An attribute written in MLIR's syntax.

    >>> with building():
    ...     print(attr("#stablehlo<comparison_direction GT>"))
    #stablehlo<comparison_direction GT>
    """
    return ir.Attribute.parse(text)


def i64(value: int) -> ir.Attribute:
    """An integer attribute of 64 bits."""
    return attr(f"{value} : i64")


def i32(value: int) -> ir.Attribute:
    """An integer attribute of 32 bits."""
    return attr(f"{value} : i32")


def i64_array(values: Sequence[int]) -> ir.Attribute:
    """The attribute of dimension numbers and the like, `array<i64: 0, 1>`."""
    return _i64_array(tuple(values))


@lru_cache(maxsize=4096)
def _i64_array(values: tuple[int, ...]) -> ir.Attribute:
    # By way of int, as numpy's integers do not print as numbers do.
    return ir.DenseI64ArrayAttr.get([int(v) for v in values])


def bools(values: Sequence[bool]) -> ir.Attribute:
    """An array of booleans, `array<i1: true, false>`."""
    return ir.DenseBoolArrayAttr.get([bool(v) for v in values])


def string(value: str) -> ir.Attribute:
    """A string attribute."""
    return ir.StringAttr.get(value)


def dense_i64(rows: Any) -> ir.Attribute:
    """A dense tensor of 64-bit integers, as replica groups and padding are.

    >>> with building():
    ...     print(dense_i64([[0, 1], [2, 3]]))
    dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
    """
    return ir.DenseIntElementsAttr.get(np.ascontiguousarray(rows, dtype=np.int64))


# -------------------------------------------------------------------- operations

_create: Any = ir.Operation.create
_NO_REGIONS: Sequence[Any] = ()


class Region(NamedTuple):
    """A region to build: its arguments' types, and how its results come of them."""

    types: Sequence[ir.Type]
    body: Callable[..., Sequence[ir.Value]]
    terminator: str = "stablehlo.return"


def op(
    name: str,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    attributes: Mapping[str, ir.Attribute] | None = None,
    regions: Sequence[Region] = _NO_REGIONS,
) -> list[ir.Value]:
    """Appends an operation to the current block; returns its results.

    Args:
      name: with its dialect, `stablehlo.add`.
      types: of the results.
    """
    made = _create(name, types, operands, attributes, regions=len(regions))
    for region, into in zip(regions, made.regions, strict=True) if regions else ():
        fill_region(into, region)
    return list(made.results)


def op1(
    name: str,
    operands: Sequence[ir.Value],
    type: ir.Type,
    attributes: Mapping[str, ir.Attribute] | None = None,
    regions: Sequence[Region] = _NO_REGIONS,
) -> ir.Value:
    """The same for an operation with one result."""
    if not regions:  # hot
        return _create(name, (type,), operands, attributes).result
    return op(name, operands, (type,), attributes, regions)[0]


def fill_region(into: ir.Region, region: Region) -> None:
    """Builds the only block of a region."""
    places = [ir.Location.unknown()] * len(region.types)
    block = into.blocks.append(*region.types, arg_locs=places)
    with ir.InsertionPoint(block):
        results = region.body(*block.arguments)
        _create(region.terminator, (), results)


def combiner(
    name: str,
    dtype: Any,
    finish: Callable[[ir.Value], ir.Value] = lambda value: value,
) -> Region:
    """The region of a reduction: one binary operation on two scalars.

    `finish` is applied to the result.
    """
    scalar = tensor((), dtype)
    return Region((scalar, scalar), lambda x, y: [finish(op1(name, (x, y), scalar))])


# ------------------------------------------------- operations that pages share


def constant(value: Any, dtype: Any = None) -> ir.Value:
    """A constant of a Python or numpy value.

    Args:
      value: a scalar or an array.
      dtype: of the constant; by default that of `value`.
    """
    array = np.asarray(value, dtype)
    if array.dtype == dtypes.float0:
        array = np.zeros(array.shape, _BOOL)
    if array.ndim == 0:
        data = _scalar_attr(array.tobytes(), array.dtype)
    else:
        data = _dense(array)
    return op1(
        "stablehlo.constant", (), tensor(array.shape, array.dtype), {"value": data}
    )


@lru_cache(maxsize=4096)
def _scalar_attr(raw: bytes, dtype: np.dtype[Any]) -> ir.Attribute:
    # Keyed by bytes: 0.0 and -0.0 are equal, and a NaN is not even that to itself.
    return _dense(np.frombuffer(raw, dtype).reshape(()))


def _dense(array: np.ndarray[Any, Any]) -> ir.Attribute:
    if array.dtype == dtypes.float0:
        array = np.zeros(array.shape, np.bool_)
    # MLIR itself sees where all elements are equal, and then keeps only one.
    element = element_type(array.dtype)
    data = np.ascontiguousarray(array)
    return ir.DenseElementsAttr.get(data, type=element, shape=array.shape)


def full(aval: ShapedArray, value: Any) -> ir.Value:
    """A value of a type, all of whose elements are the same."""
    scalar = constant(value, aval.dtype)
    return broadcast_in_dim(scalar, (), ir_type(aval)) if aval.shape else scalar


def broadcast_in_dim(x: ir.Value, dims: Sequence[int], type: ir.Type) -> ir.Value:
    """Broadcasts: dimension `i` of `x` becomes dimension `dims[i]` of the result."""
    attributes = {"broadcast_dimensions": i64_array(dims)}
    return op1("stablehlo.broadcast_in_dim", (x,), type, attributes)


def reshape(x: ir.Value, type: ir.Type) -> ir.Value:
    """The same elements in row-major order; nothing if the type is the same."""
    return x if x.type == type else op1("stablehlo.reshape", (x,), type)


def transpose(x: ir.Value, permutation: Sequence[int], type: ir.Type) -> ir.Value:
    """Dimension `i` of the result is dimension `permutation[i]` of `x`."""
    attributes = {"permutation": i64_array(permutation)}
    return op1("stablehlo.transpose", (x,), type, attributes)


def compare(direction: str, x: ir.Value, y: ir.Value, aval: ShapedArray) -> ir.Value:
    """Compares elements: `EQ`, `NE`, `LT`, `LE`, `GT` or `GE`.

    `aval` is the type of the operands.
    """
    return op1(
        "stablehlo.compare",
        (x, y),
        tensor(aval.shape, _BOOL),
        {
            "comparison_direction": attr(
                f"#stablehlo<comparison_direction {direction}>"
            ),
            "compare_type": attr(
                f"#stablehlo<comparison_type {_comparison_type(aval.dtype)}>"
            ),
        },
    )


_BOOL = np.dtype(bool)


def _comparison_type(dtype: np.dtype[Any]) -> str:
    if dtype == _BOOL or dtypes.issubdtype(dtype, np.unsignedinteger):
        return "UNSIGNED"
    return "SIGNED" if dtypes.issubdtype(dtype, np.integer) else "FLOAT"


def convert(x: ir.Value, source: ShapedArray, target: ShapedArray) -> ir.Value:
    """Converts elements, as `convert_element_type` means it.

    Complex to real drops the imaginary part; to bool asks whether it is not zero.
    """
    complex_in = dtypes.issubdtype(source.dtype, np.complexfloating)
    if complex_in and not dtypes.issubdtype(target.dtype, np.complexfloating):
        source = source.update(dtype=np.finfo(source.dtype).dtype)
        x = op1("stablehlo.real", (x,), ir_type(source))
    if target.dtype == _BOOL:
        # And then a conversion from bool to bool, which upstream emits too.
        x = compare("NE", x, full(source, 0), source)
    return op1("stablehlo.convert", (x,), ir_type(target))


def reduce_op(
    name: str,
    x: ir.Value,
    init: ir.Value,
    dims: Sequence[int],
    aval: ShapedArray,
) -> ir.Value:
    """Reduces over dimensions by a binary operation that `init` is the unit of.

    `aval` is the type of the result.
    """
    return op1(
        "stablehlo.reduce",
        (x, init),
        ir_type(aval),
        {"dimensions": i64_array(dims)},
        [combiner(name, aval.dtype)],
    )
