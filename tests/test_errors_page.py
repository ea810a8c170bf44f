"""The programs of `docs/errors.md` run, and fail, as the page says; also upstream's.

A program that must fail says in its first line which exception, and how the message
begins. It is run with upstream too, after its imports were changed: the class must be
upstream's, and the message must begin with upstream's.
"""

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance.harness import Raised, normal

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"
TEXT = PAGE.read_text("utf-8")

#: What has another home in upstream.
ELSEWHERE = {
    "from minijax.lax import all_to_all_p": (
        "from jax._src.lax.parallel import all_to_all_p"
    ),
    "from minijax import top_level_all_gather": (
        "from jax._src.shard_map import top_level_all_gather"
    ),
    "from minijax.core import jaxpr_as_fun": ("from jax._src.core import jaxpr_as_fun"),
}

#: Where upstream's message ends with what to do.
HELPS_ALREADY = {
    "axis sizes that are not evenly divisible",
    "in_specs entry which is too long",
    "scan body function carry input and carry output must have equal types",
    "Gradient only defined for scalar-output functions",
    "grad requires real- or complex-valued inputs",
}


def programs() -> list[tuple[str, str]]:
    """Each program of the page, with the heading that it stands under."""
    found: list[tuple[str, str]] = []
    for section in re.split(r"^(?=##)", TEXT, flags=re.M):
        title = section.partition("\n")[0].strip("# ")
        blocks = re.findall(r"```python\n(.*?)```", section, re.S)
        found += [(title, block) for block in blocks]
    return found


FAILING = [(t, p) for t, p in programs() if p.startswith("# raises ")]
RUNNING = [(t, p) for t, p in programs() if not p.startswith("# raises ")]


@pytest.fixture
def no_leaks() -> None:
    """Replaces the check that is on in all other files: some programs leak."""


def run(program: str) -> None:
    """Runs a program in a fresh namespace."""
    exec(compile(program, str(PAGE.with_suffix(".py")), "exec"), {})


def failure(program: str) -> Raised:
    """What a program raises."""
    try:
        run(program)
    except Exception as error:
        return Raised(type(error).__name__, str(error))
    raise AssertionError("the program does not fail")


def of_upstream(program: str) -> str:
    for ours, theirs in ELSEWHERE.items():
        program = program.replace(ours, theirs)
    return program.replace("minijax", "jax")


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("title", "program"), FAILING, ids=[t for t, _ in FAILING])
def test_it_fails_as_upstream_does(title: str, program: str, upstream: ModuleType):
    first = program.partition("\n")[0].removeprefix("# raises ")
    name, _, start = first.partition(": ")
    found = failure(program)
    assert found.name == name
    assert " ".join(found.message.split()).startswith(start)
    expected = failure(of_upstream(program))
    assert found.name == expected.name
    if title != "How to catch a leak earlier":  # there tracers are printed
        mine, theirs = normal(found.message), normal(expected.message).rstrip()
        assert mine.startswith(theirs)
        assert len(mine) > len(theirs) + 10 or title in HELPS_ALREADY


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("title", "program"), RUNNING, ids=[t for t, _ in RUNNING])
def test_the_mended_program_runs(title: str, program: str):
    run(program)


def test_each_section_has_a_failing_and_a_mended_program():
    assert [t for t, _ in FAILING] == [t for t, _ in RUNNING]
