"""Branches of which each device chooses its own.

Inside `shard_map` the index of a `cond` may vary over Manual axes. Then the results
vary over them too, even where all branches return constants. And what the branches
close over must be cast to varying outside of them: the transpose of that cast is a sum
over devices, and in a branch that only some devices run they would wait for the others
forever. Upstream does neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.avals import Names
from minijax.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, called_jaxpr, subjaxprs
from minijax.core.staging import stage_body
from minijax.core.trace import Tracer, typeof
from minijax.lax.collectives.primitives import pvary_p
from minijax.transforms.control.common import derived, is_token, vary_over, varying


class _Stuck(Exception):
    """A nested program would have to be typed anew."""


def varying_branches(
    jaxprs: Sequence[Jaxpr], consts: Sequence[Any], axes: Names
) -> tuple[list[Jaxpr], list[Any]]:
    """Branches whose results vary over `axes`, and their constants.

    Constants that might be differentiated are cast. Where a branch hands one on to a
    nested loop, which is typed already, all stay as they are.
    """
    cast = [vary_over(x, axes) if isinstance(x, Tracer) else x for x in consts]
    try:
        return [_retyped(j, cast, axes) for j in jaxprs], cast
    except _Stuck:
        return [_retyped(j, consts, axes) for j in jaxprs], list(consts)


def _retyped(jaxpr: Jaxpr, consts: Sequence[Any], axes: Names) -> Jaxpr:
    """The program on constants of other types."""
    avals = [*[typeof(x) for x in consts], *jaxpr.in_avals[len(consts) :]]
    same = all(a == b for a, b in zip(avals, jaxpr.in_avals, strict=True))
    if same and all(is_token(a) or axes <= varying(a) for a in jaxpr.out_avals):
        return jaxpr

    def fun(*args: Any) -> list[Any]:
        return [vary_over(x, axes) for x in _run(jaxpr, args, axes)]

    return derived(
        jaxpr, ("varying", tuple(avals), axes), lambda: stage_body(fun, avals)
    )


def _run(jaxpr: Jaxpr, args: Sequence[Any], axes: Names) -> list[Any]:
    """Binds each equation again, with casts where operands have come to vary."""
    env: dict[Atom, Any] = dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        results = _bind(eqn, [read(v) for v in eqn.invars], axes)
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _bind(eqn: JaxprEqn, operands: list[Any], axes: Names) -> list[Any]:
    pairs = zip(operands, eqn.invars, strict=True)
    if all(varying(typeof(x)) == varying(v.aval) for x, v in pairs):
        return eqn.primitive.bind(*operands, **eqn.params)
    if eqn.primitive is pvary_p:
        return [vary_over(operands[0], frozenset(eqn.params["axes"]))]
    called = called_jaxpr(eqn)
    if called is not None:
        return _run(called, operands, axes)
    if any(True for _ in subjaxprs(eqn.params)):
        raise _Stuck
    return eqn.primitive.bind(*[vary_over(x, axes) for x in operands], **eqn.params)
