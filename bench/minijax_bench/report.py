"""What stands below the rows: fits, predictions, and the averages of nccl-tests."""

import math
from collections.abc import Sequence
from typing import Any

from minijax_bench import model, plots, sizes
from minijax_bench.errors import BadInput
from minijax_bench.model import Axis
from minijax_bench.row import Row
from minijax_bench.statistics import Line, fit

_MOST_SIZES = 7  # in a table of predictions
MODEL = "MODEL, NOT MEASURED: links only, without launch cost, contention or adding"


def fits(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line per series of sizes: rows that differ in nothing else."""
    series: dict[Any, list[Row]] = {}
    for row in rows:
        if _exchanged(row):
            operation, _, *rest = row.key
            series.setdefault((operation, *rest), []).append(row)
    found = []
    for members in series.values():
        times = [r.fresh.summary.p50 for r in members if r.fresh]
        line = fit([r.size for r in members], times)
        first = members[0]
        named = {"operation": first.operation, "series": plots.label(first)}
        shown = {"setting": first.setting, "ranks": first.ranks}
        found.append({**named, **shown, **line.as_dict()})
    return found


def _exchanged(row: Row) -> bool:
    """Whether a row says something of an exchange."""
    gone = "eliminated" in row.flags or row.ranks == 1
    return row.fresh is not None and not row.failed and not gone


def line_of(found: dict[str, Any]) -> Line:
    """The line of an entry of `fits`."""
    return Line(*(found[k] for k in ("alpha", "beta", "residual", "refused")))


def fit_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """The fits for people."""
    lines = ["", "# fit of the medians: t = alpha + beta * S"]
    for entry in found:
        line = line_of(entry)
        if line.refused:
            lines.append(f"#   {entry['series']:<24} refused: {line.refused}")
        else:
            lines.append(
                f"#   {entry['series']:<24} alpha {line.alpha * 1e6:.2f} us, beta "
                f"{line.beta * 1e9:.4f} ns/B ({1 / line.beta / 1e9:.3f} GB/s), "
                f"residual {line.residual or 0:.0%}"
            )
    return lines if found else []


def predictions(
    operations: Sequence[str],
    byte_sizes: Sequence[int],
    topologies: Sequence[tuple[str, tuple[Axis, ...]]],
    found: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Predicted times of each collective on each topology; a refusal says why."""
    entries = []
    for text, axes in topologies:
        for operation in operations:
            entry: dict[str, Any] = {
                "topology": text,
                "devices": math.prod(a.size for a in axes),
                "operation": operation,
                "model": MODEL,
                "refused": "",
                "seconds": {},
            }
            try:
                links = model.links(axes, lambda name=operation: _fitted(name, found))
            except BadInput as error:
                entry["refused"] = str(error)
            else:
                entry["links"] = [link.__dict__ for link in links]
                entry["seconds"] = {
                    size: model.predict(operation, size, axes, links)
                    for size in byte_sizes
                }
            entries.append(entry)
    return entries


def _fitted(operation: str, found: Sequence[dict[str, Any]]) -> model.Link:
    mine = [f for f in found if f["operation"] == operation]
    if not mine:
        raise BadInput(f"no fit of {operation}: give the topology its latency and rate")
    return model.fitted_link(operation, line_of(mine[0]), mine[0]["ranks"])


def prediction_lines(entries: Sequence[dict[str, Any]]) -> list[str]:
    """The predictions for people: a table per topology."""
    lines: list[str] = []
    for text in dict.fromkeys(e["topology"] for e in entries):
        mine = [e for e in entries if e["topology"] == text]
        lines += ["", f"# {MODEL}", f"# {mine[0]['devices']:,} devices: {text}"]
        shown = next((list(e["seconds"]) for e in mine if e["seconds"]), [])
        step = max(1, -(-len(shown) // _MOST_SIZES))
        shown = shown[::step]
        heads = " ".join(f"{sizes.show_size(s):>10}" for s in shown)
        lines.append(f"{'predicted us at S =':<21} {heads}")
        for e in mine:
            if e["refused"]:
                lines.append(f"{e['operation']:<21} refused: {e['refused']}")
                continue
            cells = " ".join(f"{e['seconds'][s] * 1e6:>10.4g}" for s in shown)
            lines.append(f"{e['operation']:<21} {cells}")
    return lines


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """The last lines: wrong values and the average bus bandwidth."""
    columns = [c for r in rows for c in (r.fresh, r.in_place) if c]
    checked = [c.wrong for c in columns if c.wrong is not None]
    said = f"{sum(checked)} {'FAILED' if sum(checked) else 'OK'}"
    lines = ["", f"# wrong values: {said if checked else 'not checked'}"]
    kept = [r.fresh.busbw for r in rows if r.fresh and _exchanged(r)]
    if kept:
        lines.append(f"# average bus bandwidth: {sum(kept) / len(kept) / 1e9:.4f} GB/s")
    failed, skipped = sum(r.failed for r in rows), sum(bool(r.skipped) for r in rows)
    gone = sum("eliminated" in r.flags for r in rows)
    for count, what in ((failed, "failed"), (skipped, "skipped"), (gone, "eliminated")):
        if count:
            lines.append(f"# rows {what}: {count}")
    return lines
