"""Where control flow differs from upstream, on purpose, and what upstream lacks."""

from typing import Any

import numpy as np
import pytest

import minijax
from minijax import lax

X = np.array([0.3, -0.5, 0.8, 1.1], np.float32)
SPEC = minijax.sharding.PartitionSpec("i")


def _mesh() -> Any:
    return minijax.make_mesh((2,), ("i",), (minijax.sharding.AxisType.Auto,))


def _sum(x: Any) -> Any:
    return lax.reduce_sum(x, tuple(range(np.ndim(x))))


def _sharded(f: Any, **options: Any) -> Any:
    return minijax.shard_map(f, mesh=_mesh(), in_specs=SPEC, out_specs=SPEC, **options)


# ------------------------------------------------- a choice that differs by device


def test_a_result_varies_if_the_choice_does() -> None:
    types = []

    def body(x: Any) -> Any:
        pred = x[0] > 0.5
        y = lax.cond(pred, lambda: 1.0, lambda: 2.0)
        z = lax.while_loop(lambda c: c < x[0] * 4, lambda c: c + 1.0, 0.0)
        w = lax.fori_loop(0, (x[0] * 4).astype(np.int32), lambda i, c: c + i, 0)
        types.extend(minijax.typeof(v).manual.varying for v in (y, z, w))
        return x * y + z + w

    out = minijax.jit(_sharded(body))(X)
    assert types == [{"i"}] * 3
    expected = np.concatenate([X[:2] * 2 + 2 + 0, X[2:] * 1 + 4 + 3])
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_gradient_of_what_all_devices_share() -> None:
    # The cotangents of `w` are summed over devices that took different branches.
    def loss(w: Any, x: Any) -> Any:
        def body(w: Any, x: Any) -> Any:
            return lax.cond(
                x[0] > 0.5, lambda: lax.sin(w) * x / w, lambda: x * x * w * w
            )

        specs = (minijax.sharding.PartitionSpec(), SPEC)
        f = minijax.shard_map(body, mesh=_mesh(), in_specs=specs, out_specs=SPEC)
        return _sum(f(w, x))

    w = np.float32(0.7)
    found = minijax.jit(minijax.grad(loss, (0, 1)))(w, X)

    def plain(w: Any, x: Any) -> Any:
        low, high = x[:2], x[2:]
        return _sum(low * low * w * w) + _sum(lax.sin(w) * high / w)

    expected = minijax.grad(plain, (0, 1))(w, X)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_mapped_choice_by_device() -> None:
    def body(x: Any) -> Any:
        total = lax.psum(x, "i")
        return lax.cond(x[0] > 0.5, lambda v: v * total, lambda v: v + total, x)

    f = minijax.jit(_sharded(body))
    rows = np.stack([X, X + 1])
    found = minijax.vmap(f)(rows)
    np.testing.assert_allclose(found, [f(r) for r in rows], rtol=1e-6)
    slope = minijax.grad(lambda x: _sum(f(x)))
    found = minijax.vmap(slope)(rows)
    np.testing.assert_allclose(found, [slope(r) for r in rows], rtol=1e-6)


def test_message_names_the_branch_that_must_be_cast() -> None:
    def body(x: Any) -> Any:
        zeros = lax.full((2,), 0.0)
        return lax.cond(True, lambda v: v * 2, lambda v: zeros, x)

    with pytest.raises(
        TypeError, match=r"\('i',\), to='varying'\)` to the output of f"
    ):
        _sharded(body)(X)


# ------------------------------------------------------------------------------ tokens


@pytest.mark.parametrize("how", ["eager", "jit", "grad", "vmap", "jvp"])
def test_tokens_are_operands_carries_and_results(how: str) -> None:
    def f(x: Any) -> Any:
        t = lax.create_token()
        t, x = lax.cond(
            True, lambda t, x: (lax.after_all(t, t), x * x), lambda t, x: (t, x), t, x
        )
        t, x = lax.fori_loop(
            0, 2, lambda i, c: (lax.after_all(c[0]), c[1] * 2.0), (t, x)
        )
        (t, x), (_, ts) = lax.scan(
            lambda c, _: ((lax.after_all(c[0]), c[1] * x), (c[1], c[0])),
            (t, x),
            None,
            length=2,
        )
        _, x = lax.cond(
            x > 0, lambda t, x: (t, x), lambda t, x: (lax.after_all(t, t), -x), ts, x
        )
        return x

    def expected(x: Any) -> Any:
        return (4 * x * x) ** 3

    x = np.float32(0.5)
    slope = 6 * 64 * x**5
    if how == "eager":
        assert f(x) == expected(x)
    elif how == "jit":
        assert minijax.jit(f)(x) == expected(x)
    elif how == "grad":
        np.testing.assert_allclose(minijax.grad(f)(x), slope, rtol=1e-6)
    elif how == "jvp":
        np.testing.assert_allclose(minijax.jvp(f, (x,), (x,))[1], slope * x, rtol=1e-6)
    else:
        xs = np.float32([0.5, 1.0])
        np.testing.assert_allclose(minijax.vmap(f)(xs), expected(xs), rtol=1e-6)


def test_a_token_in_a_while_loop_of_many() -> None:
    def f(n: Any) -> Any:
        t = lax.create_token()
        return lax.while_loop(
            lambda c: c[1] < n, lambda c: (lax.after_all(c[0]), c[1] + 2), (t, 0)
        )[1]

    np.testing.assert_array_equal(minijax.vmap(f)(np.arange(4)), [0, 2, 2, 4])


def test_a_token_through_checkpoint() -> None:
    @minijax.checkpoint
    def f(t: Any, x: Any) -> Any:
        return lax.after_all(t), lax.sin(x) * x

    def g(x: Any) -> Any:
        return f(lax.create_token(), x)[1]

    np.testing.assert_allclose(minijax.grad(g)(0.5), np.sin(0.5) + 0.5 * np.cos(0.5))


# ----------------------------------------------------------------------------- caching


def test_a_body_is_traced_once() -> None:
    traced = []

    def body(c: Any, x: Any) -> Any:
        traced.append(1)
        return c + x, c

    for _ in range(3):
        lax.scan(body, np.float32(0), X)
    assert len(traced) == 1
    minijax.grad(lambda x: lax.scan(body, np.float32(0), x)[0])(X)
    assert len(traced) == 1


def test_transposed_scan_with_a_known_carry() -> None:
    def f(x: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            n, c = carry
            return (n + 1.0, c * n), c

        return lax.scan(body, (1.0, x), None, 3)[1]

    transposed = minijax.linear_transpose(f, np.float32(0))
    np.testing.assert_allclose(transposed(np.float32([1, 1, 1]))[0], 1 + 1 + 2)
