"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp.

    cumsum[axis=0]:   1 2 3 4  ->  1 3 6 10        reverse=True:  10 9 7 4

`cumsum` is linear; its transpose runs the other way. The others are differentiated as
a scan over pairs of a number and its tangent.

StableHLO: `reduce_window` with windows that grow (padded ones). Upstream:
`jax/_src/lax/control_flow/loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import Zero, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add, max, min, mul, neg, round, share_of_max, sub
from minijax.lax.cases import unary
from minijax.lax.compare import eq, ne
from minijax.lax.joining import concatenate
from minijax.lax.parts import abs, complex, imag, real
from minijax.lax.reductions import combining, highest, lowest
from minijax.lax.rules import (
    add_any,
    called,
    const,
    full_like,
    remembered,
    transpose_unary,
)
from minijax.lax.select import select
from minijax.lax.shapes import rev
from minijax.lax.slicing import pad, slice_in_dim
from minijax.lax.transcendental import exp, log1p
from minijax.lowering import dialect

# ----------------------------------------------------------------- public functions


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The sums of all elements up to each one along `axis`, or from it on."""
    return cumsum_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The products of all elements up to each one along `axis`, or from it on."""
    return cumprod_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The maximum of all elements up to each one along `axis`, or from it on."""
    return cummax_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The minimum of all elements up to each one along `axis`, or from it on."""
    return cummin_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """`log(cumsum(exp(operand)))`, without overflow."""
    return cumlogsumexp_p.bind1(operand, axis=int(axis), reverse=bool(reverse))


# ------------------------------------------------------------------- the primitives


def _cumulative(name: str) -> Primitive:
    prim = Primitive(name)

    @prim.def_abstract_eval
    @remembered
    def abstract_eval(x: ShapedArray, *, axis: int, reverse: bool) -> Any:
        rules.only_arrays(prim, [x])
        if axis < 0:
            raise errors.cumulative_negative_axis()
        if axis >= x.ndim:
            raise errors.cumulative_axis(axis, x.shape)
        if not dtypes.issubdtype(x.dtype, np.number):
            raise errors.dtype_not_accepted(name, x.dtype.name, None, ["number"])
        if x.sharding.spec.axes_of(axis):
            raise errors.cumulative_sharded(x, axis)
        parts = x.sharding.spec.partitions
        aval = rules.result_type(
            name,
            [x],
            x.shape,
            x.dtype,
            x.weak_type,
            partitions=lambda: parts,
            sums=rules.no_sums,
        )
        return [aval]

    @prim.def_batch
    def batch(_: Any, args: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        (dim,) = dims
        outs = prim.bind(*args, axis=axis + (axis >= dim), reverse=reverse)
        return outs, [dim]

    return prim


def _by_windows(op: str, unit: Callable[[Any], Any]) -> Callable[..., Any]:
    """Lowers to a window over all earlier elements; what it lacks there is the unit."""

    def lowering(ctx: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
        (aval,) = ctx.avals_out
        n = aval.shape[axis]
        if n == 0:
            return [x]
        ones = [1] * aval.ndim
        window, padding = list(ones), [[0, 0] for _ in ones]
        window[axis], padding[axis] = n, ([0, n - 1] if reverse else [n - 1, 0])
        init = dialect.constant(unit(aval.dtype), aval.dtype)
        out = dialect.op1(
            "stablehlo.reduce_window",
            (x, init),
            dialect.ir_type(aval),
            {
                "base_dilations": dialect.i64_array(ones),
                "padding": dialect.dense_i64(padding),
                "window_dilations": dialect.i64_array(ones),
                "window_dimensions": dialect.i64_array(window),
                "window_strides": dialect.i64_array(ones),
            },
            [combining(op, aval.dtype)],
        )
        return [ctx.with_sharding(out, aval)]

    return lowering


cumsum_p = _cumulative("cumsum")
cumprod_p = _cumulative("cumprod")
cummax_p = _cumulative("cummax")
cummin_p = _cumulative("cummin")
cumlogsumexp_p = _cumulative("cumlogsumexp")

cumsum_p.lowering = _by_windows("stablehlo.add", lambda _: 0)
cumprod_p.lowering = _by_windows("stablehlo.multiply", lambda _: 1)
cummax_p.lowering = _by_windows("stablehlo.maximum", lowest)
cummin_p.lowering = _by_windows("stablehlo.minimum", highest)


@cumsum_p.def_jvp
def _cumsum_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    return cumsum_p.bind(*primals, **params), cumsum_p.bind(*tangents, **params)


cumsum_p.def_transpose(
    transpose_unary(lambda ct, _, *, axis, reverse: cumsum(ct, axis, not reverse))
)

# -------------------------------------------------------------------- scans by halves

Combine = Callable[[Any, Any], Any]


def scan_pairs(combine: Combine, elems: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """Running combinations along `axis`, in a logarithmic number of steps.

    `combine(xs, ys)` is associative and takes tuples of arrays like `elems`.
    """
    n = typeof(elems[0]).shape[axis]
    if n < 2:
        return elems
    odd = scan_pairs(
        combine,
        combine(_every_second(elems, 0, -1, axis), _every_second(elems, 1, None, axis)),
        axis,
    )
    before = odd if n % 2 else tuple(slice_in_dim(x, 0, -1, axis=axis) for x in odd)
    even = combine(before, _every_second(elems, 2, None, axis))
    first = [slice_in_dim(x, 0, 1, axis=axis) for x in elems]
    even = [concatenate([f, x], axis) for f, x in zip(first, even, strict=True)]
    return _interleave(even, odd, axis)


def _every_second(xs: Any, start: int, stop: int | None, axis: int) -> Any:
    return tuple(slice_in_dim(x, start, stop, stride=2, axis=axis) for x in xs)


def _interleave(even: Any, odd: Any, axis: int) -> tuple[Any, ...]:
    """Puts elements of `odd` between those of `even`, pair by pair of arrays."""
    same = typeof(even[0]).shape[axis] == typeof(odd[0]).shape[axis]

    def spread(x: Any, low: int, high: int) -> Any:
        config = [(0, 0, 0)] * typeof(x).ndim
        config[axis] = (low, high, 1)
        return pad(x, const(x, 0), config)

    evens = [spread(x, 0, int(same)) for x in even]
    odds = [spread(x, 1, int(not same)) for x in odd]
    return tuple(add(e, o) for e, o in zip(evens, odds, strict=True))


def _scan_jvp(prim: Primitive, combine: Combine, push: Callable[..., Any]) -> None:
    """The jvp of a running combination.

    `push(x, y, out, t, u)` is the tangent of `out = combine(x, y)` due to `t` and `u`.
    """

    def both(xs: Any, ys: Any) -> Any:
        (x, t), (y, u) = xs, ys
        out = combine(x, y)
        return out, push(x, y, out, t, u)

    def jvp(primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            outs = prim.bind(x, axis=axis, reverse=reverse)
            return outs, [zero_tangent(outs[0])]
        pair = (rev(x, (axis,)), rev(t, (axis,))) if reverse else (x, t)
        out, tangent = scan_pairs(both, pair, axis)
        if reverse:
            out, tangent = rev(out, (axis,)), rev(tangent, (axis,))
        return [out], [tangent]

    prim.jvp = jvp
    prim.without(transpose="it is not linear")


def _of_max(x: Any, y: Any, out: Any, t: Any, u: Any) -> Any:
    return add_any(mul(t, share_of_max(x, y)), mul(u, share_of_max(y, x)))


def _of_min(x: Any, y: Any, out: Any, t: Any, u: Any) -> Any:
    return add_any(mul(t, share_of_max(y, x)), mul(u, share_of_max(x, y)))


def logaddexp(x: Any, y: Any) -> Any:
    """`log(exp(x) + exp(y))`, without overflow."""
    top, apart = max(x, y), sub(x, y)
    undefined, total = ne(apart, apart), add(x, y)  # of two equal infinities, and NaN
    if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        return select(undefined, total, add(top, log1p(exp(neg(abs(apart))))))
    out = select(undefined, total, add(top, log1p(exp(sub(min(x, y), top)))))
    angle = imag(out)  # to be brought between -pi and pi
    turns = round(mul(angle, const(angle, 0.5 / np.pi)))
    return complex(real(out), sub(angle, mul(turns, const(angle, 2 * np.pi))))


def _of_logaddexp(x: Any, y: Any, out: Any, t: Any, u: Any) -> Any:
    def share(v: Any) -> Any:
        return exp(sub(_finite(v), _finite(out)))

    return add(mul(t, share(x)), mul(u, share(y)))


def _finite(x: Any) -> Any:
    """`x` with 0 in place of infinity."""
    infinite = eq(x, const(x, np.inf))
    return select(infinite, full_like(x, 0), x)


_scan_jvp(cumprod_p, mul, lambda x, y, out, t, u: add_any(mul(t, y), mul(x, u)))
_scan_jvp(cummax_p, max, _of_max)
_scan_jvp(cummin_p, min, _of_min)
_scan_jvp(cumlogsumexp_p, logaddexp, _of_logaddexp)


def _running_logsumexp(x: Any, *, axis: int, reverse: bool) -> Any:
    def combine(xs: Any, ys: Any) -> Any:
        return (logaddexp(*xs, *ys),)

    turned = rev(x, (axis,)) if reverse else x
    (out,) = scan_pairs(combine, (turned,), axis)
    return rev(out, (axis,)) if reverse else out


cumlogsumexp_p.lowering = called("cumlogsumexp", _running_logsumexp)

CASES = [
    unary(prim, params={"axis": axis, "reverse": reverse})
    for prim in (cumsum_p, cumprod_p, cummax_p, cummin_p, cumlogsumexp_p)
    for axis, reverse in ((0, False), (1, True))
]
