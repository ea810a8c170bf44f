"""Programs that Hypothesis draws: same jaxprs, values and gradients."""

import re
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minijax
from tests.conformance.harness import compare, text

UNARY = ["sin", "tanh", "exp", "abs", "square", "negative", "cumsum", "log1p", "sign"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "arctan2"]
REDUCTIONS = ["sum", "max", "mean", "prod", "min"]
MOVES = ["transpose", "flip", "expand_dims", "ravel", "half", "stack", "where"]
DTYPES = ["float32", "float16", "int32", "bool"]


class Step(NamedTuple):
    """One operation, on earlier values chosen by number (taken modulo how many)."""

    kind: str
    name: str
    first: int
    second: int


def steps() -> st.SearchStrategy[Step]:
    kinds = {"unary": UNARY, "binary": BINARY, "reduce": REDUCTIONS, "move": MOVES}
    numbers = st.integers(0, 7)
    return st.one_of(
        *[
            st.builds(Step, st.just(kind), st.sampled_from(names), numbers, numbers)
            for kind, names in kinds.items()
        ]
    )


shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@st.composite
def inputs(draw: st.DrawFn) -> list[np.ndarray]:
    """One or two arrays whose shapes broadcast together."""
    shape = draw(shapes)
    arrays = []
    for _ in range(draw(st.integers(1, 2))):
        kept = shape[draw(st.integers(0, len(shape))) :]
        ones = tuple(1 if draw(st.booleans()) else n for n in kept)
        size = int(np.prod(ones))
        values = np.linspace(0.2, 1.4, size, dtype=np.float32).reshape(ones)
        arrays.append((values * 3).astype(draw(st.sampled_from(DTYPES))))
    return arrays


def run(jax: Any, program: list[Step], xs: tuple[Any, ...]) -> Any:
    """The last value; an operation that does not fit is left out by both libraries."""
    values = list(xs)
    for step in program:
        x = values[step.first % len(values)]
        y = values[step.second % len(values)]
        if step.kind == "binary" and not _broadcast(x.shape, y.shape):
            continue
        values.append(apply(jax.numpy, step, x, y))
    return values[-1]


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(a[::-1], b[::-1], strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def apply(jnp: Any, step: Step, x: Any, y: Any) -> Any:
    axis = step.second % x.ndim if x.ndim else None
    match step:
        case Step("unary", "cumsum" as name):
            return getattr(jnp, name)(x, axis)
        case Step("unary", name):
            return getattr(jnp, name)(x * 1 if x.dtype == bool else x)
        case Step("binary", name):
            return getattr(jnp, name)(x * 1, y * 1)
        case Step("reduce", name):
            return getattr(jnp, name)(x, axis, keepdims=step.first % 2 == 0)
        case Step("move", "half"):
            return x[: (x.shape[0] + 1) // 2] if x.ndim else x
        case Step("move", "stack"):
            return jnp.stack([x, x * 2])
        case Step("move", "where"):
            return jnp.where(x > 1, x, 1)
        case Step("move", "expand_dims"):
            return jnp.expand_dims(x, 0)
        case Step("move", name):
            return getattr(jnp, name)(x)
    raise AssertionError(step)


few = settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
programs = st.lists(steps(), min_size=1, max_size=5)
pytestmark = pytest.mark.filterwarnings("ignore")


def flat(program: str) -> str:
    """A printed program without its layout, which depends on how numbers print."""
    program = program.replace("np.int64(", "(")
    program = re.sub(r"\((\d+)\)", r"\1", program)
    return re.sub(r"[;\s]+", " ", program).replace("[ ", "[").replace(" ]", "]")


def same(found: Any, expected: Any) -> None:
    differences = list(compare(found, expected, "result"))
    assert not differences, "\n".join(differences)


@settings(parent=few, max_examples=60)
@given(program=programs, xs=inputs())
def test_jaxprs(
    program: list[Step], xs: list[np.ndarray], upstream: ModuleType
) -> None:
    found, expected = (
        text(jax, lambda *xs, jax=jax: run(jax, program, xs), *xs)
        for jax in (minijax, upstream)
    )
    same(found, expected)


@few
@given(program=programs, xs=inputs())
def test_values(
    program: list[Step], xs: list[np.ndarray], upstream: ModuleType
) -> None:
    found, expected = (
        jax.jit(lambda *xs, jax=jax: run(jax, program, xs))(*xs)
        for jax in (minijax, upstream)
    )
    same(found, expected)


@settings(parent=few, max_examples=60)
@given(program=programs, xs=inputs())
def test_jaxprs_of_batches(
    program: list[Step], xs: list[np.ndarray], upstream: ModuleType
) -> None:
    stacked = [np.stack([x, x], -1) for x in xs]
    found, expected = (
        flat(
            text(
                jax, jax.vmap(lambda *xs, jax=jax: run(jax, program, xs), -1), *stacked
            )
        )
        for jax in (minijax, upstream)
    )
    same(found, expected)


@few
@given(program=programs, xs=inputs())
def test_gradients(
    program: list[Step], xs: list[np.ndarray], upstream: ModuleType
) -> None:
    xs = [x.astype(np.float32) for x in xs]

    def gradient(jax: Any) -> Any:
        def loss(xs: list[Any]) -> Any:
            return jax.numpy.sum(run(jax, program, tuple(xs)) * np.float32(1))

        return jax.jit(jax.grad(loss))(xs)

    same(gradient(minijax), gradient(upstream))


@settings(parent=few, max_examples=60)
@given(program=programs, xs=inputs())
def test_jaxprs_of_tangents(
    program: list[Step], xs: list[np.ndarray], upstream: ModuleType
) -> None:
    primals = tuple(x.astype(np.float32) for x in xs)

    def tangents(jax: Any) -> str:
        def push(*ts: Any) -> Any:
            return jax.jvp(lambda *xs: run(jax, program, xs), primals, ts)

        return text(jax, push, *primals)

    same(tangents(minijax), tangents(upstream))
