"""The text that the demonstration learns: minijax's own documentation.

In a checkout that is README.md, docs/*.md and the docstrings of the modules. An
installed package has the docstrings alone.
"""

import ast
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Text(NamedTuple):
    """A text as numbers: `codes[i]` is the place of its character in `alphabet`."""

    source: str
    alphabet: str
    codes: np.ndarray[Any, np.dtype[np.int32]]

    def decode(self, codes: Any) -> str:
        """The characters of some codes.

        >>> encode("a test", "banana").decode([0, 2])
        'an'
        """
        return "".join(self.alphabet[code] for code in codes)


def encode(source: str, characters: str) -> Text:
    """A text from its characters; `source` says where they come from.

    What is not ASCII is read as a question mark: any terminal can show the rest.
    """
    characters = characters.encode("ascii", "replace").decode()
    alphabet = "".join(sorted(set(characters)))
    place = {character: code for code, character in enumerate(alphabet)}
    codes = np.array([place[character] for character in characters], np.int32)
    return Text(source, alphabet, codes)


def load(root: Path | None = None) -> Text:
    """The documentation under `root`, by default the folder that minijax stands in."""
    root = root or Path(str(files("minijax"))).parent
    docstrings = "\n".join(filter(None, _docstrings(files("minijax"))))
    if not (root / "pyproject.toml").exists():  # no checkout
        return encode("the docstrings of minijax", docstrings)
    pages = [root / "README.md", *sorted(root.glob("docs/*.md"))]
    parts = [page.read_text(encoding="utf-8") for page in pages]
    source = "README.md, docs/*.md and the docstrings of minijax"
    return encode(source, "\n".join([*parts, docstrings]))


def _docstrings(folder: Traversable) -> Iterator[str]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _docstrings(entry)
        elif entry.name.endswith(".py"):
            for node in ast.walk(ast.parse(entry.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    yield ast.get_docstring(node) or ""


def batches(
    text: Text, context: int, tokens: int, seed: int
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Random places of the text, without end: what stands before each, and what there.

    Yields `i32[tokens,context]` and `i32[tokens]`.

    >>> contexts, targets = next(batches(encode("", "abcabc"), 2, 4, seed=0))
    >>> contexts.shape, targets.shape
    ((4, 2), (4,))
    """
    generator = np.random.default_rng(seed)
    windows = np.lib.stride_tricks.sliding_window_view(text.codes, context + 1)
    while True:
        rows = windows[generator.integers(len(windows), size=tokens)]
        yield rows[:, :-1], rows[:, -1]
