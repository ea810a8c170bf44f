"""Cases of collectives: the small examples at the end of each page here.

`lax/cases.py` has those of primitives that stand alone. A collective needs devices, so
its case is a call of the public function, `fun(x, names, **options)`. The tests find
every page here; they make the call over names that vmap binds, over mesh axes, over
both, and with groups, on operands of shape `(n, n, 2)` for n devices; and hold it
against a model that has no devices.

`ppermute`, `axis_index`, `pcast` and `ragged_all_to_all`, which have names in one order
only, no operand, or several, have tests of their own instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CollectiveCase(NamedTuple):
    """One call of a collective.

    Args:
      fun: `fun(x, names, **options)`, or with groups also `axis_index_groups`.
      linear: whether its transpose is checked too.
      groups: whether it can act within groups.
      model: `model(xs, i)` is what the device at position `i` receives, `xs` being the
        operands of all members in order, as numpy arrays. None where
        `tests/lockstep.py` has a model of the name of `fun`.
    """

    fun: Callable[..., Any]
    options: Mapping[str, Any]
    linear: bool = True
    groups: bool = True
    model: Callable[[list[Any], int], Any] | None = None

    def __str__(self) -> str:
        told = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.fun.__name__}[{told}]"


def case(
    fun: Callable[..., Any],
    *,
    linear: bool = True,
    groups: bool = True,
    model: Callable[[list[Any], int], Any] | None = None,
    **options: Any,
) -> CollectiveCase:
    """A case of `fun` with these keyword arguments."""
    return CollectiveCase(fun, options, linear, groups, model)
