"""numpy's promotion: operands of any dtypes and ranks made alike, in upstream's order.

First the operands are cast to vary over the same Manual axes, then converted to one
dtype, then given one rank. A Python or numpy scalar becomes a literal of the right
dtype without any equation: `x * 2` is `mul x 2.0:f32[]`.

Upstream: `jax/_src/numpy/util.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray, abstract_token
from minijax.core.errors import numeric as errors
from minijax.core.mesh import NamedSharding, P
from minijax.core.rules import join_partitions, result_mesh
from minijax.core.trace import Tracer, typeof
from minijax.lax.convert import convert
from minijax.lax.rules import cast_together
from minijax.lax.shapes import (
    Shape,
    asarray,
    broadcast_to,
    broadcast_to_rank,
    is_array,
)

DType = np.dtype[Any]

# -------------------------------------------------------------------------- values


def as_value(x: Any) -> Any:
    """What stands for `x`: the result of `__jax_array__` where it has that."""
    if isinstance(x, Tracer):
        return x
    convert_itself = getattr(x, "__jax_array__", None)
    return x if convert_itself is None else convert_itself()


def is_array_like(x: Any) -> bool:
    """Whether numpy functions accept `x`: arrays, and numpy and Python scalars.

    >>> is_array_like(1.5), is_array_like("a"), is_array_like([1])
    (True, False, False)
    """
    if isinstance(x, Tracer):
        return x.aval is not abstract_token
    if isinstance(x, bool | int | float | complex | np.ndarray | np.generic):
        return not isinstance(x, np.str_ | np.bytes_)
    return hasattr(x, "__jax_array__") or (hasattr(x, "aval") and hasattr(x, "shape"))


def check_array_like(name: str, *args: Any) -> None:
    """Refuses an operand that is no array; lists and tuples are none."""
    for i, x in enumerate(args):
        if not is_array_like(x):
            raise errors.not_array_like(name, type(x), i)


def as_arrays(name: str, *args: Any) -> list[Any]:
    """Operands as arrays, none of them promoted."""
    check_array_like(name, *args)
    return [asarray(as_value(x)) for x in args]


_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def cast(x: Any, dtype: DType, weak_type: bool = False) -> Any:
    """A value of exactly this type; an equation only if `x` is an array."""
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    if is_array(x):
        return convert(x, dtype, weak_type)
    if type(x) is float and dtype.kind == "f" and not weak_type:
        return dtype.type(x)  # the same as below, and frequent: `x * 1.5`
    if not weak_type:
        return np.asarray(x).astype(dtype)[() if not aval.shape else ...]
    if not aval.shape:
        scalar = _PYTHON[dtype.kind](x)
        if typeof(scalar).dtype == dtype:
            return scalar
    return convert(x, dtype, weak_type)


# ------------------------------------------------------------------------- promotion


def promote_dtypes(*args: Any) -> list[Any]:
    """Operands converted to their common dtype; a single one stays as it is."""
    return list(args) if len(args) < 2 else _promoted(lambda dtype: dtype, args)


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """The same, with booleans as integers."""
    return _promoted(dtypes.to_numeric_dtype, args)


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """The same, with booleans and integers as floats."""
    return _promoted(dtypes.to_inexact_dtype, args)


def _promoted(to: Callable[[DType], DType], args: Sequence[Any]) -> list[Any]:
    types = [(a.dtype, a.weak_type) for a in map(typeof, args)]
    dtype, weak = types[0] if len(set(types)) == 1 else dtypes.result_of(*types)
    wanted = to(dtype)
    return [cast(x, wanted, weak) for x in cast_together(*args)]


def promote_args(name: str, *args: Any) -> list[Any]:
    """Operands of a numpy function made alike in dtype and rank."""
    return promote_shapes(*promote_dtypes(*_checked(name, args)))


def promote_args_numeric(name: str, *args: Any) -> list[Any]:
    """The same, with booleans as integers."""
    return promote_shapes(*promote_dtypes_numeric(*_checked(name, args)))


def promote_args_inexact(name: str, *args: Any) -> list[Any]:
    """The same, with booleans and integers as floats."""
    return promote_shapes(*promote_dtypes_inexact(*_checked(name, args)))


def _checked(name: str, args: Sequence[Any]) -> list[Any]:
    check_array_like(name, *args)
    values = [as_value(x) for x in args]
    if dtypes.float0 in [typeof(x).dtype for x in values]:
        raise errors.float0_operand(name)
    return values


def promote_shapes(*args: Any) -> list[Any]:
    """Operands of one rank; scalars stay scalars where all the others agree already."""
    shapes = [typeof(x).shape for x in args]
    if len({len(s) for s in shapes if s}) < 2:
        return list(args)
    rank = len(broadcast_shapes(*shapes))
    return [broadcast_to_rank(x, rank) for x in args]


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all shapes broadcast to. ValueError if there is none.

    >>> broadcast_shapes((4, 1), (3,), ())
    (4, 3)
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise errors.incompatible_shapes(list(shapes)) from None


def broadcast_arrays(*args: Any) -> list[Any]:
    """Operands broadcast to their common shape."""
    shapes = [typeof(x).shape for x in args]
    if all(s == shapes[0] for s in shapes):
        return [asarray(x) for x in args]
    shape = broadcast_shapes(*shapes)
    sharding = _common_sharding([typeof(x) for x in args], len(shape))
    return [broadcast_to(x, shape, out_sharding=sharding) for x in args]


def _common_sharding(avals: Sequence[ShapedArray], ndim: int) -> NamedSharding | None:
    """The sharding over Explicit axes that all broadcast to, as their shapes do."""
    mesh = result_mesh("broadcast", avals)
    if not mesh.explicit_axes:
        return None
    specs = [a.sharding.spec for a in avals]
    longest = max(specs, key=len)
    if all(longest.partitions[ndim - len(s) :] == s.partitions for s in specs):
        return NamedSharding(mesh, longest)
    filled = [
        ShapedArray(
            (1,) * (ndim - a.ndim) + a.shape,
            a.dtype,
            sharding=a.sharding.update(spec=P(*(None,) * (ndim - a.ndim)) + s),
        )
        for a, s in zip(avals, specs, strict=True)
    ]
    return NamedSharding(mesh, P(*join_partitions("broadcast_shardings", filled)))
