"""minijax beside upstream: `make perf`, or `python bench/perf/compare.py`.

Both libraries are launched in turn, each time in a new process; a row is the median of
the ratios of neighbouring launches, minijax / upstream, with its quartiles. A row holds
where the median is within its goal, is equal where only a part of the band is, and is
SHORT otherwise. Exit status: 0 if no row is short, 1 if one is, 2 for a mistake.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from minijax_bench.arguments import Parser
from minijax_bench.environment import cores, package_version
from minijax_bench.plots import load

CASES = Path(__file__).with_name("cases.py")
LIBRARIES = ("minijax", "jax")
#: Cases that share a process; what ran before leaves its mark on the heap.
TOGETHER = ("trace,lower", "jit,eager", "compile,first result", "collective")
#: Without these, glibc gives large blocks back to the system or keeps them according
#: to what the process did before, which is not what is compared.
ALLOCATOR = (
    "glibc.malloc.mmap_threshold=268435456:glibc.malloc.trim_threshold=1073741824"
)
MARKS = ("<!-- figures -->", "<!-- end of figures -->")
#: What each row may be at most, as minijax / upstream.
GOALS = {
    "import": 0.35,
    "memory": 0.75,
    "trace chain": 0.25,
    "trace MLP gradient": 0.30,
    "trace MoE gradient": 0.35,
    "trace chain gradient": 0.10,
    "lower chain": 0.35,
    "lower MLP gradient": 0.35,
    "lower MoE gradient": 0.35,
    "compile": 1.05,
    "instructions": 1.0,
    "collectives": 1.0,
    "first result": 0.77,
    "jit 1": 1.05,
    "jit 50 to 1": 0.90,
    "jit 50 to 50": 1.0,
    "jit dict": 1.0,
    "jit 8 devices": 1.1,
    "eager": 0.6,
    "eager vmap": 0.4,
    "eager grad": 0.15,
    "collective all_to_all": 1.03,
    "collective psum": 1.03,
}
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One case: ratios of pairs of launches, in order, and the two medians."""

    name: str
    goal: float
    median: float
    low: float
    high: float
    ours: float
    theirs: float

    @property
    def verdict(self) -> str:
        if self.median <= self.goal:
            return "holds"
        return "equal" if self.low <= self.goal else "SHORT"


def ratio(ours: float, theirs: float) -> float:
    """Of two figures. Counts may be zero: 1 where both are, more where one is."""
    return ours / theirs if theirs else 1.0 + ours


def rows(launches: Sequence[tuple[Figures, Figures]]) -> list[Row]:
    """The rows for which every launch has a figure, in the order of the goals."""
    out: list[Row] = []
    for name, goal in GOALS.items():
        if not all(name in ours and name in theirs for ours, theirs in launches):
            continue
        pairs = [(ours[name], theirs[name]) for ours, theirs in launches]
        low, mid, high = np.percentile([ratio(*p) for p in pairs], [25, 50, 75])
        ours, theirs = np.median(pairs, axis=0)
        row = (name, goal, *(float(v) for v in (mid, low, high, ours, theirs)))
        out.append(Row(*row))
    return out


def shown(name: str, value: float) -> str:
    """A figure with its unit."""
    if name == "memory":
        return f"{value:.0f} MiB"
    if name in ("instructions", "collectives"):
        return f"{value:.0f}"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def table(found: Sequence[Row]) -> str:
    """For a terminal."""
    head = f"{'':22} {'ratio':>6} {'p25..p75':>12} {'goal':>5}  verdict  minijax, jax"
    lines = [
        f"{r.name:22} {r.median:6.2f} {f'{r.low:.2f}..{r.high:.2f}':>12} {r.goal:5.2f}"
        f"  {r.verdict:7}  {shown(r.name, r.ours)}, {shown(r.name, r.theirs)}"
        for r in found
    ]
    short = [r.name for r in found if r.verdict == "SHORT"]
    last = f"{len(found) - len(short)} of {len(found)} rows hold or are equal"
    return "\n".join(
        [head, *lines, last + (f"; short: {', '.join(short)}" * bool(short))]
    )


def markdown(found: Sequence[Row], about: dict[str, Any]) -> str:
    """For the docs."""
    head = "| case | minijax / JAX | p25 to p75 | goal | verdict | minijax | JAX |"
    lines = [
        f"| {r.name} | {r.median:.2f} | {r.low:.2f} to {r.high:.2f} | {r.goal:.2f} "
        f"| {r.verdict} | {shown(r.name, r.ours)} | {shown(r.name, r.theirs)} |"
        for r in found
    ]
    told = ", ".join(f"{k} {v}" for k, v in about.items())
    return "\n".join([f"Measured with: {told}.", "", head, "| --- " * 7 + "|", *lines])


def between_marks(text: str, made: str) -> str:
    """`text` with what stands between its marks replaced."""
    before, found, rest = text.partition(MARKS[0])
    _, ended, after = rest.partition(MARKS[1])
    if not (found and ended):
        raise ValueError(
            f"no place for the figures: it is between {' and '.join(MARKS)}"
        )
    return f"{before}{MARKS[0]}\n{made}\n{MARKS[1]}{after}"


def plot(found: Sequence[Row], path: str) -> None:
    """A point with its band for each row, and a mark where its goal is."""
    figure = load()(figsize=(8, 0.34 * len(found) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    for y, row in enumerate(reversed(found)):
        colour = "tab:red" if row.verdict == "SHORT" else "tab:blue"
        axes.plot([row.low, row.high], [y, y], color=colour, linewidth=3)
        axes.plot([row.median], [y], "o", color=colour)
        axes.plot([row.goal], [y], "|", color="black", markersize=14)
    axes.set_yticks(range(len(found)), [r.name for r in reversed(found)])
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xlim(left=0)
    axes.set_xlabel(
        "time of minijax / time of JAX: median and quartiles; bar: the goal"
    )
    figure.savefig(path, dpi=110)


def launch(library: str, only: str) -> Figures:
    """The figures of one process."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or importing means compiling
    environment["GLIBC_TUNABLES"] = ALLOCATOR
    command = [sys.executable, str(CASES), library, "--only", only]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=600
    )
    if ran.returncode:
        last = ran.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"{library} ended with status {ran.returncode}: {last}")
    return json.loads(ran.stdout.strip().rpartition("\n")[2])


def figures(library: str, only: str) -> Figures:
    """All figures of one library, or those asked for; imports count once."""
    found: Figures = {}
    for words in [only] if only else TOGETHER:
        found = launch(library, words) | found
    return found


def launches(rounds: int, only: str) -> list[tuple[Figures, Figures]]:
    """Pairs of launches in turn; an interrupt keeps those that are whole."""
    out: list[tuple[Figures, Figures]] = []
    try:
        for library in LIBRARIES:  # files are read from the disk once before
            launch(library, "nothing else")
        for i in range(rounds):
            ours, theirs = (figures(library, only) for library in LIBRARIES)
            out.append((ours, theirs))
            print(f"round {i + 1} of {rounds}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(out)} rounds", file=sys.stderr)
    return out


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """The options; a mistake ends with a sentence and status 2."""
    parser = Parser("perf", description="minijax beside upstream JAX")
    parser.add_argument("--rounds", type=int, default=5, help="launches of each")
    parser.add_argument("--only", default="", help="words of cases, with commas")
    parser.add_argument("--json", type=Path, help="keeps every figure of every launch")
    parser.add_argument("--markdown", type=Path, help="a file with marks for the table")
    parser.add_argument("--plot", type=Path, help="a PNG")
    given = parser.parse_args(argv)
    if given.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {given.rounds}")
    if importlib.util.find_spec("jax") is None:
        parser.error("upstream JAX is not installed: pip install '.[test]'")
    return given


def main(argv: Sequence[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    given = parsed(argv)
    found = launches(given.rounds, given.only)
    if not found:
        return 130
    made = rows(found)
    versions = {k: package_version(k) for k in ("jax", "jaxlib")}
    load = round(os.getloadavg()[0], 1)
    about = {
        "Python": sys.version.split()[0],
        **versions,
        "cores": cores(),
        "allocator": ALLOCATOR,
        "load at the end": load,
        "rounds": len(found),
    }
    print(table(made))
    if given.json:
        given.json.write_text(json.dumps({"about": about, "launches": found}, indent=1))
    if given.markdown:
        text = given.markdown.read_text()
        given.markdown.write_text(between_marks(text, markdown(made, about)))
    if given.plot:
        plot(made, str(given.plot))
    return int(any(r.verdict == "SHORT" for r in made))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
