"""What arrays and tracers can do by themselves: `x + y`, `x[i]`, `x.sum()` and so on.

The classes are below this layer and know no operations; `install` gives them these,
once, from the package root. Every operator and method is one of the functions that
`minijax.numpy` offers too.

Upstream: `jax/_src/numpy/array_methods.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core.errors import numeric as errors
from minijax.core.errors import tracing as tracing_errors
from minijax.core.trace import Tracer, typeof
from minijax.lax import numeric as nm
from minijax.lax import rearrange as re
from minijax.lax import statistics as st
from minijax.lax.gradients import copy
from minijax.lax.indexing import rows, take_index, update_index
from minijax.lax.joining import unstack
from minijax.lax.outlined import set_jit
from minijax.lax.promote import as_value, is_array_like
from minijax.lax.scatter import (
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from minijax.lax.shapes import full_like
from minijax.runtime.array import Array

Method = Callable[..., Any]

# -------------------------------------------------------------------------- operators

_BINARY = {
    "add": (nm.add, "+"),
    "sub": (nm.subtract, "-"),
    "mul": (nm.multiply, "*"),
    "truediv": (nm.true_divide, "/"),
    "floordiv": (nm.floor_divide, "//"),
    "mod": (nm.remainder, "%"),
    "divmod": (nm.divmod, "divmod()"),
    "pow": (nm.power, "**"),
    "matmul": (nm.matmul, "@"),
    "and": (nm.bitwise_and, "&"),
    "or": (nm.bitwise_or, "|"),
    "xor": (nm.bitwise_xor, "^"),
    "lshift": (nm.left_shift, "<<"),
    "rshift": (nm.right_shift, ">>"),
}
_COMPARISONS = {
    "eq": (nm.equal, "=="),
    "ne": (nm.not_equal, "!="),
    "lt": (nm.less, "<"),
    "le": (nm.less_equal, "<="),
    "gt": (nm.greater, ">"),
    "ge": (nm.greater_equal, ">="),
}
#: Beside these, Python would do something else with a list than refuse it.
_REFUSED: dict[str, tuple[type, ...]] = {
    "+": (tuple, list),
    "*": (tuple, list),
    "==": (dict, list, set, tuple),
    "!=": (dict, list, set, tuple),
}


def _operator(fun: Method, symbol: str, swapped: bool = False) -> Method:
    """A binary operator: NotImplemented beside something that is no array."""
    refused = _REFUSED.get(symbol, ())

    def method(self: Any, other: Any) -> Any:
        other = as_value(other)
        if is_array_like(other):
            return fun(other, self) if swapped else fun(self, other)
        if type(other) in refused:
            pair = (other, self) if swapped else (self, other)
            raise errors.unsupported_operands(symbol, *pair)
        return NotImplemented

    return method


def _operators() -> dict[str, Method]:
    out: dict[str, Method] = {
        "__neg__": nm.negative,
        "__pos__": nm.positive,
        "__abs__": nm.absolute,
        "__invert__": nm.invert,
        "__round__": _round,
        "__getitem__": take_index,
        "__setitem__": _set_item,
        "__iter__": _iterate,
        "__contains__": _contains,
    }
    for name, (fun, symbol) in (_BINARY | _COMPARISONS).items():
        out[f"__{name}__"] = _operator(fun, symbol)
    for name, (fun, symbol) in _BINARY.items():
        out[f"__r{name}__"] = _operator(fun, symbol, swapped=True)
    return out


def _round(self: Any, ndigits: int | None = None) -> Any:
    out = nm.round(self, decimals=ndigits or 0)
    return re.astype(out, int) if ndigits is None else out


def _set_item(self: Any, index: Any, value: Any) -> None:
    raise errors.no_item_assignment()


def _iterate(self: Any) -> Any:
    if not typeof(self).shape:
        raise errors.iterate_scalar()
    return rows(self, unstack)


def _contains(self: Any, other: Any) -> Any:
    if not is_array_like(other):
        raise errors.contains_type(type(other))
    if typeof(self).ndim != 1:
        raise errors.contains_rank(typeof(self).shape)
    if typeof(other).shape:
        raise errors.contains_scalar(typeof(other).shape)
    return bool(st.any(nm.equal(self, other)))


# --------------------------------------------------------------------------- x.at[...]


class IndexUpdateHelper:
    """`x.at`: index it to say where, then call `set`, `add`, `get` and so on."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class IndexUpdateRef:
    """`x.at[index]`: each method returns a changed copy of `x`.

    Options of the methods: `indices_are_sorted` and `unique_indices`, the user's
    promises; `mode`, what an index out of bounds does (`drop`, `clip`,
    `promise_in_bounds`); `wrap_negative_indices`.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(self, **options: Any) -> Any:
        """`x[index]`; also takes `fill_value`, for mode `fill`."""
        return take_index(self.array, self.index, **options)

    def set(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] = values`."""
        return self._update(self.array, values, scatter, options)

    def add(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] += values`, for every index, also if repeated."""
        return self._update(self.array, values, scatter_add, options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] -= values`."""
        return self._update(self.array, values, scatter_sub, options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] *= values`."""
        return self._update(self.array, values, scatter_mul, options)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] /= values`."""
        ones = full_like(self.array, 1)
        divisor = self._update(ones, values, scatter_mul, options)
        return nm.true_divide(self.array, divisor)

    def power(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] **= values`."""
        ones = full_like(self.array, 1)
        exponent = self._update(ones, values, scatter_mul, options)
        return nm.power(self.array, exponent)

    def min(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] = minimum(x[index], values)`."""
        return self._update(self.array, values, scatter_min, options)

    def max(self, values: Any, **options: Any) -> Any:
        """`x` after `x[index] = maximum(x[index], values)`."""
        return self._update(self.array, values, scatter_max, options)

    def apply(self, fun: Method, **options: Any) -> Any:
        """`x` with `fun` applied at the index, once where an index is repeated."""
        values = fun(take_index(self.array, self.index, **options))
        return self._update(self.array, values, scatter, options)

    def _update(self, x: Any, values: Any, update: Method, options: Any) -> Any:
        return update_index(x, self.index, values, update, **options)


# ----------------------------------------------------------------------------- methods


def _several(*args: Any) -> Any:
    """`x.reshape(2, 3)` means `x.reshape((2, 3))`."""
    return args[0] if len(args) == 1 else args


def _reshape(self: Any, *shape: Any, order: str = "C", out_sharding: Any = None) -> Any:
    return re.reshape(self, _several(*shape), order, out_sharding=out_sharding)


def _transpose(self: Any, *axes: Any) -> Any:
    if not axes or axes == (None,):
        return re.transpose(self)
    given = _several(*axes)
    alone = not isinstance(given, list | tuple | np.ndarray)
    return re.transpose(self, (given,) if alone else tuple(given))


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    return nm.clip(self, min=min, max=max)


def _without_out(name: str, fun: Method) -> Method:
    """A method that, as in numpy, has an `out` argument, which must be None."""

    def method(self: Any, *args: Any, out: None = None, **kwargs: Any) -> Any:
        if out is not None:
            raise errors.no_out(name)
        return fun(self, *args, **kwargs)

    return method


def _item(self: Any, *args: Any) -> Any:
    value = self.concrete()
    if value is None:
        why = "This occurred in the item() method of jax.Array"
        raise tracing_errors.concrete_value_needed(str(self.aval), why, self.origin())
    return np.asarray(value).item(*args)


def _nonzero(self: Any) -> tuple[Any, ...]:
    value = self.concrete() if isinstance(self, Tracer) else self
    if value is None:
        why = (
            "The size argument of jnp.nonzero must be statically specified to use "
            "jnp.nonzero within JAX transformations."
        )
        raise tracing_errors.concrete_value_needed("int32[]", why, self.origin())
    found = np.nonzero(np.asarray(value))
    return tuple(copy(i.astype(np.int32)) for i in found)


def _flat(self: Any) -> Any:
    raise errors.no_flat()


_METHODS: dict[str, Method] = {
    "all": st.all,
    "any": st.any,
    "argmax": st.argmax,
    "argmin": st.argmin,
    "argsort": re.argsort,
    "astype": re.astype,
    "clip": _clip,
    "conj": nm.conjugate,
    "conjugate": nm.conjugate,
    "copy": copy,
    "cumprod": _without_out("cumprod", st.cumprod),
    "cumsum": _without_out("cumsum", st.cumsum),
    "diagonal": re.diagonal,
    "dot": nm.dot,
    "flatten": re.ravel,
    "item": _item,
    "max": st.max,
    "mean": st.mean,
    "min": st.min,
    "nonzero": _nonzero,
    "prod": st.prod,
    "ptp": st.ptp,
    "ravel": re.ravel,
    "repeat": re.repeat,
    "reshape": _reshape,
    "round": _without_out("round", nm.round),
    "sort": re.sort,
    "squeeze": re.squeeze,
    "std": st.std,
    "sum": st.sum,
    "swapaxes": re.swapaxes,
    "take": re.take,
    "trace": _without_out("trace", re.trace),
    "transpose": _transpose,
    "var": st.var,
    "view": re.view,
}
_PROPERTIES: dict[str, Method] = {
    "T": re.transpose,
    "at": IndexUpdateHelper,
    "flat": _flat,
    "imag": nm.imag,
    "itemsize": lambda self: self.dtype.itemsize,
    "mT": re.matrix_transpose,
    "nbytes": lambda self: self.size * self.dtype.itemsize,
    "real": nm.real,
}


def install(jit: Method | None = None) -> None:
    """Gives arrays and tracers their operators and methods. Called once.

    Args:
      jit: makes some functions calls of their own in programs, see `outlined`.
    """
    set_jit(jit)
    for cls in (Array, Tracer):
        for name, operation in (_operators() | _METHODS).items():
            if name not in vars(cls):
                setattr(cls, name, operation)
        for name, getter in _PROPERTIES.items():
            if name not in vars(cls):
                setattr(cls, name, property(getter))
