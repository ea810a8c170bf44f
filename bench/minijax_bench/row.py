"""One row: everything that is known of one collective at one size."""

from dataclasses import asdict, dataclass, field
from typing import Any

from minijax_bench.statistics import Summary, summarise


@dataclass
class Column:
    """One way to call: its samples in seconds and what follows from them.

    Attributes:
      algbw, busbw: bytes per second.
      percent: busbw as a percentage of the copy's bandwidth.
      wrong: elements that are not what they must be; None where it was not checked.
      layout: what is wrong with how the result lies on the devices; empty if nothing.
    """

    samples: list[float]
    summary: Summary
    algbw: float
    busbw: float
    percent: float | None = None
    wrong: int | None = None
    layout: str = ""

    @classmethod
    def of(cls, samples: list[float], size: int, factor: float) -> "Column":
        """The column of samples for `size` bytes.

        >>> Column.of([1e-3, 1e-3], 1000, 0.5).busbw
        500000.0
        """
        summary = summarise(samples)
        algbw = size / summary.p50 if summary.p50 > 0 else 0.0
        return cls(samples, summary, algbw, algbw * factor)


@dataclass
class Row:
    """A row of the table.

    `error` is why it failed, `skipped` why it was not tried, `flags` what else a
    reader must know. Times are in seconds.
    """

    operation: str
    size: int
    count: int
    dtype: str
    reduce: str
    ranks: int
    setting: dict[str, Any]
    fresh: Column | None = None
    in_place: Column | None = None
    copy: dict[str, Any] | None = None
    slope: dict[str, Any] | None = None
    trace: float | None = None
    lower: float | None = None
    compile: float | None = None
    hlo: dict[str, Any] | None = None
    peer: dict[str, Any] | None = None
    flags: list[str] = field(default_factory=list)
    error: str = ""
    skipped: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes rows of two runs the same measurement."""
        setting = tuple(sorted((k, str(v)) for k, v in self.setting.items()))
        return (self.operation, self.size, self.dtype, self.reduce, setting)

    @property
    def failed(self) -> bool:
        """Whether the exit status must tell of it."""
        columns = [c for c in (self.fresh, self.in_place) if c]
        return bool(self.error) or any(c.wrong or c.layout for c in columns)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Row":
        """From JSON.

        >>> row = Row("psum", 1024, 256, "float32", "sum", 8, {"mesh": "x=8"})
        >>> Row.of(row.as_dict()) == row
        True
        """
        known = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        for name in ("fresh", "in_place"):
            column = known.get(name)
            if column:
                summary = Summary(**column["summary"])
                known[name] = Column(**{**column, "summary": summary})
        return cls(**known)
