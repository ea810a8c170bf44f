"""Evaluation: what binding a primitive means when nothing is being traced.

There is one path. The one-equation jaxpr is compiled, once per primitive, types,
placements and parameters, and run.

Upstream: `jax/_src/dispatch.py` (`apply_primitive`, `xla_primitive_callable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.errors import tracing as errors
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Var
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

# Bounded: the oldest entry goes when a new one would be too many.
_MOST = 16384
_executables: dict[Any, tuple[Executable, list[int]]] = {}


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
            found = _compile(primitive, args, params)
            if len(_executables) >= _MOST:
                del _executables[next(iter(_executables))]
            _executables[key] = found
        executable, kept = found
        return executable.call(
            args if len(kept) == len(args) else [args[i] for i in kept]
        )


def _compile(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
) -> tuple[Executable, list[int]]:
    names = primitive.axis_names
    if names is not None and names(params):
        raise errors.needs_mapped_context(primitive.name)
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
    lowered = lower(
        jaxpr,
        params.get("name", primitive.name),
        [placement(x) for x in args],
        describe=f"argument {{}} of {primitive.name}".format,
    )
    return compile_lowered(lowered), lowered.kept


def clear_caches() -> None:
    """Forgets everything that was compiled; the next calls compile again.

    >>> clear_caches()
    """
    _executables.clear()
    clear_compiled()
