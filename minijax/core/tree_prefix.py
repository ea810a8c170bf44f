"""Prefixes of pytrees, and saying where two pytrees differ.

A prefix is a tree whose leaves stand for whole subtrees of another: with ``in_axes=0``
or ``in_specs=(P('x'), P())``, one entry speaks for every leaf of an argument. Here
prefixes are spread over the leaves, and where one does not fit, each place is found.

Source: upstream's ``tree_util.py``, and ``flatten_axes`` from its ``api_util.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from minijax.core.errors import trees as errors
from minijax.core.tree_keys import KeyPath, keystr
from minijax.core.tree_nodes import one_level
from minijax.core.treedef import (
    LEAF,
    IsLeaf,
    PyTreeDef,
    tree_flatten,
    tree_structure,
)


def broadcast_prefix(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[Any]:
    """Repeat each leaf of a prefix for the leaves of the subtree that it stands for.

    Raises ValueError where ``prefix_tree`` is not a prefix of ``full_tree``.

    Example:
        >>> broadcast_prefix((0, 1), (["a", "b"], "c"))
        [0, 0, 1]
    """
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full_tree)
    except ValueError as error:
        found = find_prefix_error(prefix_tree, full_tree, is_leaf)
        name = "broadcast_prefix prefix_tree"
        raise (error if found is None else found(name)) from None
    result: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        result += [leaf] * tree_structure(subtree).num_leaves
    return result


PrefixError = Callable[[str], ValueError]


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[PrefixError]:
    """Say everywhere that one tree differs from being a prefix of another.

    Each is a function from what the caller calls the prefix, such as "vmap in_axes", to
    the exception.

    Example:
        >>> [error] = prefix_errors((0, [0]), (0, [0, 0]))
        >>> print(error("in_axes"))
        pytree structure error: different lengths of list at key path
            in_axes[1]
        At that key path, the prefix pytree in_axes has a subtree of type list of \
length 1, but the full pytree has a subtree of the same type but of length 2.
    """
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def find_prefix_error(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> PrefixError | None:
    """Return the first of `prefix_errors`, or None where there is none."""
    return next(_prefix_errors((), prefix_tree, full_tree, is_leaf), None)


def _prefix_errors(
    path: KeyPath, prefix: object, full: object, is_leaf: IsLeaf | None
) -> Iterator[PrefixError]:
    node = None if is_leaf is not None and is_leaf(prefix) else one_level(prefix)
    if node is None:
        return
    where, cls = keystr(path), type(prefix)
    if cls is not type(full):
        yield lambda name: errors.prefix_type_mismatch(name, where, cls, type(full))
        return
    kind, children, meta = node
    _, full_children, full_meta = cast(Any, one_level(full))
    n, full_n = len(children), len(full_children)
    if n != full_n and isinstance(prefix, list | tuple):
        yield lambda name: errors.prefix_length_mismatch(name, where, cls, n, full_n)
        return
    keys = kind.keys(prefix, children, meta)
    full_keys = kind.keys(full, full_children, full_meta)
    if n != full_n:
        yield lambda name: errors.prefix_child_count_mismatch(
            name, where, cls, keys, full_keys
        )
        return
    if meta != full_meta:
        yield lambda name: errors.prefix_metadata_mismatch(
            name, where, cls, meta, full_meta
        )
        return
    for key, child, full_child in zip(keys, children, full_children, strict=True):
        yield from _prefix_errors((*path, key), child, full_child, is_leaf)


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: IsLeaf | None = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Say everywhere that two pytrees differ in structure.

    Each difference is (key path, what is there in the first tree, what is there in the
    second, why that is a difference).

    Example:
        >>> list(equality_errors((0, [0]), (0, [0, 0])))[0][1:3]
        ('list of length 1', 'list of length 2')
    """
    return _equality_errors((), tree1, tree2, is_leaf)


def _equality_errors(
    path: KeyPath, tree1: object, tree2: object, is_leaf: IsLeaf | None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    node1, node2 = [
        None if is_leaf is not None and is_leaf(tree) else one_level(tree)
        for tree in (tree1, tree2)
    ]
    if node1 is None and node2 is None:
        return
    cls = type(tree1)
    if cls is not type(tree2) or node1 is None or node2 is None:
        yield path, str(cls), str(type(tree2)), "their Python types differ"
        return
    (kind, children1, meta1), (_, children2, meta2) = node1, node2
    n1, n2 = len(children1), len(children2)
    if n1 != n2 and isinstance(tree1, list | tuple):
        name = cls.__name__
        thing1, thing2 = f"{name} of length {n1}", f"{name} of length {n2}"
        yield path, thing1, thing2, "the lengths do not match"
        return
    keys = kind.keys(tree1, children1, meta1)
    if n1 != n2:
        why = "the numbers of children do not match"
        why += _key_difference(keys, kind.keys(tree2, children2, meta2))
        yield path, _with_children(cls, n1), _with_children(cls, n2), why
        return
    if meta1 != meta2:
        thing1, thing2 = (f"{cls} with pytree metadata {m}" for m in (meta1, meta2))
        yield path, thing1, thing2, "the pytree node metadata does not match"
        return
    for key, child1, child2 in zip(keys, children1, children2, strict=True):
        yield from _equality_errors((*path, key), child1, child2, is_leaf)


def _with_children(cls: type, n: int) -> str:
    return f"{cls} with {n} child{'ren' if n > 1 else ''}"


def _key_difference(keys1: Sequence[Any], keys2: Sequence[Any]) -> str:
    difference = errors.key_difference(keys1, keys2)
    if not all(hasattr(key, "key") for key in difference):
        return ""
    listing = " ".join([repr(key.key) for key in difference])
    return f", with the symmetric difference of key sets: {{{listing}}}"


class PytreeLeaf:
    """Stands for a leaf where only the structure of a tree is known."""

    def __repr__(self) -> str:
        return "pytree leaf"


def flatten_axes(
    name: str,
    treedef: PyTreeDef,
    axis_tree: Any,
    *,
    kws: bool = False,
    tupled_args: bool = False,
) -> list[Any]:
    """Repeat the leaves of an axis spec, a prefix, for the leaves of ``treedef``.

    In the spec, unlike elsewhere, None is a leaf. ``name`` is what messages call the
    spec ("vmap in_axes"). ``tupled_args``: the structure is that of a tuple of
    arguments. ``kws``: it is (arguments, keyword arguments), and so is the spec.
    Raises ValueError where the spec is no prefix.

    Example:
        >>> flatten_axes("in_axes", tree_structure(([0, 0], 0)), (None, 1))
        [None, None, 1]
    """
    try:
        return _broadcast_axes(axis_tree, treedef)
    except ValueError:
        pass
    if kws:  # the positional arguments are what the message is about
        treedef, _ = treedef.parts
        axis_tree, _ = axis_tree
    raise errors.axes_mismatch(
        name,
        _mismatch_details(name, axis_tree, treedef),
        tupled_args=tupled_args,
        singleton_tuple_would_do=tupled_args and _wrapped_would_do(axis_tree, treedef),
    )


def flatten_axis_resources(
    name: str, treedef: PyTreeDef, shardings: object, tupled_args: bool
) -> tuple[Any, ...]:
    """Repeat the leaves of shardings, a prefix; `flatten_axes` with other messages.

    Raises ValueError where the shardings are no prefix.
    """
    try:
        return tuple(_broadcast_axes(shardings, treedef))
    except ValueError:
        pass
    # By type, because a named tuple is not taken for a tuple of arguments.
    is_tuple = type(shardings) is tuple
    length = len(cast(tuple[Any, ...], shardings)) if is_tuple else None
    n_args = len(treedef.parts)
    if tupled_args and length != n_args:
        raise errors.axis_resources_not_args_tuple(
            name,
            type(shardings),
            length,
            n_args,
            singleton_tuple_would_do=_wrapped_would_do(shardings, treedef),
        )
    raise errors.axis_resources_mismatch(_mismatch_details(name, shardings, treedef))


def _is_none(x: Any) -> bool:
    return x is None


def _broadcast_axes(axis_tree: Any, treedef: PyTreeDef) -> list[Any]:
    # Of the tree only the structure is known, so it is filled with placeholders.
    leaves, axis_treedef = tree_flatten(axis_tree, is_leaf=_is_none)
    if axis_treedef is LEAF:
        return leaves * treedef.num_leaves
    subtrees = axis_treedef.flatten_up_to(_placeholders(treedef))
    result: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        result += [leaf] * tree_structure(subtree).num_leaves
    return result


def _placeholders(treedef: PyTreeDef) -> Any:
    return treedef.unflatten([PytreeLeaf()] * treedef.num_leaves)


def _wrapped_would_do(axis_tree: Any, treedef: PyTreeDef) -> bool:
    if len(treedef.parts) != 1:
        return False
    try:
        _broadcast_axes((axis_tree,), treedef)
    except ValueError:
        return False
    return True


def _mismatch_details(name: str, axis_tree: Any, treedef: PyTreeDef) -> list[str]:
    found = prefix_errors(axis_tree, _placeholders(treedef))
    return [str(error(name)) for error in found]
