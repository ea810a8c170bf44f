"""Abstract values: the types that tracing computes with.

Two kinds exist. `ShapedArray` is the type of every array: shape, dtype, weak
type, sharding and manual axis type. `abstract_token` is the one type of tokens,
which carry no data and only order effects. Nothing else may live here but these
types and the small functions of them that every layer needs.

Written as in printed jaxprs, `f32[8@x,4]{V:i}` is a float32 array of shape (8, 4)
whose dimension 0 is sharded over the Explicit mesh axis `x`, and whose value
varies over the Manual mesh axis `i`.

Upstream: `jax/_src/core.py` (`ShapedArray`, `AbstractToken`, `ManualAxisType`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors.tracing import TokenTypeError
from minijax.core.mesh import AbstractMesh, NamedSharding, PartitionSpec

Shape = tuple[int, ...]
Names = frozenset[str]
NO_NAMES: Names = frozenset()


class ManualAxisType:
    """What a value is over each Manual mesh axis, by name.

    * `varying`: devices along the axis may hold different values;
    * `unreduced`: the value is the sum of what the devices along the axis hold;
    * `reduced`: all devices hold the same value, and its cotangent is unreduced.

    An axis in none of the three is invarying: every device holds the same value.
    """

    __slots__ = ("_hash", "reduced", "unreduced", "varying")

    def __init__(
        self,
        varying: Iterable[str] = (),
        unreduced: Iterable[str] = (),
        reduced: Iterable[str] = (),
    ):
        self.varying: Names = frozenset(varying)
        self.unreduced: Names = frozenset(unreduced)
        self.reduced: Names = frozenset(reduced)
        self._hash = hash((self.varying, self.unreduced, self.reduced))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ManualAxisType)
            and self.varying == other.varying
            and self.unreduced == other.unreduced
            and self.reduced == other.reduced
        )

    def __bool__(self) -> bool:
        return bool(self.varying or self.unreduced or self.reduced)

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={set(self.varying)}, "
            f"unreduced={set(self.unreduced)}, reduced={set(self.reduced)})"
        )

    def update(self, **changes: Iterable[str]) -> ManualAxisType:
        """The same type with some of the three sets replaced."""
        varying = changes.get("varying", self.varying)
        unreduced = changes.get("unreduced", self.unreduced)
        return manual_type(varying, unreduced, changes.get("reduced", self.reduced))

    def to_cotangent(self) -> ManualAxisType:
        """A cotangent of a reduced value is unreduced, and conversely."""
        if not (self.unreduced or self.reduced):
            return self
        return manual_type(self.varying, self.reduced, self.unreduced)


@lru_cache(maxsize=4096)
def _manual_type(varying: Names, unreduced: Names, reduced: Names) -> ManualAxisType:
    return ManualAxisType(varying, unreduced, reduced)


def manual_type(
    varying: Iterable[str] = (),
    unreduced: Iterable[str] = (),
    reduced: Iterable[str] = (),
) -> ManualAxisType:
    """The one shared `ManualAxisType` of these names."""
    return _manual_type(frozenset(varying), frozenset(unreduced), frozenset(reduced))


NO_MANUAL = manual_type()
EMPTY_MESH = AbstractMesh((), ())


@lru_cache(maxsize=4096)
def replicated(mesh: AbstractMesh, ndim: int) -> NamedSharding:
    """The sharding over `mesh` of rank `ndim` that names no axis."""
    return NamedSharding(mesh, PartitionSpec(*(None,) * ndim))


class AbstractValue:
    """Common base of the two kinds of types."""

    __slots__ = ()

    def short(self) -> str:
        """The type as a printed jaxpr shows it."""
        raise NotImplementedError

    def to_tangent(self) -> AbstractValue:
        """The type of this type's tangents."""
        raise NotImplementedError

    def to_cotangent(self) -> AbstractValue:
        """The type of this type's cotangents."""
        raise NotImplementedError


class ShapedArray(AbstractValue):
    """The type of an array.

    Args:
      shape: the sizes of its dimensions.
      dtype: the numpy dtype of its elements.
      weak_type: whether it gives way to other dtypes in promotion, as Python
        scalars do.
      sharding: over an `AbstractMesh`; its Explicit axes are part of the type.
        `None` means no mesh at all.
      manual: its `ManualAxisType`.

    >>> ShapedArray((8, 4), np.float32)
    ShapedArray(float32[8,4])
    """

    __slots__ = ("_hash", "dtype", "manual", "shape", "sharding", "weak_type")

    def __init__(
        self,
        shape: Iterable[int],
        dtype: Any,
        weak_type: bool = False,
        sharding: NamedSharding | None = None,
        manual: ManualAxisType = NO_MANUAL,
    ):
        self.shape: Shape = tuple(shape)
        self.dtype: np.dtype[Any] = (
            dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        )
        self.weak_type = weak_type
        self.sharding: NamedSharding = (
            replicated(EMPTY_MESH, len(self.shape)) if sharding is None else sharding
        )
        self.manual = manual
        self._hash = 0  # computed when first asked for

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def mesh(self) -> AbstractMesh:
        return self.sharding.mesh  # type: ignore[return-value]

    def __len__(self) -> int:
        return self.shape[0]

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash(
                (self.shape, self.dtype, self.weak_type, self.sharding, self.manual)
            )
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is ShapedArray
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self.manual == other.manual
            and self.sharding == other.sharding
        )

    def update(self, **changes: Any) -> ShapedArray:
        """The same type with some of its fields replaced."""
        shape = changes.get("shape", self.shape)
        sharding = changes.get("sharding", self.sharding)
        if sharding is self.sharding and len(shape) != len(self.shape):
            sharding = replicated(self.mesh, len(shape))
        return ShapedArray(
            shape,
            changes.get("dtype", self.dtype),
            changes.get("weak_type", self.weak_type),
            sharding,
            changes.get("manual", self.manual),
        )

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent(self) -> ShapedArray:
        """Inexact dtypes are their own tangents; the others have `float0`."""
        if dtypes.issubdtype(self.dtype, np.inexact):
            return self
        return self.update(dtype=dtypes.float0, weak_type=False)

    def to_cotangent(self) -> ShapedArray:
        """The tangent type with reduced and unreduced axes exchanged."""
        tangent, spec = self.to_tangent(), self.sharding.spec
        if spec.unreduced or spec.reduced:
            swapped = spec.update(unreduced=spec.reduced, reduced=spec.unreduced)
            tangent = tangent.update(sharding=NamedSharding(self.mesh, swapped))
        manual = tangent.manual.to_cotangent()
        return tangent if manual is tangent.manual else tangent.update(manual=manual)

    def short(self) -> str:
        return f"{dtypes.short_name(self.dtype)}{self._shape_text()}"

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.dtype.name}{self._shape_text()}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.dtype.name}{self._shape_text()}{weak})"

    def _shape_text(self) -> str:
        """`[8@x,4]{V:i}`: Explicit axes behind their dimension, then the rest."""
        mesh, spec = self.mesh, self.sharding.spec
        if mesh.empty:
            return f"[{','.join(map(str, self.shape))}]"
        explicit = frozenset(mesh.explicit_axes)
        dims = [
            str(size) + _sharded_over(spec.axes_of(i), explicit)
            for i, size in enumerate(self.shape)
        ]
        kinds = {
            "V": self.manual.varying,
            "U": self.manual.unreduced | spec.unreduced,
            "R": self.manual.reduced | spec.reduced,
        }
        told = [f"{k}:{_in_mesh_order(mesh, v)}" for k, v in kinds.items() if v]
        return f"[{','.join(dims)}]" + (f"{{{', '.join(told)}}}" if told else "")


def _sharded_over(names: tuple[str, ...], explicit: Names) -> str:
    shown = [n for n in names if n in explicit]
    if not shown:
        return ""
    return f"@{shown[0]}" if len(shown) == 1 else f"@({','.join(shown)})"


def _in_mesh_order(mesh: AbstractMesh, names: Names) -> str:
    ordered = [n for n in mesh.axis_names if n in names]
    return ordered[0] if len(ordered) == 1 else f"({','.join(ordered)})"


class AbstractToken(AbstractValue):
    """The type of tokens, which is its own tangent and cotangent type."""

    __slots__ = ()

    def short(self) -> str:
        return "Tok"

    def to_tangent(self) -> AbstractToken:
        return self

    def to_cotangent(self) -> AbstractToken:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "weak_type", "manual"):
            # What a function asks first of an operand that it takes for an array.
            raise TokenTypeError(name)
        raise AttributeError(f"'AbstractToken' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return "AbstractToken()"


abstract_token = AbstractToken()


class ShapeDtypeStruct:
    """Stands for an array of which only the type matters (`eval_shape`, `lower`).

    >>> ShapeDtypeStruct((2,), np.float32)
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __init__(
        self,
        shape: Iterable[int],
        dtype: Any,
        *,
        sharding: NamedSharding | None = None,
        weak_type: bool = False,
    ):
        self.shape: Shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.sharding = sharding
        self.weak_type = weak_type

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and all(
            getattr(self, a) == getattr(other, a) for a in ShapeDtypeStruct.__slots__
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.sharding, self.weak_type))

    def __repr__(self) -> str:
        sharding = f", sharding={self.sharding}" if self.sharding else ""
        weak = ", weak_type=True" if self.weak_type else ""
        name = self.dtype.name
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={name}{sharding}{weak})"
