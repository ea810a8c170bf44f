"""The benchmark as a person meets it: output, files, errors, exit status."""

import ast
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from minijax_bench import arguments, cli, run, table
from minijax_bench.row import Column, Row

import minijax

ROOT = Path(__file__).parents[2]
QUICK = ["--sizes", "1K,2K,4K", "-n", "2", "-w", "0", "--rounds", "1"]
BARE = [*QUICK, "--chain", "none", "--no-in-place"]


def bench(*args, **popen):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So it is in the background of a shell, and children would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "minijax", "bench", *args],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=popen.pop("cwd", None),
        **popen,
    )


def test_a_run_from_a_checkout_with_four_devices(tmp_path):
    where = ["--devices", "4", "--mesh", "2x2", "--axes", "y"]
    pytest.importorskip("matplotlib")
    outputs = ["--json", "a.json", "--csv", "a.csv", "--plot", "a.png"]
    outputs += ["--topology", "x=ring:64:1us:50GB/s"]
    given = ["psum", "all_to_all", *QUICK, *where, *outputs]
    with bench(*given, cwd=tmp_path) as process:
        out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    assert "# psum: mesh x=2,y=2, over y, 2 ranks" in out
    assert "busbw = algbw * 2(n-1)/n, n = 2" in out
    assert "# wrong values: 0 OK" in out
    assert "# average bus bandwidth: " in out
    assert "MODEL, NOT MEASURED" in out
    whole = json.loads((tmp_path / "a.json").read_text())
    assert whole["ended"] == "complete"
    assert len(whole["rows"]) == 6
    first = whole["rows"][0]
    assert len(first["fresh"]["samples"]) == 2
    assert "all-reduce" in whole["hlo"][first["hlo"]["hash"]]
    assert whole["environment"]["devices"] == 4
    assert len((tmp_path / "a.csv").read_text().splitlines()) > 7
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupt_keeps_the_rows(tmp_path):
    path = tmp_path / "a.json"
    process = bench("psum", "-b", "1K", "-e", "16M", "-i", "1K", "--json", str(path))
    with process:
        for line in process.stdout:
            if line.split()[:1] == ["2048"]:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.count("\n") == 1
    assert "interrupted" in err
    assert "rows were measured and are kept in" in err
    whole = json.loads(path.read_text())
    assert whole["ended"] == "interrupted"
    assert len(whole["rows"]) >= 2


def test_a_row_that_hangs_ends_with_its_sentence(tmp_path):
    path = tmp_path / "a.json"
    with bench("psum", *QUICK, "--timeout", "0.001", "--json", str(path)) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 124
    assert "psum at 1K took longer than 0.001 s; 0 of 3 rows were measured" in err
    assert json.loads(path.read_text())["ended"] == "timeout"


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ([], "name some: all, or some of psum"),
        (["dance"], "there is no collective 'dance'"),
        (["psum", "--sizes", "3"], "3 bytes is below the 4 that psum of float32"),
        (["all_to_all", "-b", "16", "-e", "1K"], "16 bytes is below the 32"),
        (["psum", "-b", "1Q"], "'1Q' is not a size"),
        (["psum", "-b", "2K", "-e", "1K"], "holds none"),
        (["psum", "-f", "2", "-i", "4K"], "exclude each other"),
        (["psum", "--axes", "z"], "'z' is not an axis of the mesh, which has x"),
        (["psum", "--mesh", "8x8"], "the mesh 8x8 needs 64 devices, and there are 8"),
        (["psum", "--mesh", "eight"], "'eight' is not a mesh"),
        (["psum", "--devices", "0"], "--devices is at least 1"),
        (["psum", "-d", "bool"], "psum cannot take the sum of bool"),
        (["psum", "-d", "complex64", "-o", "max"], "the max of complex64"),
        (["psum", "-d", "float7"], "'float7' is no type"),
        (["psum", "-d", "int64"], "int64 is held as int32 here"),
        (["psum", "-o", "prod"], "'prod' is no reduction"),
        (["psum", "--layout", "round"], "'round' is no layout"),
        (["psum", "--groups", "[[0,1]]"], "hold each of the indices 0 to 7 once"),
        (["ppermute", "--groups", "[[0,1,2,3],[4,5,6,7]]"], "no axis_index_groups"),
        (["psum", "--json", "/no/such/folder/a.json"], "cannot be written"),
        (["psum", "--plot", "/proc/a.png"], "cannot be written"),
        (["psum", "-n", "0"], "--iters is at least 1"),
        (["psum", "--time-cap", "0"], "--time-cap is a positive number"),
        (["psum", "--chain", "4"], "two different lengths"),
        (["psum", "--chain", "a"], "--chain takes whole numbers"),
        (["psum", "--topology", "x=star:4"], "is not an axis of a topology"),
        (["psum", "--barrier", "soft"], "--barrier"),
        (["psum", "--vs", "nobody"], "--vs"),
        (["psum", "--jsn", "x"], "--jsn"),
        (["psum", "--vs", "jax", "--layout", "matrix"], "compares the layout flat"),
        (["diff", "/no/a.json", "/no/b.json"], "/no/a.json cannot be read"),
        (["diff", "only-one"], "required"),
        (["predict", "psum"], "--topology"),
        (["predict", "psum", "--topology", "x=ring:4"], "no fit of psum"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(args, what, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(args)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("python -m minijax bench")
    assert err.endswith(".\n")
    assert what in err


@pytest.mark.parametrize("name", ["jax", "mpi4py", "gloo"])
def test_a_missing_peer_is_one_sentence(name, monkeypatch, capsys):
    monkeypatch.setattr(cli.versus, "find_spec", lambda package: None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["psum", "--vs", name])
    assert stop.value.code == 2
    package = cli.versus.PEERS[name]
    assert f"--vs {name} needs the package {package}, which is not installed" in (
        capsys.readouterr().err
    )


def test_a_wrong_result_fails_with_status_1(monkeypatch, capsys):
    right = run.trial.expected

    def wrong(*args):
        found = right(*args)
        return [found[0] + 1, *found[1:]]

    monkeypatch.setattr(run.trial, "expected", wrong)
    assert cli.main(["ppermute", *BARE]) == 1
    out = capsys.readouterr().out
    assert "# wrong values: 1792 FAILED" in out  # 256 + 512 + 1024, on one device
    assert "# rows failed: 3" in out


def test_an_eliminated_collective_is_flagged(capsys):
    assert cli.main(["all_to_all", *BARE, "--mesh", "1"]) == 0
    out = capsys.readouterr().out
    assert "1K: one rank: nothing is exchanged; eliminated" in out
    assert "# rows eliminated: 3" in out


def test_a_skipped_row_says_why(capsys):
    assert cli.main(["psum", *BARE, "--memory-cap", "1K"]) == 0
    assert "skipped: it needs about" in capsys.readouterr().out


def test_other_ways_to_measure(capsys):
    how = ["--barrier", "none", "--cold", "1M", "--no-check", "--rounds", "2"]
    assert cli.main(["psum", *BARE, *how, "-o", "max,min", "-d", "int8,bfloat16"]) == 0
    out = capsys.readouterr().out
    assert "barrier none, 2 samples in 2 rounds" in out
    assert "# wrong values: not checked" in out
    assert out.count("# psum: mesh x=8") == 4


def test_what_does_not_reduce_is_measured_once(capsys):
    assert cli.main(["ppermute", *BARE, "-o", "sum,max"]) == 0
    assert capsys.readouterr().out.count("# ppermute: mesh") == 1


def test_predict_measures_nothing(capsys):
    topology = "x=torus:1024:1us:50GB/s,y=switch:1024:2us:10GB/s"
    given = ["predict", "all", "--topology", topology, "--sizes", "1K,1M,1G"]
    assert cli.main(given) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("# MODEL, NOT MEASURED")
    assert out[1].startswith("# 1,048,576 devices")
    assert len(out) == 3 + 7


def test_diff_of_a_run_with_itself_is_the_same(tmp_path, capsys):
    path = str(tmp_path / "a.json")
    assert cli.main(["psum", *BARE, "--json", path]) == 0
    capsys.readouterr()
    assert cli.main(["diff", path, path, "--threshold", "50"]) == 0
    assert "0 SLOWER, 0 FAILS, 0 faster, 3 same" in capsys.readouterr().out


def test_alternating_with_upstream(capsys):
    pytest.importorskip("jax")
    assert cli.main(["all_to_all", *BARE, "--vs", "jax"]) == 0
    out = capsys.readouterr().out
    assert "ratio = minijax / jax" in out
    assert "(" in out.splitlines()[-7]


def test_a_peer_that_has_no_such_collective_leaves_our_figures(capsys):
    pytest.importorskip("jax")
    assert cli.main(["ragged_all_to_all", *BARE, "--vs", "jax"]) == 1
    out = capsys.readouterr().out
    assert "1K: ERROR: jax: jax_peer has no ragged_all_to_all" in out
    assert "# wrong values: 0 OK" in out


def test_every_collective_has_its_peer_in_upstream(tmp_path):
    pytest.importorskip("jax")
    peer = cli.versus.PeerProcess("jax", 8, "cpu", 60)
    try:
        s = run.Setting(
            minijax.make_mesh((8,), ("x",)), ("x",), arguments._dtype("int8")
        )
        for name, op in arguments.OPERATIONS.items():
            if name == "ragged_all_to_all":
                with pytest.raises(RuntimeError, match="jax: jax_peer has no ragged"):
                    peer.measure(op, s, 64, run.Budget(1, 0, 1.0))
            else:
                assert len(peer.measure(op, s, 64, run.Budget(2, 0, 1.0))) == 2
    finally:
        peer.close()


def test_overhead_compares_with_the_bare_executable(monkeypatch, capsys):
    monkeypatch.setattr(cli.overhead, "GOALS", {1024: 1e9})
    assert cli.main(["psum", *BARE, "--overhead", "--time-cap", "0.2"]) == 0
    out = capsys.readouterr().out
    assert "# overhead at 1024 bytes: harness" in out
    assert "holds" in out


def test_huge_pages_start_the_process_anew(monkeypatch):
    started = []

    def execve(path, command, environment):
        started.append((command, environment))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(cli.environment, "_first_line", lambda p, s: "always [madvise]")
    monkeypatch.setattr(cli.environment.platform, "libc_ver", lambda: ("glibc", "2"))
    with pytest.raises(SystemExit):
        cli.main(["psum", "--hugepages"])
    command, environment = started[0]
    assert command[1:] == ["-m", "minijax", "bench", "psum", "--hugepages"]
    assert environment["GLIBC_TUNABLES"].endswith("glibc.malloc.hugetlb=1")
    monkeypatch.setenv("MINIJAX_BENCH_HUGEPAGES", "1")
    cli.environment.with_hugepages([])
    assert len(started) == 1


def test_a_system_without_huge_pages_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(cli.environment, "_first_line", lambda p, s: "always [never]")
    with pytest.raises(SystemExit) as stop:
        cli.main(["psum", "--hugepages"])
    assert stop.value.code == 2
    assert "transparent huge pages" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [40, 80, 120, 300])
def test_the_table_fits_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    shown = table.Table(stream)
    row = Row("psum", 2**26, 2**24, "bfloat16", "sum", 8, {})
    row.fresh = row.in_place = Column.of([1e-3], 2**26, 1.75)
    row.slope = {"launch": 1e-5, "exchange": 1e-4, "refused": ""}
    shown.row(row)
    line = stream.getvalue().rstrip("\n")
    assert len(line) <= columns
    assert line.split()[0] == str(2**26)


def test_the_bar_is_richs_and_goes_away(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = table.Table(stream)
    with shown.showing(2):
        shown.working_on("psum at 1K")
        shown.line("a line")
        shown.working_on("psum at 2K")
    assert "psum at 2K" in stream.getvalue()
    assert "a line" in stream.getvalue()


def test_a_terminal_without_rich_is_told_in_one_sentence(monkeypatch):
    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(table, "import_module", none)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with table.Table(io.StringIO()).showing(1):
        pass
    assert sys.stderr.getvalue() == (
        "The progress bar needs the package rich, which is not installed.\n"
    )


def test_the_benchmark_uses_the_public_api_only():
    public = {
        "minijax", "minijax.numpy", "minijax.lax", "minijax.sharding",
    }  # fmt: skip
    for path in (ROOT / "bench" / "minijax_bench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in names:
                if name.split(".")[0] == "minijax":
                    assert name in public, path


def test_importing_minijax_does_not_load_the_benchmark():
    code = "import sys, minijax.__main__; print('minijax_bench' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "False\n"
