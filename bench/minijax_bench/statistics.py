"""What is said about samples: percentiles, a line through them, bands around ratios.

All times are in seconds. Nothing here drops a sample: an outlier is a fact about the
machine, and shows in p99, the maximum and the standard deviation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

#: A line that misses its points by more than this (RMS, relative) describes nothing.
WORST_RESIDUAL = 0.25
_DRAWS = 1000  # bootstrap resamples


@dataclass(frozen=True)
class Summary:
    """Samples in seven numbers, in seconds."""

    count: int
    p50: float
    p90: float
    p99: float
    min: float
    max: float
    mean: float
    stdev: float

    def as_dict(self) -> dict[str, float]:
        """By name, for JSON."""
        return asdict(self)


def summarise(samples: Sequence[float]) -> Summary:
    """The summary of at least one sample; percentiles interpolate linearly.

    >>> summarise([3.0, 1.0, 2.0, 100.0]).p50
    2.5
    """
    x = np.asarray(samples, np.float64)
    p50, p90, p99 = (float(v) for v in np.percentile(x, [50, 90, 99]))
    stdev = float(x.std(ddof=1)) if len(x) > 1 else 0.0
    return Summary(
        len(x), p50, p90, p99, float(x.min()), float(x.max()), float(x.mean()), stdev
    )


@dataclass(frozen=True)
class Line:
    """A fit `t = alpha + beta * size`.

    Attributes:
      alpha: seconds for no bytes.
      beta: seconds per byte.
      residual: the root mean square of the relative errors; None without a fit.
      refused: why the line is not to be used; empty where it is.
    """

    alpha: float
    beta: float
    residual: float | None
    refused: str = ""

    def __call__(self, size: Any) -> Any:
        """The time for `size` bytes, also for an array of sizes."""
        return self.alpha + self.beta * size

    def as_dict(self) -> dict[str, Any]:
        """By name, for JSON."""
        return asdict(self)


def fit(sizes: Sequence[float], times: Sequence[float]) -> Line:
    """Fits times to sizes by least squares of the relative errors.

    Relative, because times differ by orders of magnitude: absolute errors would leave
    the small sizes, which alone show alpha, without a say. Neither alpha nor beta may
    be negative.

    >>> line = fit([1000, 2000, 4000], [11e-6, 12e-6, 14e-6])
    >>> f"{line.alpha:.1e} {line.beta:.1e} {line.refused}"
    '1.0e-05 1.0e-09 '
    """
    if len(set(sizes)) < 3:
        return Line(0.0, 0.0, None, "it needs at least three sizes")
    s, t = np.asarray(sizes, np.float64), np.asarray(times, np.float64)
    rows = np.stack([1 / t, s / t], axis=1)
    alpha, beta = (float(v) for v in np.linalg.lstsq(rows, np.ones(len(t)))[0])
    if alpha < 0:
        alpha, beta = 0.0, _one(rows[:, 1])
    elif beta < 0:
        alpha, beta = _one(rows[:, 0]), 0.0
    residual = float(np.sqrt(np.mean((rows @ [alpha, beta] - 1) ** 2)))
    refused = ""
    if residual > WORST_RESIDUAL:
        refused = f"its residual of {residual:.0%} is above {WORST_RESIDUAL:.0%}"
    elif beta == 0:
        refused = "the times do not grow with the size: sweep larger sizes"
    return Line(alpha, beta, residual, refused)


def _one(column: np.ndarray[Any, Any]) -> float:
    """The least-squares factor that takes a column to ones."""
    return float(column.sum() / (column @ column))


@dataclass(frozen=True)
class Slope:
    """What K exchanges in one program cost: `t = launch + exchange * K`, in seconds.

    `refused` says why there are no such numbers.
    """

    launch: float
    exchange: float
    refused: str = ""


def slope(lengths: Sequence[int], times: Sequence[float]) -> Slope:
    """Launch and exchange cost from the times of chains of different lengths.

    >>> slope([1, 4, 8], [12e-6, 18e-6, 26e-6])
    Slope(launch=1e-05, exchange=2e-06, refused='')
    """
    k, t = np.asarray(lengths, np.float64), np.asarray(times, np.float64)
    if len(set(lengths)) < 2:
        return Slope(0.0, 0.0, "a slope needs chains of two lengths")
    centred = k - k.mean()
    exchange = float(centred @ t / (centred @ centred))
    launch = float(t.mean() - exchange * k.mean())
    if exchange <= 0:
        return Slope(0.0, 0.0, "longer chains took no longer: noise, or no exchange")
    if launch < 0:
        return Slope(0.0, 0.0, "the launch cost came out negative: noise")
    return Slope(float(f"{launch:.12g}"), float(f"{exchange:.12g}"))


def _drawn_medians(values: np.ndarray[Any, Any], random: Any) -> Any:
    """The medians of samples drawn from the values, with replacement."""
    draws = random.integers(0, len(values), (_DRAWS, len(values)))
    return np.median(values[draws], axis=1)


def _band(drawn: Any, level: float) -> tuple[float, float]:
    """Between which two numbers the middle `level` of what was drawn lies."""
    tail = 50 * (1 - level)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return float(low), float(high)


def ratio_band(
    new: Sequence[float], old: Sequence[float], level: float = 0.95
) -> tuple[float, float, float]:
    """The ratio of medians new/old, and its bootstrap confidence band.

    The resampling is seeded: the same samples give the same band.

    >>> ratio_band([2.0] * 9, [1.0] * 9)
    (2.0, 2.0, 2.0)
    """
    random = np.random.default_rng(0)
    n, o = np.asarray(new, np.float64), np.asarray(old, np.float64)
    above, below = (_drawn_medians(x, random) for x in (n, o))
    return float(np.median(n) / np.median(o)), *_band(above / below, level)


def median_band(
    values: Sequence[float], level: float = 0.95
) -> tuple[float, float, float]:
    """The median of values and its bootstrap confidence band, seeded as `ratio_band`.

    Taken of one ratio per round, it is honest where samples within a round are alike.

    >>> median_band([1.0, 1.0, 1.0])
    (1.0, 1.0, 1.0)
    """
    random = np.random.default_rng(0)
    x = np.asarray(values, np.float64)
    return float(np.median(x)), *_band(_drawn_medians(x, random), level)
