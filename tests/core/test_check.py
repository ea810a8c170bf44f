"""The checker accepts what tracing builds, and names what is wrong with the rest."""

import re
from contextlib import contextmanager

import numpy as np
import pytest

from minijax.core.avals import abstract_token, manual_type
from minijax.core.check import check_jaxpr
from minijax.core.effects import Effect
from minijax.core.errors.jaxprs import JaxprTypeError
from minijax.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.core.primitive import Primitive
from minijax.core.staging import StagingTrace
from minijax.core.trace import axis_env, axis_size, extend_axis_env, shaped

F32 = shaped((3,), np.dtype("float32"))
SCALAR = shaped((), np.dtype("float32"))
WEAK = shaped((), np.dtype("float32"), True)
LOUD = Effect("loud")

sin_p = Primitive("sin")
add_p = Primitive("add")
noise_p = Primitive("noise")
jit_p = Primitive("jit")
size_p = Primitive("size")  # a row of the size of an axis


@sin_p.def_abstract_eval
def _sin(x):
    return [x]


@add_p.def_abstract_eval
def _add(x, y):
    if x.dtype != y.dtype:
        raise TypeError("add requires equal dtypes")
    return [x if x.shape else y]


@noise_p.def_abstract_eval
def _noise():
    return []


@noise_p.def_effects
def _noise_effects():
    return frozenset({LOUD})


@jit_p.def_abstract_eval
def _jit(*_, jaxpr, name):
    return jaxpr.out_avals


@jit_p.def_effects
def _jit_effects(*_, jaxpr, name):
    return jaxpr.effects


@size_p.def_abstract_eval
def _size(*, axis):
    return [shaped((axis_size(axis),), np.dtype("float32"))]


def eqn(primitive, invars, outvars, **params):
    rule = primitive.effects
    effects = rule(*[v.aval for v in invars], **params) if rule else frozenset()
    return JaxprEqn(primitive, invars, outvars, params, effects)


def sine(inner=F32, outer=F32):
    x, y = Var(inner), Var(outer)
    return Jaxpr([], [x], [y], [eqn(sin_p, [x], [y])])


def call(body, operand=F32, result=F32):
    x, y = Var(operand), Var(result)
    return Jaxpr([], [x], [y], [eqn(jit_p, [x], [y], jaxpr=body, name="f")])


def refuses(jaxpr, reason):
    with pytest.raises(JaxprTypeError, match=re.escape(reason)) as caught:
        check_jaxpr(jaxpr)
    return str(caught.value)


def test_what_tracing_builds():
    trace = StagingTrace()
    x, token = trace.new_arg(F32), trace.new_arg(abstract_token)
    (y,) = trace.process(sin_p, [x], {})
    (z,) = trace.process(add_p, [y, 2.0], {})
    trace.process(noise_p, [], {})
    trace.process(sin_p, [z], {})  # dropped
    trace.process(jit_p, [y], {"jaxpr": sine(), "name": "f"})
    jaxpr, _ = trace.finish([z, token, 1.0])
    check_jaxpr(jaxpr)


def test_dropped_results_bind_nothing():
    x, dropped = Var(F32), DropVar(F32)
    eqns = [eqn(sin_p, [x], [dropped]), eqn(sin_p, [x], [dropped])]
    check_jaxpr(Jaxpr([], [x], [x], eqns))
    refuses(Jaxpr([], [x], [dropped], eqns), "Variable '_' not defined")


def test_the_message_shows_equation_and_source():
    x, y = Var(F32), Var(F32)
    stray = eqn(sin_p, [y], [Var(F32)]).replace(source="file.py:3 (f)")
    message = refuses(Jaxpr([], [x], [x], [stray]), "Variable 'b' not defined")
    assert message == (
        "Variable 'b' not defined\n\nin equation:\n\n_:f32[3] = sin b\n\n"
        "from source: file.py:3 (f)"
    )


def test_unbound_output():
    message = refuses(Jaxpr([], [], [Var(F32)], []), "Variable 'a' not defined")
    assert message.endswith("in jaxpr:\n\n{ lambda ; . let  in (a,) }")


def test_bound_before_use():
    x, y, z = Var(F32), Var(F32), Var(F32)
    eqns = [eqn(sin_p, [y], [z]), eqn(sin_p, [x], [y])]
    refuses(Jaxpr([], [x], [z], eqns), "not defined")


def test_bound_once():
    x, y = Var(F32), Var(F32)
    twice = [eqn(sin_p, [x], [y])] * 2
    refuses(Jaxpr([], [x], [y], twice), "Variable 'b' already bound")
    refuses(Jaxpr([], [x], [x], [eqn(sin_p, [x], [x])]), "already bound")
    refuses(Jaxpr([], [x, x], [x], []), "already bound")
    refuses(Jaxpr([x], [x], [x], []), "already bound")


@pytest.mark.parametrize(
    ("outer", "shown"),
    [
        (shaped((4,), F32.dtype), "float32[4]"),
        (shaped((3,), np.dtype("int32")), "int32[3]"),
        (shaped((3,), F32.dtype, True), "~float32[3]"),
        (abstract_token, "AbstractToken()"),
    ],
)
def test_wrong_results(outer, shown):
    refuses(
        sine(F32, outer),
        "Value for variable 'b' inconsistently typed as float32[3] for let-binder of "
        f"type {shown}",
    )


def test_wrong_manual_type():
    refuses(sine(F32, F32.update(manual=manual_type({"x"}))), "inconsistently typed")


def test_wrong_number_of_results():
    x, y, z = Var(F32), Var(F32), Var(F32)
    refuses(Jaxpr([], [x], [y], [eqn(sin_p, [x], [y, z])]), "1 results where")


def test_the_primitive_refuses_the_operands():
    x, y, z = Var(F32), Var(shaped((3,), np.dtype("int32"))), Var(F32)
    jaxpr = Jaxpr([], [x, y], [z], [eqn(add_p, [x, y], [z])])
    message = refuses(jaxpr, "TypeError: add requires equal dtypes")
    assert "c:f32[3] = add a b" in message


@pytest.mark.parametrize("value", [1, np.float64(1), np.zeros(3, "int32")])
def test_wrong_literals(value):
    wrong = Literal(value, shaped((3,), np.dtype("int8")))
    refuses(Jaxpr([], [], [wrong], []), "does not match its type annotation int8[3]")


@pytest.mark.parametrize("aval", [SCALAR, WEAK])
def test_a_literal_may_be_weak_or_not(aval):
    check_jaxpr(Jaxpr([], [], [Literal(1.0, aval)], []))


def test_effects():
    noise = eqn(noise_p, [], [])
    check_jaxpr(Jaxpr([], [], [], [noise]))
    reason = "Inferred effects {loud} do not match stated effects {}"
    refuses(Jaxpr([], [], [], [noise], frozenset()), reason)
    refuses(Jaxpr([], [], [], [noise.replace(effects=frozenset())]), reason)


# --------------------------------------------------------------------- bodies


def test_an_error_in_a_body_is_shown_there():
    message = refuses(call(call(sine(F32, SCALAR), F32, SCALAR), F32, SCALAR), "typed")
    assert message.endswith("in equation:\n\nb:f32[] = sin a")


def test_a_call_passes_what_its_program_takes():
    jaxpr = call(sine(), SCALAR)
    refuses(
        jaxpr, "Operand 'a' of type float32[] is passed to a jaxpr expecting type f"
    )
    x, y = Var(F32), Var(F32)
    many = Jaxpr([], [x], [y], [eqn(jit_p, [x, x], [y], jaxpr=sine(), name="f")])
    refuses(many, "1 operands taken by the jaxpr where the equation has 2")


def test_a_body_has_no_constvars():
    x, y = Var(F32), Var(F32)
    refuses(call(Jaxpr([x], [y], [x], [])), "has constvars: a;")


def test_a_body_is_checked_under_the_axes_that_its_equation_binds():
    y = Var(shaped((5,), F32.dtype))
    body = Jaxpr([], [], [y], [eqn(size_p, [], [y], axis="i")])
    z = Var(y.aval)
    jaxpr = Jaxpr([], [], [z], [eqn(jit_p, [], [z], jaxpr=body, name="f")])
    refuses(jaxpr, "unbound axis name: i")

    @contextmanager
    def enter(outer):
        assert outer is jaxpr.eqns[0]
        with extend_axis_env([("i", 5)]):
            yield

    check_jaxpr(jaxpr, enter)
    assert axis_env().sizes == {}


def test_shared_bodies_are_checked_once():
    jaxpr = sine()
    for _ in range(60):
        x, y, z = Var(F32), Var(F32), Var(F32)
        params = {"jaxpr": jaxpr, "name": "f"}
        calls = [eqn(jit_p, [x], [y], **params), eqn(jit_p, [y], [z], **params)]
        jaxpr = Jaxpr([], [x], [z], calls)
    check_jaxpr(jaxpr)
