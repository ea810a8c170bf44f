"""`PyTreeDef`, the structure of a pytree, and flattening and unflattening.

A pytree is a nest of containers around leaves. Flattening gives the list of leaves and
a `PyTreeDef`, a hashable description of the nest; unflattening goes back. Every call of
a `jit`-ted function flattens its arguments, so this file is written to be fast in plain
Python: a container of leaves only is handled by loops that run in C.

Which classes are containers is decided in `minijax.core.tree_nodes`; what is built on
flattening (maps, key paths, prefixes) is in `minijax.core.pytree`.

Source: upstream's ``tree_util.py`` and jaxlib's ``pytree.cc``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, cast, final

from minijax.core.bounded import Bounded
from minijax.core.errors import trees as errors
from minijax.core.tree_nodes import (
    LEAF_KIND,
    TUPLE_KIND,
    NodeKind,
    is_named_tuple,
    kind_of,
    kinds,
    leaf_types,
)

IsLeaf = Callable[[Any], bool]


@final
class PyTreeDef:
    """The structure of a pytree, without its leaves. Hashable; compares by structure.

    Example:
        >>> tree_structure({"a": 1, "b": (2, None)})
        PyTreeDef({'a': *, 'b': (*, None)})
    """

    __slots__ = ("_hash", "flat", "kind", "meta", "num_leaves", "parts")

    def __init__(
        self,
        kind: NodeKind,
        meta: Any,
        parts: "tuple[PyTreeDef, ...]",
        flat: bool = False,
    ) -> None:
        """Make a node; ``flat`` promises that every child is `LEAF`."""
        self.kind = kind
        self.meta = meta
        self.parts = parts
        self.flat = flat
        self._hash: int | None = None
        self.num_leaves: int = (
            len(parts) if flat else sum([c.num_leaves for c in parts])
        )

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves and the root included."""
        return 1 + sum(child.num_nodes for child in self.parts)

    def children(self) -> "list[PyTreeDef]":
        """Return the structures one level down; none for a leaf."""
        return list(self.parts)

    def node_data(self) -> tuple[type, Any] | None:
        """Return the root's class and its metadata, or None for a leaf."""
        match self.kind.family:
            case "leaf":
                return None
            case "dict":
                return dict, list(self.meta)
            case _:
                return self.kind.cls, self.meta

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build the pytree with this structure and these leaves.

        Raises ValueError where there are too few or too many.
        """
        leaves = tuple(leaves)
        if len(leaves) < self.num_leaves:
            raise errors.too_few_leaves(self.num_leaves, len(leaves))
        if len(leaves) > self.num_leaves:
            raise errors.too_many_leaves(self.num_leaves)
        if self.flat:
            return self.kind.unflatten(self.meta, leaves)
        return self.build(iter(leaves))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of ``tree`` that stand where this structure has leaves.

        Raises ValueError where this structure is not a prefix of the tree.

        Example:
            >>> tree_structure((0, [0])).flatten_up_to((1, [(2, 3)]))
            [1, (2, 3)]
        """
        subtrees: list[Any] = []
        self.match(tree, subtrees)
        return subtrees

    def compose(self, inner: "PyTreeDef") -> "PyTreeDef":
        """Return this structure with ``inner`` in place of every leaf."""
        if self is LEAF:
            return inner
        children = tuple([child.compose(inner) for child in self.parts])
        return PyTreeDef(self.kind, self.meta, children)

    def build(self, leaves: Iterator[Any]) -> Any:
        """Build the pytree, taking its leaves from an iterator that has enough."""
        if self is LEAF:
            return next(leaves)
        if self.flat:
            children = tuple(islice(leaves, self.num_leaves))
        else:
            children = tuple([child.build(leaves) for child in self.parts])
        return self.kind.unflatten(self.meta, children)

    def match(self, tree: Any, subtrees: list[Any]) -> None:
        """Append to ``subtrees`` what `flatten_up_to` returns."""
        if self is LEAF:
            subtrees.append(tree)
            return
        if type(tree) is not self.kind.cls:
            raise _type_mismatch(self, tree)
        children, meta = self.kind.flatten(tree)
        if meta != self.meta or len(children) != len(self.parts):
            raise _node_mismatch(self, tree, children, meta)
        if self.flat:
            subtrees.extend(children)
            return
        for child, subtree in zip(self.parts, children, strict=True):
            child.match(subtree, subtrees)

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                meta_hash = hash(self.meta)
            except TypeError:  # a registered class may have metadata without a hash
                meta_hash = 0
            # The leaves only count: hashing each of them would cost a call apiece.
            inner = () if self.flat else [c for c in self.parts if c is not LEAF]
            self._hash = hash((self.kind.cls, meta_hash, self.num_leaves, *inner))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return (
            self.kind is other.kind
            and self.num_leaves == other.num_leaves
            and bool(self.meta == other.meta)
            and self.parts == other.parts
        )

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # `LEAF` is compared by identity, so copies must come back as the same object.
        cls = None if self is LEAF else self.kind.cls
        return _restore, (cls, self.meta, self.parts)


LEAF = PyTreeDef(LEAF_KIND, None, ())
"""The structure of a leaf. There is only one, so it may be compared by identity."""
LEAF.num_leaves = 1


def _restore(cls: type | None, meta: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    if cls is None:
        return LEAF
    kind = kind_of(cls)
    if kind is None:
        raise errors.cannot_flatten_type(cls)
    return PyTreeDef(kind, meta, children)


def _text(treedef: PyTreeDef) -> str:
    kind, meta = treedef.kind, treedef.meta
    parts = [_text(child) for child in treedef.children()]
    inside = ", ".join(parts)
    match kind.family:
        case "leaf":
            return "*"
        case "none":
            return "None"
        case "tuple":
            return f"({inside},)" if len(parts) == 1 else f"({inside})"
        case "list":
            return f"[{inside}]"
        case "dict":
            items = [f"{k!r}: {part}" for k, part in zip(meta, parts, strict=True)]
            return f"{{{', '.join(items)}}}"
        case "named tuple":
            return f"CustomNode(namedtuple[{kind.cls.__name__}], [{inside}])"
        case _:
            return f"CustomNode({kind.cls.__name__}[{meta}], [{inside}])"


def _type_mismatch(treedef: PyTreeDef, tree: object) -> ValueError:
    kind = treedef.kind
    if kind.family in ("custom", "dataclass"):
        return errors.custom_type_mismatch(
            kind.cls, tree, is_dataclass=kind.family == "dataclass"
        )
    if kind.family == "named tuple" and is_named_tuple(type(tree)):
        given, expected = len(cast(tuple[Any, ...], tree)), len(treedef.parts)
        if given != expected:
            return errors.sequence_arity_mismatch("named tuple", given, expected, tree)
        return errors.named_tuple_type_mismatch(kind.cls, tree)
    name = "None" if kind.family == "none" else kind.family
    return errors.expected_container(name, tree)


def _node_mismatch(
    treedef: PyTreeDef, tree: Any, children: Sequence[Any], meta: Any
) -> ValueError:
    kind, expected = treedef.kind, len(treedef.parts)
    match kind.family:
        case "tuple" | "list":
            return errors.sequence_arity_mismatch(
                kind.family, len(children), expected, tree
            )
        case "dict":
            return errors.dict_key_mismatch(treedef.meta, meta)
        case _ if meta != treedef.meta:
            return errors.custom_data_mismatch(
                treedef.meta, meta, tree, is_dataclass=kind.family == "dataclass"
            )
        case _:
            return errors.custom_arity_mismatch(len(children), expected, tree)


# Flattening. The structure of a node that holds only leaves is kept, so that each call
# of a function gets the same object, with its hash computed. The cache is bounded
# twice: by the size of the nodes in it and by their number.

_MOST_LEAVES_KEPT = 64
_flat_defs: Bounded[Any, PyTreeDef] = Bounded(4096)
#: Of dicts of leaves by their keys, in order of insertion: how to get the values in
#: order of the sorted keys, and the structure. Found only for keys that are strings.
_known_dicts: Bounded[tuple[Any, ...], tuple[Callable[[Any], Any], PyTreeDef]]
_known_dicts = Bounded(4096)


def tree_flatten(
    tree: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a pytree and its structure.

    ``is_leaf(subtree)`` may stop the descent early. Raises ValueError for a dict whose
    keys cannot be sorted.

    Example:
        >>> tree_flatten({"b": 1, "a": [2, None]})
        ([2, 1], PyTreeDef({'a': [*, None], 'b': *}))
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: object, leaves: list[Any], is_leaf: IsLeaf | None) -> PyTreeDef:
    cls = type(tree)
    if cls in leaf_types or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    kind = kinds.get(cls) or kind_of(cls)
    if kind is None:
        leaves.append(tree)
        return LEAF
    if cls is dict and is_leaf is None:
        known = _flatten_known_dict(cast("dict[Any, Any]", tree), leaves)
        if known is not None:
            return known
    children, meta = kind.flatten(tree)
    # Most nodes hold leaves only. Asking for all their classes at once runs in C.
    if is_leaf is None and leaf_types.issuperset(map(type, children)):
        leaves.extend(children)
        return _flat_def(kind, meta, children, tree)
    parts = tuple([_flatten(child, leaves, is_leaf) for child in children])
    return PyTreeDef(kind, meta, parts)


def _flatten_known_dict(tree: dict[Any, Any], leaves: list[Any]) -> PyTreeDef | None:
    """Flatten a dict of leaves whose keys, in this order, have been sorted before."""
    if len(tree) > _MOST_LEAVES_KEPT:
        return None
    known = _known_dicts.get(tuple(tree))
    if known is None or not _STRING.issuperset(map(type, tree)):
        return None
    take, treedef = known
    children = take(tree)
    if not leaf_types.issuperset(map(type, children)):
        return None
    leaves.extend(children)
    return treedef


def _flat_def(
    kind: NodeKind, meta: Any, children: Sequence[Any], tree: Any
) -> PyTreeDef:
    n = len(children)
    # Equal metadata is not enough to share a structure: 1 == True, and the dict that
    # comes back must have the keys that went in. None and strings are safe.
    if n > _MOST_LEAVES_KEPT or not (meta is None or _only_strings(meta)):
        return PyTreeDef(kind, meta, (LEAF,) * n, flat=True)
    key = (kind, n if meta is None else meta)
    treedef = _flat_defs.get(key)
    if treedef is None:
        treedef = _flat_defs[key] = PyTreeDef(kind, meta, (LEAF,) * n, flat=True)
    if kind.cls is dict and n > 1:  # of one key, `itemgetter` would not make a tuple
        _known_dicts[tuple(tree)] = itemgetter(*cast(Any, meta)), treedef
    return treedef


def _only_strings(meta: Any) -> bool:
    return type(meta) is tuple and _STRING.issuperset(map(type, cast(Any, meta)))


_STRING = frozenset({str})


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """Return the structure of a pytree.

    Example:
        >>> tree_structure([1, (2,)])
        PyTreeDef([*, (*,)])
    """
    return tree_flatten(tree, is_leaf)[1]


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees with these structures.

    Example:
        >>> treedef_tuple([tree_structure(1), tree_structure([2])])
        PyTreeDef((*, [*]))
    """
    return PyTreeDef(TUPLE_KIND, None, tuple(treedefs))
