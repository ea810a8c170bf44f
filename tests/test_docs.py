"""The documentation is a program: its Python blocks run, and print what it says.

The blocks of one file run in order, in one namespace. A `text` block that follows a
Python block is what that block prints. The programs of `docs/errors.md`, which are to
fail, are for `test_errors_page.py`.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:minijax|tests|docs|bench)/[\w/]*(?:\.\w+)?)`")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


PROGRAMS = [page for page in PAGES if page.name != "errors.md"]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda p: p.name)
def test_programs_print_what_the_page_says(page: Path):
    namespace: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for kind, body in FENCE.findall(page.read_text("utf-8")):
        if kind == "text":
            assert printed.rstrip() == body.rstrip()
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(body, page.name, "exec"), namespace)
        printed = out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_a_page_points_at_exists(page: Path):
    text = page.read_text("utf-8")
    links = [x for x in LINK.findall(text) if "://" not in x]
    missing = [x for x in links if not (page.parent / x).exists()]
    missing += [x for x in PATH.findall(text) if not (ROOT / x).exists()]
    assert missing == []
