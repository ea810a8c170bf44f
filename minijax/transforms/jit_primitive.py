"""The primitive of `jit`: a call of a traced function.

Its parameter is a jaxpr without constvars. Each rule transforms the body, once per
jaxpr and kind of call (the result is kept with the jaxpr), and binds again through
`bind_body`.

Upstream: `jax/_src/pjit.py` (`jit_p`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from minijax.core.avals import abstract_token
from minijax.core.jaxpr import (
    Jaxpr,
    JaxprEqn,
    collective_names,
    dead_code_eliminated,
)
from minijax.core.linear import Zero, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.trace import use_trace
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import (
    PartialEvalTrace,
    partial_eval_jaxpr,
    selected,
)
from minijax.transforms.transpose import transpose_jaxpr
from minijax.transforms.vmap import batch_jaxpr

jit_p = Primitive("jit")
jit_p.axis_names = lambda params: collective_names(params["jaxpr"])


def bind_body(jaxpr: Jaxpr, args: Sequence[Any], name: str, **params: Any) -> list[Any]:
    """Binds `jit` with a body; what is not said of its arguments is left open.

    `ctx_mesh` is the context mesh that the body was traced under, if any.
    """
    return jit_p.bind(
        *args,
        name=name,
        ctx_mesh=params.get("ctx_mesh"),
        donated_invars=params.get("donated_invars", (False,) * len(args)),
        in_shardings=params.get("in_shardings", (None,) * len(args)),
        jaxpr=jaxpr,
        keep_unused=params.get("keep_unused", False),
        out_shardings=params.get("out_shardings", (None,) * len(jaxpr.outvars)),
    )


@jit_p.def_abstract_eval
def _type(*_: Any, jaxpr: Jaxpr, **__: Any) -> list[Any]:
    return jaxpr.out_avals


@jit_p.def_effects
def _effects(*_: Any, jaxpr: Jaxpr, **__: Any) -> Any:
    return jaxpr.effects


@jit_p.def_lowering
def _lowering(
    ctx: Any,
    *values: Any,
    name: str,
    jaxpr: Jaxpr,
    in_shardings: Any,
    out_shardings: Any,
    **_: Any,
) -> Any:
    return ctx.call(jaxpr, name, values, in_shardings, out_shardings)


@jit_p.def_jvp
def _jvp(
    primals: Any,
    tangents: Any,
    *,
    name: str,
    jaxpr: Jaxpr,
    ctx_mesh: Any,
    donated_invars: Any,
    **_: Any,
) -> Any:
    nonzero = [type(t) is not Zero for t in tangents]
    body, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    kept = [t for t in tangents if type(t) is not Zero]
    # Tangents are donated with their primals.
    donated = (*donated_invars, *selected(donated_invars, nonzero))
    same = {"ctx_mesh": ctx_mesh, "donated_invars": donated}
    results = bind_body(body, [*primals, *kept], name, **same)
    count = len(jaxpr.outvars)
    found = iter(results[count:])
    tangents_out = [
        next(found) if n else Zero(a.to_tangent())
        for n, a in zip(nonzero_out, jaxpr.out_avals, strict=True)
    ]
    return results[:count], tangents_out


@jit_p.def_batch
def _batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    name: str,
    jaxpr: Jaxpr,
    ctx_mesh: Any,
    donated_invars: Any,
    **_: Any,
) -> Any:
    body, out_dims = batch_jaxpr(jaxpr, axis, dims)
    kept = {"ctx_mesh": ctx_mesh, "donated_invars": donated_invars}
    return bind_body(body, args, name, **kept), out_dims


@jit_p.def_partial_eval
def _partial_eval(
    trace: PartialEvalTrace,
    args: Any,
    *,
    name: str,
    jaxpr: Jaxpr,
    ctx_mesh: Any,
    **_: Any,
) -> list[Any]:
    """Binds the known part in the parent and records the unknown part."""
    unknown = [trace.is_unknown(x) for x in args]
    split = partial_eval_jaxpr(jaxpr, unknown)
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
    unknown_args = [x for x, u in zip(args, unknown, strict=True) if u]
    bind = partial(bind_body, name=name, ctx_mesh=ctx_mesh)
    results = trace.known(bind, split.known, known_args)
    count = split.out_unknown.count(False)
    residuals = split.residuals(known_args, results[count:])
    with use_trace(trace.staging):
        late = bind(split.unknown, [*residuals, *unknown_args])
    return split.merge(results[:count], late)


@jit_p.def_transpose
def _transpose(
    cts: Any, *args: Any, name: str, jaxpr: Jaxpr, ctx_mesh: Any, **_: Any
) -> list[Any]:
    linear = [is_undefined(x) for x in args]
    zero = [type(ct) is Zero for ct in cts]
    body, nonzero = transpose_jaxpr(jaxpr, linear, zero)
    known = [x for x in args if not is_undefined(x)]
    given = [ct for ct in cts if type(ct) is not Zero]
    results = iter(bind_body(body, [*known, *given], name, ctx_mesh=ctx_mesh))
    found = iter(next(results) if n else None for n in nonzero)
    return [next(found) if u else None for u in linear]


@jit_p.def_dce
def _dce(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
    """Drops unused results, and the operands that the others do not need.

    A token stays: it may be there for its place in the order alone.
    """
    jaxpr: Jaxpr = eqn.params["jaxpr"]
    body, read = dead_code_eliminated(jaxpr, used)
    kept = [r or a is abstract_token for r, a in zip(read, jaxpr.in_avals, strict=True)]
    if body is jaxpr or (all(used) and all(kept)):
        return eqn
    if kept != read:
        body = body.replace(invars=selected(jaxpr.invars, kept))
    params = eqn.params | {
        "donated_invars": selected(eqn.params["donated_invars"], kept),
        "in_shardings": selected(eqn.params["in_shardings"], kept),
        "jaxpr": body,
        "out_shardings": selected(eqn.params["out_shardings"], used),
    }
    return eqn.replace(
        invars=selected(eqn.invars, kept),
        outvars=selected(eqn.outvars, used),
        params=params,
    )


@jit_p.def_pretty
def _pretty(eqn: Any) -> dict[str, Any]:
    """The name first, then what is not left open."""
    params = dict(eqn.params)
    shown = {"name": params.pop("name")}
    for key in sorted(params):
        value = params[key]
        parts = value if isinstance(value, tuple) else (value,)
        if not all(v is None or v is False for v in parts):
            shown[key] = value
    return shown
