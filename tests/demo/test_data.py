"""The text and its batches."""

from itertools import islice
from pathlib import Path

import numpy as np

from minijax.demo import data

ROOT = Path(__file__).parents[2]


def test_a_checkout_is_read_for_its_documentation():
    text = data.load()
    assert text.source == "README.md, docs/*.md and the docstrings of minijax"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.decode(text.codes[:200]) == readme[:200]


def test_an_installed_package_is_read_for_its_docstrings(tmp_path):
    text = data.load(tmp_path)
    assert text.source == "the docstrings of minijax"
    assert len(text.codes) > 10_000
    everything = text.decode(text.codes)
    assert data.load.__doc__.splitlines()[0] in everything
    assert "def load(" not in everything


def test_codes_are_places_in_the_alphabet():
    text = data.encode("a test", "banana\u00e9")
    assert text.alphabet == "?abn"
    assert text.codes.tolist() == [2, 1, 3, 1, 3, 1, 0]
    assert text.codes.dtype == np.int32


def test_batches_are_places_of_the_text_and_the_same_for_a_seed():
    text = data.encode("a test", "abcdefghij")
    for contexts, targets in islice(data.batches(text, 3, 5, seed=1), 4):
        for context, target in zip(contexts, targets, strict=True):
            assert text.decode([*context, target]) in "abcdefghij"
    one, two, other = (next(data.batches(text, 3, 50, seed=s))[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()
