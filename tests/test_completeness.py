"""Every primitive has every rule, or says which it lacks and why."""

import importlib
import pkgutil

import minijax
from minijax.core.primitive import Primitive


def primitives() -> list[Primitive]:
    """All that stand in the modules of the library, in the order of their names."""
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(minijax.__path__, "minijax.")
        if not module.name.endswith("__main__")
    ]
    held = {x for m in modules for x in vars(m).values() if isinstance(x, Primitive)}
    return sorted(held, key=lambda p: p.name)


def table() -> str:
    """Primitive x rule: `x` where there is one, `-` where it is declared absent."""
    width = max(len(p.name) for p in primitives())
    lines = [" " * width + "  " + "  ".join(Primitive.RULES)]
    for p in primitives():
        cells = [_mark(p, rule).center(len(rule)) for rule in Primitive.RULES]
        lines.append(f"{p.name.ljust(width)}  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def _mark(p: Primitive, rule: str) -> str:
    if p.has(rule):
        return "x"
    return "-" if rule in p.undeclared else "?"


def test_no_rule_is_missing_without_a_reason() -> None:
    blanks = [
        f"{p.name}: {rule}"
        for p in primitives()
        for rule in Primitive.RULES
        if _mark(p, rule) == "?"
    ]
    assert not blanks, "\n".join(
        ["rules neither given nor declared:", *blanks, table()]
    )


def test_reasons_are_given_for_rules_that_are_missing() -> None:
    """A declaration that has been overtaken by a rule would mislead."""
    stale = [
        f"{p.name}: {rule}"
        for p in primitives()
        for rule in p.undeclared
        if p.has(rule)
    ]
    assert not stale, "\n".join(["declared absent, but there:", *stale])
    assert all(
        len(reason.split()) > 2
        for p in primitives()
        for reason in p.undeclared.values()
    )


def test_names_are_unique() -> None:
    names = [p.name for p in primitives()]
    assert len(names) == len(set(names)), names
    assert len(names) > 100
