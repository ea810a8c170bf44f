"""`--vs`: the same collective by another library, in alternating rounds.

The peer runs in processes of its own (see `peers/`). Requests and answers are lines
of JSON; each answer is awaited for a bounded time.
"""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minijax_bench import operations
from minijax_bench.errors import BadInput, MissingPackage
from minijax_bench.measure import Budget
from minijax_bench.operations import Operation, Setting

PEERS = {"jax": "jax", "mpi4py": "mpi4py", "gloo": "torch"}
_FOLDER = Path(__file__).parent / "peers"
_START = 120.0  # seconds for a peer to be ready


def check(name: str, s: Setting) -> None:
    """Raises BadInput where the peer is not there or cannot do what is asked."""
    package = PEERS[name]
    if find_spec(package) is None:
        raise MissingPackage(package, f"--vs {name}")
    if name == "mpi4py" and not _mpiexec():
        raise BadInput("--vs mpi4py needs mpiexec on the PATH or beside Python")
    if s.groups or s.layout != "flat" or s.span != s.mesh.size:
        raise BadInput(
            f"--vs {name} compares the layout flat over the whole mesh, without groups"
        )
    if name == "mpi4py" and s.dtype.name in ("bfloat16", "float16"):
        raise BadInput(f"--vs mpi4py cannot take {s.dtype.name}: MPI has no such type")


def _mpiexec() -> str | None:
    """mpiexec of this environment, before that of the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def _command(name: str, ranks: int) -> list[str]:
    script = str(_FOLDER / f"{name}_peer.py")
    if name == "mpi4py":
        return [str(_mpiexec()), "-n", str(ranks), sys.executable, script]
    return [sys.executable, script, str(ranks)]


def _environment(ranks: int, platform: str) -> dict[str, str]:
    flags = os.environ.get("XLA_FLAGS", "")
    kept = [f for f in flags.split() if "force_host_platform_device_count" not in f]
    count = f"--xla_force_host_platform_device_count={ranks}"
    return {
        "NPROC": str(max(32, 2 * ranks)),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **os.environ,
        "XLA_FLAGS": " ".join([*kept, count]),
        "JAX_PLATFORMS": platform,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }


class PeerProcess:
    """A peer that runs; close it."""

    def __init__(self, name: str, ranks: int, platform: str, timeout: float):
        self.name = name
        self._timeout = timeout
        self._process = subprocess.Popen(
            _command(name, ranks),
            env=_environment(ranks, platform),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # an interrupt is ours to handle
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.version = self._answer(_START).get("ready", "")

    def _read(self) -> None:
        for line in self._process.stdout or ():
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put("")

    def _answer(self, timeout: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise RuntimeError(
                f"{self.name} gave no answer in {timeout:.0f} s"
            ) from None
        if not line:
            self._lines.put("")  # for the next who asks
            raise RuntimeError(f"the process of {self.name} has ended")
        return json.loads(line)

    def measure(
        self, op: Operation, s: Setting, count: int, budget: Budget
    ) -> list[float]:
        """Samples of the peer; raises RuntimeError with a sentence."""
        request = {
            "operation": op.name,
            "reduce": s.reduce,
            "dtype": s.dtype.name,
            "ranks": s.ranks,
            "part": count // s.ranks if op.gathers else count,
            "iterations": budget.iterations,
            "warmup": budget.warmup,
            "seconds": budget.seconds,
        }
        if op.name == "ragged_all_to_all":
            request["sends"] = operations.sends(s.ranks, count).tolist()
        try:
            stdin = self._process.stdin
            if stdin is None:
                raise BrokenPipeError
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except OSError:
            raise RuntimeError(f"the process of {self.name} has ended") from None
        answer = self._answer(self._timeout)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error'].rstrip('.')}")
        return answer["samples"]

    def close(self) -> None:
        """Ends the peer: its input ends, and it has two seconds."""
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except OSError:
                pass
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # its session: ours to end
            self._process.wait()
        self._reader.join(2)
        if self._process.stdout:
            self._process.stdout.close()
