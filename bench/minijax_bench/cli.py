"""`python -m minijax bench`: from the arguments to a table, files and an exit status.

0: all is well; 1: a row failed, or `diff` found one slower; 2: a request that cannot be
carried out; 124: a row took longer than its timeout; 130: interrupted. Whatever ends
a run, the rows that were measured are written.
"""

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import minijax
from minijax_bench import (
    arguments,
    diff,
    environment,
    files,
    overhead,
    plots,
    report,
    run,
    sizes,
    versus,
)
from minijax_bench.errors import BadInput
from minijax_bench.row import Row
from minijax_bench.table import Table

_TIMED_OUT = 124  # the status of timeout(1)


@dataclass
class Session:
    """A run: what it has measured so far, and how to write it."""

    given: argparse.Namespace
    facts: dict[str, Any]
    topologies: list[tuple[str, Any]]
    runner: run.Runner
    rows: list[Row] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """What stands below the table."""
        found = report.fits(self.rows)
        predicted = report.prediction_lines(self._predictions(found))
        fits = report.fit_lines(found)
        return [*fits, *predicted, *self.extra, *report.summary_lines(self.rows)]

    def _predictions(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = list(dict.fromkeys(row.operation for row in self.rows))
        byte_sizes = sorted({row.size for row in self.rows})
        return report.predictions(names, byte_sizes, self.topologies, found)

    def write(self, ended: str) -> None:
        """Writes the files that were asked for."""
        found = report.fits(self.rows)
        given = self.given
        if given.json:
            predicted = self._predictions(found)
            files.write(
                given.json,
                files.as_json(
                    self.rows, self.facts, found, predicted, self.runner.hlo, ended
                ),
            )
        if given.csv:
            files.write(given.csv, files.as_csv(self.rows, self.facts))
        if given.plot:
            fits = {f["series"]: report.line_of(f) for f in found}
            facts = self.facts
            title = (
                f"minijax bench: {facts['devices']} {facts['platform']} devices, "
                f"{facts['cores']} cores, jaxlib {facts['versions']['jaxlib']}"
            )
            files.write(given.plot, plots.draw(self.rows, fits, title))


class Watchdog:
    """Ends the process where a row hangs: nothing else can stop a stuck collective."""

    def __init__(self, seconds: float, before: Callable[[str], None]):
        self._seconds = seconds
        self._before = before

    @contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Allows the block so many seconds."""
        timer = threading.Timer(self._seconds, self._end, (what,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end(self, what: str) -> None:
        try:
            self._before(f"{what} took longer than {self._seconds:g} s")
        finally:
            os._exit(_TIMED_OUT)


def _say(text: str) -> None:
    print(f"{arguments.PROG}: {text}.", file=sys.stderr, flush=True)


def measure(given: argparse.Namespace) -> int:
    """Carries out `bench COLLECTIVE ...` and returns the exit status."""
    ops = arguments.chosen(given.operations)
    byte_sizes = arguments.byte_sizes(given)
    options = arguments.options(given)
    topologies = arguments.check_outputs(given)
    if given.hugepages:
        environment.with_hugepages(given.argv)
    mesh = arguments.mesh(given)
    with minijax.set_mesh(mesh):
        settings = arguments.settings(given, mesh)
        rows = run.plan(ops, settings, byte_sizes)
        facts = environment.facts(list(mesh.devices.flat))
        runner = run.Runner(options)
        session = Session(given, facts, topologies, runner)
        with _peer(given, settings, session):
            return _sweep(session, rows)


@contextmanager
def _peer(given: Any, settings: Sequence[Any], session: Session) -> Iterator[None]:
    """Starts the peer of `--vs`, if there is one, and ends it."""
    if not given.vs:
        yield
        return
    for s in settings:
        versus.check(given.vs, s)
    facts = session.facts
    try:
        peer = versus.PeerProcess(
            given.vs, facts["devices"], facts["platform"], 0.8 * given.timeout
        )
    except (RuntimeError, OSError) as error:
        raise BadInput(f"--vs {given.vs} does not start: {error}") from None
    facts["peer"] = f"{given.vs}: {peer.version}"
    session.runner.peer = peer
    try:
        yield
    finally:
        peer.close()


def _sweep(session: Session, rows: Sequence[Any]) -> int:
    """Measures the planned rows, prints them and writes the files."""
    given = session.given
    table = Table(sys.stdout, with_peer=bool(given.vs))
    head(table, session)

    def stuck(text: str) -> None:
        _say(f"{text}; {_kept(session, len(rows))}")
        session.write("timeout")

    watchdog = Watchdog(given.timeout, stuck)
    try:
        with table.showing(len(rows)):
            _rows(session, table, rows, watchdog)
    except KeyboardInterrupt:
        _say(f"interrupted; {_kept(session, len(rows))}")
        session.write("interrupted")
        return 130
    except BaseException:
        session.write("failed")
        raise
    for line in session.lines():
        table.line(line)
    session.write("complete")
    return 1 if any(row.failed for row in session.rows) else 0


def _rows(
    session: Session, table: Table, rows: Sequence[Any], watchdog: Watchdog
) -> None:
    section = None
    for op, s, size in rows:
        if (op.name, s) != section:
            section = (op.name, s)
            table.section(op, s)
        what = f"{op.name} at {sizes.show_size(size)}"
        table.working_on(what)
        with watchdog.watching(what):
            row = session.runner.row(op, s, size)
        session.rows.append(row)
        table.row(row)
    if session.given.overhead:
        for op, s in dict.fromkeys((op, s) for op, s, _ in rows):
            for size in overhead.GOALS:
                with watchdog.watching(f"the overhead of {op.name}"):
                    said = _overhead(op, s, size, session.runner.options)
                session.extra.append(said)


def _overhead(op: Any, s: Any, size: int, options: run.Options) -> str:
    try:
        found = overhead.overhead(op, s, size, options.budget, options.clock)
    except (RuntimeError, BadInput) as error:
        return f"# overhead of {op.name}: none, because {run.sentence(error)}"
    return f"{found}  [{op.name}]"


def _kept(session: Session, planned: int) -> str:
    paths = [p for p in (session.given.json, session.given.csv) if p]
    where = f" in {' and '.join(paths)}" if paths else ""
    return f"{len(session.rows)} of {planned} rows were measured and are kept{where}"


def head(table: Table, session: Session) -> None:
    """The first lines: where the figures come from, and how they are taken."""
    facts, options = session.facts, session.runner.options
    versions = facts["versions"]
    samples = options.budget.part(options.rounds).iterations * options.rounds
    table.line(
        f"# minijax {minijax.__version__}, jaxlib {versions['jaxlib']}, Python "
        f"{facts['python']}, {facts['processor']}, {facts['cores']} cores, "
        f"load {facts['load_average'][0] if facts['load_average'] else 0:.1f}"
    )
    simulated = "simulated " if facts["platform"] == "cpu" else ""
    table.line(
        f"# {facts['devices']} {simulated}{facts['platform']} devices, barrier "
        f"{options.barrier}, {samples} samples in {options.rounds} "
        f"rounds after {options.budget.warmup} warm-up calls each, huge pages "
        f"{'asked for' if facts['hugepages_asked'] else 'not asked for'}"
    )
    if "peer" in facts:
        table.line(f"# ratio = minijax / {facts['peer']}, with its 95 % band")
    table.line("# times in us, bandwidths in GB/s (1e9), sizes in bytes per device")


def predict(given: argparse.Namespace) -> int:
    """Carries out `bench predict`."""
    names = [op.name for op in arguments.chosen(given.operations)]
    byte_sizes = arguments.byte_sizes(given)
    topologies = [(t, arguments.model.parse(t)) for t in given.topology]
    entries = report.predictions(names, byte_sizes, topologies, [])
    if refused := next((e["refused"] for e in entries if e["refused"]), ""):
        raise BadInput(refused)
    print("\n".join(report.prediction_lines(entries)).lstrip())
    return 0


def compare(given: argparse.Namespace) -> int:
    """Carries out `bench diff`."""
    if not 0 <= given.threshold < 100:
        raise BadInput(f"--threshold is in percent, below 100: not {given.threshold:g}")
    lines, status = diff.report(given.old, given.new, given.threshold / 100)
    print("\n".join(lines))
    return status


COMMANDS = {
    "diff": (arguments.diff_parser, compare),
    "predict": (arguments.predict_parser, predict),
}


def main(argv: Sequence[str]) -> int:
    """Runs the benchmark's command line and returns its exit status."""
    make, carry_out = COMMANDS.get(next(iter(argv), ""), (None, measure))
    parser = make() if make else arguments.make_parser()
    given = parser.parse_args(argv[1:] if make else argv)
    given.argv = list(argv)
    try:
        return carry_out(given)
    except BadInput as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
