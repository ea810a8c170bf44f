"""Where in the user's program a value came from.

The user's frame is the innermost one outside this package. Finding it costs a walk
over the frames in between, so which files are the package's own is remembered (by
name: a string keeps its hash, a code object computes it each time); and while a
program is run once more, its equations' own sources stand for the frames, which are
many there and all the package's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ours: dict[str, bool] = {}


class Source(NamedTuple):
    """A place in the user's program; printing it finds the line."""

    code: CodeType
    lineno: int

    def __str__(self) -> str:
        return f"{self.code.co_filename}:{self.lineno} ({self.code.co_qualname})"


def is_ours(code: CodeType) -> bool:
    """Whether code is this package's own."""
    file = code.co_filename
    ours = _ours.get(file)
    if ours is None:
        ours = _ours[file] = file.startswith(_PACKAGE)
    return ours


#: The source of the equation of a traced program that is being run once more.
replayed_source: ContextVar[Source | None] = ContextVar("replayed", default=None)


@contextmanager
def replaying() -> Generator[Callable[[Source | None], object]]:
    """A block that runs a program once more: gives what tells where each equation is.

    The source that stood for the frames before stands for them again after it.
    """
    token = replayed_source.set(replayed_source.get())
    try:
        yield replayed_source.set
    finally:
        replayed_source.reset(token)


def user_source(depth: int = 1) -> Source | None:
    """The innermost frame outside this package, from `depth` frames up."""
    replayed = replayed_source.get()
    if replayed is not None:
        return replayed
    frame = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        ours = _ours.get(code.co_filename)
        if ours is None:
            ours = is_ours(code)
        if not ours:
            return Source(code, frame.f_lineno)
        frame = frame.f_back
    return None
