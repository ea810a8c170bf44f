"""What calls of functions with rules of their own share.

A call is a function of leaves (`FlatCall`). Where nothing is traced, and while
differentiating, it runs as it is; under any other trace it becomes an equation that
holds its program and its rules, set up by `calls`.

Upstream: `jax/_src/custom_derivatives.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.errors import custom_rules as errors
from minijax.core.jaxpr import Jaxpr, collective_names
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
    treedef_tuple,
)
from minijax.core.staging import fun_name
from minijax.core.trace import Trace, current_trace, typeof
from minijax.transforms.control.common import is_token, trace_body
from minijax.transforms.jvp import JVPTrace
from minijax.transforms.partial_eval import PartialEvalTrace
from minijax.transforms.transpose import backward_pass

Function = Callable[..., Any]


class FlatCall:
    """A call of a user's function, as a function of the leaves it is differentiated in.

    Remembers the tree and types of its result once it has run.
    """

    def __init__(
        self, fun: Function, in_tree: PyTreeDef, static: dict[int, Any], count: int
    ):
        self.fun = fun
        self.name = fun_name(fun)
        self.in_tree = in_tree
        self.static = static
        self.count = count
        self.out_tree: PyTreeDef | None = None
        self.out_avals: list[Any] = []

    def every(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments of the user's function, static ones included."""
        dynamic = iter(tree_unflatten(self.in_tree, leaves))
        return [
            self.static[i] if i in self.static else next(dynamic)
            for i in range(self.count)
        ]

    def __call__(self, *leaves: Any) -> list[Any]:
        outs, self.out_tree = tree_flatten(self.fun(*self.every(leaves)))
        self.out_avals = [typeof(x) for x in outs]
        return outs

    def result(self, outs: Sequence[Any]) -> Any:
        assert self.out_tree is not None
        return tree_unflatten(self.out_tree, outs)

    def check_primal(self, kind: str, rule: str, outs: list[Any], tree: Any) -> None:
        """Refuses a rule whose primal result differs from that of the function."""
        if self.out_tree is None:
            self.out_tree = tree  # the rule runs instead of the function
            return
        avals = [typeof(x) for x in outs]
        got = _shown(tree, avals)
        if tree != self.out_tree:
            expected = _shown(self.out_tree, self.out_avals)
            raise errors.primal_tree(kind, rule, self.name, got, expected)
        pairs = zip(avals, self.out_avals, strict=True)
        if not all(
            a.shape == b.shape and a.dtype == b.dtype
            for a, b in pairs
            if not (is_token(a) or is_token(b))
        ):
            expected = _shown(tree, self.out_avals)
            raise errors.primal_types(kind, rule, self.name, got, expected)


def flat_call(
    fun: Function, args: tuple[Any, ...], nondiff: tuple[int, ...]
) -> tuple[FlatCall, list[Any]]:
    """A call, and the leaves it is called with.

    The call does not hold them: it may outlive their trace, in an equation's rules.
    """
    static = {i % len(args): args[i] for i in nondiff} if args else {}
    dynamic = tuple(x for i, x in enumerate(args) if i not in static)
    leaves, in_tree = tree_flatten(dynamic)
    return FlatCall(fun, in_tree, static, len(args)), leaves


def _shown(tree: PyTreeDef, avals: Sequence[Any]) -> str:
    return str(tree_unflatten(tree, [plain(a) for a in avals])).replace("'", "")


def plain(aval: Any) -> str:
    """A type as messages show it: weak types are not told apart."""
    return str(aval).removeprefix("~")


def lower_trace(args: Sequence[Any]) -> Trace | None:
    """The trace below the current one, if that has no part in these values."""
    trace = current_trace()
    if isinstance(trace, JVPTrace) and not any(trace.owns(x) for x in args):
        return trace.parent
    if isinstance(trace, PartialEvalTrace):
        if not any(trace.is_unknown(x) for x in args):
            return trace.parent
    return None


def staged_call(call: FlatCall, args: Sequence[Any]) -> tuple[Jaxpr, list[Any], int]:
    """The function's program, all operands, and how many of those are constants."""
    in_tree = treedef_tuple((call.in_tree, tree_flatten({})[1]))
    avals = [typeof(x) for x in args]

    def fun(*dynamic: Any) -> Any:
        return call.result(call(*tree_leaves(dynamic)))

    body = trace_body(fun, in_tree, avals, "custom derivative rule")
    return body.closed(), [*body.consts, *args], len(body.consts)


def is_float0(t: Any) -> bool:
    """Whether a tangent is the trivial one of an integer."""
    return getattr(t, "dtype", None) == dtypes.float0


def front(avals: Sequence[Any]) -> list[int | None]:
    """All results are given a mapped dimension, since rules might give them one."""
    return [None if is_token(a) else 0 for a in avals]


def without_consts(
    kind: str, primals: Sequence[Any], tangents: Sequence[Any], num_consts: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The arguments that rules are told of; the others must have no tangent."""
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise errors.closed_over(kind)
    return primals[num_consts:], tangents[num_consts:]


# ----------------------------------------------------------- rules of both equations


def _called_type(*_: Any, call_jaxpr: Jaxpr, **__: Any) -> list[Any]:
    return call_jaxpr.out_avals


def _called_effects(*_: Any, call_jaxpr: Jaxpr, **__: Any) -> Any:
    return call_jaxpr.effects


def _called_lowering(ctx: Any, *values: Any, call_jaxpr: Jaxpr, **_: Any) -> Any:
    return ctx.lower_jaxpr(call_jaxpr, values)


def _called_transpose(cts: Any, *args: Any, call_jaxpr: Jaxpr, **_: Any) -> Any:
    """Of a linear function, which is what its program says."""
    found = backward_pass(call_jaxpr, args, cts)
    return [None if type(ct) is Zero else ct for ct in found]


def called_pretty(eqn: Any) -> dict[str, Any]:
    """All parameters, but no count of constants where there are none."""
    return {k: v for k, v in eqn.params.items() if k != "num_consts" or v}


def calls(name: str) -> Primitive:
    """A primitive that calls the program `call_jaxpr`; its derivatives are missing."""
    primitive = Primitive(name)
    primitive.abstract_eval = _called_type
    primitive.effects = _called_effects
    primitive.lowering = _called_lowering
    primitive.transpose = _called_transpose
    primitive.pretty = called_pretty
    primitive.axis_names = lambda params: collective_names(params["call_jaxpr"])
    return primitive
