"""`device_put`, `reshard`, `with_sharding_constraint`, `set_mesh`: where values lie."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.trace import typeof
from minijax.sharding import (
    AxisType,
    NamedSharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    reshard,
)
from minijax.sharding import PartitionSpec as P
from minijax.transforms.place import with_sharding_constraint

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh_of(kind: AxisType) -> Any:
    return minijax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)


AUTO, EXPLICIT = mesh_of(AxisType.Auto), mesh_of(AxisType.Explicit)


@pytest.mark.parametrize(
    "spec", [P(), P("x"), P("x", "y"), P(None, "y"), P(("x", "y")), P(("y", "x"))]
)
def test_each_device_gets_its_part(spec: P) -> None:
    sharding = NamedSharding(AUTO, spec)
    x = minijax.device_put(X, sharding)
    assert x.sharding == sharding
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, X[shard.index])
    np.testing.assert_array_equal(x, X)
    moved = minijax.device_put(x, NamedSharding(AUTO, P("y")))
    np.testing.assert_array_equal(moved, X)


def test_trees_of_places_are_prefixes() -> None:
    one, two = minijax.devices()[1:3]
    tree = {"a": X, "b": [X, None]}
    placed = minijax.device_put(tree, {"a": one, "b": two})
    assert placed["a"].devices() == {one}
    assert placed["b"][0].devices() == {two}
    assert minijax.device_put(tree, one)["b"][0].devices() == {one}
    assert isinstance(placed["a"].sharding, SingleDeviceSharding)


def test_putting_copies_what_is_mutable() -> None:
    x = X.copy()
    put = minijax.device_put(x)
    x[:] = -1
    np.testing.assert_array_equal(put, X)


def test_a_value_that_lies_there_is_not_copied() -> None:
    x = minijax.device_put(X, minijax.devices()[0])
    assert minijax.device_put(x, minijax.devices()[0]) is x
    assert minijax.device_put(x) is x


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (
            NamedSharding(AUTO, P("x", "y")),
            ValueError,
            "should evenly divide the shape",
        ),
        (P("x"), ValueError, "mesh"),
        ("cpu", (TypeError, ValueError), "cpu"),
    ],
)
def test_wrong_places(target: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        minijax.device_put(np.ones((6, 3)), target)


def test_resharding_changes_the_type() -> None:
    with minijax.set_mesh(EXPLICIT):
        x = minijax.device_put(X, P("x", "y"))
        assert str(typeof(x)) == "float32[8@x,4@y]"
        y = reshard(x, P("y"))
        assert str(typeof(y)) == "float32[8@y,4]"
        np.testing.assert_array_equal(y, X)
        text = str(minijax.make_jaxpr(lambda x: reshard(x, P()))(x))
        assert "b:f32[8,4] = reshard a" in text
        gradient = minijax.grad(lambda x: jnp.sum(reshard(x, P()) ** 2))(x)
        assert typeof(gradient) == typeof(x)
        np.testing.assert_array_equal(gradient, 2 * X)


def test_resharding_is_mapped() -> None:
    with minijax.set_mesh(EXPLICIT):
        x = minijax.device_put(np.stack([X, X]), P(None, "x"))
        y = minijax.vmap(lambda x: reshard(x, P(None, "y")))(x)
        assert str(typeof(y)) == "float32[2,8,4@y]"


def test_only_explicit_axes_are_resharded_over() -> None:
    with minijax.set_mesh(AUTO), pytest.raises(ValueError, match="Auto"):
        reshard(X, P("x"))
    with pytest.raises(ValueError, match="mesh"):
        reshard(X, P("x"))


def test_a_constraint_places_values_inside_a_program() -> None:
    sharding = NamedSharding(AUTO, P("x", "y"))

    def f(x: Any) -> Any:
        return with_sharding_constraint(x * 2, sharding)

    out = minijax.jit(f)(X)
    assert out.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_array_equal(out, X * 2)
    text = minijax.jit(f).lower(X).as_text()
    assert text.count("sdy.sharding_constraint") == 1
    gradient = minijax.jit(minijax.grad(lambda x: jnp.sum(f(x))))
    assert "sdy.sharding_constraint" in gradient.lower(X).as_text()
    stacked = minijax.vmap(f)(np.stack([X, X]))
    np.testing.assert_array_equal(stacked[1], X * 2)


def test_constraints_are_for_auto_axes() -> None:
    f = minijax.jit(
        lambda x: with_sharding_constraint(x, NamedSharding(EXPLICIT, P("x")))
    )
    with pytest.raises(ValueError, match=r"Explicit|Auto"):
        f(X)


def test_a_mesh_can_be_set_and_left() -> None:
    assert get_abstract_mesh().empty
    with minijax.set_mesh(AUTO):
        assert get_abstract_mesh() == AUTO.abstract_mesh
        with minijax.set_mesh(EXPLICIT):
            assert get_abstract_mesh() == EXPLICIT.abstract_mesh
        assert get_abstract_mesh() == AUTO.abstract_mesh
        x = minijax.device_put(X, P("x"))
    assert x.sharding == NamedSharding(AUTO, P("x"))
    assert get_abstract_mesh().empty


def test_a_mesh_is_not_set_while_tracing() -> None:
    def f(x: Any) -> Any:
        with minijax.set_mesh(AUTO):
            return x

    with pytest.raises(ValueError, match="set_mesh"):
        minijax.jit(f)(X)


def test_a_program_knows_under_which_mesh_it_was_traced() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(get_abstract_mesh().axis_names)
        return lax.neg(x)

    jitted = minijax.jit(f)
    jitted(X)
    with minijax.set_mesh(AUTO):
        jitted(X)
        jitted(X)
    assert traces == [(), ("x", "y")]


def test_waiting_returns_the_tree() -> None:
    tree = {"a": minijax.device_put(X), "b": (1, None)}
    assert minijax.block_until_ready(tree)["b"] == (1, None)
