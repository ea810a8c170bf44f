"""Arrays and tokens: what they say of themselves, and how they turn into values."""

import operator
import pickle

import ml_dtypes
import numpy as np
import pytest

from minijax.core.mesh import AxisType, NamedSharding, P, SingleDeviceSharding
from minijax.core.trace import typeof
from minijax.runtime.backend import devices, make_mesh
from minijax.runtime.placement import device_put

F4 = np.arange(4, dtype=np.float32)


def over_8(value, *spec, **reductions):
    mesh = make_mesh((2, 4), ("x", "y"))
    return device_put(value, NamedSharding(mesh, P(*spec, **reductions)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([0.0, 1.0]), "Array([0., 1.], dtype=float32)"),
        (1.0, "Array(1., dtype=float32, weak_type=True)"),
        (np.zeros((0, 3), np.float32), "Array([], shape=(0, 3), dtype=float32)"),
        (np.zeros((512, 512), "f4"), "Array(shape=(512, 512), dtype=float32)"),
        (np.arange(3).astype(ml_dtypes.bfloat16), "Array([0, 1, 2], dtype=bfloat16)"),
        (
            np.arange(16.0),
            "Array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12.,\n"
            "       13., 14., 15.], dtype=float32)",
        ),
        (
            np.arange(0, 1.3, 0.1),
            "Array([0. , 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1. , 1.1, 1.2],"
            "      dtype=float32)",  # upstream forgets the newline too
        ),
    ],
)
def test_repr(value, text):
    assert repr(device_put(value)) == text


def test_str_and_format():
    assert str(device_put(F4)) == "[0. 1. 2. 3.]"
    assert (
        f"{device_put(np.float32(1.5)):.3f} {device_put(F4)}" == "1.500 [0. 1. 2. 3.]"
    )
    assert str(device_put(np.zeros((512, 512), "f4"))).startswith("Array(shape=")


def test_sizes():
    x = device_put(np.zeros((2, 3), np.int16))
    assert (x.shape, x.ndim, x.size, x.dtype) == ((2, 3), 2, 6, np.int16)
    assert (x.nbytes, x.itemsize, x.weak_type, len(x)) == (12, 2, False, 2)


def test_types_tell_of_explicit_axes_only():
    assert str(over_8(np.zeros((2, 3)), "x").aval) == "float32[2@x,3]"
    assert typeof(over_8(F4, ("y"))).sharding.spec == P("y")
    auto = make_mesh((4,), "x", (AxisType.Auto,))
    x = device_put(F4, NamedSharding(auto, P("x")))
    assert str(x.aval) == "float32[4]"
    assert x.aval.sharding.spec == P(None)
    assert x.aval is device_put(F4, x.sharding).aval


def test_scalar_conversions():
    x, i = device_put(np.float32(2.5)), device_put(np.int32(3))
    assert (float(x), int(x), complex(x), bool(x)) == (2.5, 2, 2.5 + 0j, True)
    assert (operator.index(i), hex(i), x.item(), device_put(F4).tolist()) == (
        3,
        "0x3",
        2.5,
        [0, 1, 2, 3],
    )
    assert device_put(F4).item(2) == 2


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (bool, ValueError, "The truth value of an array with more than one element is"),
        (
            float,
            TypeError,
            "Only scalar arrays can be converted to Python scalars;",
        ),
        (int, TypeError, "got arr.ndim=1"),
        (complex, TypeError, "got arr.ndim=1"),
        (operator.index, TypeError, "Only integer scalar arrays can be converted to a"),
        (hash, TypeError, "unhashable type"),
        (lambda x: x.item(), ValueError, "can only convert an array of size 1 to a"),
    ],
)
def test_refused_conversions_of_a_vector(use, error, text):
    with pytest.raises(error, match=text):
        use(device_put(F4))


def test_refused_conversions_of_other_shapes():
    with pytest.raises(ValueError, match="The truth value of an empty array is ambig"):
        bool(device_put(F4[:0]))
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(device_put(1.0))
    with pytest.raises(TypeError, match="Only integer scalar arrays"):
        operator.index(device_put(1.0))


def test_numpy_conversion():
    x = over_8(F4, "y")
    assert np.asarray(x) is np.asarray(x)  # assembled once
    assert not np.asarray(x).flags.writeable
    assert np.array(x).flags.writeable
    assert x.__array__(np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.array(x, dtype=np.float64, copy=False)


@pytest.mark.parametrize("dtype", ["bool", "int4", "bfloat16", "float8_e4m3fn", "c8"])
def test_dtypes_round_trip(dtype):
    value = np.arange(4).astype(getattr(ml_dtypes, dtype, dtype))
    for x in (device_put(value), over_8(value, "y")):
        assert np.asarray(x).dtype == value.dtype
        np.testing.assert_array_equal(np.asarray(x), value)


def test_dlpack_to_numpy():
    np.testing.assert_array_equal(np.from_dlpack(device_put(F4)), F4)
    with pytest.raises(BufferError, match="Sharding over 8 devices"):
        np.from_dlpack(over_8(F4, "y"))


def test_shards():
    value = np.arange(8.0).reshape(2, 4)
    shards = over_8(value, "x").addressable_shards
    assert [s.device for s in shards] == devices()[:8]
    assert [s.replica_id for s in shards] == [0, 1, 2, 3] * 2
    for shard in shards:
        np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])
        assert shard.data.sharding is SingleDeviceSharding(shard.device)
    assert repr(shards[5]) == (
        "Shard(device=CpuDevice(id=5), index=(slice(1, 2, None), slice(None, None, "
        "None)), replica_id=1, data=[[4. 5. 6. 7.]])"
    )
    assert over_8(value, "x").addressable_data(4).devices() == {devices()[4]}
    (only,) = device_put(F4).addressable_shards
    assert only.data.tolist() == F4.tolist()


def test_unreduced_arrays_hold_summands():
    x = over_8(F4, "y", unreduced={"x"})
    np.testing.assert_array_equal(np.asarray(x), F4)
    assert [s.data.tolist() for s in x.addressable_shards] == [
        *([float(i)] for i in range(4)),
        *([0.0] for _ in range(4)),
    ]
    assert repr(x).startswith("Array(shape=(4,), dtype=float32, sharding=NamedSharding")


def test_deleted():
    x = device_put(np.zeros(8, np.float32))
    x.delete()
    assert x.is_deleted()
    assert x.shape == (8,)
    for use in (repr, np.asarray, lambda x: x.devices(), lambda x: x.copy()):
        with pytest.raises(RuntimeError, match="Array has been deleted with shape=flo"):
            use(x)
    with pytest.raises(RuntimeError, match="Array has been deleted with shape=float32"):
        device_put(x, devices()[1])


def test_life():
    x = over_8(F4, "y")
    assert x.block_until_ready() is x
    assert x.is_ready()
    twin = x.copy()
    x.delete()
    assert twin.tolist() == F4.tolist()
    assert twin.device is twin.sharding
    assert device_put(F4).device == devices()[0]


def test_pickle_keeps_the_value():
    x = pickle.loads(pickle.dumps(device_put(1.5)))
    assert repr(x) == "Array(1.5, dtype=float32, weak_type=True)"
