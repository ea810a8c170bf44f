"""What derivative rules pass around besides values: symbolic zeros and holes.

Upstream: `jax/_src/ad_util.py` (`Zero`), `jax/_src/interpreters/ad.py`
(`UndefinedPrimal`).
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import AbstractValue
from minijax.core.trace import typeof


class Zero:
    """A tangent or cotangent known to be zero, which costs nothing to carry."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class UndefinedPrimal:
    """In a transpose rule, an argument that the primitive is linear in."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


def is_undefined(x: Any) -> bool:
    """Whether a transpose rule must produce a cotangent for this argument."""
    return type(x) is UndefinedPrimal


def zero_tangent(x: Any) -> Zero:
    """The zero tangent of a value."""
    return Zero(typeof(x).to_tangent())


def aval_of(x: Any) -> Any:
    """The type of a value, a `Zero` or an `UndefinedPrimal`."""
    return x.aval if type(x) in (Zero, UndefinedPrimal) else typeof(x)
