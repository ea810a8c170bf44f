"""The equations of a `custom_vjp` function, and the function's rules.

The tangents of such a function are not computed but recorded: `custom_lin` is linear in
the tangents and knows only how to be transposed, by the user's backward rule. So
nothing of it can be differentiated forwards.

Upstream: `jax/_src/custom_derivatives.py` (`custom_vjp_call_p`, `custom_lin_p`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import custom_rules as errors
from minijax.core.jaxpr import Jaxpr
from minijax.core.linear import Zero, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_leaves_with_path,
    tree_unflatten,
)
from minijax.core.staging import DebugInfo, fun_name
from minijax.core.trace import current_trace, is_evaluating, typeof, use_trace
from minijax.lax.rules import instantiate
from minijax.lax.shapes import sum_over
from minijax.transforms.control.common import chosen, is_token, typematch
from minijax.transforms.custom_call import (
    FlatCall,
    Function,
    called_pretty,
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

custom_vjp_call_p = calls("custom_vjp_call")
Backward = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class VJPRule:
    """A user's rules as ones of leaves."""

    def __init__(self, call: FlatCall, fwd: Function, bwd: Function):
        self.call = call
        self.fwd = fwd
        self.bwd = bwd

    def names(self) -> tuple[_Name, _Name]:
        return _Name(fun_name(self.fwd)), _Name(fun_name(self.bwd))

    def __repr__(self) -> str:
        return fun_name(self.bwd)

    def forward(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], Backward]:
        """The results, the residuals, and the backward rule of both."""
        call, name = self.call, fun_name(self.fwd)
        pair = self.fwd(*call.every(args))
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise errors.fwd_not_a_pair(name, call.name, pair)
        outs, tree = tree_flatten(pair[0])
        residuals, res_tree = tree_flatten(pair[1])
        call.check_primal("VJP", name, outs, tree)
        in_avals = [typeof(x) for x in args]

        def backward(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            found = self.bwd(
                *call.static.values(),
                tree_unflatten(res_tree, res),
                tree_unflatten(tree, map(instantiate, cts)),
            )
            return self._cotangents(found, in_avals)

        return outs, residuals, backward

    def _cotangents(self, found: Any, in_avals: Sequence[Any]) -> list[Any]:
        """One cotangent per leaf of the arguments, `Zero` for None."""
        in_tree = self.call.in_tree
        shown = tree_flatten(found)[1]
        args = tree_unflatten(in_tree, range(in_tree.num_leaves))
        if isinstance(found, list):
            found = tuple(found)
        if not isinstance(found, tuple) or len(found) != len(args):
            raise errors.bwd_tree(shown, in_tree)
        try:
            flat = broadcast_prefix(found, args, is_leaf=lambda x: x is None)
        except ValueError:
            raise errors.bwd_tree(shown, in_tree) from None
        paths = [keystr(path) for path, _ in tree_leaves_with_path(args)]
        return [
            self._checked(ct, aval, path)
            for ct, aval, path in zip(flat, in_avals, paths, strict=True)
        ]

    def _checked(self, ct: Any, aval: Any, path: str) -> Any:
        expected = aval.to_cotangent()
        if ct is None or is_token(aval) or expected.dtype == dtypes.float0:
            return Zero(expected)
        found = typeof(ct)
        if typematch(found, expected):
            return ct
        differ = []
        if isinstance(found, ShapedArray):
            differ += ["the dtypes do not match"] * (found.dtype != expected.dtype)
            differ += ["the shapes do not match"] * (found.shape != expected.shape)
            manual = found.manual != expected.manual
            differ += ["the manual axis types do not match"] * manual
        extra = f", so {', and '.join(differ)}" if differ else ""
        place = DebugInfo(self.call.fun, "custom_vjp").place
        raise errors.bwd_type(place, path, plain(found), plain(aval), extra)


class _Name(str):
    """A name that prints without quotes in an equation."""

    def __repr__(self) -> str:
        return str(self)


def call_vjp(call: FlatCall, rule: Any, args: Sequence[Any]) -> list[Any]:
    """Runs the function or its forward rule, or binds the equation."""
    if is_evaluating():
        return call(*args)
    below = lower_trace(args)
    if below is not None:
        with use_trace(below):
            return call_vjp(call, rule, args)
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        pairs = [trace.unpack(x) for x in args]
        with use_trace(trace.parent):
            outs, tangents = _linear(rule, [p for p, _ in pairs], [t for _, t in pairs])
        return [trace.pair(p, t) for p, t in zip(outs, tangents, strict=True)]
    jaxpr, operands, num_consts = staged_call(call, args)
    return _bind_vjp(operands, call.name, jaxpr, rule, num_consts)


def _bind_vjp(
    operands: Sequence[Any], name: str, jaxpr: Jaxpr, rule: Any, num_consts: int
) -> list[Any]:
    fwd, bwd = rule.names()
    return custom_vjp_call_p.bind(
        *operands,
        name=name,
        bwd=bwd,
        call_jaxpr=jaxpr,
        fwd=fwd,
        num_consts=num_consts,
        rule=rule,
        symbolic_zeros=False,
    )


def _pretty_vjp(eqn: Any) -> dict[str, Any]:
    return {k: v for k, v in called_pretty(eqn).items() if k != "rule"}


custom_vjp_call_p.pretty = _pretty_vjp


def _linear(
    rule: Any, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The results and, as one equation, their tangents."""
    outs, residuals, backward = rule.forward(primals)
    nonzero = tuple(type(t) is not Zero for t in tangents)
    out_avals = [typeof(x).to_tangent() for x in outs]
    smooth = [not is_token(a) and a.dtype != dtypes.float0 for a in out_avals]
    found = iter(
        custom_lin_p.bind(
            *residuals,
            *chosen(tangents, nonzero),
            backward=backward,
            nonzero=nonzero,
            num_res=len(residuals),
            out_avals=tuple(chosen(out_avals, smooth)),
            smooth=tuple(smooth),
            zeros=tuple(out_avals),
        )
    )
    return outs, [
        next(found) if s else Zero(a) for s, a in zip(smooth, out_avals, strict=True)
    ]


@custom_vjp_call_p.def_jvp
def _jvp_vjp(
    primals: Any, tangents: Any, *, rule: Any, num_consts: int, **_: Any
) -> Any:
    return _linear(rule, *without_consts("custom_vjp", primals, tangents, num_consts))


@custom_vjp_call_p.def_batch
def _batch_vjp(
    axis: BatchAxis,
    args: Any,
    dims: Any,
    *,
    name: str,
    call_jaxpr: Jaxpr,
    rule: Any,
    num_consts: int,
    **__: Any,
) -> Any:
    out_dims = front(call_jaxpr.out_avals)
    body, _ = batch_jaxpr(call_jaxpr, axis, dims, out_dims)
    mapped_rule = _BatchedVJPRule(rule, axis, dims[num_consts:], out_dims)
    return _bind_vjp(args, name, body, mapped_rule, num_consts), out_dims


class _BatchedVJPRule:
    """Rules mapped over an axis."""

    def __init__(self, rule: Any, axis: BatchAxis, dims: Any, out_dims: Any):
        self.rule = rule
        self.axis = axis
        self.dims = dims
        self.out_dims = out_dims

    def names(self) -> tuple[_Name, _Name]:
        return self.rule.names()

    def forward(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], Backward]:
        backward: list[Backward] = []

        def fun(*xs: Any) -> list[Any]:
            outs, residuals, one = self.rule.forward(xs)
            backward.append(one)
            return [*outs, *residuals]

        values, dims = batch_flat(fun, self.axis, args, self.dims)
        count = len(self.out_dims)
        outs = [
            at_dim(x, self.axis, d, w)
            for x, d, w in zip(values, dims, self.out_dims, strict=False)
        ]
        res_dims = dims[count:]
        avals = [typeof(x) for x in args]

        def of_all(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            """Cotangents of what is not mapped are summed over the elements."""

            def one(*xs: Any) -> list[Any]:
                found = backward[0](xs[: len(res)], xs[len(res) :])
                return [instantiate(ct) for ct in found]

            all_cts = [instantiate(ct) for ct in cts]
            all_dims = [*res_dims, *self.out_dims]
            found, found_dims = batch_flat(one, self.axis, [*res, *all_cts], all_dims)
            results = zip(found, found_dims, self.dims, avals, strict=True)
            return [self._placed(*result) for result in results]

        return outs, values[count:], of_all

    def _placed(self, ct: Any, dim: int | None, wanted: int | None, aval: Any) -> Any:
        if is_token(aval) or is_float0(ct):
            return Zero(aval.to_cotangent())
        if wanted is None:
            return sum_over(at_dim(ct, self.axis, dim, dim or 0), (dim or 0,))
        return at_dim(ct, self.axis, dim, wanted)


custom_lin_p = Primitive("custom_lin")


@custom_lin_p.def_abstract_eval
def _lin_type(*_: Any, out_avals: tuple[Any, ...], **__: Any) -> list[Any]:
    return list(out_avals)


@custom_lin_p.def_transpose
def _lin_transpose(
    cts: Any,
    *args: Any,
    backward: Backward,
    nonzero: tuple[bool, ...],
    num_res: int,
    smooth: tuple[bool, ...],
    zeros: tuple[Any, ...],
    **_: Any,
) -> list[Any]:
    given = iter(cts)
    all_cts = [
        next(given) if s else Zero(a.to_cotangent())
        for s, a in zip(smooth, zeros, strict=True)
    ]
    found = chosen(backward(args[:num_res], all_cts), nonzero)
    return [
        *[None] * num_res,
        *[
            ct if is_undefined(x) and type(ct) is not Zero else None
            for ct, x in zip(found, args[num_res:], strict=True)
        ],
    ]


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise errors.forward_mode()


# It is only recorded, to be transposed.
custom_lin_p.jvp = _refuse
custom_lin_p.batch = _refuse
custom_lin_p.lowering = _refuse
