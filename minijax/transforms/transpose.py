"""Transposition: running a linear program backwards.

Given cotangents of the outputs, equations are visited last to first. Each one's
`transpose` rule turns the cotangents of its results into cotangents of the operands
it is linear in; a variable read several times adds them up. Equations that do not
depend on a linear input are evaluated first, forwards.

Upstream: `jax/_src/interpreters/ad.py` (`backward_pass`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.avals import abstract_token
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, in_mesh_of
from minijax.core.linear import UndefinedPrimal, Zero, is_undefined
from minijax.core.source import replaying
from minijax.core.staging import stage_body
from minijax.lax.rules import add_any, instantiate


def backward_pass(
    jaxpr: Jaxpr, args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of the arguments that are `UndefinedPrimal`, None for the others.

    Args:
      jaxpr: without constvars, linear in the undefined arguments taken together.
      args: the values of its inputs, or `UndefinedPrimal(aval)`.
      cotangents: one per output, possibly `Zero`.
    """
    values: dict[Var, Any] = {}
    linear: set[Var] = set()
    for var, arg in zip(jaxpr.invars, args, strict=True):
        if is_undefined(arg):
            linear.add(var)
        else:
            values[var] = arg
    backward = _run_known(jaxpr.eqns, values, linear)
    cts: dict[Var, Any] = {}
    for var, ct in zip(jaxpr.outvars, cotangents, strict=True):
        _accumulate(cts, var, ct, linear)
    with replaying() as source_is:
        for eqn in reversed(backward):
            source_is(eqn.source)
            with in_mesh_of(eqn.outvars):
                _transpose_eqn(eqn, values, linear, cts)
    return [
        cts.pop(v, Zero(v.aval.to_cotangent())) if v in linear else None
        for v in jaxpr.invars
    ]


def _run_known(
    eqns: Sequence[JaxprEqn], values: dict[Var, Any], linear: set[Var]
) -> list[JaxprEqn]:
    """Evaluates what does not depend on linear inputs; returns the other equations."""
    backward = []
    for eqn in eqns:
        if any(type(v) is not Literal and v in linear for v in eqn.invars):
            linear.update(eqn.outvars)
            backward.append(eqn)
        else:
            operands = [_read(values, v) for v in eqn.invars]
            with in_mesh_of(eqn.outvars):
                results = eqn.primitive.bind(*operands, **eqn.params)
            values.update(zip(eqn.outvars, results, strict=True))
    return backward


def _read(values: dict[Var, Any], atom: Any) -> Any:
    return atom.val if type(atom) is Literal else values[atom]


def _transpose_eqn(
    eqn: JaxprEqn, values: dict[Var, Any], linear: set[Var], cts: dict[Var, Any]
) -> None:
    cts_out = [cts.pop(v, None) for v in eqn.outvars]
    if all(ct is None for ct in cts_out):
        return
    cts_out = [
        Zero(v.aval.to_cotangent()) if ct is None else ct
        for v, ct in zip(eqn.outvars, cts_out, strict=True)
    ]
    operands = [
        UndefinedPrimal(v.aval)
        if type(v) is not Literal and v in linear
        else _read(values, v)
        for v in eqn.invars
    ]
    cts_in = eqn.primitive.transpose(cts_out, *operands, **eqn.params)
    for var, ct in zip(eqn.invars, cts_in, strict=True):
        if ct is not None:
            _accumulate(cts, var, ct, linear)


def _accumulate(cts: dict[Var, Any], var: Any, ct: Any, linear: set[Var]) -> None:
    if type(ct) is Zero or type(var) is Literal or var not in linear:
        return
    if var.aval is abstract_token:
        return  # the trivial cotangent
    so_far = cts.get(var)
    if so_far is not None:
        with in_mesh_of([var]):
            ct = add_any(so_far, ct)
    cts[var] = ct


def transpose_jaxpr(
    jaxpr: Jaxpr, linear: Sequence[bool], zero_cotangents: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr of the backward pass of a jaxpr.

    It takes the inputs not marked in `linear`, then the cotangents of the outputs not
    marked in `zero_cotangents`; it returns the cotangents of the linear inputs marked
    in the mask that comes second (of the length of the linear inputs); the others are
    zero.
    """
    key = ("transpose", tuple(linear), tuple(zero_cotangents))
    if key not in jaxpr.cache:
        jaxpr.cache[key] = _transpose_jaxpr(jaxpr, linear, zero_cotangents)
    return jaxpr.cache[key]


def _transpose_jaxpr(
    jaxpr: Jaxpr, linear: Sequence[bool], zero_cotangents: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    nonzero: list[bool] = []

    def fun(*flat: Any) -> list[Any]:
        given = iter(flat)
        args = [
            UndefinedPrimal(a) if is_linear else next(given)
            for a, is_linear in zip(jaxpr.in_avals, linear, strict=True)
        ]
        cts = [
            Zero(a.to_cotangent()) if zero else next(given)
            for a, zero in zip(jaxpr.out_avals, zero_cotangents, strict=True)
        ]
        cts_in = [ct for ct in backward_pass(jaxpr, args, cts) if ct is not None]
        nonzero.extend(type(ct) is not Zero for ct in cts_in)
        return [instantiate(ct) for ct in cts_in if type(ct) is not Zero]

    in_avals = [a for a, u in zip(jaxpr.in_avals, linear, strict=True) if not u]
    ct_avals = [
        a.to_cotangent()
        for a, zero in zip(jaxpr.out_avals, zero_cotangents, strict=True)
        if not zero
    ]
    out = stage_body(fun, [*in_avals, *ct_avals])
    return out, nonzero
