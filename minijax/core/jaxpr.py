"""The intermediate representation: jaxprs, typed first-order programs.

A jaxpr binds each variable once. Its grammar:

    jaxpr ::= { lambda constvars ; invars . let eqns in outvars }
    eqn   ::= vars = primitive[params] atoms
    atom  ::= var | literal

`Jaxpr` has no values in it; `ClosedJaxpr` pairs one with the values of its
constvars. This file holds the data structures and walks over them. They are built
in `staging`, checked in `check`, and printed in `pretty`.

Upstream: `jax/_src/core.py` (`Jaxpr`, `ClosedJaxpr`, `JaxprEqn`, `Var`, `Literal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast, final

from minijax.core.avals import EMPTY_MESH, AbstractValue, ShapedArray
from minijax.core.mesh import get_abstract_mesh, use_abstract_mesh
from minijax.core.source import Source, replaying

if TYPE_CHECKING:
    from minijax.core.effects import Effect
    from minijax.core.primitive import Primitive

NO_EFFECTS: frozenset[Effect] = frozenset()


class Var:
    """A variable: an identity with a type."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.short()}"


class DropVar(Var):
    """Binds a result that nothing reads; it prints as `_`."""

    __slots__ = ()


@final
class Literal:
    """A scalar constant that stands in an equation itself."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: AbstractValue):
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.short()}"


Atom = Var | Literal


class JaxprEqn:
    """One application of a primitive."""

    __slots__ = ("effects", "invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        params: dict[str, Any],
        effects: frozenset[Effect] = NO_EFFECTS,
        source: Source | None = None,
    ):
        self.primitive = primitive
        self.invars = invars
        self.outvars = outvars
        self.params = params
        self.effects = effects
        self.source = source

    def replace(self, **changes: Any) -> JaxprEqn:
        """The same equation with some of its fields replaced."""
        fields = {a: getattr(self, a) for a in JaxprEqn.__slots__}
        return JaxprEqn(**(fields | changes))

    def __repr__(self) -> str:
        return _Printer.eqn(self)


class Jaxpr:
    """A typed first-order program.

    Jaxprs are immutable and compared by identity, so that they can key caches.
    """

    __slots__ = (
        "__weakref__",
        "cache",
        "constvars",
        "effects",
        "eqns",
        "invars",
        "outvars",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: frozenset[Effect] | None = None,
    ):
        self.constvars = constvars
        self.invars = invars
        self.outvars = outvars
        self.eqns = eqns
        self.effects = _join_effects(eqns) if effects is None else effects
        # What transformations derived from this jaxpr; dies with it.
        self.cache: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> Jaxpr:
        """The same jaxpr with some of its fields replaced."""
        fields: dict[str, Any] = {
            "constvars": self.constvars,
            "invars": self.invars,
            "outvars": self.outvars,
            "eqns": self.eqns,
        }
        return Jaxpr(**(fields | changes))

    def __repr__(self) -> str:
        return _Printer.jaxpr(self)


class ClosedJaxpr:
    """A jaxpr with the values of its constvars; what `make_jaxpr` returns."""

    __slots__ = ("__weakref__", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def in_avals(self) -> list[Any]:
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[Any]:
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> Sequence[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Effect]:
        return self.jaxpr.effects

    def __repr__(self) -> str:
        return _Printer.jaxpr(self.jaxpr)


class _Printer:
    """Holds the printer, which imports this file; `staging` puts it here."""

    jaxpr: Callable[[Jaxpr], str]
    eqn: Callable[[JaxprEqn], str]


def set_printer(jaxpr: Callable[[Jaxpr], str], eqn: Callable[[JaxprEqn], str]) -> None:
    """Late binding, called once: how programs and equations are printed."""
    _Printer.jaxpr = jaxpr
    _Printer.eqn = eqn


def _join_effects(eqns: Iterable[JaxprEqn]) -> frozenset[Effect]:
    found = [e.effects for e in eqns if e.effects]
    return NO_EFFECTS.union(*found) if found else NO_EFFECTS


def subjaxprs(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs among an equation's parameters, also inside tuples."""
    for value in params.values():
        items = cast("tuple[Any, ...]", value) if type(value) is tuple else (value,)
        for item in items:
            if isinstance(item, Jaxpr):
                yield item


def collective_names(jaxpr: Jaxpr) -> tuple[str, ...]:
    """The axis names that collectives in a program act over, at any depth."""
    if "collective_names" not in jaxpr.cache:
        names: dict[str, None] = {}
        for eqn in jaxpr.eqns:
            rule = eqn.primitive.axis_names
            if rule is not None:
                names.update(dict.fromkeys(rule(eqn.params)))
        jaxpr.cache["collective_names"] = tuple(names)
    return jaxpr.cache["collective_names"]


def called_jaxpr(eqn: JaxprEqn) -> Jaxpr | None:
    """The program that an equation calls by name, as `jit`'s do, else None.

    It takes the operands of the equation as they are, and gives its results.
    """
    called = eqn.params.get("jaxpr") if "name" in eqn.params else None
    return called if isinstance(called, Jaxpr) else None


_SAME_MESH = nullcontext()


def in_mesh_of(variables: Sequence[Atom]) -> AbstractContextManager[None]:
    """Enters the mesh that variables were typed under, where it is another.

    Within one program the types of mesh axes may change: see `auto_axes`.
    """
    around = get_abstract_mesh()
    if around is EMPTY_MESH:
        return _SAME_MESH
    for v in variables:
        if type(v.aval) is ShapedArray:
            mesh = v.aval.sharding.mesh
            if mesh is around or mesh is EMPTY_MESH:
                return _SAME_MESH
            if mesh.are_all_axes_auto and around.are_all_axes_auto:
                return _SAME_MESH
            return use_abstract_mesh(v.aval.mesh)
    return _SAME_MESH


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Interprets a jaxpr by binding each equation under the current trace.

    Whatever trace is current decides what happens: values are computed, or a
    transformation sees every equation, or the program is traced once more.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    with replaying() as source_is:
        for eqn in jaxpr.eqns:
            source_is(eqn.source)
            operands = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            with in_mesh_of(eqn.outvars):
                results = eqn.primitive.bind(*operands, **eqn.params)
            env.update(zip(eqn.outvars, results, strict=True))
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def dead_code_eliminated(
    jaxpr: Jaxpr, used: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    """Keeps the outputs marked as used and the equations they rest on.

    Equations with effects stay; those that hold programs lose what is unused inside.
    Returns the smaller jaxpr, all of whose inputs are read, and which of the old
    inputs those are.
    """
    key = ("dce", tuple(used))
    if key not in jaxpr.cache:
        jaxpr.cache[key] = _dead_code_eliminated(jaxpr, used)
    return jaxpr.cache[key]


def _dead_code_eliminated(
    jaxpr: Jaxpr, used: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    outvars = [v for v, u in zip(jaxpr.outvars, used, strict=True) if u]
    live = {v for v in outvars if isinstance(v, Var)}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        needed = [v in live for v in eqn.outvars]
        if not (eqn.effects or any(needed)):
            continue
        rule = eqn.primitive.dce
        smaller = eqn if rule is None else rule(eqn, needed)
        eqns.append(smaller)
        live.update(v for v in smaller.invars if isinstance(v, Var))
    read = [v in live for v in jaxpr.invars]
    invars = [v for v, r in zip(jaxpr.invars, read, strict=True) if r]
    if all(used) and all(read) and len(eqns) == len(jaxpr.eqns):
        if all(a is b for a, b in zip(eqns[::-1], jaxpr.eqns, strict=True)):
            return jaxpr, read
    return jaxpr.replace(invars=invars, outvars=outvars, eqns=eqns[::-1]), read


def compose(first: Jaxpr, second: Jaxpr) -> Jaxpr:
    """The program that runs `second` on the results of `first`.

    Neither is traced again: their equations are taken over, those that read a result
    of `first` with other operands.
    """
    given: dict[Atom, Atom] = dict(zip(second.invars, first.outvars, strict=True))
    eqns = list(first.eqns)
    for eqn in second.eqns:
        if any(v in given for v in eqn.invars):
            eqn = eqn.replace(invars=[given.get(v, v) for v in eqn.invars])
        eqns.append(eqn)
    return Jaxpr(
        first.constvars, first.invars, [given.get(v, v) for v in second.outvars], eqns
    )


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A closed jaxpr as a function of flat arguments that returns a flat list.

    Upstream: `jax/_src/core.py` (`jaxpr_as_fun`).
    """

    def fun(*args: Any) -> list[Any]:
        return eval_jaxpr(closed.jaxpr, closed.consts, args)

    return fun
