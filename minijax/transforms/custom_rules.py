"""custom_jvp and custom_vjp: functions whose derivatives are written by hand.

Where nothing is traced, and while differentiating, the user's functions run as they
are, on whatever values there are. Under any other trace the function becomes an
equation that holds its program and its rules: `custom_jvp_call` or `custom_vjp_call`.

The tangents of a `custom_vjp` function are not computed but recorded: `custom_lin` is
linear in the tangents and knows only how to be transposed, by the user's backward
rule. So nothing of such a function can be differentiated forwards.

Upstream: `jax/_src/custom_derivatives.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, NoReturn

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import custom_rules as errors
from minijax.core.jaxpr import Jaxpr, collective_names
from minijax.core.linear import Zero, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    PyTreeDef,
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_unflatten,
    treedef_tuple,
)
from minijax.core.staging import DebugInfo, fun_name
from minijax.core.trace import (
    Trace,
    Tracer,
    current_trace,
    is_evaluating,
    typeof,
    use_trace,
)
from minijax.lax.gradients import stop_gradient
from minijax.lax.rules import add_any, instantiate
from minijax.lax.shapes import sum_over
from minijax.transforms.control.common import chosen, is_token, trace_body, typematch
from minijax.transforms.jvp import JVPTrace
from minijax.transforms.partial_eval import PartialEvalTrace
from minijax.transforms.transpose import backward_pass
from minijax.transforms.vmap import BatchAxis, at_dim, batch_flat, batch_jaxpr

Function = Callable[..., Any]


class _Custom:
    """What both kinds of functions share."""

    kind = ""

    def __init__(self, fun: Function, nondiff_argnums: Sequence[int] = ()):
        update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = tuple(nondiff_argnums)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _positional(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """All arguments by position, defaults included."""
        try:
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
        except TypeError as error:
            name = fun_name(self.fun)
            raise errors.unresolved(self.kind, name, error) from error
        except ValueError:  # a built-in function without signature
            return tuple(args)
        bound.apply_defaults()
        if bound.kwargs:
            name, extra = fun_name(self.fun), ", ".join(map(repr, bound.kwargs))
            why = f"The following keyword arguments could not be resolved: {extra}"
            raise errors.unresolved(self.kind, name, why)
        return bound.args


class _Method:
    """A custom function that is a method, bound to its instance."""

    def __init__(self, custom: _Custom, instance: Any):
        self._custom = custom
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._custom(self._instance, *args, **kwargs)


class _Flat:
    """A call of a user's function, as a function of the leaves it is differentiated in.

    Remembers the tree and types of its result once it has run.
    """

    def __init__(self, fun: Function, args: tuple[Any, ...], nondiff: tuple[int, ...]):
        self.fun = fun
        self.name = fun_name(fun)
        self.static = {i % len(args): args[i] for i in nondiff} if args else {}
        dynamic = [x for i, x in enumerate(args) if i not in self.static]
        self.count = len(args)
        self.leaves, self.in_tree = tree_flatten(tuple(dynamic))
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
        if not all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs
                   if not (is_token(a) or is_token(b))):
            expected = _shown(tree, self.out_avals)
            raise errors.primal_types(kind, rule, self.name, got, expected)


def _shown(tree: PyTreeDef, avals: Sequence[Any]) -> str:
    return str(tree_unflatten(tree, [_plain(a) for a in avals])).replace("'", "")


def _plain(aval: Any) -> str:
    return str(aval).removeprefix("~")


def _lower_trace(args: Sequence[Any]) -> Trace | None:
    """The trace below the current one, if that has no part in these values."""
    trace = current_trace()
    if isinstance(trace, JVPTrace) and not any(trace.owns(x) for x in args):
        return trace.parent
    if isinstance(trace, PartialEvalTrace):
        if not any(trace.is_unknown(x) for x in args):
            return trace.parent
    return None


def _staged(call: _Flat, args: Sequence[Any]) -> tuple[Jaxpr, list[Any], int]:
    """The function's program, all operands, and how many of those are constants."""
    in_tree = treedef_tuple((call.in_tree, tree_flatten({})[1]))
    avals = [typeof(x) for x in args]

    def fun(*dynamic: Any) -> Any:
        return call.result(call(*tree_leaves(dynamic)))

    body = trace_body(fun, in_tree, avals, "custom derivative rule")
    return body.closed(), [*body.consts, *args], len(body.consts)


# ------------------------------------------------------------------------ custom_jvp


class custom_jvp(_Custom):
    """A function with a forward derivative of its own, from which all others follow.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that the rule gets first, as they are.

    >>> import minijax
    >>> @minijax.custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 100.0 * t
    >>> float(minijax.grad(f)(3.0))
    100.0

    Upstream: `jax/_src/custom_derivatives.py` (`custom_jvp`).
    """

    kind = "custom_jvp"
    jvp: Function | None = None

    def defjvp(self, jvp: Function) -> Function:
        """Sets the rule: `jvp(*nondiff, primals, tangents) -> (outputs, tangents)`."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Sets a rule per argument: `jvp(tangent, output, *primals) -> tangent`.

        The tangents are added up; None stands for zero.
        """
        if self.nondiff_argnums:
            raise errors.defjvps_nondiff()

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            zeros = tree_map(lambda x: instantiate(Zero(typeof(x).to_tangent())), out)
            parts = [
                zeros if rule is None else rule(t, out, *primals)
                for t, rule in zip(tangents, jvps, strict=True)
            ]
            total = parts[0] if parts else zeros
            for part in parts[1:]:
                total = tree_map(add_any, total, part)
            return out, total

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise errors.no_rule(self.kind, fun_name(self.fun))
        args = self._positional(args, kwargs)
        positions = {i % len(args) for i in self.nondiff_argnums}
        # Given as they are, they must not bring in tangents.
        args = tuple(
            tree_map(_stopped, x) if i in positions else x for i, x in enumerate(args)
        )
        call = _Flat(self.fun, args, self.nondiff_argnums)
        return call.result(_call_jvp(call, _JVPRule(call, self.jvp), call.leaves))


def _stopped(x: Any) -> Any:
    return stop_gradient(x) if isinstance(x, Tracer) and not is_token(x) else x


class _JVPRule:
    """A user's rule as one of leaves: from primals and tangents to both results."""

    def __init__(self, call: _Flat, rule: Function):
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
            Zero(typeof(x).to_tangent()) if _is_float0(t) else t
            for x, t in zip(outs, tangents_out, strict=True)
        ]


def _is_float0(t: Any) -> bool:
    return getattr(t, "dtype", None) == dtypes.float0


def _check_tangents(outs: Sequence[Any], tangents: Sequence[Any]) -> None:
    types = [(typeof(x), typeof(t)) for x, t in zip(outs, tangents, strict=True)]
    wrong = [(p, t) for p, t in types if not typematch(p.to_tangent(), t)]
    if not wrong:
        return
    if len(types) == 1:
        ((primal, tangent),) = wrong
        expected = _plain(primal.to_tangent())
        raise errors.jvp_tangent_type(expected, _plain(primal), _plain(tangent))
    raise errors.jvp_tangent_types(
        "\n".join(
            f"  primal {_plain(p)} with tangent {_plain(t)}, expecting tangent "
            f"{p.to_tangent()}"
            for p, t in wrong
        )
    )


def _call_jvp(call: _Flat, rule: Any, args: Sequence[Any]) -> list[Any]:
    """Runs the function or its rule, or binds the equation: as the trace demands."""
    if is_evaluating():
        return call(*args)
    below = _lower_trace(args)
    if below is not None:
        with use_trace(below):
            return _call_jvp(call, rule, args)
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        pairs = [trace.unpack(x) for x in args]
        with use_trace(trace.parent):
            outs, tangents = rule([p for p, _ in pairs], [t for _, t in pairs])
        return [trace.pair(p, t) for p, t in zip(outs, tangents, strict=True)]
    jaxpr, operands, num_consts = _staged(call, args)
    return custom_jvp_call_p.bind(
        *operands,
        name=call.name,
        call_jaxpr=jaxpr,
        jvp=rule,
        num_consts=num_consts,
        symbolic_zeros=False,
    )


custom_jvp_call_p = Primitive("custom_jvp_call")
custom_vjp_call_p = Primitive("custom_vjp_call")


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


def _called_pretty(eqn: Any) -> dict[str, Any]:
    return {k: v for k, v in eqn.params.items() if k != "num_consts" or v}


for _p in (custom_jvp_call_p, custom_vjp_call_p):
    _p.abstract_eval = _called_type
    _p.effects = _called_effects
    _p.lowering = _called_lowering
    _p.transpose = _called_transpose
    _p.pretty = _called_pretty
    _p.axis_names = lambda params: collective_names(params["call_jaxpr"])


def _without_consts(
    kind: str, primals: Sequence[Any], tangents: Sequence[Any], num_consts: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The arguments that rules are told of; the others must have no tangent."""
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise errors.closed_over(kind)
    return primals[num_consts:], tangents[num_consts:]


@custom_jvp_call_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, jvp: Any, num_consts: int, **_: Any) -> Any:
    return jvp(*_without_consts("custom_jvp", primals, tangents, num_consts))


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
    out_dims = _front(call_jaxpr.out_avals)
    body, _ = batch_jaxpr(call_jaxpr, axis, dims, out_dims)
    rule = _BatchedJVPRule(jvp, axis, dims[num_consts:], out_dims)
    outs = custom_jvp_call_p.bind(
        *args, call_jaxpr=body, jvp=rule, num_consts=num_consts, **params
    )
    return outs, out_dims


def _front(avals: Sequence[Any]) -> list[int | None]:
    """All results are given a mapped dimension, since rules might give them one."""
    return [None if is_token(a) else 0 for a in avals]


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


# ------------------------------------------------------------------------ custom_vjp


class custom_vjp(_Custom):
    """A function with a backward derivative of its own.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are no arrays; the backward rule
        gets them first.

    >>> import minijax
    >>> @minijax.custom_vjp
    ... def f(x, y):
    ...     return x * y
    >>> f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda res, ct: (ct, 7.0 * ct))
    >>> [float(g) for g in minijax.grad(f, (0, 1))(2.0, 3.0)]
    [1.0, 7.0]

    Upstream: `jax/_src/custom_derivatives.py` (`custom_vjp`).
    """

    kind = "custom_vjp"
    fwd: Function | None = None
    bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Sets the rules.

        `fwd(*args) -> (output, residuals)`; `bwd(*nondiff, residuals, cotangent)`
        returns a tuple of one cotangent per argument, where None stands for zero.
        """
        self.fwd = fwd
        self.bwd = bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise errors.no_rule(self.kind, fun_name(self.fun))
        args = self._positional(args, kwargs)
        for i in self.nondiff_argnums:
            if any(isinstance(x, Tracer) for x in tree_leaves(args[i])):
                raise errors.nondiff_tracer()
        call = _Flat(self.fun, args, self.nondiff_argnums)
        rule = _VJPRule(call, self.fwd, self.bwd)
        return call.result(_call_vjp(call, rule, call.leaves))


Backward = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class _VJPRule:
    """A user's rules as ones of leaves."""

    def __init__(self, call: _Flat, fwd: Function, bwd: Function):
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
        raise errors.bwd_type(place, path, _plain(found), _plain(aval), extra)


class _Name(str):
    """A name that prints without quotes in an equation."""

    def __repr__(self) -> str:
        return str(self)


def _call_vjp(call: _Flat, rule: Any, args: Sequence[Any]) -> list[Any]:
    """Runs the function or its forward rule, or binds the equation."""
    if is_evaluating():
        return call(*args)
    below = _lower_trace(args)
    if below is not None:
        with use_trace(below):
            return _call_vjp(call, rule, args)
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        pairs = [trace.unpack(x) for x in args]
        with use_trace(trace.parent):
            outs, tangents = _linear(
                rule, [p for p, _ in pairs], [t for _, t in pairs]
            )
        return [trace.pair(p, t) for p, t in zip(outs, tangents, strict=True)]
    jaxpr, operands, num_consts = _staged(call, args)
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
    return {k: v for k, v in _called_pretty(eqn).items() if k != "rule"}


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
    return _linear(rule, *_without_consts("custom_vjp", primals, tangents, num_consts))


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
    **_: Any,
) -> Any:
    out_dims = _front(call_jaxpr.out_avals)
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
        if is_token(aval) or _is_float0(ct):
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
