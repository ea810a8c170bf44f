"""Every refusal of a collective: the exception's class and the start of its text."""

import re

import numpy as np
import pytest

import minijax as jax
from minijax import lax
from tests.lax.collectives.programs import program

P = jax.sharding.PartitionSpec


def devices(f, shape=(4, 4), n=4, check_vma=True):
    """`f` on each of n devices along i, over float32 of a shape."""
    f = program(jax, {"i": n}, ("i",), f, check_vma)
    return f(np.zeros((n, *shape), np.float32))


def mapped(f, shape=(4, 4), n=4):
    return jax.vmap(f, axis_name="i")(np.zeros((n, *shape), np.float32))


def a2a(*args, **options):
    return lambda x: lax.all_to_all(x, *args, **options)


ALL_TO_ALL = [
    (a2a("i", 2, 0), ValueError, "axis 2 is out of bounds for array of dimension 2"),
    (a2a("i", -3, 0), ValueError, "axis -3 is out of bounds for array of dimension 2"),
    (a2a("i", 0, 2), ValueError, "axis 2 is out of bounds for array of dimension 2"),
    (a2a("i", 0.0, 0), TypeError, "'float' object cannot be interpreted as an integer"),
    (a2a("q", 7, 0), ValueError, "axis 7 is out of bounds for array of dimension 2"),
    (a2a("q", 0, 0), NameError, "unbound axis name: q"),
    (a2a(0, 0, 0), ValueError, "axis 0 is out of bounds for array of dimension 0"),
    (
        a2a(("i", "i"), 0, 0),
        ValueError,
        "repeated axis in `source` argument: axis_name ('i', 'i') names 'i' more",
    ),
    (a2a("i", 0, 0, axis_index_groups=3), TypeError, "'int' object is not iterable"),
    *(
        (
            a2a("i", 0, 0, axis_index_groups=groups),
            ValueError,
            "axis_index_groups must cover all indices exactly once",
        )
        for groups in ([[0, 0], [1, 2]], [[0, 1], [3, 4]], [[0, 1]], [])
    ),
    (
        a2a("i", 0, 0, tiled=True, axis_index_groups=[[0], [1, 2, 3]]),
        ValueError,
        "Replica groups must be equally sized",
    ),
]


@pytest.mark.parametrize("where", [devices, mapped])
@pytest.mark.parametrize("case", ALL_TO_ALL)
def test_all_to_all(case, where):
    f, kind, text = case
    with pytest.raises(kind, match=re.escape(text)):
        where(f)


@pytest.mark.parametrize("where", [devices, mapped])
def test_all_to_all_sizes(where):
    with pytest.raises(
        ValueError,
        match=re.escape(
            "The size of all_to_all split_axis (6) has to be divisible by the size of "
            "the named axis i (4)"
        ),
    ):
        where(a2a("i", 0, 1, tiled=True), (6, 3))
    with pytest.raises(
        ValueError,
        match=re.escape(
            "all_to_all requires the size of the mapped axis axis_name to equal "
            "x.shape[split_axis], but they are 4 and 2 respectively."
        ),
    ):
        where(a2a("i", 0, 1), (2, 3))


def test_unbound_names_without_any_axis():
    x = np.zeros((4, 4), np.float32)
    for f in (
        lambda: lax.all_to_all(x, "i", 0, 0),
        lambda: lax.all_gather(x, "i"),
        lambda: lax.psum_scatter(x, "i"),
        lambda: lax.psum(x, "i"),
        lambda: lax.axis_size("i"),
    ):
        with pytest.raises(NameError, match=r"^unbound axis name: i$"):
            f()
    text = "Found an unbound axis name: i. To fix this, please call {} under"
    with pytest.raises(NameError, match=text.format("axis_index")):
        lax.axis_index("i")
    with pytest.raises(NameError, match=text.format("psum")):
        jax.jit(lambda v: lax.psum(v, "i"))(x)
    text = r"pvary should be called under jax\.shard_map"
    with pytest.raises(ValueError, match=text):
        lax.pcast(x, "i", to="varying")
    with pytest.raises(ValueError, match=text):
        mapped(lambda v: lax.pcast(v, "i", to="varying"))


def test_psum():
    with pytest.raises(ValueError, match="axis_index_groups only supported for sums"):
        mapped(lambda v: lax.psum(v, (0, "i"), axis_index_groups=[[0, 1], [2, 3]]))
    text = "jax.lax.psum can only accept axis_name which corresponds to one of"
    with pytest.raises(ValueError, match=text):
        devices(lambda v: lax.psum(v, (0, "i")))


def test_all_gather():
    with pytest.raises(ValueError, match="Got unexpected `to` value for"):
        lax.all_gather(np.zeros(2), "q", to="bad")
    with pytest.raises(ValueError, match="axis 3 is out of bounds for array of dim"):
        devices(lambda v: lax.all_gather(v, "i", axis=3))
    groups = [[0, 1], [2, 3]]
    for to in ("invarying", "reduced"):
        with pytest.raises(NotImplementedError, match="the result varies"):
            devices(
                lambda v, t=to: lax.all_gather(v, "i", to=t, axis_index_groups=groups)
            )


def test_all_gather_to_reduced():
    def not_varying(v):
        return lax.all_gather(lax.psum(v, "i"), "i", to="reduced")

    with pytest.raises(ValueError, match="only accepts inputs that are varying"):
        devices(not_varying)

    def again(v):
        return lax.all_gather(lax.all_gather(v, "i", to="reduced"), "i", to="reduced")

    with pytest.raises(ValueError, match="only accepts inputs that are varying"):
        devices(again)


def test_psum_scatter():
    tiled = "tiled reduce_scatter operand scatter dimension size 6 must be divisible by"
    for where in (devices, mapped):
        with pytest.raises(ValueError, match=tiled):
            where(lambda v: lax.psum_scatter(v, "i", tiled=True), (6,))
        with pytest.raises(ValueError, match="size 6 must match shard count 4"):
            where(lambda v: lax.psum_scatter(v, "i"), (6,))


def test_ppermute():
    with pytest.raises(TypeError, match="must be a list or a tuple"):
        devices(lambda v: lax.ppermute(v, "i", zip((0,), (1,), strict=True)))
    for where in (devices, mapped):
        with pytest.raises(ValueError, match="sources and destinations must be unique"):
            where(lambda v: lax.ppermute(v, "i", [(0, 1), (0, 2)]))
        with pytest.raises(ValueError, match="indices into an axis of size 4"):
            where(lambda v: lax.ppermute(v, "i", [(0, 4)]))
    with pytest.raises(ValueError, match="does not represent a permutation"):
        mapped(lambda v: lax.pshuffle(v, "i", [0, 0, 1, 2]))


def test_pcast():
    def cast(to):
        return lambda v: lax.pcast(v, "i", to=to)

    with pytest.raises(ValueError, match="Got unexpected `to` value"):
        devices(cast("invarying"))
    with pytest.raises(TypeError, match=re.escape("axis_name={'i'} must be a tuple")):
        devices(lambda v: lax.pcast(v, {"i"}, to="varying"))
    text = "Unsupported pcast from=varying, to='varying'"
    with pytest.raises(ValueError, match=text):
        devices(cast("varying"))
    with pytest.raises(ValueError, match="pvary cannot accept args which are"):
        devices(lambda v: lax.all_to_all(lax.pcast(v, "i", to="unreduced"), "i", 0, 0))


@pytest.mark.parametrize("axis", range(4))
def test_ragged_all_to_all(axis):
    names = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
    good = np.zeros(4, np.int32)

    def call(bad):
        def f(v):
            where = [good] * 4
            where[axis] = bad
            return lax.ragged_all_to_all(v, v, *where, axis_name="i")

        return f

    name = names[axis]
    with pytest.raises(ValueError, match=f"{name} must be integer type"):
        devices(call(good.astype(np.float32)), (4,))
    for shape in ((2, 2), (0,)):
        text = f"{name} must be rank 1 with positive dimension size, but got shape "
        with pytest.raises(ValueError, match=re.escape(f"{text}{shape}")):
            devices(call(np.zeros(shape, np.int32)), (4,))
