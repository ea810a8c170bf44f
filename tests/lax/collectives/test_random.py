"""Random meshes of one to eight devices, names, groups, shapes and dtypes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minijax as jax
from minijax import lax
from tests.lax.collectives.programs import run
from tests.lockstep import World

MOST = 8


@st.composite
def worlds(draw):
    """Sizes of one to three axes, of which some are mesh axes; names in some order."""
    sizes, left = {}, MOST
    for name in "ijk"[: draw(st.integers(1, 3))]:
        sizes[name] = draw(st.integers(1, min(left, 4)))
        left //= sizes[name]
    mesh = tuple(n for n in sizes if draw(st.booleans()))
    names = draw(st.permutations(list(sizes)))[: draw(st.integers(1, len(sizes)))]
    return sizes, mesh, tuple(names)


@st.composite
def calls(draw):
    """A collective over some names, and an operand for it."""
    sizes, mesh, names = draw(worlds())
    total = int(np.prod([sizes[n] for n in names]))
    options = {}
    n = total
    if draw(st.booleans()):
        n = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
        order = draw(st.permutations(range(total)))
        options["axis_index_groups"] = [order[k : k + n] for k in range(0, total, n)]
    shape = draw(st.permutations([n, n * draw(st.integers(1, 2)), 2]))
    wide = [d for d, size in enumerate(shape) if size % n == 0]
    exact = [d for d, size in enumerate(shape) if size == n]
    kind = draw(st.sampled_from(["psum", "pmin", "all_gather", "scatter", "exchange"]))
    tiled = draw(st.booleans())
    if kind == "all_gather":
        options |= {"axis": draw(st.integers(0, 2)), "tiled": tiled}
    elif kind == "scatter":
        kind = "psum_scatter"
        dim = draw(st.sampled_from(wide if tiled else exact))
        options |= {"scatter_dimension": dim, "tiled": tiled}
    elif kind == "exchange":
        kind = "all_to_all"
        split = draw(st.sampled_from(wide if tiled else exact))
        options |= {"split_axis": split, "concat_axis": draw(st.integers(0, 2))}
        options["tiled"] = tiled
    dtype = draw(st.sampled_from([np.float32, np.int32, np.int8]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(-3, 4, (*sizes.values(), *shape)).astype(dtype)
    return sizes, mesh, names, kind, options, x


@settings(max_examples=30)
@given(calls(), st.booleans())
def test_any_collective_anywhere(call, check_vma):
    sizes, mesh, names, kind, options, x = call
    want = getattr(World(sizes), kind)(x, names, **options)

    def f(v):
        return getattr(lax, kind)(v, names, **options)

    got = run(jax, sizes, mesh, f, x, check_vma=check_vma, jit=True)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


@settings(max_examples=15)
@given(worlds(), st.randoms(use_true_random=False))
def test_any_permutation_anywhere(world, random):
    sizes, mesh, names = world
    names = tuple(n for n in sizes if n in names)  # in the order of the mesh
    total = int(np.prod([sizes[n] for n in names]))
    sources, targets = list(range(total)), list(range(total))
    random.shuffle(sources)
    random.shuffle(targets)
    perm = list(zip(sources, targets, strict=True))[: random.randint(0, total)]
    x = np.arange(np.prod([*sizes.values(), 3])).reshape(*sizes.values(), 3)
    x = x.astype(np.int32)
    want = World(sizes).ppermute(x, names, perm)
    got = run(jax, sizes, mesh, lambda v: lax.ppermute(v, names, perm), x, jit=True)
    np.testing.assert_array_equal(got, want)
