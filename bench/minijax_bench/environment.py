"""What a figure must have beside it: versions, machine, allocator, flags.

Also the one setting that must be in force before the process starts: huge pages for
the allocator, for which the benchmark executes itself anew.
"""

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from minijax_bench.errors import BadInput

PACKAGES = (
    "minijax-compiler", "jaxlib", "numpy", "ml_dtypes", "jax", "mpi4py", "torch",
)  # fmt: skip
SETTINGS = (
    "MINIJAX_PLATFORM", "MINIJAX_NUM_CPU_DEVICES", "XLA_FLAGS", "NPROC",
    "TF_CPP_MIN_LOG_LEVEL", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "LD_PRELOAD",
    "OMP_NUM_THREADS",
)  # fmt: skip
#: glibc then asks for transparent huge pages wherever malloc grows.
TUNABLE = "glibc.malloc.hugetlb=1"
_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: Tells the process that `reexecute` starts that it is the new one.
_MARK = "MINIJAX_BENCH_HUGEPAGES"


def package_version(name: str) -> str:
    """The installed version of a distribution.

    >>> package_version("no-such-distribution")
    'not installed'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _first_line(path: Path, start: str) -> str:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return "unknown"
    found = [line for line in lines if line.startswith(start)]
    return found[0].partition(":")[2].strip() or found[0] if found else "unknown"


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory that are free for use, or a very large number if unknown."""
    text = _first_line(Path("/proc/meminfo"), "MemAvailable")
    return int(text.split()[0]) * 1024 if text[:1].isdigit() else 2**62


def facts(devices: Sequence[Any]) -> dict[str, Any]:
    """The environment of this run, for JSON and CSV."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else ()
    return {
        "versions": {name: package_version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _first_line(Path("/proc/cpuinfo"), "model name"),
        "cores": cores(),
        "memory_available": memory(),
        "load_average": list(load),
        "platform": devices[0].platform,
        "device_kind": devices[0].device_kind,
        "devices": len(devices),
        "hugepages": _first_line(_PAGES, ""),
        "hugepages_asked": os.environ.get(_MARK) == "1",
        "settings": {k: os.environ[k] for k in SETTINGS if k in os.environ},
        "command": sys.argv,
    }


def flat(facts: dict[str, Any]) -> dict[str, str]:
    """The facts as lines of `name: value`.

    >>> flat({"versions": {"numpy": "2.0"}, "cores": 2})
    {'versions.numpy': '2.0', 'cores': '2'}
    """
    lines: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            lines |= {f"{name}.{k}": str(v) for k, v in value.items()}
        else:
            lines[name] = str(value)
    return lines


def with_hugepages(argv: Sequence[str]) -> None:
    """Executes this command anew with huge pages; returns where that has been done.

    Raises BadInput where the system has none.
    """
    if os.environ.get(_MARK) == "1":
        return
    text = _first_line(_PAGES, "")
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        raise BadInput("--hugepages needs Linux with the GNU C library")
    if text == "unknown" or "[never]" in text:
        raise BadInput(f"--hugepages needs transparent huge pages, and {_PAGES} says "
                       f"{text}")  # fmt: skip
    others = [
        t
        for t in os.environ.get("GLIBC_TUNABLES", "").split(":")
        if t and not t.startswith("glibc.malloc.hugetlb")
    ]
    tunables = ":".join([*others, TUNABLE])
    environment = {**os.environ, _MARK: "1", "GLIBC_TUNABLES": tunables}
    command = [sys.executable, "-m", "minijax", "bench", *argv]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)
