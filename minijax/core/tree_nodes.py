"""Which classes are nodes of pytrees, and how each is taken apart and rebuilt.

`NodeKind` is the rule for one class. Here are the registry of these rules, the rules of
Python's own containers, and the functions that register a class.

Source: upstream's ``tree_util.py`` and jaxlib's ``pytree.cc``.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, cast

from minijax.core.errors import trees as errors
from minijax.core.tree_keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
)

Family = Literal[
    "leaf", "none", "tuple", "list", "dict", "named tuple", "custom", "dataclass"
]


@dataclasses.dataclass(eq=False, slots=True)
class NodeKind:
    """How one class of containers is taken apart and put together again.

    ``flatten(node)`` returns (children, meta): a tuple or list of subtrees, and what
    else is needed to rebuild the node. ``unflatten(meta, children)`` rebuilds it.
    ``keys(node, children, meta)`` returns one key per child, for messages and paths.
    """

    cls: type
    family: Family
    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    keys: Callable[[Any, Sequence[Any], Any], Sequence[Any]]


# The registry: which classes are nodes. A class matches exactly, not its subclasses;
# named tuples are the exception, recognised by their fields when first seen.

kinds: dict[type, NodeKind] = {}
leaf_types: set[type] = set()  # classes seen before and found not to be nodes
_MOST_LEAF_TYPES = 1000  # a program that keeps making classes must not fill the memory


def is_named_tuple(cls: type) -> bool:
    """Tell whether a class is a named tuple: a tuple with ``_fields``."""
    return hasattr(cls, "_fields") and issubclass(cls, tuple)


def kind_of(cls: type) -> NodeKind | None:
    """Return how ``cls`` is taken apart, or None where its instances are leaves."""
    kind = kinds.get(cls)
    if kind is None and is_named_tuple(cls):
        # setdefault, so that two threads agree on one kind
        kind = kinds.setdefault(cls, _named_tuple_kind(cls))
    if kind is None:
        if len(leaf_types) >= _MOST_LEAF_TYPES:
            leaf_types.clear()
        leaf_types.add(cls)
    return kind


def _always[T](value: T) -> Callable[..., T]:
    return lambda *_: value


def _named_tuple_kind(cls: Any) -> NodeKind:
    keys = [GetAttrKey(name) for name in cls._fields]
    return NodeKind(
        cls,
        "named tuple",
        flatten=lambda node: (node, None),
        unflatten=lambda _, children: cls(*children),
        keys=_always(keys),
    )


def register(kind: NodeKind) -> None:
    """Make a class a pytree node; raises ValueError where it is one already."""
    known = kinds.get(kind.cls)
    # A named tuple may get rules of its own even after one has been flattened.
    if known is not None and known.family != "named tuple":
        raise errors.duplicate_registration(
            kind.cls, is_dataclass=kind.family == "dataclass"
        )
    kinds[kind.cls] = kind
    leaf_types.discard(kind.cls)


def one_level(tree: object) -> tuple[NodeKind, Sequence[Any], Any] | None:
    """Return (kind, children, metadata) of a node, or None for a leaf."""
    kind = kind_of(type(tree))
    return None if kind is None else (kind, *kind.flatten(tree))


# The built-in nodes.


def _sorted_keys(node: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(node))
    except Exception as error:
        raise errors.keys_not_sortable() from error


def _flatten_dict(node: dict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    keys = _sorted_keys(node)
    return [node[key] for key in keys], keys


def _flatten_ordered_dict(node: Any) -> tuple[list[Any], Any]:
    return list(node.values()), tuple(node)


def _flatten_default_dict(node: Any) -> tuple[list[Any], Any]:
    keys = _sorted_keys(node)
    return [node[key] for key in keys], (node.default_factory, keys)


def _unflatten_default_dict(meta: Any, children: Sequence[Any]) -> Any:
    factory, keys = meta
    return collections.defaultdict(factory, zip(keys, children, strict=True))


def _sequence_keys(_: Any, children: Sequence[Any], __: Any) -> list[SequenceKey]:
    return [SequenceKey(i) for i in range(len(children))]


def _position_keys(_: Any, children: Sequence[Any], __: Any) -> list[Any]:
    return [FlattenedIndexKey(i) for i in range(len(children))]


def _no_children(_: Any) -> tuple[tuple[()], None]:
    return (), None


LEAF_KIND = NodeKind(object, "leaf", _no_children, _always(None), _always(()))
"""The kind of leaves. It is never in the registry."""

register(NodeKind(type(None), "none", _no_children, _always(None), _always(())))
TUPLE_KIND = NodeKind(
    tuple,
    "tuple",
    flatten=lambda node: (node, None),
    unflatten=lambda _, children: tuple(children),
    keys=_sequence_keys,
)
register(TUPLE_KIND)
register(
    NodeKind(
        list,
        "list",
        flatten=lambda node: (node, None),
        unflatten=lambda _, children: list(children),
        keys=_sequence_keys,
    )
)
register(
    NodeKind(
        dict,
        "dict",
        flatten=_flatten_dict,
        unflatten=lambda keys, children: dict(zip(keys, children, strict=True)),
        keys=lambda _, __, keys: [DictKey(key) for key in keys],
    )
)
register(
    NodeKind(
        collections.OrderedDict,
        "custom",
        flatten=_flatten_ordered_dict,
        unflatten=lambda keys, children: collections.OrderedDict(
            zip(keys, children, strict=True)
        ),
        keys=lambda _, __, keys: [DictKey(key) for key in keys],
    )
)
register(
    NodeKind(
        collections.defaultdict,
        "custom",
        flatten=_flatten_default_dict,
        unflatten=_unflatten_default_dict,
        keys=lambda _, __, meta: [DictKey(key) for key in meta[1]],
    )
)


# Registering classes.


def register_pytree_node[T](
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]]
    | None = None,
) -> None:
    """Make the instances of a class nodes of pytrees.

    ``flatten_func(node)`` returns (children, metadata), ``unflatten_func(metadata,
    children)`` the node; the metadata should be hashable and comparable.
    ``flatten_with_keys_func`` is like the first with (key, child) for each child.
    Raises ValueError where the class is registered already.
    """

    def flatten(node: T) -> tuple[Sequence[Any], Any]:
        result = cast(object, flatten_func(node))
        if not isinstance(result, tuple) or len(cast(Any, result)) != 2:
            raise errors.flatten_result_not_a_pair(cast(object, result))
        children, meta = cast(Any, result)
        return tuple(children), meta

    def keys(node: T, children: Sequence[Any], meta: Any) -> Sequence[Any]:
        if flatten_with_keys_func is None:
            return _position_keys(node, children, meta)
        return [key for key, _ in flatten_with_keys_func(node)[0]]

    register(NodeKind(nodetype, "custom", flatten, unflatten_func, keys))


def register_pytree_with_keys[T](
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a node whose children have keys; see `register_pytree_node`."""

    def without_keys(node: T) -> tuple[Iterable[Any], Any]:
        keyed, meta = flatten_with_keys(node)
        return [child for _, child in keyed], meta

    register_pytree_node(
        nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class[T: type[Any]](cls: T) -> T:
    """Decorate a class that has ``tree_flatten`` and, on the class, ``tree_unflatten``.

    Example:
        >>> @register_pytree_node_class
        ... class Pair:
        ...     def __init__(self, x, y):
        ...         self.x, self.y = x, y
        ...     def tree_flatten(self):
        ...         return (self.x, self.y), "meta"
        ...     @classmethod
        ...     def tree_unflatten(cls, meta, children):
        ...         return cls(*children)
        >>> _, children, meta = one_level(Pair(1, (2, 3)))
        >>> children, meta
        ((1, (2, 3)), 'meta')
    """
    node: Any = cls
    register_pytree_node(node, lambda x: x.tree_flatten(), node.tree_unflatten)
    return cls


def register_static[T: type[Any]](cls: T) -> T:
    """Decorate a hashable class whose instances are metadata: nodes without leaves."""
    register_pytree_node(cls, lambda node: ((), node), lambda node, _: node)
    return cls


def register_dataclass[T: type[Any]](
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a dataclass a node: its data fields are children, its meta fields metadata.

    Without lists of fields, those with ``metadata={"static": True}`` are metadata. With
    lists, any class with these attributes and keyword arguments will do.
    Raises TypeError or ValueError where the lists do not fit the class.
    """
    if data_fields is None or meta_fields is None:
        fields = _fields_to_infer(nodetype, data_fields, meta_fields)
        fields = [f for f in fields if f.name not in drop_fields]
        static = {f.name for f in fields if f.metadata.get("static", False)}
        data_fields = [f.name for f in fields if f.name not in static]
        meta_fields = [f.name for f in fields if f.name in static]
    data, meta = tuple(data_fields), tuple(meta_fields)
    _check_fields(nodetype, data, meta, drop_fields)
    keys = [GetAttrKey(name) for name in data]

    def flatten(node: Any) -> tuple[Sequence[Any], Any]:
        return [getattr(node, f) for f in data], tuple([getattr(node, f) for f in meta])

    def unflatten(values: Any, children: Sequence[Any]) -> Any:
        arguments = dict(zip(meta, values, strict=True))
        arguments.update(zip(data, children, strict=True))
        return nodetype(**arguments)

    register(NodeKind(nodetype, "dataclass", flatten, unflatten, _always(keys)))
    return nodetype


def _fields_to_infer(
    nodetype: type,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
) -> tuple[dataclasses.Field[Any], ...]:
    both_missing = data_fields is None and meta_fields is None
    if both_missing and hasattr(nodetype, "__dataclass_fields__"):
        return dataclasses.fields(cast(Any, nodetype))
    raise errors.dataclass_fields_required(nodetype, data_fields, meta_fields)


def _check_fields(
    nodetype: type,
    data: tuple[str, ...],
    meta: tuple[str, ...],
    drop_fields: Sequence[str],
) -> None:
    given = {*data, *meta}
    if dataclasses.is_dataclass(nodetype):
        init = {f.name for f in dataclasses.fields(nodetype) if f.init}
        init.difference_update(drop_fields)
        if given != init:
            raise errors.dataclass_fields_incomplete(init - given, given - init)
    if overlap := set(data) & set(meta):
        raise errors.dataclass_fields_overlap(overlap)
