"""Shapes, joins, slices and gathers: what they refuse, in upstream's words."""

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minijax
from minijax import lax
from minijax.lax.shapes import canonicalize_axis

A = np.ones((4, 3), np.float32)
I = np.zeros((2, 1), np.int32)  # noqa: E741 - indices
S = np.int32(0)


def _gather(lax: Any, x: Any, i: Any, *dims: Any, sizes: Any = (1, 3)) -> Any:
    return lax.gather(x, i, lax.GatherDimensionNumbers(*dims), sizes)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "broadcast float": lambda lax: lax.broadcast(A, (2.5,)),
    "broadcast dims": lambda lax: lax.broadcast_in_dim(A, (4, 3), (1, 2.0)),
    "broadcast length": lambda lax: lax.broadcast_in_dim(A, (4, 3), (1,)),
    "broadcast rank": lambda lax: lax.broadcast_in_dim(A, (3,), (0, 1)),
    "broadcast subset": lambda lax: lax.broadcast_in_dim(A, (4, 3), (0, 5)),
    "broadcast sizes": lambda lax: lax.broadcast_in_dim(A, (4, 5), (0, 1)),
    "broadcast repeated": lambda lax: lax.broadcast_in_dim(A, (4, 4, 3), (0, 0)),
    "expand": lambda lax: lax.expand_dims(A, (7,)),
    "expand repeated": lambda lax: lax.expand_dims(A, (0, 0)),
    "reshape negative": lambda lax: lax.reshape(A, (-1,)),
    "reshape dimensions": lambda lax: lax.reshape(A, (12,), (0, 0)),
    "transpose": lambda lax: lax.transpose(A, (0,)),
    "squeeze": lambda lax: lax.squeeze(A, (0,)),
    "squeeze axis": lambda lax: lax.squeeze(A, (7,)),
    "rev": lambda lax: lax.rev(A, (5,)),
    "rev negative": lambda lax: lax.rev(A, (-1,)),
    "rev repeated": lambda lax: lax.rev(A, (0, 0)),
    "iota": lambda lax: lax.iota("bool", 3),
    "iota dimension": lambda lax: lax.broadcasted_iota("int32", (3,), 1),
    "full": lambda lax: lax.full((2,), A),
    "full shape": lambda lax: lax.full((2.5,), 1.0),
    "concatenate nothing": lambda lax: lax.concatenate([], 0),
    "concatenate dtypes": lambda lax: lax.concatenate([A, A.astype("int32")], 0),
    "concatenate ranks": lambda lax: lax.concatenate([A, A[0]], 0),
    "concatenate dimension": lambda lax: lax.concatenate([A, A], 2),
    "concatenate shapes": lambda lax: lax.concatenate([A, A[:2]], 1),
    "split": lambda lax: lax.split(A, (1, 1)),
    "split negative": lambda lax: lax.split(A, (5, -1)),
    "tile": lambda lax: lax.tile(A, (1,)),
    "slice start": lambda lax: lax.slice(A, (0,), (1,)),
    "slice limit": lambda lax: lax.slice(A, (0, 0), (5, 3)),
    "slice order": lambda lax: lax.slice(A, (2, 0), (1, 3)),
    "slice lengths": lambda lax: lax.slice(A, (0, 0), (1,)),
    "slice strides": lambda lax: lax.slice(A, (0, 0), (4, 3), (1,)),
    "pad dtype": lambda lax: lax.pad(A, 0, ((0, 0, 0),) * 2),
    "pad shape": lambda lax: lax.pad(A, A, ((0, 0, 0),) * 2),
    "pad length": lambda lax: lax.pad(A, np.float32(0), ((0, 0, 0),)),
    "pad interior": lambda lax: lax.pad(A, np.float32(0), ((0, 0, -1),) * 2),
    "pad negative": lambda lax: lax.pad(A, np.float32(0), ((-9, 0, 0),) * 2),
    "index": lambda lax: lax.index_in_dim(A, 9),
    "dynamic length": lambda lax: lax.dynamic_slice(A, (S,), (1, 1)),
    "dynamic sizes": lambda lax: lax.dynamic_slice(A, (S, S), (9, 1)),
    "dynamic dtypes": lambda lax: lax.dynamic_slice(A, (S, np.uint8(0)), (1, 1)),
    "update rank": lambda lax: lax.dynamic_update_slice(A, A[0], (S, S)),
    "update size": lambda lax: lax.dynamic_update_slice(A[:2], A, (S, S)),
    "gather map": lambda lax: _gather(lax, A, I, (1,), (0,), (0, 1)),
    "gather sorted": lambda lax: _gather(lax, A, I, (1, 0), (), (0,)),
    "gather offset": lambda lax: _gather(lax, A, I, (5,), (0,), (0,)),
    "gather sizes": lambda lax: _gather(lax, A, I, (1,), (0,), (0,), sizes=(1, 9)),
    "gather count": lambda lax: _gather(lax, A, I, (1,), (0,), (0,), sizes=(1,)),
    "gather collapsed": lambda lax: _gather(lax, A, I, (1,), (0,), (0,), sizes=(2, 3)),
    "gather dtype": lambda lax: _gather(lax, A, I * 1.0, (1,), (0,), (0,)),
    "gather batching": lambda lax: _gather(lax, A, I, (1,), (), (0,), (0,), (0,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_message_is_upstreams(name: str, upstream: ModuleType) -> None:
    def message(library: Any) -> tuple[str, str]:
        with pytest.raises(Exception) as info:  # noqa: PT011 - compared below
            library.make_jaxpr(lambda: REFUSED[name](library.lax))()
        return type(info.value).__name__, re.sub(r"\s+", " ", str(info.value))

    assert message(minijax) == message(upstream)


def test_a_reshape_that_does_not_fit_is_refused_when_traced() -> None:
    # Upstream traces it, and finds out when it lowers.
    with pytest.raises(ValueError, match=r"size 12 into shape \(5,\)"):
        minijax.make_jaxpr(lambda x: lax.reshape(x, (5,)))(A)


@pytest.mark.parametrize(("axis", "ndim"), [(2, 2), (-3, 2), (0, 0)])
def test_an_axis_out_of_bounds(axis: int, ndim: int) -> None:
    message = f"axis {axis} is out of bounds for array of dimension {ndim}"
    with pytest.raises(ValueError, match=message):
        canonicalize_axis(axis, ndim)


EXPLICIT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "transpose": lambda lax, x, y: x.T,
    "broadcast": lambda lax, x, y: lax.broadcast(x, (3,)),
    "expand": lambda lax, x, y: x[:, None],
    "split a dimension": lambda lax, x, y: lax.reshape(x, (2, 4, 4)),
    "merge dimensions": lambda lax, x, y: lax.reshape(x, (32,)),
    "merge, one sharded": lambda lax, x, y: lax.reshape(y, (32,)),
    "regroup": lambda lax, x, y: lax.reshape(x, (4, 8)),
    "insert one": lambda lax, x, y: lax.reshape(x, (8, 1, 4)),
    "concatenate": lambda lax, x, y: lax.concatenate([x, x], 0),
    "concatenate unlike": lambda lax, x, y: lax.concatenate([x, y], 0),
    "pad": lambda lax, x, y: lax.pad(x, np.float32(0), ((0, 0, 0), (2, 2, 0))),
    "pad sharded": lambda lax, x, y: lax.pad(x, np.float32(0), ((1, 0, 0),) * 2),
    "slice": lambda lax, x, y: x[:4],
    "slice unevenly": lambda lax, x, y: x[:3],
    "index": lambda lax, x, y: y[:, 0],
    "index sharded": lambda lax, x, y: x[0],
    "gather": lambda lax, x, y: y[:, np.array([0, 1])],
    "gather sharded": lambda lax, x, y: x[np.array([0, 1])],
    "update": lambda lax, x, y: y.at[:, np.array([0, 1])].add(1.0),
    "update sharded": lambda lax, x, y: x.at[0].set(1.0),
    "split": lambda lax, x, y: lax.split(x, (4, 4)),
    "split unevenly": lambda lax, x, y: lax.split(x, (3, 5)),
    "tile": lambda lax, x, y: lax.tile(y, (1, 2)),
    "tile sharded": lambda lax, x, y: lax.tile(x, (2, 1)),
    "full_like": lambda lax, x, y: lax.full_like(x, 1),
    "rev": lambda lax, x, y: x[::-1],
}


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_shardings_propagate_as_upstreams(
    name: str, upstream: ModuleType
) -> None:
    def outcome(library: Any) -> tuple[str, str]:
        sh = library.sharding
        kinds = (sh.AxisType.Explicit,) * 2
        mesh = sh.AbstractMesh((2, 4), ("x", "y"), axis_types=kinds)

        def struct(*spec: Any) -> Any:
            sharding = sh.NamedSharding(mesh, sh.PartitionSpec(*spec))
            return library.ShapeDtypeStruct((8, 4), np.float32, sharding=sharding)

        def program(x: Any, y: Any) -> Any:
            return EXPLICIT[name](library.lax, x, y)

        try:
            with sh.use_abstract_mesh(mesh):
                made = library.make_jaxpr(program)(struct("x", "y"), struct("x", None))
        except Exception as error:
            return type(error).__name__, str(error)
        return "", re.sub(r"\s*([][])\s*", r"\1", re.sub(r"\s+", " ", str(made)))

    assert outcome(minijax) == outcome(upstream)
