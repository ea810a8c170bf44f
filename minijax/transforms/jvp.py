"""Forward-mode differentiation: pushing tangents forward with the values.

A `JVPTracer` pairs a primal with its tangent. The trace unpacks its own tracers, takes
every other value as a constant (zero tangent), and runs the primitive's `jvp` rule
with its parent current. A result whose tangent is a symbolic zero leaves the trace as
a plain value: nothing downstream need know that differentiation is going on.

Upstream: `jax/_src/interpreters/ad.py` (`JVPTrace`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.arguments import check_callable
from minijax.core.avals import ShapedArray
from minijax.core.ending import ending
from minijax.core.errors import differentiation as errors
from minijax.core.jaxpr import Jaxpr, eval_jaxpr
from minijax.core.linear import Zero, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import stage_body
from minijax.core.trace import Trace, Tracer, current_trace, typeof, use_trace
from minijax.lax.rules import instantiate


class JVPTracer(Tracer):
    """A primal value and its tangent."""

    __slots__ = ("primal", "tangent")
    shown_as = "LinearizeTracer"

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any):
        self.owner = trace
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> Any:
        primal = self.primal
        return primal.aval if isinstance(primal, Tracer) else typeof(primal)

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal

    def origin(self) -> str:
        return self.primal.origin() if isinstance(self.primal, Tracer) else ""


class JVPTrace(Trace):
    """Applies `jvp` rules, under its parent."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def process(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        primals, touched = [], False
        for a in args:
            if type(a) is JVPTracer and a.owner is self:
                primals.append(a.primal)
                touched = True
            else:
                primals.append(a)
        with use_trace(self.parent):
            if not touched:
                return primitive.bind(*primals, **params)
            tangents = [a.tangent if self.owns(a) else zero_tangent(a) for a in args]
            outs, tangents_out = primitive.jvp(primals, tangents, **params)
        return [self.pair(p, t) for p, t in zip(outs, tangents_out, strict=True)]

    def doing(self) -> str:
        return "differentiating"

    def owns(self, x: Any) -> bool:
        return type(x) is JVPTracer and x.owner is self

    def pair(self, primal: Any, tangent: Any) -> Any:
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def unpack(self, x: Any) -> tuple[Any, Any]:
        """The primal and tangent of any value."""
        return (x.primal, x.tangent) if self.owns(x) else (x, zero_tangent(x))


def jvp_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    parent: Trace | None = None,
) -> tuple[list[Any], list[Any]]:
    """`jvp` of a function of flat arguments; tangents in and out may be `Zero`."""
    trace = JVPTrace(parent or current_trace())
    with ending(trace):
        pairs = _pushed(trace, fun, primals, tangents)
    return [p for p, _ in pairs], [t for _, t in pairs]


def _pushed(
    trace: JVPTrace,
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
) -> list[tuple[Any, Any]]:
    args = [trace.pair(p, t) for p, t in zip(primals, tangents, strict=True)]
    with use_trace(trace):
        outs = fun(*args)
    return [trace.unpack(x) for x in outs]


def jvp_jaxpr(
    jaxpr: Jaxpr,
    nonzero: Sequence[bool],
    instantiate_outs: bool | Sequence[bool] = False,
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr that also pushes tangents forward.

    It takes the inputs and then the tangents of those marked in `nonzero`; it returns
    the outputs and then the tangents of those marked in the mask that comes second.
    `instantiate_outs` asks for a tangent even where it is zero.
    """
    force = (
        [instantiate_outs] * len(jaxpr.outvars)
        if isinstance(instantiate_outs, bool)
        else list(instantiate_outs)
    )
    key = ("jvp", tuple(nonzero), tuple(force))
    if key not in jaxpr.cache:
        jaxpr.cache[key] = _jvp_jaxpr(jaxpr, nonzero, force)
    return jaxpr.cache[key]


def _jvp_jaxpr(
    jaxpr: Jaxpr, nonzero: Sequence[bool], force: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    nonzero_out: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        primals = args[: len(nonzero)]
        given = iter(args[len(nonzero) :])
        tangents = [
            next(given) if n else zero_tangent(p)
            for n, p in zip(nonzero, primals, strict=True)
        ]
        outs, tangents_out = jvp_flat(
            lambda *xs: eval_jaxpr(jaxpr, [], xs), primals, tangents
        )
        nonzero_out.extend(
            f or type(t) is not Zero for f, t in zip(force, tangents_out, strict=True)
        )
        kept = [
            instantiate(t) for t, n in zip(tangents_out, nonzero_out, strict=True) if n
        ]
        return [*outs, *kept]

    tangent_avals = [
        a.to_tangent() for a, n in zip(jaxpr.in_avals, nonzero, strict=True) if n
    ]
    out = stage_body(fun, [*jaxpr.in_avals, *tangent_avals])
    return out, nonzero_out


def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """The value of a function and its directional derivative.

    Args:
      fun: a function of pytrees.
      primals: a tuple or list of positional arguments.
      tangents: the direction, of the same trees and shapes as `primals`.
      has_aux: whether `fun` returns a pair whose second part is not differentiated.

    Returns:
      `(value, tangent)`, and the second part as a third where `has_aux`.

    Raises:
      TypeError: where primals and tangents do not correspond.

    >>> import minijax, minijax.numpy as jnp
    >>> y, t = minijax.jvp(jnp.sin, (0.0,), (2.0,))
    >>> float(t)
    2.0

    Upstream: `jax/_src/api.py` (`jvp`).
    """
    check_callable(fun)
    flat, flat_tangents, in_tree = _check_arguments(primals, tangents)
    trees: list[Any] = []

    def flat_fun(*leaves: Any) -> list[Any]:
        out, aux = fun(*tree_unflatten(in_tree, leaves)), None
        if has_aux:
            if not (isinstance(out, (list, tuple)) and len(out) == 2):
                raise errors.not_a_pair(out)
            out, aux = out
        outs, out_tree = tree_flatten(out)
        aux_leaves, aux_tree = tree_flatten(aux)
        trees.extend((out_tree, aux_tree))
        return outs + aux_leaves

    outs, tangents_out = jvp_flat(flat_fun, flat, flat_tangents)
    count = trees[0].num_leaves
    value = tree_unflatten(trees[0], outs[:count])
    tangent = tree_unflatten(trees[0], map(instantiate, tangents_out[:count]))
    if not has_aux:
        return value, tangent
    return value, tangent, tree_unflatten(trees[1], outs[count:])


def _check_arguments(primals: Any, tangents: Any) -> tuple[list[Any], list[Any], Any]:
    if not (isinstance(primals, (list, tuple)) and isinstance(tangents, (list, tuple))):
        raise errors.jvp_not_tuple(primals, tangents)
    flat, in_tree = tree_flatten(tuple(primals))
    flat_tangents, tangent_tree = tree_flatten(tuple(tangents))
    if in_tree != tangent_tree:
        raise errors.jvp_trees(in_tree, tangent_tree)
    for p, t in zip(flat, flat_tangents, strict=True):
        _check_tangent(typeof(p), typeof(t))
    symbolic = [
        zero_tangent(p) if getattr(t, "dtype", None) == dtypes.float0 else t
        for p, t in zip(flat, flat_tangents, strict=True)
    ]
    return flat, symbolic, in_tree


def _check_tangent(primal: Any, tangent: Any) -> None:
    if not isinstance(primal, ShapedArray):
        return  # a token, whose tangent is a token
    expected = primal.to_tangent()
    if expected.dtype != tangent.dtype:
        raise errors.jvp_dtypes(primal.dtype, tangent.dtype, expected.dtype)
    if primal.shape != tangent.shape:
        raise errors.jvp_shapes(primal.shape, tangent.shape)
