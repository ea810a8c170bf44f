"""What is current (trace, axes, mesh) is per thread and restored by exceptions."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax
from minijax import lax
from minijax.core.mesh import get_abstract_mesh, get_concrete_mesh
from minijax.core.trace import axis_env, current_trace, is_evaluating
from minijax.sharding import AxisType
from minijax.sharding import PartitionSpec as P

V = np.arange(4, dtype=np.float32)


def _fail(x: Any) -> Any:
    raise KeyError("on purpose")


def _mesh(kind: AxisType = AxisType.Auto) -> Any:
    return minijax.make_mesh((4,), ("i",), axis_types=(kind,))


def _shard_map(f: Any) -> Any:
    return minijax.shard_map(f, mesh=_mesh(), in_specs=P("i"), out_specs=P("i"))


VERBS: dict[str, Callable[[Any], Any]] = {
    "jit": minijax.jit,
    "vmap": minijax.vmap,
    "named vmap": lambda f: minijax.vmap(f, axis_name="i"),
    "grad": lambda f: minijax.grad(lambda x: lax.reduce_sum(f(x), (0,))),
    "jvp": lambda f: lambda x: minijax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: minijax.linearize(f, x),
    "vjp": lambda f: lambda x: minijax.vjp(f, x),
    "make_jaxpr": minijax.make_jaxpr,
    "axis_env": lambda f: minijax.make_jaxpr(f, axis_env=[("i", 2)]),
    "eval_shape": lambda f: lambda x: minijax.eval_shape(f, x),
    "shard_map": _shard_map,
    "jit of shard_map": lambda f: minijax.jit(_shard_map(f)),
    "grad in jit": lambda f: minijax.jit(minijax.grad(lambda x: f(x)[0])),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_an_exception_leaves_nothing_behind(verb: Any) -> None:
    before = current_trace(), axis_env(), get_abstract_mesh(), get_concrete_mesh()
    with pytest.raises(KeyError, match="on purpose"):
        verb(_fail)(V)
    after = current_trace(), axis_env(), get_abstract_mesh(), get_concrete_mesh()
    assert is_evaluating()
    assert before == after
    np.testing.assert_array_equal(minijax.jit(lax.neg)(V), -V)


def test_a_failed_trace_is_not_cached() -> None:
    fail = [True]

    def f(x: Any) -> Any:
        if fail.pop():
            raise KeyError("on purpose")
        return lax.neg(x)

    jitted = minijax.jit(f)
    with pytest.raises(KeyError):
        jitted(V)
    fail.append(False)
    np.testing.assert_array_equal(jitted(V), -V)


def test_a_mesh_is_left_by_an_exception() -> None:
    f = minijax.jit(_fail)
    with pytest.raises(KeyError), minijax.set_mesh(_mesh()):
        f(V)
    assert get_abstract_mesh().empty


def _in_threads(*programs: Callable[[], Any]) -> list[Any]:
    """Runs programs at the same time; returns their results or exceptions."""
    results: list[Any] = [None] * len(programs)

    def run(i: int) -> None:
        try:
            results[i] = programs[i]()
        except Exception as e:
            results[i] = e

    threads = [
        threading.Thread(target=run, args=(i,), daemon=True)
        for i in range(len(programs))
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    return results


def test_two_threads_trace_at_once() -> None:
    """Each waits inside its trace until the other is in its own."""
    meet = threading.Barrier(2, timeout=30)

    def program(scale: float) -> Any:
        def f(x: Any) -> Any:
            y = lax.mul(x, scale)
            meet.wait()
            return lax.psum(lax.sin(y), "i")

        def mapped(x: Any) -> Any:
            return minijax.vmap(f, axis_name="i", out_axes=None)(x)

        return minijax.jit(minijax.grad(mapped))(V)

    found = _in_threads(lambda: program(2.0), lambda: program(3.0))
    for scale, gradient in zip((2.0, 3.0), found, strict=True):
        np.testing.assert_allclose(gradient, scale * np.cos(scale * V), rtol=1e-5)


def test_a_thread_does_not_see_the_mesh_or_trace_of_another() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        (found,) = _in_threads(
            lambda: (is_evaluating(), axis_env().sizes, get_abstract_mesh().empty)
        )
        seen.append(found)
        return x

    with minijax.set_mesh(_mesh()):
        minijax.jit(minijax.vmap(look, axis_name="k"))(V)
    assert seen == [(True, {}, True)]


def test_threads_share_what_is_compiled() -> None:
    f = minijax.jit(lambda x: lax.add(lax.sin(x), x))
    found = _in_threads(*[lambda: np.asarray(f(V))] * 6)
    for value in found:
        np.testing.assert_allclose(value, np.sin(V) + V, rtol=1e-6)


def test_tracing_in_a_callback_of_a_trace_is_evaluation_of_its_own() -> None:
    """A jitted function called on arrays inside a trace is traced into it."""
    inner = minijax.jit(lax.sin)
    text = str(minijax.make_jaxpr(lambda x: lax.add(x, inner(V)))(V))
    assert "name=sin" in text
