"""Which dtypes there are, what they are called, and which kind each is of.

A dtype is a `numpy.dtype`. The narrow types of ``ml_dtypes`` (bfloat16, float8 and so
on) are numbers like others here, and 64-bit dtypes become 32-bit ones, unless `set_x64`
allows them (*canonicalisation*). What is asked of values, and promotion, is in
`minijax.core.dtypes`, which gives out these names too.

Source: upstream's ``dtypes.py``.
"""

import functools
from collections.abc import Mapping
from typing import Any, Literal, cast

import ml_dtypes
import numpy as np

type DType = np.dtype[Any]

finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo
bfloat16 = ml_dtypes.bfloat16

float0: DType = np.dtype([("float0", np.void, 0)])
"""The dtype of tangents of integers: it has no information, only a shape."""


def dtypes_named(*names: Any) -> tuple[DType, ...]:
    """Return several dtypes by their names or classes."""
    return tuple(np.dtype(name) for name in names)


def _narrow(*names: str) -> tuple[DType, ...]:
    # int1 and uint1 came to ml_dtypes late, so a name may be missing.
    return dtypes_named(
        *[getattr(ml_dtypes, n) for n in names if hasattr(ml_dtypes, n)]
    )


BOOL = np.dtype(np.bool_)
NARROW_UNSIGNED = _narrow("uint1", "uint2", "uint4")
NARROW_SIGNED = _narrow("int1", "int2", "int4")
FLOAT4 = _narrow("float4_e2m1fn")
FLOAT6 = _narrow("float6_e2m3fn", "float6_e3m2fn")
FLOAT8 = _narrow(
    "float8_e3m4",
    "float8_e4m3",
    "float8_e8m0fnu",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
CUSTOM_FLOATS = (*FLOAT4, *FLOAT6, *FLOAT8, np.dtype(bfloat16))
_UNSIGNED = (*NARROW_UNSIGNED, *dtypes_named("uint8", "uint16", "uint32", "uint64"))
_SIGNED = (*NARROW_SIGNED, *dtypes_named("int8", "int16", "int32", "int64"))
_FLOATS = (*CUSTOM_FLOATS, *dtypes_named("float16", "float32", "float64"))
COMPLEX = dtypes_named("complex64", "complex128")

NUMERIC_DTYPES: tuple[DType, ...] = (BOOL, *_UNSIGNED, *_SIGNED, *_FLOATS, *COMPLEX)
"""Every dtype that takes part in promotion, narrow ones first within each kind."""

ARRAY_DTYPES = frozenset({*NUMERIC_DTYPES, float0})


# 64 bits or 32. One flag for the whole process, as an interpreter option would be:
# reading and writing it is atomic, and nothing here depends on it not changing.

_x64 = False

_TO_32_BITS: Mapping[DType, DType] = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}


def x64_enabled() -> bool:
    """Tell whether 64-bit dtypes are kept rather than made 32-bit ones."""
    return _x64


def set_x64(enabled: bool) -> None:
    """Keep 64-bit dtypes, or make them 32-bit ones, which is the default."""
    global _x64
    _x64 = bool(enabled)


def canonicalize_dtype(dtype: Any) -> DType:
    """Return the dtype that stands for this one: 32 bits for 64, unless x64 is on.

    Takes whatever `numpy.dtype` takes; for anything else that raises TypeError.

    Example:
        >>> canonicalize_dtype("float64"), canonicalize_dtype(np.int8)
        (dtype('float32'), dtype('int8'))
    """
    return canonical(_x64, dtype)


@functools.cache
def canonical(x64: bool, dtype: Any) -> DType:
    """Return `canonicalize_dtype` for a given setting of the 64-bit switch."""
    result: DType = np.dtype(dtype)
    return result if x64 else _TO_32_BITS.get(result, result)


def default_dtype(kind: Literal["b", "i", "u", "f", "c"]) -> DType:
    """Return the default dtype of a kind, by numpy's letter for the kind.

    Example:
        >>> default_dtype("f")
        dtype('float32')
    """
    return canonical(_x64, WIDEST[kind])


WIDEST: Mapping[str, DType] = {
    "b": BOOL,
    "i": np.dtype("int64"),
    "u": np.dtype("uint64"),
    "f": np.dtype("float64"),
    "c": np.dtype("complex128"),
}


# Names and kinds.


@functools.cache
def short_name(dtype: DType) -> str:
    """Return the name that jaxprs print.

    Example:
        >>> [short_name(np.dtype(t)) for t in ("float32", bfloat16, "uint8", "bool")]
        ['f32', 'bf16', 'u8', 'bool']
    """
    if dtype == float0:
        return "float0"  # numpy calls it void
    name = dtype.name
    for long, short in (
        ("float", "f"),
        ("uint", "u"),
        ("int", "i"),
        ("complex", "c"),
    ):
        name = name.replace(long, short)
    return name


def issubdtype(a: Any, b: Any) -> bool:
    """Tell whether a dtype belongs to a kind: `numpy.issubdtype` for all our dtypes.

    Example:
        >>> issubdtype(bfloat16, np.floating), issubdtype(np.int32, np.floating)
        (True, False)
    """
    return _issubdtype(_hashable_dtype(a), _hashable_dtype(b))


def _hashable_dtype(x: Any) -> Any:
    known = isinstance(x, type | np.dtype)
    return cast(Any, x) if known else np.dtype(x)


_KINDS_OF_NARROW: Mapping[type, tuple[type, ...]] = {
    **{d.type: (np.floating, np.inexact) for d in CUSTOM_FLOATS},
    **{d.type: (np.signedinteger, np.integer) for d in NARROW_SIGNED},
    **{d.type: (np.unsignedinteger, np.integer) for d in NARROW_UNSIGNED},
}


@functools.cache
def _issubdtype(a: Any, b: Any) -> bool:
    a_type, b_type = _scalar_type(a), _scalar_type(b)
    # To numpy, the types of ml_dtypes are of no kind.
    if a_type in _KINDS_OF_NARROW:
        kinds = _KINDS_OF_NARROW[a_type]
        return b_type in (a_type, *kinds, np.number, np.generic)
    return bool(np.issubdtype(a_type, b_type))


def is_scalar_class(x: Any) -> bool:
    """Tell whether something is a scalar class of numpy's, such as ``np.float32``."""
    return isinstance(x, type) and issubclass(x, np.generic)


def _scalar_type(x: Any) -> type:
    return x if is_scalar_class(x) else np.dtype(x).type


_TO_INEXACT: Mapping[DType, DType] = {
    **dict.fromkeys((BOOL, *_UNSIGNED, *_SIGNED), np.dtype("float32")),
    **dict.fromkeys(dtypes_named("uint64", "int64"), np.dtype("float64")),
}


def to_inexact_dtype(dtype: Any) -> DType:
    """Return the dtype itself if it is inexact, and otherwise the float for it.

    Example:
        >>> to_inexact_dtype("int8"), to_inexact_dtype("complex64")
        (dtype('float32'), dtype('complex64'))
    """
    result: DType = np.dtype(dtype)
    return _TO_INEXACT.get(result, result)


def to_numeric_dtype(dtype: Any) -> DType:
    """Return int32 for bool, and any other dtype itself."""
    result: DType = np.dtype(dtype)
    return np.dtype(np.int32) if result == BOOL else result
