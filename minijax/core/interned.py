"""Interned: the base of specs, meshes and shardings, where equal means identical."""

import threading
import weakref
from typing import Any, Self, cast

__all__ = ["Interned"]


class Interned:
    """Base of values of which equal ones are one object.

    Specs, meshes and shardings are keys of every cache in minijax. Made once per
    content and immutable, they are compared and hashed by address, in C; whatever
    can be derived from them is computed once, when the first one is made. The table
    is weak: a value that nobody uses any more leaves it.
    """

    __slots__ = ("__weakref__", "_content")
    _content: tuple[Any, ...]

    @classmethod
    def _intern(cls, *content: Any) -> Self:
        """The value with this content: the one in use, or a new one.

        `content` must be hashable and complete. A new value is handed to `_fill`,
        which checks the content, so what comes from the table is known to be sound.
        """
        key = (cls, content)
        found = _table.get(key)
        if found is None:
            with _lock:  # two threads must not both make it
                found = _table.get(key)
                if found is None:
                    found = object.__new__(cls)
                    found._set(_content=content)
                    found._fill(*content)
                    _table[key] = found
        return cast(Self, found)

    def _fill(self, *content: Any) -> None:
        """Check the content and set the attributes of a new value."""
        raise NotImplementedError

    def _set(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._intern, self._content

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


_table: weakref.WeakValueDictionary[tuple[Any, ...], Interned] = (
    weakref.WeakValueDictionary()
)
# Re-entrant, because filling one value may intern another (a mesh its abstract mesh).
_lock = threading.RLock()
