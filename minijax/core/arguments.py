"""What the verbs ask of a function: that it can be called, and its arguments' names.

Names of a call's flat arguments, `x`, `params['w'][0]`, are computed only when an
error needs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from minijax.core.errors import tracing as errors
from minijax.core.pytree import keystr, tree_leaves_with_path, tree_unflatten
from minijax.core.treedef import PyTreeDef


def check_callable(fun: object) -> None:
    """Refuses to transform what cannot be called."""
    if not callable(fun):
        raise errors.not_callable(fun)


def argument_names(fun: Callable[..., Any], in_tree: PyTreeDef) -> list[str]:
    """A name for each leaf of `in_tree`, the tree of `(args, kwargs)`.

    Positions that `fun`'s signature does not name are called `args[i]`.
    """
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    names: list[str] = []
    for i, arg in enumerate(args):
        root = _parameter(fun, i)
        names += [root + keystr(path) for path, _ in tree_leaves_with_path(arg)]
    for key in sorted(kwargs):
        leaves = tree_leaves_with_path(kwargs[key])
        names += [key + keystr(path) for path, _ in leaves]
    return names


def _parameter(fun: Callable[..., Any], position: int) -> str:
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return f"args[{position}]"
    positional = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if position < len(positional):
        return positional[position]
    rest = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    return f"{rest[0] if rest else 'args'}[{position - len(positional)}]"
