"""Printing jaxprs, to the character as upstream prints them.

    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0:f32[] in (c,) }

A printed program is laid out in 80 columns by `layout`: what fits on a line stays on
it, and what does not is broken at every break of its group. Here is only what a jaxpr
is as a document, and how its variables are named:

* variables are `a`, `b`, ..., `z`, `ba`, ... in the order in which they are printed,
  through all nested programs;
* a program that `jit` calls borrows the names of the operands and results of the call,
  which hold the same values;
* a program that is called twice, or that has more than ten equations, is printed
  once, ahead of the whole: `let f = { lambda ... } in`.

Upstream: `jax/_src/core.py` (`pp_toplevel_jaxpr` and what follows it).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, cast

import numpy as np

from minijax.core.jaxpr import (
    Atom,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    called_jaxpr,
    subjaxprs,
)
from minijax.core.layout import Break, Concat, Doc, Group, Nest, Text, lay_out

WIDTH = 80
#: A nested program with more equations than this is printed ahead of the whole.
LONGEST_INLINE = 10


def jaxpr_text(jaxpr: Jaxpr) -> str:
    """The text of a whole program; `str(jaxpr)` is this.

    >>> from minijax.core.trace import shaped
    >>> x = Var(shaped((3,), "float32"))
    >>> print(jaxpr_text(Jaxpr([], [x], [x, x], [])))
    { lambda ; a:f32[3]. let  in (a, a) }
    """
    return lay_out(_Printer(jaxpr).whole(), WIDTH)


def eqn_text(eqn: JaxprEqn, jaxpr: Jaxpr | None = None) -> str:
    """The text of one equation; its variables are named as in `jaxpr`, if given."""
    return lay_out(_named(jaxpr).eqn(eqn), WIDTH).rstrip()


def atom_text(atom: Atom, jaxpr: Jaxpr) -> str:
    """What a variable is called, or a literal written as, where `jaxpr` is printed."""
    return _named(jaxpr).atom(atom)


def _named(jaxpr: Jaxpr | None) -> _Printer:
    """A printer that has named all variables of a program."""
    printer = _Printer(jaxpr or Jaxpr([], [], [], []))
    printer.whole()
    return printer


class _Printer:
    """Turns the parts of one program into documents; remembers names."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.shared = _shared_names(jaxpr)
        self.names: dict[Var, str] = dict.fromkeys(_unread(jaxpr), "_")
        taken = frozenset(self.shared.values())
        letters = map(_letters, count())
        self.fresh = (name for name in letters if name not in taken)

    def whole(self) -> Doc:
        docs: list[Doc] = []
        for jaxpr, name in self.shared.items():
            docs += [Text(f"let {name} = "), self.skeleton(jaxpr), Text(" in")]
            docs.append(Break(" "))
        return Concat([*docs, self.skeleton(self.jaxpr)])

    def nested(self, jaxpr: Jaxpr) -> Doc:
        """A program that is a parameter: by its name, if it was printed ahead."""
        name = self.shared.get(jaxpr)
        return self.skeleton(jaxpr) if name is None else Text(name)

    def skeleton(self, jaxpr: Jaxpr) -> Doc:
        """`{ lambda constvars; invars. let eqns in (outvars) }`."""
        head = [
            Text("{ lambda "),
            self.binders(jaxpr.constvars),
            Text("; "),
            self.binders(jaxpr.invars),
            Text(". let"),
        ]
        eqns = _join(Break("; "), [self.eqn(e) for e in jaxpr.eqns])
        outs = _fill(Text(","), [Text(self.atom(v)) for v in jaxpr.outvars])
        body = [
            Nest(Concat([Break(" "), eqns]), 2),
            Break(" "),
            Text("in ("),
            outs,
            Text(",)" if len(jaxpr.outvars) == 1 else ")"),
        ]
        nest = Nest(Concat([*head, *body]), 2)
        return Group(Concat([nest, Text(" }")]))

    def eqn(self, eqn: JaxprEqn) -> Doc:
        """`results = primitive[params] operands`."""
        self.lend_names(eqn)
        docs = [self.binders(eqn.outvars), Text(" = ")] if eqn.outvars else []
        choose = eqn.primitive.pretty
        shown: dict[str, Any] = eqn.params if choose is None else choose(eqn)
        docs += [Text(eqn.primitive.name), self.params(shown), Text(" ")]
        operands = [Text(self.atom(v)) for v in eqn.invars]
        return Concat([*docs, _fill(Text(""), operands)])

    def params(self, params: dict[str, Any]) -> Doc:
        """`[name=... axes=...]`: the name first, the others in alphabetic order."""
        if not params:
            return Text("")
        keys = sorted(params, key=lambda k: (k != "name", k))
        pairs = [Concat([Text(f"{k}="), self.param(params[k])]) for k in keys]
        return _block("[", pairs, "]")

    def param(self, value: Any) -> Doc:
        if isinstance(value, Jaxpr):
            return self.nested(value)
        if type(value) is tuple:
            items = cast("tuple[Any, ...]", value)
            if all(isinstance(v, Jaxpr) for v in items):
                return _block("(", [self.nested(j) for j in items], ")")
        return Text(_param_text(value))

    def binders(self, variables: Sequence[Var]) -> Doc:
        """`a:f32[3] b:i32[]`."""
        texts = [Text(f"{self.atom(v)}:{v.aval.short()}") for v in variables]
        return _fill(Text(""), texts)

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Literal):
            return _literal_text(atom)
        if isinstance(atom, DropVar):
            return "_"
        name = self.names.get(atom)
        if name is None:
            name = self.names[atom] = next(self.fresh)
        return name

    def lend_names(self, eqn: JaxprEqn) -> None:
        """Names the variables of a called program after those of its call."""
        called = called_jaxpr(eqn)
        if called is not None and called not in self.shared:
            self.lend(eqn.invars, called.invars)
            self.lend(eqn.outvars, called.outvars)

    def lend(self, outer: Sequence[Atom], inner: Sequence[Atom]) -> None:
        lent: set[Atom] = set()
        # A wrong number of operands is the checker's business; it prints such.
        for theirs, ours in zip(outer, inner, strict=False):
            if isinstance(theirs, Literal) or isinstance(ours, Literal):
                continue
            if theirs not in lent and ours not in self.names:
                lent.add(theirs)
                self.names[ours] = self.atom(theirs)


# -------------------------------------------------------- programs printed ahead


def _shared_names(whole: Jaxpr) -> dict[Jaxpr, str]:
    """The nested programs to print ahead, in order, each with its unique name."""
    uses, wanted = _count_uses(whole)
    names: dict[Jaxpr, str] = {}
    taken: Counter[str] = Counter()
    for jaxpr, n in uses.items():
        if n > 1 or (jaxpr is not whole and len(jaxpr.eqns) > LONGEST_INLINE):
            name = wanted.get(jaxpr, "jaxpr")
            number = taken[name]
            taken[name] += 1
            if number:
                name = f"{name}{number}"
                taken[name] += 1
            names[jaxpr] = name
    return names


def _count_uses(whole: Jaxpr) -> tuple[Counter[Jaxpr], dict[Jaxpr, str]]:
    """How often each nested program would be printed, and the name it goes by."""
    uses: Counter[Jaxpr] = Counter()
    names: dict[Jaxpr, str] = {}
    queue = deque([whole])
    while queue:
        jaxpr = queue.popleft()
        uses[jaxpr] += 1
        if uses[jaxpr] > 2:
            continue  # twice is enough to know, and keeps this walk linear
        for eqn in jaxpr.eqns:
            for inner in subjaxprs(eqn.params):
                queue.append(inner)
                if "name" in eqn.params:
                    names.setdefault(inner, eqn.params["name"].strip("<>"))
    return uses, names


def _unread(jaxpr: Jaxpr) -> Iterator[Var]:
    """Results of equations that nothing reads."""
    read = {v for eqn in jaxpr.eqns for v in eqn.invars}
    read.update(jaxpr.outvars)
    return (v for eqn in jaxpr.eqns for v in eqn.outvars if v not in read)


# ------------------------------------------------------------------------ texts


def _letters(n: int) -> str:
    """Counts in letters: a, b, ..., z, ba, bb, ...

    >>> [_letters(i) for i in (0, 25, 26, 27, 676)]
    ['a', 'z', 'ba', 'bb', 'baa']
    """
    rest, digit = divmod(n, 26)
    return (_letters(rest) if rest else "") + chr(ord("a") + digit)


def _literal_text(literal: Literal) -> str:
    array = np.asarray(literal.val)
    text = "[...]" if array.shape else str(array.item())
    return f"{text}:{literal.aval.short()}"


def _param_text(value: Any) -> str:
    """A parameter as Python writes it, but the same in every run."""
    if isinstance(value, frozenset):
        items = cast("frozenset[Any]", value)
        return f"frozenset({{{', '.join(map(repr, sorted(items)))}}})"
    return re.sub(
        r" at 0x([0-9a-fA-F]+)",
        lambda found: " at 0x" + "X" * len(found[1]),
        str(value),
    )


# --------------------------------------------------------------------- documents

_SPACE = Group(Break(" "))


def _join(separator: Doc, docs: Sequence[Doc]) -> Doc:
    joined = [part for doc in docs for part in (separator, doc)]
    return Concat(joined[1:])


def _fill(separator: Doc, docs: Sequence[Doc]) -> Doc:
    """As many on each line as fit."""
    joined = _join(Concat([separator, _SPACE]), docs)
    return Nest(Group(joined), 2)


def _block(opening: str, docs: Sequence[Doc], closing: str) -> Doc:
    """All on one line, or each on a line of its own, indented, in brackets."""
    inner = Concat([Text(opening), Break(""), _join(Break(" "), docs)])
    return Group(Concat([Nest(inner, 2), Break(""), Text(closing)]))
