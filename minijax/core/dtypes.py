"""Dtypes: that of a value, and what several are promoted to.

Promotion follows a lattice in which Python scalars are *weak*: they have a kind but no
width, so that ``bfloat16_array * 2.0`` is bfloat16. It stands on the path of every
operation, so everything is looked up in caches. Which dtypes there are is in
`minijax.core.dtype_kinds`, whose names are given out here too.

Source: upstream's ``dtypes.py``, and "Type promotion semantics" in its documentation.
"""

import functools
import warnings
from collections.abc import Mapping
from typing import Any, Literal, cast, overload

import numpy as np

from minijax.core.dtype_kinds import (
    ARRAY_DTYPES,
    BOOL,
    COMPLEX,
    CUSTOM_FLOATS,
    FLOAT4,
    FLOAT6,
    FLOAT8,
    NARROW_SIGNED,
    NARROW_UNSIGNED,
    NUMERIC_DTYPES,
    WIDEST,
    DType,
    bfloat16,
    canonical,
    canonicalize_dtype,
    default_dtype,
    dtypes_named,
    finfo,
    float0,
    iinfo,
    is_scalar_class,
    issubdtype,
    set_x64,
    short_name,
    to_inexact_dtype,
    to_numeric_dtype,
    x64_enabled,
)
from minijax.core.errors import dtypes as errors
from minijax.core.errors.dtypes import TypePromotionError

__all__ = [
    "NUMERIC_DTYPES",
    "DType",
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "canonicalize_user_dtype",
    "check_valid_dtype",
    "default_dtype",
    "dtype_and_weak_type",
    "dtype_of",
    "finfo",
    "float0",
    "iinfo",
    "is_array_dtype",
    "is_python_scalar",
    "is_weakly_typed",
    "issubdtype",
    "promote_types",
    "promote_weak",
    "result_type",
    "scalar_dtype",
    "set_x64",
    "short_name",
    "to_inexact_dtype",
    "to_numeric_dtype",
    "x64_enabled",
]


# The dtype of a value.

_SCALARS: Mapping[type, str] = {bool: "b", int: "i", float: "f", complex: "c"}
_WEAK_TYPES: tuple[type, ...] = (int, float, complex)


def is_python_scalar(x: Any) -> bool:
    """Tell whether a value is exactly a bool, int, float or complex of Python."""
    return type(x) in _SCALARS


def scalar_dtype(x: bool | int | float | complex) -> tuple[DType, bool]:
    """Return (dtype, weak_type) of a Python scalar. All but bools are weak.

    Raises OverflowError for an integer that does not fit.

    Example:
        >>> scalar_dtype(1.0), scalar_dtype(True)
        ((dtype('float32'), True), (dtype('bool'), False))
    """
    kind = _SCALARS[type(x)]
    dtype = canonical(x64_enabled(), WIDEST[kind])
    if kind == "i" and isinstance(x, int):
        limits = np.iinfo(dtype)
        if not limits.min <= x <= limits.max:
            raise errors.scalar_overflow(x, dtype)
    return dtype, kind != "b"


def dtype_of(x: Any) -> DType:
    """Return the canonical dtype of a value, of a Python type, or of a dtype.

    A value that has an aval (an array or tracer of ours) keeps its dtype as it is.
    Raises TypeError for values that no array can hold, such as strings and objects;
    warns where a dtype is given that is not canonical.

    Example:
        >>> dtype_of(1), dtype_of(np.zeros(3)), dtype_of(int)
        (dtype('int32'), dtype('float32'), dtype('int32'))
    """
    if isinstance(x, np.ndarray | np.generic):
        value = cast(Any, x)
        return canonical(x64_enabled(), _checked(value, value.dtype))
    kind = _SCALARS.get(x if isinstance(x, type) else type(x))
    if kind is not None:
        return canonical(x64_enabled(), WIDEST[kind])
    if x is None:
        raise errors.dtype_of_none()
    if isinstance(x, str | np.dtype) or is_scalar_class(x):
        dtype = _checked(cast(object, x), np.dtype(cast(Any, x)))
        return _canonicalize_with_warning(dtype, "dtype")
    aval_dtype = _dtype_attribute(getattr(x, "aval", None))
    if aval_dtype is not None:
        return aval_dtype
    return canonical(x64_enabled(), _checked(x, _found_dtype(x)))


def _checked(x: object, dtype: DType) -> DType:
    if dtype not in ARRAY_DTYPES:
        raise errors.not_an_array_type(x, dtype)
    return dtype


def _dtype_attribute(x: Any) -> DType | None:
    dtype = getattr(x, "dtype", None)
    return cast(DType, dtype) if isinstance(dtype, np.dtype) else None


def _found_dtype(x: Any) -> DType:
    dtype = _dtype_attribute(x)
    if dtype is not None:
        return dtype
    try:
        return np.result_type(x)
    except TypeError as error:
        raise errors.no_dtype(x) from error


def is_weakly_typed(x: Any) -> bool:
    """Tell whether a value is weak: a Python number, or an array made from them.

    Takes anything; what has a ``weak_type``, or an ``aval`` with one, is asked for it.
    """
    if type(x) in _WEAK_TYPES:
        return True
    weak_type = getattr(x, "weak_type", None)
    if weak_type is None:
        weak_type = getattr(getattr(x, "aval", None), "weak_type", False)
    return bool(weak_type)


def dtype_and_weak_type(x: Any) -> tuple[DType, bool]:
    """Return (dtype, weak_type) of a value, a Python type or a dtype."""
    return dtype_of(x), any(x is t for t in _WEAK_TYPES) or is_weakly_typed(x)


def is_array_dtype(dtype: DType) -> bool:
    """Tell whether there are arrays of this dtype."""
    return dtype in ARRAY_DTYPES


def check_valid_dtype(dtype: DType) -> None:
    """Raise TypeError unless there are arrays of this dtype."""
    if dtype not in ARRAY_DTYPES:
        raise errors.not_an_array_dtype(dtype)


def canonicalize_user_dtype(dtype: Any, fun_name: str | None = None) -> DType:
    """Return the canonical dtype for a dtype argument of the function named.

    Raises ValueError for None, TypeError for a dtype that arrays do not have, and warns
    where 64 bits are asked for and 32 are given.

    Example:
        >>> canonicalize_user_dtype(float, "zeros")
        dtype('float32')
    """
    if dtype is None:
        raise errors.missing_user_dtype()
    if hasattr(dtype, "aval"):
        raise errors.array_as_dtype()
    if isinstance(dtype, type) and dtype in _SCALARS:
        return canonical(x64_enabled(), WIDEST[_SCALARS[dtype]])
    given: DType = np.dtype(dtype)
    if given not in ARRAY_DTYPES:
        raise errors.unsupported_user_dtype(dtype, fun_name)
    return _canonicalize_with_warning(given, fun_name or "")


def _canonicalize_with_warning(dtype: DType, fun_name: str) -> DType:
    result = canonical(x64_enabled(), dtype)
    if result != dtype:
        text = errors.truncation_warning(dtype, result.name, fun_name)
        warnings.warn(text, stacklevel=4)
    return result


# Promotion. A node of the lattice is a dtype, or one of the types int, float, complex
# for a weak type. Each maps to the nodes directly above it.

type _Node = DType | type


def _lattice(x64: bool) -> dict[_Node, tuple[_Node, ...]]:
    b1 = BOOL
    u8, u16, u32, u64 = dtypes_named("uint8", "uint16", "uint32", "uint64")
    i8, i16, i32, i64 = dtypes_named("int8", "int16", "int32", "int64")
    bf16, f16, f32, f64 = dtypes_named(bfloat16, "float16", "float32", "float64")
    c64, c128 = COMPLEX
    narrow_ints = (*NARROW_UNSIGNED, *NARROW_SIGNED)
    narrow_floats = (*FLOAT4, *FLOAT6, *FLOAT8)
    return {
        b1: (int,),
        int: (u8, i8, *narrow_ints),
        **dict.fromkeys((*narrow_ints, *narrow_floats, c128), ()),
        u8: (i16, u16),
        u16: (i32, u32),
        # Without x64 nothing of 32 bits may become 64 bits wide.
        u32: (i64, u64) if x64 else (i32, u64),
        u64: (float,),
        i8: (i16,),
        i16: (i32,),
        i32: (i64,),
        i64: (float,),
        float: (*narrow_floats, bf16, f16, complex),
        bf16: (f32,),
        f16: (f32,),
        f32: (f64, c64),
        f64: (c128,),
        complex: (c64,),
        c64: (c128,),
    }


def _upper_bounds(x64: bool) -> dict[_Node, frozenset[_Node]]:
    lattice = _lattice(x64)

    @functools.cache
    def above(node: _Node) -> frozenset[_Node]:
        return frozenset({node}).union(*[above(n) for n in lattice[node]])

    return {node: above(node) for node in lattice}


_UPPER_BOUNDS = {x64: _upper_bounds(x64) for x64 in (False, True)}


@functools.cache
def _least_upper_bound(x64: bool, *nodes: _Node) -> _Node:
    """Return the one common upper bound that is below all the others."""
    bounds = _UPPER_BOUNDS[x64]
    for node in nodes:
        if node not in bounds:
            raise errors.not_promotable(node)
    common = bounds[nodes[0]].intersection(*[bounds[node] for node in nodes])
    least = [node for node in common if common <= bounds[node]]
    if len(least) == 1:
        return least[0]
    raise errors.no_promotion_path([str(n) for n in nodes], _unpromoted(nodes))


def _unpromoted(nodes: tuple[_Node, ...]) -> str | None:
    for dtypes, name in (
        (FLOAT8, "8-bit floats"),
        (FLOAT6, "6-bit floats"),
        (FLOAT4, "4-bit floats"),
        (
            (*NARROW_UNSIGNED, *NARROW_SIGNED),
            "1-bit, 2-bit and 4-bit integers",
        ),
    ):
        if any(node in dtypes for node in nodes):
            return name
    return None


def promote_types(a: Any, b: Any) -> DType:
    """Return the dtype that two dtypes are promoted to; ``int`` and so on are weak.

    Raises TypePromotionError where there is none.

    Example:
        >>> promote_types("int32", "float16"), promote_types("uint8", int)
        (dtype('float16'), dtype('uint8'))
    """
    nodes = [x if any(x is t for t in _WEAK_TYPES) else np.dtype(x) for x in (a, b)]
    return np.dtype(_least_upper_bound(x64_enabled(), *nodes))


type _WeakDType = tuple[DType, bool]


def promote_weak(*types: _WeakDType) -> _WeakDType:
    """Promote pairs (dtype, weak_type) to one such pair.

    Raises TypePromotionError where there is none.

    Example:
        >>> promote_weak((np.dtype("int8"), False), (np.dtype("float32"), True))
        (dtype('float32'), True)
    """
    return _promote_weak(x64_enabled(), types)


@functools.cache
def _promote_weak(x64: bool, types: tuple[_WeakDType, ...]) -> _WeakDType:
    dtypes = [dtype for dtype, _ in types]
    all_weak = all(weak for _, weak in types)
    if len(types) == 1:
        dtype, weak = types[0]
    elif not all_weak and len(set(dtypes)) == 1:
        dtype, weak = dtypes[0], False
    elif all_weak:
        # As if they were strong, so that the widths of weak types count.
        node = _least_upper_bound(x64, *dict.fromkeys(dtypes))
        dtype, weak = canonical(x64, node), True
    else:
        nodes = [_weak_node(dtype) if weak else dtype for dtype, weak in types]
        node = _least_upper_bound(x64, *dict.fromkeys(nodes))
        dtype, weak = canonical(x64, node), isinstance(node, type)
    return dtype, weak and dtype != BOOL


def _weak_node(dtype: DType) -> _Node:
    if dtype == BOOL:
        return dtype
    if issubdtype(dtype, np.integer):
        return int
    return float if issubdtype(dtype, np.floating) else complex


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[False] = False) -> DType: ...
@overload
def result_type(
    *args: Any, return_weak_type_flag: Literal[True]
) -> tuple[DType, bool]: ...
def result_type(
    *args: Any, return_weak_type_flag: bool = False
) -> DType | tuple[DType, bool]:
    """Return the dtype that values, dtypes and types are promoted to together.

    With ``return_weak_type_flag``, returns (dtype, weak_type). None stands for the
    default float. Raises TypePromotionError where there is no such dtype.

    Example:
        >>> result_type(np.zeros(3, "int8"), 1, 2.0, return_weak_type_flag=True)
        (dtype('float32'), True)
    """
    if not args:
        raise errors.nothing_to_promote()
    types = [dtype_and_weak_type(default_dtype("f") if x is None else x) for x in args]
    dtype, weak = result_of(*types)
    return (dtype, weak) if return_weak_type_flag else dtype


def result_of(*types: _WeakDType) -> _WeakDType:
    """`result_type` of values of which (dtype, weak_type) is known already."""
    dtype, weak = promote_weak(*types)
    if weak:
        # A weak type has no width of its own: the default of its kind stands for it.
        dtype = _default_of(x64_enabled(), dtype)
    return dtype, weak


@functools.cache
def _default_of(x64: bool, dtype: DType) -> DType:
    return canonical(x64, WIDEST["f" if dtype in CUSTOM_FLOATS else dtype.kind])
