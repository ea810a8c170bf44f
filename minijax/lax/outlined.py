"""Functions of `minijax.numpy` that stand in programs as calls of their own.

Upstream wraps some of its numpy functions in `jit`, so that programs show
`jit[name=remainder ...]` where a user wrote `x % 3`. `jit` is above this layer, so it
is bound late: `operators.install(jit)` tells it, once; without it the functions are
inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

Function = Callable[..., Any]


class _Late:
    """What `install` was given."""

    jit: Function | None = None


def set_jit(jit: Function | None) -> None:
    """Late binding, called once from the package root by way of `operators.install`."""
    _Late.jit = jit


def outlined(name: str, static: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Makes a function a `jit` of this name; `static` are the arguments not traced."""

    def decorate(fun: Function) -> Function:
        jitted: list[Function] = []

        @wraps(fun)
        def inlined(*args: Any, **kwargs: Any) -> Any:
            return fun(*args, **kwargs)

        inlined.__name__ = inlined.__qualname__ = name

        @wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _Late.jit is None:
                return fun(*args, **kwargs)
            if not jitted:
                jitted.append(_Late.jit(inlined, static_argnames=tuple(static)))
            return jitted[0](*args, **kwargs)

        return call

    return decorate
