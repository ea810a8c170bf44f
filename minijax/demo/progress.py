"""How far the training is: a bar where someone watches, plain lines where no one does.

It writes to standard error, so that standard output holds the results alone.
"""

import sys
from typing import TextIO

from minijax.demo.train import Moment

WIDTH = 30
LINES = 10  # plain lines in all
PAUSE = 0.1  # seconds between two drawings of the bar


class Progress:
    """Shows moments of a training of `steps` steps on a stream."""

    def __init__(self, steps: int, stream: TextIO | None = None):
        self._steps = steps
        self._stream = sys.stderr if stream is None else stream
        self._drawn = 0.0
        self._last: Moment | None = None

    def show(self, moment: Moment) -> None:
        """Shows a moment, unless another was shown just before."""
        self._last = moment
        last = moment.step == self._steps
        step = f"step {moment.step:>{len(str(self._steps))}} of {self._steps}"
        line = f"{step}  loss {moment.loss:.3f}  {moment.seconds:.0f} s"
        if not self._stream.isatty():
            if last or moment.step % max(1, self._steps // LINES) == 0:
                print(line, file=self._stream, flush=True)
        elif last or moment.seconds - self._drawn >= PAUSE:
            self._drawn = moment.seconds
            full = "#" * (WIDTH * moment.step // self._steps)
            end = "\n" if last else ""
            bar = f"\r[{full:.<{WIDTH}}] {line} "
            print(bar, end=end, file=self._stream, flush=True)

    def so_far(self) -> str:
        """Where the training is, for a person who stops it.

        >>> Progress(100).so_far()
        'before the first step'
        """
        if self._last is None:
            return "before the first step"
        step, loss, _ = self._last
        return f"after step {step} of {self._steps}, at loss {loss:.3f}"
