"""scan and map: a body run once for each slice of its inputs, handing on a carry.

    carry, ys = scan[jaxpr length ...] consts, carry0, xs        ys[i] of xs[i]

The body takes the constants, the carry and one slice of each of `xs`, and returns the
next carry and one slice of each of `ys`. The number of steps is known, so a scan can be
differentiated backwards: what a step hands to the backward pass is one more of the
`ys`, and the backward pass is a scan in the opposite direction.

A token among the `xs` is the same for each step; one among the `ys` is ordered after
those of all steps.

StableHLO: a `while` around a counter (`scan_lowering`). Upstream:
`jax/_src/lax/control_flow/loops.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minijax.core.errors import control as errors
from minijax.core.jaxpr import Jaxpr, collective_names, eval_jaxpr
from minijax.core.linear import UndefinedPrimal, Zero, is_undefined
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_map,
    tree_unflatten,
    treedef_tuple,
)
from minijax.core.staging import stage_body
from minijax.core.trace import Tracer, current_trace, typeof, use_trace
from minijax.lax.joining import concatenate
from minijax.lax.rules import add_any, instantiate
from minijax.lax.shapes import asarray, reshape
from minijax.lax.slicing import slice_in_dim
from minijax.lax.tokens import after_all
from minijax.transforms.control.common import (
    Body,
    Mask,
    check_carry,
    chosen,
    derived,
    fixpoint,
    forwarding,
    is_token,
    merged,
    promote_weak,
    rearranged,
    split_at,
    token_dims,
    trace_body,
    where,
)
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import (
    PartialEvalJaxpr,
    PartialEvalTrace,
    partial_eval_jaxpr,
)
from minijax.transforms.transpose import backward_pass
from minijax.transforms.vmap import BatchAxis, at_dim, batch_jaxpr, mapped, unmapped
from minijax.transforms.vmap import vmap

Function = Callable[..., Any]


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


# ------------------------------------------------------------------ public functions


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Runs `carry, y = f(carry, x)` for each slice of `xs`; returns the last carry, `ys`.

    Args:
      f: the body. Its carry keeps tree and types.
      init: a pytree, the carry to begin with. Weakly typed leaves, such as Python
        scalars, take the type that comes out of the body.
      xs: a pytree of arrays, cut along dimension 0; None for none.
      length: the number of steps, needed where there are no `xs`.
      reverse: whether to go from the last slice to the first; `ys[i]` still belongs to
        `xs[i]`.
      unroll: how many steps make one round of the compiled loop; all where True or 0.

    Returns:
      The carry that comes out of the last step, and the pytree of `y`s, stacked along
      a new dimension 0.

    Raises:
      TypeError: where the carry comes out of another tree or type.
      ValueError: where the sizes of `xs` and `length` disagree.

    >>> import numpy as np
    >>> total, sums = scan(lambda c, x: (c + x, c + x), 0, np.arange(4))
    >>> int(total), sums.tolist()
    (6, [0, 1, 3, 6])

    Upstream: `jax/_src/lax/control_flow/loops.py` (`scan`).
    """
    if not callable(f):
        raise errors.not_callable("scan", "f argument should be a")
    init_leaves, init_tree = tree_flatten(init)
    xs_leaves, xs_tree = tree_flatten(xs)
    length = _length(xs_leaves, length)
    x_avals = [unmapped(typeof(x), 0) for x in xs_leaves]
    init_leaves, body = _traced(f, init_leaves, init_tree, x_avals, xs_tree)
    carry_tree, ys_tree = body.out_tree.children()
    count = carry_tree.num_leaves
    avals = [typeof(x) for x in init_leaves]
    after = carry_tree, body.jaxpr.out_avals[:count]
    check_carry("scan body", f, (init_tree, avals), after)
    params = {"length": length, "reverse": reverse, "unroll": _unroll(unroll, length)}
    carry, ys = _bind(body, init_leaves, xs_leaves, params)
    return tree_unflatten(carry_tree, carry), tree_unflatten(ys_tree, ys)


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each slice of `xs` along dimension 0, one after the other, stacked.

    Args:
      f: from a pytree of slices to a pytree.
      xs: a pytree of arrays.
      batch_size: how many slices to compute at once, by `vmap`; 0 for all.

    >>> import numpy as np
    >>> map(lambda x: x * 2, np.arange(3)).tolist()
    [0, 2, 4]

    Upstream: `jax/_src/lax/control_flow/loops.py` (`map`).
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    leaves, _ = tree_flatten(xs)
    if not leaves:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    for x in leaves:
        if typeof(x).sharding.spec.axes_of(0):
            raise errors.map_leading_sharded(str(typeof(x)))
    size = typeof(leaves[0]).shape[0]
    rounds = size // batch_size if batch_size else 0
    whole = rounds * batch_size
    if not rounds:
        return vmap(f)(xs)

    def head(x: Any) -> Any:
        first = slice_in_dim(x, 0, whole)
        return reshape(first, (rounds, batch_size, *typeof(x).shape[1:]))

    def flat(y: Any) -> Any:
        return reshape(y, (whole, *typeof(y).shape[2:]))

    ys = tree_map(flat, scan(lambda _, x: ((), vmap(f)(x)), (), tree_map(head, xs))[1])
    if whole == size:
        return ys
    rest = vmap(f)(tree_map(lambda x: slice_in_dim(x, whole, size), xs))
    return tree_map(lambda y, r: concatenate([y, r], 0), ys, rest)


def _length(xs: Sequence[Any], length: Any) -> int:
    """The number of steps, on which all that is said of it agrees."""
    without = [x for x in xs if is_token(x) or not typeof(x).shape]
    if without:
        raise errors.scan_no_leading_axis(", ".join(str(x) for x in without))
    avals = [typeof(x) for x in xs]
    if any(a.sharding.spec.axes_of(0) for a in avals):
        specs = ", ".join(str(a.sharding.spec) for a in avals)
        raise errors.scan_leading_sharded(specs)
    sizes = [a.shape[0] for a in avals]
    if length is None:
        if not sizes:
            raise errors.scan_no_length()
        if len(set(sizes)) > 1:
            raise errors.scan_lengths_differ(sizes)
        return sizes[0]
    what = (
        "The `length` argument to `scan` expects a concrete `int` value. For "
        "scan-like iteration with a dynamic length, use `while_loop` or `fori_loop`."
    )
    length = _concrete(length, what)
    if any(size != length for size in sizes):
        raise errors.scan_length(length, sizes)
    return length


def _unroll(unroll: Any, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    what = "The `unroll` argument to `scan` expects a concrete `int` or `bool` value."
    unroll = _concrete(unroll, what)
    if unroll < 0:
        raise errors.scan_unroll()
    return unroll


def _concrete(x: Any, what: str) -> int:
    value = x.concrete() if isinstance(x, Tracer) else x
    if value is None:
        raise errors.scan_not_concrete(str(x.aval).lstrip("~"), what, x.origin())
    return operator.index(int(value))


def _traced(
    f: Function,
    init: list[Any],
    init_tree: PyTreeDef,
    x_avals: list[Any],
    xs_tree: PyTreeDef,
) -> tuple[list[Any], Body]:
    """Traces the body; twice where weakly typed initial carries must be converted."""
    in_tree = treedef_tuple((treedef_tuple((init_tree, xs_tree)), tree_flatten({})[1]))
    body = _trace(f, in_tree, init, x_avals)
    carry_tree = body.out_tree.children()[0]
    if carry_tree.num_leaves != len(init):
        return init, body  # which is refused later
    outs = body.jaxpr.out_avals[: len(init)]
    promoted = [promote_weak(x, typeof(x), a) for x, a in zip(init, outs, strict=True)]
    if any(changed for _, changed in promoted):
        init = [x for x, _ in promoted]
        body = _trace(f, in_tree, init, x_avals)
    return init, body


def _trace(f: Function, in_tree: PyTreeDef, init: list[Any], x_avals: list[Any]) -> Body:
    body = trace_body(f, in_tree, [*[typeof(x) for x in init], *x_avals], "scan")
    tree = body.out_tree
    pair = tree_unflatten(tree, body.jaxpr.out_avals)
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
        raise errors.scan_not_a_pair(pair)
    return body


def _bind(
    body: Body, init: list[Any], xs: list[Any], params: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Binds the scan without what only passes through it.

    A carry that never changes becomes a constant; stacked slices of an input are that
    input.
    """
    jaxpr, num_consts = body.closed(), len(body.consts)
    count = len(init)
    passed = forwarding(jaxpr)
    still = [i == num_consts + k for k, i in enumerate(passed[:count])]
    moving = [not s for s in still]
    first_x = num_consts + count
    same = [None if i is None or i < first_x else i - first_x for i in passed[count:]]
    ys = tuple(i is None for i in same)
    if any(still) or not all(ys):
        ins = [*where(still, num_consts), *range(num_consts)]
        ins += [*where(moving, num_consts), *range(first_x, len(jaxpr.invars))]
        jaxpr = rearranged(jaxpr, ins, [*where(moving), *where(ys, count)])
    constants, carried = chosen(init, still), chosen(init, moving)
    results = scan_p.bind(
        *constants,
        *body.consts,
        *carried,
        *xs,
        ft_in=ScanIn(num_consts + len(constants), len(carried), len(xs)),
        ft_out=ScanOut(len(carried), ys),
        jaxpr=jaxpr,
        **params,
    )
    carry = merged(still, results[: len(carried)], [asarray(x) if not is_token(x) else x for x in constants])
    made = iter(results[len(carried) :])
    return carry, [next(made) if i is None else asarray(xs[i]) for i in same]


# ------------------------------------------------------------------------- primitive

scan_p = Primitive("scan")
scan_p.axis_names = lambda params: collective_names(params["jaxpr"])


def _bind_parts(
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
        **params | {
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


# ----------------------------------------------------------------------- derivatives


@scan_p.def_jvp
def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Carries get tangents where the initial ones or the body give them one."""
    jaxpr, (num_consts, num_carry, num_xs) = params["jaxpr"], params["ft_in"]
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
    carry, ys = _bind_parts(
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


@scan_p.def_partial_eval
def _partial_eval(trace: PartialEvalTrace, args: Any, **params: Any) -> list[Any]:
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
        return _bind_parts(consts, carry, xs, self.known, params)

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
        later = [known[i] if s == "x" else ys[i] for s, i in self.sources if s != "const"]
        late = _bind_parts(
            [*fixed, *consts], carry, [*later, *xs], self.unknown, params
        )
        return [*late[0], *late[1]]

    def merge(self, carry: list[Any], ys: list[Any], late: list[Any]) -> list[Any]:
        """All results of the scan, in their order."""
        mask = [*self.carry_unknown, *self.ys_unknown]
        return merged(mask, [*carry, *ys[: self.num_ys]], late)


@scan_p.def_transpose
def _transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    """A scan in the opposite direction.

    Its carries are the cotangents of the carries, and sums of the cotangents of the
    constants; what is scanned over are the cotangents of the `ys`.
    """
    ft_in = params["ft_in"]
    linear = [is_undefined(x) for x in args]
    _, carry_linear, _ = split_at(linear, ft_in.consts, ft_in.carry)
    if not all(carry_linear):
        return _transpose_unknown_part(cts, args, linear, params)
    consts, carry, xs = split_at(args, ft_in.consts, ft_in.carry)
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
    new_carry, cts_xs = _bind_parts(
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
        "ft_in": ScanIn(
            len(fixed) + num_consts, num_carry, len(later) + len(xs)
        ),
    }
    mask = [*split.carry_unknown, *split.ys_unknown]
    found = _transpose(chosen(cts, mask), *operands, **params | late)
    of_consts = found[len(fixed) : len(fixed) + num_consts + num_carry]
    of_xs = found[len(found) - len(xs) :]
    of_unknown = iter([*of_consts, *of_xs])
    all_cts = [next(of_unknown) if u else None for u in split.in_unknown]
    return [ct if u else None for ct, u in zip(all_cts, linear, strict=True)]


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
