"""After any exception the next call is clean: nothing is left behind, in any thread.

A case builds a function that somewhere within it calls `act`, which raises what it was
told to, or nothing. The function is called twice while it raises, and once more after
it has stopped: the error must be the same both times, no context may stay entered, and
the mended call must give its value. So it is for programs of `docs/errors.md`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import minijax as jax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.mesh import get_concrete_mesh
from minijax.core.trace import axis_env, is_evaluating, shaped
from minijax.experimental import io_callback
from minijax.sharding import AxisType, get_abstract_mesh
from minijax.sharding import PartitionSpec as P
from tests.test_errors_page import FAILING, failure

V = np.arange(4, dtype=np.float32)


class Boom(Exception):
    """An error of the user's."""


class Stopped(BaseException):
    """What comes from outside, as `KeyboardInterrupt` does."""


class Act:
    """Raises what it is told to, and then no more."""

    def __init__(self, error: type[BaseException] | None):
        self.error = error

    def __call__(self, x: Any) -> Any:
        if self.error is not None:
            raise self.error("from the body")
        return x


Case = Callable[[Act], Callable[[], Any]]


def mesh_of(kind: AxisType = AxisType.Auto) -> Any:
    return jax.make_mesh((4,), ("i",), axis_types=(kind,))


def f32(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float32)


def custom_vjp(act: Act, forward: bool) -> Callable[[], Any]:
    def fwd(x: Any) -> Any:
        return act(x) if forward else x, None

    def bwd(_: Any, ct: Any) -> Any:
        return (ct if forward else act(ct),)

    f = jax.custom_vjp(lambda x: x)
    f.defvjp(fwd, bwd)
    return lambda: jax.grad(lambda x: f(x).sum())(V)


def custom_jvp(act: Act) -> Callable[[], Any]:
    f = jax.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primals[0], act(tangents[0])))
    return lambda: jax.jvp(f, (V,), (V,))


def sharded(act: Act) -> Callable[[], Any]:
    f = jax.shard_map(act, mesh=mesh_of(), in_specs=P("i"), out_specs=P("i"))
    return lambda: f(V)


def jitted_shard_map_of_scan(act: Act) -> Callable[[], Any]:
    def body(x: Any) -> Any:
        return lax.scan(lambda c, _: (act(c), None), x, None, length=2)[0]

    f = jax.shard_map(body, mesh=mesh_of(), in_specs=P("i"), out_specs=P("i"))
    loss = jax.jit(jax.grad(lambda x: f(x).sum()))
    return lambda: loss(V)


def in_a_mesh(act: Act) -> Callable[[], Any]:
    def call() -> Any:
        with jax.set_mesh(mesh_of(AxisType.Explicit)):
            return jax.jit(act)(jax.device_put(V, P("i")))

    return call


def in_two_meshes(act: Act) -> Callable[[], Any]:
    """The inner context is left by the exception, and the outer one is still there."""

    def call() -> Any:
        outer = mesh_of()
        with jax.set_mesh(outer):
            try:
                with jax.set_mesh(mesh_of(AxisType.Explicit)):
                    return act(V)
            finally:
                assert get_concrete_mesh() == outer
                assert get_abstract_mesh() == outer.abstract_mesh

    return call


def in_a_generator(act: Act) -> Callable[[], Any]:
    """A context that a generator has entered is left when the generator is closed."""

    def steps() -> Any:
        with jax.set_mesh(mesh_of()):
            yield 1
            yield act(V)

    def call() -> Any:
        with_mesh = steps()
        try:
            return [next(with_mesh), next(with_mesh)][1]
        finally:
            with_mesh.close()

    return call


def vmap_of_names(act: Act) -> Callable[[], Any]:
    def row(x: Any) -> Any:
        return jax.vmap(lambda v: lax.psum(act(v), ("i", "j")), axis_name="j")(x)

    return lambda: jax.vmap(row, axis_name="i")(np.stack([V, V]))


BODIES: dict[str, Case] = {
    "jit": lambda act: partial(jax.jit(act), V),
    "jit in jit": lambda act: partial(jax.jit(lambda x: jax.jit(act)(x)), V),
    "vmap": lambda act: lambda: jax.vmap(act)(V),
    "vmap of names": vmap_of_names,
    "grad": lambda act: lambda: jax.grad(lambda x: act(x).sum())(V),
    "jvp": lambda act: lambda: jax.jvp(act, (V,), (V,)),
    "vjp": lambda act: lambda: jax.vjp(act, V)[1](V),
    "linearize": lambda act: lambda: jax.linearize(act, V)[1](V),
    "hessian": lambda act: lambda: jax.hessian(lambda x: act(x * x).sum())(V),
    "make_jaxpr": lambda act: lambda: str(jax.make_jaxpr(act)(V)),
    "eval_shape": lambda act: lambda: str(jax.eval_shape(act, V)),
    "scan": lambda act: lambda: lax.scan(lambda c, x: (act(c), x), 0.0, V),
    "map": lambda act: lambda: lax.map(act, V),
    "cond": lambda act: lambda: lax.cond(True, act, lambda x: x, V),
    "switch": lambda act: lambda: lax.switch(1, [lambda x: x, act], V),
    "condition": lambda act: (
        lambda: lax.while_loop(lambda x: act(x).sum() < 9, lambda x: x + 1, V)
    ),
    "loop": lambda act: lambda: lax.fori_loop(0, 3, lambda i, x: act(x), V),
    "checkpoint": lambda act: (
        lambda: jax.grad(lambda x: jax.checkpoint(act)(x).sum())(V)
    ),
    "custom_jvp": custom_jvp,
    "custom_vjp, forward": lambda act: custom_vjp(act, True),
    "custom_vjp, backward": lambda act: custom_vjp(act, False),
    "shard_map": sharded,
    "jit of grad of shard_map of scan": jitted_shard_map_of_scan,
    "set_mesh": in_a_mesh,
    "two meshes": in_two_meshes,
    "a generator": in_a_generator,
    "grad of vmap of cond": lambda act: (
        lambda: jax.grad(
            lambda x: jax.vmap(lambda v: lax.cond(v > 1, act, jnp.sin, v))(x).sum()
        )(V)
    ),
}


def jitted(host: Callable[[Act, Any], Any]) -> Case:
    return lambda act: partial(jax.jit(lambda x: host(act, x)), V)


HOSTS: dict[str, Case] = {
    "pure_callback": jitted(lambda act, x: jax.pure_callback(act, f32(4), x)),
    "io_callback": jitted(lambda act, x: io_callback(act, f32(4), x)),
    "ordered io_callback": jitted(
        lambda act, x: io_callback(act, f32(4), x, ordered=True)
    ),
    "debug.callback": jitted(lambda act, x: (jax.debug.callback(act, x), x)[1]),
    "ordered debug.callback": jitted(
        lambda act, x: (jax.debug.callback(act, x, ordered=True), x)[1]
    ),
}


def nothing_is_left() -> None:
    assert is_evaluating()
    assert not axis_env().sizes
    assert get_abstract_mesh().empty
    assert get_concrete_mesh().empty
    total = jax.vmap(lambda v: lax.psum(v, "i"), axis_name="i")(V)
    np.testing.assert_array_equal(total, [6, 6, 6, 6])


def until_done(call: Callable[[], Any]) -> Any:
    """The result of a call, or the error of a program that it started."""
    result = jax.block_until_ready(call())
    jax.effects_barrier()
    return result


def fails_and_recovers(case: Case, error: type[BaseException], host: bool) -> None:
    expected = until_done(case(Act(None)))
    act = Act(error)
    call = case(act)
    texts: list[str] = []
    for _ in range(2):
        with pytest.raises(RuntimeError if host else error) as caught:
            until_done(call)
        texts.append(str(caught.value))
        nothing_is_left()
        jax.effects_barrier()
    assert all("from the body" in text for text in texts)
    act.error = None
    jax.tree.map(np.testing.assert_array_equal, until_done(call), expected)
    nothing_is_left()


@pytest.mark.parametrize("error", [Boom, Stopped, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("name", BODIES)
def test_an_exception_in_a_body(name: str, error: type[BaseException]):
    fails_and_recovers(BODIES[name], error, host=False)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", HOSTS)
def test_an_exception_in_a_callback(name: str):
    fails_and_recovers(HOSTS[name], Boom, host=True)


def test_a_refused_shape_is_not_kept():
    """A complex 2 equals 2, but no later call may find it as a dimension's size."""
    wrong: list[Any] = [np.array([1, 3], np.complex64), (1.0, 3.0), (1j, 4)]
    for sizes in wrong:
        with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete"):
            lax.split(V, sizes)
        with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete"):
            shaped(tuple(np.add(sizes, 0.5)), np.float32)
    assert [type(d) for x in lax.split(V, (1, 3)) for d in x.shape] == [int, int]
    size: Any = np.int64(77)
    assert type(shaped((size,), np.float32).shape[0]) is int


def test_in_four_threads_at_once():
    """Each thread has an order of its own; what one leaves, another would find."""

    def one(seed: int) -> int:
        order = [*BODIES.values()]
        random.Random(seed).shuffle(order)
        for k, case in enumerate(order):
            fails_and_recovers(case, (Boom, Stopped)[k % 2], host=False)
        return len(order)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == [len(BODIES)] * 4


#: These programs keep tracers, which the check on leaks would report here.
LEAKING = ("UnexpectedTracerError", "How to catch a leak earlier")
PAGE = [(title, text) for title, text in FAILING if title not in LEAKING]


@pytest.mark.filterwarnings("ignore")
def test_programs_of_the_page_on_errors_in_four_threads():
    def one(seed: int) -> None:
        order = [*PAGE]
        random.Random(seed).shuffle(order)
        for _, program in order:
            first = failure(program)
            nothing_is_left()
            assert failure(program) == first
            nothing_is_left()

    one(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(1, 5)))
