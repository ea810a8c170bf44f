"""Fixtures that the tests share. The environment is set in the `conftest.py` above."""

import importlib
from collections.abc import Generator
from types import ModuleType

import pytest

import minijax


@pytest.fixture(scope="session")
def upstream() -> ModuleType:
    """Upstream JAX, the oracle, in this process and on the same eight devices.

    minijax and JAX share jaxlib, and jaxlib holds a few settings once per process (the
    64-bit switch is the one that matters): whichever library registers last sets them
    for both. So JAX is imported here, when a test first asks for it, and minijax must
    leave what it finds registered alone. A test of how minijax behaves where JAX was
    never imported runs in a process of its own.
    """
    jax = importlib.import_module("jax")
    if len(jax.devices()) < 8:
        pytest.skip("the oracle needs eight devices")
    return jax


@pytest.fixture(autouse=True)
def no_leaks() -> Generator[None]:
    """No trace may end with tracers that live on.

    It costs next to nothing. A file of tests that leak on purpose has a fixture of
    the same name, which replaces this one.
    """
    with minijax.checking_leaks():
        yield
