"""Python callbacks and ordered effects: what is called, when, how often, with what.

The first part holds programs against upstream; the second shows what has no likeness
there, or differs on purpose.
"""

import importlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.core.errors.tracing import NotAValueError
from minijax.core.primitive import Primitive
from minijax.experimental import io_callback
from minijax.lax import cond, fori_loop, scan, stop_gradient, while_loop
from minijax.sharding import NamedSharding
from minijax.sharding import PartitionSpec as P
from minijax.transforms.checkpoint import checkpoint
from tests.conformance.harness import conformance, error, text

SCALAR = np.zeros((), np.float32)
X = np.array([0.3, -0.5, 0.8, 1.1], np.float32)


def _io(jax: Any) -> Any:
    return importlib.import_module(f"{jax.__name__}.experimental").io_callback


def _checkpoint(jax: Any) -> Any:
    return checkpoint if jax is minijax else jax.checkpoint


def _same(x: Any) -> Any:
    return x


def _mesh(jax: Any, *sizes: int) -> Any:
    auto = (jax.sharding.AxisType.Auto,) * len(sizes)
    return jax.make_mesh(sizes, ("i", "j")[: len(sizes)], axis_types=auto)


def _spec(jax: Any, *names: Any) -> Any:
    return jax.sharding.PartitionSpec(*names)


def _hlo(jax: Any, f: Callable[..., Any], *args: Any) -> str:
    return jax.jit(f).lower(*args).as_text()


class Log:
    """What callbacks saw, in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.seen.append(np.asarray(x).tolist())
        return x


# --------------------------------------------------------- programs, as upstream has it


def printed_jaxprs(jax: Any) -> Any:
    io = _io(jax)

    def pure(x: Any) -> Any:
        return jax.pure_callback(_same, x, x)

    return [
        text(jax, pure, 1.0),
        text(jax, lambda x: io(_same, x, x, ordered=True), 1.0),
        text(jax, lambda x: io(_same, {"a": x}, {"a": x}), 1.0),
        text(jax, lambda x: jax.debug.callback(_same, x, ordered=True), 1.0),
        text(jax, lambda x: jax.debug.callback(_same, x, "a", y=3), 1.0),
        text(jax, lambda x: jax.debug.print("{} {}", x, "a", ordered=True), 1.0),
        text(jax, jax.jit(lambda x: jax.debug.print("no")), 1.0),
        text(
            jax, jax.grad(jax.jit(lambda x: (jax.debug.print("{}", x), x * x)[1])), 1.0
        ),
    ]


def printed_when_mapped(jax: Any) -> Any:
    io, axes = _io(jax), (0, None)

    def pure(method: str) -> Any:
        def f(x: Any, y: Any) -> Any:
            return jax.pure_callback(np.add, SCALAR, x, y, vmap_method=method)

        return text(jax, jax.vmap(f, in_axes=axes), X, 1.0)

    methods = ["expand_dims", "broadcast_all", "sequential", "sequential_unrolled"]
    return [
        *map(pure, methods),
        text(
            jax, jax.vmap(lambda x, y: io(np.add, SCALAR, x, y), in_axes=axes), X, 1.0
        ),
        text(jax, jax.vmap(lambda x: jax.debug.print("{}", x)), X),
    ]


def modules(jax: Any) -> Any:
    io = _io(jax)

    def ordered(x: Any) -> Any:
        return io(_same, x, x, ordered=True)

    return [
        _hlo(jax, ordered, SCALAR),
        _hlo(jax, lambda x: jax.jit(ordered)(x) + ordered(x), SCALAR),
        _hlo(jax, lambda x: io(_same, x, x), X),
        _hlo(jax, lambda x: io(_same, None, x, ordered=True), X),
        _hlo(jax, lambda x: jax.pure_callback(_same, x, x), np.ones((2, 3), np.int32)),
        _hlo(jax, lambda x: (jax.debug.print("{}", x), x)[1], SCALAR),
        _hlo(jax, lambda x: (jax.debug.print("{}", x, ordered=True), x)[1], SCALAR),
        _hlo(jax, lambda x: (jax.debug.callback(_same, x, partitioned=True), x)[1], X),
    ]


def modules_of_control_flow(jax: Any) -> Any:
    io, lax = _io(jax), jax.lax

    def ordered(x: Any) -> Any:
        return io(_same, SCALAR, x, ordered=True)

    def note(x: Any) -> Any:
        jax.debug.print("{}", x, ordered=True)
        return x + 1

    def goes_on(x: Any) -> Any:
        return io(lambda x: x < 3, np.bool_(0), x, ordered=True)

    return [
        _hlo(jax, lambda p, x: lax.cond(p, ordered, _same, x), True, SCALAR),
        _hlo(jax, lambda i: lax.switch(i, [lambda: note(1), lambda: 2, lambda: 3]), 1),
        _hlo(
            jax,
            lambda x, xs: lax.scan(lambda c, x: (ordered(c) + x, c), x, xs),
            SCALAR,
            X,
        ),
        _hlo(jax, lambda x: lax.scan(lambda c, x: (c + x, note(c)), 0.0, x), X),
        _hlo(jax, lambda x: lax.while_loop(lambda c: c < 3, note, x), SCALAR),
        _hlo(jax, lambda x: lax.while_loop(goes_on, lambda c: c + 1, x), SCALAR),
    ]


def modules_on_several_devices(jax: Any) -> Any:
    io, mesh, spec = _io(jax), _mesh(jax, 4), _spec(jax, "i")

    def mapped(f: Any, **kwargs: Any) -> Any:
        return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, **kwargs)

    def show(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    x = jax.device_put(X, jax.sharding.NamedSharding(mesh, spec))
    both = _mesh(jax, 2, 4)
    partly = jax.shard_map(
        show, mesh=both, in_specs=spec, out_specs=spec, axis_names={"i"}
    )
    return [
        _hlo(jax, mapped(lambda x: io(_same, X[:1], x, ordered=True)), X),
        _hlo(jax, mapped(lambda x: (io(_same, None, x), x)[1]), X),
        _hlo(jax, mapped(show), X),
        _hlo(jax, partly, X),
        _hlo(jax, lambda x: io(_same, X, x, ordered=True), x),
        _hlo(jax, show, x),
    ]


def values(jax: Any) -> Any:
    io = _io(jax)

    def pure(x: Any) -> Any:
        return jax.pure_callback(np.sin, SCALAR, x, vmap_method="sequential")

    def tree(x: Any, *, y: Any) -> Any:
        return {"a": x + y, "b": (np.int32(3),)}

    types = {"a": SCALAR, "b": (np.int32(0),)}
    return [
        pure(1.0),
        jax.jit(pure)(1.0),
        jax.vmap(pure)(X),
        jax.jit(jax.vmap(jax.vmap(pure)))(X.reshape(2, 2)),
        jax.pure_callback(tree, types, 1.0, y=2.0),
        jax.jit(lambda x: io(tree, types, x, y=2.0, ordered=True))(1.0),
        jax.pure_callback(lambda: 2.5, SCALAR),
        io(lambda: None, None),
        jax.pure_callback(_same, np.zeros(0, bool), np.zeros(0, bool)),
        jax.pure_callback(_same, jax.numpy.bfloat16(0), jax.numpy.bfloat16(2)),
        jax.vmap(
            lambda x, y: jax.pure_callback(np.add, x, x, y, vmap_method="expand_dims")
        )(X, X),
        jax.vmap(lambda x: io(np.cos, x, x))(X),
        jax.jit(lambda x: (pure(x), jax.grad(lambda y: y * pure(x))(2.0)))(1.0),
    ]


def refusals(jax: Any) -> Any:
    io = _io(jax)

    def ordered(x: Any) -> Any:
        return io(_same, SCALAR, x, ordered=True)

    def pure(x: Any) -> Any:
        return jax.pure_callback(_same, SCALAR, x)

    def looked_at(x: Any) -> Any:
        io(_same, None, x)
        return x

    def several(x: Any) -> Any:
        jax.debug.callback(_same, x, partitioned=False, ordered=False)
        return jax.pure_callback(_same, x, x)

    mesh, spec = _mesh(jax, 2, 4), _spec(jax, "i")
    partly = jax.shard_map(
        several, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={"i"}
    )
    print_ = jax.debug.print
    return [
        error(jax.grad(ordered), 1.0),
        error(jax.grad(pure), 1.0),
        error(jax.vmap(ordered), X),
        error(jax.vmap(pure), X),
        error(jax.grad(_checkpoint(jax)(lambda x: looked_at(x) * 2)), 1.0).name,
        error(jax.jit(partly), X),
        error(jax.pure_callback, _same, SCALAR, 1.0, vmap_method="x"),
        error(jax.pure_callback, _same, np.zeros(()), 1.0),
        error(io, _same, 3, 1.0),
        error(jax.pure_callback, _same, SCALAR, object()),
        error(jax.debug.callback, 3, 2),
        error(jax.debug.callback, None, 2),
        error(print_, None, 2),
        error(print_, "{}"),
        error(print_, "{}", 1, 2),
        error(print_, "a", b=2),
    ]


def whole_arrays_of_several_devices(jax: Any) -> Any:
    """Where nothing is traced, a callback is given what there is, wherever it lies."""
    io, seen = _io(jax), []
    x = jax.device_put(X, jax.sharding.NamedSharding(_mesh(jax, 4), _spec(jax, "i")))

    def see(x: Any) -> Any:
        seen.append(np.asarray(x).tolist())
        return np.asarray(x)

    for ordered in (False, True):
        for partitioned in (False, True):
            kinds = {"ordered": ordered, "partitioned": partitioned}
            jax.debug.callback(see, x, **kinds)
    jax.debug.callback(see, x.sum(), ordered=True)
    results = [
        jax.pure_callback(see, X, x),
        jax.pure_callback(see, SCALAR, x.sum()),
        io(see, X, x),
        io(see, X, x, ordered=True),
    ]
    jax.effects_barrier()
    # Not as arrays: upstream says where they lie in terms of XLA.
    return [*map(np.asarray, results), *[len(r.devices()) for r in results], seen]


def raised_by_eager_debugging(jax: Any) -> Any:
    """The function's own exception, there and then."""

    def fails(x: Any) -> None:
        raise ZeroDivisionError("the user's words")

    calls, print_ = jax.debug.callback, jax.debug.print
    return [
        error(calls, fails, 1.0),
        error(calls, fails, 1.0, ordered=True),
        error(jax.vmap(lambda x: calls(fails, x)), X),
        error(jax.grad(lambda x: (calls(fails, x), x)[1]), 1.0),
        error(print_, "{:.2f}", X),
        error(print_, "{:d}", 1.5),
        error(print_, "{x!z}", x=1.5),
        error(print_, "{"),
        error(print_, "{} {1}", 1, 2),
    ]


def wrong_results(jax: Any) -> Any:
    def last_line(fun: Any) -> Any:
        raised = error(lambda: jax.block_until_ready(jax.pure_callback(fun, SCALAR)))
        return raised.name, raised.message.strip().splitlines()[-1]

    def fails() -> None:
        raise ZeroDivisionError("the user's words")

    return [
        last_line(lambda: X),
        last_line(lambda: np.int32(1)),
        last_line(lambda: (1.0, 2.0)),
        last_line(lambda: "words"),
        last_line(object),
        last_line(lambda: None),
        last_line(lambda: {"a": 1.0, "b": 2.0}),
        last_line(fails),
    ]


def ordered_debug_on_several_devices(jax: Any) -> Any:
    x = jax.device_put(X, jax.sharding.NamedSharding(_mesh(jax, 4), _spec(jax, "i")))
    f = jax.jit(lambda x: (jax.debug.print("{}", x, ordered=True), x)[1])
    return error(f, x).message.partition("[")[0]


def printing(jax: Any) -> Any:
    """What is printed by eager, mapped, differentiated and compiled code."""
    lines: list[str] = []

    class Out:
        def write(self, line: str) -> None:
            lines.append(line)

        def flush(self) -> None:
            pass

    def f(x: Any) -> Any:
        jax.debug.print("{} {a:.2f}", x, a=x * 2, ordered=True)
        return x * x

    def again(x: Any) -> Any:
        return jax.numpy.sin(f(x))

    out, sys.stdout = sys.stdout, Out()  # type: ignore[assignment]
    try:
        f(1.0)
        jax.vmap(f)(X)
        jax.jit(jax.vmap(f))(X)
        jax.grad(f)(3.0)
        jax.jit(jax.grad(f))(3.0)
        jax.grad(_checkpoint(jax)(again))(4.0)
        jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c + f(c), x))(1.0)
        jax.vmap(lambda n: jax.lax.while_loop(lambda c: c < 3, lambda c: f(c) + 1, n))(
            np.array([1, 2], np.float32)
        )
        jax.debug.print("{x} {y} %", x=np.arange(3), y="a")
        jax.debug.print("bare")
        jax.debug.print("{} {}", {7}, np.float32(1))
        with np.printoptions(precision=2, formatter={"int": lambda x: f"<{x}>"}):
            jax.debug.print("{} {}", np.arange(2), X)
            jax.jit(lambda x: jax.debug.print("{}", x))(np.arange(2))
        jax.debug.print(ordered=True)("{}", np.float32(1))
        jax.debug.print("more", 1, skip_format_check=True)
        jax.effects_barrier()
    finally:
        sys.stdout = out
    return lines


test = conformance(globals())


# ---------------------------------------------------------------- order within programs


def ordered_log() -> tuple[Log, Callable[[Any], Any]]:
    log = Log()
    return log, lambda x: io_callback(log, SCALAR, x, ordered=True)


def run(f: Callable[..., Any], *args: Any) -> None:
    minijax.jit(f)(*args)
    minijax.effects_barrier()


def test_calls_are_in_the_order_of_the_program() -> None:
    log, call = ordered_log()

    def f(x: Any) -> Any:
        for i in range(5):
            call(x + i)
        return x

    run(f, 1.0)
    assert log.seen == [1, 2, 3, 4, 5]


def test_inner_functions_keep_the_order() -> None:
    log, call = ordered_log()
    inner = minijax.jit(lambda x: call(x) + 10)
    run(lambda x: (call(x), inner(x + 1), call(x + 2), inner(x + 3))[1], 1.0)
    assert log.seen == [1, 2, 3, 4]


def test_branches_keep_the_order() -> None:
    log, call = ordered_log()

    def f(p: Any, x: Any) -> Any:
        call(x)
        y = cond(p, lambda x: call(call(x + 1) + 1), lambda x: x, x)
        return call(y + 100)

    run(f, True, 1.0)
    run(f, False, 1.0)
    assert log.seen == [1, 2, 3, 103, 1, 101]


def test_loops_keep_the_order() -> None:
    log, call = ordered_log()

    def f(x: Any) -> Any:
        call(x)
        x, _ = scan(lambda c, s: (call(c + s), s), x, jnp.arange(3.0))
        x = fori_loop(0, 2, lambda i, c: call(c) + 1, x)
        return while_loop(lambda c: call(c) < 8, lambda c: call(c + 0.5) + 0.5, x)

    run(f, 1.0)
    assert log.seen == [1, 1, 2, 4, 4, 5, 6, 6.5, 7, 7.5, 8]


def test_an_unrolled_and_a_reversed_scan_keep_the_order() -> None:
    log, call = ordered_log()

    def f(x: Any) -> Any:
        xs = jnp.arange(5.0)
        scan(lambda c, s: (c, call(s)), x, xs, unroll=2)
        return scan(lambda c, s: (c, call(s)), x, xs, reverse=True, unroll=3)

    run(f, 1.0)
    assert log.seen == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]


def test_programs_of_one_thread_keep_the_order() -> None:
    log, call = ordered_log()

    def slow(x: Any) -> Any:
        time.sleep(0.05)
        return log(x)

    f = minijax.jit(lambda x: io_callback(slow, SCALAR, x, ordered=True))
    g = minijax.jit(call)
    for one, x in zip((f, g, call, f, g), (1.0, 2.0, 3.0, 4.0, 5.0), strict=True):
        one(x)
    minijax.effects_barrier()
    assert log.seen == [1, 2, 3, 4, 5]


def test_the_order_holds_from_one_device_to_another() -> None:
    log, call = ordered_log()
    f = minijax.jit(lambda x: call(x))
    for i, device in enumerate(minijax.devices()[:4]):
        f(minijax.device_put(np.float32(i), device))
    minijax.effects_barrier()
    assert log.seen == [0, 1, 2, 3]


def test_each_device_of_a_shard_map_keeps_the_order() -> None:
    log = Log()
    mesh = _mesh(minijax, 4)

    def body(x: Any) -> Any:
        for _ in range(3):
            x = io_callback(log, X[:1], x, ordered=True) + 10
        return x

    f = minijax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for _ in range(5):
        log.seen.clear()
        out = minijax.jit(f)(np.arange(4, dtype=np.float32))
        minijax.effects_barrier()
        assert out.tolist() == [30, 31, 32, 33]
        for device in range(4):
            mine = [x for (x,) in log.seen if x % 10 == device]
            assert mine == [device, device + 10, device + 20]


def test_a_sharded_program_calls_once_with_the_whole() -> None:
    log = Log()
    x = minijax.device_put(X, NamedSharding(_mesh(minijax, 4), P("i")))
    f = minijax.jit(lambda x: io_callback(log, X, x, ordered=True) * 2)
    out = f(f(x))
    np.testing.assert_allclose(out, 4 * X)
    minijax.effects_barrier()
    assert log.seen == [X.tolist(), (2 * X).tolist()]
    # A result that comes straight from the callback is given to every device.
    out = minijax.jit(lambda x: (io_callback(log, X, x), x + 1))(x)[0]
    assert out.sharding.is_fully_replicated
    assert [s.data.tolist() for s in out.addressable_shards] == [X.tolist()] * 4


def test_both_ordered_effects_in_one_program(capfd: pytest.CaptureFixture[str]) -> None:
    log, call = ordered_log()

    def f(x: Any) -> Any:
        for i in range(3):
            call(x + i)
            minijax.debug.print("{}", x * i, ordered=True)
        return cond(x > 0, call, lambda x: x, x)

    run(f, 1.0)
    assert log.seen == [1, 2, 3, 1]
    assert capfd.readouterr().out.split() == ["0.0", "1.0", "2.0"]


def test_effects_stay_where_nothing_reads_the_results() -> None:
    log = Log()
    pure = Log()

    def f(x: Any) -> Any:
        minijax.jit(lambda x: (io_callback(log, SCALAR, x), 0)[1])(stop_gradient(x))
        minijax.pure_callback(pure, SCALAR, stop_gradient(x))
        return x

    run(f, 1.0)
    run(minijax.grad(f), 2.0)
    assert log.seen == [1, 2]
    assert pure.seen == []


# ------------------------------------------------------------------- errors and threads


def fails(x: Any) -> Any:
    raise ZeroDivisionError(f"no {float(x)}")


def test_eager_debugging_keeps_its_place_after_programs() -> None:
    seen: list[int] = []

    def late(x: Any) -> None:
        time.sleep(0.2)
        seen.append(int(x))

    minijax.jit(lambda x: minijax.debug.callback(late, x, ordered=True))(1)
    minijax.debug.callback(lambda x: seen.append(int(x)), 2, ordered=True)
    assert seen == [1, 2]


KINDS: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "pure": lambda f, x: minijax.pure_callback(f, SCALAR, x),
    "io": lambda f, x: io_callback(f, SCALAR, x),
    "ordered io": lambda f, x: io_callback(f, SCALAR, x, ordered=True),
    "debug": lambda f, x: minijax.debug.callback(f, x),
    "ordered debug": lambda f, x: minijax.debug.callback(f, x, ordered=True),
}


def _or_none(y: Any, x: Any) -> Any:
    return x if y is None else y


HOLDERS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jit": minijax.jit,
    "cond": lambda f: lambda x: cond(x < 9, f, f, x),
    "scan": lambda f: lambda x: scan(lambda c, _: (c, f(c)), x, None, length=2),
    "while": lambda f: (
        lambda x: while_loop(
            lambda c: c[1] < 1, lambda c: (_or_none(f(c[0]), c[0]), c[1] + 1), (x, 0)
        )
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_of_any_kind_names_the_function_and_leaves_nothing(
    kind: str, holder: str
) -> None:
    seen: list[float] = []

    def of_the_user(x: Any) -> Any:
        raise LookupError("the user's words")

    def fine(x: Any) -> Any:
        seen.append(float(x))
        return np.float32(x)

    def run_it(f: Callable[..., Any]) -> None:
        held = HOLDERS[holder](lambda x: KINDS[kind](f, x))
        minijax.block_until_ready(minijax.jit(held)(np.float32(1)))
        minijax.effects_barrier()

    def fails_then_runs() -> None:
        with pytest.raises(minijax.errors.JaxRuntimeError) as e:
            run_it(of_the_user)
        assert "LookupError: the user's words" in str(e.value)
        assert "in of_the_user" in str(e.value)
        minijax.effects_barrier()  # it has been told
        run_it(fine)

    fails_then_runs()
    thread = threading.Thread(target=run_it, args=(fine,))
    thread.start()
    thread.join()
    assert seen
    assert {*seen} == {1.0}


def test_ordered_debugging_in_an_eager_shard_map_is_refused_as_under_jit() -> None:
    def show(x: Any) -> Any:
        minijax.debug.print("{}", x, ordered=True)
        return x

    mapped = minijax.shard_map(
        show, mesh=_mesh(minijax, 4), in_specs=P("i"), out_specs=P("i")
    )
    for f in (mapped, minijax.jit(mapped)):
        with pytest.raises(ValueError, match=r"more than 1 device: \[OrderedDebug\]"):
            f(X)


def test_every_device_of_an_eager_shard_map_calls_as_under_jit() -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        minijax.debug.callback(lambda y: seen.append(int(y)), jnp.int32(3))
        return x

    mapped = minijax.shard_map(
        f, mesh=_mesh(minijax, 4), in_specs=P("i"), out_specs=P("i")
    )
    for g in (mapped, minijax.jit(mapped)):
        seen.clear()
        g(X)
        minijax.effects_barrier()
        assert seen == [3] * 4


def test_what_cannot_be_hashed_is_printed_by_compiled_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    minijax.jit(lambda x: minijax.debug.print("{} {}", {7}, x))(1)
    minijax.effects_barrier()
    assert capsys.readouterr().out == "{7} 1\n"


def test_io_effects_in_mapped_control_flow() -> None:
    """Each element calls as often as it would alone; nothing calls in order of many."""
    log = Log()

    def call(x: Any, ordered: bool = False) -> Any:
        return io_callback(log, SCALAR, x, ordered=ordered)

    chosen = minijax.vmap(lambda x: cond(x > 0.5, call, _same, x))
    np.testing.assert_array_equal(chosen(X), X)
    minijax.effects_barrier()
    loop = minijax.vmap(lambda x: while_loop(lambda c: c < 2, lambda c: call(c) + 1, x))
    np.testing.assert_array_equal(loop(np.arange(3, dtype=np.float32)), [2, 2, 2])
    for f in (
        lambda x: cond(x > 0.5, lambda x: call(x, True), _same, x),
        lambda x: while_loop(lambda c: c < 2, lambda c: call(c, True) + 1, x),
    ):
        with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
            minijax.vmap(f)(X)


@pytest.mark.parametrize("ordered", [False, True])
def test_calls_after_a_failure_are_clean(ordered: bool) -> None:
    log = Log()

    def call(fun: Any) -> Any:
        f = minijax.jit(lambda x: io_callback(fun, SCALAR, x, ordered=ordered))
        return lambda x: f(x).block_until_ready()

    bad, good = call(fails), call(log)
    for i in range(3):
        with pytest.raises(RuntimeError, match=r"ZeroDivisionError: no 1\.0"):
            bad(1.0)
        assert float(good(np.float32(i))) == i
    try:
        minijax.effects_barrier()
    except RuntimeError as error:
        assert "no 1.0" in str(error)  # noqa: PT017 - it may have been told before
    minijax.effects_barrier()
    assert log.seen == [0, 1, 2]


def test_a_failure_on_several_devices_is_told_once() -> None:
    f = minijax.shard_map(
        lambda x: (io_callback(fails, None, x.sum(), ordered=True), x)[1],
        mesh=_mesh(minijax, 4),
        in_specs=P("i"),
        out_specs=P("i"),
    )
    log, call = ordered_log()
    with pytest.raises(RuntimeError, match="ZeroDivisionError: no "):
        minijax.jit(f)(X).block_until_ready()
    assert float(minijax.jit(call)(2.0)) == 2
    assert log.seen == [2]
    try:
        minijax.effects_barrier()
    except (RuntimeError, ExceptionGroup) as error:
        assert "no " in str(error) or "failed" in str(error)  # noqa: PT017
    minijax.effects_barrier()


def test_threads_have_chains_of_their_own() -> None:
    """A thread does not wait for the callbacks of another."""
    entered, leave = threading.Event(), threading.Event()
    log = Log()

    def waits(x: Any) -> Any:
        entered.set()
        assert leave.wait(30)
        return log(x)

    devices = minijax.devices()

    def other() -> None:
        f = minijax.jit(lambda x: io_callback(waits, SCALAR, x, ordered=True))
        f(minijax.device_put(np.float32(1), devices[1])).block_until_ready()

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(30)
    here = minijax.jit(lambda x: io_callback(log, SCALAR, x, ordered=True))
    here(np.float32(2)).block_until_ready()
    minijax.effects_barrier()
    leave.set()
    thread.join(30)
    assert log.seen == [2, 1]


def test_many_threads_at_once() -> None:
    logs = [Log() for _ in range(4)]

    def work(log: Log) -> None:
        f = minijax.jit(lambda x: io_callback(log, SCALAR, x, ordered=True))
        for i in range(20):
            f(np.float32(i))
        minijax.effects_barrier()

    threads = [threading.Thread(target=work, args=(log,)) for log in logs]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert [log.seen for log in logs] == [list(range(20))] * 4


def test_a_callback_may_run_programs() -> None:
    jitted = minijax.jit(lambda x: x + 1)

    def nested(x: Any) -> Any:
        return np.asarray(jitted(x))

    f = minijax.jit(lambda x: minijax.pure_callback(nested, SCALAR, x))
    assert float(f(1.0)) == 2


def test_a_callback_does_not_see_the_mesh_around_the_call() -> None:
    found = []
    with minijax.set_mesh(_mesh(minijax, 8)):
        minijax.debug.callback(lambda: found.append(minijax.typeof(jnp.zeros(8)).mesh))
        minijax.effects_barrier()
    assert found[0].empty


def test_what_a_callback_keeps_does_not_change() -> None:
    kept: list[Any] = []
    f = minijax.jit(lambda x: minijax.debug.callback(kept.append, x * 2, ordered=True))
    for i in range(5):
        f(np.full(1000, i, np.float32))
    minijax.effects_barrier()
    assert [x.tolist() for x in kept] == [[2 * i] * 1000 for i in range(5)]


# -------------------------------------------------------------- where minijax differs


def test_callbacks_get_numpy_arrays() -> None:
    kinds = []
    minijax.debug.callback(lambda *xs: kinds.extend(map(type, xs)), 1, X, jnp.zeros(2))
    minijax.effects_barrier()
    assert kinds == [np.ndarray] * 3


def test_a_result_varies_where_the_operands_do() -> None:
    """Upstream types it as the same on all devices, and returns that of the first."""
    mesh = _mesh(minijax, 4)

    def f(spec: Any) -> Any:
        body = lambda x: minijax.pure_callback(np.sin, X[:1], x)  # noqa: E731
        return minijax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=spec)(X)

    np.testing.assert_allclose(f(P("i")), np.sin(X), rtol=1e-6)
    with pytest.raises(ValueError, match="could not infer replication"):
        f(P())


def test_a_condition_with_effects_stops_each_element_by_itself() -> None:
    """Upstream goes on with all elements until the last one is done."""
    seen = Log()

    def goes_on(x: Any) -> Any:
        minijax.debug.callback(seen, x, ordered=True)
        return x < 3

    f = minijax.vmap(lambda x: while_loop(goes_on, lambda c: c + 1, x))
    assert minijax.jit(f)(np.array([0, 2, 5], np.float32)).tolist() == [3, 3, 5]


def test_the_device_that_calls() -> None:
    x = minijax.device_put(X, NamedSharding(_mesh(minijax, 4), P("i")))
    devices = minijax.devices()
    one = minijax.device_put(1.0, devices[2]).sharding
    f = minijax.jit(lambda x: minijax.pure_callback(_same, X, x, sharding=one))
    assert "device_ids=[2]" in f.lower(x).as_text()
    np.testing.assert_allclose(f(x), X)
    with pytest.raises(ValueError, match="is not in the device assignment"):
        minijax.jit(lambda: minijax.pure_callback(lambda: 1.0, SCALAR, sharding=one))()


def test_equal_callbacks_are_compiled_once() -> None:
    calls = []

    def count(primitive: Primitive) -> int:
        evaluate = importlib.import_module("minijax.transforms.evaluate")
        return sum(key[0] is primitive for key in evaluate._executables)

    host = importlib.import_module("minijax.transforms.callbacks.host")
    before = count(host.io_callback_p)
    for i in range(5):
        io_callback(calls.append, None, np.float32(i), ordered=True)
    # `calls.append` is a new but equal object each time.
    assert count(host.io_callback_p) == before + 1
    minijax.effects_barrier()
    assert calls == [0, 1, 2, 3, 4]


def test_operands_must_be_arrays() -> None:
    with pytest.raises(TypeError, match="Error interpreting argument") as raised:
        io_callback(_same, SCALAR, "text")
    assert not isinstance(raised.value, NotAValueError)


PRINTS_AT_EXIT = """
import time, minijax
def slow(x):
    time.sleep(0.3)
    print("seen", x)
f = minijax.jit(lambda x: minijax.debug.callback(slow, x))
f(minijax.device_put(1.0, minijax.devices()[-1]))
"""


def test_the_process_waits_for_what_it_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS_AT_EXIT],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "seen 1.0\n"
