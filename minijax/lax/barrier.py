"""optimization_barrier: operands and results that the compiler keeps in order.

All operands are computed before anything that uses a result. It is the identity, of
any number of arrays and tokens. Tangents and cotangents pass a barrier of their own.

StableHLO: `optimization_barrier`. Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.lax.cases import Case
from minijax.lowering import dialect


def optimization_barrier(operand: Any, /) -> Any:
    """The leaves of `operand`, each behind a barrier that all leaves must reach."""
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, optimization_barrier_p.bind(*leaves))


optimization_barrier_p = Primitive("optimization_barrier")


@optimization_barrier_p.def_abstract_eval
def _barrier_type(*avals: Any) -> list[Any]:
    return list(avals)


@optimization_barrier_p.def_lowering
def _barrier_lowering(ctx: Any, *values: Any) -> list[Any]:
    types = [dialect.ir_type(a) for a in ctx.avals_out]
    outs = dialect.op("stablehlo.optimization_barrier", values, types)
    return ctx.with_shardings(outs, ctx.avals_out)


def _of_nonzero(xs: Sequence[Any]) -> list[Any]:
    """A barrier for the tangents or cotangents that are not symbolic zeros."""
    known = [x for x in xs if type(x) is not Zero]
    passed = iter(optimization_barrier_p.bind(*known) if known else ())
    return [x if type(x) is Zero else next(passed) for x in xs]


@optimization_barrier_p.def_jvp
def _barrier_jvp(primals: Any, tangents: Any) -> Any:
    return optimization_barrier_p.bind(*primals), _of_nonzero(tangents)


@optimization_barrier_p.def_transpose
def _barrier_transpose(cts: Any, *_: Any) -> list[Any]:
    return [None if type(ct) is Zero else ct for ct in _of_nonzero(cts)]


@optimization_barrier_p.def_batch
def _barrier_batch(_: Any, args: Any, dims: Any) -> Any:
    return optimization_barrier_p.bind(*args), list(dims)


CASES = [
    Case(optimization_barrier_p, [(3, 2)]),
    Case(optimization_barrier_p, [(3, 2), (4,)]),
]
