"""Tokens: how a lowered program keeps ordered effects in order.

Each ordered effect has one chain of tokens. An operation with the effect takes the
token that the one before it returned, and returns the next. Through whatever holds a
program, the chain goes in and comes out in front of everything else:

* `main` and inner functions take a token per ordered effect, and return one;
* so do the regions of a loop and of a manual computation;
* a branch of a `case` starts from the token outside, and returns the last of its own;
  one without the effect returns the token as it was.

All of this is here. A lowering rule whose operation holds a program with `effects`
calls `Tokens.op` where it would call `dialect.op`, and its regions need not know.

Upstream: `jax/_src/interpreters/mlir.py` (`TokenSet`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from minijax.core.effects import Effect, ordered_effects
from minijax.lowering.dialect import Region, op, token_type

__all__ = ["Tokens", "tell_tokens_apart"]


class Tokens:
    """The token that each ordered effect is at, in the block being built."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: dict[Effect, ir.Value] = {}

    def op(
        self,
        effects: Iterable[Effect],
        name: str,
        operands: Sequence[ir.Value],
        types: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute] | None = None,
        regions: Sequence[Region] = (),
        *,
        captured: bool = False,
        silent: Sequence[int] = (),
    ) -> list[ir.Value]:
        """Appends an operation with effects; returns its results but for the tokens.

        Args:
          effects: of the programs in its regions, or of what it calls.
          name, operands, types, attributes, regions: as for `dialect.op`.
          captured: whether regions have no arguments, but read the values around them.
          silent: the regions that have none of the effects and return no tokens, by
            position, such as the condition of a loop.
        """
        ordered = ordered_effects(effects)
        if not ordered:
            return op(name, operands, types, attributes, regions)
        before = [self.current[e] for e in ordered]
        outs = op(
            name,
            operands if captured else [*before, *operands],
            [*[token_type()] * len(ordered), *types],
            attributes,
            [
                self.region(ordered, r, before if captured else (), i in silent)
                for i, r in enumerate(regions)
            ],
        )
        self.current.update(zip(ordered, outs, strict=False))
        return outs[len(ordered) :]

    def region(
        self,
        effects: Iterable[Effect],
        region: Region,
        captured: Sequence[ir.Value] = (),
        silent: bool = False,
    ) -> Region:
        """The region that also takes and returns a token per ordered effect.

        Args:
          captured: the tokens that it begins with, if they are not its arguments.
          silent: whether it returns none.
        """
        ordered = ordered_effects(effects)
        taken = 0 if captured else len(ordered)

        def body(*args: ir.Value) -> Sequence[ir.Value]:
            outer = self.current
            self.current = dict(zip(ordered, captured or args, strict=False))
            try:
                outs = region.body(*args[taken:])
                after = [] if silent else [self.current[e] for e in ordered]
            finally:
                self.current = outer
            return [*after, *outs]

        types = [*[token_type()] * taken, *region.types]
        return Region(types, body, region.terminator)


def tell_tokens_apart(main: Any) -> None:
    """Makes a token of its own of each that a function returns, by an `after_all`."""
    end = list(main.regions[0].blocks[0].operations)[-1]
    with ir.InsertionPoint(end):
        for i, x in enumerate(end.operands):
            if x.type == token_type():
                (end.operands[i],) = op("stablehlo.after_all", [x], [token_type()])
