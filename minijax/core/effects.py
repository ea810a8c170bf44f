"""Effects: what an equation does besides computing its results.

An equation with an effect is never removed, even if nothing reads its results. An
*ordered* effect additionally keeps its place among the effects of its kind: lowering
threads one token chain per ordered effect through the program.
"""

from __future__ import annotations


class Effect:
    """One kind of effect; kinds are compared by identity."""

    __slots__ = ("name", "ordered")

    def __init__(self, name: str, *, ordered: bool = False):
        self.name = name
        self.ordered = ordered

    def __repr__(self) -> str:
        return self.name
