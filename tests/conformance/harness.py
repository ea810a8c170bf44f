"""Holding minijax against upstream, one small program at a time.

A program is a function of a module, `def program(jax): ...`. It is called with upstream
and with minijax in this process, and what it returns is compared leaf by leaf: arrays
by value, type (dtype, weak type, explicit sharding) and placement, texts as they are,
exceptions by class and message. A program that is to raise catches the exception with
`error`, so that one program can show several.

A file of programs ends with

    test = conformance(globals())
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import minijax

Program = Callable[[Any], Any]


class Raised(NamedTuple):
    """What was raised: the class by name, as each library has its own classes."""

    name: str
    message: str
    bases: frozenset[str] = frozenset()


def error(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Raised:
    """The exception of a call that is to fail."""
    try:
        result = fun(*args, **kwargs)
    except Exception as e:
        bases = frozenset(c.__name__ for c in type(e).__mro__)
        return Raised(type(e).__name__, str(e), bases)
    raise AssertionError(f"nothing was raised, but returned: {result}")


def text(jax: Any, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The printed jaxpr."""
    return str(jax.make_jaxpr(fun)(*args, **kwargs))


def ops(module: str) -> Counter[str]:
    """How often each operation stands in a StableHLO module."""
    found = Counter(re.findall(r"\b(?:stablehlo|chlo|sdy|func)\.\w+", module))
    del found["sdy.sharding"]  # an attribute; arrays that are captured have it too
    return found


def conformance(namespace: dict[str, Any]) -> Callable[..., None]:
    """A test of every program of a file."""
    programs = [
        f
        for name, f in namespace.items()
        if inspect.isfunction(f)
        and not name.startswith("_")
        and list(inspect.signature(f).parameters) == ["jax"]
    ]

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("program", programs, ids=lambda f: f.__name__)
    def test(program: Program, upstream: ModuleType) -> None:
        agree(program, upstream)

    return test


def agree(program: Program, upstream: ModuleType) -> None:
    """Fails where the libraries differ on a program."""
    expected = _run(program, upstream)
    found = _run(program, minijax)
    differences = list(compare(found, expected, "result"))
    assert not differences, "\n".join(["minijax differs:", *differences])


def _run(program: Program, jax: Any) -> Any:
    try:
        return program(jax)
    except AssertionError:
        raise
    except Exception as e:
        name = "upstream" if jax is not minijax else "minijax"
        raise AssertionError(f"{name}: {type(e).__name__}: {e}") from e


# ----------------------------------------------------------------------- comparison


def compare(found: Any, expected: Any, path: str) -> Any:
    """Yields a line for each difference."""
    if isinstance(expected, Raised):
        yield from _compare_raised(found, expected, path)
    elif isinstance(expected, (dict, list, tuple)):
        yield from _compare_items(found, expected, path)
    elif hasattr(expected, "aval") and hasattr(expected, "addressable_shards"):
        yield from _compare_arrays(found, expected, path)
    elif isinstance(expected, (np.ndarray, np.generic)):
        if found.dtype != expected.dtype or not _close(found, expected):
            yield f"{path}: {found!r}\n  upstream: {expected!r}"
    elif normal(str(found)) != normal(str(expected)):
        yield f"{path}: {normal(str(found))}\n  upstream: {normal(str(expected))}"


def _compare_items(found: Any, expected: Any, path: str) -> Any:
    keys: list[list[Any]] = []
    for x in (found, expected):
        if not isinstance(x, (dict, list, tuple)):
            yield f"{path}: {_show(found)}\n  upstream: {_show(expected)}"
            return
        keys.append(list(x) if isinstance(x, dict) else list(range(len(x))))
    if keys[0] != keys[1]:
        yield f"{path}: has {keys[0]}, upstream {keys[1]}"
        return
    for k in keys[0]:
        yield from compare(found[k], expected[k], f"{path}[{k!r}]")


def _show(x: Any) -> str:
    return x if isinstance(x, str) else repr(x)


def _compare_raised(found: Any, expected: Raised, path: str) -> Any:
    """A message may go on after upstream's, and a class be narrower."""
    if not isinstance(found, Raised):
        yield f"{path}: {_show(found)}\n  upstream raises {expected}"
        return
    message, wanted = normal(found.message), normal(expected.message)
    if expected.name not in found.bases or not message.startswith(wanted):
        yield (
            f"{path}: {found.name}: {message}\n  upstream: {expected.name}: {wanted}"
        )


def _compare_arrays(found: Any, expected: Any, path: str) -> Any:
    if not hasattr(found, "aval"):
        yield f"{path}: {type(found)}, upstream has an array"
        return
    facts = [
        (str(found.aval), str(expected.aval)),
        (found.weak_type, expected.weak_type),
        (placed(found), placed(expected)),
        (found.committed, expected.committed),
    ]
    for mine, theirs in facts:
        if mine != theirs:
            yield f"{path}: {mine}, upstream {theirs}"
    if not _close(np.asarray(found), np.asarray(expected)):
        yield f"{path}: {np.asarray(found)}\n  upstream: {np.asarray(expected)}"


def placed(x: Any) -> str:
    """Where an array lies: the type of sharding, and each device's part."""
    parts = sorted((s.device.id, str(s.index)) for s in x.addressable_shards)
    return f"{type(x.sharding).__name__} {parts}"


def _close(found: Any, expected: Any) -> bool:
    if found.shape != expected.shape:
        return False
    if expected.dtype.kind in "biuOSU" or expected.dtype.names or not expected.size:
        return bool(np.array_equal(found, expected))
    if expected.dtype.kind == "V":
        if expected.dtype.itemsize == 0 or str(expected.dtype).startswith("[("):
            return True  # float0
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    return bool(np.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True))


_NOISE = [
    (re.compile(r" ?This error occurs at source:.*"), ""),
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b\w+Tracer\b"), "Tracer"),
    (re.compile(r"\b(?:jaxlib\._jax\.)?ArrayImpl\b"), "Array"),
    (re.compile(r"object id \d+"), "object id"),
    (re.compile(r"(/[\w.\-]+)+\.py:\d+(:\d+)?"), "FILE"),
    (re.compile(r"\b(?:mini)?jax(?:\._src)?(?:\.\w+)*\.(?=[A-Za-z_])"), ""),
    (re.compile(r"np\.int64\((\d+)\)"), r"\1"),
]


def normal(message: str) -> str:
    """A text without what may differ from run to run: addresses, files, set order."""
    for pattern, replacement in _NOISE:
        message = pattern.sub(replacement, message)
    return re.sub(r"\{([^{}]*)\}", _sorted_set, message)


def _sorted_set(match: re.Match[str]) -> str:
    items = match[1].split(", ")
    if not all(re.fullmatch(r"'\w+'", item) for item in items):
        return match[0]
    return "{" + ", ".join(sorted(items)) + "}"
