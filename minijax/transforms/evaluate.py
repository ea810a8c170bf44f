"""Evaluation: what binding a primitive means when nothing is being traced.

There is one path. The one-equation jaxpr is compiled, once per primitive, types,
placements and parameters, and run. Where a parameter is a program, what was compiled
dies with it. Only what looks into programs, `debug`, needs none: its `eager` rule runs.

Upstream: `jax/_src/dispatch.py` (`apply_primitive`, `xla_primitive_callable`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.bounded import Bounded
from minijax.core.errors import tracing as errors
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Var, subjaxprs
from minijax.core.mesh import get_abstract_mesh, get_concrete_mesh
from minijax.core.primitive import Primitive
from minijax.core.trace import Trace, typeof
from minijax.runtime.execute import Executable
from minijax.transforms.compile import (
    clear_compiled,
    compile_lowered,
    lower,
    placement,
    signature,
)

type _Call = Callable[[Sequence[Any]], list[Any]]
#: How to call what was compiled, and that itself, kept alive for others who need it.
type _Compiled = tuple[_Call, Executable | None]

_executables = Bounded[Any, _Compiled](16384)


class EvalTrace(Trace):
    """The trace below all others."""

    __slots__ = ()

    def process(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        # With the names: callers may give the same parameters in another order.
        key = (
            primitive,
            *[signature(x) for x in args],
            *params,
            *params.values(),
            get_abstract_mesh(),
            get_concrete_mesh(),
            dtypes.x64_enabled(),
        )
        found = _executables.get(key)
        if found is None:
            # What was made for a program that is a parameter is kept with that, under
            # a key that does not hold it.
            body = next(subjaxprs(params), None)
            table = _executables if body is None else body.cache
            if body is not None:
                key = ("compiled", *(None if k is body else k for k in key))
            found = table.get(key)
            if found is None:
                found = table[key] = _compile(primitive, args, params)
        return found[0](args)


def _compile(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
) -> _Compiled:
    names = primitive.axis_names
    if names is not None and names(params):
        raise errors.needs_mapped_context(primitive.name)
    if primitive.eager is not None:
        eager = primitive.eager
        return lambda args: eager(*args, **params), None
    avals = [typeof(x) for x in args]
    invars = [Var(a) for a in avals]
    outvars = [Var(a) for a in primitive.abstract_eval(*avals, **params)]
    effects = primitive.effects
    eqn = JaxprEqn(
        primitive,
        invars,
        outvars,
        params,
        frozenset() if effects is None else effects(*avals, **params),
    )
    jaxpr = Jaxpr([], invars, outvars, [eqn])
    kinds = [placement(x) for x in args]
    lowered = lower(
        jaxpr,
        params.get("name", primitive.name),
        kinds,
        runnable=True,
        describe=f"argument {{}} of {primitive.name}".format,
    )
    executable = compile_lowered(lowered)
    return executable.caller(kinds, kept=lowered.kept), executable


def clear_caches() -> None:
    """Forgets everything that was compiled; the next calls compile again.

    >>> clear_caches()
    """
    _executables.clear()
    clear_compiled()
