"""The options of `jit` that concern arguments: static, donated, placed.

Upstream: `jax/_src/api_util.py`, `jax/_src/pjit.py` (`_parse_jit_arguments`).
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minijax.core.arguments import argument_names
from minijax.core.errors import jit as errors
from minijax.core.mesh import NamedSharding, PartitionSpec, Sharding, get_concrete_mesh
from minijax.core.pytree import flatten_axis_resources, tree_flatten, tree_map
from minijax.core.treedef import PyTreeDef


class Static(NamedTuple):
    """The static part of one call: values by position and by keyword."""

    by_position: tuple[tuple[int, Any], ...] = ()
    by_name: tuple[tuple[str, Any], ...] = ()
    positionals: int = 0  # static ones included

    def close_over(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """`fun` as a function of its other arguments."""
        if self is NO_STATIC:
            return fun

        def of_dynamic(*args: Any, **kwargs: Any) -> Any:
            return fun(*self.merge(args), **kwargs, **dict(self.by_name))

        return of_dynamic

    def merge(self, args: Sequence[Any]) -> list[Any]:
        """All positional arguments, from the dynamic ones."""
        static, rest = dict(self.by_position), iter(args)
        return [
            static[i] if i in static else next(rest) for i in range(self.positionals)
        ]

    def names(self, fun: Callable[..., Any], tree: PyTreeDef) -> list[str]:
        """A name for each leaf of the dynamic arguments."""
        if self is NO_STATIC:
            return argument_names(fun, tree)
        args, kwargs = tree.unflatten(range(tree.num_leaves))
        merged = [
            None if i in dict(self.by_position) else x
            for i, x in enumerate(self.merge(args))
        ]
        return argument_names(fun, tree_flatten((tuple(merged), kwargs))[1])


NO_STATIC = Static()


class Options:
    """What the user asked of `jit` besides the function."""

    __slots__ = (
        "donate_names",
        "donate_positions",
        "has_static",
        "in_shardings",
        "keep_unused",
        "out_shardings",
        "static_names",
        "static_positions",
    )

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
        in_shardings: Any,
        out_shardings: Any,
        keep_unused: bool,
    ):
        self.static_positions, self.static_names = _resolve(
            fun, static_argnums, static_argnames, "static"
        )
        self.donate_positions, self.donate_names = _resolve(
            fun, donate_argnums, donate_argnames, "donate"
        )
        self.has_static = bool(self.static_positions or self.static_names)
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings
        self.keep_unused = keep_unused

    def split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Static, tuple[Any, ...], dict[str, Any]]:
        """Takes the static arguments out of a call."""
        if not self.has_static:
            return NO_STATIC, args, kwargs
        positions = {i % len(args) for i in self.static_positions if i < len(args)}
        by_position = tuple((i, args[i]) for i in sorted(positions))
        names = sorted(self.static_names & kwargs.keys())
        by_name = tuple((n, kwargs[n]) for n in names)
        for where, value in (*by_position, *by_name):
            try:
                hash(value)
            except TypeError as error:
                which = f"argument {where!r}"
                raise errors.unhashable_static(value, error, which) from error
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)
        rest = {k: v for k, v in kwargs.items() if k not in self.static_names}
        return Static(by_position, by_name, len(args)), dynamic, rest

    def donated(self, static: Static, tree: PyTreeDef) -> tuple[bool, ...]:
        """Per leaf of the dynamic arguments whether it is donated."""
        if not (self.donate_positions or self.donate_names):
            return (False,) * tree.num_leaves
        args_tree, kwargs_tree = tree.children()
        count = static.positionals or len(args_tree.children())
        static_positions = dict(static.by_position)
        dynamic = [i for i in range(count) if i not in static_positions]
        chosen = {i % count for i in self.donate_positions if i < count}
        marks: list[bool] = []
        for i, child in zip(dynamic, args_tree.children(), strict=True):
            marks += [i in chosen] * child.num_leaves
        kwargs = kwargs_tree.unflatten(range(kwargs_tree.num_leaves))
        for key in sorted(kwargs):
            leaves, _ = tree_flatten(kwargs[key])
            marks += [key in self.donate_names] * len(leaves)
        return tuple(marks)

    def shardings(
        self, in_tree: PyTreeDef, out_tree: PyTreeDef
    ) -> tuple[tuple[Sharding | None, ...], tuple[Sharding | None, ...]]:
        """Per leaf of the arguments and of the result what the user asked for."""
        ins: Any = (None,) * in_tree.num_leaves
        outs: Any = (None,) * out_tree.num_leaves
        if self.in_shardings is not None:
            args_tree, kwargs_tree = in_tree.children()
            given = flatten_axis_resources(
                "pjit in_shardings", args_tree, _opened(self.in_shardings), True
            )
            ins = (*_placed("in_shardings", given), *(None,) * kwargs_tree.num_leaves)
        if self.out_shardings is not None:
            given = flatten_axis_resources(
                "pjit out_shardings", out_tree, _opened(self.out_shardings), False
            )
            outs = _placed("out_shardings", given)
        return ins, outs


class _Open:
    """Stands for a None among shardings; it is a leaf in every comparison of trees."""


_OPEN = _Open()


def _opened(shardings: Any) -> Any:
    return tree_map(
        lambda s: _OPEN if s is None else s, shardings, is_leaf=lambda s: s is None
    )


def _placed(name: str, given: Sequence[Any]) -> tuple[Sharding | None, ...]:
    """Shardings with the context mesh put under bare PartitionSpecs."""
    mesh = get_concrete_mesh()
    placed: list[Sharding | None] = []
    for sharding in given:
        if isinstance(sharding, PartitionSpec):
            if mesh.empty:
                raise errors.spec_without_mesh(name, sharding)
            placed.append(NamedSharding(mesh, sharding))
        else:
            placed.append(None if sharding is _OPEN else sharding)
    return tuple(placed)


def _resolve(
    fun: Callable[..., Any], argnums: Any, argnames: Any, what: str
) -> tuple[tuple[int, ...], frozenset[str]]:
    """Positions and names that mean the same arguments."""
    positions = _ints(argnums)
    names = {argnames} if isinstance(argnames, str) else set(argnames or ())
    if not (positions or names):
        return (), frozenset()
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return positions, frozenset(names)
    kinds = [p.kind for p in parameters]
    positional = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        count = len(positional)
        if any(not -count <= i < count for i in positions):
            raise errors.argnums_out_of_range(f"{what}_argnums", positions, count)
        positions = tuple(i % count for i in positions)
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        unknown = names - {p.name for p in parameters}
        if unknown:
            raise errors.invalid_argnames(f"{what}_argnames", unknown)
    by_name = {i for i, n in enumerate(positional) if n in names}
    by_position = {positional[i] for i in positions if 0 <= i < len(positional)}
    return tuple(sorted(set(positions) | by_name)), frozenset(names | by_position)


def _ints(argnums: Any) -> tuple[int, ...]:
    if argnums is None:
        return ()
    if isinstance(argnums, (list, tuple, range, set)):
        return tuple(operator.index(i) for i in argnums)
    return (operator.index(argnums),)
