"""Tokens: what they print, lower to, refuse, and how transformations treat them."""

import numpy as np
import pytest

import minijax as jax
from minijax import lax
from minijax.experimental import io_callback


def both(text, upstream):
    assert text(jax) == text(upstream)


PROGRAMS = {
    "two and after": lambda lax: lax.after_all(lax.create_token(), lax.create_token()),
    "after none": lambda lax: lax.after_all(),
    "argument ignored": lambda lax: lax.create_token(3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_and_lowers_as_upstream(upstream, name):
    def jaxpr(jax):
        return str(jax.make_jaxpr(lambda: PROGRAMS[name](jax.lax))())

    def text(jax):
        return jax.jit(lambda: PROGRAMS[name](jax.lax)).lower().as_text()

    both(jaxpr, upstream)
    both(text, upstream)


def test_an_unread_token_is_never_made():
    def f(x):
        lax.after_all(lax.create_token())
        return lax.neg(x)

    assert "token" not in jax.jit(f).lower(1.0).as_text()


def test_the_type_of_a_token():
    assert str(jax.typeof(lax.create_token())) == "AbstractToken()"
    assert repr(jax.eval_shape(lax.after_all)) == "AbstractToken()"


@pytest.mark.parametrize("jit", [False, True])
def test_after_all_of_something_else(jit):
    f = lambda x: lax.after_all(lax.create_token(), x)  # noqa: E731
    with pytest.raises(TypeError, match="Arguments to after_all must be tokens") as e:
        (jax.jit(f) if jit else f)(np.ones(2, np.float32))
    assert "argument 1 has type float32[2]" in str(e.value)


@pytest.mark.parametrize(
    ("place", "x", "said"),
    [
        (0, 2.0, "argument 0 has type ~float32[]"),
        (0, np.ones((2, 3), np.int32), "argument 0 has type int32[2,3]"),
        (2, True, "argument 2 has type bool[]"),
    ],
)
def test_after_all_says_which_argument_and_what_it_is(place, x, said):
    tokens = [lax.create_token() for _ in range(place)]
    with pytest.raises(TypeError, match=r"^Arguments to after_all must be tokens") as e:
        lax.after_all(*tokens, x, lax.create_token())
    assert said in str(e.value)


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("jit", [False, True])
def test_after_all_of_any_number(count, jit):
    tokens = [lax.create_token() for _ in range(count)]
    after = (jax.jit(lax.after_all) if jit else lax.after_all)(*tokens)
    assert str(jax.typeof(after)) == "AbstractToken()"
    assert all(after is not t for t in tokens)
    after.block_until_ready()
    text = jax.jit(lax.after_all).lower(*tokens).as_text()
    names = ", ".join(f"%arg{i}" for i in range(count))
    assert f"stablehlo.after_all {names} : !stablehlo.token" in text


def test_two_tokens_are_two():
    def f():
        return lax.create_token(), lax.create_token()

    assert str(jax.make_jaxpr(f)()).count("create_token") == 2
    assert jax.jit(f).lower().as_text().count("create_token") == 2
    for pair in (f(), jax.jit(f)()):
        assert pair[0] is not pair[1]
        for t in pair:
            t.block_until_ready()


def _returns(t):
    u = lax.after_all(t)
    return {
        "an argument": (t, t),
        "a token made": (u, u),
        "through a barrier": (t, lax.optimization_barrier((t, 1.0))[0]),
        "through a function": jax.jit(lambda t: (t, t, 1))(t),
        "through a loop": (t, lax.fori_loop(0, 2, lambda _, t: t, t)),
        "through branches": lax.cond(True, lambda: (t, t), lambda: (t, t)),
        "as its tangent": jax.jvp(lambda t: t, (t,), (t,)),
    }


@pytest.mark.parametrize("how", _returns(lax.create_token()))
@pytest.mark.parametrize("donated", [False, True])
def test_one_token_may_be_returned_twice(how, donated):
    f = jax.jit(lambda t: _returns(t)[how], donate_argnums=0 if donated else ())
    outs = jax.block_until_ready(f(lax.create_token()))
    assert [str(jax.typeof(t)) for t in outs[:2]] == ["AbstractToken()"] * 2
    # The program that is shown is the program that was written.
    lowered = f.lower(lax.create_token()).as_text()
    assert lowered.count("after_all") == (how == "a token made")


def test_one_token_may_be_returned_twice_next_to_an_ordered_effect():
    seen = []

    def f(t):
        io_callback(lambda: seen.append(1), None, ordered=True)
        return t, t

    for token in jax.jit(f)(lax.create_token()):
        token.block_until_ready()
    jax.effects_barrier()
    assert seen == [1]


def test_gradients_stop_at_a_token_as_at_an_array():
    t, x = lax.stop_gradient((lax.create_token(), 2.0))
    assert (str(jax.typeof(t)), float(x)) == ("AbstractToken()", 2.0)


def test_after_all_of_no_value():
    with pytest.raises(TypeError, match="Error interpreting argument to after_all"):
        lax.after_all(object())


def test_a_token_has_a_trivial_tangent():
    def f(x):
        t = lax.create_token()
        return lax.after_all(t), lax.mul(x, x)

    (_, y), (dt, dy) = jax.jvp(f, (3.0,), (1.0,))
    assert (float(y), float(dy)) == (9.0, 6.0)
    assert str(jax.typeof(dt)) == "AbstractToken()"

    def through(t, x):
        return lax.after_all(t, t), lax.mul(x, x)

    t = lax.create_token()
    (_, y), (dt, dy) = jax.jvp(through, (t, 3.0), (t, 1.0))
    assert (float(y), float(dy)) == (9.0, 6.0)
    assert str(jax.typeof(dt)) == "AbstractToken()"


def test_derivatives_pass_tokens_by():
    def f(x):
        lax.after_all(lax.create_token())
        return lax.mul(x, x)

    assert float(jax.grad(f)(3.0)) == 6.0
    assert float(jax.jit(jax.grad(f))(3.0)) == 6.0


def test_one_token_orders_a_whole_batch():
    def f(x):
        t = lax.after_all(lax.create_token())
        return t, lax.neg(x)

    t, y = jax.vmap(f)(np.ones(3, np.float32))
    assert str(jax.typeof(t)) == "AbstractToken()"
    np.testing.assert_array_equal(np.asarray(y), -np.ones(3))


def test_a_token_through_shard_map():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    P = jax.sharding.PartitionSpec

    def f(t, x):
        return lax.after_all(t, lax.create_token()), lax.psum(x, "i")

    g = jax.shard_map(f, mesh=mesh, in_specs=(P(), P("i")), out_specs=(P(), P()))
    t, y = jax.jit(g)(lax.create_token(), np.ones(4, np.float32))
    assert str(jax.typeof(t)) == "AbstractToken()"
    np.testing.assert_array_equal(np.asarray(y), [4.0])


def test_collectives_refuse_tokens():
    def f(x):
        return lax.all_to_all(lax.create_token(), "i", 0, 0), x

    with pytest.raises(TypeError, match="__array__") as e:
        jax.vmap(f, axis_name="i")(np.ones(2))
    assert type(e.value).__name__ == "TracerArrayConversionError"
