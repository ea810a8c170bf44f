"""What control-flow primitives share: tracing bodies, and fitting them together.

A body is a jaxpr without constvars: what it closes over are its leading arguments, and
operands of the equation. Bodies are traced once per function and signature, and what
is derived from a jaxpr is kept with it, so that a loop called again costs little.

Upstream: `jax/_src/lax/control_flow/common.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from minijax.core import dtypes
from minijax.core.arguments import argument_names
from minijax.core.avals import AbstractToken, ShapedArray
from minijax.core.errors import control as errors
from minijax.core.jaxpr import Jaxpr, Literal, Var
from minijax.core.mesh import get_abstract_mesh
from minijax.core.pytree import (
    PyTreeDef,
    PytreeLeaf,
    equality_errors,
    keystr,
    tree_leaves_with_path,
    tree_unflatten,
)
from minijax.core.staging import DebugInfo, consts_as_args, stage_tree
from minijax.core.trace import Tracer, axis_env, typeof
from minijax.lax.collectives.axes import in_mesh_order
from minijax.lax.collectives.pcast import pvary
from minijax.lax.convert import convert_element_type

Mask = list[bool]


class Body(NamedTuple):
    """A traced function: its constvars stand for `consts`."""

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: PyTreeDef

    def closed(self) -> Jaxpr:
        """The jaxpr that takes its constants as leading arguments."""
        return derived(self.jaxpr, "closed", lambda: consts_as_args(self.jaxpr))


# By function, which the entries do not keep alive.
_bodies: WeakKeyDictionary[Any, dict[Any, Body]] = WeakKeyDictionary()


def trace_body(
    fun: Callable[..., Any], in_tree: PyTreeDef, avals: Sequence[Any], verb: str
) -> Body:
    """Traces a function of pytrees; `in_tree` is the tree of `(args, kwargs)`.

    What a function became for the same types is remembered, unless it closes over
    tracers, which must not outlive their trace.
    """
    try:
        memo = _bodies.setdefault(fun, {})
    except TypeError:  # not hashable, or nothing that can be referred to weakly
        memo = {}
    key = (
        in_tree,
        tuple(avals),
        axis_env(),
        get_abstract_mesh(),
        dtypes.x64_enabled(),
    )
    body = memo.get(key)
    if body is None:
        names = partial(argument_names, fun, in_tree)
        body = Body(*stage_tree(fun, in_tree, avals, DebugInfo(fun, verb, names)))
        if not any(isinstance(x, Tracer) for x in body.consts):
            memo[key] = body
    return body


def derived(jaxpr: Jaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """What `make` returns, remembered with the jaxpr that it is derived from."""
    if key not in jaxpr.cache:
        jaxpr.cache[key] = make()
    return jaxpr.cache[key]


# ----------------------------------------------------------------- rearranging jaxprs


def rearranged(
    jaxpr: Jaxpr,
    ins: Sequence[int] | None = None,
    outs: Sequence[int] | None = None,
) -> Jaxpr:
    """The jaxpr with these of its inputs and outputs, by position, in this order.

    All inputs that are read must be among them; an output may also be an input, given
    as `-1 - position`.
    """
    ins = range(len(jaxpr.invars)) if ins is None else ins
    outs = range(len(jaxpr.outvars)) if outs is None else outs
    key = ("rearranged", tuple(ins), tuple(outs))
    return derived(
        jaxpr,
        key,
        lambda: jaxpr.replace(
            invars=[jaxpr.invars[i] for i in ins],
            outvars=[
                jaxpr.outvars[i] if i >= 0 else jaxpr.invars[-1 - i] for i in outs
            ],
        ),
    )


def where(mask: Sequence[bool], start: int = 0) -> list[int]:
    """The positions marked in a mask, counted from `start`."""
    return [start + i for i, m in enumerate(mask) if m]


def chosen[T](items: Sequence[T], mask: Sequence[bool]) -> list[T]:
    """The items marked in a mask."""
    return [x for x, m in zip(items, mask, strict=True) if m]


def merged[T](
    mask: Sequence[bool], if_false: Sequence[T], if_true: Sequence[T]
) -> list[T]:
    """Takes the next of one sequence or of the other, as the mask says."""
    no, yes = iter(if_false), iter(if_true)
    return [next(yes) if m else next(no) for m in mask]


def split_at[T](items: Sequence[T], *sizes: int) -> Iterator[list[T]]:
    """Cuts a sequence into parts of the given sizes, and the rest."""
    start = 0
    for size in sizes:
        yield list(items[start : start + size])
        start += size
    yield list(items[start:])


def forwarding(jaxpr: Jaxpr) -> list[int | None]:
    """For each output the position of the input that it merely is, else None."""
    position = {v: i for i, v in enumerate(jaxpr.invars)}
    return [None if isinstance(v, Literal) else position.get(v) for v in jaxpr.outvars]


def merge_consts(bodies: Sequence[Body]) -> tuple[list[Jaxpr], list[Any]]:
    """Bodies that take one list of constants, in which a shared one stands once."""
    consts = {id(x): x for body in bodies for x in body.consts}
    place = {key: i for i, key in enumerate(consts)}
    jaxprs = []
    for body in bodies:
        avals = tuple(typeof(x) for x in consts.values())
        places = tuple(place[id(x)] for x in body.consts)
        jaxprs.append(_with_constants_at(body.jaxpr, places, avals))
    return jaxprs, list(consts.values())


def _with_constants_at(
    jaxpr: Jaxpr, places: tuple[int, ...], avals: tuple[Any, ...]
) -> Jaxpr:
    """The jaxpr as one of all constants, of which its own are at these places."""

    def make() -> Jaxpr:
        own = dict(zip(places, jaxpr.constvars, strict=True))
        leading = [own.get(i) or Var(a) for i, a in enumerate(avals)]
        return jaxpr.replace(constvars=[], invars=[*leading, *jaxpr.invars])

    return derived(jaxpr, ("consts", places, avals), make)


# -------------------------------------------------------------------------- fixpoints


def fixpoint[T](mask: Mask, step: Callable[[Mask], tuple[Mask, T]]) -> tuple[Mask, T]:
    """Marks more of a loop's carries until a step marks no others.

    Whether a carry has a tangent, is mapped, or is unknown depends on what the body
    makes of the others. `step(mask)` returns the marks of the carries that come out
    and a result; that of the last step is returned. Each step but the last marks at
    least one more, so this ends.
    """
    while True:
        found, result = step(mask)
        grown = [a or b for a, b in zip(mask, found, strict=True)]
        if grown == mask:
            return mask, result
        mask = grown


# ------------------------------------------------------------------------------ types


def typematch(a: Any, b: Any) -> bool:
    """Whether two types are the same up to weak types.

    Shardings count only where one of the meshes has Explicit axes.
    """
    if not (isinstance(a, ShapedArray) and isinstance(b, ShapedArray)):
        return a == b
    if a.shape != b.shape or a.dtype != b.dtype or a.manual != b.manual:
        return False
    if a.mesh.empty or b.mesh.empty:
        return True
    explicit = a.mesh.explicit_axes or b.mesh.explicit_axes
    return not explicit or a.sharding == b.sharding


def is_token(x: Any) -> bool:
    """Whether a value, or a type, is a token."""
    aval = x if isinstance(x, (ShapedArray, AbstractToken)) else typeof(x)
    return isinstance(aval, AbstractToken)


def token_dims(args: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """Mapped dimensions; a token has none: one orders all elements."""
    return [
        None if d is None or is_token(x) else d for x, d in zip(args, dims, strict=True)
    ]


def promote_weak(x: Any, found: Any, wanted: Any) -> tuple[Any, bool]:
    """An initial carry converted to the type that comes out, if its own is weak.

    Returns also whether it changed.
    """
    if not (isinstance(found, ShapedArray) and found.weak_type):
        return x, False
    if not isinstance(wanted, ShapedArray) or typematch(found, wanted):
        return x, False
    dtype = dtypes.result_type(x, wanted)
    return convert_element_type(x, dtype), True


def varying(aval: Any) -> frozenset[str]:
    """The Manual axes that a value of this type varies over."""
    return aval.manual.varying if isinstance(aval, ShapedArray) else frozenset()


def vary_over(x: Any, names: frozenset[str]) -> Any:
    """Casts an array to vary over more Manual axes."""
    missing = frozenset() if is_token(x) else names - varying(typeof(x))
    return pvary(x, in_mesh_order(missing)) if missing else x


def check_branches(
    api: str,
    names: tuple[str, str],
    funs: tuple[Callable[..., Any], Callable[..., Any]],
    bodies: tuple[Body, Body],
) -> None:
    """Refuses two branches whose results differ in tree or type."""
    (tree1, tree2) = [b.out_tree for b in bodies]
    where = _places(tree1, lambda path: f" at path {path}" if path else "")
    places = (DebugInfo(funs[0], api).place, DebugInfo(funs[1], api).place)
    if tree1 != tree2:
        diffs = [
            f"{names[0]} output{at} is a {thing1} but {names[1]} output{at} is a "
            f"{thing2}, so {why}"
            for at, thing1, thing2, why in _tree_differences(tree1, tree2)
        ]
        if not diffs:
            return  # the trees differ in what they carry along, not in structure
        raise errors.branch_trees(api, names, places, diffs)
    diffs, casts = [], []
    pairs = zip(bodies[0].jaxpr.out_avals, bodies[1].jaxpr.out_avals, strict=True)
    for at, (a, b) in zip(where, pairs, strict=True):
        if typematch(a, b):
            continue
        diffs.append(
            f"the output of {names[0]}{at} has type {_plain(a)} but the corresponding "
            f"output of {names[1]} has type {_plain(b)}{_mismatch(a, b)}"
        )
        for name, own, other in ((names[0], a, b), (names[1], b, a)):
            missing = varying(other) - varying(own)
            if missing:
                casts.append((name, in_mesh_order(missing), at))
    if diffs:
        raise errors.branch_types(api, names, places, diffs, casts)


def _tree_differences(
    tree1: PyTreeDef, tree2: PyTreeDef
) -> Iterator[tuple[str, str, str, str]]:
    leaf = PytreeLeaf()
    pair = [tree_unflatten(t, [leaf] * t.num_leaves) for t in (tree1, tree2)]
    shown = {str(PytreeLeaf): "pytree leaf"}
    for path, thing1, thing2, why in equality_errors(*pair):
        at = f" at path {keystr(path)}" if path else ""
        yield at, shown.get(thing1, thing1), shown.get(thing2, thing2), why


def check_carry(
    api: str, fun: Callable[..., Any], before: tuple[PyTreeDef, Any], after: Any
) -> None:
    """Refuses a loop body whose carry comes out of another tree or type.

    `before` and `after` are (tree, types) of what goes in and comes out.
    """
    (tree_in, avals_in), (tree_out, avals_out) = before, after
    component = _component(fun)
    if tree_in != tree_out:
        pair = tree_unflatten(tree_in, avals_in), tree_unflatten(tree_out, avals_out)
        diffs = [
            f"{component(keystr(path))} is a {thing1} but the corresponding component "
            f"of the carry output is a {thing2}, so {why}"
            for path, thing1, thing2, why in equality_errors(*pair)
        ]
        if not diffs:
            return
        raise errors.carry_trees(api, diffs)
    diffs, casts = [], []
    names = _places(tree_in, component)
    for name, a, b in zip(names, avals_in, avals_out, strict=True):
        if typematch(a, b):
            continue
        diffs.append(
            f"{name} has type {_plain(a)} but the corresponding output carry component "
            f"has type {_plain(b)}{_mismatch(a, b)}"
        )
        missing = varying(b) - varying(a)
        if missing:
            casts.append((in_mesh_order(missing), name))
    if diffs:
        raise errors.carry_types(api, diffs, casts)


def _component(fun: Callable[..., Any]) -> Callable[[str], str]:
    """How a message names a part of the carry: by the body's first parameter."""
    try:
        parameters = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        parameters = []
    if not parameters:
        return lambda path: f"the input carry{f' at path {path}' if path else ''}"
    name = parameters[0]
    return lambda path: f"the input carry{' component' * bool(path)} {name}{path}"


def _places(tree: PyTreeDef, text: Callable[[str], str]) -> list[str]:
    keyed = tree_leaves_with_path(tree_unflatten(tree, range(tree.num_leaves)))
    return [text(keystr(path)) for path, _ in keyed]


def _plain(aval: Any) -> str:
    """A type as messages show it: weak types are not told apart."""
    return (
        str(aval).removeprefix("~") if isinstance(aval, ShapedArray) else aval.short()
    )


def _mismatch(a: Any, b: Any) -> str:
    """In what two types differ: `, so the shapes do not match`."""
    if not (isinstance(a, ShapedArray) and isinstance(b, ShapedArray)):
        return ""
    found = [
        f"the {what} do not match"
        for what, differ in (
            ("dtypes", a.dtype != b.dtype),
            ("shapes", a.shape != b.shape),
            ("manual axis types", a.manual != b.manual),
        )
        if differ
    ]
    if len(found) > 1:
        found[-1] = f"and {found[-1]}"
    return f", so {', '.join(found)}" if found else ""
