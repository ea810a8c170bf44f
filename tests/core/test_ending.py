"""The end of a trace: leaked tracers are found, and errors name the user's line."""

from collections.abc import Callable
from typing import Any

import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax

KEPT: list[Any] = []


class _Holder:
    value: Any = None


@pytest.fixture(autouse=True)
def _forget():
    yield
    KEPT.clear()


def _to_a_global(x: Any) -> Any:
    KEPT.append(x)
    return x


def _to_an_attribute(holder: _Holder) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        holder.value = jnp.sin(x)
        return x

    return f


def _checkpointed(f: Any) -> Any:
    return minijax.checkpoint(lambda x: f(x))


def _scanned(f: Any) -> Any:
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)


TRANSFORMS = {
    "jit": minijax.jit,
    "grad": minijax.grad,
    "vmap": lambda f: lambda x: minijax.vmap(f)(jnp.ones(3)),
    "jvp": lambda f: lambda x: minijax.jvp(f, (x,), (x,)),
    "make_jaxpr": minijax.make_jaxpr,
    "checkpoint": _checkpointed,
    "scan": _scanned,
    "grad in jit": lambda f: minijax.jit(minijax.grad(f)),
    "vmap in jit": lambda f: lambda x: minijax.jit(minijax.vmap(f))(jnp.ones(3)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_leak_is_found_when_the_trace_ends(transform: str):
    call = TRANSFORMS[transform]
    with (
        minijax.checking_leaks(),
        pytest.raises(Exception, match=r"^Leaked trace") as e,
    ):
        call(_to_a_global)(1.0)
    assert type(e.value) is Exception
    assert "is held by a list, in the global 'KEPT' of " in str(e.value)
    with (
        minijax.checking_leaks(),
        pytest.raises(Exception, match=r"^Leaked trace") as e,
    ):
        call(_to_an_attribute(_Holder()))(1.0)
    assert "is held by a _Holder" in str(e.value)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_nothing_is_found_where_nothing_leaks(transform: str):
    """Also what the function makes and drops is no leak."""

    def f(x: Any) -> Any:
        parts = [jnp.sin(x), jnp.cos(x)]
        return parts[0] * parts[1]

    with minijax.checking_leaks():
        TRANSFORMS[transform](f)(1.0)


def test_a_value_that_an_enclosing_function_keeps_is_no_leak():
    def outer(x: Any) -> Any:
        kept = []
        inner = minijax.jit(lambda y: (kept.append(x), x * y)[1])
        return inner(x)

    with minijax.checking_leaks():
        minijax.jit(outer)(1.0)


def test_outside_the_block_nobody_looks():
    with minijax.checking_leaks(), minijax.checking_leaks(False):
        minijax.jit(_to_a_global)(1.0)


# ------------------------------------------------------------------ the user's line


def _notes(call: Callable[[], Any]) -> list[str]:
    try:
        call()
    except Exception as error:
        return getattr(error, "__notes__", [])
    raise AssertionError("nothing was raised")


def _branches(x: Any) -> Any:
    return x if x > 0 else -x


def test_an_error_of_the_library_names_the_line_of_the_user():
    (note,) = _notes(lambda: minijax.jit(_branches)(1.0))
    assert note.startswith("While tracing _branches for jit, at ")
    assert "test_ending.py:" in note
    assert note.endswith("in _branches:\n    return x if x > 0 else -x")


def test_the_innermost_function_speaks():
    def outer(x: Any) -> Any:
        return minijax.jit(_branches)(x)

    (note,) = _notes(lambda: minijax.jit(outer)(1.0))
    assert "in _branches:" in note
    (note,) = _notes(lambda: minijax.vmap(lambda x: lax.psum(x, "i"))(jnp.ones(2)))
    assert note.startswith("While mapping with vmap, at ")


def test_an_error_of_the_user_has_no_note():
    def f(x: Any) -> Any:
        raise KeyError(x)

    assert _notes(lambda: minijax.jit(f)(1.0)) == []
