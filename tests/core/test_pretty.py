"""Printed jaxprs: upstream's programs, rebuilt in our classes, print as upstream does.

`rebuild` copies an upstream jaxpr, equation for equation; what upstream's own rules
hide of an equation's parameters is in `HIDDEN`, since our pages say that for our
primitives. Small texts that need no oracle stand at the end.
"""

import time
from itertools import pairwise

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from jax._src import core as upstream

from minijax.core import pretty
from minijax.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.core.primitive import Primitive
from minijax.core.staging import StagingTrace
from minijax.core.trace import shaped

P = jax.sharding.PartitionSpec
HIDDEN = {
    "convert_element_type": {"sharding"},
    "broadcast_in_dim": {"shape", "sharding"},
    "mul": {"out_dtype"},
    "jit": {
        "inline",
        "donated_invars",
        "in_shardings",
        "out_shardings",
        "in_layouts",
        "out_layouts",
        "keep_unused",
        "ctx_mesh",
        "compiler_options_kvs",
    },
    **{name: {"accuracy"} for name in ("sin", "cos", "tanh")},
}


class Aval:
    """An upstream aval that prints itself as ours do."""

    def __init__(self, aval):
        self.short = lambda: aval.str_short(short_dtypes=True)


def shown(eqn):
    hidden = HIDDEN.get(eqn.primitive.name, ())
    return {
        k: v
        for k, v in eqn.params.items()
        if k not in hidden and (k != "broadcast_dimensions" or v)
    }


def rebuild(jaxpr, done=None):
    """Our copy of an upstream jaxpr; a jaxpr that is shared stays shared."""
    done = {} if done is None else done
    if jaxpr in done:
        return done[jaxpr]
    env = {}

    def atom(x):
        if isinstance(x, upstream.Literal):
            return Literal(x.val, Aval(x.aval))
        if x not in env:
            kind = DropVar if isinstance(x, upstream.DropVar) else Var
            env[x] = kind(Aval(x.aval))
        return env[x]

    def param(value):
        if isinstance(value, upstream.Jaxpr):
            return rebuild(value, done)
        return tuple(map(param, value)) if type(value) is tuple else value

    def equation(eqn):
        primitive = Primitive(eqn.primitive.name)
        primitive.pretty = shown
        params = {k: param(v) for k, v in eqn.params.items()}
        return JaxprEqn(
            primitive, [*map(atom, eqn.invars)], [*map(atom, eqn.outvars)], params
        )

    parts = (jaxpr.constvars, jaxpr.invars, jaxpr.outvars)
    constvars, invars, outvars = ([atom(v) for v in part] for part in parts)
    done[jaxpr] = Jaxpr(constvars, invars, outvars, [equation(e) for e in jaxpr.eqns])
    return done[jaxpr]


C = np.arange(4, dtype=np.float32)
sin_jit = jax.jit(lambda x: jnp.sin(x))
twice_jit = jax.jit(lambda x: sin_jit(x) + 1)


def f(x):
    return jnp.cos(x) + 2


def other_f(scale):
    def f(x):
        return x + scale

    return jax.jit(f)


def sines(x, n=12):
    for _ in range(n):
        x = jnp.sin(x)
    return x


def a(x):
    return jnp.sin(x)


def unused(x):
    jnp.sin(x)
    return jax.jit(lambda y: (y, jnp.cos(y)))(x)[0]


def mapped(x):
    mesh = jax.make_mesh(
        (2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2
    )
    body = jax.shard_map(
        lambda v: lax.psum(jnp.sin(v) * 2, "y"),
        mesh=mesh,
        in_specs=P("x", "y"),
        out_specs=P("x"),
    )
    return jax.jit(body)(x)


PROGRAMS = {
    "no equations": (lambda x: x, (1.0,)),
    "no arguments": (lambda: (), ()),
    "one line": (lambda x: jnp.sin(x), (C,)),
    "many letters": (lambda x: sines(x, 800), (C,)),
    "constants": (lambda x: x + C, (C,)),
    "literals": (lambda x: (x + 1, x + 1j, x + np.float32(0.1), x + np.inf), (1.0,)),
    "narrow literals": (lambda x: (x + jnp.bfloat16(2), ~np.True_), (1,)),
    "drops": (unused, (C,)),
    "tokens": (lambda x: (lax.after_all(lax.create_token()), x)[1], (C,)),
    "many arguments": (lambda *xs: xs, range(60)),
    "many operands": (lambda *xs: lax.concatenate(xs, 0), [np.ones(3)] * 60),
    "call": (lambda x: jax.jit(lambda y: y + C)(x) + C, (C,)),
    "call, many operands": (lambda *xs: jax.jit(lambda *y: y[::-1])(*xs), [C] * 30),
    "call, equal operands": (lambda x, y: jax.jit(lambda *z: z)(x, x, y), (1.0, 2.0)),
    "call, equal results": (lambda x: jax.jit(lambda y: (y, y, 3.0))(x), (1.0,)),
    "call, literal operand": (lambda x: jax.jit(lambda y, z: y + z)(x, 3), (C,)),
    "call, no equations": (jax.jit(lambda x: x), (1.0,)),
    "long call": (jax.jit(sines), (1.0,)),
    "shared": (lambda x: sin_jit(sin_jit(x)), (C,)),
    "shared inside shared": (lambda x: twice_jit(twice_jit(x)), (C,)),
    "shared under one name": (
        lambda x: [g(g(x)) for g in map(other_f, range(4))],
        (1.0,),
    ),
    "shared under a letter": (lambda x: jax.jit(a)(jax.jit(a)(x)), (C,)),
    "branches": (lambda x: lax.cond(x > 0, jnp.sin, f, x), (1.0,)),
    "scan": (
        lambda x: lax.scan(lambda c, y: (c + y, jnp.sin(y)), C[0], x),
        (C,),
    ),
    "long scan": (
        lambda x: lax.scan(lambda c, _: (sines(c), None), x, None, length=3)[0],
        (C,),
    ),
    "while": (lambda x: lax.fori_loop(0, x, lambda i, c: c + i, x), (3,)),
    "shard_map": (mapped, (np.ones((4, 4), np.float32),)),
    "grad": (jax.grad(lambda x: jax.jit(lambda y: jnp.sin(jnp.sin(y)))(x)), (1.0,)),
    "vmap": (jax.vmap(lambda x: sin_jit(x)), (C,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_as_upstream(name):
    fun, args = PROGRAMS[name]
    jaxpr = jax.make_jaxpr(fun)(*args)
    assert str(rebuild(getattr(jaxpr, "jaxpr", jaxpr))) == str(jaxpr)


# ------------------------------------------------------------ texts of our own


F32 = shaped((3,), np.dtype("float32"))


def program(n_eqns=1, name="sin", /, **params):
    """x -> sin(sin(...x)), the primitive made for the occasion."""
    primitive = Primitive(name)
    variables = [Var(F32) for _ in range(n_eqns + 1)]
    eqns = [JaxprEqn(primitive, [v], [w], params) for v, w in pairwise(variables)]
    return Jaxpr([], variables[:1], variables[-1:], eqns)


def test_str_and_repr_of_programs():
    jaxpr = program()
    text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert str(jaxpr) == repr(jaxpr) == text
    assert str(ClosedJaxpr(jaxpr)) == repr(ClosedJaxpr(jaxpr)) == text
    assert str(jaxpr.eqns[0]) == "a:f32[3] = sin b"


def test_parameters():
    jaxpr = program(
        dtype=np.dtype("float32"),
        axes=(0, 1),
        names=frozenset({"y", "x"}),
        callback=test_parameters,
    )
    assert (
        str(jaxpr)
        == """\
{ lambda ; a:f32[3]. let
    b:f32[3] = sin[
      axes=(0, 1)
      callback=<function test_parameters at 0xXXXXXXXXXXXX>
      dtype=float32
      names=frozenset({'x', 'y'})
    ] a
  in (b,) }"""
    )


def test_pretty_chooses_the_parameters():
    jaxpr = program(n=1, m=2)
    jaxpr.eqns[0].primitive.def_pretty(lambda eqn: {"m": eqn.params["m"]})
    assert "sin[m=2] a" in str(jaxpr)


def test_an_equation_without_operands_or_results():
    none = JaxprEqn(Primitive("create_token"), [], [], {})
    assert str(Jaxpr([], [], [], [none])) == "{ lambda ; . let create_token  in () }"


def test_names_within_a_program():
    jaxpr = program(3)
    assert pretty.eqn_text(jaxpr.eqns[1], jaxpr) == "c:f32[3] = sin b"
    assert pretty.atom_text(jaxpr.outvars[0], jaxpr) == "d"


def test_a_staged_program_prints_its_drops():
    primitive = Primitive("two")
    primitive.def_abstract_eval(lambda x: [x, x])
    trace = StagingTrace()
    outs = trace.process(primitive, [trace.new_arg(F32)], {})
    jaxpr, _ = trace.finish(outs[1:])
    assert str(jaxpr) == "{ lambda ; a:f32[3]. let _:f32[3] b:f32[3] = two a in (b,) }"


def test_printing_is_linear():
    jaxpr = program(10_000, axes=(0, 1))
    start = time.perf_counter()
    lines = str(jaxpr).count("\n")
    assert (lines, time.perf_counter() - start < 30) == (10_001, True)


def test_programs_shared_at_every_level_print_once():
    jaxpr = program()
    for _ in range(60):  # 2**60 sines
        jaxpr = program(2, "jit", name="f", jaxpr=jaxpr)
    assert str(jaxpr).count("sin") == 1
