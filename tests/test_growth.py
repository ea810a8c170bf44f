"""Work grows linearly: with equations, with levels of nesting, with leaves.

Nothing is timed. The interpreter counts function calls and jumps back in loops, and a
program four times as large may take little more than four times as many.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.check import check_jaxpr
from minijax.core.jaxpr import dead_code_eliminated

X = np.ones(4, np.float32)
MOST = 4.4  # times the work for four times the size


def work(run: Callable[[], Any]) -> int:
    """How many functions were called and how many loops went round."""
    monitoring, count = sys.monitoring, 0

    mine = threading.get_ident()

    def counted(*_: Any) -> None:
        nonlocal count
        count += threading.get_ident() == mine  # all threads are monitored

    events = monitoring.events.PY_START | monitoring.events.JUMP
    # To finalize what other tests left is no work of this one, and it is Python's own
    # choice when to do it.
    gc.collect()
    gc.disable()
    monitoring.use_tool_id(monitoring.PROFILER_ID, "growth")
    try:
        for event in (monitoring.events.PY_START, monitoring.events.JUMP):
            monitoring.register_callback(monitoring.PROFILER_ID, event, counted)
        monitoring.set_events(monitoring.PROFILER_ID, events)
        run()
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
        gc.enable()
    return count


def grows_linearly(
    run: Callable[[Any], Any], make: Callable[[int], Any], n: int
) -> None:
    """`run(make(4 * n))` takes no more than four times the work of `run(make(n))`."""
    run(make(2))  # what is made once per process is made now
    # A second time only if need be: what a cache did once is no growth.
    for _ in range(2):
        small, large = (work(lambda size=size: run(make(size))) for size in (n, 4 * n))
        if large / small < MOST:
            break
    assert small > n
    assert large / small < MOST, (small, large)


# ----------------------------------------------------------------- many equations


def chain(n: int) -> Any:
    def fun(x: Any) -> Any:
        for _ in range(n // 2):
            x = lax.sin(x) * 1.5
        return x

    return fun


def reused(n: int) -> Any:
    """One value is an operand of all equations."""

    def fun(x: Any) -> Any:
        y = total = lax.sin(x)
        for _ in range(n):
            total = total + y
        return total

    return fun


def wide(n: int) -> Any:
    """Equations that do not depend on each other; as many results."""
    return lambda x: tuple(lax.sin(x) for _ in range(n))


def capturing(n: int) -> Any:
    captured = [np.full(4, i, np.float32) for i in range(n)]

    def fun(x: Any) -> Any:
        for c in captured:
            x = x + c
        return x

    return fun


def jitted_often(n: int) -> Any:
    """One function, called by many equations."""
    inner = minijax.jit(lambda x: lax.sin(x) * 1.5)

    def fun(x: Any) -> Any:
        for _ in range(n):
            x = inner(x)
        return x

    return fun


def summed(fun: Any) -> Any:
    def scalar(x: Any) -> Any:
        out = fun(x)
        for more in out[1:] if isinstance(out, tuple) else ():
            out = (out[0] + more,)
        return jnp.sum(out[0] if isinstance(out, tuple) else out)

    return scalar


def jaxpr_of(fun: Any, x: Any = X) -> Any:
    return minijax.make_jaxpr(fun)(x).jaxpr


def without_dead_code(fun: Any) -> Any:
    jaxpr = jaxpr_of(fun)
    return dead_code_eliminated(jaxpr, [True] * len(jaxpr.outvars))


VERBS: dict[str, Callable[[Any], Any]] = {
    "trace": jaxpr_of,
    "jvp": lambda f: jaxpr_of(lambda x: minijax.jvp(f, (x,), (x,))),
    "grad": lambda f: jaxpr_of(minijax.grad(summed(f))),
    "grad_of_jit": lambda f: jaxpr_of(minijax.grad(summed(minijax.jit(f)))),
    "vmap": lambda f: jaxpr_of(minijax.vmap(f), np.ones((3, 4), np.float32)),
    "lower": lambda f: minijax.jit(f).lower(X).as_text(),
    "print": lambda f: str(jaxpr_of(f)),
    "check": lambda f: check_jaxpr(jaxpr_of(f)),
    "dce": without_dead_code,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("make", [chain, reused, wide, capturing, jitted_often])
def test_with_the_number_of_equations(verb: str, make: Any) -> None:
    grows_linearly(VERBS[verb], make, 100)


@pytest.mark.parametrize("verb", ["trace", "dce"])
def test_up_to_many_equations(verb: str) -> None:
    grows_linearly(VERBS[verb], chain, 10_000)


# ------------------------------------------------------------------- deep nesting


def _jit(f: Any) -> Any:
    return minijax.jit(lambda x: f(x) * 1.5)


def _scan(f: Any) -> Any:
    def fun(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]

    return fun


def _cond(f: Any) -> Any:
    return lambda x: lax.cond(jnp.sum(x) > 0, f, lambda y: y, x)


def _while(f: Any) -> Any:
    return lambda x: lax.while_loop(lambda c: jnp.sum(c) < 0, f, x)


def _checkpoint(f: Any) -> Any:
    return minijax.checkpoint(lambda x: f(x) * 1.5)


def _custom_vjp(f: Any) -> Any:
    fun = minijax.custom_vjp(lambda x: f(x))
    fun.defvjp(lambda x: (f(x), x), lambda _, ct: (ct * 2,))
    return fun


def _custom_jvp(f: Any) -> Any:
    fun = minijax.custom_jvp(lambda x: f(x))
    fun.defjvp(lambda p, t: (f(p[0]), t[0] * 2))
    return fun


def nested(wrap: Any) -> Callable[[int], Any]:
    def make(levels: int) -> Any:
        fun: Any = lax.sin
        for _ in range(levels):
            fun = wrap(fun)
        return fun

    return make


#: Where the work is more, so is the program: each level of a branch or a loop hands on
#: what all levels inside of it have saved, or has them written out in it (a branch
#: chosen per example), or computes them once more (a checkpoint). So it is upstream.
QUADRATIC = {
    (_scan, "grad"),
    (_scan, "grad_of_jit"),
    (_cond, "grad"),
    (_cond, "grad_of_jit"),
    (_cond, "vmap"),
    (_checkpoint, "grad"),
    (_checkpoint, "grad_of_jit"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "wrap", [_jit, _scan, _cond, _while, _checkpoint, _custom_vjp, _custom_jvp]
)
def test_with_levels_of_nesting(wrap: Any, verb: str) -> None:
    if (wrap, verb) in QUADRATIC:
        VERBS[verb](nested(wrap)(50))
    elif not (wrap is _while and "grad" in verb):
        grows_linearly(VERBS[verb], nested(wrap), 50)


def test_two_hundred_levels_run() -> None:
    f = nested(lambda f: minijax.jit(lambda x: f(x) + 1))(200)
    np.testing.assert_allclose(f(X), np.sin(X) + 200, rtol=1e-6)
    np.testing.assert_allclose(minijax.grad(summed(f))(X), np.cos(X), rtol=1e-6)


def test_endless_recursion_is_an_error_of_python() -> None:
    f = minijax.jit(lambda x: f(x))
    with pytest.raises(RecursionError):
        f(X)


# ------------------------------------------------------------- pytrees and signatures


FRESH = itertools.count()


def flat_dict(n: int) -> Any:
    """With keys that no other one has, so that nothing is known of it already."""
    return {f"k{next(FRESH)}": X for _ in range(n)}


def tuples_of_pairs(n: int) -> Any:
    return tuple([X, {"a": X}] for _ in range(n // 2))


def deep(n: int) -> Any:
    tree: Any = X
    for i in range(n):
        tree = (tree, X) if i % 2 else {"a": tree, "b": X}
    return tree


def doubled(tree: Any) -> Any:
    return minijax.tree.map(lambda x: x * 2, tree)


TREE_VERBS: dict[str, Callable[[Any], Any]] = {
    "map": lambda tree: minijax.tree.map(lambda *xs: xs, tree, tree),
    "structure": lambda tree: hash(minijax.tree.structure(tree)),
    "print": lambda tree: str(minijax.tree.structure(tree)),
    "trace": lambda tree: minijax.make_jaxpr(doubled)(tree),
    "lower": lambda tree: minijax.jit(doubled).lower(tree).as_text(),
}


@pytest.mark.parametrize("verb", TREE_VERBS)
@pytest.mark.parametrize(
    ("make", "n"), [(flat_dict, 250), (tuples_of_pairs, 250), (deep, 50)]
)
def test_with_the_number_of_leaves(verb: str, make: Any, n: int) -> None:
    if (make, verb) == (deep, "lower"):
        TREE_VERBS[verb](make(200))  # the module names each leaf by its path
    else:
        grows_linearly(TREE_VERBS[verb], make, n)


def test_paths_of_leaves() -> None:
    """Those of a deep tree are long, so to name all of them is more work by nature."""
    paths = minijax.tree.flatten_with_path
    grows_linearly(paths, flat_dict, 250)
    assert len(paths(deep(200))[0]) == 201


def test_with_the_number_of_signatures() -> None:
    """The ten thousandth signature takes as long as the hundredth, and some go."""
    f = minijax.jit(lambda x: x * 2)

    def signatures(start: int, stop: int) -> Any:
        for i in range(start, stop):
            f.eval_shape(minijax.ShapeDtypeStruct((i,), np.float32))

    signatures(0, 100)
    early = work(lambda: signatures(100, 200))
    signatures(200, 9_900)
    assert work(lambda: signatures(9_900, 10_000)) < 1.1 * early
    assert len(f._traced) < 5_000
    found = work(lambda: signatures(9_900, 10_000))
    assert found < early / 2
