"""The builders that pages share, against what upstream emits for the same."""

import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir

from minijax.core import dtypes
from minijax.core.avals import ShapedArray, abstract_token
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Var
from minijax.core.primitive import Primitive
from minijax.lowering import dialect as d
from minijax.lowering.dialect import building, constant, context, ir_type, tensor
from minijax.lowering.lower import lower_to_module

# StableHLO has no constants of the unsigned type with one bit.
DTYPES = [t for t in map(np.dtype, dtypes.NUMERIC_DTYPES) if t.name != "uint1"]


def lowered(rule: Callable[..., Any], out: ShapedArray, *ins: ShapedArray) -> str:
    """The module of one equation, whose only result `rule` builds."""
    primitive = Primitive("p")
    primitive.def_lowering(lambda ctx, *xs: [rule(*xs)])
    invars, outvar = [Var(a) for a in ins], Var(out)
    jaxpr = Jaxpr([], invars, [outvar], [JaxprEqn(primitive, invars, [outvar], {})])
    return str(lower_to_module(jaxpr, "jit_f", result_info=["result"]))


def expected(jax: ModuleType, f: Callable[..., Any], *ins: ShapedArray) -> str:
    f.__name__ = "f"
    with jax.enable_x64(True):
        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in ins]
        return jax.jit(f).lower(*avals).as_text()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("values", [1, [1, 1, 1], [[0, 1]], []], ids=str)
def test_constants(upstream: ModuleType, dtype: np.dtype[Any], values: Any) -> None:
    array = np.array(values, dtype)
    aval = ShapedArray(array.shape, dtype)
    text = lowered(lambda: constant(array), aval)
    assert text == expected(upstream, lambda: array)


@pytest.mark.parametrize(
    "value", [0.0, -0.0, np.nan, -np.inf, 1e-3, True, 2**40, 1 + 2j]
)
def test_scalars_that_python_takes_for_equal(upstream: ModuleType, value: Any) -> None:
    scalar = np.asarray(value)[()]
    aval = ShapedArray((), scalar.dtype)
    for _ in range(2):
        text = lowered(lambda: constant(value), aval)
        assert text == expected(upstream, lambda: scalar)


def test_types() -> None:
    with building():
        assert str(ir_type(abstract_token)) == "!stablehlo.token"
        assert str(ir_type(ShapedArray((2, 0), dtypes.float0))) == "tensor<2x0xi1>"
        assert ir_type(ShapedArray((), "int8")) == tensor((), np.int8)


def test_attributes() -> None:
    with building():
        assert str(d.i64(-3)) == "-3 : i64"
        assert str(d.i32(3)) == "3 : i32"
        assert str(d.i64_array([np.int64(1), 2])) == "array<i64: 1, 2>"
        assert str(d.i64_array([])) == "array<i64>"
        assert str(d.bools([True, False])) == "array<i1: true, false>"
        assert str(d.string('a"b')) == '"a\\22b"'


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int8"),
        ("bool", "float32"),
        ("float32", "bool"),
        ("bfloat16", "bool"),
        ("int8", "bool"),
        ("uint8", "bool"),
        ("complex64", "float64"),
        ("complex64", "bool"),
        ("complex64", "complex128"),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_convert(upstream: ModuleType, source: str, target: str) -> None:
    ins = ShapedArray((2,), source)
    outs = ShapedArray((2,), target)
    text = lowered(lambda x: d.convert(x, ins, outs), outs, ins)
    lax = upstream.lax
    assert text == expected(
        upstream, lambda x: lax.convert_element_type(x, outs.dtype), ins
    )


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "complex64"])
def test_compare(upstream: ModuleType, dtype: str) -> None:
    ins = ShapedArray((2,), dtype)
    text = lowered(
        lambda x, y: d.compare("EQ", x, y, ins), ShapedArray((2,), bool), ins, ins
    )
    assert text == expected(upstream, lambda x, y: upstream.lax.eq(x, y), ins, ins)


def test_reduce(upstream: ModuleType) -> None:
    ins, outs = ShapedArray((2, 3), np.float32), ShapedArray((3,), np.float32)

    def rule(x: ir.Value) -> ir.Value:
        zero = constant(0.0, np.float32)
        return d.reduce_op("stablehlo.add", x, zero, (0,), outs)

    text = lowered(rule, outs, ins)
    assert text == expected(upstream, lambda x: x.sum(0), ins)


def test_shapes(upstream: ModuleType) -> None:
    ins, outs = ShapedArray((2, 3), np.float32), ShapedArray((1, 6, 2), np.float32)

    def rule(x: ir.Value) -> ir.Value:
        assert d.reshape(x, x.type) is x
        x = d.transpose(x, (1, 0), tensor((3, 2), np.float32))
        x = d.reshape(x, tensor((6,), np.float32))
        return d.broadcast_in_dim(x, (1,), ir_type(outs))

    def f(x: Any) -> Any:
        x = upstream.lax.reshape(upstream.lax.transpose(x, (1, 0)), (6,))
        return upstream.lax.broadcast_in_dim(x, outs.shape, (1,))

    assert lowered(rule, outs, ins) == expected(upstream, f, ins)


def test_full(upstream: ModuleType) -> None:
    aval = ShapedArray((2, 3), np.int32)
    text = lowered(lambda: d.full(aval, 7), aval)
    assert text == expected(
        upstream, lambda: upstream.lax.full(aval.shape, 7, aval.dtype)
    )


def test_one_context_for_all_threads() -> None:
    found: list[ir.Context] = []

    def work() -> None:
        found.append(context())
        for n in range(1, 50):
            aval = ShapedArray((n,), np.float32)
            lowered(lambda x: d.op1("stablehlo.sine", [x], x.type), aval, aval)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    assert all(c is context() for c in found)


def test_importing_makes_no_context() -> None:
    code = (
        "import minijax.lowering.lower as l\n"
        "from minijax.lowering.dialect import context\n"
        "assert context.cache_info().currsize == 0\n"
        "import sys; assert 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
