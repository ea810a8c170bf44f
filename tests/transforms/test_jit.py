"""`jit`: caching, options, and the stages of a program."""

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.sharding import AxisType, NamedSharding
from minijax.sharding import PartitionSpec as P

V = np.arange(3, dtype=np.float32)


def counted(fun: Any) -> tuple[Any, list[int]]:
    """A function, and a list that grows by one each time it is traced."""
    traces: list[int] = []

    @functools.wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> Any:
        traces.append(1)
        return fun(*args, **kwargs)

    return traced, traces


@pytest.mark.parametrize(
    "other",
    [
        V + 1,
        np.array([5.0, 6.0, 7.0], np.float32),
        jnp.asarray(V),
        minijax.device_put(V),
    ],
    ids=["numpy", "other numpy", "array", "put"],
)
def test_a_type_is_traced_once(other: Any) -> None:
    fun, traces = counted(lambda x: x * 2)
    f = minijax.jit(fun)
    np.testing.assert_array_equal(f(V), V * 2)
    np.testing.assert_array_equal(f(other), np.asarray(other) * 2)
    assert len(traces) == 1


@pytest.mark.parametrize(
    "other",
    [V.astype(np.int32), V[:2], V.reshape(1, 3), 1.0, (V,)],
    ids=["dtype", "size", "rank", "weak", "tree"],
)
def test_another_type_is_traced_again(other: Any) -> None:
    fun, traces = counted(lambda x: x)
    f = minijax.jit(fun)
    f(V)
    f(other)
    assert len(traces) == 2


def test_positional_and_keyword_arguments_are_told_apart() -> None:
    f = minijax.jit(lambda x, y: x - y)
    np.testing.assert_array_equal(f(V, y=1.0), V - 1)
    np.testing.assert_array_equal(f(y=V, x=1.0), 1 - V)
    np.testing.assert_array_equal(f(V, 1.0), V - 1)


def test_static_values_are_compared_by_equality() -> None:
    fun, traces = counted(lambda x, options: x * options[0])
    f = minijax.jit(fun, static_argnums=1)
    np.testing.assert_array_equal(f(V, (2, "a")), V * 2)
    np.testing.assert_array_equal(f(V, (2, "a")), V * 2)
    np.testing.assert_array_equal(f(V, (3, "a")), V * 3)
    assert len(traces) == 2


def test_static_arguments_may_stand_between_others() -> None:
    f = minijax.jit(lambda a, n, b, *, m: a * n + b * m, static_argnums=(1,),
                    static_argnames=("m",))  # fmt: skip
    np.testing.assert_array_equal(f(V, 2, V, m=3), V * 5)


def test_arrays_of_a_closure_are_read_when_traced() -> None:
    box = {"w": np.float32(2)}
    f = minijax.jit(lambda x: x * box["w"])
    np.testing.assert_array_equal(f(V), V * 2)
    box["w"] = np.float32(3)
    np.testing.assert_array_equal(f(V), V * 2)


def test_captured_arrays_can_be_large() -> None:
    w = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64)).astype("f"))
    f = minijax.jit(lambda x: w @ x)
    x = np.ones(64, np.float32)
    np.testing.assert_allclose(f(x), np.asarray(w) @ x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        minijax.grad(lambda x: jnp.sum(f(x)))(x), np.asarray(w).sum(0), rtol=1e-4
    )


def test_a_wrapper_looks_like_its_function() -> None:
    def area(width: float, height: float) -> float:
        """Square metres."""
        return width * height

    f = minijax.jit(area)
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("area", "Square metres.", area)
    g = minijax.jit(f, static_argnums=())
    assert g.__wrapped__ is f
    np.testing.assert_array_equal(g(2.0, 3.0), 6.0)


def test_a_wrapper_of_a_wrapper_has_its_own_options() -> None:
    inner = minijax.jit(lambda x, n: x * n)
    outer = minijax.jit(inner, static_argnums=1)
    assert "i32" not in str(minijax.make_jaxpr(lambda x: outer(x, 2))(V)).split("\n")[1]
    np.testing.assert_array_equal(outer(V, 2), V * 2)
    np.testing.assert_array_equal(inner(V, 2), V * 2)


def test_decorators() -> None:
    @minijax.jit
    def f(x: Any) -> Any:
        return x + 1

    @minijax.jit(static_argnames="n")
    def g(x: Any, n: int) -> Any:
        return x * n

    np.testing.assert_array_equal(f(V), V + 1)
    np.testing.assert_array_equal(g(V, n=2), V * 2)


def test_methods_share_a_cache_and_know_their_instance() -> None:
    class Scaled:
        def __init__(self, scale: float):
            self.scale = scale

        @functools.partial(minijax.jit, static_argnums=0)
        def __call__(self, x: Any) -> Any:
            return x * self.scale

    two, three = Scaled(2.0), Scaled(3.0)
    np.testing.assert_array_equal(two(V), V * 2)
    np.testing.assert_array_equal(three(V), V * 3)
    assert "stablehlo.multiply" in Scaled.__call__.lower(two, V).as_text()
    assert "stablehlo.multiply" in two.__call__.lower(V).as_text()


def test_a_dropped_function_is_freed() -> None:
    class Weighs:
        pass

    weight = Weighs()
    alive = weakref.ref(weight)
    f = minijax.jit(lambda x, weight=weight: x + 1)
    f(V)
    del f, weight
    gc.collect()
    assert alive() is None


def test_donated_arguments_are_deleted() -> None:
    f = minijax.jit(lambda x, y: (x + 1, y), donate_argnums=0)
    x, y = minijax.device_put(V), minijax.device_put(V)
    out, _ = f(x, y)
    np.testing.assert_array_equal(out, V + 1)
    assert x.is_deleted()
    assert not y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        f(x, y)


def test_results_lie_where_they_are_asked_for() -> None:
    mesh = minijax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    sharding = NamedSharding(mesh, P("x", "y"))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    out = minijax.jit(lambda x: x * 2, out_shardings=sharding)(x)
    assert out.sharding == sharding
    assert [s.data.shape for s in out.addressable_shards] == [(1, 2)] * 8
    np.testing.assert_array_equal(out, x * 2)


def test_a_program_follows_its_committed_arguments() -> None:
    device = minijax.devices()[3]
    x = minijax.device_put(V, device)
    out = minijax.jit(lambda x: x + 1)(x)
    assert out.devices() == {device}
    with pytest.raises(ValueError, match="incompatible devices"):
        minijax.jit(lambda x, y: x + y)(x, minijax.device_put(V, minijax.devices()[1]))


def test_the_stages_can_be_gone_through_one_by_one() -> None:
    f = minijax.jit(lambda x: jnp.sin(x) * 2)
    assert "sin" in str(f.trace(V))
    lowered = f.lower(minijax.ShapeDtypeStruct((3,), np.float32))
    assert "stablehlo.sine" in lowered.as_text()
    compiled = lowered.compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0
    np.testing.assert_allclose(compiled(V), np.sin(V) * 2, rtol=1e-6)


def test_dead_arguments_need_not_be_there() -> None:
    f = minijax.jit(lambda x, y: x)
    assert "%arg1" not in f.lower(V, V).as_text()
    kept = minijax.jit(lambda x, y: x, keep_unused=True)
    assert "%arg1" in kept.lower(V, V).as_text()
    np.testing.assert_array_equal(kept(V, V + 1), V)


def test_a_cleared_cache_is_filled_again() -> None:
    fun, traces = counted(lambda x: x + 1)
    f = minijax.jit(fun)
    f(V)
    f.clear_cache()
    f(V)
    assert len(traces) == 2


def test_only_what_does_not_fit_is_named_among_shardings() -> None:
    f = minijax.jit(lambda a, b: a, in_shardings=({"x": None}, None))
    with pytest.raises(ValueError, match="1 found") as info:
        f(1.0, 2.0)
    assert "in_shardings[1]" not in str(info.value)


def test_a_captured_numpy_array_is_captured_as_it_was() -> None:
    captured = np.ones(3, np.float32)
    f = minijax.jit(lambda x: x + captured)
    f(1.0)
    captured[:] = 5
    assert np.array_equal(f(1.0), [2, 2, 2])
