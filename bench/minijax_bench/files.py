"""What is written and read: JSON with everything, CSV with a line per row.

A file is written beside its place and then moved there, so that no reader sees half of
one. That it can be written is checked before anything is measured.
"""

import csv
import io
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minijax_bench import environment
from minijax_bench.errors import BadInput
from minijax_bench.row import Row

FORMAT = "minijax-bench/1"

CSV_COLUMNS = (
    "operation", "size", "count", "dtype", "reduce", "ranks", "mesh", "axes", "groups",
    "layout", "split", "concat", "barrier",
    *(f"{c}_{n}" for c in ("fresh", "in_place") for n in (
        "samples", "p50", "p90", "p99", "min", "max", "mean", "stdev", "algbw",
        "busbw", "percent_of_copy", "wrong")),
    "copy_p50", "launch", "exchange", "trace", "lower", "compile", "hlo_hash",
    "collectives_found", "peer", "peer_p50", "peer_ratio", "flags", "error", "skipped",
)  # fmt: skip


def check_writable(path: str) -> None:
    """Raises BadInput where a file cannot be written."""
    folder = Path(path).resolve().parent
    if Path(path).is_dir():
        raise BadInput(f"{path} cannot be written: it is a directory")
    if not folder.is_dir():
        raise BadInput(f"{path} cannot be written: there is no directory {folder}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None


def write(path: str, data: str | bytes) -> None:
    """Writes a whole file, or leaves the one that is there as it is."""
    raw = data.encode() if isinstance(data, str) else data
    folder = Path(path).resolve().parent
    handle, name = tempfile.mkstemp(dir=folder, prefix=".bench-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def as_json(
    rows: Sequence[Row],
    facts: dict[str, Any],
    fits: Sequence[dict[str, Any]] = (),
    predictions: Sequence[dict[str, Any]] = (),
    hlo: dict[str, str] | None = None,
    ended: str = "complete",
) -> str:
    """Everything that a run knows. `ended` says whether it came to its end."""
    whole = {
        "format": FORMAT,
        "ended": ended,
        "environment": facts,
        "rows": [row.as_dict() for row in rows],
        "fits": list(fits),
        "predictions_of_a_model": list(predictions),
        "hlo": hlo or {},
    }
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def read_json(path: str) -> tuple[list[Row], dict[str, Any]]:
    """The rows and the environment of a JSON file; raises BadInput for another file."""
    try:
        whole = json.loads(Path(path).read_text("utf-8"))
        if whole["format"] != FORMAT:
            raise ValueError
        return [Row.of(row) for row in whole["rows"]], whole["environment"]
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{path} is not a JSON file of this benchmark") from None


def _cells(row: Row) -> dict[str, Any]:
    cells: dict[str, Any] = {**row.as_dict(), **row.setting}
    for name, column in (("fresh", row.fresh), ("in_place", row.in_place)):
        if column:
            cells |= {f"{name}_{k}": v for k, v in column.summary.as_dict().items()}
            cells |= {
                f"{name}_samples": len(column.samples),
                f"{name}_algbw": column.algbw,
                f"{name}_busbw": column.busbw,
                f"{name}_percent_of_copy": column.percent,
                f"{name}_wrong": column.wrong,
            }
    cells |= {
        "copy_p50": (row.copy or {}).get("p50"),
        "launch": (row.slope or {}).get("launch"),
        "exchange": (row.slope or {}).get("exchange"),
        "hlo_hash": (row.hlo or {}).get("hash"),
        "collectives_found": (row.hlo or {}).get("found"),
        "peer": (row.peer or {}).get("name"),
        "peer_p50": (row.peer or {}).get("p50"),
        "peer_ratio": (row.peer or {}).get("ratio"),
        "flags": "; ".join(row.flags),
    }
    return cells


def as_csv(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """A line per row, after the environment in lines that begin with `#`."""
    text = io.StringIO()
    for name, value in environment.flat(facts).items():
        text.write(f"# {name}: {value}\n")
    writer = csv.DictWriter(text, CSV_COLUMNS, extrasaction="ignore", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: "" if v is None else v for k, v in _cells(row).items()})
    return text.getvalue()
