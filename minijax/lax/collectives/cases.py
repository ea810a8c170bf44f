"""Cases of collectives: the small examples at the end of each page here.

`lax/cases.py` has those of primitives that stand alone. A collective needs devices, so
its case is a call of the public function, `fun(x, names, **options)`. The tests make it
over names that vmap binds, over mesh axes, over both, and with groups, on operands of
shape `(n, n, 2)` for n devices; and hold it against a model that has no devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CollectiveCase(NamedTuple):
    """One call of a collective.

    `linear` says whether its transpose is checked too.
    """

    fun: Callable[..., Any]
    options: Mapping[str, Any]
    linear: bool = True

    def __str__(self) -> str:
        told = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.fun.__name__}[{told}]"


def case(fun: Callable[..., Any], *, linear: bool = True, **options: Any) -> Any:
    """A case of `fun` with these keyword arguments."""
    return CollectiveCase(fun, options, linear)
