"""Key paths: the way from the root of a pytree to one of its leaves, for messages.

A path is a tuple with one key per step. Here are the four kinds of keys and `keystr`,
which prints a path as Python would write the access: ``['a'][0].x``.
"""

import dataclasses
from collections.abc import Hashable
from typing import Any, cast

KeyPath = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """The key of an element of a list or tuple; prints as ``[0]``."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """The key of an entry of a dict; prints as ``['a']``."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The key of a field of a dataclass or named tuple; prints as ``.x``."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """The key of a child of a class registered without keys: just its position."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Print a key path, as it would follow the name of a variable.

    Example:
        >>> keystr((DictKey("a"), SequenceKey(0), GetAttrKey("x")))
        "['a'][0].x"
        >>> keystr((DictKey("a"), SequenceKey(0)), simple=True, separator="/")
        'a/0'
    """
    text = _simple_keystr if simple else str
    return separator.join([text(key) for key in keys])


def _simple_keystr(key: Any) -> str:
    match key:
        case SequenceKey(k) | DictKey(k) | GetAttrKey(k) | FlattenedIndexKey(k):
            return str(cast(object, k))
        case _:
            return str(key)
