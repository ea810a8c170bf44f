"""What the checker says about a jaxpr that is not well typed.

Functions of plain data that return the reason; `in_equation` and `in_program` add
where it was found.
"""

from __future__ import annotations

from collections.abc import Iterable


class JaxprTypeError(TypeError):
    """A jaxpr breaks the rules of the language: a bug in what built it."""

    __module__ = "minijax.errors"


def undefined(name: str) -> JaxprTypeError:
    return JaxprTypeError(f"Variable '{name}' not defined")


def bound_twice(name: str) -> JaxprTypeError:
    return JaxprTypeError(f"Variable '{name}' already bound")


def wrong_literal(value: str, found: str, stated: str) -> JaxprTypeError:
    return JaxprTypeError(
        f"Literal value {value} of type {found} does not match its type annotation "
        f"{stated}"
    )


def wrong_result(name: str, found: str, stated: str) -> JaxprTypeError:
    return JaxprTypeError(
        f"Value for variable '{name}' inconsistently typed as {found} for let-binder "
        f"of type {stated}"
    )


def wrong_number(what: str, found: int, stated: int) -> JaxprTypeError:
    return JaxprTypeError(f"{found} {what} where the equation has {stated}")


def wrong_operand(name: str, found: str, stated: str) -> JaxprTypeError:
    return JaxprTypeError(
        f"Operand '{name}' of type {found} is passed to a jaxpr expecting type {stated}"
    )


def refused(error: Exception) -> JaxprTypeError:
    return JaxprTypeError(
        f"No types follow for the results: {type(error).__name__}: {error}"
    )


def wrong_effects(found: Iterable[object], stated: Iterable[object]) -> JaxprTypeError:
    return JaxprTypeError(
        f"Inferred effects {_set(found)} do not match stated effects {_set(stated)}"
    )


def body_has_constvars(names: Iterable[str]) -> JaxprTypeError:
    return JaxprTypeError(
        f"A jaxpr that is a parameter has constvars: {', '.join(names)}; its constants "
        "must be operands of the equation"
    )


def in_equation(reason: JaxprTypeError, equation: str, source: str) -> JaxprTypeError:
    place = f"\n\nfrom source: {source}" if source else ""
    return JaxprTypeError(f"{reason}\n\nin equation:\n\n{equation}{place}")


def in_program(reason: JaxprTypeError, program: str) -> JaxprTypeError:
    return JaxprTypeError(f"{reason}\n\nin jaxpr:\n\n{program}")


def _set(names: Iterable[object]) -> str:
    return f"{{{', '.join(sorted(map(str, names)))}}}"
