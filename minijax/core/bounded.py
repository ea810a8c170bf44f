"""Bounded tables, for caches whose keys nothing else keeps alive.

A cache that belongs to an object is kept in it, and dies with it. Where a program can
make ever new keys, as signatures and parameters are, the table must forget some.
"""

import threading
from itertools import islice


class Bounded[K, V](dict[K, V]):
    """A dict that drops its oldest entry when a new one would be too many.

    Reading is a plain dict's, at its full speed; hence the oldest and not the least
    recently used.

    >>> table = Bounded(2)
    >>> for i in range(3):
    ...     table[i] = i * i
    >>> table
    {1: 1, 2: 4}
    """

    __slots__ = ("most",)

    def __init__(self, most: int):
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        with _lock:  # another thread may be adding or dropping an entry
            if key not in self:
                for oldest in [*islice(self, max(0, len(self) - self.most + 1))]:
                    self.pop(oldest, None)
            super().__setitem__(key, value)


# Re-entrant, because dropping an entry may run finalizers that add to a table.
_lock = threading.RLock()
