"""Pytrees: everything that is done with them, under one name.

The verbs over `PyTreeDef` are here: maps, reductions, and their variants with key
paths. The parts below are given out from here too, and everyone but they imports from
here: `tree_keys`, `tree_nodes` (which classes are nodes), `treedef` (flatten and
unflatten) and `tree_prefix` (``in_axes=0`` stands for every leaf of an argument).

Source: upstream's ``tree_util.py``.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from minijax.core.errors import trees as errors
from minijax.core.tree_keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    SequenceKey,
    keystr,
)
from minijax.core.tree_nodes import (
    one_level,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_static,
)
from minijax.core.tree_prefix import (
    PytreeLeaf,
    broadcast_prefix,
    equality_errors,
    find_prefix_error,
    flatten_axes,
    flatten_axis_resources,
    prefix_errors,
)
from minijax.core.treedef import (
    LEAF,
    IsLeaf,
    PyTreeDef,
    tree_flatten,
    tree_structure,
    treedef_tuple,
)

__all__ = [
    "LEAF",
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "PytreeLeaf",
    "SequenceKey",
    "broadcast_prefix",
    "equality_errors",
    "flatten_axes",
    "flatten_axis_resources",
    "keystr",
    "prefix_errors",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of a pytree.

    Example:
        >>> tree_leaves({"b": 1, "a": [2, None]})
        [2, 1]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Build the pytree with this structure and these leaves.

    Example:
        >>> tree_unflatten(tree_structure([0, (0,)]), "ab")
        ['a', ('b',)]
    """
    return treedef.unflatten(leaves)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures one level down.

    Example:
        >>> treedef_children(tree_structure([0, (0,)]))
        [PyTreeDef(*), PyTreeDef((*,))]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Tell whether a structure has no children: a leaf, None or an empty container.

    Example:
        >>> treedef_is_leaf(tree_structure(0)), treedef_is_leaf(tree_structure([0]))
        (True, False)
    """
    return not treedef.parts


def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """Apply ``f`` to each leaf of ``tree`` and what stands there in the other trees.

    Raises ValueError where ``tree`` is not a prefix of one of the others.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten(map(f, leaves))
    others = [_subtrees(treedef, "tree_map", tree, r, is_leaf) for r in rest]
    return treedef.unflatten(map(f, leaves, *others))


def _subtrees(
    treedef: PyTreeDef, verb: str, tree: Any, other: Any, is_leaf: IsLeaf | None
) -> list[Any]:
    """Flatten ``other`` up to ``treedef``, or say where it differs from ``tree``."""
    try:
        return treedef.flatten_up_to(other)
    except Exception as error:
        found = find_prefix_error(tree, other, is_leaf)
        raise (error if found is None else found(f"{verb} tree")) from None


_REQUIRED = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _REQUIRED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves from left to right, like `functools.reduce`.

    Example:
        >>> tree_reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
        6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _REQUIRED:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Tell whether every leaf is true.

    Example:
        >>> tree_all([True, {"a": True}]), tree_all([True, {"a": False}])
        (True, False)
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn an outer structure of inner ones into an inner structure of outer ones.

    Without an inner structure, that of the first inner tree is taken.
    Raises TypeError where the numbers of leaves do not fit.

    Example:
        >>> tree_transpose(tree_structure([0, 0]), None, [(1, 2), (3, 4)])
        ([1, 3], [2, 4])
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        first = outer_treedef.flatten_up_to(pytree_to_transpose)[0]
        inner_treedef = tree_structure(first)
    n = inner_treedef.num_leaves
    if treedef.num_leaves != n * outer_treedef.num_leaves:
        expected = outer_treedef.compose(inner_treedef)
        raise errors.transpose_mismatch(treedef, expected)
    return inner_treedef.unflatten(
        [outer_treedef.unflatten(leaves[i::n]) for i in range(n)]
    )


def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """Return `broadcast_prefix` in the structure of ``full_tree``."""
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


class Partial(functools.partial[Any]):
    """A `functools.partial` that is a pytree: its arguments are children.

    The function is metadata, so a `Partial` may be passed through `jit`.
    """


def _flatten_partial(p: Partial) -> tuple[tuple[Any, ...], Any]:
    return (p.args, p.keywords), p.func


register_pytree_node(
    Partial, _flatten_partial, lambda func, xs: Partial(func, *xs[0], **xs[1])
)


# With key paths.


def tree_flatten_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return a list of (key path, leaf), and the structure.

    With ``is_leaf_takes_path``, ``is_leaf`` is called with a key path and a subtree.

    Example:
        >>> for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]:
        ...     print(keystr(path), leaf)
        ['a'][0] 1
        ['a'][1] 2
    """
    stop = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:

        def without_path(_: KeyPath, subtree: Any) -> bool:
            return is_leaf(subtree)

        stop = without_path
    keyed: list[tuple[KeyPath, Any]] = []
    return keyed, _flatten_with_path((), tree, keyed, stop)


def _flatten_with_path(
    path: KeyPath,
    tree: Any,
    keyed: list[tuple[KeyPath, Any]],
    is_leaf: Callable[[KeyPath, Any], bool] | None,
) -> PyTreeDef:
    stop = is_leaf is not None and is_leaf(path, tree)
    node = None if stop else one_level(tree)
    if node is None:
        keyed.append((path, tree))
        return LEAF
    kind, children, meta = node
    keys = kind.keys(tree, children, meta)
    parts = [
        _flatten_with_path((*path, key), child, keyed, is_leaf)
        for key, child in zip(keys, children, strict=True)
    ]
    return PyTreeDef(kind, meta, tuple(parts))


def tree_leaves_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> list[tuple[KeyPath, Any]]:
    """Return a list of (key path, leaf); see `tree_flatten_with_path`."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Apply ``f`` to each key path, leaf, and what stands there in the other trees.

    Example:
        >>> tree_map_with_path(lambda path, x: keystr(path) * x, {"a": 1, "b": 2})
        {'a': "['a']", 'b': "['b']['b']"}
    """
    keyed, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    stop = None if is_leaf_takes_path else is_leaf
    others = [_subtrees(treedef, "tree_map_with_path", tree, r, stop) for r in rest]
    return treedef.unflatten(
        [f(*pair, *xs) for pair, *xs in zip(keyed, *others, strict=True)]
    )
