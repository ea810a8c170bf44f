"""`vmap` is a loop, whatever is mapped, nested or named."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minijax
import minijax.numpy as jnp
from minijax import lax

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4)).astype(np.float32)
B = RNG.normal(size=(3, 4, 5)).astype(np.float32)


@given(
    data=st.data(),
    rank=st.integers(1, 3),
    size=st.integers(1, 3),
)
def test_every_axis_in_and_out(data: st.DataObject, rank: int, size: int) -> None:
    into = data.draw(st.integers(-rank, rank - 1))
    out = data.draw(st.integers(-rank, rank - 1))
    shape = [2, 3, 4][: rank - 1]
    shape.insert(into % rank, size)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = minijax.vmap(jnp.square, into, out)(x)
    np.testing.assert_array_equal(found, np.moveaxis(x**2, into, out))


def test_a_product_of_matrices_is_mapped_thrice() -> None:
    def product(a: Any, b: Any) -> Any:
        dot = jnp.dot
        rows = minijax.vmap(dot, (0, None))
        return minijax.vmap(rows, (None, 1), 1)(a, b)

    x, y = A, RNG.normal(size=(4, 2)).astype(np.float32)
    np.testing.assert_allclose(product(x, y), x @ y, rtol=1e-5)


def test_arguments_that_are_not_mapped_are_shared() -> None:
    f = minijax.vmap(lambda p, x: p["w"] * x + p["b"], ({"w": None, "b": 0}, None))
    found = f({"w": np.float32(2), "b": A[:, 0]}, np.float32(3))
    np.testing.assert_allclose(found, 6 + A[:, 0], rtol=1e-6)


def test_keywords_are_mapped_at_the_front() -> None:
    found = minijax.vmap(lambda *, x, y: x - y)(x=A, y=A[::-1])
    np.testing.assert_array_equal(found, A - A[::-1])


def test_results_that_no_argument_reaches_are_repeated() -> None:
    out = minijax.vmap(lambda x: (x, 1.0), out_axes=(0, 0))(A)
    np.testing.assert_array_equal(out[1], np.ones(3))
    alone = minijax.vmap(lambda x: (x, 1.0), out_axes=(0, None))(A)
    assert np.shape(alone[1]) == ()


@pytest.mark.parametrize("verb", ["psum", "pmax", "pmin", "pmean"])
def test_collectives_reduce_over_a_named_axis(verb: str) -> None:
    reduce = {"psum": np.sum, "pmax": np.max, "pmin": np.min, "pmean": np.mean}[verb]
    f = minijax.vmap(lambda x: getattr(lax, verb)(x, "i"), axis_name="i", out_axes=None)
    np.testing.assert_allclose(f(A), reduce(A, 0), rtol=1e-5)


def test_nested_names() -> None:
    def f(x: Any) -> Any:
        return lax.psum(x, "i") + 10 * lax.psum(x, "j") + 100 * lax.psum(x, ("i", "j"))

    found = minijax.vmap(minijax.vmap(f, axis_name="j"), axis_name="i")(A)
    expected = A.sum(0)[None] + 10 * A.sum(1)[:, None] + 100 * A.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_an_inner_axis_hides_an_outer_of_the_same_name() -> None:
    inner = minijax.vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)
    found = minijax.vmap(inner, axis_name="i")(A)
    np.testing.assert_allclose(found, A.sum(1), rtol=1e-5)


def test_a_name_is_bound_inside_jit_and_grad() -> None:
    def centred(x: Any) -> Any:
        return jnp.sum((x - lax.pmean(x, "i")) ** 2)

    f = minijax.vmap(minijax.grad(minijax.jit(centred)), axis_name="i")
    total = minijax.grad(lambda x: jnp.sum((x - jnp.mean(x, 0)) ** 2))(A)
    np.testing.assert_allclose(f(A), total, rtol=1e-4, atol=1e-5)


def test_closed_over_tracers_of_an_outer_map() -> None:
    def outer(x: Any) -> Any:
        return minijax.vmap(lambda y: x * y)(A[0])

    np.testing.assert_allclose(
        minijax.vmap(outer)(A[:, 0]), np.outer(A[:, 0], A[0]), rtol=1e-6
    )


def test_an_empty_axis() -> None:
    out = minijax.vmap(lambda x: jnp.sum(x))(np.ones((0, 4), np.float32))
    assert out.shape == (0,)


def test_the_size_can_be_given() -> None:
    f = minijax.vmap(lambda: lax.axis_index("i") * 2, axis_name="i", axis_size=3)
    np.testing.assert_array_equal(f(), [0, 2, 4])


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: x.T, B),
        (lambda x: x[1:, ::2], B),
        (lambda x: x.at[0].set(7.0), A),
        (lambda x: jnp.where(x > 0, x, 0.0), A),
        (lambda x: jnp.sort(x), A),
        (lambda x: jnp.argmax(x), A),
        (lambda x: jnp.cumsum(x), A),
        (lambda x: jnp.concatenate([x, x * 2]), A),
        (lambda x: x.reshape(2, 2), A),
        (lambda x: x @ x.T, B),
        (lambda x: jnp.linalg.norm(x), A),
        (lambda x: x[jnp.argmin(x)], A),
        (lambda x: jnp.stack([x, x], 1).sum(), A),
    ],
)
def test_numpy_functions_are_looped(f: Any, x: np.ndarray) -> None:
    looped = np.stack([np.asarray(f(jnp.asarray(row))) for row in x])
    np.testing.assert_allclose(minijax.vmap(f)(x), looped, rtol=1e-5)
