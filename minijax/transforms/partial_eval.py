"""Partial evaluation: doing now what is known, recording the rest.

The trace runs work on known values in its parent and records work that touches an
unknown one in a staging trace. Unknown values are that staging trace's tracers, so a
known operand of a recorded equation becomes a constant of the recorded program: a
*residual*, carried from the known part to the unknown part.

`linearize` is partial evaluation of `jvp`, with primals known and tangents unknown:
what is recorded is a program linear in the tangents.

Upstream: `jax/_src/interpreters/partial_eval.py` (`JaxprTrace`, `partial_eval_jaxpr`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.ending import ending
from minijax.core.jaxpr import Jaxpr, Literal, dead_code_eliminated, eval_jaxpr
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.staging import (
    DebugInfo,
    StagingTrace,
    StagingTracer,
    consts_as_args,
    stage_body,
)
from minijax.core.trace import Trace, current_trace, typeof, use_trace
from minijax.transforms.jvp import JVPTrace, JVPTracer


class PartialEvalTrace(Trace):
    """Runs known work in `parent` and records the rest in `staging`."""

    __slots__ = ("parent", "staging")

    def __init__(self, parent: Trace, debug: DebugInfo | None = None):
        super().__init__()
        self.parent = parent
        self.staging = StagingTrace(debug)

    def process(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        staging = self.staging
        for a in args:
            if type(a) is StagingTracer and a.owner is staging:
                break
        else:
            with use_trace(self.parent):
                return primitive.bind(*args, **params)
        if primitive.partial_eval is not None:
            return primitive.partial_eval(self, args, **params)
        return self.record(primitive, args, params)

    def is_unknown(self, x: Any) -> bool:
        return type(x) is StagingTracer and x.owner is self.staging

    def known(self, fun: Callable[..., Any], *args: Any) -> Any:
        """Calls `fun` on known values, in the parent."""
        with use_trace(self.parent):
            return fun(*args)

    def record(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        """Records one equation; its known operands become residuals."""
        return self.staging.process(primitive, args, params)

    def close(self) -> None:
        super().close()
        self.staging.close()


class Linear:
    """A linear program with its residuals: what `linearize` leaves to be run.

    `jaxpr` has no constvars: it takes the residuals and then the tangents that were
    nonzero; it returns the tangents of the outputs marked in `nonzero_out`.
    """

    __slots__ = ("in_avals", "jaxpr", "nonzero_out", "out_avals", "residuals")

    def __init__(
        self,
        jaxpr: Jaxpr,
        residuals: list[Any],
        in_avals: list[Any],
        nonzero_out: list[bool],
        out_avals: list[Any],
    ):
        self.jaxpr = jaxpr
        self.residuals = residuals
        self.in_avals = in_avals
        self.nonzero_out = nonzero_out
        self.out_avals = out_avals


def linearize_flat(
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    primals: Sequence[Any],
    nonzero: Sequence[bool],
) -> tuple[list[Any], list[Any], Linear]:
    """The value of `fun` and its linear map at `primals`.

    Tangents are unknown for the primals marked in `nonzero` and zero for the others.
    `fun` returns two lists, the second of which is not differentiated; the values of
    both are returned.
    """
    partial = PartialEvalTrace(current_trace())
    forward = JVPTrace(partial)
    with ending(partial.staging), ending(partial), ending(forward):
        return _linearized(forward, partial.staging, fun, primals, nonzero)


def _linearized(
    forward: JVPTrace,
    staging: StagingTrace,
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    primals: Sequence[Any],
    nonzero: Sequence[bool],
) -> tuple[list[Any], list[Any], Linear]:
    args, in_avals = [], []
    for p, n in zip(primals, nonzero, strict=True):
        if n:
            aval = typeof(p).to_tangent()
            in_avals.append(aval)
            args.append(JVPTracer(forward, p, staging.new_arg(aval)))
        else:
            args.append(p)
    with use_trace(forward):
        outs, aux = fun(*args)
    pairs = [forward.unpack(x) for x in outs]
    tangents = [t for _, t in pairs]
    nonzero_out = [type(t) is not Zero for t in tangents]
    kept = [t for t in tangents if type(t) is not Zero]
    jaxpr, residuals = staging.finish(kept)
    out_avals = [t.aval if type(t) is Zero else typeof(t) for t in tangents]
    values = [p for p, _ in pairs]
    aux_values = [forward.unpack(x)[0] for x in aux]
    linear = Linear(consts_as_args(jaxpr), residuals, in_avals, nonzero_out, out_avals)
    return values, aux_values, linear


class PartialEvalJaxpr:
    """A jaxpr split in two.

    * `known` takes the known inputs; it returns the known outputs, then those
      residuals that are not merely inputs;
    * `unknown` takes all residuals, then the unknown inputs; it returns the unknown
      outputs;
    * `out_unknown` marks which outputs of the original are unknown;
    * `forwarded` has per residual the position of the known input that it is, or None.
    """

    __slots__ = ("forwarded", "known", "out_unknown", "unknown")

    def __init__(
        self,
        known: Jaxpr,
        unknown: Jaxpr,
        out_unknown: list[bool],
        forwarded: list[int | None],
    ):
        self.known = known
        self.unknown = unknown
        self.out_unknown = out_unknown
        self.forwarded = forwarded

    def residuals(
        self, known_inputs: Sequence[Any], computed: Sequence[Any]
    ) -> list[Any]:
        """All residuals, or what belongs to each, in the order `unknown` takes them."""
        rest = iter(computed)
        return [next(rest) if i is None else known_inputs[i] for i in self.forwarded]

    def merge(self, known: Sequence[Any], unknown: Sequence[Any]) -> list[Any]:
        """The outputs of the original, from those of the two parts."""
        early, late = iter(known), iter(unknown)
        return [next(late) if u else next(early) for u in self.out_unknown]


def partial_eval_jaxpr(
    jaxpr: Jaxpr,
    unknown: Sequence[bool],
    out_unknown: Sequence[bool] | None = None,
) -> PartialEvalJaxpr:
    """Splits a jaxpr by which inputs are unknown.

    `out_unknown` marks outputs that shall be unknown even if they could be known.
    """
    force = tuple(out_unknown or [False] * len(jaxpr.outvars))
    key = ("partial_eval", tuple(unknown), force)
    if key not in jaxpr.cache:
        jaxpr.cache[key] = _partial_eval_jaxpr(jaxpr, unknown, force)
    return jaxpr.cache[key]


def _partial_eval_jaxpr(
    jaxpr: Jaxpr, unknown: Sequence[bool], force: Sequence[bool]
) -> PartialEvalJaxpr:
    out_unknown: list[bool] = []
    unknown_jaxpr: list[Jaxpr] = []

    def known_part(*known_args: Any) -> list[Any]:
        trace = PartialEvalTrace(current_trace())
        known_iter = iter(known_args)
        args = [
            trace.staging.new_arg(a) if u else next(known_iter)
            for a, u in zip(jaxpr.in_avals, unknown, strict=True)
        ]
        with use_trace(trace):
            outs = eval_jaxpr(jaxpr, [], args)
        out_unknown.extend(
            f or trace.is_unknown(x) for f, x in zip(force, outs, strict=True)
        )
        late = [x for x, u in zip(outs, out_unknown, strict=True) if u]
        rest, residuals = trace.staging.finish(late)
        trace.close()
        # What no unknown output needs is not carried over as a residual.
        needed, read = dead_code_eliminated(consts_as_args(rest), [True] * len(late))
        kept = read[: len(residuals)]
        invars = [v for v, k in zip(rest.constvars, kept, strict=True) if k]
        unknown_jaxpr.append(needed.replace(invars=[*invars, *rest.invars]))
        early = [x for x, u in zip(outs, out_unknown, strict=True) if not u]
        return [*early, *[x for x, k in zip(residuals, kept, strict=True) if k]]

    known_avals = [a for a, u in zip(jaxpr.in_avals, unknown, strict=True) if not u]
    known = stage_body(known_part, known_avals)
    count = out_unknown.count(False)
    position = {v: i for i, v in enumerate(known.invars)}
    residuals = known.outvars[count:]
    forwarded = [None if isinstance(v, Literal) else position.get(v) for v in residuals]
    computed = [v for v, i in zip(residuals, forwarded, strict=True) if i is None]
    known = known.replace(outvars=[*known.outvars[:count], *computed])
    return PartialEvalJaxpr(known, unknown_jaxpr[0], out_unknown, forwarded)


def selected(items: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    """The items that a mask marks."""
    return tuple(x for x, m in zip(items, mask, strict=True) if m)
