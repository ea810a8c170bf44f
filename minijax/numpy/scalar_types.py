"""Dtypes by name: `jnp.float32` is a dtype, and makes scalars when called.

Upstream: `jax/_src/numpy/scalar_types.py`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from minijax.core import dtypes
from minijax.numpy.creation import asarray


class ScalarType:
    """A dtype that can be called: `float32(3)` is an array scalar.

    It goes wherever a dtype does, and equals numpy's type of the same name.

    >>> import minijax.numpy as jnp
    >>> jnp.float32(3), jnp.float32 == np.float32, np.dtype(jnp.bfloat16)
    (Array(3., dtype=float32), True, dtype(bfloat16))
    """

    __slots__ = ("dtype",)

    def __init__(self, kind: Any):
        self.dtype = np.dtype(kind)

    def __call__(self, x: Any) -> Any:
        return asarray(x, dtype=self.dtype)

    def __eq__(self, other: object) -> bool:
        return self is other or self.dtype.type == other or self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __repr__(self) -> str:
        return f"minijax.numpy.{self.dtype.name}"


bool_ = ScalarType(np.bool_)
int4 = ScalarType(ml_dtypes.int4)
int8 = ScalarType(np.int8)
int16 = ScalarType(np.int16)
int32 = ScalarType(np.int32)
int64 = ScalarType(np.int64)
uint4 = ScalarType(ml_dtypes.uint4)
uint8 = ScalarType(np.uint8)
uint16 = ScalarType(np.uint16)
uint32 = ScalarType(np.uint32)
uint64 = ScalarType(np.uint64)
float8_e4m3fn = ScalarType(ml_dtypes.float8_e4m3fn)
float8_e5m2 = ScalarType(ml_dtypes.float8_e5m2)
bfloat16 = ScalarType(ml_dtypes.bfloat16)
float16 = ScalarType(np.float16)
float32 = ScalarType(np.float32)
float64 = ScalarType(np.float64)
complex64 = ScalarType(np.complex64)
complex128 = ScalarType(np.complex128)

# The defaults of their kinds: they name 64 bits, and mean 32 unless x64 is on.
int_, uint, float_, complex_ = int64, uint64, float64, complex128

dtype = np.dtype
generic, number = np.generic, np.number
integer, signedinteger = np.integer, np.signedinteger
unsignedinteger = np.unsignedinteger
inexact, floating = np.inexact, np.floating
complexfloating = np.complexfloating


def finfo(dtype: Any) -> Any:
    """The limits of a float dtype: `eps`, `max`, `tiny` and so on.

    >>> float(finfo(float32).eps)
    1.1920928955078125e-07
    """
    return dtypes.finfo(np.dtype(dtype))


def iinfo(dtype: Any) -> Any:
    """The limits of an integer dtype: `bits`, `min` and `max`.

    >>> iinfo(int8).max
    127
    """
    return dtypes.iinfo(np.dtype(dtype))


def issubdtype(a: Any, b: Any) -> bool:
    """Whether a dtype is, or belongs to, another one or a kind.

    >>> issubdtype(bfloat16, floating), issubdtype(int32, float32)
    (True, False)
    """
    return dtypes.issubdtype(_plain(a), _plain(b))


def promote_types(a: Any, b: Any) -> Any:
    """The dtype that two dtypes are promoted to.

    >>> promote_types(bfloat16, float16)
    dtype('float32')
    """
    return dtypes.promote_types(_plain(a), _plain(b))


def result_type(*args: Any) -> Any:
    """The dtype that values and dtypes are promoted to together.

    >>> result_type(bfloat16, 1.0)
    dtype(bfloat16)
    """
    return dtypes.result_type(*(_plain(x) for x in args))


def _plain(x: Any) -> Any:
    return x.dtype if isinstance(x, ScalarType) else x
