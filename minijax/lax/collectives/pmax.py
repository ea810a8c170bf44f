"""pmax and pmin: the largest and the smallest value over devices, everywhere.

    device   0     1     2     3          0     1     2     3
           [1 8] [3 6] [5 4] [7 2]  ->  [7 8] on every device         pmax

Type: `f32[2]{V:i} -> f32[2]`, and `V -> V` with groups.
StableHLO: `all_reduce` with `maximum` or `minimum`.
Upstream: `jax/_src/lax/parallel.py` (`pmax`, `pmin`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import typeof
from minijax.lax.collectives.axes import (
    as_groups,
    as_names,
    cast_to_varying,
    params_names,
    state_over,
)
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.psum import (
    all_reduce,
    batch_reduction,
    check_groups,
    reduction_type,
)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The elementwise maximum of every leaf over named axes; arguments as in `psum`.

    >>> import minijax
    >>> minijax.vmap(lambda x: pmax(x, "i"), axis_name="i")(np.array([1, 2, 4]))
    Array([4, 4, 4], dtype=int32)
    """
    return _extreme(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The elementwise minimum of every leaf over named axes; arguments as in `psum`.

    >>> import minijax
    >>> minijax.vmap(lambda x: pmin(x, "i"), axis_name="i")(np.array([1, 2, 4]))
    Array([1, 1, 1], dtype=int32)
    """
    return _extreme(pmin_p, x, axis_name, axis_index_groups)


def _extreme(primitive: Primitive, x: Any, axis_name: Any, groups: Any) -> Any:
    axes = as_names(axis_name)
    if not axes:
        return x
    groups = as_groups(groups)
    check_groups(axes, groups)

    def bind(leaf: Any) -> Any:
        state_over(typeof(leaf), axes, f"jax.lax.{primitive}")
        leaf = cast_to_varying(leaf, axes)
        return primitive.bind1(leaf, axes=axes, axis_index_groups=groups)

    return tree_map(bind, x)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return False
    if dtypes.issubdtype(dtype, np.inexact):
        return -np.inf
    return dtypes.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return True
    if dtypes.issubdtype(dtype, np.inexact):
        return np.inf
    return dtypes.iinfo(dtype).max


pmax_p, pmin_p = Primitive("pmax"), Primitive("pmin")
pmax_p.lowering = all_reduce("stablehlo.maximum", _lowest)
pmin_p.lowering = all_reduce("stablehlo.minimum", _highest)

for _p in (pmax_p, pmin_p):
    _p.abstract_eval = reduction_type(_p.name, invariant=True)
    _p.batch = batch_reduction(_p, lambda x, _: x)
    _p.axis_names = params_names
    _p.without(
        jvp="upstream has none, and ties make the choice of a subgradient arbitrary",
        transpose="it is not linear",
    )

# ------------------------------------------------------------------------- cases

CASES = [case(pmax, linear=False), case(pmin, linear=False)]
