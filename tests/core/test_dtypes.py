"""Dtypes against upstream: promotion of everything with everything, names, messages."""

import re
import threading
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax._src import dtypes as upstream

from minijax.core import dtypes

SCALAR_TYPES = [bool, int, float, complex]
ALL = [*dtypes.NUMERIC_DTYPES, *SCALAR_TYPES, dtypes.float0]
KINDS = [
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.bool_,
]


class Typed:
    """A value as both libraries see an array: with an aval."""

    def __init__(self, dtype, weak_type):
        self.dtype = np.dtype(dtype)
        self.aval = SimpleNamespace(dtype=self.dtype, weak_type=weak_type)

    def __repr__(self):
        return f"{'weak ' * self.aval.weak_type}{self.dtype}"


upstream.register_type_whose_dtype_should_not_be_canonicalized(Typed)
TYPED = [Typed(d, weak) for d in dtypes.NUMERIC_DTYPES for weak in (False, True)]
VALUES = [*TYPED, True, 1, 1.0, 1j, np.float64(1), np.zeros(2, "int8"), None]


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    """Both settings of the 64-bit switch, in both libraries."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    dtypes.set_x64(request.param)
    yield request.param
    jax.config.update("jax_enable_x64", before)
    dtypes.set_x64(False)


def outcome(function, *args, **kwargs):
    """What a call returns or raises.

    Upstream lists the dtypes in a message in the order of a set, so the letters of a
    message are compared without their order.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return type(error).__name__, "".join(sorted(str(error)))


def test_the_dtypes_are_those_of_upstream():
    assert set(dtypes.NUMERIC_DTYPES) == set(upstream._jax_types)
    assert dtypes.float0 == jax.dtypes.float0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (dtypes.canonicalize_dtype, upstream.canonicalize_dtype),
        (dtypes.dtype_of, upstream.dtype),
        (dtypes.canonicalize_user_dtype, upstream.check_and_canonicalize_user_dtype),
        (dtypes.to_numeric_dtype, upstream.to_numeric_dtype),
    ],
    ids=lambda function: function.__name__,
)
def test_functions_of_one_dtype(x64, ours, theirs):
    for dtype in ALL:
        assert outcome(ours, dtype) == outcome(theirs, dtype), dtype


def test_to_inexact_dtype():
    for dtype in dtypes.NUMERIC_DTYPES:
        # Upstream forgot the 1-bit and 2-bit integers and leaves them as they are.
        forgotten = dtype.name in ("int1", "int2", "uint1", "uint2")
        expected = "float32" if forgotten else upstream.to_inexact_dtype(dtype)
        assert dtypes.to_inexact_dtype(dtype) == expected


def test_short_names():
    for dtype in dtypes.NUMERIC_DTYPES:
        assert dtypes.short_name(dtype) == upstream.short_dtype_name(dtype)


def test_issubdtype():
    for a in ALL:
        for b in [*ALL, *KINDS, "float32"]:
            ours, theirs = dtypes.issubdtype(a, b), upstream.issubdtype(a, b)
            assert ours == theirs, (a, b)


def test_promote_types_of_every_pair(x64):
    for a in ALL:
        for b in ALL:
            ours = outcome(dtypes.promote_types, a, b)
            assert ours == outcome(upstream.promote_types, a, b), (a, b)


def test_result_type_of_every_pair_of_values_weak_and_strong(x64):
    def both(library, a, b):
        return outcome(library.result_type, a, b, return_weak_type_flag=True)

    for a in VALUES:
        for b in VALUES:
            assert both(dtypes, a, b) == both(upstream, a, b), (a, b)


def test_promote_weak_of_every_pair(x64):
    for a in TYPED:
        for b in TYPED:
            pairs = [(x.dtype, x.aval.weak_type) for x in (a, b)]
            ours = outcome(dtypes.promote_weak, *pairs)
            assert ours == outcome(upstream.lattice_result_type, a, b), (a, b)


@given(st.lists(st.sampled_from([*VALUES, *SCALAR_TYPES]), max_size=4))
def test_result_type_of_several_values(values):
    ours = outcome(dtypes.result_type, *values, return_weak_type_flag=True)
    theirs = outcome(upstream.result_type, *values, return_weak_type_flag=True)
    assert ours == theirs


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        np.array(["a"]),
        np.array([object()]),
        np.array([1], "datetime64[s]"),
        np.zeros(1, "V4"),
        [1, 2],
        None,
        {},
        object(),
        ...,
        np.dtype("O"),
        str,
        2**70,
    ],
    ids=lambda value: re.sub("0x[0-9a-f]+", "", repr(value)),
)
def test_what_is_said_of_values_that_are_no_arrays(value):
    assert outcome(dtypes.dtype_of, value) == outcome(upstream.dtype, value)
    ours = outcome(dtypes.canonicalize_user_dtype, value, "f")
    assert ours == outcome(upstream.check_and_canonicalize_user_dtype, value, "f")


def test_the_message_about_objects_to_the_letter():
    message = (
        "Value '[None]' with dtype object is not a valid JAX array type. Only arrays "
        "of numeric types are supported by JAX."
    )
    with pytest.raises(TypeError) as caught:
        dtypes.dtype_of(np.array([None]))
    assert str(caught.value) == message


def test_the_order_of_dtypes_in_a_message_is_that_of_the_arguments():
    with pytest.raises(dtypes.TypePromotionError, match=r"'int4', 'float32'"):
        dtypes.promote_types("int4", "float32")


@pytest.mark.parametrize("value", [0, 2**31 - 1, -(2**31), 2**31, 2**63, 0.5, True, 1j])
def test_python_scalars(x64, value):
    expected = outcome(upstream.scalar_type_to_dtype, type(value), value)
    if isinstance(expected, np.dtype):
        assert dtypes.scalar_dtype(value) == (expected, type(value) is not bool)
        assert dtypes.is_weakly_typed(value) == upstream.is_weakly_typed(value)
    else:
        assert outcome(dtypes.scalar_dtype, value) == expected


def test_weak_types_are_found_on_the_value_or_its_aval():
    assert dtypes.is_weakly_typed(SimpleNamespace(weak_type=True))
    assert dtypes.is_weakly_typed(Typed("int32", True))
    assert not dtypes.is_weakly_typed(Typed("int32", False))
    assert not dtypes.is_weakly_typed(np.float32(1))


@pytest.mark.parametrize(
    ("ours", "theirs", "args"),
    [
        (dtypes.dtype_of, upstream.dtype, (np.dtype("float64"),)),
        (
            dtypes.canonicalize_user_dtype,
            upstream.check_and_canonicalize_user_dtype,
            ("int64", "zeros"),
        ),
    ],
)
def test_asking_for_64_bits_warns_as_upstream_does(ours, theirs, args):
    with pytest.warns(UserWarning, match="truncated") as expected:
        theirs(*args)
    with pytest.warns(UserWarning, match="truncated") as given:
        ours(*args)
    assert str(given[0].message) == str(expected[0].message)


def test_the_64_bit_switch_is_seen_by_every_thread(x64):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(dtypes.x64_enabled()))
    thread.start()
    thread.join()
    assert seen == [x64]
    assert dtypes.default_dtype("f") == ("float64" if x64 else "float32")
