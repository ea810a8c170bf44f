"""Files: what is written reads back, is whole or absent, and tells runs apart."""

import csv
import json
import os

import pytest
from minijax_bench import diff, files, plots, report
from minijax_bench.errors import BadInput, MissingPackage
from minijax_bench.row import Column, Row

FACTS = {"versions": {"jaxlib": "1"}, "cores": 2, "devices": 8, "platform": "cpu"}


def row(size=1024, samples=(1e-3, 1.1e-3, 0.9e-3), operation="psum", **others):
    made = Row(operation, size, size // 4, "float32", "sum", 8, {"mesh": "x=8"})
    made.fresh = Column.of(list(samples), size, 1.75)
    for name, value in others.items():
        setattr(made, name, value)
    return made


def written(path, rows, facts=FACTS):
    path.write_text(files.as_json(rows, facts))
    return str(path)


def test_json_reads_back_with_every_sample(tmp_path):
    rows = [row(), row(2048, flags=["eliminated"]), row(4096, error="no")]
    rows[0].in_place = Column.of([5.0], 1024, 1.75)
    found, facts = files.read_json(written(tmp_path / "a.json", rows))
    assert found == rows
    assert facts == FACTS


def test_json_keeps_the_hlo_and_says_how_it_ended():
    text = files.as_json([row()], FACTS, hlo={"abc": "HloModule"}, ended="interrupted")
    whole = json.loads(text)
    assert whole["hlo"] == {"abc": "HloModule"}
    assert whole["ended"] == "interrupted"


def test_json_is_json_where_a_fit_is_refused():
    text = files.as_json([row()], FACTS, report.fits([row()]))
    whole = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert whole["fits"][0]["residual"] is None


def test_csv_has_a_line_per_row_after_the_environment():
    text = files.as_csv([row(), row(2048, error="a, b")], FACTS)
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert "# versions.jaxlib: 1" in head
    body = [line for line in text.splitlines() if not line.startswith("#")]
    first, second = csv.DictReader(body)
    assert float(first["fresh_p50"]) == 1e-3
    assert float(first["fresh_busbw"]) == pytest.approx(1024 / 1e-3 * 1.75)
    assert first["mesh"] == "x=8"
    assert first["in_place_p50"] == ""
    assert second["error"] == "a, b"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    files.write(str(path), "old")
    monkeypatch.setattr(os, "replace", lambda a, b: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        files.write(str(path), "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["no/such/folder/a.json", "."])
def test_a_file_that_cannot_be_written(name, tmp_path):
    with pytest.raises(BadInput, match="cannot be written"):
        files.check_writable(str(tmp_path / name))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other"}', "null"])
def test_what_is_no_file_of_ours(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(BadInput, match="is not a JSON file of this benchmark"):
        files.read_json(str(path))


STEADY = [1e-3, 1.01e-3, 0.99e-3] * 5


@pytest.mark.parametrize(
    ("factor", "verdict", "status"),
    [(1.0, "same", 0), (1.02, "same", 0), (1.5, "SLOWER", 1), (0.5, "faster", 0)],
)
def test_a_verdict_is_for_what_is_beyond_noise_and_threshold(
    factor, verdict, status, tmp_path
):
    old = written(tmp_path / "old", [row(samples=STEADY)])
    new = written(tmp_path / "new", [row(samples=[factor * s for s in STEADY])])
    lines, found = diff.report(old, new, 0.05)
    assert found == status
    assert lines[1].endswith(verdict)


def test_noise_alone_is_no_regression(tmp_path):
    noisy = [1e-3, 9e-3, 1.2e-3, 7e-3, 1e-3, 2e-3]
    old = written(tmp_path / "old", [row(samples=noisy)])
    new = written(tmp_path / "new", [row(samples=[*noisy[::-1], 9e-3])])
    assert diff.report(old, new, 0.05)[1] == 0


def test_a_missing_or_failing_row_is_told(tmp_path):
    old = written(tmp_path / "old", [row(), row(2048)])
    new = written(tmp_path / "new", [row(error="it broke")])
    lines, status = diff.report(old, new, 0.05)
    assert status == 1
    assert any("MISSING" in line for line in lines)
    assert any(line.endswith("FAILS") for line in lines)


def test_other_settings_are_other_rows(tmp_path):
    old = written(tmp_path / "old", [row()])
    new = written(tmp_path / "new", [row(setting={"mesh": "x=4"})])
    assert "1 missing" in diff.report(old, new, 0.05)[0][-1]


def test_a_changed_environment_is_told(tmp_path):
    old = written(tmp_path / "old", [row()])
    new = written(tmp_path / "new", [row()], {**FACTS, "cores": 64})
    assert diff.report(old, new, 0.05)[0][0] == (
        "# the environments differ: cores: 2 -> 64"
    )


def test_the_plot_is_a_png_with_three_panels():
    pytest.importorskip("matplotlib")
    rows = [row(2**k, [2**k * 1e-9 + 1e-5] * 3) for k in range(10, 16)]
    rows += [row(2**k, [1e-4 * (k % 2 + 0.1)] * 3, "ppermute") for k in range(10, 16)]
    found = report.fits(rows)
    fits = {f["series"]: report.line_of(f) for f in found}
    assert fits["psum"].refused == ""
    assert "residual" in fits["ppermute"].refused
    assert plots.draw(rows, fits, "title").startswith(b"\x89PNG")
    assert plots.draw([], {}, "nothing measured").startswith(b"\x89PNG")


def test_a_missing_matplotlib_is_one_sentence(monkeypatch):
    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(plots, "import_module", none)
    with pytest.raises(MissingPackage, match="needs the package matplotlib"):
        plots.load()


def test_predictions_say_that_they_are_a_model():
    rows = [row(2**k, [2**k * 1e-9 + 1e-5] * 3) for k in range(10, 16)]
    topologies = [("x=switch:1048576", report.model.parse("x=switch:1048576"))]
    sizes = [r.size for r in rows]
    entries = report.predictions(["psum", "ppermute"], sizes, topologies,
                                 report.fits(rows))  # fmt: skip
    lines = report.prediction_lines(entries)
    assert "MODEL, NOT MEASURED" in lines[1]
    assert "1,048,576 devices" in lines[2]
    assert lines[-1].startswith("ppermute              refused: no fit of ppermute")
