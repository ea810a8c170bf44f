"""`shard_map`: parts, whole values, types inside, and derivatives through it."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.trace import typeof
from minijax.sharding import AxisType, NamedSharding
from minijax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 32


def mesh_of(kind: AxisType = AxisType.Auto) -> Any:
    return minijax.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)


MESH = mesh_of()


def mapped(f: Any, ins: Any, outs: Any, **options: Any) -> Any:
    return minijax.shard_map(f, mesh=MESH, in_specs=ins, out_specs=outs, **options)


SPECS = [P("x"), P("x", "y"), P(None, "y"), P(("x", "y")), P(("y", "x")), P()]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_what_goes_in_comes_out(spec: P) -> None:
    out = mapped(lambda a: a * 2, spec, spec)(X)
    np.testing.assert_array_equal(out, X * 2)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, spec), 2)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_body_sees_one_part(spec: P) -> None:
    seen = []
    minijax.make_jaxpr(mapped(lambda a: (seen.append(a.shape), a)[1], spec, spec))(X)
    parts = [spec[i] if i < len(spec) else None for i in range(2)]
    names = [(p,) if isinstance(p, str) else p or () for p in parts]
    sizes = [np.prod([MESH.shape[n] for n in ns], dtype=int) for ns in names]
    assert seen == [(8 // sizes[0], 4 // sizes[1])]


def test_each_device_knows_its_place() -> None:
    def place(_: Any) -> Any:
        i, j = lax.axis_index("x"), lax.axis_index("y")
        return jnp.full((1, 1), 10 * i + j)

    out = mapped(place, P("x", "y"), P("x", "y"))(X)
    np.testing.assert_array_equal(out, [[0, 1, 2, 3], [10, 11, 12, 13]])


def test_types_tell_over_which_axes_values_vary() -> None:
    seen: list[str] = []

    def body(a: Any, b: Any) -> Any:
        total = lax.psum(a, "x")
        seen.extend(str(typeof(v)) for v in (a, b, total, a * b, lax.axis_index("y")))
        return total

    minijax.make_jaxpr(mapped(body, (P("x", "y"), P()), P(None, "y")))(X, 1.0)
    assert seen == [
        "float32[4,1]{V:(x,y)}",
        "~float32[]",
        "float32[4,1]{V:y}",
        "float32[4,1]{V:(x,y)}",
        "int32[]{V:y}",
    ]


def test_a_product_of_matrices_over_both_axes() -> None:
    def product(a: Any, b: Any) -> Any:
        return lax.psum(a @ b, "y")

    f = mapped(product, (P("x", "y"), P("y")), P("x"))
    b = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(f(X, b), X @ b, rtol=1e-5, atol=1e-6)

    def loss(f: Any) -> Any:
        return lambda a, b: jnp.sum(jnp.tanh(f(a, b)))

    found = minijax.jit(minijax.grad(loss(f), (0, 1)))(X, b)
    expected = minijax.grad(loss(lambda a, b: a @ b), (0, 1))(X, b)
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize(
    ("body", "ins", "outs", "whole"),
    [
        (lambda a: jnp.sin(a), P("x"), P("x"), jnp.sin),
        (
            lambda a: lax.psum(a * a, "x"),
            P("x"),
            P(),
            lambda x: x[:4] ** 2 + x[4:] ** 2,
        ),
        (
            lambda a: a * lax.psum(jnp.sum(a), ("x", "y")),
            P("x", "y"),
            P("x", "y"),
            lambda x: x * jnp.sum(x),
        ),
        (
            lambda a: lax.all_gather(a, "y", axis=1, tiled=True) ** 2,
            P("x", "y"),
            P("x", "y"),
            lambda x: jnp.concatenate([x**2] * 4, 1),
        ),
        (
            lambda a: lax.psum_scatter(a * a, "x", tiled=True),
            P(),
            P("x"),
            lambda x: 2 * x**2,
        ),
        (
            lambda a: lax.ppermute(a, "x", [(0, 1), (1, 0)]) ** 3,
            P("x"),
            P("x"),
            lambda x: jnp.roll(x, 4, 0) ** 3,
        ),
        (
            lambda a: lax.all_to_all(a, "y", 0, 1, tiled=True) ** 2,
            P(None, "y"),
            P("y", None),
            lambda x: x**2,
        ),
        (
            lambda a: lax.pmean(a, "x") ** 2,
            P("x"),
            P(),
            lambda x: (x[:4] + x[4:]) ** 2 / 4,
        ),
    ],
)
def test_derivatives_are_those_of_the_whole(
    body: Any, ins: P, outs: P, whole: Any, check_vma: bool
) -> None:
    f = mapped(body, ins, outs, check_vma=check_vma)
    t = np.cos(X)

    def both(f: Any) -> Any:
        def run(x: Any, t: Any) -> Any:
            y, dy = minijax.jvp(f, (x,), (t,))
            out, pull = minijax.vjp(f, x)
            return y, dy, pull(jnp.sin(out + 1))[0]

        return minijax.jit(run)(X, t)

    for found, expected in zip(both(f), both(whole), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_closing_over_arrays_and_tracers() -> None:
    w = jnp.asarray(X[0])

    def outer(s: Any) -> Any:
        return jnp.sum(mapped(lambda a: a * s * w, P("x"), P("x"))(X))

    expected = np.sum(X * X[0])
    np.testing.assert_allclose(outer(2.0), 2 * expected, rtol=1e-5)
    np.testing.assert_allclose(minijax.jit(outer)(2.0), 2 * expected, rtol=1e-5)
    np.testing.assert_allclose(minijax.grad(outer)(2.0), expected, rtol=1e-5)
    scales = np.arange(3, dtype=np.float32)
    np.testing.assert_allclose(
        minijax.vmap(outer)(scales), scales * expected, rtol=1e-5
    )


def test_some_axes_stay_with_the_compiler() -> None:
    def body(a: Any) -> Any:
        assert a.shape == (4, 4)
        return lax.psum(jnp.sin(a), "x")

    f = minijax.jit(mapped(body, P("x"), P(), axis_names={"x"}))
    x = minijax.device_put(X, NamedSharding(MESH, P("x", "y")))
    np.testing.assert_allclose(f(x), np.sin(X[:4]) + np.sin(X[4:]), rtol=1e-5)


def test_one_axis_inside_another() -> None:
    def inner(a: Any) -> Any:
        return lax.psum(a, ("x", "y"))

    def outer(a: Any) -> Any:
        assert a.shape == (4, 4)
        return minijax.shard_map(
            inner, in_specs=P(None, "y"), out_specs=P(), axis_names={"y"}
        )(a)

    with minijax.set_mesh(MESH):
        f = mapped(outer, P("x"), P(), axis_names={"x"})
        found = minijax.jit(f)(X)
    np.testing.assert_allclose(found, (X[:4] + X[4:]).sum(1, keepdims=True), rtol=1e-5)


def test_mapping_over_a_mapped_function() -> None:
    f = mapped(lambda a: lax.psum(a, "y"), P("x", "y"), P("x"))
    stacked = np.stack([X, X * 2, X + 1])
    expected = stacked.sum(2, keepdims=True)
    np.testing.assert_allclose(minijax.vmap(f)(stacked), expected, rtol=1e-5)
    back = np.moveaxis(stacked, 0, 2)
    found = minijax.vmap(f, 2, 1)(back)
    np.testing.assert_allclose(found, np.moveaxis(expected, 0, 1), rtol=1e-5)


def test_the_mapped_dimension_can_lie_over_the_mesh() -> None:
    f = minijax.vmap(mapped(jnp.sin, P("y"), P("y")), spmd_axis_name="x")
    out = minijax.jit(f)(X)
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, P("x", "y")), 2)


def test_explicit_axes_need_no_specs_in() -> None:
    mesh = mesh_of(AxisType.Explicit)
    with minijax.set_mesh(mesh):
        x = minijax.device_put(X, P("x", "y"))
        f = minijax.shard_map(lambda a: lax.psum(a, "y"), out_specs=P("x"))
        out = f(x)
        assert str(typeof(out)) == "float32[8@x,1]"
    np.testing.assert_allclose(out, X.sum(1, keepdims=True), rtol=1e-5)


def test_a_claim_of_replication_is_checked() -> None:
    f = mapped(lambda a: a, P("x"), P())
    with pytest.raises(ValueError, match="require replication"):
        f(X)
    np.testing.assert_array_equal(
        mapped(lambda a: a, P("x"), P(), check_vma=False)(X), X[:4]
    )


def test_a_mapped_program_is_compiled_once() -> None:
    traces = []

    def body(a: Any) -> Any:
        traces.append(1)
        return a

    f = minijax.jit(mapped(body, P("x"), P("x")))
    for _ in range(3):
        f(X)
    assert len(traces) == 1
