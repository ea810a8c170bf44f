"""Effects: what an equation does besides computing its results.

An equation with an effect is never removed, even if nothing reads its results. An
*ordered* effect additionally keeps its place among the effects of its kind: lowering
threads one token chain per ordered effect through the program.
"""

from __future__ import annotations

from collections.abc import Iterable


class Effect:
    """One kind of effect; kinds are compared by identity.

    Args:
      name: as programs are printed.
      ordered: whether it keeps its place among the effects of its kind.
      shardable: whether it may be ordered in a program of several devices, where each
        device's effects are in order, but not those of one device among another's.
      repeatable: whether `checkpoint` may do it again in the backward pass.
    """

    __slots__ = ("name", "ordered", "repeatable", "shardable")

    def __init__(
        self,
        name: str,
        *,
        ordered: bool = False,
        shardable: bool = False,
        repeatable: bool = False,
    ):
        self.name = name
        self.ordered = ordered
        self.shardable = shardable
        self.repeatable = repeatable

    def __repr__(self) -> str:
        return self.name


def ordered_effects(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """The ordered ones among effects, in the order in which their tokens stand.

    By name, so that it is the same in every run.

    >>> a, b = (Effect(name, ordered=True) for name in "AB")
    >>> ordered_effects([b, Effect("C"), a])
    (A, B)
    """
    if not effects:  # almost always
        return ()
    return tuple(sorted((e for e in effects if e.ordered), key=lambda e: e.name))
