"""checkpoint: computing again on the way back what need not be kept on the way there.

    y = remat2[jaxpr differentiated policy prevent_cse] x

Reverse-mode differentiation keeps residuals between its two passes. Of a function
under `checkpoint` it keeps only the arguments, and what the policy says is worth
keeping; the backward pass computes the rest again. The results are the same; memory is
traded for time.

When the equation is split by partial evaluation, the known results are computed at
once, and the unknown part is recorded as one equation that begins by computing the
known part again. A barrier around its operands keeps the compiler from seeing that the
two computations are the same.

StableHLO: the body itself, behind an `optimization_barrier` once it is differentiated.
Upstream: `jax/_src/ad_checkpoint.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from minijax.core.errors import callbacks as errors
from minijax.core.jaxpr import (
    Atom,
    Jaxpr,
    Literal,
    Var,
    collective_names,
    dead_code_eliminated,
    eval_jaxpr,
)
from minijax.core.linear import UndefinedPrimal, Zero, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import StagingTrace, stage_body
from minijax.core.trace import typeof, use_trace
from minijax.lax.rules import instantiate
from minijax.lowering.dialect import ir_type, op
from minijax.transforms.control.common import chosen, derived, merged, trace_body
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import (
    PartialEvalJaxpr,
    PartialEvalTrace,
    partial_eval_jaxpr,
)
from minijax.transforms.transpose import backward_pass
from minijax.transforms.vmap import BatchAxis, batch_jaxpr

Policy = Callable[..., bool]


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """`fun`, of which reverse-mode differentiation keeps only the arguments.

    Args:
      fun: a function of pytrees of arrays; without it, a decorator is returned.
      prevent_cse: whether to keep the compiler from merging the computation that is
        made again with the first one, which would undo the saving.
      policy: `policy(primitive, *avals, **params)` says whether results of a primitive
        are kept; by default none is. See `checkpoint_policies`.
      static_argnums: positions of arguments that are no arrays.

    >>> import minijax, minijax.numpy as jnp
    >>> float(minijax.grad(checkpoint(lambda x: x * x * x))(2.0))
    12.0

    Upstream: `jax/_src/ad_checkpoint.py` (`checkpoint`).
    """
    if fun is None:
        return partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
        )
    positions = (static_argnums,) if isinstance(static_argnums, int) else static_argnums

    @wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        body_fun, dynamic = _without_static(fun, args, positions)
        leaves, in_tree = tree_flatten((dynamic, kwargs))
        avals = [typeof(x) for x in leaves]
        body = trace_body(body_fun, in_tree, avals, "checkpoint / remat")
        outs = remat_p.bind(
            *body.consts,
            *leaves,
            jaxpr=body.closed(),
            prevent_cse=prevent_cse,
            differentiated=False,
            policy=policy,
        )
        return tree_unflatten(body.out_tree, outs)

    return checkpointed


remat = checkpoint


def _without_static(
    fun: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function of the other arguments, and those."""
    if not positions:
        return fun, args
    static = {i % len(args) for i in positions}

    def of_dynamic(*dynamic: Any, **kwargs: Any) -> Any:
        rest = iter(dynamic)
        every = [x if i in static else next(rest) for i, x in enumerate(args)]
        return fun(*every, **kwargs)

    return of_dynamic, tuple(x for i, x in enumerate(args) if i not in static)


class checkpoint_policies:
    """Ready-made answers to what is worth keeping.

    Upstream: `jax.checkpoint_policies`.
    """

    @staticmethod
    def everything_saveable(*_: Any, **__: Any) -> bool:
        """Keeps all, as without `checkpoint`."""
        return True

    @staticmethod
    def nothing_saveable(*_: Any, **__: Any) -> bool:
        """Keeps only arguments."""
        return False

    @staticmethod
    def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
        """Keeps matrix products, which are dear to compute again."""
        return primitive.name == "dot_general"

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(
        primitive: Primitive, *_: Any, **params: Any
    ) -> bool:
        """Keeps those without batch dimensions."""
        if primitive.name != "dot_general":
            return False
        return not any(params["dimension_numbers"][1])

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


# ------------------------------------------------------------------------- primitive

remat_p = Primitive("remat2")
remat_p.axis_names = lambda params: collective_names(params["jaxpr"])


@remat_p.def_abstract_eval
def _type(*_: Any, jaxpr: Jaxpr, **__: Any) -> list[Any]:
    return jaxpr.out_avals


@remat_p.def_effects
def _effects(*_: Any, jaxpr: Jaxpr, **__: Any) -> Any:
    return jaxpr.effects


@remat_p.def_lowering
def _lowering(
    ctx: Any,
    *values: Any,
    jaxpr: Jaxpr,
    differentiated: bool,
    prevent_cse: bool,
    **_: Any,
) -> Any:
    held: Sequence[Any] = values
    if differentiated and prevent_cse and values:
        types = [ir_type(a) for a in ctx.avals_in]
        held = op("stablehlo.optimization_barrier", values, types)
    return ctx.lower_jaxpr(jaxpr, held)


@remat_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    nonzero = [type(t) is not Zero for t in tangents]
    body, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    results = remat_p.bind(*primals, *chosen(tangents, nonzero), jaxpr=body, **params)
    count = len(jaxpr.outvars)
    found = iter(results[count:])
    tangents_out = [
        next(found) if n else Zero(a.to_tangent())
        for n, a in zip(nonzero_out, jaxpr.out_avals, strict=True)
    ]
    return results[:count], tangents_out


@remat_p.def_batch
def _batch(
    axis: BatchAxis, args: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any
) -> Any:
    body, out_dims = batch_jaxpr(jaxpr, axis, dims)
    return remat_p.bind(*args, jaxpr=body, **params), out_dims


# ----------------------------------------------------------------- partial evaluation


@remat_p.def_partial_eval
def _partial_eval(
    trace: PartialEvalTrace, args: Any, *, jaxpr: Jaxpr, policy: Any, **params: Any
) -> list[Any]:
    """Computes the known results; records an equation that computes all again."""
    refused = [e for e in jaxpr.effects if not e.repeatable]
    if refused:
        raise errors.remat_effects(refused)
    unknown = tuple(trace.is_unknown(x) for x in args)
    split: _Split = derived(
        jaxpr, ("remat split", unknown, policy), lambda: _Split(jaxpr, unknown, policy)
    )
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]

    def known() -> list[Any]:
        if isinstance(trace.parent, StagingTrace):
            return eval_jaxpr(split.known, [], known_args)
        # A derivative of this one shall not keep more either.
        early = params | {"differentiated": False}
        return remat_p.bind(*known_args, jaxpr=split.known, policy=policy, **early)

    idle = not (split.known.outvars or split.known.effects)
    results = [] if idle else trace.known(known)
    count = split.out_unknown.count(False)
    with use_trace(trace.staging):
        late = remat_p.bind(
            *[known_args[i] for i in split.reads],
            *results[count:],
            *chosen(args, unknown),
            jaxpr=split.again,
            policy=policy,
            **params | {"differentiated": True},
        )
    return merged(split.out_unknown, results[:count], late)


class _Split:
    """A body split so that its unknown part computes the known part again.

    * `known` takes the known inputs; it returns the known results, and those values
      that the policy keeps;
    * `again` takes the known inputs at the positions `reads`, the values kept, and the
      unknown inputs; it returns the unknown results.
    """

    def __init__(self, jaxpr: Jaxpr, unknown: Sequence[bool], policy: Any):
        parts = partial_eval_jaxpr(jaxpr, unknown)
        self.out_unknown = parts.out_unknown
        count = parts.out_unknown.count(False)
        kept = _kept(parts.known, count, policy)
        outs: list[Atom] = [*parts.known.outvars[:count], *kept]
        known = parts.known.replace(outvars=outs)
        live, read = dead_code_eliminated(known, [True] * len(outs))
        self.known = live.replace(invars=known.invars)
        again = _again(parts, kept, count)
        num_known = len(known.invars)
        _, read = dead_code_eliminated(again, [True] * len(again.outvars))
        self.reads = [i for i in range(num_known) if read[i]]
        self.again = again.replace(
            invars=[
                *[again.invars[i] for i in self.reads],
                *again.invars[num_known:],
            ]
        )


def _kept(known: Jaxpr, count: int, policy: Any) -> list[Var]:
    """The values that the backward pass needs and the policy wants to keep."""
    if policy is None:
        return []
    needed = {v for v in known.outvars[count:] if not isinstance(v, Literal)}
    live, _ = dead_code_eliminated(
        known, [i >= count for i in range(len(known.outvars))]
    )
    kept: list[Var] = []
    for eqn in live.eqns:
        avals = [v.aval for v in eqn.invars]
        if policy(eqn.primitive, *avals, **eqn.params):
            kept += [v for v in eqn.outvars if v in needed or _is_read(v, live)]
    return kept


def _is_read(var: Var, jaxpr: Jaxpr) -> bool:
    return any(var in eqn.invars for eqn in jaxpr.eqns)


def _again(parts: PartialEvalJaxpr, kept: Sequence[Var], count: int) -> Jaxpr:
    """The program of known inputs, kept values and unknown inputs."""
    known, late = parts.known, parts.unknown
    # With what is kept as inputs, what computes it is dead code.
    given = {v: Var(v.aval) for v in kept}

    def subst(atom: Any) -> Any:
        return atom if isinstance(atom, Literal) else given.get(atom, atom)

    eqns = [e.replace(invars=[subst(v) for v in e.invars]) for e in known.eqns]
    residuals = parts.residuals(known.invars, [subst(v) for v in known.outvars[count:]])
    first = Jaxpr([], [*known.invars, *given.values()], residuals, eqns)
    num_first = len(first.invars)

    def fun(*args: Any) -> list[Any]:
        made = eval_jaxpr(first, [], args[:num_first])
        return eval_jaxpr(late, [], [*made, *args[num_first:]])

    rest = late.in_avals[len(residuals) :]
    whole = stage_body(fun, [*first.in_avals, *rest])
    live, _ = dead_code_eliminated(whole, [True] * len(whole.outvars))
    return live.replace(invars=whole.invars)


@remat_p.def_transpose
def _transpose(
    cts: Any, *args: Any, jaxpr: Jaxpr, differentiated: bool, **params: Any
) -> list[Any]:
    """Computes the known part and runs backwards, in one equation."""
    linear = tuple(is_undefined(x) for x in args)
    zero = tuple(type(ct) is Zero for ct in cts)
    body, nonzero = derived(
        jaxpr,
        ("remat transpose", linear, zero),
        lambda: _transposed(jaxpr, linear, zero),
    )
    known = [x for x in args if not is_undefined(x)]
    given = [ct for ct in cts if type(ct) is not Zero]
    results = iter(
        remat_p.bind(*known, *given, jaxpr=body, differentiated=True, **params)
    )
    found = iter([next(results) if n else None for n in nonzero])
    return [next(found) if u else None for u in linear]


def _transposed(
    jaxpr: Jaxpr, linear: Sequence[bool], zero: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    # Equations that hold both a known and a linear part are split first.
    parts = partial_eval_jaxpr(jaxpr, linear, [True] * len(jaxpr.outvars))
    nonzero: list[bool] = []
    num_known = linear.count(False)

    def fun(*flat: Any) -> list[Any]:
        known, given = flat[:num_known], iter(flat[num_known:])
        cts = [
            Zero(a.to_cotangent()) if z else next(given)
            for a, z in zip(jaxpr.out_avals, zero, strict=True)
        ]
        residuals = parts.residuals(known, eval_jaxpr(parts.known, [], known))
        holes = [UndefinedPrimal(a) for a in chosen(jaxpr.in_avals, linear)]
        cts_in = backward_pass(parts.unknown, [*residuals, *holes], cts)
        found = cts_in[len(residuals) :]
        nonzero.extend(type(ct) is not Zero for ct in found)
        return [instantiate(ct) for ct in found if type(ct) is not Zero]

    avals = [a for a, u in zip(jaxpr.in_avals, linear, strict=True) if not u]
    ct_avals = [
        a.to_cotangent() for a, z in zip(jaxpr.out_avals, zero, strict=True) if not z
    ]
    whole = stage_body(fun, [*avals, *ct_avals])
    live, _ = dead_code_eliminated(whole, [True] * len(whole.outvars))
    return live.replace(invars=whole.invars), nonzero
