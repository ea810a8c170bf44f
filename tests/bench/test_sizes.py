"""What people write, read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minijax_bench import sizes
from minijax_bench.errors import BadInput


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("1K", 1024), ("64m", 2**26), ("1.5K", 1536), ("2GiB", 2**31),
     ("4KB", 4096), ("1T", 2**40), ("512B", 512)],
)  # fmt: skip
def test_a_size(text, value):
    assert sizes.size(text) == value


@pytest.mark.parametrize("text", ["", "K", "-1", "1X", "1 000", "1e3", "0x10"])
def test_what_is_no_size(text):
    with pytest.raises(BadInput, match="is not a size"):
        sizes.size(text)


@given(st.integers(0, 2**45))
def test_a_shown_size_reads_back(count):
    assert sizes.size(sizes.show_size(count)) == count


@given(st.integers(1, 2**30), st.integers(0, 2**30), st.integers(2, 8))
def test_a_sweep_by_a_factor(begin, more, factor):
    found = sizes.sweep(begin, begin + more, factor, None)
    assert found[0] == begin
    assert all(b == a * factor for a, b in pairwise(found))
    assert found[-1] <= begin + more < found[-1] * factor


def test_the_default_sweep_of_nccl_tests():
    found = sizes.sweep(sizes.size("1K"), sizes.size("64M"), None, None)
    assert [sizes.show_size(s) for s in found[:3]] == ["1K", "2K", "4K"]
    assert (len(found), found[-1]) == (17, 2**26)


@pytest.mark.parametrize(
    "wrong", [(8, 4, 2, None), (0, 4, 2, None), (1, 4, 1, None), (1, 4, None, 0)]
)
def test_a_sweep_that_would_not_end_or_begin(wrong):
    with pytest.raises(BadInput):
        sizes.sweep(*wrong)


@pytest.mark.parametrize("text", ["", "0", "2x", "x=2,x=4", "x=0", "2*4", "x=,y=1"])
def test_what_is_no_mesh(text):
    with pytest.raises(BadInput, match="is not a mesh"):
        sizes.mesh(text)


@pytest.mark.parametrize(
    "text", ["", "[[0,1]]", "[[0,1],[2]]", "[[0,0],[1,2]]", "{}", "[0,1,2,3]", "null"]
)
def test_what_are_no_groups(text):
    with pytest.raises(BadInput, match="groups"):
        sizes.groups(text, 4)


def test_times_and_rates():
    assert sizes.seconds("250ns") == pytest.approx(2.5e-7)
    assert sizes.rate("1.5TB/s") == 1.5e12
    for read, text in ((sizes.seconds, "5"), (sizes.rate, "0GB/s"), (sizes.rate, "9")):
        with pytest.raises(BadInput):
            read(text)
