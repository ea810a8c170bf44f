"""The functions on pytrees under their short names: ``minijax.tree.map`` and others.

Names only; the code is in `minijax.core.pytree`.
"""

from minijax.core.pytree import tree_all as all
from minijax.core.pytree import tree_broadcast as broadcast
from minijax.core.pytree import tree_flatten as flatten
from minijax.core.pytree import tree_flatten_with_path as flatten_with_path
from minijax.core.pytree import tree_leaves as leaves
from minijax.core.pytree import tree_leaves_with_path as leaves_with_path
from minijax.core.pytree import tree_map as map
from minijax.core.pytree import tree_map_with_path as map_with_path
from minijax.core.pytree import tree_reduce as reduce
from minijax.core.pytree import tree_structure as structure
from minijax.core.pytree import tree_transpose as transpose
from minijax.core.pytree import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "structure",
    "transpose",
    "unflatten",
]
