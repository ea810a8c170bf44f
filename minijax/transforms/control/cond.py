"""cond and switch: one of several programs, chosen while running.

    y = cond[branches=(false, true)] index *operands

All branches take the same operands: the values that any of them closes over, and then
the operands that the user gave. Their results have the same types. The index is an
int32 scalar, clamped into range. A branch that is not chosen does not run; but mapped
over many indices by `vmap`, all run, and `select_n` chooses among their results.

StableHLO: `case`. Upstream: `jax/_src/lax/control_flow/conditionals.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import control as errors
from minijax.core.jaxpr import Jaxpr, collective_names, eval_jaxpr
from minijax.core.linear import Zero, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import stage_body
from minijax.core.trace import is_value, typeof, use_trace
from minijax.lax.compare import eq, ne
from minijax.lax.convert import convert_element_type
from minijax.lax.gradients import stop_gradient_p
from minijax.lax.rules import batch_front, const, instantiate
from minijax.lax.select import clamp, select, select_n
from minijax.lax.shapes import asarray, broadcast_in_dim
from minijax.lax.tokens import after_all
from minijax.lowering.dialect import Region, ir_type
from minijax.transforms.control.common import (
    check_branches,
    chosen,
    derived,
    forwarding,
    is_token,
    merge_consts,
    merged,
    rearranged,
    token_dims,
    trace_body,
    vary_over,
    varying,
)
from minijax.transforms.control.varying import varying_branches
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import (
    PartialEvalJaxpr,
    PartialEvalTrace,
    partial_eval_jaxpr,
)
from minijax.transforms.transpose import transpose_jaxpr
from minijax.transforms.vmap import BatchAxis, batch_jaxpr

Branches = tuple[Jaxpr, ...]
Function = Callable[..., Any]
_NOT_GIVEN: Any = object()


# ------------------------------------------------------------------ public functions


def cond(
    pred: Any,
    true_fun: Function,
    false_fun: Function,
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

    Both functions are traced; only the chosen one runs. They may close over arrays.

    Args:
      pred: a scalar, boolean or a number, which holds unless it is zero.
      operands: pytrees of arrays.
      operand: the only operand, by keyword; an older way to give it.

    Raises:
      TypeError: for a predicate of another type or shape, and for functions whose
        results differ in tree or type.

    >>> import minijax.numpy as jnp
    >>> float(cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0))
    4.0

    Upstream: `jax/_src/lax/control_flow/conditionals.py` (`cond`).
    """
    if not (callable(true_fun) and callable(false_fun)):
        what = "true_fun and false_fun arguments should be"
        raise errors.not_callable("cond", what)
    index = convert_element_type(_as_bool(pred), np.int32)
    operands = _given(operands, operand)
    names = ("true_fun", "false_fun")
    return _choose("cond", index, (true_fun, false_fun), names, operands, -1)


def switch(
    index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _NOT_GIVEN
) -> Any:
    """`branches[index](*operands)`, with the index clamped into range.

    Args:
      index: an integer scalar.
      branches: functions whose results agree in tree and types.
      operands, operand: as for `cond`.

    Raises:
      TypeError: for an index of another type or shape, and for differing results.
      ValueError: where there are no branches.

    >>> import minijax.numpy as jnp
    >>> float(switch(7, [lambda x: x, lambda x: -x], 3.0))
    -3.0

    Upstream: `jax/_src/lax/control_flow/conditionals.py` (`switch`).
    """
    if not all(callable(f) for f in branches):
        what = "branches argument should be a sequence of callables."
        raise TypeError(f"lax.switch: {what}")
    operands = _given(operands, operand)
    if not is_value(index):
        raise errors.index_type(f"{index}.")
    aval = typeof(index)
    if aval.shape:
        raise errors.index_not_scalar(index, aval.shape)
    if aval.dtype.kind not in "iu":
        raise errors.index_type(f"{index} as {aval.dtype.name}")
    if not branches:
        raise errors.no_branches()
    if len(branches) == 1:
        return branches[0](*operands)
    last = np.int32(len(branches) - 1)
    index = clamp(np.int32(0), convert_element_type(index, np.int32), last)
    names = tuple(f"branch {i}" if i == 0 else f"branch{i}" for i in range(last + 1))
    return _choose("switch", index, tuple(branches), names, operands, 1)


def _given(operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise errors.operand_twice(operand, operands)
    return (operand,)


def _as_bool(pred: Any) -> Any:
    """The predicate as a boolean scalar, or an error."""
    if pred is None:
        raise errors.pred_is_none()
    if isinstance(pred, (str, Sequence)):
        raise errors.pred_not_scalar(pred, f"type {type(pred)}")
    if not is_value(pred):
        raise errors.pred_type(pred)
    aval = typeof(pred)
    if is_token(aval):
        raise errors.pred_type(aval)
    if aval.shape:
        raise errors.pred_not_scalar(pred, f"shape {aval.shape}.")
    kind = aval.dtype.kind
    if kind == "b":
        return pred
    if kind not in "iuf" and not dtypes.issubdtype(aval.dtype, np.floating):
        raise errors.pred_type(aval.dtype.name)
    return ne(pred, const(pred, 0))


def _choose(
    api: str,
    index: Any,
    funs: tuple[Function, ...],
    names: tuple[str, ...],
    operands: tuple[Any, ...],
    order: int,
) -> Any:
    """Traces the functions and binds; `order` -1 binds them last to first."""
    leaves, in_tree = tree_flatten((operands, {}))
    axes = varying(typeof(index))
    if axes:
        leaves = [vary_over(x, axes) for x in leaves]
    avals = [typeof(x) for x in leaves]
    bodies = [trace_body(f, in_tree, avals, api) for f in funs]
    for fun, name, body in zip(funs[1:], names[1:], bodies[1:], strict=True):
        check_branches(api, (names[0], name), (funs[0], fun), (bodies[0], body))
    jaxprs, consts = merge_consts(bodies)
    if axes:
        jaxprs, consts = varying_branches(jaxprs, consts, axes)
    inputs = [*consts, *leaves]
    # What all branches pass through needs no choosing.
    passed = [
        xs[0] if len(set(xs)) == 1 else None
        for xs in zip(*map(forwarding, jaxprs), strict=True)
    ]
    kept = [i for i, p in enumerate(passed) if p is None]
    branches = tuple(rearranged(j, None, kept) for j in jaxprs[::order])
    results = iter(cond_p.bind(index, *inputs, branches=branches))
    outs = [next(results) if p is None else _as_result(inputs[p]) for p in passed]
    return tree_unflatten(bodies[0].out_tree, outs)


def _as_result(x: Any) -> Any:
    return x if is_token(x) else asarray(x)


# ------------------------------------------------------------------------- primitive

cond_p = Primitive("cond")


def _axis_names(params: dict[str, Any]) -> tuple[str, ...]:
    found = [n for b in params["branches"] for n in collective_names(b)]
    return tuple(dict.fromkeys(found))


cond_p.axis_names = _axis_names


@cond_p.def_abstract_eval
def _type(*_: Any, branches: Branches) -> list[Any]:
    return branches[0].out_avals


@cond_p.def_effects
def _effects(*_: Any, branches: Branches) -> Any:
    return frozenset().union(*[b.effects for b in branches])


@cond_p.def_lowering
def _lowering(ctx: Any, index: Any, *values: Any, branches: Branches) -> Any:
    def region(branch: Jaxpr) -> Region:
        # A branch has no arguments: it reads the values around it.
        return Region([], lambda: ctx.lower_jaxpr(branch, values))

    types = [ir_type(a) for a in ctx.avals_out]
    outs = ctx.module.tokens.op(
        _effects(branches=branches),
        "stablehlo.case",
        [index],
        types,
        regions=[region(b) for b in branches],
        captured=True,
    )
    return ctx.with_shardings(outs, ctx.avals_out)


# ----------------------------------------------------------------------- derivatives


@cond_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, branches: Branches) -> Any:
    nonzero = [type(t) is not Zero for t in tangents[1:]]
    masks = [jvp_jaxpr(b, nonzero)[1] for b in branches]
    nonzero_out = [any(ms) for ms in zip(*masks, strict=True)]
    bodies = tuple(jvp_jaxpr(b, nonzero, nonzero_out)[0] for b in branches)
    results = cond_p.bind(*primals, *chosen(tangents[1:], nonzero), branches=bodies)
    count = len(nonzero_out)
    found = iter(results[count:])
    tangents_out = [
        next(found) if n else Zero(a.to_tangent())
        for n, a in zip(nonzero_out, branches[0].out_avals, strict=True)
    ]
    return results[:count], tangents_out


@cond_p.def_partial_eval
def _partial_eval(trace: PartialEvalTrace, args: Any, *, branches: Branches) -> Any:
    """Splits each branch; all hand over residuals of the same types."""
    index, *operands = args
    if trace.is_unknown(index):
        return trace.record(cond_p, args, {"branches": branches})
    unknown = tuple(trace.is_unknown(x) for x in operands)
    split = derived(
        branches[0],
        ("cond split", branches, unknown),
        lambda: _Split(branches, unknown),
    )
    known = [not u for u in unknown]
    known_operands = chosen(operands, known)
    results = trace.known(split.bind_known, index, known_operands)
    count = split.out_unknown.count(False)
    with use_trace(trace.staging):
        late = cond_p.bind(
            index,
            *results[count:],
            *[known_operands[i] for i in split.forwarded],
            *chosen(operands, unknown),
            branches=split.unknown,
        )
    return merged(split.out_unknown, results[:count], late)


class _Split:
    """Branches split in two.

    Known branches return the known results and the residuals; unknown ones take the
    residuals, those known operands that are residuals of any branch, by position in
    `forwarded`, and the unknown operands. Branches share residuals of the same type;
    one that has fewer returns zeros.
    """

    def __init__(self, branches: Branches, unknown: tuple[bool, ...]):
        masks = [partial_eval_jaxpr(b, unknown).out_unknown for b in branches]
        self.out_unknown = [any(ms) for ms in zip(*masks, strict=True)]
        splits = [partial_eval_jaxpr(b, unknown, self.out_unknown) for b in branches]
        used = {i for s in splits for i in s.forwarded if i is not None}
        self.forwarded = sorted(used)
        count = self.out_unknown.count(False)
        slots: list[Any] = []
        places = [_take_slots(s.known.out_avals[count:], slots) for s in splits]
        known = [
            _known_branch(s.known, count, p, slots)
            for s, p in zip(splits, places, strict=True)
        ]
        self.known = tuple(known)
        self.unknown = tuple(
            self._unknown_branch(s, p, slots)
            for s, p in zip(splits, places, strict=True)
        )

    def bind_known(self, index: Any, operands: list[Any]) -> list[Any]:
        """The known results and then the residuals."""
        idle = not any(b.outvars or b.effects for b in self.known)
        return [] if idle else cond_p.bind(index, *operands, branches=self.known)

    def _unknown_branch(
        self, split: PartialEvalJaxpr, places: list[int], slots: list[Any]
    ) -> Jaxpr:
        passed = {i: k + len(slots) for k, i in enumerate(self.forwarded)}
        computed = iter(places)
        residuals = [
            next(computed) if i is None else passed[i] for i in split.forwarded
        ]
        start = len(slots) + len(self.forwarded)

        def fun(*args: Any) -> list[Any]:
            own = [args[i] for i in residuals]
            return eval_jaxpr(split.unknown, [], [*own, *args[start:]])

        known_avals = split.known.in_avals
        rest = split.unknown.in_avals[len(residuals) :]
        avals = [*slots, *[known_avals[i] for i in self.forwarded], *rest]
        return stage_body(fun, avals)


def _take_slots(avals: Sequence[Any], slots: list[Any]) -> list[int]:
    """A slot of its type for each residual of a branch; new ones where needed."""
    taken: list[int] = []
    for aval in avals:
        free = (i for i, a in enumerate(slots) if a == aval and i not in taken)
        place = next(free, len(slots))
        if place == len(slots):
            slots.append(aval)
        taken.append(place)
    return taken


def _known_branch(
    jaxpr: Jaxpr, count: int, places: list[int], slots: list[Any]
) -> Jaxpr:
    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, [], args)
        filled = dict(zip(places, outs[count:], strict=True))
        rest = [
            filled[i] if i in filled else instantiate(Zero(a))
            for i, a in enumerate(slots)
        ]
        return [*outs[:count], *rest]

    return stage_body(fun, jaxpr.in_avals)


@cond_p.def_transpose
def _transpose(cts: Any, index: Any, *operands: Any, branches: Branches) -> list[Any]:
    linear = tuple(is_undefined(x) for x in operands)
    zero = tuple(type(ct) is Zero for ct in cts)
    bodies, nonzero = derived(
        branches[0],
        ("cond transpose", branches, linear, zero),
        lambda: _transposed(branches, linear, zero),
    )
    known = [x for x in operands if not is_undefined(x)]
    given = [ct for ct in cts if type(ct) is not Zero]
    results = iter(cond_p.bind(index, *known, *given, branches=bodies))
    found = iter([next(results) if n else None for n in nonzero])
    return [None, *[next(found) if u else None for u in linear]]


def _transposed(
    branches: Branches, linear: tuple[bool, ...], zero: tuple[bool, ...]
) -> tuple[Branches, list[bool]]:
    """Backward branches that return cotangents of the same linear operands."""
    parts = [transpose_jaxpr(b, linear, zero) for b in branches]
    nonzero = [any(ms) for ms in zip(*[mask for _, mask in parts], strict=True)]
    avals = [a.to_cotangent() for a in chosen(branches[0].in_avals, linear)]

    def filled(jaxpr: Jaxpr, own: list[bool]) -> Jaxpr:
        def fun(*args: Any) -> list[Any]:
            found = iter(eval_jaxpr(jaxpr, [], args))
            return [
                next(found) if mine else instantiate(Zero(a))
                for a, mine, wanted in zip(avals, own, nonzero, strict=True)
                if wanted
            ]

        return jaxpr if own == nonzero else stage_body(fun, jaxpr.in_avals)

    return tuple(filled(j, mask) for j, mask in parts), nonzero


# -------------------------------------------------------------------------- batching


@cond_p.def_batch
def _batch(axis: BatchAxis, args: Any, dims: Any, *, branches: Branches) -> Any:
    index, *operands = args
    index_dim, *dims = token_dims(args, dims)
    if index_dim is not None:
        return _batch_as_select(axis, index, operands, dims, branches)
    found = [batch_jaxpr(b, axis, dims)[1] for b in branches]
    wanted = [
        0 if any(d is not None for d in ds) and not is_token(a) else None
        for ds, a in zip(zip(*found, strict=True), branches[0].out_avals, strict=True)
    ]
    bodies = tuple(batch_jaxpr(b, axis, dims, wanted)[0] for b in branches)
    return cond_p.bind(index, *operands, branches=bodies), wanted


def _batch_as_select(
    axis: BatchAxis, index: Any, operands: Any, dims: Any, branches: Branches
) -> Any:
    """Runs all branches on all elements, and takes of each element the chosen one."""
    operands = [
        x if is_token(x) else batch_front(x, axis, d)
        for x, d in zip(operands, dims, strict=True)
    ]
    in_dims = [None if is_token(x) else 0 for x in operands]
    out_dims = [None if is_token(a) else 0 for a in branches[0].out_avals]
    outs = []
    for i, branch in enumerate(branches):
        body, _ = batch_jaxpr(branch, axis, in_dims, out_dims)
        picked = eq(index, const(index, i))
        # Elements that chose another branch get no derivative from this one, which
        # might be a NaN.
        safe = [_stopped_unless(picked, x) for x in operands]
        outs.append(eval_jaxpr(body, [], safe))
    return [_select_n(index, xs) for xs in zip(*outs, strict=True)], out_dims


def _stopped_unless(picked: Any, x: Any) -> Any:
    if is_token(x) or not dtypes.issubdtype(typeof(x).dtype, np.inexact):
        return x
    return select(_spread(picked, x), x, stop_gradient_p.bind1(x))


def _select_n(index: Any, cases: Sequence[Any]) -> Any:
    if is_token(cases[0]):
        return after_all(*cases)
    return select_n(_spread(index, cases[0]), *cases)


def _spread(which: Any, x: Any) -> Any:
    """A choice per element repeated along the element's dimensions."""
    shape = typeof(x).shape
    return which if len(shape) == 1 else broadcast_in_dim(which, shape, (0,))
