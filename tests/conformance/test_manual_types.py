"""Manual axis types: every kind of operand that a body can have, in many functions.

For each function and each way to be varying, unreduced, reduced or none of them over
two axes: the type of the result, or the class and the first words of the error, are
upstream's. Where they are not, a reason is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import minijax

ONE = [(("x", k),) for k in "VUR"]
TYPES: list[tuple[Any, ...]] = [(), *ONE]
TYPES += [(("x", a), ("y", b)) for a in "VUR" for b in "VUR"]
PAIRS = [*product(TYPES[:4], TYPES[:4]), (TYPES[4], TYPES[4]), (TYPES[6], TYPES[8])]
X = np.ones((4, 4), np.float32)

UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "neg": lambda lax, x: lax.neg(x),
    "sin": lambda lax, x: lax.sin(x),
    "sign": lambda lax, x: lax.sign(x),
    "is_finite": lambda lax, x: lax.is_finite(x),
    "stop_gradient": lambda lax, x: lax.stop_gradient(x),
    "convert": lambda lax, x: lax.convert_element_type(x, np.int32),
    "reshape": lambda lax, x: lax.reshape(x, (16,)),
    "broadcast": lambda lax, x: lax.broadcast(x, (2,)),
    "transpose": lambda lax, x: lax.transpose(x, (1, 0)),
    "slice": lambda lax, x: lax.slice(x, (0, 0), (2, 2)),
    "pad": lambda lax, x: lax.pad(x, np.float32(0), ((1, 1, 0), (0, 0, 0))),
    "index": lambda lax, x: x[0],
    "sum": lambda lax, x: x.sum(0),
    "max": lambda lax, x: x.max(0),
    "min": lambda lax, x: x.min(0),
    "times a number": lambda lax, x: x * 2.0,
    "plus a number": lambda lax, x: x + 1.0,
    "over": lambda lax, x: 1.0 / x,
    "concatenate": lambda lax, x: lax.concatenate([x, x], 0),
    "split": lambda lax, x: lax.split(x, (2, 2))[0],
    "barrier": lambda lax, x: lax.optimization_barrier(x),
    "cond": lambda lax, x: lax.cond(True, lambda v: v, lambda v: v * 2.0, x),
    "loop": lambda lax, x: lax.fori_loop(0, 2, lambda i, v: v * 2.0, x),
    "add at": lambda lax, x: x.at[0].add(1.0),
    "psum x": lambda lax, x: lax.psum(x, "x"),
    "psum xy": lambda lax, x: lax.psum(x, ("x", "y")),
    "pmean": lambda lax, x: lax.pmean(x, "x"),
    "pmax": lambda lax, x: lax.pmax(x, "x"),
    "pmin xy": lambda lax, x: lax.pmin(x, ("x", "y")),
    "all_gather": lambda lax, x: lax.all_gather(x, "x", tiled=True),
    "to invarying": lambda lax, x: lax.all_gather(x, "x", to="invarying"),
    "to reduced": lambda lax, x: lax.all_gather(x, "x", to="reduced"),
    "psum_scatter": lambda lax, x: lax.psum_scatter(x, "x", tiled=True),
    "all_to_all": lambda lax, x: lax.all_to_all(x, "x", 0, 1, tiled=True),
    "ppermute": lambda lax, x: lax.ppermute(x, "x", [(0, 1), (1, 0)]),
    "cast to varying": lambda lax, x: lax.pcast(x, "x", to="varying"),
    "cast to reduced": lambda lax, x: lax.pcast(x, "x", to="reduced"),
    "cast both": lambda lax, x: lax.pcast(x, ("x", "y"), to="reduced"),
    "cast to unreduced": lambda lax, x: lax.pcast(x, ("x", "y"), to="unreduced"),
}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lax, x, y: lax.add(x, y),
    "mul": lambda lax, x, y: lax.mul(x, y),
    "div": lambda lax, x, y: lax.div(x, y),
    "max": lambda lax, x, y: lax.max(x, y),
    "pow": lambda lax, x, y: lax.pow(x, y),
    "lt": lambda lax, x, y: lax.lt(x, y),
    "matmul": lambda lax, x, y: x @ y,
    "select": lambda lax, x, y: lax.select(np.ones((4, 4), bool), x, y),
    "concatenate": lambda lax, x, y: lax.concatenate([x, y], 0),
    "update": lambda lax, x, y: lax.dynamic_update_slice(x, y[:1], (0, 0)),
    "cond": lambda lax, x, y: lax.cond(True, lambda a, b: a, lambda a, b: b, x, y),
}


def _cast(lax: Any, x: Any, kinds: Any) -> Any:
    """An invarying value made what the letters say."""
    for axis, kind in kinds:
        if kind in "VU":
            x = lax.pcast(x, axis, to="varying")
        if kind != "V":
            to = "unreduced" if kind == "U" else "reduced"
            x = lax.pcast(x, axis, to=to)
    return x


def _answer(jax: Any, fun: Any, kinds: Any) -> str:
    """The result's type, or the error."""
    lax, P = jax.lax, jax.sharding.PartitionSpec
    devices = np.array(jax.devices()[:8]).reshape(2, 4)
    mesh = jax.sharding.Mesh(devices, ("x", "y"))
    found: list[str] = []

    def body(*xs: Any) -> Any:
        operands = [_cast(lax, x, k) for x, k in zip(xs, kinds, strict=True)]
        try:
            found.append(str(jax.typeof(fun(lax, *operands))))
        except Exception as e:
            # Up to where types are shown: a set is shown in any order.
            words = str(e).partition("\n")[0].partition(" Got")[0].split("{")[0]
            found.append(f"{type(e).__name__}: {words}"[:110])
        return xs[0]

    mapped = jax.shard_map(body, mesh=mesh, in_specs=(P(),) * len(kinds), out_specs=P())
    jax.make_jaxpr(mapped)(*[X] * len(kinds))
    return found[0]


@pytest.mark.parametrize("name", UNARY)
def test_of_one_operand(upstream: Any, name: str) -> None:
    for kinds in TYPES:
        ours, theirs = (_answer(j, UNARY[name], [kinds]) for j in (minijax, upstream))
        assert ours.startswith(theirs), kinds


@pytest.mark.parametrize("name", BINARY)
def test_of_two_operands(upstream: Any, name: str) -> None:
    for kinds in PAIRS:
        ours, theirs = (_answer(j, BINARY[name], kinds) for j in (minijax, upstream))
        assert ours.startswith(theirs), kinds


#: What upstream answers although the value is a sum still to be done, or is reduced:
#: it forgets the one or the other, or takes the function of a sum for the sum of the
#: function. Here the type is kept where it is right, and else refused.
KEPT = {
    "rev": lambda lax, x: lax.rev(x, (0,)),
    "dynamic_slice": lambda lax, x: lax.dynamic_slice(x, (0, 0), (2, 2)),
}
REFUSED = {
    "sort": lambda lax, x: lax.sort(x),
    "cumsum": lambda lax, x: lax.cumsum(x),
    "argmax": lambda lax, x: lax.argmax(x, 0, np.int32),
    "integer_pow": lambda lax, x: lax.integer_pow(x, 3),
    "top_k": lambda lax, x: lax.top_k(x, 1)[0],
    "clamp": lambda lax, x: lax.clamp(np.float32(0), x, np.float32(1)),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_type_is_kept(upstream: Any, name: str) -> None:
    kinds = (("x", "V"), ("y", "U"))
    assert _answer(minijax, KEPT[name], [kinds]).endswith("{V:x, U:y}")
    assert "U:" not in _answer(upstream, KEPT[name], [kinds])


@pytest.mark.parametrize("name", REFUSED)
def test_functions_of_sums_are_refused(upstream: Any, name: str) -> None:
    kinds = (("x", "U"),)
    assert "Error" in _answer(minijax, REFUSED[name], [kinds])
    assert "Error" not in _answer(upstream, REFUSED[name], [kinds])
