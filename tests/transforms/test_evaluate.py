"""Evaluation: one operation at a time, each compiled once."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.primitive import Primitive
from minijax.core.trace import shaped
from minijax.lowering.dialect import broadcast_in_dim, ir_type
from minijax.transforms import evaluate

V = np.arange(3, dtype=np.float32)


def compiled() -> int:
    return len(evaluate._executables)


def test_an_operation_is_compiled_once_per_type() -> None:
    minijax.clear_caches()
    lax.sin(V)
    first = compiled()
    lax.sin(V + 1)
    assert compiled() == first == 1
    lax.sin(V[:2])
    lax.sin(V.astype(np.float16))
    assert compiled() == 3


def test_parameters_tell_programs_apart() -> None:
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(lax.reduce_sum(x, (0,)), [2, 2, 2])
    np.testing.assert_array_equal(lax.reduce_sum(x, (1,)), [3, 3])


def test_values_equal_in_python_but_of_other_types_are_told_apart() -> None:
    """1 == 1.0 == True, and each hashes as the others do."""
    outs = [lax.full((), v) for v in (1, 1.0, True)]
    assert [o.dtype for o in map(jnp.asarray, outs)] == [np.int32, np.float32, np.bool_]
    same = [jnp.asarray(v) * jnp.asarray(v) for v in (1, 1.0)]
    assert [o.dtype for o in same] == [np.int32, np.float32]


def test_python_scalars_are_operands_not_programs() -> None:
    minijax.clear_caches()
    for scale in (1.0, 2.0, 3.0):
        np.testing.assert_array_equal(lax.mul(V, scale), V * np.float32(scale))
    assert compiled() == 1


def test_eager_and_jitted_agree_on_types() -> None:
    programs: list[Any] = [
        lambda x: lax.add(x, 1.0),
        lambda x: lax.gt(x, x),
        lambda x: lax.convert_element_type(x, np.int8),
        lambda x: lax.broadcast(x, (2,)),
        lambda x: jnp.sum(x),
    ]
    for f in programs:
        eager, jitted = f(V), minijax.jit(f)(V)
        assert eager.aval == jitted.aval
        np.testing.assert_array_equal(eager, jitted)


def test_results_lie_where_the_operands_do() -> None:
    device = minijax.devices()[2]
    x = minijax.device_put(V, device)
    out = lax.add(lax.sin(x), V)
    assert out.devices() == {device}
    assert out.committed


def test_operands_must_lie_together() -> None:
    a, b = (minijax.device_put(V, d) for d in minijax.devices()[:2])
    with pytest.raises(ValueError, match="incompatible devices"):
        lax.add(a, b)


def test_a_primitive_without_a_lowering_says_so() -> None:
    odd_p = Primitive("odd")
    odd_p.def_abstract_eval(lambda x: [x])
    with pytest.raises(NotImplementedError, match="odd"):
        odd_p.bind(V)


def test_collectives_need_an_axis() -> None:
    with pytest.raises(NameError, match="unbound axis name: i"):
        lax.psum(V, "i")
    with pytest.raises(NameError, match="unbound axis name: i"):
        lax.all_gather(V, "i")


def test_what_is_no_value_is_refused_with_its_place() -> None:
    with pytest.raises(TypeError, match=r"add as a JAX value.*at position 1"):
        lax.add(V, "text")
    with pytest.raises(ValueError, match="masked arrays"):
        lax.sin(np.ma.masked_array(V, mask=[True, False, False]))


def test_caches_can_be_cleared() -> None:
    lax.cos(V)
    minijax.clear_caches()
    assert compiled() == 0
    np.testing.assert_allclose(lax.cos(V), np.cos(V), rtol=1e-6)


def test_parameters_are_told_apart_by_name_in_any_order() -> None:
    grid_p = Primitive("grid")
    grid_p.def_abstract_eval(lambda x, *, rows, cols: [shaped((rows, cols), x.dtype)])

    @grid_p.def_lowering
    def _lowering(ctx: Any, x: Any, **_: Any) -> Any:
        return [broadcast_in_dim(x, (), ir_type(ctx.avals_out[0]))]

    assert grid_p.bind1(np.float32(1), rows=2, cols=3).shape == (2, 3)
    assert grid_p.bind1(np.float32(1), cols=2, rows=3).shape == (3, 2)
