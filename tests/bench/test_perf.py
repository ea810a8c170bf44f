"""The comparison with upstream: verdicts and texts, of figures made up."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

PERF = Path(__file__).parents[2] / "bench" / "perf"


def load(name):
    spec = importlib.util.spec_from_file_location(f"perf_{name}", PERF / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


compare, cases = load("compare"), load("cases")


def made(*ratios, name="jit 1"):
    """Launches in which the machine is slower and slower."""
    return [
        ({name: r * (i + 1) * 1e-5}, {name: (i + 1) * 1e-5})
        for i, r in enumerate(ratios)
    ]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((0.9, 1.0, 1.05, 1.2, 3.0), "holds"),
        ((0.9, 1.0, 1.06, 1.2, 3.0), "equal"),
        ((1.0, 1.06, 1.07, 1.08, 9.0), "SHORT"),
    ],
)
def test_verdicts(ratios, verdict):
    (row,) = compare.rows(made(*ratios))
    assert row.verdict == verdict
    assert row.median == pytest.approx(sorted(ratios)[2])
    assert (row.low, row.high) == pytest.approx((sorted(ratios)[1], sorted(ratios)[3]))
    assert f" {verdict} " in compare.table([row])


def test_a_case_without_figures_has_no_row():
    launches = made(1.0, 1.0)
    del launches[1][1]["jit 1"]
    assert compare.rows(launches) == []


def test_counts_that_are_both_zero_are_equal():
    (row,) = compare.rows([({"collectives": 0.0}, {"collectives": 0.0})])
    assert (row.median, row.verdict) == (1.0, "holds")
    (row,) = compare.rows([({"collectives": 1.0}, {"collectives": 0.0})])
    assert row.verdict == "SHORT"


def test_the_summary_counts_what_is_short():
    rows = compare.rows(made(2.0)) + compare.rows(made(0.1, name="eager"))
    assert compare.table(rows).endswith("1 of 2 rows hold or are equal; short: jit 1")


def test_units():
    assert compare.shown("jit 1", 7.25e-6) == "7.25 us"
    assert compare.shown("compile", 0.1) == "100 ms"
    assert compare.shown("memory", 123.4) == "123 MiB"
    assert compare.shown("instructions", 94.0) == "94"


def test_the_table_goes_between_the_marks():
    first, last = compare.MARKS
    text = compare.markdown(compare.rows(made(1.0)), {"cores": 2})
    page = compare.between_marks(f"a\n{first}\nold\n{last}\nb", text)
    assert page == f"a\n{first}\n{text}\n{last}\nb"
    assert "| jit 1 | 1.00 | 1.00 to 1.00 | 1.05 | holds | 10 us | 10 us |" in page
    with pytest.raises(ValueError, match="no place for the figures"):
        compare.between_marks("a", text)


def test_every_goal_has_a_case(upstream):
    """And every case a goal; with names that both libraries have."""
    for library in ("minijax", "jax"):
        p = cases.Programs(library)
        names = {"import", "memory", "compile", "instructions", "collectives"}
        names |= {"first result", *cases.tracing(p), *cases.dispatch(p)}
        assert names | set(cases.collectives(p)) == set(compare.GOALS)


def test_both_compute_the_same(upstream):
    found = []
    for library in ("minijax", "jax"):
        p = cases.Programs(library)
        grads, _ = p.mlp_gradient()(*p.mlp_arguments), p.moe_gradient()
        found.append([float(abs(x).sum()) for pair in grads for x in pair])
        text = str(p.lib.make_jaxpr(p.moe_gradient())(*p.moe_arguments))
        found.append([text.count("all_to_all"), text.count("dot_general")])
    assert found[0] == pytest.approx(found[2], rel=1e-5)
    assert found[1] == found[3]


def test_a_mistake_is_one_sentence(capsys):
    with pytest.raises(SystemExit) as e:
        compare.parsed(["--rounds", "0"])
    assert e.value.code == 2
    assert "--rounds must be at least 1, not 0" in capsys.readouterr().err


def test_files_that_are_written(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    page.write_text("\n".join(compare.MARKS))
    monkeypatch.setattr(compare, "launches", lambda *_: made(0.5, 0.6))
    outputs = ["--json", tmp_path / "a.json", "--markdown", page]
    outputs += ["--plot", tmp_path / "a.png"]
    assert compare.main(list(map(str, outputs))) == 0
    assert "| jit 1 | 0.55 |" in page.read_text()
    assert len(json.loads((tmp_path / "a.json").read_text())["launches"]) == 2
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "1 of 1 rows hold" in capsys.readouterr().out
