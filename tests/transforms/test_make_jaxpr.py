"""`make_jaxpr` and `eval_shape`: a function looked at without being run."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.core.check import check_jaxpr
from minijax.core.jaxpr import eval_jaxpr, jaxpr_as_fun

V = np.arange(3, dtype=np.float32)


def f(x: Any, y: Any) -> Any:
    return {"a": jnp.sin(x) * y, "b": (x + 1, 2.0)}


def test_a_jaxpr_is_a_program_that_computes_the_function() -> None:
    closed = minijax.make_jaxpr(f)(V, 2.0)
    check_jaxpr(closed.jaxpr)
    outs = jaxpr_as_fun(closed)(V, 2.0)
    expected = minijax.tree.leaves(f(V, 2.0))
    for found, wanted in zip(outs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_nothing_runs() -> None:
    struct = minijax.ShapeDtypeStruct((10**6, 10**6), np.float32)
    out = minijax.eval_shape(lambda x: jnp.sum(x @ x, 0), struct)
    assert (out.shape, out.dtype) == ((10**6,), np.float32)
    jaxpr = minijax.make_jaxpr(lambda x: x @ x)(struct)
    assert jaxpr.out_avals[0].shape == (10**6, 10**6)


def test_shapes_can_be_returned_too() -> None:
    jaxpr, shapes = minijax.make_jaxpr(f, return_shape=True)(V, 2.0)
    assert shapes["a"].shape == (3,)
    assert [a.shape for a in jaxpr.out_avals] == [(3,), (3,), ()]


def test_static_arguments_are_part_of_the_program() -> None:
    make = minijax.make_jaxpr(lambda x, n: x**n, static_argnums=1)
    assert "integer_pow[y=3]" in str(make(V, 3))


def test_axis_names_can_be_given() -> None:
    make = minijax.make_jaxpr(
        lambda x: minijax.lax.all_gather(x, "i"), axis_env=[("i", 4)]
    )
    assert make(V).out_avals[0].shape == (4, 3)
    with pytest.raises(NameError, match="unbound axis name: i"):
        minijax.make_jaxpr(lambda x: minijax.lax.all_gather(x, "i"))(V)


def test_constants_are_kept_apart_from_the_program() -> None:
    closed = minijax.make_jaxpr(lambda x: x + V + V)(V)
    assert len(closed.consts) == 1
    assert len(closed.jaxpr.constvars) == 1
    (out,) = eval_jaxpr(closed.jaxpr, closed.consts, [V])
    np.testing.assert_array_equal(out, 3 * V)


def test_it_nests_in_other_traces() -> None:
    seen = []

    def outer(x: Any) -> Any:
        seen.append(str(minijax.make_jaxpr(jnp.sin)(x)))
        seen.append(str(minijax.eval_shape(jnp.sin, x)))
        return x

    minijax.jit(minijax.vmap(outer))(np.ones((2, 3), np.float32))
    assert "sin" in seen[0]
    assert "shape=(3,)" in seen[1]


def test_equations_know_the_users_line() -> None:
    closed = minijax.make_jaxpr(lambda x: minijax.lax.sin(x))(V)
    assert __file__ in str(closed.eqns[0].source)


def test_a_token_goes_in_and_out() -> None:
    def ordered(x: Any) -> Any:
        token = minijax.lax.create_token(x)
        return minijax.lax.after_all(token, token), x

    text = str(minijax.make_jaxpr(ordered)(V))
    assert "after_all" in text
    assert "Tok" in text
