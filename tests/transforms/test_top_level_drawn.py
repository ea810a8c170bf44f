"""`top_level_all_gather` of drawn arrays on drawn meshes, by definition and by laws.

Sources have up to four axes on a dimension, targets keep any prefix of each.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax._src.shard_map as upstream_shard_map
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minijax
import minijax.numpy as jnp
from minijax.core.trace import typeof
from minijax.lax import cond, scan
from minijax.sharding import AxisType, reshard
from minijax.sharding import PartitionSpec as P
from tests.conformance.harness import normal, text

NAMES = ("w", "x", "y", "z")
DTYPES = ["float32", "int32", "bool", "bfloat16", "float16", "int8", "complex64"]
MESHES = [
    (2,), (4,), (2, 2), (1, 4), (2, 4), (4, 2), (2, 2, 2), (1, 2, 4),
    (2, 1, 2, 2), (1, 2, 2, 2), (2, 2, 2, 1),
]  # fmt: skip


class Case(NamedTuple):
    """A mesh, and per dimension the axes before and the number of those that stay."""

    sizes: tuple[int, ...]
    before: tuple[tuple[str, ...], ...]
    kept: tuple[int, ...]
    dtype: str

    @property
    def after(self) -> tuple[tuple[str, ...], ...]:
        return tuple(a[:k] for a, k in zip(self.before, self.kept, strict=True))

    @property
    def gathered(self) -> set[str]:
        pairs = zip(self.before, self.kept, strict=True)
        return {n for axes, k in pairs for n in axes[k:]}

    @property
    def array(self) -> np.ndarray:
        """Its dimensions have two or three elements per device."""
        size: dict[str, int] = dict(zip(NAMES, self.sizes, strict=False))
        shape = [
            (2 + i % 2) * math.prod(size[n] for n in axes)
            for i, axes in enumerate(self.before)
        ]
        whole = np.arange(math.prod(shape)).reshape(shape) % 101
        return whole.astype(jnp.dtype(self.dtype))

    def source(self, jax: Any = minijax) -> Any:
        return jax.sharding.PartitionSpec(*self.before)

    def target(self, jax: Any = minijax) -> Any:
        return jax.sharding.PartitionSpec(*self.after, reduced=self.gathered)

    def mesh(self, jax: Any = minijax) -> Any:
        explicit = (jax.sharding.AxisType.Explicit,) * len(self.sizes)
        names = NAMES[: len(self.sizes)]
        return jax.set_mesh(jax.make_mesh(self.sizes, names, axis_types=explicit))

    def gather(self, x: Any) -> Any:
        return minijax.top_level_all_gather(x, self.target(), multi_dim=True)


@st.composite
def cases(draw: st.DrawFn, dtypes: list[str] = DTYPES) -> Case:
    sizes = draw(st.sampled_from(MESHES))
    rank = draw(st.integers(1, 3))
    before: list[tuple[str, ...]] = [()] * rank
    for name in draw(st.permutations(NAMES[: len(sizes)])):
        dim = draw(st.integers(-1, rank - 1))
        if dim >= 0:
            before[dim] += (name,)
    kept = tuple(draw(st.integers(0, len(axes))) for axes in before)
    return Case(sizes, tuple(before), kept, draw(st.sampled_from(dtypes)))


def shards(x: Any) -> dict[int, list[Any]]:
    return {s.device.id: np.asarray(s.data).tolist() for s in x.addressable_shards}


def drawn[F: Callable[..., None]](examples: int) -> Callable[[F], F]:
    return settings(max_examples=examples, deadline=None, derandomize=True)


@drawn(24)
@given(cases(), st.sampled_from(["eager", "jit", "scan", "cond"]))
def test_it_is_what_device_put_would_make(case: Case, where: str) -> None:
    with case.mesh():
        x = minijax.device_put(case.array, case.source())
        if where == "eager":
            out = case.gather(x)
        elif where == "jit":
            out = minijax.jit(case.gather)(x)
        elif where == "scan":
            stacked = minijax.device_put(case.array[None], P(None, *case.before))
            _, out = scan(lambda _, x: (0, case.gather(x)), 0, stacked)
            out = out[0]
        else:
            out = cond(True, case.gather, case.gather, x)
        plain = minijax.device_put(case.array, P(*case.after))
        assert shards(out) == shards(plain)
        spec = case.target().for_aval(x.ndim)
        assert typeof(out).sharding.spec == spec
        assert (out.dtype, out.shape) == (x.dtype, x.shape)


def upstream_is_right(case: Case) -> bool:
    """It gathers as many trailing axes as stay, or all."""
    pairs = zip(case.before, case.kept, strict=True)
    return all(k in (0, len(axes)) or len(axes) == 2 * k for axes, k in pairs)


@drawn(15)
@given(cases(["float32"]).filter(upstream_is_right))
def test_as_upstream_where_that_is_right(upstream: Any, case: Case) -> None:
    def facts(jax: Any, of: Any) -> list[Any]:
        with case.mesh(jax):
            x = jax.device_put(case.array, case.source(jax))

            def f(x: Any) -> Any:
                return of.top_level_all_gather(x, case.target(jax), multi_dim=True)

            _, pull = jax.vjp(f, x)
            back = case.target().update(reduced=set(), unreduced=case.gathered)
            ct = jax.sharding.reshard(
                jax.numpy.asarray(case.array),
                jax.sharding.PartitionSpec(*case.after, unreduced=back.unreduced),
            )
            out, (grad,) = f(x), pull(ct)
            tangents = jax.jvp(f, (x,), (x,))
            return [
                *[str(jax.typeof(v)) for v in (out, grad, *tangents)],
                shards(out),
                shards(grad),
                jax.jit(f).lower(x).as_text(),
                normal(text(jax, f, x)),
                jax.jit(lambda ct: pull(ct)).lower(ct).as_text(),
            ]

    found, expected = facts(minijax, minijax), facts(upstream, upstream_shard_map)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == theirs


@drawn(12)
@given(cases(["float32"]), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_mapped_is_stacked(case: Case, into: int, out_of: int, jit: bool) -> None:
    into, out_of = min(into, len(case.before)), min(out_of, len(case.before))
    whole = np.stack([case.array, case.array + 1], into)
    axes = list(case.before)
    axes.insert(into, ())
    with case.mesh():
        xs = minijax.device_put(whole, P(*axes))
        mapped = minijax.vmap(case.gather, in_axes=into, out_axes=out_of)
        out = (minijax.jit(mapped) if jit else mapped)(xs)
        np.testing.assert_array_equal(out, np.moveaxis(whole, into, out_of))
        after = list(case.after)
        after.insert(out_of, ())
        spec = P(*after, reduced=case.gathered).for_aval(xs.ndim)
        assert typeof(out).sharding.spec == spec


@drawn(12)
@given(cases(["float32"]), st.booleans())
def test_derivatives(case: Case, jit: bool) -> None:
    """It is linear, and its transpose is its adjoint; also of a mapped one."""
    with case.mesh():
        x = minijax.device_put(case.array, case.source())
        v = minijax.device_put(np.cos(case.array), case.source())
        f = minijax.jit(case.gather) if jit else case.gather
        y, dy = minijax.jvp(f, (x,), (v,))
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(dy, v)
        assert typeof(dy) == typeof(y)
        out, linear = minijax.linearize(f, x)
        np.testing.assert_array_equal(out, x)
        np.testing.assert_array_equal(linear(v), v)
        _, pull = minijax.vjp(f, x)
        ct = reshard(
            jnp.asarray(np.sin(case.array)), P(*case.after, unreduced=case.gathered)
        )
        (back,) = pull(ct)
        assert typeof(back) == typeof(x)
        np.testing.assert_array_equal(back, np.sin(case.array))
        (again,) = minijax.vjp(lambda ct: pull(ct)[0], ct)[1](v)
        np.testing.assert_array_equal(again, v)
        assert typeof(again) == typeof(y)


@drawn(6)
@given(cases(["float32"]), st.booleans())
def test_second_derivatives(case: Case, mapped: bool) -> None:
    array = case.array / 100

    def loss(gather: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of(x: Any) -> Any:
            return jnp.sum(jnp.sin(reshard(gather(x) * 2.0, P())) ** 3)

        return of

    def curvature(f: Any) -> Any:
        return minijax.grad(lambda x: jnp.sum(minijax.grad(f)(x) ** 2))

    axes = case.before
    if mapped:
        array, axes = np.stack([array, array + 1]), ((), *axes)
    with case.mesh():
        x = minijax.device_put(array, P(*axes))
        of = curvature(loss(case.gather))
        found = (minijax.vmap(of) if mapped else of)(x)
    expected = curvature(lambda x: jnp.sum(jnp.sin(x * 2.0) ** 3))(jnp.asarray(array))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert found.sharding.spec == P(*axes).for_aval(array.ndim)


def test_a_batch_over_its_axis_of_the_mesh() -> None:
    """The mapped dimension stays as it is sharded, through derivatives too."""
    explicit = (AxisType.Explicit,) * 3
    mesh = minijax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=explicit)
    array = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    with minijax.set_mesh(mesh):
        x = minijax.device_put(array, P("x", "y", "z"))

        def gather(x: Any) -> Any:
            target = P(None, "z", reduced={"y"})
            return minijax.top_level_all_gather(x, target)

        out, pull = minijax.vjp(minijax.vmap(gather), x)
        assert str(typeof(out)) == "float32[2@x,4,4@z]{R:y}"
        np.testing.assert_array_equal(out, array)
        ct = reshard(jnp.asarray(array), P("x", None, "z", unreduced={"y"}))
        assert typeof(pull(ct)[0]) == typeof(x)
        np.testing.assert_array_equal(pull(ct)[0], array)
