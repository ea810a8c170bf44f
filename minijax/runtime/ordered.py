"""Effects while programs run: the tokens between programs, and waiting for effects.

A program with ordered effects takes a token per effect, and returns one. The token that
came back last from a thread's programs is given to that thread's next one, so effects
are ordered from program to program too. Threads do not wait for each other.

For effects without order it is enough to know, per set of devices, the last program
that was started there: a device runs its programs one after the other.

Upstream: `jax/_src/dispatch.py` (`RuntimeTokenSet`).
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

from minijax.core.effects import Effect
from minijax.core.errors import runtime as errors
from minijax.core.mesh import Device
from minijax.core.token import Token
from minijax.runtime.placement import default_sharding, new_token_buffer

Call = Callable[[Sequence[Any]], list[Any]]


class _State(threading.local):
    """What one thread has started."""

    def __init__(self) -> None:
        #: Per ordered effect, the token of the last program.
        self.tokens: dict[Effect, Token] = {}
        #: Per set of devices, jaxlib's token of the last program with effects.
        self.started: dict[tuple[Device, ...], Any] = {}
        #: The errors of programs whose tokens have been given up, by text.
        self.failures: dict[str, Exception] = {}

    def token(self, effect: Effect) -> Token:
        """The token for the next program with this effect.

        It waits for the last one. That costs little, as most of the time goes to the
        callback itself, and thus a program does not fail because one before it did.
        """
        last = self.tokens.pop(effect, None)
        if last is not None and self.succeeded(last):
            return last
        return Token(new_token_buffer(default_sharding()))

    def succeeded(self, token: Any) -> bool:
        """Waits for a program; remembers its error if it failed."""
        try:
            token.block_until_ready()
        except _jax.JaxRuntimeError as error:
            self.failures.setdefault(str(error), error)
            return False
        return True


_state = _State()


def next_tokens(ordered: Sequence[Effect]) -> list[Token]:
    """The tokens for the next program with these effects."""
    return [_state.token(effect) for effect in ordered]


def wait_for(effect: Effect) -> None:
    """Waits for the last program of this thread that had this ordered effect."""
    last = _state.tokens.get(effect)
    if last is not None:
        _state.succeeded(last)


def in_order(call: Call, ordered: Sequence[Effect]) -> Call:
    """A call of a program that returns tokens, as one of its other results."""
    count = len(ordered)

    def run(args: Sequence[Any]) -> list[Any]:
        outs = call(args)
        _state.tokens.update(zip(ordered, outs, strict=False))
        return outs[count:]

    return run


def noticed(loaded: Any, devices: tuple[Device, ...]) -> Callable[[list[Any]], Any]:
    """The function that starts a program so that `effects_barrier` waits for it."""

    def execute(bufs: list[Any]) -> Any:
        started = loaded.execute_sharded(bufs, with_tokens=True)
        _state.started[devices] = started.consume_token()
        return started

    return execute


def effects_barrier() -> None:
    """Waits for the effects of all programs that this thread has started.

    Raises the error of a program that failed, or an ExceptionGroup of several.

    >>> effects_barrier()

    Upstream: `jax/_src/api.py` (`effects_barrier`).
    """
    state = _state
    for token in [*state.tokens.values(), *state.started.values()]:
        state.succeeded(token)
    failures = list(state.failures.values())
    state.__init__()
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise errors.effects_failed(failures)


# What was printed by a program still running shall be seen.
atexit.register(effects_barrier)
