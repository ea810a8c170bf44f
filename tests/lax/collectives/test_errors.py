"""Every refusal of a collective: the exception's class and the start of its text."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minijax as jax
from minijax import lax
from minijax.core.trace import axis_env, is_evaluating
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
        with pytest.raises(NameError, match=r"^unbound axis name: i\b"):
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


@pytest.mark.parametrize("name", ["all_to_all", "all_gather", "psum_scatter", "psum"])
def test_unbound_names_with_groups(name, upstream):
    """The size is that of a group, so that the primitive is the first to miss them."""
    x, more = np.zeros((4, 4), np.float32), {"axis_index_groups": [[0, 1], [2, 3]]}
    if name in ("all_to_all", "psum_scatter"):
        more["tiled"] = True
    if name == "all_to_all":
        more |= {"split_axis": 0, "concat_axis": 1}
    for wrap in ("jit", "make_jaxpr"):
        texts = []
        for lib in (upstream, jax):
            f = getattr(lib.lax, name)
            with pytest.raises(NameError) as caught:
                getattr(lib, wrap)(lambda v, f=f: f(v, "q", **more))(x)
            texts.append(str(caught.value))
        assert texts[1].startswith(texts[0])
    if name == "all_to_all":
        with pytest.raises(RuntimeError, match="must be used within a mapped context"):
            lax.all_to_all(x, "q", **more)


def test_the_size_of_a_group_of_an_unbound_name():
    groups = [[0, 1], [2, 3]]
    with pytest.raises(NameError, match="unbound axis name: q"):
        lax.psum(1, "q", axis_index_groups=groups)
    with pytest.raises(NameError, match="unbound axis name: q"):
        lax.pmean(np.ones(2, np.float32), "q", axis_index_groups=groups)


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


@pytest.mark.parametrize("where", [devices, mapped])
@pytest.mark.parametrize("perm", [[(0, 1, 2)], [(0,), (1,)]])
def test_ppermute_wants_pairs(where, perm):
    with pytest.raises(ValueError, match=r"must hold pairs \(source, destination\)"):
        where(lambda v: lax.ppermute(v, "i", perm))
    for wrong in ([(0.0, 1)], [("0", "1")], [0, 1]):
        with pytest.raises(TypeError):
            where(lambda v, wrong=wrong: lax.ppermute(v, "i", wrong))


def test_some_cannot_be_evaluated_without_their_axis():
    """As upstream, which has no evaluation rule for them, and says so."""
    x = np.zeros(4, np.float32)
    for name, f in {
        "ppermute": lambda v: lax.ppermute(v, "q", [(0, 1)]),
        "pbroadcast": lambda v: lax.pbroadcast(v, "q", 0),
    }.items():
        text = f"^Evaluation rule for '{name}' not implemented: unbound axis name: q"
        for call in (f, jax.vmap(f), jax.vmap(f, axis_name="i"), jax.grad(f)):
            with pytest.raises(NotImplementedError, match=text):
                call(x)
        with pytest.raises(NameError, match=f"unbound axis name: q.* call {name} un"):
            jax.jit(f)(x)


@pytest.mark.parametrize("where", [devices, mapped])
def test_pbroadcast(where):
    for source in (4, -1):
        with pytest.raises(ValueError, match="collective broadcast doesn't fit in the"):
            where(lambda v, source=source: lax.pbroadcast(v, "i", source))
    with pytest.raises(TypeError, match="dynamic source must be an i32 array, got flo"):
        where(lambda v: lax.pbroadcast(v, "i", 1.0))
    with pytest.raises(ValueError, match=r"must be a scalar, got shape \(2,\)"):
        where(lambda v: lax.pbroadcast(v, "i", np.zeros(2, np.int32)))


def test_pargmax():
    for f in (lax.pargmax, lax.pargmin):
        with pytest.raises(TypeError, match=f"{f.__name__} only accepts a single axis"):
            mapped(lambda v, f=f: f(v, ("i",)))


NAMED = {
    "psum": lambda v, n: lax.psum(v, n),
    "pmax": lambda v, n: lax.pmax(v, n),
    "pmean": lambda v, n: lax.pmean(v, n),
    "pargmin": lambda v, n: lax.pargmin(v, n),
    "all_gather": lambda v, n: lax.all_gather(v, n),
    "psum_scatter": lambda v, n: lax.psum_scatter(v, n),
    "all_to_all": lambda v, n: lax.all_to_all(v, n, 0, 0),
    "pswapaxes": lambda v, n: lax.pswapaxes(v, n, 0),
    "ppermute": lambda v, n: lax.ppermute(v, n, [(0, 1)]),
    "pbroadcast": lambda v, n: lax.pbroadcast(v, n, 0),
    "axis_index": lambda v, n: lax.axis_index(n),
    "axis_size": lambda v, n: lax.axis_size(n),
}


@pytest.mark.parametrize("name", [n for n in NAMED if n != "pargmin"])
@pytest.mark.parametrize("where", [devices, mapped])
def test_names_that_cannot_be_names(name, where):
    for wrong in ({"i"}, {"i": 1}, [["i"]]):
        with pytest.raises(TypeError, match=r"unhashable type: '(set|dict|list)'"):
            where(lambda v, wrong=wrong: NAMED[name](v, wrong))
    kinds = (NameError, NotImplementedError)
    for wrong in (None, 1.5, object):
        with pytest.raises(kinds, match="unbound axis name: "):
            where(lambda v, wrong=wrong: NAMED[name](v, wrong))


@pytest.mark.parametrize("name", [n for n in NAMED if not n.startswith("axis")])
def test_operands_that_are_no_arrays(name):
    for wrong in ("x", object()):
        with pytest.raises(TypeError, match="is not a valid JAX type") as caught:
            mapped(lambda v, wrong=wrong: NAMED[name](wrong, "i"))
        assert type(caught.value) is TypeError
    with pytest.raises(TypeError, match="traced array with shape Tok"):
        mapped(lambda v: NAMED[name](lax.create_token(), "i"))


def test_booleans_are_not_scattered():
    for where in (devices, mapped):
        with pytest.raises(TypeError, match="add does not accept dtype bool at positi"):
            where(lambda v: lax.psum_scatter(v > 0, "i"))


def test_after_an_error_nothing_is_left_behind():
    """In the thread that made it, and in others at the same time."""

    def one(k):
        for kind, f in ((NameError, "q"), (TypeError, {"i"}), (ValueError, ("i", "i"))):
            for where in (devices, mapped):
                with pytest.raises(kind):
                    where(lambda v, f=f: lax.all_gather(v, f))
            assert not axis_env().sizes
            assert is_evaluating()
            assert jax.sharding.get_abstract_mesh().empty
        x = np.arange(4 * k, 4 * k + 4, dtype=np.float32)
        return np.asarray(jax.vmap(lambda v: lax.psum(v, "i"), axis_name="i")(x))

    one(0)
    with ThreadPoolExecutor(4) as pool:
        for k, total in enumerate(pool.map(one, range(8))):
            np.testing.assert_array_equal(total, [16 * k + 6] * 4)


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
