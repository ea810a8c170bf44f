"""Choices between elements: select_n, select, clamp.

`select_n(which, *cases)` takes each element from the case that `which` says, a bool or
an integer. It is linear in the cases, and its transpose sends a cotangent back to the
case that was chosen. `clamp(low, x, high)` keeps `x` between bounds.

StableHLO: `select`, nested in halves for more than two cases; `clamp`.
Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import NO_NAMES, Names, Shape, ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.linear import Zero, is_undefined, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.cases import Case
from minijax.lax.compare import eq, gt, lt
from minijax.lax.integers import bitwise_and
from minijax.lax.rules import (
    ANY,
    batch_front,
    cast_together,
    check_dtypes,
    check_same_dtypes,
    const,
    derivatives,
    emit,
    full_like,
    remembered,
)
from minijax.lax.shapes import broadcast_in_dim
from minijax.lowering import dialect

# ------------------------------------------------------------------------ select_n


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of `on_true` where `pred` holds, else of `on_false`.

    `pred` is bool, a scalar or of the shape of the cases, which agree in shape and
    dtype; else TypeError.
    """
    return select_n(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Any:
    """Elements of `cases[which]`; `which` is bool (then False is case 0) or integer.

    TypeError where shapes or dtypes do not fit. An index out of range takes the first
    or the last case.
    """
    if not cases:
        raise errors.no_cases()
    which, *cases = cast_together(which, *cases)  # type: ignore[assignment]
    return select_n_p.bind1(which, *cases)


select_n_p = Primitive("select_n")


@select_n_p.def_abstract_eval
@remembered
def _select_type(which: ShapedArray, *cases: ShapedArray) -> list[ShapedArray]:
    rules.only_arrays(select_n_p, (which, *cases))
    first = cases[0]
    if any(c.shape != first.shape for c in cases):
        raise errors.case_shapes(c.shape for c in cases)
    if which.shape and which.shape != first.shape:
        raise errors.which_shape(which.shape, first.shape)
    check_same_dtypes("select", cases)
    is_bool = dtypes.issubdtype(which.dtype, np.bool_)
    if not is_bool and not dtypes.issubdtype(which.dtype, np.integer):
        raise errors.which_dtype(which.dtype)
    if is_bool and len(cases) > 2:
        raise errors.too_many_cases()
    aval = rules.result_type(
        "select_n",
        (which, *cases),
        first.shape,
        first.dtype,
        all(c.weak_type for c in cases),
        partitions=lambda: _select_partitions(which, cases),
        sums=_select_sums,
    )
    return [aval]


def _select_partitions(which: ShapedArray, cases: Sequence[ShapedArray]) -> Any:
    told = [c.sharding for c in cases if not c.mesh.empty]
    if not told:
        return [None] * cases[0].ndim
    first = told[0]
    if any(s is not first for s in told):
        raise errors.case_shardings(c.sharding for c in cases)
    parts = first.spec.partitions
    differs = which.sharding.spec.partitions != parts or which.mesh is not first.mesh
    if which.shape and not which.mesh.empty and differs:
        raise errors.which_sharding(which.sharding, cases[0].sharding)
    return parts


def _select_sums(name: str, avals: Sequence[ShapedArray]) -> tuple[Names, Names]:
    # `which` may be reduced where the cases, being cotangents, are unreduced.
    told = [c for c in avals[1:] if not c.mesh.empty]
    return rules.linear(name, told) if told else (NO_NAMES, NO_NAMES)


@select_n_p.def_lowering
def _select_lowering(ctx: Any, which: Any, *cases: Any) -> list[Any]:
    aval, (out,) = ctx.avals_in[0], ctx.avals_out
    type_ = dialect.ir_type(out)

    def choose(first: int, among: Sequence[Any]) -> Any:
        if len(among) == 1:
            return among[0]
        half = len(among) // 2
        middle = dialect.full(aval, first + half)
        low = dialect.compare("LT", which, middle, aval)
        pair = (choose(first, among[:half]), choose(first + half, among[half:]))
        return dialect.op1("stablehlo.select", (low, *pair), type_)

    if aval.dtype == np.bool_ and len(cases) == 2:
        chosen = dialect.op1("stablehlo.select", (which, *cases[::-1]), type_)
    else:
        chosen = choose(0, cases)
    return [ctx.with_sharding(chosen, out)]


@select_n_p.def_jvp
def _select_jvp(primals: Any, tangents: Any) -> Any:
    which, *cases = primals
    out = select_n(which, *cases)
    ts = tangents[1:]
    known = next((t for t in ts if type(t) is not Zero), None)
    if known is None:
        return [out], [zero_tangent(out)]
    zeros = full_like(known, 0)
    return [out], [select_n(which, *(zeros if type(t) is Zero else t for t in ts))]


@select_n_p.def_transpose
def _select_transpose(cts: Any, which: Any, *cases: Any) -> list[Any]:
    (ct,) = cts
    if type(ct) is Zero:
        return [None] * (1 + len(cases))
    if len(cases) == 1:
        return [None, ct]
    zeros = full_like(ct, 0)
    if typeof(which).dtype == np.bool_:
        pairs = [(zeros, ct), (ct, zeros)]
        chosen = [lambda pair=p: select(which, *pair) for p in pairs]
    else:
        last = const(which, len(cases) - 1)
        which = clamp(const(which, 0), which, last)
        chosen = [
            lambda i=i: select(eq(which, const(which, i)), ct, zeros)
            for i in range(len(cases))
        ]
    return [
        None,
        *(
            make() if is_undefined(c) else None
            for make, c in zip(chosen, cases, strict=True)
        ),
    ]


@select_n_p.def_batch
def _select_batch(axis: Any, args: Any, dims: Any) -> Any:
    which, *cases = args
    dim, *case_dims = dims
    shape = typeof(which).shape
    if all(d == case_dims[0] for d in case_dims) and case_dims[0] is not None:
        case_shape, at = typeof(cases[0]).shape, case_dims[0]
        if (dim == at and shape == case_shape) or not shape:
            return [select_n(which, *cases)], [at]
        if dim is not None and len(shape) == 1:  # one choice for each mapped element
            return [select_n(_along(which, cases[0], at), *cases)], [at]
    shared = dim is None and not shape
    which = which if shared else batch_front(which, axis, dim)
    cases = [batch_front(c, axis, d) for c, d in zip(cases, case_dims, strict=True)]
    if shared:
        return [select_n(which, *cases)], [0]
    if len(typeof(which).shape) < len(typeof(cases[0]).shape):
        which = _along(which, cases[0], 0)
    return [select_n(which, *cases)], [0]


def _along(which: Any, case: Any, dim: int) -> Any:
    """One choice per mapped element, repeated over the rest of the element."""
    aval = typeof(case)
    sharding = aval.sharding if aval.sharding.spec.axes else None
    return broadcast_in_dim(which, aval.shape, (dim,), out_sharding=sharding)


# --------------------------------------------------------------------------- clamp


def clamp(min: Any, x: Any, max: Any) -> Any:
    """`x`, but `min` where it is less and `max` where it is greater.

    The bounds are scalars or have the shape of `x`; all have one dtype.
    """
    min, x, max = cast_together(min, x, max)
    return clamp_p.bind1(min, x, max)


clamp_p = Primitive("clamp")


@clamp_p.def_abstract_eval
@remembered
def _clamp_type(
    low: ShapedArray, x: ShapedArray, high: ShapedArray
) -> list[ShapedArray]:
    avals = (low, x, high)
    rules.only_arrays(clamp_p, avals)
    for bound, aval in (("min", low), ("max", high)):
        if aval.shape and aval.shape != x.shape:
            raise errors.clamp_shape(bound, aval.shape, x.shape)
    check_dtypes("clamp", avals, (ANY, ANY, ANY))
    check_same_dtypes("clamp", avals)
    aval = rules.result_type(
        "clamp",
        avals,
        x.shape,
        x.dtype,
        all(a.weak_type for a in avals),
        partitions=lambda: x.sharding.spec.partitions,
        sums=rules.no_sums,
    )
    return [aval]


@clamp_p.def_lowering
def _clamp_lowering(ctx: Any, *operands: Any) -> list[Any]:
    return emit(ctx, "stablehlo.clamp", *operands)


def _where(pred: Any, g: Any, x: Any) -> Any:
    """`g`, which may be a scalar's, where `pred` holds."""
    zeros = full_like(x, 0)
    shape: Shape = typeof(x).shape
    return select(pred, broadcast_in_dim(g, shape, ()) if _scalar(g) else g, zeros)


def _scalar(g: Any) -> bool:
    return not typeof(g).shape


derivatives(
    clamp_p,
    lambda g, low, x, high: _where(bitwise_and(gt(low, x), lt(low, high)), g, x),
    lambda g, low, x, high: _where(bitwise_and(gt(x, low), lt(x, high)), g, x),
    lambda g, low, x, high: _where(lt(high, x), g, x),
)


@clamp_p.def_batch
def _clamp_batch(axis: Any, args: Any, dims: Any) -> Any:
    low, x, high = args
    at = dims[1]
    bounds = [(low, dims[0]), (high, dims[2])]
    if at is not None and all(d is None and _scalar(b) for b, d in bounds):
        return clamp_p.bind(low, x, high), [at]
    x = batch_front(x, axis, at)
    low, high = (_bound(axis, b, d, x) for b, d in bounds)
    return clamp_p.bind(low, x, high), [0]


def _bound(axis: Any, bound: Any, dim: int | None, x: Any) -> Any:
    if dim is None and _scalar(bound):
        return bound
    bound = batch_front(bound, axis, dim)
    return (
        bound
        if len(typeof(bound).shape) == len(typeof(x).shape)
        else _along(bound, x, 0)
    )


_BOOL = [np.bool_, np.float32, np.float32]
_INT = [np.int32, np.float32, np.float32, np.float32]

CASES = [
    Case(select_n_p, [(3, 2)] * 3, dtypes=_BOOL),
    Case(select_n_p, [(), (3, 2), (3, 2)], dtypes=_BOOL),
    Case(select_n_p, [(), (), ()], dtypes=_BOOL),
    Case(select_n_p, [(3, 2)] * 4, dtypes=_INT),
    Case(
        clamp_p,
        [(), (3, 2), ()],
        make=lambda rng: [
            np.float32(0.3),
            rng.uniform(size=(3, 2)).astype(np.float32),
            np.float32(0.7),
        ],
        dtypes=np.float32,
    ),
    Case(
        clamp_p,
        [(3, 2)] * 3,
        make=lambda rng: [
            np.full((3, 2), 0.3, np.float32),
            rng.uniform(size=(3, 2)).astype(np.float32),
            np.full((3, 2), 0.7, np.float32),
        ],
    ),
]
