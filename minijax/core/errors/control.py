"""Errors of control flow: branches, carries and loop bounds that do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from minijax.core.errors.tracing import ConcretizationTypeError

_VARYING = (
    "See https://docs.jax.dev/en/latest/201/shard-map.html#scan-vma for more "
    "information.\n\n"
)


def not_callable(verb: str, what: str) -> TypeError:
    return TypeError(f"lax.{verb}: {what} callable.")


def operand_twice(operand: object, operands: tuple[object, ...]) -> TypeError:
    return TypeError(
        "if 'operand' keyword is passed then no positional operands can be passed, "
        f"got operand={operand!r} and positional operands {operands}"
    )


def pred_is_none() -> TypeError:
    return TypeError("cond predicate is None")


def pred_not_scalar(pred: object, what: str) -> TypeError:
    return TypeError(f"Pred must be a scalar, got {pred} of {what}")


def pred_type(found: object) -> TypeError:
    return TypeError(f"Pred type must be either boolean or number, got {found}.")


def index_not_scalar(index: object, shape: object) -> TypeError:
    return TypeError(f"Branch index must be scalar, got {index} of shape {shape}.")


def index_type(found: str) -> TypeError:
    return TypeError(f"Index type must be an integer, got {found}")


def no_branches() -> ValueError:
    return ValueError("Empty branch sequence")


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _listed(items: Sequence[str], between: str) -> str:
    """One item as a sentence, several as a list; `between` ends each but the last."""
    if len(items) == 1:
        return f"{_capitalized(items[0])}.\n"
    first = "".join(f"  * {x};{between}" for x in items[:-1])
    return f"{first}  * {items[-1]}.\n"


def _fixes(casts: Sequence[str], between: str) -> str:
    """What casts of manual axes would help."""
    if not casts:
        return ""
    if len(casts) == 1:
        return f"This might be fixed by {casts[0]}.\n{_VARYING}"
    return f"This might be fixed by:\n{_listed(casts, between)}{_VARYING}"


def branch_trees(
    api: str, names: tuple[str, str], places: tuple[str, str], diffs: Sequence[str]
) -> TypeError:
    differences = f"{diffs[0]}.\n" if len(diffs) == 1 else _listed(diffs, "\n\n")
    return TypeError(
        f"{api} branch outputs must have the same pytree structure, but they differ:"
        f"\n\n{names[0]} is {places[0]}\n{names[1]} is {places[1]}\n\n{differences}\n"
        f"Revise {names[0]} and/or {names[1]} so that they have the same pytree "
        "structure."
    )


def branch_types(
    api: str,
    names: tuple[str, str],
    places: tuple[str, str],
    diffs: Sequence[str],
    casts: Sequence[tuple[str, tuple[str, ...], str]],
) -> TypeError:
    """`casts` names (branch, axes, where in its output) of casts that would help."""
    fixes = [
        f"applying `jax.lax.pcast(..., {axes}, to='varying')` to the output of "
        f"{name}{where}"
        for name, axes, where in casts
    ]
    return TypeError(
        f"{api} branches must have equal output types but they differ.\n\n"
        f"{names[0]} is {places[0]}\n{names[1]} is {places[1]}\n\n"
        f"{_listed(diffs, chr(10))}\n{_fixes(fixes, chr(10))}"
        f"Revise {names[0]} and/or {names[1]} so that all output types match."
    )


def carry_trees(api: str, diffs: Sequence[str]) -> TypeError:
    return TypeError(
        f"{api} function carry input and carry output must have the same pytree "
        f"structure, but they differ:\n\n{_listed(diffs, chr(10) * 2)}\n"
        "Revise the function so that the carry output has the same pytree structure "
        "as the carry input."
    )


def carry_types(
    api: str, diffs: Sequence[str], casts: Sequence[tuple[tuple[str, ...], str]]
) -> TypeError:
    """`casts` names (axes, carry component) of casts that would help."""
    fixes = [
        f"applying `jax.lax.pcast(..., {axes}, to='varying')`, to the initial carry "
        f"value corresponding to {component}"
        for axes, component in casts
    ]
    return TypeError(
        f"{api} function carry input and carry output must have equal types, but "
        f"they differ:\n\n{_listed(diffs, chr(10))}\n{_fixes(fixes, chr(10))}"
        "Revise the function so that all output types match the corresponding input "
        "types."
    )


def not_boolean_tree(tree: object) -> TypeError:
    return TypeError(f"cond_fun must return a boolean scalar, but got pytree {tree}.")


def not_boolean(types: object) -> TypeError:
    return TypeError(
        f"cond_fun must return a boolean scalar, but got output type(s) {types}."
    )


def while_transpose() -> ValueError:
    return ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or "
        "lax.fori_loop with dynamic start/stop values. Try using lax.scan, or using "
        "fori_loop with static start/stop."
    )


def fori_types(lower: str, upper: str) -> TypeError:
    return TypeError(
        "lower and upper arguments to fori_loop must have equal types, got "
        f"{lower} and {upper}"
    )


def fori_unroll() -> ValueError:
    return ValueError(
        "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
    )


def scan_not_a_pair(found: object) -> TypeError:
    return TypeError(f"scan body output must be a pair, got {found}.")


def scan_no_leading_axis(values: str) -> ValueError:
    return ValueError(f"scan got value with no leading axis to scan over: {values}.")


def scan_leading_sharded(specs: str) -> ValueError:
    return ValueError(f"0th dimension of all xs should be replicated. Got {specs}")


def scan_length(length: int, sizes: Sequence[int]) -> ValueError:
    return ValueError(
        f"scan got `length` argument of {length} which disagrees with leading axis "
        f"sizes {list(sizes)}."
    )


def scan_lengths_differ(sizes: Sequence[int]) -> ValueError:
    return ValueError(
        "scan got values with different leading axis sizes: "
        f"{', '.join(map(str, sizes))}."
    )


def scan_no_length() -> ValueError:
    return ValueError("scan got no values to scan over and `length` not provided.")


def scan_unroll_type(kind: type) -> TypeError:
    return TypeError(f"`unroll` must be a `bool` or a non-negative `int`, got {kind}.")


def scan_unroll() -> ValueError:
    return ValueError("`unroll` must be a `bool` or a non-negative `int`.")


def scan_not_concrete(aval: str, what: str, origin: str) -> ConcretizationTypeError:
    text = "Abstract tracer value encountered where concrete value is expected: "
    see = "https://docs.jax.dev/en/latest/101/errors.html#jax.errors."
    return ConcretizationTypeError(
        f"{text}traced array with shape {aval}\n{what}\n{origin}\n"
        f"See {see}ConcretizationTypeError"
    )


def map_scalar(aval: str) -> ValueError:
    return ValueError(
        "lax.map loops over the leading dimension of each array in xs, and one of "
        f"them has none: it is of type {aval}."
    )


def map_leading_sharded(aval: str) -> ValueError:
    return ValueError(
        "0th dimension of leaf passed to `jax.lax.map` should be replicated. "
        f"Got {aval}"
    )
