"""What happens when a trace ends: its tracers die, or somebody hears of it.

Every function that traces runs the user's function within `with ending(trace):`. When
the block is left,

* the trace is closed, so that its tracers are refused from then on;
* an exception that was raised inside the library gets a note with the user's line:
  the traceback is long, and its last frames are the library's own;
* under `checking_leaks`, tracers that are still alive are an error at once, and not
  only when somebody uses them.

The block must hold the work in a call, `return work(trace)`: names of the frame that
the `with` stands in would keep tracers alive.

Upstream: `jax/_src/core.py` (`ensure_no_leaks`, `leaked_tracer_error`).
"""

from __future__ import annotations

import gc
import linecache
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, cast

from minijax.core.errors import tracing as errors
from minijax.core.source import is_ours
from minijax.core.trace import Trace, Tracer

_checking: ContextVar[bool] = ContextVar(
    "checking_leaks",
    default=os.environ.get("JAX_CHECK_TRACER_LEAKS", "").lower() in ("1", "true", "on"),
)


@contextmanager
def checking_leaks(enabled: bool = True) -> Generator[None]:
    """Within the block, a trace that ends with live tracers is an error.

    So it is everywhere if the variable `JAX_CHECK_TRACER_LEAKS` is 1.

    Only functions that are traced are looked at: a jitted function that was compiled
    for its arguments before is not traced again.

    Raises Exception (as upstream, no narrower class), which says what leaked, where it
    was made and who holds it.

    >>> import minijax
    >>> kept = []
    >>> with minijax.checking_leaks():
    ...     minijax.jit(lambda x: kept.append(x))(1.0)
    Traceback (most recent call last):
    Exception: Leaked trace <StagingTrace>. Leaked tracer(s): ...
    """
    token = _checking.set(enabled)
    try:
        yield
    finally:
        _checking.reset(token)


class ending:  # reads as a phrase in `with ending(trace):`
    """Closes a trace when the block is left; see the module."""

    __slots__ = ("holders", "trace")

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self) -> None:
        # A live tracer refers to its trace. So if no more refer to it in the end than
        # do now there is none, and the slow search is left out.
        self.holders = sys.getrefcount(self.trace)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.trace.close()
        if error is not None:
            note_user_line(error, traceback, self.trace.doing())
        elif _checking.get() and sys.getrefcount(self.trace) > self.holders:
            _refuse_leaks(self.trace)


# ------------------------------------------------------------------ the user's line


def note_user_line(
    error: BaseException, traceback: TracebackType | None, doing: str
) -> None:
    """Notes where the user's program was when the library raised `error`.

    The innermost trace speaks. Where the last frame is the user's own there is nothing
    to say. A note is printed below the message and is no part of it.
    """
    if any(note.startswith("While ") for note in getattr(error, "__notes__", ())):
        return
    found: tuple[str, int, str] | None = None
    last_is_ours = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        last_is_ours = is_ours(code)
        if not last_is_ours:
            found = code.co_filename, traceback.tb_lineno, code.co_name
        traceback = traceback.tb_next
    if found is None or not last_is_ours:
        return
    file, number, function = found
    line = linecache.getline(file, number).strip()
    shown = f":\n    {line}" if line else ""
    error.add_note(f"While {doing}, at {file}:{number}, in {function}{shown}")


# ------------------------------------------------------------------------ who leaked


def _refuse_leaks(trace: Trace) -> None:
    # What is unreachable but for cycles harms nobody.
    gc.collect()
    leaked = [x for x in gc.get_referrers(trace) if isinstance(x, Tracer)]
    if leaked:
        found = [(repr(x), x.origin(), _holders(x, leaked)) for x in leaked]
        raise errors.leaks(f"<{type(trace).__name__}>", found)


def _holders(x: object, mine: object) -> str:
    """Who keeps an object alive, from the nearest holder outwards: one chain of them.

    The locals of running functions are not seen.
    """
    chain: list[str] = []
    seen = {id(mine), id(chain)}
    for _ in range(_FARTHEST):
        holders = [h for h in gc.get_referrers(x) if id(h) not in seen]
        holder = next((h for h in holders if not isinstance(h, FrameType)), None)
        if holder is None:
            break
        chain.append(_place(x, holder))
        if isinstance(holder, FunctionType | ModuleType) or _is_globals(holder):
            break
        seen |= {id(holders), id(holder)}
        x = holder
    return ", in ".join(chain)


_FARTHEST = 5


def _is_globals(holder: object) -> bool:
    return isinstance(holder, dict) and "__builtins__" in holder


def _place(x: object, holder: Any) -> str:
    """`x` as a part of its holder."""
    if isinstance(holder, FunctionType):
        return f"the function {holder.__qualname__}"
    if not isinstance(holder, dict):
        return f"a {type(holder).__name__}"
    items = cast("dict[Any, Any]", holder)
    key = next((k for k, value in items.items() if value is x), None)
    if _is_globals(items):
        return f"the global {key!r} of {items.get('__name__')}"
    return f"a dict under {key!r}"
