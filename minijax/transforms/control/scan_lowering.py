"""How a scan becomes a while loop around a counter.

The loop carries the counter, the scan's carry, and the stacked results, into which each
round writes its slices. With `unroll`, a round makes several steps, and steps that are
left over stand behind the loop, or in front where it goes backwards.

The loop is built as a program of `lax` operations, staged on types without manual axes,
since axis names are no longer bound when lowering. The body stands in it as one
equation, whose lowering inlines it.

Upstream: `jax/_src/lax/control_flow/loops.py` (`_scan_impl`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import NO_MANUAL
from minijax.core.jaxpr import Jaxpr
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import stage
from minijax.core.trace import typeof
from minijax.lax.arithmetic import sub
from minijax.lax.joining import concatenate
from minijax.lax.rules import instantiate
from minijax.lax.shapes import expand_dims, reshape
from minijax.lax.slicing import (
    dynamic_index_in_dim,
    dynamic_update_index_in_dim,
    index_in_dim,
    slice_in_dim,
)
from minijax.lax.tokens import after_all
from minijax.transforms.control.common import is_token, split_at, trace_body
from minijax.transforms.control.scan_primitive import ScanIn, ScanOut, stacked
from minijax.transforms.control.while_primitive import bind_loop

# -------------------------------------------------------------- the body as an equation

body_p = Primitive("scan_body")


def _plain(aval: Any) -> Any:
    """A type without its manual axis type."""
    return aval if is_token(aval) else aval.update(manual=NO_MANUAL)


@body_p.def_abstract_eval
def _type(*_: Any, jaxpr: Jaxpr) -> list[Any]:
    return [_plain(a) for a in jaxpr.out_avals]


@body_p.def_effects
def _effects(*_: Any, jaxpr: Jaxpr) -> Any:
    return jaxpr.effects


@body_p.def_lowering
def _body_lowering(ctx: Any, *values: Any, jaxpr: Jaxpr) -> Any:
    return ctx.lower_jaxpr(jaxpr, values)


body_p.without(
    jvp="it is made when lowering",
    transpose="it is made when lowering",
    batch="it is made when lowering",
)


def lowering(ctx: Any, *values: Any, **params: Any) -> Any:
    """Lowers the loop."""
    loop = _Loop(**params)
    jaxpr, _ = stage(loop.run, [_plain(a) for a in ctx.avals_in])
    outs = ctx.lower_jaxpr(jaxpr, values)
    return ctx.with_shardings(outs, ctx.avals_out)


class _Loop:
    """A scan to be written as a loop."""

    def __init__(
        self,
        *,
        jaxpr: Jaxpr,
        ft_in: ScanIn,
        ft_out: ScanOut,
        length: int,
        reverse: bool,
        unroll: int,
    ):
        self.jaxpr = jaxpr
        self.sizes = (ft_in.consts, ft_in.carry)
        self.num_carry = ft_out.carry
        self.length = length
        self.reverse = reverse
        self.unroll = unroll
        rounds, rest = divmod(length, unroll) if unroll else (0, length)
        if unroll != 1 and rounds == 1 and not rest:
            rounds, rest = 0, length  # no loop at all
        self.rounds = rounds
        self.rest = rest
        self.consts: list[Any] = []

    def run(self, *args: Any) -> list[Any]:
        self.consts, carry, xs = split_at(args, *self.sizes)
        looped, left = self.cut(xs)
        if self.rounds and self.unroll != 1:
            looped = [_in_rounds(x, self.rounds, self.unroll) for x in looped]
        ys = self.empty()
        if self.rounds:
            start = (0, carry, ys)
            _, carry, ys = self.loop(_Round(self, looped), start)
            if self.unroll != 1:
                ys = [_flat(y, self.rounds * self.unroll) for y in ys]
        if self.rest:
            carry, more = self.steps(self.rest, carry, left)
            pairs = zip(ys, more, strict=True)
            ys = [_joined([b, a] if self.reverse else [a, b]) for a, b in pairs]
        self.consts = []  # the loop outlives the trace that they belong to
        return [*carry, *ys]

    def empty(self) -> list[Any]:
        """What the rounds write into."""
        sizes = [self.rounds] if self.unroll == 1 else [self.unroll, self.rounds]
        if self.unroll != 1 and not self.rounds:
            sizes = [0]
        avals = [_plain(a) for a in self.jaxpr.out_avals[self.num_carry :]]
        for size in sizes:
            avals = [stacked(a, size) for a in avals]
        return [instantiate(Zero(a)) for a in avals]

    def cut(self, xs: list[Any]) -> tuple[list[Any], list[Any]]:
        """The part of the inputs for the loop, and that for the steps left over."""
        if not self.rest:
            return xs, xs
        at = self.rest if self.reverse else self.length - self.rest
        first = [_slice(x, 0, at) for x in xs]
        second = [_slice(x, at, self.length) for x in xs]
        return (second, first) if self.reverse else (first, second)

    def loop(self, round_: _Round, start: Any) -> Any:
        """Binds the while loop."""
        init, tree = tree_flatten(start)
        in_tree = tree_flatten(((start,), {}))[1]
        avals = [typeof(x) for x in init]
        cond = trace_body(self.goes_on, in_tree, avals, "scan")
        body = trace_body(round_, in_tree, avals, "scan")
        return tree_unflatten(tree, bind_loop(cond, body, init))

    def goes_on(self, state: Any) -> Any:
        return state[0] < self.rounds

    def steps(self, count: int, carry: Any, xs: list[Any]) -> tuple[Any, list[Any]]:
        """Several steps, one after the other, of stacked inputs."""
        made = []
        for k in range(count):
            i = count - k - 1 if self.reverse else k
            slices = [x if is_token(x) else index_in_dim(x, i, 0, False) for x in xs]
            carry, ys = self.step(carry, slices)
            made.append(ys)
        if self.reverse:
            made.reverse()
        return carry, [_stacked(ys) for ys in zip(*made, strict=True)]

    def step(self, carry: Any, xs: list[Any]) -> tuple[Any, list[Any]]:
        outs = body_p.bind(*self.consts, *carry, *xs, jaxpr=self.jaxpr)
        return outs[: self.num_carry], outs[self.num_carry :]


class _Round:
    """The body of the while loop."""

    def __init__(self, loop: _Loop, xs: list[Any]):
        self.loop = loop
        self.xs = xs

    def __call__(self, state: Any) -> Any:
        loop = self.loop
        i, carry, stacks = state
        at = sub(sub(np.int32(loop.rounds), i), np.int32(1)) if loop.reverse else i
        xs = [_take(x, at) for x in self.xs]
        if loop.unroll == 1:
            carry, ys = loop.step(carry, xs)
        else:
            carry, ys = loop.steps(loop.unroll, carry, xs)
        stacks = [_put(s, y, at) for s, y in zip(stacks, ys, strict=True)]
        return i + 1, carry, stacks


# ------------------------------------------- slices and stacks, of arrays and of tokens


def _take(x: Any, i: Any) -> Any:
    if is_token(x):
        return x
    return dynamic_index_in_dim(
        x, i, axis=0, keepdims=False, allow_negative_indices=False
    )


def _put(stack: Any, y: Any, i: Any) -> Any:
    if is_token(y):
        return after_all(stack, y)
    return dynamic_update_index_in_dim(
        stack, y, i, axis=0, allow_negative_indices=False
    )


def _slice(x: Any, start: int, limit: int) -> Any:
    return x if is_token(x) else slice_in_dim(x, start, limit)


def _in_rounds(x: Any, rounds: int, unroll: int) -> Any:
    return x if is_token(x) else reshape(x, (rounds, unroll, *x.shape[1:]))


def _flat(y: Any, length: int) -> Any:
    return y if is_token(y) else reshape(y, (length, *y.shape[2:]))


def _stacked(ys: Sequence[Any]) -> Any:
    if is_token(ys[0]):
        return after_all(*ys)
    return concatenate([expand_dims(y, (0,)) for y in ys], 0)


def _joined(parts: Sequence[Any]) -> Any:
    return after_all(*parts) if is_token(parts[0]) else concatenate(parts, 0)
