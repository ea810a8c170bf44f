"""Changes of dtype: convert_element_type, bitcast_convert_type, reduce_precision.

`convert_element_type` keeps the numbers, as far as the new dtype can; it is linear, so
that gradients pass through it. `bitcast_convert_type` keeps the bits.
`reduce_precision` rounds to what a smaller float could hold, and keeps the dtype.

StableHLO: `convert`, `bitcast_convert`, `reduce_precision`.
Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import zero_tangent
from minijax.core.out_sharding import typed
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.cases import Case, unary
from minijax.lax.declared import convert_element_type_p, reshard_p
from minijax.lax.rules import (
    BOOL,
    COMPLEX,
    FLOAT,
    elementwise,
    emit,
    move_batch,
    remembered,
    transpose_unary,
)
from minijax.lax.shapes import asarray, for_vmap, is_array
from minijax.lowering import dialect

# ------------------------------------------------------------- convert_element_type


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """Converts elements to a dtype; of complex to real, the imaginary part is lost.

    An array that already has the dtype is returned as it is.
    """
    dtype = dtypes.canonicalize_user_dtype(new_dtype, "convert_element_type")
    return convert(operand, dtype)


def convert(x: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Any:
    """The same for a dtype that is canonical, and for weak results.

    Python and numpy scalars are converted here and now: they become literals.
    """
    aval = typeof(x)
    complex_in = dtypes.issubdtype(aval.dtype, np.complexfloating)
    if complex_in and not dtypes.issubdtype(dtype, np.complexfloating):
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=2,
        )
    same = aval.dtype == dtype and aval.weak_type == weak_type
    if is_array(x):
        return x if same else _bind(x, dtype, weak_type)
    if same:
        return asarray(x)
    if weak_type or (dtype.kind in "iu" and not np.all(np.isfinite(x))):
        return _bind(x, dtype, weak_type)
    return asarray(np.asarray(x).astype(dtype)[()])


def _bind(x: Any, dtype: np.dtype[Any], weak_type: bool) -> Any:
    return convert_element_type_p.bind1(
        x, new_dtype=dtype, weak_type=weak_type, sharding=None
    )


@convert_element_type_p.def_abstract_eval
@remembered
def _convert_type(
    x: ShapedArray, *, new_dtype: Any, weak_type: bool, sharding: Any
) -> list[ShapedArray]:
    rules.only_arrays(convert_element_type_p, [x])
    aval = rules.result_type(
        "convert_element_type",
        [x],
        x.shape,
        new_dtype,
        weak_type,
        partitions=lambda: x.sharding.spec.partitions,
        sums=rules.linear,
    )
    if sharding is None:
        return [aval]
    return [aval.update(sharding=typed(sharding, aval.shape))]


@convert_element_type_p.def_lowering
def _convert_lowering(ctx: Any, x: Any, **_: Any) -> list[Any]:
    (source,), (target,) = ctx.avals_in, ctx.avals_out
    return [ctx.with_sharding(dialect.convert(x, source, target), target)]


@convert_element_type_p.def_jvp
def _convert_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (out,) = convert_element_type_p.bind(*primals, **params)
    if not dtypes.issubdtype(params["new_dtype"], np.inexact):
        return [out], [zero_tangent(out)]
    return [out], convert_element_type_p.bind(*tangents, **params)


@convert_element_type_p.def_transpose
@transpose_unary
def _convert_transpose(ct: Any, x: Any, **_: Any) -> Any:
    aval, found = x.aval.to_cotangent(), typeof(ct)
    if found.sharding != aval.sharding and aval.mesh.explicit_axes:
        ct = reshard_p.bind1(ct, dst_sharding=aval.sharding)
    if found.dtype == aval.dtype and found.weak_type == aval.weak_type:
        return ct
    return _bind(ct, aval.dtype, aval.weak_type)


@convert_element_type_p.def_batch
def _convert_batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    params["sharding"] = for_vmap(axis, params["sharding"], dims[0])
    return convert_element_type_p.bind(*args, **params), dims


convert_element_type_p.def_pretty(
    lambda eqn: {k: v for k, v in eqn.params.items() if k != "sharding"}
)

# ------------------------------------------------------------- bitcast_convert_type


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """Reads the bits of each element as another dtype.

    To a narrower one, a last dimension is added; to a wider one, the last dimension
    must be just what one new element takes, and goes.
    """
    new = dtypes.canonicalize_user_dtype(new_dtype, "bitcast_convert_type")
    return bitcast_convert_type_p.bind1(operand, new_dtype=new)


bitcast_convert_type_p = Primitive("bitcast_convert_type")


def _bits(dtype: Any) -> int:
    if dtypes.issubdtype(dtype, np.integer):
        return dtypes.iinfo(dtype).bits
    return np.dtype(dtype).itemsize * 8


@bitcast_convert_type_p.def_abstract_eval
@remembered
def _bitcast_type(x: ShapedArray, *, new_dtype: Any) -> list[ShapedArray]:
    rules.only_arrays(bitcast_convert_type_p, [x])
    unfit = [
        d
        for d in (x.dtype, new_dtype)
        for k in BOOL + COMPLEX
        if dtypes.issubdtype(d, k)
    ]
    if unfit and x.dtype != new_dtype:
        raise errors.bitcast_dtypes(x.dtype, new_dtype)
    old_bits, new_bits = _bits(x.dtype), _bits(new_dtype)
    parts = x.sharding.spec.partitions
    if old_bits == new_bits:
        shape = x.shape
    elif old_bits > new_bits:
        shape, parts = (*x.shape, old_bits // new_bits), (*parts, None)
    else:
        last = x.shape[-1] if x.shape else 1
        if last * old_bits != new_bits:
            raise errors.bitcast_size(
                x.shape, x.dtype, old_bits, new_dtype, new_bits, last
            )
        shape, parts = x.shape[:-1], parts[:-1]
    return [
        rules.result_type(
            "bitcast_convert_type",
            [x],
            shape,
            new_dtype,
            partitions=lambda: parts,
            sums=rules.no_sums,
        )
    ]


@bitcast_convert_type_p.def_lowering
def _bitcast_lowering(ctx: Any, x: Any, *, new_dtype: Any) -> list[Any]:
    (out,) = ctx.avals_out
    cast = dialect.op1("stablehlo.bitcast_convert", (x,), dialect.ir_type(out))
    return [ctx.with_sharding(cast, out)]


bitcast_convert_type_p.def_nondifferentiable("bits are not smooth")


@bitcast_convert_type_p.def_batch
def _bitcast_batch(_: Any, args: Any, dims: Any, *, new_dtype: Any) -> Any:
    # A mapped dimension in the last place would be taken for part of an element.
    from_front = move_batch(args[0], dims[0], 0)
    return bitcast_convert_type_p.bind(from_front, new_dtype=new_dtype), [0]


# ----------------------------------------------------------------- reduce_precision


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounds to the floats with so many bits of exponent and mantissa."""
    return reduce_precision_p.bind1(
        operand,
        exponent_bits=operator.index(exponent_bits),
        mantissa_bits=operator.index(mantissa_bits),
    )


def _precision_dtype(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> Any:
    if exponent_bits < 1:
        raise errors.exponent_bits(exponent_bits)
    if mantissa_bits < 0:
        raise errors.mantissa_bits(mantissa_bits)
    return x.dtype


reduce_precision_p = elementwise(
    "reduce_precision", FLOAT, result=_precision_dtype, sums=rules.linear
)


@reduce_precision_p.def_lowering
def _precision_lowering(
    ctx: Any, x: Any, *, exponent_bits: int, mantissa_bits: int
) -> list[Any]:
    attributes = {
        "exponent_bits": dialect.i32(exponent_bits),
        "mantissa_bits": dialect.i32(mantissa_bits),
    }
    return emit(ctx, "stablehlo.reduce_precision", x, attributes=attributes)


reduce_precision_p.def_linear(
    lambda ct, _, **params: reduce_precision_p.bind1(ct, **params)
)

_TO_INT = {"new_dtype": np.dtype(np.int32), "weak_type": False, "sharding": None}
_TO_HALF = {"new_dtype": np.dtype(np.float16), "weak_type": False, "sharding": None}
_NARROW = {"exponent_bits": 8, "mantissa_bits": 23}

CASES = [
    unary(convert_element_type_p, params=_TO_INT, smooth=()),
    unary(convert_element_type_p, params=_TO_HALF, smooth=()),
    unary(
        convert_element_type_p,
        params=_TO_INT | {"new_dtype": np.dtype(np.complex64)},
        smooth=(),
    ),
    unary(bitcast_convert_type_p, params={"new_dtype": np.dtype(np.int32)}, smooth=()),
    unary(bitcast_convert_type_p, params={"new_dtype": np.dtype(np.int16)}, smooth=()),
    Case(
        bitcast_convert_type_p,
        [(3, 2)],
        {"new_dtype": np.dtype(np.float32)},
        dtypes=np.int16,
    ),
    unary(reduce_precision_p, params=_NARROW),
]
