"""Checking jaxprs: what every program must satisfy, whoever built it.

* A variable is bound once, and before it is read.
* The results of an equation have the types that the primitive's `abstract_eval`
  gives for the types of the operands: shape, dtype, weak type, sharding and manual
  type; its effects are those that the primitive declares.
* A program that is a parameter satisfies the same, and has no constvars.

Tracing builds only such programs, and so do transformations that are right. The checker
is for their tests, and so it may be slow and trusts nothing.

Upstream: `jax/_src/core.py` (`check_jaxpr`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from minijax.core.avals import EMPTY_MESH, ShapedArray, replicated
from minijax.core.errors import jaxprs as errors
from minijax.core.errors.jaxprs import JaxprTypeError
from minijax.core.jaxpr import (
    NO_EFFECTS,
    Atom,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    called_jaxpr,
    in_mesh_of,
    subjaxprs,
)
from minijax.core.pretty import atom_text, eqn_text, jaxpr_text
from minijax.core.trace import AxisEnv, axis_env, typeof

Enter = Callable[[JaxprEqn], AbstractContextManager[Any]]


def check_jaxpr(jaxpr: Jaxpr, enter: Enter | None = None) -> None:
    """Raises `JaxprTypeError` with the equation and the reason, if there is one.

    The types of a body may depend on axis names that its equation binds, as those of
    `shard_map` do. `enter(eqn)` is a context manager in which the bodies of an
    equation are checked. It is asked about equations that have bodies.

    >>> from minijax.core.trace import shaped
    >>> x, y = Var(shaped((3,), "float32")), Var(shaped((), "int32"))
    >>> check_jaxpr(Jaxpr([], [x], [x, x], []))
    >>> check_jaxpr(Jaxpr([], [x], [x, y], []))
    Traceback (most recent call last):
    minijax.core.errors.jaxprs.JaxprTypeError: Variable 'b' not defined
    """
    _Checker(enter or _enter_nothing).check(jaxpr)


def _enter_nothing(_: JaxprEqn) -> AbstractContextManager[Any]:
    return nullcontext()


class _Checker:
    """Checks one program and those nested in it."""

    def __init__(self, enter: Enter):
        self.enter = enter
        # A body may be shared by many equations; its types depend on the axis names.
        self.checked: set[tuple[Jaxpr, AxisEnv]] = set()

    def check(self, jaxpr: Jaxpr) -> None:
        bound: set[Var] = set()
        try:
            _bind(jaxpr, bound, [*jaxpr.constvars, *jaxpr.invars])
        except JaxprTypeError as e:
            raise errors.in_program(e, jaxpr_text(jaxpr)) from None
        for eqn in jaxpr.eqns:
            try:
                _read(jaxpr, bound, eqn.invars)
                _check_called(jaxpr, eqn)
                with in_mesh_of(eqn.outvars):
                    _check_types(jaxpr, eqn)
                _bind(jaxpr, bound, eqn.outvars)
            except JaxprTypeError as e:
                text, source = eqn_text(eqn, jaxpr), str(eqn.source or "")
                raise errors.in_equation(e, text, source) from e.__cause__
            self.check_bodies(eqn)
        try:
            _read(jaxpr, bound, jaxpr.outvars)
            if jaxpr.effects != (found := _effects(jaxpr.eqns)):
                raise errors.wrong_effects(found, jaxpr.effects)
        except JaxprTypeError as e:
            raise errors.in_program(e, jaxpr_text(jaxpr)) from None

    def check_bodies(self, eqn: JaxprEqn) -> None:
        bodies = list(subjaxprs(eqn.params))
        if not bodies:
            return
        with self.enter(eqn):
            for body in bodies:
                key = (body, axis_env())
                if key not in self.checked:
                    self.checked.add(key)
                    self.check_body(body)

    def check_body(self, body: Jaxpr) -> None:
        if body.constvars:
            names = [atom_text(v, body) for v in body.constvars]
            reason = errors.body_has_constvars(names)
            raise errors.in_program(reason, jaxpr_text(body))
        self.check(body)


def _read(jaxpr: Jaxpr, bound: set[Var], atoms: Sequence[Atom]) -> None:
    """Each atom is a bound variable, or a literal of the type that it states."""
    for atom in atoms:
        if not isinstance(atom, Literal):
            if atom not in bound:
                raise errors.undefined(atom_text(atom, jaxpr))
        elif not _same_but_weak(found := typeof(atom.val), atom.aval):
            raise errors.wrong_literal(str(atom.val), str(found), str(atom.aval))


def _bind(jaxpr: Jaxpr, bound: set[Var], variables: Sequence[Var]) -> None:
    for v in variables:
        if v in bound:
            raise errors.bound_twice(atom_text(v, jaxpr))
        if not isinstance(v, DropVar):
            bound.add(v)


def _check_called(jaxpr: Jaxpr, eqn: JaxprEqn) -> None:
    """The operands of a call are what the called program takes."""
    called = called_jaxpr(eqn)
    if called is None:
        return
    if len(called.invars) != len(eqn.invars):
        taken, given = len(called.invars), len(eqn.invars)
        raise errors.wrong_number("operands taken by the jaxpr", taken, given)
    for atom, inner in zip(eqn.invars, called.invars, strict=True):
        if not _same_but_weak(atom.aval, inner.aval):
            name = atom_text(atom, jaxpr)
            raise errors.wrong_operand(name, str(atom.aval), str(inner.aval))


def _check_types(jaxpr: Jaxpr, eqn: JaxprEqn) -> None:
    """The types and the effects are what the primitive's rules give."""
    primitive, avals = eqn.primitive, [v.aval for v in eqn.invars]
    try:
        found = primitive.abstract_eval(*avals, **eqn.params)
    except Exception as e:
        raise errors.refused(e) from e
    if len(found) != len(eqn.outvars):
        raise errors.wrong_number("results", len(found), len(eqn.outvars))
    for v, aval in zip(eqn.outvars, found, strict=True):
        if not _same(v.aval, aval):
            name = atom_text(v, jaxpr)
            raise errors.wrong_result(name, str(aval), str(v.aval))
    rule = primitive.effects
    effects = NO_EFFECTS if rule is None else rule(*avals, **eqn.params)
    if effects != eqn.effects:
        raise errors.wrong_effects(effects, eqn.effects)


def _same_but_weak(a: Any, b: Any) -> bool:
    """Whether a value of type `a` may stand for one of type `b`."""
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return _same(a.strip_weak_type(), b.strip_weak_type())
    return a == b


def _same(a: Any, b: Any) -> bool:
    """Whether two types are the same, up to meshes that have no say in them."""
    return a == b or _without_auto_mesh(a) == _without_auto_mesh(b)


def _without_auto_mesh(aval: Any) -> Any:
    if isinstance(aval, ShapedArray) and aval.mesh.are_all_axes_auto:
        return aval.update(sharding=replicated(EMPTY_MESH, aval.ndim))
    return aval


def _effects(eqns: Sequence[JaxprEqn]) -> frozenset[Any]:
    return frozenset(effect for eqn in eqns for effect in eqn.effects)
