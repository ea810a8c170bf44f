"""`jit`: a function traced once per signature, compiled once per placement.

The way of a call: flatten the arguments, look its signature up, run. A signature seen
for the first time is traced, lowered and compiled. Under a trace the primitive of
`jit_primitive` is bound instead, with the traced function as its parameter.

Upstream: `jax/_src/api.py` (`jit`), `jax/_src/pjit.py`, `jax/_src/stages.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, NamedTuple

import numpy as np

from minijax.core import dtypes
from minijax.core.arguments import check_callable
from minijax.core.avals import ShapedArray, ShapeDtypeStruct
from minijax.core.bounded import Bounded
from minijax.core.errors import jit as errors
from minijax.core.jaxpr import ClosedJaxpr, Jaxpr
from minijax.core.mesh import get_abstract_mesh, get_concrete_mesh
from minijax.core.pytree import (
    LEAF,
    equality_errors,
    keystr,
    tree_flatten,
    tree_unflatten,
)
from minijax.core.staging import (
    DebugInfo,
    consts_as_args,
    fun_name,
    result_paths,
    stage_tree,
)
from minijax.core.trace import NO_AXES, Tracer, axis_env, is_evaluating, is_value
from minijax.runtime.array import Array, Kind
from minijax.runtime.execute import Executable
from minijax.runtime.placement import device_put
from minijax.transforms import compile as compiling
from minijax.transforms.jit_primitive import bind_body
from minijax.transforms.shapes import as_struct, aval_of_leaf, sharding_of_leaf
from minijax.transforms.signature import NO_STATIC, Options, Static

# A level of jit or scan takes up to twenty frames of Python, so Python's own limit of
# a thousand is reached at fifty levels. Since 3.12 frames lie on no C stack.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))

#: Signatures that a function is kept traced and compiled for; the oldest goes first.
_MOST_SIGNATURES = 4096


class _Traced(NamedTuple):
    """A function traced for one signature."""

    jaxpr: Jaxpr  # takes the constants, then the arguments
    consts: list[Any]
    in_tree: Any
    out_tree: Any
    names: Callable[[], list[str]]  # of the arguments


class _Ready(NamedTuple):
    """A function compiled for one signature and placement."""

    call: Callable[[Sequence[Any]], list[Any]]
    out_tree: Any
    executable: Executable


class JitFunction:
    """What `jit` returns: call it, or `lower`, `trace` or `eval_shape` it."""

    def __init__(self, fun: Callable[..., Any], options: Options):
        self._fun = fun
        self._options = options
        self._traced = Bounded[Any, _Traced](_MOST_SIGNATURES)
        self._ready = Bounded[Any, _Ready](_MOST_SIGNATURES)
        # Not `__dict__`: that of another JitFunction would replace this one's.
        update_wrapper(self, fun, updated=())

    def __repr__(self) -> str:
        return f"<JitFunction of {self._fun!r}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        static = None
        if self._options.has_static:
            static, args, kwargs = self._options.split(args, kwargs)
        if not is_evaluating():
            return self._bind(static or NO_STATIC, *tree_flatten((args, kwargs)))
        # Almost every call comes here and finds its signature, so few steps are taken:
        # where the arguments are just arrays there is no tree to look at.
        leaves: Sequence[Any] = args
        tree: Any = None
        kinds = [x.kind for x in args if type(x) is Array]
        if kwargs or len(kinds) < len(args):
            leaves, tree = tree_flatten((args, kwargs) if kwargs else args)
            kinds = [x.kind if type(x) is Array else _other(x) for x in leaves]
        axes = axis_env()
        key = (
            tree,
            static,
            not kwargs,
            get_abstract_mesh(),
            get_concrete_mesh(),
            None if axes is NO_AXES else axes,  # hashing it takes a call in Python
            dtypes.x64_enabled(),
            *kinds,
        )
        ready = self._ready.get(key)
        if ready is None:
            _, tree = tree_flatten((args, kwargs))
            ready = self._ready[key] = self._compile(static or NO_STATIC, leaves, tree)
        call, out_tree, _ = ready
        outs = call(leaves)
        return outs[0] if out_tree is LEAF else out_tree.unflatten(outs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers for these arguments, or for `ShapeDtypeStruct`s of them.

        Returns a `Lowered`, whose `as_text()` is the StableHLO module.
        """
        static, leaves, tree = self._flatten(args, kwargs)
        return Lowered(*self._lower(static, leaves, tree))

    def trace(self, *args: Any, **kwargs: Any) -> ClosedJaxpr:
        """The jaxpr for these arguments; captured arrays are leading arguments."""
        return ClosedJaxpr(self._trace(*self._flatten(args, kwargs)).jaxpr)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the result, without computing it."""
        traced = self._trace(*self._flatten(args, kwargs))
        return tree_unflatten(traced.out_tree, map(as_struct, traced.jaxpr.out_avals))

    def clear_cache(self) -> None:
        """Forgets what was traced and compiled."""
        self._traced.clear()
        self._ready.clear()

    def _flatten(self, args: Any, kwargs: Any) -> tuple[Static, list[Any], Any]:
        static, args, kwargs = self._options.split(args, kwargs)
        return static, *tree_flatten((args, kwargs))

    def _trace(self, static: Static, leaves: Sequence[Any], tree: Any) -> _Traced:
        for i, x in enumerate(leaves):
            if not (is_value(x) or isinstance(x, ShapeDtypeStruct)):
                name = static.names(self._fun, tree)[i]
                raise errors.not_an_abstract_array(self._fun, x, name)
        avals = tuple([aval_of_leaf(x) for x in leaves])
        env, mesh = axis_env(), get_abstract_mesh()
        key = (tree, static, avals, env, mesh, dtypes.x64_enabled())
        traced = self._traced.get(key)
        if traced is None:
            names = partial(static.names, self._fun, tree)
            jaxpr, consts, out_tree = stage_tree(
                static.close_over(self._fun),
                tree,
                avals,
                DebugInfo(self._fun, "jit", names),
            )
            # A numpy array is captured as it is now, whatever becomes of it.
            consts = [c.copy() if type(c) is np.ndarray else c for c in consts]
            traced = _Traced(consts_as_args(jaxpr), consts, tree, out_tree, names)
            # Another trace's tracers must not outlive it in a cache.
            if not any(isinstance(c, Tracer) for c in consts):
                self._traced[key] = traced
        return traced

    def _params(self, static: Static, traced: _Traced) -> dict[str, Any]:
        """The options as parameters of the traced program, constants included."""
        count = len(traced.consts)
        ins, outs = self._options.shardings(traced.in_tree, traced.out_tree)
        avals = traced.jaxpr.in_avals[count:]
        _check_placed("arguments", ins, avals, traced.names)
        paths = partial(_result_paths, traced.out_tree)
        _check_placed("outputs", outs, traced.jaxpr.out_avals, paths)
        donated = self._options.donated(static, traced.in_tree)
        return {
            "donated_invars": (False,) * count + donated,
            "in_shardings": (None,) * count + ins,
            "keep_unused": self._options.keep_unused,
            "out_shardings": outs,
        }

    def _bind(self, static: Static, leaves: Sequence[Any], tree: Any) -> Any:
        traced = self._trace(static, leaves, tree)
        mesh = get_concrete_mesh()
        outs = bind_body(
            traced.jaxpr,
            [*traced.consts, *leaves],
            fun_name(self._fun),
            ctx_mesh=None if mesh.empty else mesh,
            **self._params(static, traced),
        )
        return tree_unflatten(traced.out_tree, outs)

    def _lower(
        self, static: Static, leaves: Sequence[Any], tree: Any, runnable: bool = False
    ) -> tuple[_Traced, compiling.LoweredProgram]:
        traced = self._trace(static, leaves, tree)
        params = self._params(static, traced)
        values = [*traced.consts, *leaves]

        def describe(position: int) -> str:
            i = position - len(traced.consts)
            what = f"argument {traced.names()[i]}" if i >= 0 else "a captured array"
            return f"{what} of {fun_name(self._fun)}"

        lowered = compiling.lower(
            traced.jaxpr,
            fun_name(self._fun),
            [compiling.placement(x) for x in values],
            in_shardings=[
                asked or sharding_of_leaf(x)
                for asked, x in zip(params["in_shardings"], values, strict=True)
            ],
            out_shardings=params["out_shardings"],
            donated=params["donated_invars"],
            result_info=_result_paths(traced.out_tree),
            keep_unused=self._options.keep_unused,
            runnable=runnable,
            describe=describe,
        )
        return traced, lowered

    def _compile(self, static: Static, leaves: Sequence[Any], tree: Any) -> _Ready:
        traced, lowered = self._lower(static, leaves, tree, runnable=True)
        return _ready(traced, lowered, [compiling.placement(x) for x in leaves])


def _ready(
    traced: _Traced,
    lowered: compiling.LoweredProgram,
    placements: Sequence[Kind | None],
) -> _Ready:
    """Compiles for arguments that lie there."""
    executable = compiling.compile_lowered(lowered)
    # Captured arrays are put where the program wants them once, not at each call.
    consts = list(traced.consts)
    for position, sharding in zip(lowered.kept, executable.in_shardings, strict=True):
        if position < len(consts):
            consts[position] = device_put(consts[position], sharding)
    call = executable.caller(placements, consts, lowered.kept)
    return _Ready(call, traced.out_tree, executable)


class _Bound:
    """A jitted method bound to its instance."""

    def __init__(self, jitted: JitFunction, instance: Any):
        self._jitted = jitted
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(self._instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self._jitted, name), self._instance)


def _other(x: Any) -> Any:
    """What a leaf that is not an array adds to the signature of a call."""
    return compiling.signature(x) if is_value(x) else type(x)


class Lowered:
    """A function lowered for one signature, not yet compiled.

    Upstream: `jax/_src/stages.py` (`Lowered`).
    """

    def __init__(self, traced: _Traced, lowered: compiling.LoweredProgram):
        self._traced = traced
        self._lowered = lowered

    def as_text(self) -> str:
        """The StableHLO module."""
        return str(self._lowered.module)

    def compile(self) -> Compiled:
        """Compiles for the devices of the arguments."""
        anywhere = [None] * self._traced.in_tree.num_leaves
        ready = _ready(self._traced, self._lowered, anywhere)
        return Compiled(self._traced, ready)


class Compiled:
    """A function compiled for one signature; call it with arguments of that signature.

    Upstream: `jax/_src/stages.py` (`Compiled`).
    """

    def __init__(self, traced: _Traced, ready: _Ready):
        self._traced = traced
        self._ready = ready

    def as_text(self) -> str:
        """The optimised HLO."""
        return self._ready.executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate: floating-point operations, bytes accessed, ..."""
        return self._ready.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """What XLA says of the program's memory, in bytes."""
        return self._ready.executable.memory_analysis()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        traced, ready = self._traced, self._ready
        if tree != traced.in_tree:
            raise errors.wrong_call(_differences(tree, traced.in_tree))
        expected = traced.jaxpr.in_avals[len(traced.consts) :]
        got = [aval_of_leaf(x) for x in leaves]
        if any(map(_differ, expected, got)):
            triples = zip(traced.names(), expected, got, strict=True)
            raise errors.wrong_types([t for t in triples if _differ(*t[1:])])
        return tree_unflatten(ready.out_tree, ready.call(leaves))


def _result_paths(out_tree: Any) -> list[str]:
    """Where each flat result stands in the user's result: `result['a'][0]`."""
    return [f"result{path}" for path in result_paths(out_tree)]


def _check_placed(
    what: str,
    shardings: Sequence[Any],
    avals: Sequence[Any],
    names: Callable[[], list[str]],
) -> None:
    """Refuses shardings that do not cut their values in equal parts."""
    for i, (sharding, aval) in enumerate(zip(shardings, avals, strict=True)):
        if sharding is None or not isinstance(aval, ShapedArray):
            continue
        try:
            sharding.check_compatible_aval(aval.shape)
            sharding.shard_shape(aval.shape)
        except ValueError as error:
            raise errors.bad_placement(what, names()[i], sharding, error) from None


def _differ(expected: Any, got: Any) -> bool:
    """Whether types differ in more than where values lie."""
    if not isinstance(expected, ShapedArray) or not isinstance(got, ShapedArray):
        return expected != got
    return (expected.shape, expected.dtype) != (got.shape, got.dtype)


def _differences(now: Any, was: Any) -> list[tuple[str, str, str, str]]:
    """How the trees of `(args, kwargs)` differ, with where as the user would say it."""
    trees = [tree_unflatten(t, range(t.num_leaves)) for t in (now, was)]
    return [
        (("args", "kwargs")[path[0].idx] + keystr(path[1:]), old, new, why)
        for path, old, new, why in equality_errors(*trees)
    ]


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
) -> Any:
    """Compiles a function of pytrees of arrays, when it is first called.

    Args:
      fun: the function; without it, a decorator is returned.
      in_shardings, out_shardings: pytree prefixes of shardings for the positional
        arguments and for the result; None leaves the choice open.
      static_argnums, static_argnames: hashable arguments that are part of the program:
        each new value is traced anew.
      donate_argnums, donate_argnames: arguments whose memory may be reused; they are
        deleted by the call.
      keep_unused: whether the program takes arguments that it does not read.

    Returns:
      A `JitFunction`, called like `fun`.

    Raises:
      ValueError: for static arguments that cannot be hashed, positions or names that
        `fun` does not have, and arguments on different devices.
      TypeError: for arguments that are no arrays.

    >>> import minijax, minijax.numpy as jnp
    >>> @minijax.jit
    ... def f(x):
    ...     return jnp.sin(x) ** 2
    >>> float(f(0.0))
    0.0

    Upstream: `jax/_src/api.py` (`jit`).
    """
    if fun is None:
        return partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
        )
    check_callable(fun)
    return JitFunction(
        fun,
        Options(
            fun,
            static_argnums,
            static_argnames,
            donate_argnums,
            donate_argnames,
            in_shardings,
            out_shardings,
            keep_unused,
        ),
    )
