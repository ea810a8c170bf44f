"""The primitive of scans: its parameters, its type, tangents, and batching.

    carry, ys = scan[jaxpr length ...] consts, carry0, xs        ys[i] of xs[i]

The body takes the constants, the carry and one slice of each of `xs`, and returns the
next carry and one slice of each of `ys`. A token among the `xs` is the same for each
step; one among the `ys` is ordered after those of all steps.

The other rules are in `scan_backward` and `scan_lowering`.

Upstream: `jax/_src/lax/control_flow/loops.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minijax.core.jaxpr import (
    Jaxpr,
    JaxprEqn,
    collective_names,
    dead_code_eliminated,
)
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.lax.rules import instantiate
from minijax.transforms.control.common import (
    Mask,
    chosen,
    fixpoint,
    rearranged,
    split_at,
    token_dims,
)
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.vmap import BatchAxis, at_dim, batch_jaxpr, mapped


class ScanIn(NamedTuple):
    """How many of a scan's operands are constants, carries and scanned over.

    It prints as upstream's tree of placeholders does.
    """

    consts: int
    carry: int
    xs: int

    def __repr__(self) -> str:
        return _tuple_text([_nones(n) for n in self])


class ScanOut(NamedTuple):
    """How many of a scan's results are carries, and which stacked results it makes.

    Of the user's `ys` some are inputs passed through, which are not marked in `ys`.
    """

    carry: int
    ys: tuple[bool, ...]

    def __repr__(self) -> str:
        ys = [f"RightsOnly({'Right' if y else 'Left'}(None))" for y in self.ys]
        return _tuple_text([_nones(self.carry), _tuple_text(ys)])


def _nones(count: int) -> str:
    return _tuple_text(["None"] * count)


def _tuple_text(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def stacked(aval: Any, length: int) -> Any:
    """The type of all slices together."""
    return mapped(aval, 0, BatchAxis(None, length))


scan_p = Primitive("scan")
scan_p.axis_names = lambda params: collective_names(params["jaxpr"])


def bind_parts(
    consts: Sequence[Any],
    carry: Sequence[Any],
    xs: Sequence[Any],
    jaxpr: Jaxpr,
    params: dict[str, Any],
) -> tuple[list[Any], list[Any]]:
    """Binds a scan; returns the carries and the stacked results."""
    results = scan_p.bind(
        *consts,
        *carry,
        *xs,
        **params
        | {
            "ft_in": ScanIn(len(consts), len(carry), len(xs)),
            "ft_out": ScanOut(len(carry), (True,) * (len(jaxpr.outvars) - len(carry))),
            "jaxpr": jaxpr,
        },
    )
    return results[: len(carry)], results[len(carry) :]


@scan_p.def_abstract_eval
def _type(*_: Any, jaxpr: Jaxpr, ft_out: ScanOut, length: int, **__: Any) -> list[Any]:
    avals = jaxpr.out_avals
    ys = [stacked(a, length) for a in avals[ft_out.carry :]]
    return [*avals[: ft_out.carry], *ys]


@scan_p.def_effects
def _effects(*_: Any, jaxpr: Jaxpr, **__: Any) -> Any:
    return jaxpr.effects


@scan_p.def_dce
def _dce(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
    """Drops unused stacked results, and carries that nothing used rests on."""
    jaxpr: Jaxpr = eqn.params["jaxpr"]
    num_consts, num_carry, _ = eqn.params["ft_in"]
    carry, ys = used[:num_carry], used[num_carry:]
    while True:
        body, read = dead_code_eliminated(jaxpr, [*carry, *ys])
        consts, carry_read, xs = split_at(read, num_consts, num_carry)
        grown = [a or b for a, b in zip(carry, carry_read, strict=True)]
        if grown == carry:
            break
        carry = grown
    kept = [*consts, *carry, *xs]
    if all(kept) and all(carry) and all(ys):
        return eqn
    params = eqn.params | {
        "ft_in": ScanIn(sum(consts), sum(carry), sum(xs)),
        "ft_out": ScanOut(sum(carry), (True,) * sum(ys)),
        "jaxpr": body.replace(invars=chosen(jaxpr.invars, kept)),
    }
    return eqn.replace(
        invars=chosen(eqn.invars, kept),
        outvars=chosen(eqn.outvars, [*carry, *ys]),
        params=params,
    )


# ----------------------------------------------------------------------- derivatives


@scan_p.def_jvp
def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Carries get tangents where the initial ones or the body give them one."""
    jaxpr, (num_consts, num_carry, _) = params["jaxpr"], params["ft_in"]
    sizes = (num_consts, num_carry)
    nonzero = [type(t) is not Zero for t in tangents]
    consts_nonzero, init_nonzero, xs_nonzero = split_at(nonzero, *sizes)
    num_ys = len(jaxpr.outvars) - num_carry

    def step(mask: Mask) -> tuple[Mask, tuple[Jaxpr, Mask]]:
        nonzero = [*consts_nonzero, *mask, *xs_nonzero]
        body, found = jvp_jaxpr(jaxpr, nonzero, [*mask, *[False] * num_ys])
        return found[:num_carry], (body, found[num_carry:])

    carry_nonzero, (body, ys_nonzero) = fixpoint(init_nonzero, step)
    consts, init, xs = split_at(primals, *sizes)
    consts_dot, init_dot, xs_dot = split_at(tangents, *sizes)
    consts_dot = chosen(consts_dot, consts_nonzero)
    init_dot = [instantiate(t) for t in chosen(init_dot, carry_nonzero)]
    xs_dot = chosen(xs_dot, xs_nonzero)
    sizes_dot = (len(consts_dot), len(init_dot))
    of_primals = split_at(range(len(jaxpr.invars)), *sizes)
    of_tangents = split_at(range(len(jaxpr.invars), len(body.invars)), *sizes_dot)
    pairs = zip(of_primals, of_tangents, strict=True)
    ins = [i for a, b in pairs for i in (*a, *b)]
    count, dots = len(jaxpr.outvars), len(init_dot)
    outs = [
        *range(num_carry),
        *range(count, count + dots),
        *range(num_carry, count),
        *range(count + dots, len(body.outvars)),
    ]
    carry, ys = bind_parts(
        [*consts, *consts_dot],
        [*init, *init_dot],
        [*xs, *xs_dot],
        rearranged(body, ins, outs),
        params,
    )
    values = [*carry[:num_carry], *ys[:num_ys]]
    found = iter([*carry[num_carry:], *ys[num_ys:]])
    out_avals = _type(**params)
    tangents_out = [
        next(found) if n else Zero(a.to_tangent())
        for n, a in zip([*carry_nonzero, *ys_nonzero], out_avals, strict=True)
    ]
    return values, tangents_out


# -------------------------------------------------------------------------- batching


@scan_p.def_batch
def _batch(axis: BatchAxis, args: Any, dims: Any, **params: Any) -> Any:
    """The mapped dimension is behind the scanned one, and in front in the body."""
    jaxpr, ft_in = params["jaxpr"], params["ft_in"]
    sizes = (ft_in.consts, ft_in.carry)
    consts, init, xs = split_at(args, *sizes)
    const_dims, init_dims, xs_dims = split_at(token_dims(args, dims), *sizes)
    x_dims = [None if d is None else 0 for d in xs_dims]
    num_ys = len(jaxpr.outvars) - ft_in.carry

    def step(mask: Mask) -> tuple[Mask, tuple[Jaxpr, list[int | None]]]:
        wanted = [0 if m else None for m in mask]
        body, found = batch_jaxpr(
            jaxpr,
            axis,
            [*const_dims, *wanted, *x_dims],
            [*wanted, *[None] * num_ys],
        )
        of_carry = [d is not None for d in found[: ft_in.carry]]
        return of_carry, (body, found[ft_in.carry :])

    mask, (body, y_dims) = fixpoint([d is not None for d in init_dims], step)
    carry_dims = [0 if m else None for m in mask]
    new_init = [
        at_dim(x, axis, d, wanted)
        for x, d, wanted in zip(init, init_dims, carry_dims, strict=True)
    ]
    new_xs = [
        x if d is None else at_dim(x, axis, d, 1)
        for x, d in zip(xs, xs_dims, strict=True)
    ]
    outs = scan_p.bind(*consts, *new_init, *new_xs, **params | {"jaxpr": body})
    return outs, [*carry_dims, *[None if d is None else d + 1 for d in y_dims]]
