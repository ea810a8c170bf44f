"""The table for people: a line per row as it is measured, and a progress bar.

Columns are as in nccl-tests; times are in microseconds, bandwidths in GB/s (1e9). On a
terminal that is too narrow the columns of least weight go, and a line says so. The bar
needs `rich`, and is shown only where standard error is a terminal.
"""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, TextIO

from minijax_bench import sizes
from minijax_bench.operations import Operation, Setting
from minijax_bench.row import Column, Row


class Field(NamedTuple):
    """A column: its head, width, weight (the lowest goes first) and cell."""

    head: str
    width: int
    weight: int
    cell: Callable[[Row], str]


def us(seconds: float | None) -> str:
    """Microseconds with about four digits.

    >>> us(1.23456e-3), us(12.3e-6), us(None)
    ('1235', '12.30', '-')
    """
    if seconds is None:
        return "-"
    value = seconds * 1e6
    return f"{value:.0f}" if value >= 1000 else f"{value:.{2 if value < 100 else 1}f}"


def _of(name: str, read: Callable[[Column], str]) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        column = getattr(row, name)
        return read(column) if column else "-"

    return cell


def _wrong(column: Column) -> str:
    return "-" if column.wrong is None else f"{column.wrong}"


def _percent(column: Column) -> str:
    return "-" if column.percent is None else f"{column.percent:.0f}"


def _slope(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        found = row.slope or {"refused": "none"}
        return "-" if found["refused"] else us(found[name])

    return cell


FIELDS = (
    Field("size", 11, 99, lambda r: str(r.size)),
    Field("count", 10, 60, lambda r: str(r.count)),
    Field("type", 9, 55, lambda r: r.dtype),
    Field("redop", 5, 30, lambda r: r.reduce),
    Field("p50", 8, 98, _of("fresh", lambda c: us(c.summary.p50))),
    Field("p90", 8, 45, _of("fresh", lambda c: us(c.summary.p90))),
    Field("p99", 8, 50, _of("fresh", lambda c: us(c.summary.p99))),
    Field("min", 8, 40, _of("fresh", lambda c: us(c.summary.min))),
    Field("max", 8, 39, _of("fresh", lambda c: us(c.summary.max))),
    Field("stdev", 8, 38, _of("fresh", lambda c: us(c.summary.stdev))),
    Field("algbw", 7, 90, _of("fresh", lambda c: f"{c.algbw / 1e9:.3f}")),
    Field("busbw", 7, 95, _of("fresh", lambda c: f"{c.busbw / 1e9:.3f}")),
    Field("%memcpy", 7, 70, _of("fresh", _percent)),
    Field("#wrong", 6, 97, _of("fresh", _wrong)),
    Field("donated", 8, 80, _of("in_place", lambda c: us(c.summary.p50))),
    Field("busbw", 7, 62, _of("in_place", lambda c: f"{c.busbw / 1e9:.3f}")),
    Field("#wrong", 6, 61, _of("in_place", _wrong)),
    Field("launch", 8, 75, _slope("launch")),
    Field("exchange", 8, 76, _slope("exchange")),
    Field("trace", 7, 34, lambda r: us(r.trace)),
    Field("compile", 8, 35, lambda r: us(r.compile)),
)
PEER = (
    Field("peer", 8, 93, lambda r: us((r.peer or {}).get("p50"))),
    Field("ratio", 16, 92, lambda r: _ratio(r.peer)),
)


def _ratio(peer: dict[str, Any] | None) -> str:
    if not peer:
        return "-"
    low, high = peer["band"]
    return f"{peer['ratio']:.2f} ({low:.2f}-{high:.2f})"


def fitting(fields: Sequence[Field], width: int | None) -> list[Field]:
    """The fields that fit in a line, in order; all of them where width is None.

    >>> [f.head for f in fitting(FIELDS, 40)]
    ['size', 'p50', 'busbw', '#wrong']
    """
    kept = list(fields)
    while width and sum(f.width + 1 for f in kept) > width and len(kept) > 4:
        kept.remove(min(kept, key=lambda f: f.weight))
    return kept


def notes(row: Row) -> list[str]:
    """What a row says beneath its line."""
    said = [f"ERROR: {row.error}"] if row.error else []
    said += [f"skipped: {row.skipped}"] if row.skipped else []
    columns = [c for c in (row.fresh, row.in_place) if c]
    said += [f"WRONG LAYOUT: {c.layout}" for c in columns if c.layout]
    if row.flags:
        said.append("; ".join(row.flags))
    refused = (row.slope or {}).get("refused", "")
    if refused and "has no chain" not in refused:
        said.append(f"no launch and exchange: {refused}")
    return said


class Table:
    """Prints sections of rows on a stream; see `showing` for the bar."""

    def __init__(self, stream: TextIO, with_peer: bool = False):
        self._stream = stream
        self._console: Any = None
        width = None
        if stream.isatty():
            width = shutil.get_terminal_size((80, 24)).columns
        every = (*FIELDS, *PEER) if with_peer else FIELDS
        self._fields = fitting(every, width)
        self._hidden = len(every) - len(self._fields)
        self._advance: Callable[[str], None] = lambda what: None

    def line(self, text: str = "", style: str = "") -> None:
        """Prints a line, in a style of rich where there is a terminal."""
        if self._console:
            self._console.print(
                text, style=style, markup=False, highlight=False, soft_wrap=True
            )
        else:
            print(text, file=self._stream, flush=True)

    def section(self, op: Operation, s: Setting) -> None:
        """The head of the rows of one collective."""
        where = f"mesh {s.mesh_text}, over {','.join(s.axes)}, {s.ranks} ranks"
        if s.groups:
            where += f", groups {[list(g) for g in s.groups]}"
        if s.layout != "flat":
            where += f", {s.layout}, split {s.split}, concat {s.concat}"
        self.line()
        self.line(f"# {op.name}: {where}", "bold")
        self.line(f"# algbw = S/t, busbw = algbw * {op.formula}, n = {s.ranks}")
        if self._hidden:
            self.line(f"# {self._hidden} columns do not fit here; --json has them all")
        heads = " ".join(f"{f.head:>{f.width}}" for f in self._fields)
        self.line(heads, "bold")

    def row(self, row: Row) -> None:
        """A row, and beneath it what it says besides."""
        style = "red" if row.failed else "yellow" if row.flags or row.skipped else ""
        cells = (f"{f.cell(row):>{f.width}}" for f in self._fields)
        self.line(" ".join(cells), style)
        for note in notes(row):
            self.line(f"    {sizes.show_size(row.size)}: {note}", style)

    def working_on(self, what: str) -> None:
        """Moves the bar on."""
        self._advance(what)

    @contextmanager
    def showing(self, total: int) -> Iterator[None]:
        """Shows a bar of `total` rows while the block runs."""
        if not sys.stderr.isatty():
            yield
            return
        try:
            progress = import_module("rich.progress")
            console = import_module("rich.console")
        except ImportError:
            print(
                "The progress bar needs the package rich, which is not installed.",
                file=sys.stderr,
            )
            yield
            return
        on_stdout = self._stream.isatty()
        output = console.Console(file=self._stream if on_stdout else sys.stderr)
        bar = progress.Progress(
            console=output,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            auto_refresh=False,  # no thread beside what is measured
        )
        task = bar.add_task("starting", total=total)
        done = -1

        def advance(what: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, description=what, completed=done, refresh=True)

        self._advance = advance
        self._console = output if on_stdout else None
        with bar:
            yield
        self._advance = lambda what: None
