"""What the three kinds of callbacks share: the function, its arguments, its results.

A callback is called by XLA, on a thread of its own or on the one that started the
program, with views of XLA's memory. What is here makes of that an ordinary call: the
arguments are copies, contexts are empty, results are checked, and an error is logged
with its traceback before XLA wraps what it says in an error of its own.

The arguments are numpy arrays, not `Array`s: making one would ask the runtime for work
while it waits for the callback, which may never end.

Upstream: `jax/_src/callback.py` (`_FlatCallback`, `emit_python_callback`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import callbacks as errors
from minijax.core.pytree import PyTreeDef, tree_flatten, tree_unflatten
from minijax.core.trace import is_value

_log = logging.getLogger(__name__)


class FlatCallback:
    """A Python function of pytrees as one of the arrays among their leaves.

    Equal for the same function and trees, so that calling it again compiles nothing.

    Args:
      fun: the user's function.
      in_tree: the tree of its `(args, kwargs)`.
      static: the leaves that are no arrays, each with its position.
    """

    __slots__ = ("fun", "in_tree", "static")

    def __init__(
        self,
        fun: Callable[..., Any],
        in_tree: PyTreeDef,
        static: tuple[tuple[int, Any], ...] = (),
    ):
        self.fun = fun
        self.in_tree = in_tree
        self.static = static

    def __call__(self, *arrays: Any) -> list[Any]:
        """The leaves of what the function returns."""
        leaves = list(arrays)
        for position, x in self.static:
            leaves.insert(position, x.value if type(x) is Held else x)
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        return tree_flatten(self.fun(*args, **kwargs))[0]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.fun, self.in_tree, self.static)

    def __repr__(self) -> str:
        # As upstream's class of the same purpose shows itself in printed programs.
        return f"_FlatCallback(callback_func={self.fun}, in_tree={self.in_tree})"


class Held:
    """Something that cannot be hashed, as a parameter: equal only to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


def hashable(x: Any) -> Any:
    """The value, `Held` if it cannot be hashed."""
    try:
        hash(x)
    except TypeError:
        return Held(x)
    return x


def split_static(
    leaves: Sequence[Any],
) -> tuple[list[Any], tuple[tuple[int, Any], ...]]:
    """The leaves that are arrays, and the others with their positions."""
    values = [is_value(x) for x in leaves]
    arrays = [x for x, v in zip(leaves, values, strict=True) if v]
    return arrays, tuple(
        (i, hashable(x)) for i, x in enumerate(leaves) if not values[i]
    )


def result_types(result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], PyTreeDef]:
    """The types that a callback is said to return, and their tree."""
    leaves, tree = tree_flatten(result_shape_dtypes)
    for x in leaves:
        dtype = np.dtype(x.dtype)
        if dtype not in dtypes.ARRAY_DTYPES:
            raise errors.result_dtype(dtype)
        if dtypes.canonicalize_dtype(dtype) != dtype:
            raise errors.result_of_64_bits()
    return tuple(ShapedArray(x.shape, x.dtype) for x in leaves), tree


def host_function(
    name: str, callback: Callable[..., Sequence[Any]], avals_out: Sequence[ShapedArray]
) -> Callable[..., tuple[Any, ...]]:
    """What XLA calls: numpy arrays in, a tuple of numpy arrays of the types out."""
    x64 = dtypes.x64_enabled()

    def run(*args: Any) -> tuple[Any, ...]:
        # They are views of memory that XLA reuses after the call.
        own = [np.array(x) for x in args]
        try:
            # A fresh context: the thread that started the program has its own mesh.
            outs = Context().run(callback, *own)
        except BaseException:
            _log.exception("minijax.%s failed", name)
            raise
        return _checked(outs, avals_out, x64)

    return run


def _checked(
    outs: Sequence[Any], avals: Sequence[ShapedArray], x64: bool
) -> tuple[Any, ...]:
    """The results as arrays, whose types must be as announced."""
    if len(outs) != len(avals):
        raise errors.wrong_count(len(avals), len(outs))
    arrays = [np.asarray(x) for x in outs]
    for x in arrays:
        if x.dtype.kind in "OSUM":
            raise errors.no_numbers(x.dtype)
    if not x64:
        arrays = [
            x.astype(dtypes.canonicalize_dtype(x.dtype), copy=False) for x in arrays
        ]
    for i, (x, aval) in enumerate(zip(arrays, avals, strict=True)):
        if x.shape != aval.shape:
            raise errors.wrong_shape(i, aval.shape, x.shape)
        if x.dtype != aval.dtype:
            raise errors.wrong_dtype(i, aval.dtype, x.dtype)
    return tuple(arrays)


def passing_token(
    function: Callable[..., tuple[Any, ...]],
) -> Callable[..., tuple[Any, ...]]:
    """The function that also takes a token and returns it."""

    def run(token: Any, *args: Any) -> tuple[Any, ...]:
        return (token, *function(*args))

    return run
