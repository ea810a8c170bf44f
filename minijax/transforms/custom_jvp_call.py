"""The equation of a `custom_jvp` function, and the function's rule.

Upstream: `jax/_src/custom_derivatives.py` (`custom_jvp_call_p`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.errors import custom_rules as errors
from minijax.core.jaxpr import Jaxpr
from minijax.core.linear import Zero
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import fun_name
from minijax.core.trace import current_trace, is_evaluating, typeof, use_trace
from minijax.lax.rules import instantiate
from minijax.transforms.control.common import chosen, typematch
from minijax.transforms.custom_call import (
    FlatCall,
    Function,
    calls,
    front,
    is_float0,
    lower_trace,
    plain,
    staged_call,
    without_consts,
)
from minijax.transforms.jvp import JVPTrace
from minijax.transforms.vmap import BatchAxis, at_dim, batch_flat, batch_jaxpr

custom_jvp_call_p = calls("custom_jvp_call")


class JVPRule:
    """A user's rule as one of leaves: from primals and tangents to both results."""

    def __init__(self, call: FlatCall, rule: Function):
        self.call = call
        self.rule = rule

    def __repr__(self) -> str:
        return fun_name(self.rule)

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        call, name = self.call, fun_name(self.rule)
        pair = self.rule(
            *call.static.values(),
            tree_unflatten(call.in_tree, primals),
            tree_unflatten(call.in_tree, map(instantiate, tangents)),
        )
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise errors.jvp_not_a_pair(name, call.name, pair)
        outs, tree = tree_flatten(pair[0])
        tangents_out, tangent_tree = tree_flatten(pair[1])
        if tree != tangent_tree:
            raise errors.jvp_trees_differ(name, call.name, tree, tangent_tree)
        call.check_primal("JVP", name, outs, tree)
        _check_tangents(outs, tangents_out)
        return outs, [
            Zero(typeof(x).to_tangent()) if is_float0(t) else t
            for x, t in zip(outs, tangents_out, strict=True)
        ]


def _check_tangents(outs: Sequence[Any], tangents: Sequence[Any]) -> None:
    types = [(typeof(x), typeof(t)) for x, t in zip(outs, tangents, strict=True)]
    wrong = [(p, t) for p, t in types if not typematch(p.to_tangent(), t)]
    if not wrong:
        return
    if len(types) == 1:
        ((primal, tangent),) = wrong
        expected = plain(primal.to_tangent())
        raise errors.jvp_tangent_type(expected, plain(primal), plain(tangent))
    raise errors.jvp_tangent_types(
        "\n".join(
            f"  primal {plain(p)} with tangent {plain(t)}, expecting tangent "
            f"{plain(p.to_tangent())}"
            for p, t in wrong
        )
    )


def call_jvp(call: FlatCall, rule: Any, args: Sequence[Any]) -> list[Any]:
    """Runs the function or its rule, or binds the equation: as the trace demands."""
    if is_evaluating():
        return call(*args)
    below = lower_trace(args)
    if below is not None:
        with use_trace(below):
            return call_jvp(call, rule, args)
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        pairs = [trace.unpack(x) for x in args]
        with use_trace(trace.parent):
            outs, tangents = rule([p for p, _ in pairs], [t for _, t in pairs])
        return [trace.pair(p, t) for p, t in zip(outs, tangents, strict=True)]
    jaxpr, operands, num_consts = staged_call(call, args)
    return custom_jvp_call_p.bind(
        *operands,
        name=call.name,
        call_jaxpr=jaxpr,
        jvp=rule,
        num_consts=num_consts,
        symbolic_zeros=False,
    )


@custom_jvp_call_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, jvp: Any, num_consts: int, **_: Any) -> Any:
    return jvp(*without_consts("custom_jvp", primals, tangents, num_consts))


@custom_jvp_call_p.def_batch
def _batch_jvp(
    axis: BatchAxis,
    args: Any,
    dims: Any,
    *,
    call_jaxpr: Jaxpr,
    jvp: Any,
    num_consts: int,
    **params: Any,
) -> Any:
    """Maps the program and, when it is used, the rule."""
    out_dims = front(call_jaxpr.out_avals)
    body, _ = batch_jaxpr(call_jaxpr, axis, dims, out_dims)
    rule = _BatchedJVPRule(jvp, axis, dims[num_consts:], out_dims)
    outs = custom_jvp_call_p.bind(
        *args, call_jaxpr=body, jvp=rule, num_consts=num_consts, **params
    )
    return outs, out_dims


class _BatchedJVPRule:
    """A rule mapped over an axis."""

    def __init__(self, rule: Any, axis: BatchAxis, dims: Any, out_dims: Any):
        self.rule = rule
        self.axis = axis
        self.dims = dims
        self.out_dims = out_dims

    def __repr__(self) -> str:
        return repr(self.rule)

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        nonzero = [type(t) is not Zero for t in tangents]
        count = len(primals)
        zero_out: list[Any] = []

        def fun(*args: Any) -> list[Any]:
            given = iter(args[count:])
            own = [
                next(given) if n else Zero(typeof(p).to_tangent())
                for n, p in zip(nonzero, args, strict=False)
            ]
            outs, dots = self.rule(args[:count], own)
            zero_out.extend(type(t) is Zero for t in dots)
            return [*outs, *[t for t in dots if type(t) is not Zero]]

        values = [*primals, *chosen(tangents, nonzero)]
        dims = [*self.dims, *chosen(self.dims, nonzero)]
        found, found_dims = batch_flat(fun, self.axis, values, dims)
        num_outs = len(self.out_dims)
        wanted = [*self.out_dims]
        wanted += [d for d, z in zip(self.out_dims, zero_out, strict=True) if not z]
        placed = [
            at_dim(x, self.axis, d, w)
            for x, d, w in zip(found, found_dims, wanted, strict=True)
        ]
        outs, late = placed[:num_outs], iter(placed[num_outs:])
        return outs, [
            Zero(typeof(x).to_tangent()) if z else next(late)
            for x, z in zip(outs, zero_out, strict=True)
        ]
