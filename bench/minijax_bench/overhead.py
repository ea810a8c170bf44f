"""How much the harness adds to the bare executable: `--overhead`.

The same timed loop runs on the jitted function, as every row does, and on PJRT's
`execute_sharded` with the result handlers alone, in turns. This is the one file here
that looks inside minijax, because what lies beneath the API is what it compares with.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import minijax
from minijax_bench import measure, trial
from minijax_bench.measure import Budget, Clock
from minijax_bench.operations import Operation, Setting
from minijax_bench.statistics import median_band, summarise

#: The goals: at most so much more than the bare executable, by size in bytes.
GOALS = {1024: 0.05, 2**20: 0.01}


class Overhead(NamedTuple):
    """Medians in seconds; harness/bare, by the median of rounds, with its 95 % band."""

    size: int
    harness: float
    bare: float
    ratio: float
    low: float
    high: float

    def verdict(self, goal: float) -> str:
        """Whether the overhead is at most `goal`, as far as the band can tell.

        >>> Overhead(1024, 1.0, 1.0, 1.02, 0.98, 1.06).verdict(0.05)
        'UNDECIDED, the goal is within the noise'
        """
        if self.high <= 1 + goal:
            return "holds"
        if self.low > 1 + goal:
            return "does NOT hold"
        return "UNDECIDED, the goal is within the noise"

    def __str__(self) -> str:
        goal = GOALS.get(self.size)
        said = ""
        if goal is not None:
            said = f"  goal at most {goal:+.0%}: {self.verdict(goal)}"
        return (
            f"# overhead at {self.size} bytes: harness {self.harness * 1e6:.2f} us, "
            f"bare executable {self.bare * 1e6:.2f} us, {self.ratio - 1:+.1%} "
            f"({self.low - 1:+.1%} to {self.high - 1:+.1%}){said}"
        )


def bare(fun: Callable[[Any], Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """PJRT's executable as a function of jaxlib's array, and that array."""
    compiled = minijax.jit(fun).lower(x).compile()
    try:
        executable = compiled._ready.executable
        execute, handlers = executable.loaded.execute_sharded, executable._handlers
        buffer = x._buf
        takes = len(executable.in_shardings)
    except AttributeError as error:
        raise RuntimeError(f"what lies beneath minijax has changed: {error}") from None

    if takes != 1:
        raise RuntimeError("the program takes constants besides its argument")

    def call(buf: Any) -> Any:
        return execute([buf]).consume_with_handlers(handlers)[0]

    return call, buffer


def overhead(
    op: Operation, s: Setting, size: int, budget: Budget, clock: Clock, rounds: int = 20
) -> Overhead:
    """Measures one size, in turns, with at least 400 samples of each."""
    budget = replace(budget, iterations=max(400, budget.iterations))
    count = trial.count_for(op, s, size)
    x = trial.place(trial.inputs(op, s, count), s)
    fun = trial.program(op, s)
    jitted = minijax.jit(fun)
    call, buffer = bare(fun, x)

    def loop(run: Callable[[Any], Any], arg: Any) -> Callable[[Budget], list[float]]:
        return lambda b: measure.call_and_block(run, lambda: arg, b, clock)

    runs = [loop(jitted, x), loop(call, buffer)]
    whole: list[float] = []
    under: list[float] = []
    ratios: list[float] = []
    for number in range(rounds):
        first, second = measure.alternating(runs, budget.part(rounds), 1)
        if number % 2:  # the order of this round was the other one
            first, second = second, first
        runs.reverse()
        whole += first
        under += second
        ratios.append(summarise(first).p50 / summarise(second).p50)
    ratio, low, high = median_band(ratios)
    medians = summarise(whole).p50, summarise(under).p50
    return Overhead(count * s.dtype.itemsize, *medians, ratio, low, high)
