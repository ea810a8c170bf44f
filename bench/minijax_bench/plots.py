"""The plots: time, bandwidth, and predicted against measured time. Needs matplotlib."""

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from minijax_bench import sizes
from minijax_bench.errors import MissingPackage
from minijax_bench.row import Row
from minijax_bench.statistics import WORST_RESIDUAL, Line

#: Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip
MARKERS = "osD^vPX"


def load() -> Any:
    """matplotlib's Figure class; raises MissingPackage without it."""
    try:
        return import_module("matplotlib.figure").Figure
    except ImportError:
        raise MissingPackage("matplotlib", "--plot") from None


def draw(rows: Sequence[Row], fits: dict[str, Line], title: str) -> bytes:
    """A PNG of three panels, one series per collective.

    Time: medians with bars to p90, and the fitted line where it is not refused.
    Bandwidth: busbw. The third compares each median with the fit.
    """
    figure = load()(figsize=(16.5, 5.4), dpi=110, layout="constrained")
    time, bandwidth, against = figure.subplots(1, 3)
    for i, (name, series) in enumerate(_series(rows).items()):
        style = {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "markersize": 4,
        }
        size = [row.size for row, _ in series]
        p50 = [c.summary.p50 * 1e6 for _, c in series]
        up = [(c.summary.p90 - c.summary.p50) * 1e6 for _, c in series]
        lone = {**style, "linestyle": "none"}
        bars = [[0.0] * len(up), up]
        time.errorbar(size, p50, bars, label=name, elinewidth=0.8, capsize=2, **lone)
        label = {"label": name, "linewidth": 1.2}
        bandwidth.plot(size, [c.busbw / 1e9 for _, c in series], **label, **style)
        line = fits.get(name)
        if line and not line.refused:
            predicted = [line(s) * 1e6 for s in size]
            dense = np.geomspace(min(size), max(size), 60)
            time.plot(dense, line(dense) * 1e6, color=style["color"], linewidth=1)
            note = f"{name} (residual {line.residual or 0:.0%})"
            against.plot(p50, predicted, label=note, **lone)
        elif line:
            against.plot([], [], label=f"{name}: no fit", **lone)
    _finish(time, "time of one call", "µs: median, bar to p90, line: fit")
    _finish(bandwidth, "bus bandwidth", "GB/s")
    for panel in (time, bandwidth):
        panel.set_xlabel("size S, bytes per device")
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda x, _: sizes.show_size(round(x)))
    _diagonal(against)
    figure.suptitle(title, fontsize=10)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _series(rows: Sequence[Row]) -> dict[str, list[tuple[Row, Any]]]:
    series: dict[str, list[tuple[Row, Any]]] = {}
    for row in rows:
        if row.fresh and row.fresh.summary.p50 > 0:
            series.setdefault(label(row), []).append((row, row.fresh))
    return series


def label(row: Row) -> str:
    """What tells a series from the others: the collective, then what differs.

    >>> label(Row("psum", 8, 2, "int8", "max", 8, {"axes": "x"}))
    'psum int8 max'
    """
    parts = [row.operation]
    if row.dtype != "float32":
        parts.append(row.dtype)
    if row.reduce not in ("none", "sum"):
        parts.append(row.reduce)
    if row.setting.get("layout", "flat") != "flat":
        parts.append(row.setting["layout"])
    return " ".join(parts)


def _plain(value: float, _: Any) -> str:
    return f"{value:g}"


def _plain_minor(value: float, _: Any) -> str:
    """Labels 2 and 5 between the powers of ten."""
    digit = f"{value:.0e}"[0]
    return f"{value:g}" if digit in "25" else ""


def _finish(panel: Any, title: str, what: str) -> None:
    panel.set_title(title)
    panel.set_ylabel(what)
    panel.set_yscale("log")
    for which in ("major", "minor"):
        show = _plain if which == "major" else _plain_minor
        getattr(panel.yaxis, f"set_{which}_formatter")(show)
    panel.grid(which="major", alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=8)


def _diagonal(panel: Any) -> None:
    """The line of equality and the band within which a fit is accepted."""
    drawn = [x for line in panel.lines for x in (*line.get_xdata(), *line.get_ydata())]
    low, high = (min(drawn) / 1.5, max(drawn) * 1.5) if drawn else (1.0, 1000.0)
    ends = [low, high]
    panel.plot(ends, ends, color="black", linewidth=0.8)
    panel.fill_between(
        ends,
        [x * (1 - WORST_RESIDUAL) for x in ends],
        [x * (1 + WORST_RESIDUAL) for x in ends],
        color="black",
        alpha=0.08,
        linewidth=0,
    )
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(_plain)
    panel.xaxis.set_minor_formatter(_plain_minor)
    _finish(panel, f"predicted against measured, band ±{WORST_RESIDUAL:.0%}", "")
    panel.set_xlabel("measured median, µs")
    panel.set_ylabel("predicted alpha + beta S, µs")
