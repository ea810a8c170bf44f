"""Operators and methods of arrays: programs as upstream's, values as numpy's."""

import operator
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minijax

F = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
N = np.arange(-5, 7, dtype=np.int32).reshape(4, 3)

FLOATS = (
    """
x*2|x+np.ones(3,np.float32)|x+np.ones(3)|x+True|x-1|-x|+x|abs(x)|x**2|x**0.5|x**3|x**-1
2**x|1/x|x/2|x//2|x%3|divmod(x,2)|x>0|x==x|x!=1|x.T|x.mT|x.reshape(2,-1)
x.reshape((6,2),order='F')|x.ravel()|x.flatten()|x.sum(0)|x.sum()
x.sum(axis=-1,keepdims=True)|x.mean(0)|x.mean()|x.max(0)|x.min()|x.prod(0)|x.any()
x.all(1)|x.argmax(0)|x.argmin()|x.argmax(1,keepdims=True)|x@x.T|x@x[0]|x.dot(x.T)
x.squeeze()|x[:1].squeeze(0)|x.swapaxes(0,1)|x.conj()|x.real|x.imag|x.round()|x.round(2)
round(x)|round(x,1)|x.clip(0,1)|x.clip(min=0)|x.cumsum(0)|x.cumsum()|x.cumprod(1)
x.std(0)|x.view('int32')|x.view('int16')|x.repeat(2,axis=0)|x.repeat(2)
x.take(np.array([0,1]),axis=0)|x.astype('int32')|x.astype('bool')|x.astype('float32')
x.copy()|x.transpose(1,0)|x.transpose()|x.sort()|x.argsort()|x.ptp()|x.diagonal()
x.diagonal(1)|~(x>0)|(x>0)&True|x.sum(dtype='int32')|x+1j|x*np.float64(2)|3-x|x<<1
x.sum(0,where=x>0)|x.max(initial=3.)|x.item()|x.reshape(5,-1)|x.reshape(5)|x.sum(2)
x.squeeze(0)|x.T@x[:,None]|x+'a'|x+[1]|x==[1]|x<None|x.sum(0,out=1)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

INTS = (
    """
x*2|x*2.5|x/2|x//2|x%3|-7//x|x**2|x**2.0|2**x|x**x|x&1|x|x^3|~x|x<<1|x>>1|1<<x|abs(x)
x.mean(0)|x.sum(0)|x.prod()|x.max()|divmod(x,2)|x.std()|x@x.T|x+np.uint8(1)
x+np.ones(3,np.float16)|x.clip(0,1)|x.round()|x.argmax()|x.any()|x.astype('float32')
x.real|x.imag|x.conj()|x==2.5|x%2.5|x//2.5
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

CASES = [(e, F) for e in FLOATS] + [(e, N) for e in INTS]
NAMES = [f"{x.dtype}: {e}" for e, x in CASES]


def _function(expression: str) -> Any:
    return eval(f"lambda x: {expression}", {"np": np})


def _outcome(library: Any, expression: str, x: np.ndarray) -> tuple[str, str]:
    try:
        text = str(library.make_jaxpr(_function(expression))(x))
    except Exception as error:
        name = type(error).__name__
        first = str(error).splitlines()[0]
        return name, re.sub(r"'\w*Tracer'", "'Tracer'", first)
    return "", re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(("expression", "x"), CASES, ids=NAMES)
def test_the_program_is_upstreams(
    expression: str, x: np.ndarray, upstream: ModuleType
) -> None:
    assert _outcome(minijax, expression, x) == _outcome(upstream, expression, x)


@pytest.mark.parametrize(("expression", "x"), CASES, ids=NAMES)
def test_the_value_is_upstreams(
    expression: str, x: np.ndarray, upstream: ModuleType
) -> None:
    fun = _function(expression)
    try:
        want = upstream.tree.leaves(fun(upstream.numpy.asarray(x)))
    except Exception as error:
        with pytest.raises(type(error)):
            fun(minijax.device_put(x))
        return
    got = minijax.tree.leaves(fun(minijax.device_put(x)))
    for g, w in zip(got, want, strict=True):
        if hasattr(w, "dtype"):
            assert (g.dtype, g.weak_type, g.shape) == (w.dtype, w.weak_type, w.shape)
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-6)


@pytest.mark.parametrize("name", ["add", "mul", "truediv", "floordiv", "mod", "pow"])
@pytest.mark.parametrize("a", ["?", "i1", "u1", "i4", "f2", "f4", "c8"])
@pytest.mark.parametrize("b", ["?", "i1", "u4", "f4", 2, 1.5])
def test_promotion_is_upstreams(
    name: str, a: str, b: Any, upstream: ModuleType
) -> None:
    fun = getattr(operator, name)
    x = np.ones(3, a)
    y = np.ones(3, b) if isinstance(b, str) else b

    def types(library: Any, put: Any) -> Any:
        try:
            out = fun(put(x), put(y) if isinstance(b, str) else y)
        except Exception as error:
            return type(error).__name__, str(error)
        return out.dtype, out.weak_type

    assert types(minijax, minijax.device_put) == types(upstream, upstream.numpy.asarray)


def test_a_numpy_array_leaves_the_operation_to_the_tracer() -> None:
    text = str(minijax.make_jaxpr(lambda x: np.float32(2) * x)(F))
    assert "mul 2.0:f32[] a" in text
    assert "lambda a:f32[4,3]; b:f32[4,3]" in str(
        minijax.make_jaxpr(lambda x: F * x)(F)
    )
