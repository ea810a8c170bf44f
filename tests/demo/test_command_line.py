"""The demonstration as a person meets it: what it prints and how it exits."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from minijax import demo
from minijax.demo import progress, report, train
from minijax.demo.train import Moment

QUICK = ["--steps", "2"]


def fields(out):
    """The report's lines by their first word; the last line of each kind."""
    return dict(line.split(maxsplit=1) for line in out.splitlines() if line[0] != " ")


def test_the_default_is_eight_cpu_devices_with_nothing_set():
    mine = ("MINIJAX_", "JAX_", "XLA_", "NPROC")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(mine)}
    done = subprocess.run(
        [sys.executable, "-m", "minijax", "demo", "--platform", "cpu", *QUICK],
        env={**clean, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = fields(done.stdout)
    assert shown["platform"] == "cpu, 8 virtual devices in one process"
    assert shown["mesh"] == "data=2 x expert=4"
    assert shown["text"].startswith("README.md, docs/*.md and the docstrings")
    assert shown["moves"].startswith("4 all-to-all, 6 all-gather, 6 reduce-scatter")
    assert shown["loss"].endswith(" after 2 steps")
    assert shown["speed"].endswith(" characters per second")
    assert "PASS" in shown
    assert "FAIL" not in shown
    assert done.stderr.splitlines()[-1].startswith("step 2 of 2  loss ")


def test_the_loss_falls_on_one_device(capsys):
    assert demo.main(["--devices", "1", "--steps", "60"]) == 0
    shown = fields(capsys.readouterr().out)
    assert shown["mesh"] == "data=1 x expert=1"
    assert "all-to-all" not in shown["moves"]
    words = shown["loss"].split()
    assert float(words[0]) > 4
    assert float(words[3]) < 3


def test_a_wrong_gradient_fails_with_status_1(monkeypatch, capsys):
    right = report.dense.loss_and_gradients

    def wrong(*args):
        loss, gradients = right(*args)
        return loss, {**gradients, "up": gradients["up"] * 1.01}

    monkeypatch.setattr(report.dense, "loss_and_gradients", wrong)
    assert demo.main(["--devices", "2", *QUICK]) == 1
    shown = fields(capsys.readouterr().out)
    assert "FAIL" in shown
    assert "PASS" not in shown


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_fails(wrong, capsys):
    assert not report.verdict([report.Difference("loss", 1.0, wrong)])
    assert "FAIL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--devices", "3"], "invalid choice: 3"),
        (["--devices", "many"], "invalid int value: 'many'"),
        (["--steps", "0"], "a whole number of at least 1, not '0'"),
        (["--steps", "-5"], "--steps"),
        (["--seed", "x"], "a whole number of at least 0, not 'x'"),
        (["--dance"], "--dance"),
        (["--platform", "abacus"], "platform"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(arguments, what, capsys):
    with pytest.raises(SystemExit) as stop:
        demo.main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m minijax demo: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert what in err


def test_more_devices_than_there_are(monkeypatch, capsys):
    two = demo.minijax.devices()[:2]
    monkeypatch.setattr(demo.minijax, "devices", lambda: two)
    with pytest.raises(SystemExit) as stop:
        demo.main(["--devices", "4"])
    assert stop.value.code == 2
    assert "there are 2 cpu devices, not 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (8, (2, 4))]
)
def test_the_mesh_has_the_shape_the_help_says(count, shape):
    assert demo.make_mesh(count, None).devices.shape == shape


def test_control_c_says_how_far_it_came(monkeypatch, capsys):
    def stops(*arguments):
        arguments[-1](Moment(1, 4.5, 0.1))
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run", stops)
    assert demo.main(["--devices", "1", "--steps", "20"]) == 130
    err = capsys.readouterr().err
    assert err.endswith("Interrupted after step 1 of 20, at loss 4.500.\n")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_gets_a_bar():
    stream = Terminal()
    shown = progress.Progress(4, stream)
    shown.show(Moment(1, 4.0, 0.01))  # too soon after the start to be drawn
    shown.show(Moment(2, 3.0, 1.0))
    shown.show(Moment(4, 2.0, 1.01))
    _, half, full = stream.getvalue().split("\r")
    assert half == f"[{'#' * 15}{'.' * 15}] step 2 of 4  loss 3.000  1 s "
    assert full == f"[{'#' * 30}] step 4 of 4  loss 2.000  1 s \n"


def test_a_file_gets_a_few_plain_lines():
    stream = io.StringIO()
    shown = progress.Progress(100, stream)
    for step in range(1, 101):
        shown.show(Moment(step, 1.0, step))
    lines = stream.getvalue().splitlines()
    assert len(lines) == progress.LINES
    assert lines[-1] == "step 100 of 100  loss 1.000  100 s"
