"""device_put: every value to every place, and what it refuses."""

import numpy as np
import pytest

from minijax.core.mesh import AxisType, NamedSharding, P
from minijax.runtime.backend import devices, make_mesh
from minijax.runtime.placement import device_put

VALUE = np.arange(64, dtype=np.float32).reshape(8, 8)
SPECS = [
    P(),
    P("x"),
    P("y", None),
    P(None, "y"),
    P("x", "y"),
    P(("x", "y")),
    P(("y", "x")),
    P("x", reduced={"y"}),
    P(unreduced={"x"}),
    P("y", unreduced={"x"}),
    P(unreduced={"x", "y"}),
]


def mesh_2x4(kind=AxisType.Explicit):
    return make_mesh((2, 4), ("x", "y"), (kind, kind))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_anywhere_and_back(spec):
    mesh = mesh_2x4()
    sharding = NamedSharding(mesh, spec)
    x = device_put(VALUE, sharding)
    np.testing.assert_array_equal(np.asarray(x), VALUE)
    assert x.sharding is sharding
    for other in SPECS[:-1:2]:
        y = device_put(x, NamedSharding(mesh, other))
        np.testing.assert_array_equal(np.asarray(y), VALUE)
    one = device_put(x, devices()[3])
    assert one.devices() == {devices()[3]}
    np.testing.assert_array_equal(np.asarray(device_put(one, sharding)), VALUE)


def test_other_device_order():
    mesh = mesh_2x4()
    turned = make_mesh((2, 4), ("x", "y"), devices=devices()[7::-1])
    x = device_put(VALUE, NamedSharding(mesh, P("x", "y")))
    y = device_put(x, NamedSharding(turned, P("x", "y")))
    np.testing.assert_array_equal(np.asarray(y), VALUE)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), VALUE[shard.index])


@pytest.mark.parametrize("size", [3, 64, 100_000])
def test_a_later_change_of_the_numpy_array_does_not_show(size):
    sharded = NamedSharding(make_mesh((2,), "x"), P())
    for place in (None, devices()[1], sharded):
        value = np.zeros(size, np.float32)
        x = device_put(value, place)
        value[:] = 1
        assert not np.asarray(x).any()


def test_what_lies_there_already_does_not_move():
    sharding = NamedSharding(mesh_2x4(), P("x"))
    x = device_put(VALUE, sharding)
    assert device_put(x) is x
    assert device_put(x, sharding) is x
    same = device_put(x, NamedSharding(mesh_2x4(), P("x", None)))
    assert same._buf is x._buf


def test_committed():
    assert not device_put(1.0).committed
    assert device_put(1.0, devices()[0]).committed
    assert device_put(device_put(1.0), devices()[0]).committed


def test_dtypes_are_canonical_and_scalars_weak():
    assert device_put(np.arange(3)).dtype == np.int32
    assert device_put(np.float64(1)).dtype == np.float32
    assert device_put(1).weak_type
    assert not device_put(np.float32(1)).weak_type
    with pytest.raises(OverflowError, match="Python int 1099511627776 too large to c"):
        device_put(2**40)


@pytest.mark.parametrize(
    ("kind", "spec", "value", "text"),
    [
        (
            AxisType.Explicit,
            P("y"),
            np.zeros(3),
            r"Sharding spec \('y',\) implies that array axis 0 is partitioned 4 times, "
            r"but does not evenly divide the dimension size 3. Got shape: \(3,\) and ",
        ),
        (
            AxisType.Auto,
            P("y"),
            np.zeros(3),
            "One of device_put args was given the sharding NamedSharding.*implies that "
            r"array axis 0 is partitioned 4 times, but the dimension size is 3 \(full",
        ),
        (
            AxisType.Explicit,
            P("y"),
            1.0,
            r"Length of sharding.spec \(1\) must be equal to aval's ndim \(0\)",
        ),
        (
            AxisType.Auto,
            P("y"),
            1.0,
            "is only valid for values of rank at least 1, but was applied to a value",
        ),
    ],
)
def test_shardings_that_do_not_fit(kind, spec, value, text):
    sharding = NamedSharding(mesh_2x4(kind), spec)
    for x in (value, device_put(value)):
        with pytest.raises(ValueError, match=text):
            device_put(x, sharding)


def test_what_is_no_value_or_no_place():
    with pytest.raises(
        ValueError, match="numpy masked arrays are not supported as dir"
    ):
        device_put(np.ma.masked_array([1, 2], [0, 1]))
    with pytest.raises(ValueError, match=r"`jax.device_put` only accepts `None`"):
        device_put(1.0, "cpu")
    with pytest.raises(ValueError, match=r"is not implemented for `jax.sharding.Abst"):
        device_put(VALUE, NamedSharding(mesh_2x4().abstract_mesh, P("x")))
    with pytest.raises(TypeError):
        device_put("a")
