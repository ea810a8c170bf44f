"""`bench diff OLD NEW`: which rows became slower, by more than noise and a threshold.

A row is slower where the whole 95 % band of the ratio of medians lies above 1 plus the
threshold, faster where it lies below 1 minus it. The exit status is 1 where a row is
slower, is missing or fails, for CI.
"""

from collections.abc import Sequence
from typing import NamedTuple

from minijax_bench import environment, files, sizes
from minijax_bench.row import Row
from minijax_bench.statistics import ratio_band

# Facts that differ between any two runs and make no figures incomparable.
_EXPECTED = ("load_average", "memory_available", "command")


class Change(NamedTuple):
    """A row of both files: the ratio new/old of medians, its band, the verdict."""

    old: Row
    new: Row
    ratio: float
    low: float
    high: float
    verdict: str


def compare(
    old: Sequence[Row], new: Sequence[Row], threshold: float
) -> tuple[list[Change], list[Row]]:
    """The rows that both have, and the old rows that the new run has not measured."""
    by_key = {row.key: row for row in new}
    changes: list[Change] = []
    missing: list[Row] = []
    for was in old:
        now = by_key.get(was.key)
        if was.fresh is None:
            continue
        if now is None or now.fresh is None:
            missing.append(was)
            continue
        ratio, low, high = ratio_band(now.fresh.samples, was.fresh.samples)
        if now.failed and not was.failed:
            verdict = "FAILS"
        elif low > 1 + threshold:
            verdict = "SLOWER"
        elif high < 1 - threshold:
            verdict = "faster"
        else:
            verdict = "same"
        changes.append(Change(was, now, ratio, low, high, verdict))
    return changes, missing


def report(old_path: str, new_path: str, threshold: float) -> tuple[list[str], int]:
    """The lines to print and the exit status; raises BadInput for a wrong file."""
    (old, was), (new, now) = files.read_json(old_path), files.read_json(new_path)
    changes, missing = compare(old, new, threshold)
    lines = _different(environment.flat(was), environment.flat(now))
    lines.append(
        f"{'operation':<21} {'size':>8} {'type':>9} {'old us':>10} {'new us':>10} "
        f"{'ratio':>6}  95% band"
    )
    for c in changes:
        old_p50, new_p50 = (
            r.fresh.summary.p50 * 1e6 for r in (c.old, c.new) if r.fresh
        )
        lines.append(
            f"{c.old.operation:<21} {sizes.show_size(c.old.size):>8} "
            f"{c.old.dtype:>9} {old_p50:>10.2f} {new_p50:>10.2f} {c.ratio:>6.3f}  "
            f"{c.low:.3f}-{c.high:.3f}  {c.verdict}"
        )
    for row in missing:
        lines.append(
            f"{row.operation:<21} {sizes.show_size(row.size):>8} {row.dtype:>9} "
            f"MISSING from {new_path}"
        )
    counts = [f"{sum(c.verdict == v for c in changes)} {v}" for v in _VERDICTS]
    lines.append(
        f"{', '.join(counts)}, {len(missing)} missing (threshold {threshold:.0%})"
    )
    bad = missing or any(c.verdict in ("SLOWER", "FAILS") for c in changes)
    return lines, 1 if bad or not changes else 0


_VERDICTS = ("SLOWER", "FAILS", "faster", "same")


def _different(was: dict[str, str], now: dict[str, str]) -> list[str]:
    """A warning line for each fact of the environment that is not the same."""
    names = sorted({*was, *now})
    return [
        f"# the environments differ: {name}: {was.get(name)} -> {now.get(name)}"
        for name in names
        if was.get(name) != now.get(name) and name not in _EXPECTED
    ]
