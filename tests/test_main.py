"""The command line, as a person meets it: output, exit status, one-sentence errors."""

import pytest

from minijax import __main__ as command_line


def test_info_names_the_platform_and_its_devices(capsys):
    assert command_line.main(["info"]) == 0
    printed = capsys.readouterr().out.splitlines()
    lines = dict(line.split(maxsplit=1) for line in printed)
    assert lines["platform"] == "cpu"
    assert lines["devices"].startswith("8: ")
    assert lines["jaxlib"][0].isdigit()


@pytest.mark.parametrize("arguments", [[], ["dance"], ["info", "--loud"]])
def test_bad_input_is_one_sentence_and_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        command_line.main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_a_platform_that_does_not_start_is_one_sentence(monkeypatch, capsys):
    def devices():
        raise RuntimeError("no such platform\nand a long explanation")

    monkeypatch.setattr(command_line.minijax, "devices", devices)
    with pytest.raises(SystemExit) as stop:
        command_line.main(["info"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "python -m minijax: no such platform.\n"


def test_the_demo_reads_its_own_arguments(monkeypatch):
    seen = []
    monkeypatch.setattr(command_line.demo, "main", lambda argv: seen.append(argv) or 3)
    assert command_line.main(["demo", "--devices", "4"]) == 3
    assert seen == [["--devices", "4"]]


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        command_line.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("minijax ")
