"""debug.callback and debug.print: looking into programs without changing them.

    debug_callback[callback effect partitioned] x
    debug_print[fmt has_placeholders in_tree ... ordered partitioned static_args] x

They have no results, only an effect: `Debug`, or `OrderedDebug`, which keeps calls in
the order of the program. Derivatives see through them: the call stays with the values.
Mapped over many elements, there is a call for each, in order.

Where nothing is traced the function is called at once, with whole arrays. In programs
for several devices there can be no ordered one, as nothing orders those.

StableHLO: `custom_call`. Upstream: `jax/_src/debugging.py`.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Any

import numpy as np

from minijax.core.effects import Effect
from minijax.core.errors import callbacks as errors
from minijax.core.primitive import Primitive
from minijax.core.pytree import PyTreeDef, tree_flatten
from minijax.core.staging import stage
from minijax.core.token import Token
from minijax.core.trace import typeof
from minijax.lax.collectives.axis_index import axis_index
from minijax.lax.slicing import index_in_dim
from minijax.lowering.callback import call_python
from minijax.runtime.ordered import wait_for
from minijax.transforms.callbacks.common import (
    FlatCallback,
    Held,
    hashable,
    host_function,
    passing_token,
    split_static,
)
from minijax.transforms.control.cond import cond
from minijax.transforms.shard_map import shard_map
from minijax.transforms.shard_map_primitive import inside
from minijax.transforms.vmap import BatchAxis

debug_effect = Effect("Debug", repeatable=True)
ordered_debug_effect = Effect("OrderedDebug", ordered=True, repeatable=True)

# ------------------------------------------------------------------ public functions


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function with values of a program; what it returns is dropped.

    Args:
      callback: takes the arguments with numpy arrays as leaves. Without it, a function
        is returned that takes it and the arguments.
      args, kwargs: pytrees; leaves that are no arrays are given to `callback` as they
        are.
      ordered: whether calls are in the order of the program.
      partitioned: whether each device calls it with the part that lies there; else one
        device calls it with the whole.

    Raises:
      TypeError: where `callback` cannot be called.
      ValueError: for an ordered one in a program for several devices.

    >>> import minijax
    >>> f = minijax.jit(lambda x: debug_callback(lambda x: print(2 * x), x))
    >>> f(3); minijax.effects_barrier()
    6

    Upstream: `jax/_src/debugging.py` (`debug_callback`).
    """
    effect = ordered_debug_effect if ordered else debug_effect

    def bind(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if not callable(callback):
            raise errors.not_callable(type(callback))
        leaves, in_tree = tree_flatten((args, kwargs))
        arrays, static = split_static(leaves)
        called = DebugCallback(callback, in_tree, static)
        debug_callback_p.bind(
            *arrays, callback=called, effect=effect, partitioned=partitioned
        )

    if callback is not None:
        return bind(callback, *args, **kwargs)
    if args or kwargs:
        raise errors.unexpected_arguments("debug_callback", args, kwargs)
    return bind


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints values of a program: `debug_print("{x} is here", x=x)`.

    Not with an f-string, which is formatted before there are values.

    Args:
      fmt: as for `str.format`. Without it, a function is returned that takes it and
        the arguments.
      args, kwargs: what is formatted: pytrees of arrays, and anything else.
      ordered, partitioned: as for `debug_callback`.
      skip_format_check: whether arguments may be left out of `fmt`.

    Raises:
      ValueError: for arguments that `fmt` does not mention.

    >>> import minijax
    >>> f = minijax.jit(lambda x: debug_print("x is {x:.2f}", x=x))
    >>> f(1.0); minijax.effects_barrier()
    x is 1.00

    Upstream: `jax/_src/debugging.py` (`debug_print`).
    """

    def bind(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not skip_format_check:
            _FormatChecker().format(fmt, *args, **kwargs)
        leaves, in_tree = tree_flatten((args, kwargs))
        arrays, static = split_static(leaves)
        first = next(iter(string.Formatter().parse(fmt)), None)
        debug_print_p.bind(
            *arrays,
            fmt=fmt,
            has_placeholders=first is not None and first[1] is not None,
            in_tree=in_tree,
            logging_record=None,
            np_printoptions=tuple(
                (name, hashable(x)) for name, x in np.get_printoptions().items()
            ),
            ordered=ordered,
            partitioned=partitioned,
            static_args=static,
        )

    if fmt is not None:
        return bind(fmt, *args, **kwargs)
    if args or kwargs:
        raise errors.unexpected_arguments("debug_print", args, kwargs)
    return bind


class _FormatChecker(string.Formatter):
    """Formats nothing, and refuses arguments that are not mentioned."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(
        self, used_args: Any, args: Sequence[Any], kwargs: Any
    ) -> None:
        unused = [x for i, x in enumerate(args) if i not in used_args]
        if unused:
            raise errors.unused_positional(unused)
        names = [k for k in kwargs if k not in used_args]
        if names:
            raise errors.unused_keywords(names)


class DebugCallback(FlatCallback):
    """A callback of `debug_callback`; what it returns is dropped."""

    __slots__ = ()

    def __call__(self, *arrays: Any) -> list[Any]:
        super().__call__(*arrays)
        return []

    def __repr__(self) -> str:
        # As printed programs show upstream's: there it is a closure.
        name = "debug_callback.<locals>._debug_callback.<locals>._flat_callback"
        return f"<function {name} at {id(self):#x}>"


def _print(
    fmt: str,
    options: tuple[tuple[str, Any], ...],
    placeholders: bool,
    *args: Any,
    **kw: Any,
) -> None:
    if placeholders:
        shown = {name: x.value if type(x) is Held else x for name, x in options}
        with np.printoptions(**shown):
            text = fmt.format(*args, **kw)
    else:
        text = " ".join([fmt, *map(str, args)])
    sys.stdout.write(text + "\n")


# ------------------------------------------------------------------------ primitives

debug_callback_p = Primitive("debug_callback")
debug_print_p = Primitive("debug_print")


@debug_callback_p.def_abstract_eval
@debug_print_p.def_abstract_eval
def _type(*_: Any, **__: Any) -> list[Any]:
    return []


@debug_callback_p.def_effects
def _callback_effects(*_: Any, effect: Effect, **__: Any) -> frozenset[Effect]:
    return frozenset({effect})


@debug_print_p.def_effects
def _print_effects(*_: Any, ordered: bool, **__: Any) -> frozenset[Effect]:
    return frozenset({ordered_debug_effect if ordered else debug_effect})


@debug_callback_p.def_lowering
def _callback_lowering(
    ctx: Any, *values: Any, callback: FlatCallback, effect: Effect, partitioned: bool
) -> list[Any]:
    if ctx.mesh is not None and not ctx.manual_axes.issuperset(ctx.mesh.axis_names):
        again = partial(
            debug_callback_p.bind,
            callback=callback,
            effect=effect,
            partitioned=partitioned,
        )
        return _once_along_auto_axes(ctx, values, again)
    function = host_function("debug.callback", callback, [])
    if effect.ordered:
        function = passing_token(function)
        return call_python(
            ctx, function, values, order=effect, device=None, partitioned=partitioned
        )
    return call_python(ctx, function, values, partitioned=partitioned)


def _once_along_auto_axes(ctx: Any, values: Any, call: Callable[..., Any]) -> list[Any]:
    """In a `shard_map` over some axes: the first device along the others calls.

    The others become manual too, with the operands whole along them.
    """
    mesh = ctx.mesh
    others = [n for n in mesh.axis_names if n not in ctx.manual_axes]

    def fun(*args: Any) -> list[Any]:
        def on_each() -> list[Any]:
            first = axis_index(others if len(others) > 1 else others[0]) == 0
            return cond(first, lambda: call(*args), lambda: [])

        return shard_map(on_each, in_specs=(), out_specs=[])()

    with inside(mesh, ctx.manual_axes, False):
        jaxpr, _ = stage(fun, ctx.avals_in)
    return ctx.lower_jaxpr(jaxpr, values)


def _callback_eager(
    *args: Any, callback: FlatCallback, effect: Effect, **_: Any
) -> list[Any]:
    """Calls it here and now, with whole arrays; what it raises is raised."""
    if effect.ordered:
        wait_for(effect)
    given = [np.array(x, typeof(x).dtype) if type(x) is not Token else x for x in args]
    # As when it is compiled, it does not see the mesh around the call.
    Context().run(callback, *given)
    return []


@debug_print_p.def_lowering
def _print_lowering(ctx: Any, *values: Any, **params: Any) -> list[Any]:
    return _callback_lowering(ctx, *values, **_as_callback(**params))


def _print_eager(*args: Any, **params: Any) -> list[Any]:
    return _callback_eager(*args, **_as_callback(**params))


def _as_callback(
    *,
    fmt: str,
    has_placeholders: bool,
    in_tree: PyTreeDef,
    np_printoptions: Any,
    ordered: bool,
    partitioned: bool,
    static_args: Any,
    **_: Any,
) -> dict[str, Any]:
    """Printing as the parameters of a `debug_callback`."""
    show = partial(_print, fmt, np_printoptions, has_placeholders)
    return {
        "callback": DebugCallback(show, in_tree, static_args),
        "effect": ordered_debug_effect if ordered else debug_effect,
        "partitioned": partitioned,
    }


debug_callback_p.eager = _callback_eager
debug_print_p.eager = _print_eager


def _rules(primitive: Primitive) -> None:
    """Derivatives and batching, which are the same for both."""

    def jvp(primals: Any, _: Any, **params: Any) -> Any:
        return primitive.bind(*primals, **params), []

    def transpose(_: Any, *args: Any, **__: Any) -> list[None]:
        return [None] * len(args)

    def batch(axis: BatchAxis, args: Any, dims: Any, **params: Any) -> Any:
        for i in range(axis.size):
            element = [
                x if d is None else index_in_dim(x, i, d, keepdims=False)
                for x, d in zip(args, dims, strict=True)
            ]
            primitive.bind(*element, **params)
        return [], []

    primitive.jvp = jvp
    primitive.transpose = transpose
    primitive.batch = batch


_rules(debug_callback_p)
_rules(debug_print_p)
