"""pmax and pmin: the largest and the smallest value over devices, everywhere.

pargmax and pargmin: on which device that is.

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
from minijax.core.errors import collectives as errors
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import typeof
from minijax.lax.collectives.all_gather import all_gather
from minijax.lax.collectives.axes import (
    as_groups,
    as_names,
    canonical_axis,
    cast_to_varying,
    check_bound,
    operand_type,
    params_names,
    state_over,
)
from minijax.lax.collectives.axis_index import axis_index
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.psum import (
    all_reduce,
    batch_reduction,
    check_groups,
    positions,
    reduction_type,
)
from minijax.lax.compare import eq, ne
from minijax.lax.integers import bitwise_or
from minijax.lax.reductions import reduce_max, reduce_min
from minijax.lax.select import select
from minijax.lax.shapes import full


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
        state = state_over(operand_type(leaf), axes, f"jax.lax.{primitive}")
        if state == "unreduced":
            raise errors.extreme_of_sum(primitive.name)
        check_bound(axes, "psum")  # the name in upstream's message, too
        if dtypes.issubdtype(typeof(leaf).dtype, np.complexfloating):
            return _extreme_of_rows(primitive, leaf, axes, groups)
        leaf = cast_to_varying(leaf, axes)
        return primitive.bind1(leaf, axes=axes, axis_index_groups=groups)

    return tree_map(bind, x)


def _extreme_of_rows(primitive: Primitive, x: Any, axes: Any, groups: Any) -> Any:
    """Of complex values, which XLA does not compare while it moves them."""
    reduce = reduce_max if primitive is pmax_p else reduce_min
    if dims := positions(axes):
        x = reduce(x, [canonical_axis(d, typeof(x).ndim) for d in dims])
    names = params_names({"axes": axes})
    if not names:
        return x
    to = "varying" if groups else "invarying"
    return reduce(all_gather(x, names, axis_index_groups=groups, to=to), [0])


def pargmax(x: Any, axis_name: str) -> Any:
    """Where along a named axis each element of `x` is largest, `int32`; first of ties.

    >>> import minijax
    >>> minijax.vmap(lambda x: pargmax(x, "i"), axis_name="i")(np.array([1, 4, 4]))
    Array([1, 1, 1], dtype=int32)
    """
    if isinstance(axis_name, tuple | list):
        raise errors.single_axis("pargmax", axis_name)
    return _first_where(x, pmax(x, axis_name), axis_name)


def pargmin(x: Any, axis_name: str) -> Any:
    """Where along a named axis each element of `x` is smallest, as in `pargmax`.

    >>> import minijax
    >>> minijax.vmap(lambda x: pargmin(x, "i"), axis_name="i")(np.array([3, 1, 1]))
    Array([1, 1, 1], dtype=int32)
    """
    if isinstance(axis_name, tuple | list):
        raise errors.single_axis("pargmin", axis_name)
    return _first_where(x, pmin(x, axis_name), axis_name)


def _first_where(x: Any, extreme: Any, axis_name: str) -> Any:
    """The smallest index of a device whose element is the extreme one, or a NaN.

    A NaN anywhere is the extreme of its element, and compares unequal to itself.
    """

    def find(own: Any, best: Any) -> Any:
        here = bitwise_or(eq(own, best), ne(own, own))
        index = axis_index(axis_name)
        beyond = np.int32(np.iinfo(np.int32).max)
        shape = typeof(own).shape
        return pmin(select(here, full(shape, index), full(shape, beyond)), axis_name)

    return tree_map(find, x, extreme)


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
