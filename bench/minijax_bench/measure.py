"""The timed loops. A clock is passed in, so that the tests can bring their own.

Each loop is bounded twice: by a number of iterations and by a time cap. The garbage
collector is off while the clock runs. A result is dropped between two samples, so that
freeing it is not timed.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

type Clock = Callable[[], float]

#: Calls in flight without waiting; more can starve devices that share few cores.
IN_FLIGHT = 16
#: Samples that are taken whatever the time cap says.
LEAST = 3


@dataclass(frozen=True)
class Budget:
    """How long to measure.

    Attributes:
      iterations: samples to take.
      warmup: calls before them, which are not kept.
      seconds: after this time no further sample is begun.
    """

    iterations: int = 20
    warmup: int = 5
    seconds: float = 5.0

    def part(self, rounds: int) -> "Budget":
        """The budget of one of so many rounds."""
        iterations = max(1, -(-self.iterations // rounds))
        return Budget(iterations, self.warmup, self.seconds / rounds)


@contextmanager
def _no_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _warm(once: Callable[[], Any], budget: Budget, clock: Clock) -> None:
    begin = clock()
    for _ in range(budget.warmup):
        once()
        if clock() - begin > budget.seconds:
            return


def _sampled(
    once: Callable[[], float], budget: Budget, clock: Clock, least: int
) -> list[float]:
    """Samples until the budget is spent, and at least so many."""
    samples: list[float] = []
    with _no_collection():
        begin = clock()
        while len(samples) < budget.iterations:
            if len(samples) >= least and clock() - begin > budget.seconds:
                break
            samples.append(once())
    return samples


def call_and_block(
    run: Callable[[Any], Any],
    feed: Callable[[], Any],
    budget: Budget,
    clock: Clock = time.perf_counter,
    least: int = LEAST,
) -> list[float]:
    """Seconds from a call to its result being ready, once per sample.

    `feed` gives the argument of each call and is not timed. Every call begins when
    the result of the one before is ready on all devices: the barrier mode `host`.

    >>> times = iter(range(100))
    >>> class Ready:
    ...     def block_until_ready(self): ...
    >>> call_and_block(lambda x: Ready(), lambda: 0, Budget(2, 0), lambda: next(times))
    [1, 1]
    """

    def once() -> float:
        x = feed()
        begin = clock()
        y = run(x)
        y.block_until_ready()
        return clock() - begin

    _warm(once, budget, clock)
    return _sampled(once, budget, clock, least)


def in_flight(
    run: Callable[[Any], Any],
    feed: Callable[[], Any],
    budget: Budget,
    clock: Clock = time.perf_counter,
    least: int = LEAST,
) -> list[float]:
    """Seconds per call where 16 are started before one waits: the mode `none`."""

    def once() -> float:
        xs = [feed() for _ in range(IN_FLIGHT)]
        begin = clock()
        ys = [run(x) for x in xs]
        for y in ys:
            y.block_until_ready()
        return (clock() - begin) / IN_FLIGHT

    _warm(once, Budget(0, min(1, budget.warmup), budget.seconds), clock)
    return _sampled(once, budget, clock, least)


LOOPS = {"host": call_and_block, "none": in_flight}


def alternating(
    runs: Sequence[Callable[[Budget], list[float]]], budget: Budget, rounds: int
) -> list[list[float]]:
    """The samples of several things measured in turns, so that drift hits all alike.

    Every second round goes backwards: what comes before another is not always the same.

    >>> alternating([lambda b: [1.0], lambda b: [2.0]], Budget(), 2)
    [[1.0, 1.0], [2.0, 2.0]]
    """
    samples: list[list[float]] = [[] for _ in runs]
    part = budget.part(rounds)
    for number in range(rounds):
        turn = list(zip(samples, runs, strict=True))
        for kept, run in reversed(turn) if number % 2 else turn:
            kept += run(part)
    return samples


def rotating(buffers: Sequence[Any]) -> Callable[[], Any]:
    """A feed that gives the buffers in turn, so that each is cold when its turn comes.

    >>> feed = rotating("ab")
    >>> feed(), feed(), feed()
    ('a', 'b', 'a')
    """
    at = -1

    def feed() -> Any:
        nonlocal at
        at = (at + 1) % len(buffers)
        return buffers[at]

    return feed
