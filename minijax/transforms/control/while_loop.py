"""while_loop and fori_loop: a body run as long as a condition holds.

    c = while[body_jaxpr body_nconsts cond_jaxpr cond_nconsts] cond_consts body_consts c0

The condition reads the carry and decides; the body turns one carry into the next, of
the same type. How often is not known beforehand, so a while loop has a derivative
forwards but not backwards. `fori_loop` with bounds that are known is a `scan`, which
has both.

Mapped over many conditions by `vmap`, the loop runs until none holds, and leaves alone
the carries of elements that are done.

StableHLO: `while`. Upstream: `jax/_src/lax/control_flow/loops.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, ref

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import control as errors
from minijax.core.jaxpr import Jaxpr, Var, collective_names, dead_code_eliminated
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_unflatten,
    treedef_is_leaf,
    treedef_tuple,
)
from minijax.core.trace import Tracer, typeof
from minijax.lax.arithmetic import add
from minijax.lax.compare import lt
from minijax.lax.convert import convert_element_type
from minijax.lax.rules import const, instantiate
from minijax.lowering import dialect
from minijax.lowering.dialect import Region, ir_type, op
from minijax.transforms.control.common import (
    Body,
    Mask,
    check_carry,
    chosen,
    derived,
    fixpoint,
    forwarding,
    is_token,
    merged,
    promote_weak,
    rearranged,
    split_at,
    token_dims,
    trace_body,
    vary_over,
    varying,
    where,
)
from minijax.transforms.control.scan import scan
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from minijax.transforms.vmap import BatchAxis, at_dim, batch_jaxpr

Function = Callable[..., Any]

# ------------------------------------------------------------------ public functions


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Applies `body_fun` to a value as long as `cond_fun` of it holds.

    Args:
      cond_fun: from a value to a boolean scalar.
      body_fun: from a value to the next, of the same tree and types.
      init_val: a pytree of arrays. Weakly typed leaves, such as Python scalars, take
        the type that comes out of the body.

    Raises:
      TypeError: where what comes out of the functions is of another tree or type.
      ValueError: when it is differentiated in reverse mode.

    >>> int(while_loop(lambda x: x < 100, lambda x: x * 2, 3))
    192

    Upstream: `jax/_src/lax/control_flow/loops.py` (`while_loop`).
    """
    if not (callable(body_fun) and callable(cond_fun)):
        what = "body_fun and cond_fun arguments should be"
        raise errors.not_callable("while_loop", what)
    init, tree = tree_flatten(init_val)
    init, cond, body = _traced(cond_fun, body_fun, init, tree)
    avals = [typeof(x) for x in init]
    after = body.out_tree, body.jaxpr.out_avals
    check_carry("while_loop body", body_fun, (tree, avals), after)
    return tree_unflatten(body.out_tree, _bind(cond, body, init))


def _traced(
    cond_fun: Function, body_fun: Function, init: list[Any], tree: PyTreeDef
) -> tuple[list[Any], Body, Body]:
    """Traces both functions on the types of the carry, which the first pass tells."""
    in_tree = treedef_tuple((treedef_tuple((tree,)), tree_flatten({})[1]))
    for _ in range(3):
        avals = [typeof(x) for x in init]
        cond = trace_body(cond_fun, in_tree, avals, "while_cond")
        body = trace_body(body_fun, in_tree, avals, "while_body")
        pred = _check_condition(cond)
        outs = body.jaxpr.out_avals
        if len(outs) != len(avals):
            break
        promoted = [
            promote_weak(x, a, b) for x, a, b in zip(init, avals, outs, strict=True)
        ]
        # Where devices decide for themselves when to stop, all carries vary.
        spread = [vary_over(x, varying(pred)) for x, _ in promoted]
        changed = any(c for _, c in promoted) or any(
            x is not y for x, (y, _) in zip(spread, promoted, strict=True)
        )
        if not changed:
            break
        init = spread
    return init, cond, body


def _check_condition(cond: Body) -> Any:
    """The type of the condition, which must be a boolean scalar."""
    if not treedef_is_leaf(cond.out_tree) or cond.out_tree.num_leaves != 1:
        raise errors.not_boolean_tree(cond.out_tree)
    (aval,) = cond.jaxpr.out_avals
    scalar = isinstance(aval, ShapedArray) and aval.shape == ()
    if not scalar or aval.dtype != np.bool_:
        raise errors.not_boolean(cond.jaxpr.out_avals)
    return aval


def _bind(cond: Body, body: Body, init: list[Any]) -> list[Any]:
    """Binds the loop; carries that never change and decide nothing become constants."""
    count, num_consts = len(init), len(body.consts)
    cond_jaxpr, body_jaxpr = cond.closed(), body.closed()
    passed = [i == num_consts + k for k, i in enumerate(forwarding(body_jaxpr))]
    still: Mask = [False] * count
    if any(passed):
        start = len(cond.consts)
        _, read = dead_code_eliminated(cond_jaxpr, [True])
        still = [
            p and not r for p, r in zip(passed, read[start:], strict=True)
        ]
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


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Function,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): value = body_fun(i, value)`, from `init_val`.

    With bounds that are known while tracing it is a `scan`, which can be differentiated
    in both modes; else it is a `while_loop`.

    Args:
      lower, upper: integer scalars of one dtype; Python's take that of the other.
      body_fun: from an index and a value to the next value, of the same types.
      unroll: as for `scan`; only where the bounds are known.

    >>> int(fori_loop(0, 5, lambda i, x: x + i, 0))
    10

    Upstream: `jax/_src/lax/control_flow/loops.py` (`fori_loop`).
    """
    if not callable(body_fun):
        raise errors.not_callable("fori_loop", "body_fun argument should be")
    avals = typeof(lower), typeof(upper)
    dtype = _index_dtype(*avals)
    bounds = _known_bounds(lower, upper)
    if bounds is not None:
        (_, result), _ = scan(
            _around(body_fun, _scan_body),
            (bounds[0], init_val),
            None,
            length=max(bounds[1] - bounds[0], 0),
            unroll=False if unroll is None else unroll,
        )
        return result
    if unroll is not None and unroll is not False and unroll != 1:
        raise errors.fori_unroll()
    lower, upper = [
        x if a.dtype == dtype else convert_element_type(x, dtype)
        for x, a in zip((lower, upper), avals, strict=True)
    ]
    init = (lower, upper, init_val)
    return while_loop(_fori_cond, _around(body_fun, _while_body), init)[2]


def _index_dtype(lower: ShapedArray, upper: ShapedArray) -> Any:
    if lower.dtype == upper.dtype:
        return lower.dtype
    signed = all(dtypes.issubdtype(a.dtype, np.signedinteger) for a in (lower, upper))
    if not signed or lower.weak_type == upper.weak_type:
        raise errors.fori_types(lower.dtype.name, upper.dtype.name)
    return upper.dtype if lower.weak_type else lower.dtype


def _known_bounds(lower: Any, upper: Any) -> tuple[int, int] | None:
    known = [x.concrete() if isinstance(x, Tracer) else x for x in (lower, upper)]
    if known[0] is None or known[1] is None:
        return None
    try:
        return operator.index(int(known[0])), operator.index(int(known[1]))
    except TypeError:
        return None


# Loop bodies around users' functions: the same for the same, to be traced only once.
_bodies: WeakKeyDictionary[Any, dict[Any, Function]] = WeakKeyDictionary()


def _around(fun: Function, wrapper: Function) -> Function:
    """`wrapper` of `fun`, which it refers to weakly, as it is kept with it."""
    try:
        memo, known = _bodies.setdefault(fun, {}), ref(fun)
    except TypeError:
        return partial(wrapper, fun)

    def body(loop_carry: Any, *rest: Any) -> Any:
        return wrapper(known(), loop_carry, *rest)

    return memo.setdefault(wrapper, body)


def _fori_cond(carry: Any) -> Any:
    i, upper, _ = carry
    return lt(i, upper)


def _while_body(body_fun: Function, carry: Any) -> Any:
    i, upper, x = carry
    return add(i, const(i, 1)), upper, body_fun(i, x)


def _scan_body(body_fun: Function, carry: Any, _: Any) -> Any:
    i, x = carry
    return (add(i, const(i, 1)), body_fun(i, x)), None


# ------------------------------------------------------------------------- primitive

while_p = Primitive("while")


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
    outs = op("stablehlo.while", values, types, regions=regions)
    return ctx.with_shardings(outs[sum(sizes) :], ctx.avals_out)


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
