"""The run-time value of a token.

It stands here, below the runtime, because it knows nothing but how to wait.
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import AbstractToken, abstract_token
from minijax.core.trace import aval_of_type


class Token:
    """The value of `abstract_token`: it is ready when what it stands for is done.

    Args:
      buf: what to wait for: an array of the runtime.

    Upstream: `jax/_src/core.py` (`Token`).
    """

    __slots__ = ("__weakref__", "_buf")

    def __init__(self, buf: Any):
        self._buf = buf

    def __repr__(self) -> str:
        return f"<Token object at {id(self):#x}>"

    def block_until_ready(self) -> None:
        """Waits until what it stands for is done."""
        self._buf.block_until_ready()


def _aval(_: Token) -> AbstractToken:
    return abstract_token


aval_of_type[Token] = _aval
