"""From a request to rows: compile, check, prove, then measure in turns.

A row that fails says why and the next one goes on. What is timed is the jitted
function as a user calls it; `overhead.py` compares that with the bare executable.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

import minijax
from minijax.sharding import NamedSharding
from minijax.sharding import PartitionSpec as P
from minijax_bench import measure, trial
from minijax_bench.measure import Budget, Clock
from minijax_bench.operations import Operation, Setting
from minijax_bench.proof import Proof, prove
from minijax_bench.row import Column, Row
from minijax_bench.statistics import ratio_band, slope, summarise

_MOST_BUFFERS = 256  # for cold-buffer rotation


class Peer(Protocol):
    """Another library that measures the same collective, elsewhere."""

    name: str

    def measure(
        self, op: Operation, s: Setting, count: int, budget: Budget
    ) -> list[float]:
        """Its samples, in seconds; raises RuntimeError with a sentence."""
        ...


@dataclass(frozen=True)
class Options:
    """How rows are measured.

    Attributes:
      rounds: the budget is spent in so many turns, between all that is compared.
      barrier: `host` or `none`: see `measure.LOOPS`.
      chain: the lengths of the chains; none where empty.
      cold: rotate among input buffers of so many bytes in all.
      memory: rows that need more bytes are skipped.
    """

    budget: Budget = field(default_factory=Budget)
    rounds: int = 3
    barrier: str = "host"
    chain: tuple[int, ...] = (1, 4, 8)
    in_place: bool = True
    check: bool = True
    cold: int = 0
    memory: int = 2**62
    clock: Clock = time.perf_counter


@dataclass
class _Program:
    """A compiled program with the times that it took to make."""

    call: Callable[[Any], Any]
    text: str
    trace: float
    lower: float
    compile: float


def _compile(fun: Callable[[Any], Any], x: Any, clock: Clock, **jit: Any) -> _Program:
    jitted = minijax.jit(fun, **jit)
    begin = clock()
    jitted.trace(x)
    traced = clock()
    lowered = jitted.lower(x)
    done = clock()
    text_of = lowered.compile().as_text
    end = clock()
    # The jitted function finds the program by its text, so this compiles once.
    return _Program(jitted, text_of(), traced - begin, done - traced, end - done)


def sentence(error: BaseException) -> str:
    """The first line of an error's text.

    >>> sentence(ValueError("no such axis.\\nlong story"))
    'no such axis'
    """
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return text or type(error).__name__


def _explained(op: Operation, s: Setting, text: str) -> str:
    if text.startswith("UNIMPLEMENTED") and op.hlo[0] in text:
        platform = s.devices[0].platform
        return f"XLA for {platform} does not implement {op.hlo[0]}"
    return text


class Runner:
    """Measures rows; keeps the HLO texts by hash."""

    def __init__(self, options: Options, peer: Peer | None = None):
        self.options = options
        self.peer = peer
        self.hlo: dict[str, str] = {}

    def row(self, op: Operation, s: Setting, size: int) -> Row:
        """Measures one row. Its error, if any, is in it."""
        count = trial.count_for(op, s, size)
        setting = {
            "mesh": s.mesh_text,
            "axes": ",".join(s.axes),
            "groups": [list(g) for g in s.groups] if s.groups else None,
            "layout": s.layout,
            "split": s.split,
            "concat": s.concat,
            "barrier": self.options.barrier,
        }
        nbytes = count * s.dtype.itemsize
        reduce = s.reduce if op.reduces else "none"
        row = Row(op.name, nbytes, count, s.dtype.name, reduce, s.ranks, setting)
        if s.ranks == 1:
            row.flags.append("one rank: nothing is exchanged")
        needs = self.needs(op, s, nbytes)
        if needs > self.options.memory:
            row.skipped = (
                f"it needs about {needs / 2**30:.1f} GiB, and the memory cap is "
                f"{self.options.memory / 2**30:.1f} GiB"
            )
            return row
        gc.collect()  # here, since the collector is off in the timed loops
        try:
            self._measure(row, op, s)
        except (RuntimeError, ValueError, TypeError, MemoryError, OSError) as error:
            row.error = _explained(op, s, sentence(error))
        return row

    def needs(self, op: Operation, s: Setting, nbytes: int) -> int:
        """About how many bytes a row takes, on devices and for the check."""
        have = nbytes // s.ranks if op.gathers else nbytes
        get = nbytes // s.ranks if op.name == "psum_scatter" else nbytes
        wide = 8 if op.reduces and s.dtype.itemsize < 8 else 1
        return s.mesh.size * (4 * have + 3 * get + 2 * nbytes) + (
            wide * have * s.ranks + self.options.cold
        )

    def _measure(self, row: Row, op: Operation, s: Setting) -> None:
        parts = trial.inputs(op, s, row.count)
        x = trial.place(parts, s)
        fun = trial.program(op, s)
        fresh = _compile(fun, x, self.options.clock)
        row.trace, row.lower, row.compile = fresh.trace, fresh.lower, fresh.compile
        proof = self._prove(row, op, fresh.text, 1)
        row.hlo = {**proof._asdict(), "names": list(op.hlo)}
        copy = _compile(_identity(s, x), x, self.options.clock)
        feed = self._feed(copy, x)
        runs = {"fresh": self._loop(fresh.call, feed)}
        donated = self._donated(row, op, fun, copy, x)
        if donated:
            runs["in_place"] = self._loop(donated, _copies(copy, x))
        checks = (
            self._checks(op, s, parts, fresh.call, donated, x, copy)
            if self.options.check
            else {}
        )
        del parts
        for length in self._chain_lengths(row, op):
            links = _compile(trial.chain(op, s, length), x, self.options.clock)
            self._prove(row, op, links.text, length)
            runs[f"chain {length}"] = self._loop(links.call, feed)
        runs["copy"] = self._copying(op, s, row.count, copy, x)
        if self.peer:
            runs["peer"] = partial(self._peer_samples, row, self.peer, op, s)
        options = self.options
        taken = measure.alternating([*runs.values()], options.budget, options.rounds)
        samples = dict(zip(runs, taken, strict=True))
        self._fill(row, op, samples, checks)

    def _chain_lengths(self, row: Row, op: Operation) -> tuple[int, ...]:
        if self.options.chain and op.again is None:
            row.slope = {"refused": f"{op.name} has no chain"}
            return ()
        return self.options.chain

    def _prove(self, row: Row, op: Operation, text: str, wanted: int) -> Proof:
        proof = prove(text, op.hlo, wanted)
        self.hlo[proof.hash] = text
        if proof.found and op.hlo[0] not in proof.kinds:
            flag = f"carried out by {' and '.join(proof.kinds)}"
            if flag not in row.flags:
                row.flags.append(flag)
        if proof.eliminated and "eliminated" not in row.flags:
            row.flags.append("eliminated")
            if row.ranks > 1:
                row.error = (
                    f"the compiler kept {proof.found} of {wanted} collectives, so the "
                    f"times are not those of {op.name}"
                )
        return proof

    def _loop(
        self, call: Callable[[Any], Any], feed: Callable[[], Any]
    ) -> Callable[[Budget], list[float]]:
        loop = measure.LOOPS[self.options.barrier]
        clock = self.options.clock
        return lambda budget: loop(call, feed, budget, clock, 1)

    def _feed(self, copy: _Program, x: Any) -> Callable[[], Any]:
        if not self.options.cold:
            return lambda: x
        count = min(_MOST_BUFFERS, max(1, -(-self.options.cold // x.nbytes)))
        return measure.rotating([x, *(_copies(copy, x)() for _ in range(count - 1))])

    def _donated(
        self, row: Row, op: Operation, fun: Any, copy: _Program, x: Any
    ) -> Callable[[Any], Any] | None:
        """The collective that writes where its argument was, if the compiler does."""
        same_size = not op.gathers and op.name != "psum_scatter"
        if not (self.options.in_place and same_size):
            return None
        given = _copies(copy, x)()
        made = _compile(fun, given, self.options.clock, donate_argnums=0)
        header = made.text.partition("\n")[0]
        if "input_output_alias" not in header:
            row.flags.append("the compiler does not reuse a donated argument")
            return None
        return made.call

    def _checks(
        self,
        op: Operation,
        s: Setting,
        parts: Any,
        call: Callable[[Any], Any],
        donated: Callable[[Any], Any] | None,
        x: Any,
        copy: _Program,
    ) -> dict[str, tuple[int, str]]:
        right = trial.expected(op, s, parts)
        found = {"fresh": trial.wrong(op, s, call(x), right)}
        if donated:
            y = donated(_copies(copy, x)())
            found["in_place"] = trial.wrong(op, s, y, right)
        return found

    def _copying(
        self, op: Operation, s: Setting, count: int, copy: _Program, x: Any
    ) -> Callable[[Budget], list[float]]:
        """The copy of S bytes on each device: what `%memcpy` compares with."""
        if op.gathers:  # a part is smaller than S
            whole = np.ones(count * s.mesh.size, s.dtype)
            x = minijax.device_put(whole, NamedSharding(s.mesh, P(s.order)))
            copy = _compile(_identity(s, x), x, self.options.clock)
        return self._loop(copy.call, lambda: x)

    def _peer_samples(
        self, row: Row, peer: Peer, op: Operation, s: Setting, budget: Budget
    ) -> list[float]:
        """The peer's samples; what it cannot do leaves minijax's own as they are."""
        try:
            return peer.measure(op, s, row.count, budget)
        except RuntimeError as error:
            row.error = sentence(error)
            return []

    def _fill(
        self,
        row: Row,
        op: Operation,
        samples: dict[str, list[float]],
        checks: dict[str, tuple[int, str]],
    ) -> None:
        """Turns samples into the columns of the row."""
        p50 = summarise(samples["copy"]).p50
        rate = row.size / p50 if p50 > 0 else 0.0
        row.copy = {"samples": samples["copy"], "p50": p50, "bandwidth": rate}
        for name in ("fresh", "in_place"):
            if name in samples:
                column = Column.of(samples[name], row.size, op.factor(row.ranks))
                column.percent = 100 * column.busbw / rate if rate else None
                if name in checks:
                    column.wrong, column.layout = checks[name]
                setattr(row, name, column)
        lengths = [k for k in self.options.chain if f"chain {k}" in samples]
        if lengths:
            chains = {k: samples[f"chain {k}"] for k in lengths}
            medians = [summarise(t).p50 for t in chains.values()]
            found = asdict(slope(lengths, medians))
            row.slope = {**found, "samples": {str(k): t for k, t in chains.items()}}
        if samples.get("peer") and self.peer:
            ratio, low, high = ratio_band(samples["fresh"], samples["peer"])
            row.peer = {
                "name": self.peer.name,
                "samples": samples["peer"],
                "p50": summarise(samples["peer"]).p50,
                "ratio": ratio,
                "band": [low, high],
            }


def _identity(s: Setting, x: Any) -> Callable[[Any], Any]:
    """A program that copies each device's part: XLA returns no argument as it is."""
    spec = P(s.order)
    return minijax.shard_map(
        lambda part: part, mesh=s.mesh, in_specs=(spec,), out_specs=spec
    )


def _copies(copy: _Program, x: Any) -> Callable[[], Any]:
    """A feed of new copies of `x`, each ready before it is given."""
    return lambda: copy.call(x).block_until_ready()


def plan(
    ops: Sequence[Operation], settings: Sequence[Setting], byte_sizes: Sequence[int]
) -> list[tuple[Operation, Setting, int]]:
    """The rows to measure, in order; raises BadInput for one that is impossible."""
    rows = []
    for op in ops:
        reduces = {s.reduce for s in settings[: None if op.reduces else 1]}
        for s in settings:
            if s.reduce not in reduces:  # the same once more, for what does not reduce
                continue
            trial.check(op, s)
            counts = [trial.count_for(op, s, size) for size in byte_sizes]
            rows += [(op, s, c * s.dtype.itemsize) for c in dict.fromkeys(counts)]
    return rows
