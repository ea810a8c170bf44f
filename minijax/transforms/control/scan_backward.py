"""The backward pass of a scan: splitting it in two, and running one half backwards.

What a step of the known half hands to the same step of the other half is stacked, as
one more of the `ys`; the transpose is a scan in the opposite direction.

Upstream: `jax/_src/lax/control_flow/loops.py` (`_scan_partial_eval`,
`_scan_transpose_fancy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.jaxpr import Jaxpr
from minijax.core.linear import UndefinedPrimal, Zero, is_undefined
from minijax.core.staging import stage_body
from minijax.core.trace import typeof, use_trace
from minijax.lax.rules import add_any, instantiate
from minijax.transforms.control.common import (
    Mask,
    chosen,
    derived,
    fixpoint,
    is_token,
    merged,
    rearranged,
    split_at,
    where,
)
from minijax.transforms.control.scan_primitive import ScanIn, bind_parts
from minijax.transforms.partial_eval import (
    PartialEvalJaxpr,
    PartialEvalTrace,
    partial_eval_jaxpr,
)
from minijax.transforms.transpose import backward_pass


def partial_eval(trace: PartialEvalTrace, args: Any, **params: Any) -> list[Any]:
    """Splits the body: residuals of all steps are stacked."""
    unknown = [trace.is_unknown(x) for x in args]
    split = _split(params, unknown)
    known_args = chosen(args, [not u for u in split.in_unknown])
    carry, ys = trace.known(split.bind_known, known_args, params)
    with use_trace(trace.staging):
        late = split.bind_unknown(
            known_args, ys, chosen(args, split.in_unknown), params
        )
    return split.merge(carry, ys, late)


def _split(params: dict[str, Any], unknown: Sequence[bool]) -> _Split:
    jaxpr, ft_in = params["jaxpr"], params["ft_in"]
    key = ("scan split", ft_in, tuple(unknown))
    return derived(jaxpr, key, lambda: _Split(jaxpr, ft_in, list(unknown)))


class _Split:
    """A scan split into one of what is known and one of the rest.

    A carry is unknown if the initial one is, or if the body makes it so. A residual
    that is a constant, or one of the `xs`, is handed over as it is; the others are
    results of the known scan, stacked.
    """

    def __init__(self, jaxpr: Jaxpr, ft_in: ScanIn, unknown: Mask):
        sizes = (ft_in.consts, ft_in.carry)
        consts_unknown, init_unknown, xs_unknown = split_at(unknown, *sizes)
        num_ys = len(jaxpr.outvars) - ft_in.carry

        def step(mask: Mask) -> tuple[Mask, PartialEvalJaxpr]:
            split = partial_eval_jaxpr(
                jaxpr,
                [*consts_unknown, *mask, *xs_unknown],
                [*mask, *[False] * num_ys],
            )
            return split.out_unknown[: ft_in.carry], split

        carry_unknown, parts = fixpoint(init_unknown, step)
        self.carry_unknown = carry_unknown
        self.in_unknown = [*consts_unknown, *carry_unknown, *xs_unknown]
        self.ys_unknown = parts.out_unknown[ft_in.carry :]
        self.num_consts = consts_unknown.count(False)
        self.num_carry = carry_unknown.count(False)
        self.num_ys = self.ys_unknown.count(False)
        self.sizes_unknown = (consts_unknown.count(True), carry_unknown.count(True))
        self._place_residuals(parts)

    def _place_residuals(self, parts: PartialEvalJaxpr) -> None:
        """Sorts the residuals by where they come from."""
        # A residual that is a known carry must be stacked, too.
        first_x = self.num_consts + self.num_carry
        extra: list[int] = []
        #: For each residual ("const" or "x", position among the known operands), or
        #: ("y", position among the stacked results of the known scan).
        self.sources: list[tuple[str, int]] = []
        computed = parts.forwarded.count(None)
        next_y = self.num_ys
        for i in parts.forwarded:
            if i is None:
                self.sources.append(("y", next_y))
                next_y += 1
            elif i < self.num_consts:
                self.sources.append(("const", i))
            elif i >= first_x:
                self.sources.append(("x", i))
            else:
                self.sources.append(("y", self.num_ys + computed + len(extra)))
                extra.append(-1 - i)
        outs = [*range(len(parts.known.outvars)), *extra]
        self.known = rearranged(parts.known, None, outs)
        fixed = [s == "const" for s, _ in self.sources]
        later = [not f for f in fixed]
        start = len(fixed)
        consts, carry, xs = split_at(
            range(start, len(parts.unknown.invars)), *self.sizes_unknown
        )
        ins = [*where(fixed), *consts, *carry, *where(later), *xs]
        self.unknown = rearranged(parts.unknown, ins)

    def bind_known(
        self, known: Sequence[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """The known carries; the known stacked results and then the residuals."""
        if not self.known.outvars and not self.known.effects:
            return [], []
        consts, carry, xs = split_at(known, self.num_consts, self.num_carry)
        return bind_parts(consts, carry, xs, self.known, params)

    def bind_unknown(
        self,
        known: Sequence[Any],
        ys: Sequence[Any],
        unknown: Sequence[Any],
        params: dict[str, Any],
    ) -> list[Any]:
        """The unknown results, from known operands, what the known scan stacked, ..."""
        consts, carry, xs = split_at(unknown, *self.sizes_unknown)
        fixed = [known[i] for s, i in self.sources if s == "const"]
        later = [
            known[i] if s == "x" else ys[i] for s, i in self.sources if s != "const"
        ]
        late = bind_parts([*fixed, *consts], carry, [*later, *xs], self.unknown, params)
        return [*late[0], *late[1]]

    def merge(self, carry: list[Any], ys: list[Any], late: list[Any]) -> list[Any]:
        """All results of the scan, in their order."""
        mask = [*self.carry_unknown, *self.ys_unknown]
        return merged(mask, [*carry, *ys[: self.num_ys]], late)


def transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    """A scan in the opposite direction.

    Its carries are the cotangents of the carries, and sums of the cotangents of the
    constants; what is scanned over are the cotangents of the `ys`.
    """
    ft_in = params["ft_in"]
    linear = [is_undefined(x) for x in args]
    _, carry_linear, _ = split_at(linear, ft_in.consts, ft_in.carry)
    if not all(carry_linear):
        return _transpose_unknown_part(cts, args, linear, params)
    consts, _, xs = split_at(args, ft_in.consts, ft_in.carry)
    cts_carry = [instantiate(ct) for ct in cts[: ft_in.carry]]
    cts_ys = cts[ft_in.carry :]
    zero = tuple(type(ct) is Zero for ct in cts_ys)
    const_linear = [is_undefined(x) for x in consts]
    sums = [
        instantiate(Zero(x.aval.to_cotangent())) for x in chosen(consts, const_linear)
    ]
    key = ("scan transpose", ft_in, tuple(linear), zero)
    body = derived(
        params["jaxpr"],
        key,
        lambda: _transposed(params["jaxpr"], ft_in, linear, zero),
    )
    new_carry, cts_xs = bind_parts(
        [x for x in consts if not is_undefined(x)],
        [*sums, *cts_carry],
        [
            *[ct for ct in cts_ys if type(ct) is not Zero],
            *[x for x in xs if not is_undefined(x)],
        ],
        body,
        params | {"reverse": not params["reverse"]},
    )
    found = iter([*new_carry, *cts_xs])
    return [next(found) if u else None for u in linear]


def _transposed(
    jaxpr: Jaxpr, ft_in: ScanIn, linear: Sequence[bool], zero: Sequence[bool]
) -> Jaxpr:
    """One step backwards.

    It takes known constants; the sums of the constants' cotangents and the cotangents
    of the carry; the cotangents of the `ys` that are not zero, and the known `xs`. It
    returns the new sums and cotangents of the carry; the cotangents of the `xs`.
    """
    sizes = (ft_in.consts, ft_in.carry)
    const_linear, _, xs_linear = split_at(linear, *sizes)
    const_avals, carry_avals, x_avals = split_at(jaxpr.in_avals, *sizes)
    known_consts, known_xs = const_linear.count(False), xs_linear.count(False)
    num_sums = const_linear.count(True)
    y_avals = jaxpr.out_avals[ft_in.carry :]

    def fun(*args: Any) -> list[Any]:
        consts, sums, cts_carry, rest = split_at(
            args, known_consts, num_sums, ft_in.carry
        )
        cts_ys, xs = split_at(rest, len(rest) - known_xs)
        given, early, late = iter(cts_ys), iter(consts), iter(xs)
        all_ys = [
            Zero(a.to_cotangent()) if z else next(given)
            for a, z in zip(y_avals, zero, strict=True)
        ]
        operands = [
            *_operands(const_avals, const_linear, early),
            *[UndefinedPrimal(a) for a in carry_avals],
            *_operands(x_avals, xs_linear, late),
        ]
        found = backward_pass(jaxpr, operands, [*cts_carry, *all_ys])
        of_consts, of_carry, of_xs = split_at(found, *sizes)
        new_sums = [
            s if type(ct) is Zero or is_token(s) else add_any(s, ct)
            for s, ct in zip(sums, chosen(of_consts, const_linear), strict=True)
        ]
        return [
            *new_sums,
            *[instantiate(ct) for ct in of_carry],
            *[instantiate(ct) for ct in chosen(of_xs, xs_linear)],
        ]

    avals = [
        *[a for a, u in zip(const_avals, const_linear, strict=True) if not u],
        *[a.to_cotangent() for a in chosen(const_avals, const_linear)],
        *[a.to_cotangent() for a in carry_avals],
        *[a.to_cotangent() for a, z in zip(y_avals, zero, strict=True) if not z],
        *[a for a, u in zip(x_avals, xs_linear, strict=True) if not u],
    ]
    return stage_body(fun, avals)


def _operands(avals: Sequence[Any], linear: Sequence[bool], known: Any) -> list[Any]:
    return [
        UndefinedPrimal(a) if u else next(known)
        for a, u in zip(avals, linear, strict=True)
    ]


def _transpose_unknown_part(
    cts: Sequence[Any], args: Sequence[Any], linear: Sequence[bool], params: Any
) -> list[Any]:
    """For carries of which some are known: runs the known part first.

    A known initial carry may still belong to a linear carry, when it is a zero that was
    made real. Its cotangent is then of no interest.
    """
    split = _split(params, linear)
    known = chosen(args, [not u for u in split.in_unknown])
    unknown = chosen(args, split.in_unknown)
    _, ys = split.bind_known(known, params)
    holes = [x if is_undefined(x) else UndefinedPrimal(typeof(x)) for x in unknown]
    fixed = [known[i] for s, i in split.sources if s == "const"]
    later = [known[i] if s == "x" else ys[i] for s, i in split.sources if s != "const"]
    num_consts, num_carry = split.sizes_unknown
    consts, carry, xs = split_at(holes, num_consts, num_carry)
    operands = [*fixed, *consts, *carry, *later, *xs]
    late = {
        "jaxpr": split.unknown,
        "ft_in": ScanIn(len(fixed) + num_consts, num_carry, len(later) + len(xs)),
    }
    mask = [*split.carry_unknown, *split.ys_unknown]
    found = transpose(chosen(cts, mask), *operands, **params | late)
    of_consts = found[len(fixed) : len(fixed) + num_consts + num_carry]
    of_xs = found[len(found) - len(xs) :]
    of_unknown = iter([*of_consts, *of_xs])
    all_cts = [next(of_unknown) if u else None for u in split.in_unknown]
    return [ct if u else None for ct, u in zip(all_cts, linear, strict=True)]
