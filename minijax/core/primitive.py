"""Primitives: the operations of the language, each with its rules.

A `Primitive` is a name with a slot for each kind of rule. Its page (in `lax/`, or
in `transforms/` for primitives whose parameters hold a jaxpr) fills the slots; there
is no registry elsewhere. What each rule receives and returns:

* `abstract_eval(*avals, **params) -> list[aval]`: the types of the results, and
  every check that the types allow.
* `effects(*avals, **params) -> frozenset[Effect]`: what it does besides.
* `lowering(ctx, *values, **params) -> list[ir.Value]`: StableHLO operations for one
  equation; `ctx` is a `lowering.rule_context.LoweringContext`.
* `jvp(primals, tangents, **params) -> (primals_out, tangents_out)`: tangents may be
  `Zero`. At least one is not.
* `transpose(cotangents, *args, **params) -> list[cotangent | None]`: for primitives
  linear in the arguments given as `UndefinedPrimal`; cotangents may be `Zero`.
* `batch(axis, args, dims, **params) -> (outs, out_dims)`: `axis` is the `BatchAxis`
  being mapped; `dims[i]` is the mapped dimension of `args[i]`, or None.
* `axis_names(params) -> tuple[str, ...]`: the named axes a collective acts over; a
  batching trace over one of them always calls `batch`, batched arguments or not.
* `partial_eval(trace, args, **params) -> outs`: how to split into a known and an
  unknown part; only primitives that hold a jaxpr have their own.
* `dce(eqn, used) -> eqn`: the equation without what only its unused results need;
  likewise.
* `eager(*args, **params) -> outs`: what binding it means when nothing is traced, for
  the few that need no program for it; the others are compiled.

Every primitive returns a list; `bind1` unwraps the only result of those with one.

Upstream: `jax/_src/core.py` (`Primitive`) and the registries in `interpreters/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.core.errors import tracing as errors
from minijax.core.linear import Zero, zero_tangent
from minijax.core.trace import current_trace

Rule = Callable[..., Any]


class Primitive:
    """A named operation with a slot for each kind of rule."""

    __slots__ = (
        "abstract_eval",
        "axis_names",
        "batch",
        "dce",
        "eager",
        "effects",
        "jvp",
        "lowering",
        "name",
        "partial_eval",
        "pretty",
        "transpose",
        "undeclared",
    )

    #: The rules that the completeness test asks every primitive about.
    RULES = ("abstract_eval", "lowering", "jvp", "transpose", "batch")

    def __init__(self, name: str):
        self.name = name
        self.abstract_eval: Rule = _missing(name, "Abstract evaluation rule")
        self.lowering: Rule = _missing(name, "Lowering rule")
        self.jvp: Rule = _missing(name, "Differentiation rule")
        self.transpose: Rule = _missing(name, "Transpose rule")
        self.batch: Rule = _missing(name, "Batching rule")
        self.effects: Rule | None = None
        self.axis_names: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
        self.partial_eval: Rule | None = None
        self.dce: Rule | None = None
        self.eager: Rule | None = None
        #: Chooses the parameters that a printed equation shows:
        #: `pretty(eqn) -> dict[str, Any]`; None shows all of them.
        self.pretty: Rule | None = None
        #: Rules that this primitive does not have, each with the reason.
        self.undeclared: dict[str, str] = {}

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """Applies the primitive under the current trace."""
        try:
            return current_trace().process(self, args, params)
        except errors.NotAValueError as error:
            raise errors.bad_argument_of(self.name, args, error) from None

    def bind1(self, *args: Any, **params: Any) -> Any:
        """Applies a primitive that has one result, and returns that result."""
        return self.bind(*args, **params)[0]

    # Decorators that fill a slot. Each returns the rule, so that a page reads as a
    # list of named functions.

    def def_abstract_eval(self, rule: Rule) -> Rule:
        self.abstract_eval = rule
        return rule

    def def_effects(self, rule: Rule) -> Rule:
        self.effects = rule
        return rule

    def def_lowering(self, rule: Rule) -> Rule:
        self.lowering = rule
        return rule

    def def_jvp(self, rule: Rule) -> Rule:
        self.jvp = rule
        return rule

    def def_transpose(self, rule: Rule) -> Rule:
        self.transpose = rule
        return rule

    def def_batch(self, rule: Rule) -> Rule:
        self.batch = rule
        return rule

    def def_partial_eval(self, rule: Rule) -> Rule:
        self.partial_eval = rule
        return rule

    def def_dce(self, rule: Rule) -> Rule:
        self.dce = rule
        return rule

    def def_pretty(self, rule: Rule) -> Rule:
        self.pretty = rule
        return rule

    # Whole kinds of primitives.

    def def_linear(self, transpose: Rule) -> None:
        """A primitive of one operand and one result that is linear in it.

        Its tangent map is the primitive itself. `transpose(ct, operand, **params)`
        returns the cotangent of the operand from that of the result, neither being
        symbolic; `operand.aval` is its type.
        """

        def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
            outs = self.bind(*primals, **params)
            return outs, self.bind(*tangents, **params)

        def transpose_rule(cts: Any, operand: Any, **params: Any) -> list[Any]:
            (ct,) = cts
            zero = type(ct) is Zero
            return [None if zero else transpose(ct, operand, **params)]

        self.jvp = jvp
        self.transpose = transpose_rule

    def def_nondifferentiable(self, reason: str) -> None:
        """A primitive whose results do not change with small changes of operands."""

        def jvp(primals: Any, _: Any, **params: Any) -> Any:
            outs = self.bind(*primals, **params)
            return outs, [zero_tangent(x) for x in outs]

        self.jvp = jvp
        self.without(transpose=reason)

    def without(self, **reasons: str) -> None:
        """Declares that this primitive lacks the named rules, and why."""
        unknown = set(reasons) - set(self.RULES)
        if unknown:
            raise ValueError(f"{self.name}: no such rules: {sorted(unknown)}")
        self.undeclared |= reasons

    def has(self, rule: str) -> bool:
        """Whether the named rule was given."""
        return not getattr(getattr(self, rule), "is_missing", False)


def _missing(primitive: str, kind: str) -> Rule:
    """Stands in a slot that was not filled: the one place that refuses."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise errors.rule_missing(primitive, kind)

    refuse.is_missing = True  # type: ignore[attr-defined]
    return refuse
