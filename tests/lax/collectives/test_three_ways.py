"""Every collective, three ways: as rules make it, on devices, and by definition.

Hypothesis draws a mesh of one to eight devices, which of its axes are bound by
`shard_map` and which by `vmap` (inside it, or around it), along which of them the
operand is the same everywhere, more mapped dimensions without a name, the collective
with its names in any order, groups, dimensions and dtype. The answer is
`tests.lockstep`'s, straight from the definition.

* The program as minijax stages it, after all batching rules, is evaluated by numpy. So
  are its derivative and its transpose, which must be adjoint: <ct, J v> = <J^T ct, v>.
  Nothing is compiled, so there are hundreds of examples.
* Many collectives at once, in one compiled program, run on devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minijax as jax
from minijax import lax
from tests.lockstep import World
from tests.lockstep_jaxpr import evaluate

MOST = 8
REAL = [np.float32, np.int32, np.int8, np.uint8, ml_dtypes.bfloat16, np.float16]
DTYPES = [*REAL, np.bool_, np.complex64]
REDUCTIONS = ("psum", "pmean", "pmax", "pmin")
LINEAR = (
    "psum", "pmean", "all_gather", "psum_scatter", "all_to_all", "pswapaxes",
    "ppermute", "pshuffle", "pbroadcast",
)  # fmt: skip
KINDS = (*LINEAR, "pmax", "pmin", "pargmax", "pargmin", "axis_index")


class Layout(NamedTuple):
    """How the axes of a world are bound, and what the operand is along them."""

    sizes: dict[str, int]
    mesh: tuple[str, ...]
    outside: tuple[str, ...]  # the first ones, mapped around the shard_map
    shared: tuple[str, ...]  # the operand is the same along these
    dims: dict[str, int]  # which dimension a name maps, counted from the end
    check_vma: bool


class Call(NamedTuple):
    """One collective, over these names, of operands of this type."""

    kind: str
    names: Any
    options: dict[str, Any]
    shape: tuple[int, ...]
    dtype: Any


@st.composite
def layouts(draw: Any) -> Layout:
    sizes, left = {}, MOST
    order = draw(st.permutations("ijk"))
    for name in order[: draw(st.integers(1, 3))]:
        sizes[name] = draw(st.integers(1, min(left, 4)))
        left //= sizes[name]
    names = list(sizes)
    mesh = tuple(n for n in names if draw(st.booleans()))
    mapped = next((k for k, n in enumerate(names) if n in mesh), 0)
    return Layout(
        sizes,
        mesh,
        tuple(names[: draw(st.integers(0, mapped))]),
        tuple(n for n in names if draw(st.integers(0, 3)) == 0),
        {n: draw(st.integers(0, 2)) for n in names},
        draw(st.booleans()),
    )


@st.composite
def calls(draw: Any, sizes: dict[str, int], kinds: Any = KINDS) -> Call:
    kind = draw(st.sampled_from(kinds))
    least = int(kind.startswith("parg"))
    names = draw(st.permutations(list(sizes)))
    names = tuple(names[: draw(st.integers(least, 1 if least else len(names)))])
    total = int(np.prod([sizes[n] for n in names]))
    options: dict[str, Any] = {}
    n = total
    if kind not in ("ppermute", "pshuffle", "pbroadcast", "axis_index") and (
        names and not least and draw(st.booleans())
    ):
        n = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
        members = draw(st.permutations(range(total)))
        groups = [members[k : k + n] for k in range(0, total, n)]
        if kind in REDUCTIONS and len(groups) > 1 and draw(st.booleans()):
            groups = [groups[0] + groups[1], *groups[2:]]  # of unequal size
        options["axis_index_groups"] = groups
    shape = [n, n * draw(st.integers(0, 2)), draw(st.integers(0, 2))]
    shape = draw(st.permutations(shape))
    options |= draw(_options(kind, total, n, shape))
    if kind == "all_gather" and n == total:  # else groups hold different results
        options["to"] = draw(st.sampled_from(["varying", "invarying", "reduced"]))
    dtypes = DTYPES
    sizes_of_groups = {len(g) for g in options.get("axis_index_groups", ())}
    if kind == "pmean" or (kind in ("pmax", "pmin") and len(sizes_of_groups) > 1):
        dtypes = [*REAL, np.bool_]
    if kind in ("psum_scatter", "pargmax", "pargmin"):  # which do not count booleans
        dtypes = REAL
    given_names: Any = names
    if len(names) == 1 and (least or draw(st.booleans())):
        given_names = names[0]
    return Call(kind, given_names, options, tuple(shape), draw(st.sampled_from(dtypes)))


@st.composite
def _options(
    draw: Any, kind: str, total: int, n: int, shape: list[int]
) -> dict[str, Any]:
    tiled = draw(st.booleans())
    exact = [d for d, size in enumerate(shape) if size == n]
    parted = [d for d, size in enumerate(shape) if size % n == 0] if tiled else exact
    any_dim, sign = st.integers(-3, 2), draw(st.sampled_from([0, -3]))
    if kind == "all_gather":
        return {"axis": draw(any_dim), "tiled": tiled}
    if kind == "psum_scatter":
        return {"scatter_dimension": draw(st.sampled_from(parted)), "tiled": tiled}
    if kind == "all_to_all":
        split = draw(st.sampled_from(parted)) + sign
        return {"split_axis": split, "concat_axis": draw(any_dim), "tiled": tiled}
    if kind == "pswapaxes":
        return {"axis": draw(st.sampled_from(exact)) + sign}
    if kind == "pshuffle":
        return {"perm": draw(st.permutations(range(total)))}
    if kind == "pbroadcast":
        return {"source": draw(st.integers(0, total - 1))}
    if kind == "ppermute":
        ends = [draw(st.permutations(range(total))) for _ in range(2)]
        pairs = list(zip(*ends, strict=True))
        return {"perm": pairs[: draw(st.integers(0, total))]}
    return {}


def apply(call: Call, v: Any) -> Any:
    """The collective of what one device sees."""
    if call.kind == "axis_index":
        return lax.axis_index(call.names) + lax.full((), 0, np.int32)
    v = _one_state(v, call.names, call.options.get("to") == "reduced")
    out = getattr(lax, call.kind)(v, call.names, **call.options)
    if reduced := tuple(jax.typeof(out).manual.reduced):
        return lax.pcast(out, reduced, to="varying")
    return out


def _one_state(v: Any, names: Any, must_vary: bool) -> Any:
    """Sums refuse an operand that varies over some of the mesh axes but not all.

    A gather to reduced refuses one that varies over none.
    """
    varying = jax.typeof(v).manual.varying
    mesh = frozenset(jax.sharding.get_abstract_mesh().manual_axes)
    missing = tuple(n for n in names if n in mesh - varying)
    if (must_vary or varying.intersection(names)) and missing:
        return lax.pcast(v, missing, to="varying")
    return v


def expected(layout: Layout, call: Call, x: np.ndarray) -> np.ndarray:
    """The collective on every device, by definition."""
    for dim, name in enumerate(layout.sizes):
        if name in layout.shared:
            x = np.broadcast_to(x.take([0], dim), x.shape)
    world = World(layout.sizes)
    if call.kind == "axis_index":
        return world.axis_index(call.names)
    options = {k: v for k, v in call.options.items() if k != "to"}
    return getattr(world, call.kind)(x, call.names, **options)


def program(layout: Layout, fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of stacked values that applies `fun` on every device."""
    sizes, outside, mesh = layout.sizes, layout.outside, layout.mesh
    inside = [n for n in sizes if n not in outside and n not in mesh]
    for name in reversed(inside):
        fun = mapped(layout, name, fun)
    if mesh:
        fun = sharded(layout, fun)
    for name in reversed(outside):
        fun = mapped(layout, name, fun)
    return fun


def front(x: Any, dim: int, to: int) -> Any:
    order = [d for d in range(x.ndim) if d != dim]
    order.insert(to, dim)
    return lax.transpose(x, order)


def mapped(layout: Layout, name: str, fun: Callable[[Any], Any]) -> Callable[..., Any]:
    """`fun` mapped along a name, whose dimension leads."""
    size = layout.sizes[name]
    if name in layout.shared:

        def same(v: Any) -> Any:
            v = lax.index_in_dim(v, 0, keepdims=False)
            return jax.vmap(fun, in_axes=None, axis_name=name, axis_size=size)(v)

        return same

    def each(v: Any) -> Any:
        dim = v.ndim - 1 - layout.dims[name]
        v = front(v, 0, dim)
        return jax.vmap(fun, in_axes=dim, axis_name=name)(v)

    return each


def sharded(layout: Layout, fun: Callable[[Any], Any]) -> Callable[..., Any]:
    """`fun` on each device of a mesh, whose axes are among the leading dimensions."""
    mesh = jax.make_mesh(
        [layout.sizes[n] for n in layout.mesh],
        list(layout.mesh),
        axis_types=(jax.sharding.AxisType.Auto,) * len(layout.mesh),
    )
    order = [n for n in layout.sizes if n not in layout.outside]
    dims = [d for d, n in enumerate(order) if n in layout.mesh]

    def specs(names: list[str]) -> Any:
        return jax.sharding.PartitionSpec(
            *(n if n in layout.mesh and n in names else None for n in order)
        )

    def body(v: Any) -> Any:
        for d in reversed(dims):
            v = lax.index_in_dim(v, 0, d, keepdims=False)
        return jax.tree.map(lambda y: lax.expand_dims(y, dims), fun(v))

    return jax.shard_map(
        body,
        mesh=mesh,
        in_specs=specs([n for n in order if n not in layout.shared]),
        out_specs=specs(order),
        check_vma=layout.check_vma,
    )


def numbers(shape: Any, dtype: Any, seed: int) -> np.ndarray:
    """Small integers, whose sums are exact in every dtype."""
    rng = np.random.default_rng(seed)
    low = 0 if np.dtype(dtype).kind == "u" else -3
    x = rng.integers(low, 4, shape)
    if dtype == np.complex64:
        x = x + 1j * rng.integers(low, 4, shape)
    return x.astype(dtype)


def same(got: Any, want: Any, of: str) -> None:
    assert got.dtype == want.dtype, (of, got.dtype, want.dtype)
    check = np.testing.assert_array_equal
    if of == "pmean":  # a division by a constant may be a multiplication
        got, want = (np.asarray(v, np.complex64) for v in (got, want))
        check = np.testing.assert_allclose
    more = {"rtol": 1e-2} if of == "pmean" else {}
    check(got, want, **more, err_msg=of)


LAYOUT_AND_CALL = layouts().flatmap(
    lambda layout: st.tuples(st.just(layout), calls(layout.sizes))
)


@settings(max_examples=400, derandomize=True)
@given(LAYOUT_AND_CALL, st.integers(0, 99))
def test_as_the_rules_make_it(drawn: tuple[Layout, Call], seed: int) -> None:
    layout, call = drawn
    x = numbers((*layout.sizes.values(), *call.shape), call.dtype, seed)
    f = program(layout, lambda v: apply(call, v))
    (got,) = evaluate(jax.make_jaxpr(f)(x), x)
    same(got, expected(layout, call, x), call.kind)


@settings(max_examples=200, derandomize=True)
@given(LAYOUT_AND_CALL, st.integers(0, 3), st.integers(0, 3), st.integers(0, 99))
def test_a_dimension_without_a_name(
    drawn: tuple[Layout, Call], inside: int, outside: int, seed: int
) -> None:
    """vmap of a collective is a loop, within the devices' program and around it."""
    layout, call = drawn
    lead, shape = tuple(layout.sizes.values()), call.shape
    inner_shape = (*shape[:inside], 2, *shape[inside:])
    x = numbers((*lead, *inner_shape), call.dtype, seed)
    rows = jax.vmap(lambda v: apply(call, v), in_axes=inside)
    x = np.stack([x, x[::-1] if lead[0] > 1 else -x if x.dtype != bool else ~x], 0)
    f = jax.vmap(program(layout, rows), in_axes=outside)
    (got,) = evaluate(jax.make_jaxpr(f)(y := np.moveaxis(x, 0, outside)), y)
    at = inside + len(lead)
    want = [
        np.stack([expected(layout, call, v) for v in np.moveaxis(part, at, 0)], -1)
        for part in x
    ]
    same(got, np.moveaxis(np.stack(want), -1, 1 + len(lead)), call.kind)


@settings(max_examples=300, derandomize=True)
@given(
    layouts().flatmap(lambda u: st.tuples(st.just(u), calls(u.sizes, LINEAR))),
    st.sampled_from([np.float32, np.complex64]),
    st.integers(0, 99),
)
def test_derivatives_are_adjoint(
    drawn: tuple[Layout, Call], dtype: Any, seed: int
) -> None:
    layout, call = drawn
    x = numbers((*layout.sizes.values(), *call.shape), dtype, seed)
    f = program(layout, lambda v: apply(call, v))
    want = expected(layout, call, x)
    along = evaluate(jax.make_jaxpr(lambda v: jax.jvp(f, (v,), (v,)))(x), x)
    for out in along:  # linear, so that the derivative is the function itself
        same(out, want, call.kind)
    ct = numbers(want.shape, want.dtype, seed + 1)
    (back,) = evaluate(
        jax.make_jaxpr(lambda v, c: jax.vjp(f, v)[1](c)[0])(x, ct), x, ct
    )
    pairs = [np.sum(ct * want), np.sum(back * x)]  # bilinear: no conjugates
    np.testing.assert_allclose(*pairs, rtol=1e-4, atol=1e-3)


def in_mesh_order(sizes: dict[str, int], call: Call) -> Call:
    """ppermute is lowered over names in the order of the mesh only."""
    if call.kind not in ("ppermute", "pshuffle") or isinstance(call.names, str):
        return call
    return call._replace(names=tuple(n for n in sizes if n in call.names))


@settings(max_examples=20, derandomize=True)
@given(
    layouts().flatmap(
        lambda u: st.tuples(
            st.just(u), st.lists(calls(u.sizes), min_size=12, max_size=12)
        )
    ),
    st.integers(0, 99),
)
def test_on_devices(drawn: tuple[Layout, list[Call]], seed: int) -> None:
    layout, some = drawn
    some = [in_mesh_order(layout.sizes, c) for c in some]
    lead = tuple(layout.sizes.values())
    xs = [numbers((*lead, *c.shape), c.dtype, seed + k) for k, c in enumerate(some)]
    fs = [program(layout, lambda v, c=c: apply(c, v)) for c in some]
    got = jax.jit(lambda *vs: [f(v) for f, v in zip(fs, vs, strict=True)])(*xs)
    for call, x, y in zip(some, xs, got, strict=True):
        same(np.asarray(y), expected(layout, call, x), call.kind)


def test_every_kind_has_a_definition() -> None:
    for kind in KINDS:
        assert hasattr(World, kind)
        assert hasattr(lax, kind)
    with pytest.raises(AttributeError):
        _ = World({}).no_such_collective  # type: ignore[attr-defined]
