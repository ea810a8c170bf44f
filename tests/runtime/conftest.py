"""What the tests of the runtime share: programs in a process of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fresh_process() -> Callable[..., str]:
    """Runs a program in a new process whose settings are cleaned; returns its output.

    Keyword arguments are environment variables to set.
    """
    return _run


def _run(program: str, **env: str) -> str:
    ours = ("MINIJAX_", "XLA_FLAGS", "JAX_PLATFORMS", "NPROC")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
