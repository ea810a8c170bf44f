"""Proof that a collective is still in the compiled program."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Proof(NamedTuple):
    """What the optimised HLO says.

    Attributes:
      hash: the first 16 hex digits of the SHA-256 of the text.
      found: collectives of the right kinds in it.
      wanted: at least so many must be there.
      kinds: how many of each kind.
    """

    hash: str
    found: int
    wanted: int
    kinds: dict[str, int]

    @property
    def eliminated(self) -> bool:
        """Whether the compiler removed collectives."""
        return self.found < self.wanted


def prove(hlo: str, names: Sequence[str], wanted: int = 1) -> Proof:
    """Counts the collectives called `names` in the text of an optimised program.

    An asynchronous pair counts once.

    >>> text = "%a = f32[8] all-reduce-start(%x)  %b = f32[8] all-reduce-done(%a)"
    >>> prove(text, ["all-reduce"]).found
    1
    """
    kinds = "|".join(re.escape(name) for name in names)
    found = Counter(re.findall(rf"[\s)]({kinds})(?:-start)?\(", hlo))
    hashed = hashlib.sha256(hlo.encode()).hexdigest()[:16]
    return Proof(hashed, found.total(), wanted, dict(found))
