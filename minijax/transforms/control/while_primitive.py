"""The primitive of while loops, and its rules.

    c = while[body_jaxpr body_nconsts cond_jaxpr cond_nconsts] constants c0

Mapped over many conditions by `vmap`, the loop runs until none holds, and leaves alone
the carries of elements that are done. There is no backward pass, since how many steps
there are to be undone, and how many residuals to be kept, is not known.

StableHLO: `while`. Upstream: `jax/_src/lax/control_flow/loops.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from minijax.core.avals import ShapedArray
from minijax.core.effects import ordered_effects
from minijax.core.errors import control as errors
from minijax.core.jaxpr import Jaxpr, Var, collective_names, dead_code_eliminated
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.rules import instantiate
from minijax.lowering import dialect
from minijax.lowering.dialect import Region, ir_type
from minijax.transforms.control.common import (
    Body,
    Mask,
    chosen,
    derived,
    fixpoint,
    forwarding,
    is_token,
    merged,
    rearranged,
    split_at,
    token_dims,
    where,
)
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from minijax.transforms.vmap import BatchAxis, at_dim, batch_jaxpr

while_p = Primitive("while")


def bind_loop(cond: Body, body: Body, init: list[Any]) -> list[Any]:
    """Binds the loop; carries that never change and decide nothing become constants."""
    count, num_consts = len(init), len(body.consts)
    cond_jaxpr, body_jaxpr = cond.closed(), body.closed()
    passed = [i == num_consts + k for k, i in enumerate(forwarding(body_jaxpr))]
    still: Mask = [False] * count
    if any(passed):
        start = len(cond.consts)
        _, read = dead_code_eliminated(cond_jaxpr, [True])
        still = [p and not r for p, r in zip(passed, read[start:], strict=True)]
        moving = [not s for s in still]
        cond_jaxpr = rearranged(cond_jaxpr, [*range(start), *where(moving, start)])
        ins = [*where(still, num_consts), *range(num_consts)]
        body_jaxpr = rearranged(
            body_jaxpr, [*ins, *where(moving, num_consts)], where(moving)
        )
    constants = chosen(init, still)
    outs = while_p.bind(
        *cond.consts,
        *constants,
        *body.consts,
        *chosen(init, [not s for s in still]),
        cond_nconsts=len(cond.consts),
        cond_jaxpr=cond_jaxpr,
        body_nconsts=len(constants) + num_consts,
        body_jaxpr=body_jaxpr,
    )
    return merged(still, outs, constants)


def _axis_names(params: dict[str, Any]) -> tuple[str, ...]:
    found = [
        *collective_names(params["cond_jaxpr"]),
        *collective_names(params["body_jaxpr"]),
    ]
    return tuple(dict.fromkeys(found))


while_p.axis_names = _axis_names


@while_p.def_abstract_eval
def _type(*_: Any, body_jaxpr: Jaxpr, **__: Any) -> list[Any]:
    return body_jaxpr.out_avals


@while_p.def_effects
def _effects(*_: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **__: Any) -> Any:
    return cond_jaxpr.effects | body_jaxpr.effects


@while_p.def_lowering
def _lowering(
    ctx: Any,
    *values: Any,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> Any:
    """The constants are carried along. A condition per element stops each by itself."""
    types = [ir_type(a) for a in ctx.avals_in]
    sizes = (cond_nconsts, body_nconsts)
    if ordered_effects(cond_jaxpr.effects):
        return _decided_in_body(ctx, values, cond_jaxpr, body_jaxpr, sizes)
    (pred,) = cond_jaxpr.out_avals

    def cond(*args: Any) -> Any:
        consts, _, carry = split_at(args, *sizes)
        (go_on,) = ctx.lower_jaxpr(cond_jaxpr, [*consts, *carry])
        return [_any(go_on, pred)]

    def body(*args: Any) -> Any:
        cond_consts, consts, carry = split_at(args, *sizes)
        new = ctx.lower_jaxpr(body_jaxpr, [*consts, *carry])
        if pred.shape:
            (go_on,) = ctx.lower_jaxpr(cond_jaxpr, [*cond_consts, *carry])
            new = [
                _select(go_on, pred, x, old, a)
                for x, old, a in zip(new, carry, ctx.avals_out, strict=True)
            ]
        return [*cond_consts, *consts, *new]

    regions = [Region(types, cond), Region(types, body)]
    outs = ctx.module.tokens.op(
        body_jaxpr.effects, "stablehlo.while", values, types, None, regions, silent=(0,)
    )
    return ctx.with_shardings(outs[sum(sizes) :], ctx.avals_out)


def _decided_in_body(
    ctx: Any, values: Sequence[Any], cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, sizes: Any
) -> Any:
    """The same for a condition with ordered effects, which a loop's own cannot have.

    The decision is carried along: it is first made before the loop, and then at the
    end of each round, for the next.
    """
    (pred,) = cond_jaxpr.out_avals
    count = sum(sizes)

    def decide(cond_consts: Any, carry: Any) -> list[Any]:
        return ctx.lower_jaxpr(cond_jaxpr, [*cond_consts, *carry])

    def body(*args: Any) -> Any:
        cond_consts, consts, (go_on, *carry) = split_at(args, *sizes)
        new = ctx.lower_jaxpr(body_jaxpr, [*consts, *carry])
        if pred.shape:
            new = [
                _select(go_on, pred, x, old, a)
                for x, old, a in zip(new, carry, ctx.avals_out, strict=True)
            ]
        return [*cond_consts, *consts, *decide(cond_consts, new), *new]

    first = decide(values[: sizes[0]], values[count:])
    types = [ir_type(a) for a in ctx.avals_in]
    types.insert(count, ir_type(pred))
    outs = ctx.module.tokens.op(
        cond_jaxpr.effects | body_jaxpr.effects,
        "stablehlo.while",
        [*values[:count], *first, *values[count:]],
        types,
        None,
        [Region(types, lambda *args: [_any(args[count], pred)]), Region(types, body)],
        silent=(0,),
    )
    return ctx.with_shardings(outs[count + 1 :], ctx.avals_out)


def _any(pred: Any, aval: ShapedArray) -> Any:
    """Whether any of the conditions holds."""
    if not aval.shape:
        return pred
    scalar = ShapedArray((), aval.dtype)
    false = dialect.constant(False, aval.dtype)
    dims = range(aval.ndim)
    return dialect.reduce_op("stablehlo.or", pred, false, dims, scalar)


def _select(pred: Any, aval: ShapedArray, new: Any, old: Any, out: Any) -> Any:
    if is_token(out):
        return new
    kind = dialect.tensor(out.shape, aval.dtype)
    spread = dialect.broadcast_in_dim(pred, range(aval.ndim), kind)
    return dialect.op1("stablehlo.select", (spread, new, old), ir_type(out))


# ----------------------------------------------------------------------- derivatives


@while_p.def_jvp
def _jvp(
    primals: Any,
    tangents: Any,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> Any:
    """Carries get tangents where the initial ones or the body give them one."""
    sizes = (cond_nconsts, body_nconsts)
    nonzero = [type(t) is not Zero for t in tangents]
    _, consts_nonzero, init_nonzero = split_at(nonzero, *sizes)
    count = len(init_nonzero)

    def step(mask: Mask) -> tuple[Mask, Jaxpr]:
        body, found = jvp_jaxpr(body_jaxpr, [*consts_nonzero, *mask], mask)
        return found, body

    carry_nonzero, body = fixpoint(init_nonzero, step)
    cond_consts, consts, init = split_at(primals, *sizes)
    _, consts_dot, init_dot = split_at(tangents, *sizes)
    consts_dot = chosen(consts_dot, consts_nonzero)
    init_dot = [instantiate(t) for t in chosen(init_dot, carry_nonzero)]

    first = body_nconsts + count
    ins = [
        *range(body_nconsts),
        *range(first, first + len(consts_dot)),
        *range(body_nconsts, first),
        *range(first + len(consts_dot), len(body.invars)),
    ]
    results = while_p.bind(
        *cond_consts,
        *consts,
        *consts_dot,
        *init,
        *init_dot,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=_ignoring(cond_jaxpr, [typeof(x) for x in init_dot]),
        body_nconsts=body_nconsts + len(consts_dot),
        body_jaxpr=rearranged(body, ins),
    )
    found = iter(results[count:])
    tangents_out = [
        next(found) if n else Zero(a.to_tangent())
        for n, a in zip(carry_nonzero, body_jaxpr.out_avals, strict=True)
    ]
    return results[:count], tangents_out


def _ignoring(jaxpr: Jaxpr, avals: Sequence[Any]) -> Jaxpr:
    """The jaxpr with further inputs, which it does not read."""

    def make() -> Jaxpr:
        return jaxpr.replace(invars=[*jaxpr.invars, *map(Var, avals)])

    return derived(jaxpr, ("ignoring", tuple(avals)), make)


@while_p.def_partial_eval
def _partial_eval(trace: PartialEvalTrace, args: Any, **params: Any) -> list[Any]:
    """Runs the loop twice: for the carries that are known, and later for all.

    There can be no residuals, as the number of steps is not known.
    """
    sizes = (params["cond_nconsts"], params["body_nconsts"])
    unknown = [trace.is_unknown(x) for x in args]
    cond_unknown, consts_unknown, init_unknown = split_at(unknown, *sizes)
    body_jaxpr, cond_jaxpr = params["body_jaxpr"], params["cond_jaxpr"]

    def step(mask: Mask) -> tuple[Mask, Jaxpr]:
        split = partial_eval_jaxpr(body_jaxpr, [*consts_unknown, *mask], mask)
        return split.out_unknown, split.known

    carry_unknown, known_body = fixpoint(init_unknown, step)
    known_carry = carry_unknown.count(False)
    cond_split = partial_eval_jaxpr(cond_jaxpr, [*cond_unknown, *carry_unknown])
    late = trace.record(while_p, args, params)
    if cond_split.out_unknown[0] or not known_carry:
        return late
    known = [not u for u in [*cond_unknown, *consts_unknown, *carry_unknown]]
    bind_known = partial(
        while_p.bind,
        cond_nconsts=cond_unknown.count(False),
        cond_jaxpr=rearranged(cond_split.known, None, [0]),
        body_nconsts=consts_unknown.count(False),
        body_jaxpr=rearranged(known_body, None, range(known_carry)),
    )
    early = trace.known(bind_known, *chosen(args, known))
    return merged(carry_unknown, early, chosen(late, carry_unknown))


@while_p.def_transpose
def _transpose(*_: Any, **__: Any) -> NoReturn:
    raise errors.while_transpose()


# -------------------------------------------------------------------------- batching


@while_p.def_batch
def _batch(
    axis: BatchAxis,
    args: Any,
    dims: Any,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> Any:
    sizes = (cond_nconsts, body_nconsts)
    cond_consts, consts, init = split_at(args, *sizes)
    cond_dims, const_dims, init_dims = split_at(token_dims(args, dims), *sizes)
    rank = len(cond_jaxpr.out_avals[0].shape)

    def place(mask: Mask, dim: int) -> list[int | None]:
        return [dim if m else None for m in mask]

    def step(mask: Mask) -> tuple[Mask, None]:
        wanted = place(mask, 0)
        _, found = batch_jaxpr(body_jaxpr, axis, [*const_dims, *wanted], wanted)
        return [d is not None for d in found], None

    carry_mapped, _ = fixpoint([d is not None for d in init_dims], step)
    carry_dims = place(carry_mapped, 0)
    cond, (pred_dim,) = batch_jaxpr(cond_jaxpr, axis, [*cond_dims, *carry_dims])
    if pred_dim is not None:
        # Each element stops by itself, so that each needs a carry of its own.
        carry_dims = place([not is_token(x) for x in init], 0)
        cond, _ = batch_jaxpr(cond_jaxpr, axis, [*cond_dims, *carry_dims], [0])
    elif rank:
        # The dimensions of the condition stay in front.
        carry_dims = place(carry_mapped, rank)
        cond, _ = batch_jaxpr(cond_jaxpr, axis, [*cond_dims, *carry_dims])
    body, _ = batch_jaxpr(body_jaxpr, axis, [*const_dims, *carry_dims], carry_dims)
    new_init = [
        at_dim(x, axis, d, wanted)
        for x, d, wanted in zip(init, init_dims, carry_dims, strict=True)
    ]
    outs = while_p.bind(
        *cond_consts,
        *consts,
        *new_init,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=cond,
        body_nconsts=body_nconsts,
        body_jaxpr=body,
    )
    return outs, carry_dims
