"""Laws that the rules of every primitive obey, checked on the `CASES` of its page.

A primitive says five times what it does: as a type, as operations, as a derivative, as
a transpose and as a batch. Each says something about the others, which needs no oracle.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minijax
from minijax import lax
from minijax.core.trace import typeof
from minijax.lax.cases import Case

_PAGES = [
    importlib.import_module(page.name)
    for page in pkgutil.walk_packages(lax.__path__, "minijax.lax.")
]
CASES = [
    pytest.param(case, id=f"{page.__name__.removeprefix('minijax.lax.')}:{case}")
    for page in _PAGES
    for case in getattr(page, "CASES", ())
    if isinstance(case, Case)
]
SMOOTH = [p for p in CASES if p.values[0].differentiable()]
MAPPED = [p for p in CASES if p.values[0].batches]

pytestmark = pytest.mark.filterwarnings(
    "ignore::numpy.exceptions.ComplexWarning", "ignore:overflow", "ignore:invalid"
)


def operands(case: Case) -> list[Any]:
    return case.operands(np.random.default_rng(0))


def apply(case: Case, *xs: Any) -> tuple[Any, ...]:
    return tuple(case.primitive.bind(*xs, **case.params))


def same(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    if found.dtype.kind in "fcV":
        np.testing.assert_allclose(
            found.astype(np.complex128) if found.dtype.kind == "c" else found,
            expected,
            rtol=tolerance,
            atol=tolerance,
        )
    else:
        np.testing.assert_array_equal(found, expected)


def all_same(found: Sequence[Any], expected: Sequence[Any], **options: float) -> None:
    for f, e in zip(found, expected, strict=True):
        same(f, e, **options)


@pytest.mark.parametrize("case", CASES)
def test_what_comes_out_has_the_type_that_was_told(case: Case) -> None:
    xs = operands(case)
    told = case.primitive.abstract_eval(*map(typeof, xs), **case.params)
    outs = apply(case, *xs)
    assert [(a.shape, a.dtype) for a in told] == [(o.shape, o.dtype) for o in outs]
    assert told == [typeof(o) for o in outs]


@pytest.mark.parametrize("case", MAPPED)
def test_compiled_together_is_as_one_by_one(case: Case) -> None:
    xs = operands(case)
    all_same(minijax.jit(lambda *ys: apply(case, *ys))(*xs), apply(case, *xs))


@pytest.mark.parametrize("case", MAPPED)
@pytest.mark.parametrize("where", ["front", "back", "some"])
def test_mapping_is_a_loop(case: Case, where: str) -> None:
    rng = np.random.default_rng(1)
    several = [case.operands(rng) for _ in range(2)]
    ranks = [np.ndim(x) for x in several[0]]
    if not ranks:
        pytest.skip("it has no operand")
    if where == "some":
        axes: list[Any] = [None if i % 2 else 0 for i in range(len(ranks))]
    else:
        axes = [0 if where == "front" else rank for rank in ranks]
    stacked = [
        x if axis is None else np.stack([x, y], axis)
        for x, y, axis in zip(*several, axes, strict=True)
    ]
    seconds = [
        x if axis is None else y for x, y, axis in zip(*several, axes, strict=True)
    ]
    outs = minijax.vmap(lambda *xs: apply(case, *xs), tuple(axes))(*stacked)
    looped = [apply(case, *xs) for xs in (several[0], seconds)]
    expected = [np.stack(pair) for pair in zip(*looped, strict=True)]
    all_same(outs, expected)


def _in_smooth(case: Case, xs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The case as a function of its differentiable operands alone."""
    places = case.differentiable()

    def fun(*ys: Any) -> tuple[Any, ...]:
        args = list(xs)
        for i, y in zip(places, ys, strict=True):
            args[i] = y
        outs = apply(case, *args)
        return tuple(o for o in outs if np.dtype(o.dtype).kind in "fc")

    return fun, [xs[i] for i in places]


def _direction(xs: Sequence[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for x in xs:
        v = rng.uniform(-1, 1, np.shape(x))
        if np.asarray(x).dtype.kind == "c":
            v = v + 1j * rng.uniform(-1, 1, np.shape(x))
        found.append(np.asarray(v, np.asarray(x).dtype))
    return found


@pytest.mark.parametrize("case", SMOOTH)
def test_tangents_are_finite_differences(case: Case) -> None:
    fun, xs = _in_smooth(case, operands(case))
    ts = _direction(xs, 2)
    _, tangents = minijax.jvp(fun, tuple(xs), tuple(ts))
    step = np.float32(2**-8)
    above = fun(*(x + step * t for x, t in zip(xs, ts, strict=True)))
    below = fun(*(x - step * t for x, t in zip(xs, ts, strict=True)))
    slopes = [
        (np.asarray(a) - np.asarray(b)) / (2 * step)
        for a, b in zip(above, below, strict=True)
    ]
    for found, slope in zip(tangents, slopes, strict=True):
        scale = 1 + np.abs(slope)
        np.testing.assert_allclose(np.asarray(found) / scale, slope / scale, atol=2e-2)


@pytest.mark.parametrize("case", SMOOTH)
def test_cotangents_are_the_tangents_transposed(case: Case) -> None:
    fun, xs = _in_smooth(case, operands(case))
    ts = _direction(xs, 3)
    outs, tangents = minijax.jvp(fun, tuple(xs), tuple(ts))
    _, pull = minijax.vjp(fun, *xs)
    cts = _direction([np.asarray(o) for o in outs], 4)
    back = pull(tuple(cts))
    assert [(b.shape, b.dtype) for b in back] == [
        (np.shape(x), np.asarray(x).dtype) for x in xs
    ]
    pairs = zip(cts, tangents, strict=True)
    forwards = sum(np.sum(c * np.asarray(t)) for c, t in pairs)
    backwards = sum(np.sum(np.asarray(b) * t) for b, t in zip(back, ts, strict=True))
    np.testing.assert_allclose(
        np.real(forwards), np.real(backwards), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("case", SMOOTH)
def test_mapped_tangents_are_a_loop(case: Case) -> None:
    if not case.batches:
        pytest.skip("it cannot be mapped")
    fun, xs = _in_smooth(case, operands(case))
    many = [np.stack(pair) for pair in zip(_direction(xs, 5), _direction(xs, 6))]  # noqa: B905

    def push(*ts: Any) -> Any:
        return minijax.jvp(fun, tuple(xs), ts)[1]

    outs = minijax.vmap(push)(*many)
    looped = [push(*(m[i] for m in many)) for i in range(2)]
    all_same(outs, [np.stack(pair) for pair in zip(*looped, strict=True)])


@pytest.mark.parametrize("case", SMOOTH)
def test_gradients_have_gradients(case: Case) -> None:
    fun, xs = _in_smooth(case, operands(case))
    ts = _direction(xs, 7)

    def total(*ys: Any) -> Any:
        outs, pull = minijax.vjp(fun, *ys)
        return pull(tuple(np.ones(o.shape, o.dtype) for o in outs))

    _, seconds = minijax.jvp(total, tuple(xs), tuple(ts))
    step = np.float32(2**-7)
    above = total(*(x + step * t for x, t in zip(xs, ts, strict=True)))
    below = total(*(x - step * t for x, t in zip(xs, ts, strict=True)))
    for found, a, b in zip(seconds, above, below, strict=True):
        slope = (np.asarray(a) - np.asarray(b)) / (2 * step)
        scale = 1 + np.abs(slope)
        np.testing.assert_allclose(np.asarray(found) / scale, slope / scale, atol=3e-2)
