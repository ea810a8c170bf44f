"""psum_scatter: the sum over devices, of which each keeps its own part.

    device    0      1      2      3          0    1    2    3
           [a b c d] on each, the sums    -> [4a] [4b] [4c] [4d]

The transpose of an `all_gather`. Two primitives, by what the type says of the operand:

* `reduce_scatter`, `f32[4]{V:i} -> f32[1]{V:i}`;
* `unreduced_reduce_scatter`, `f32[4]{U:i} -> f32[1]{V:i}`: the operand already stands
  for the sum of what the devices hold, which is made here.

StableHLO: `reduce_scatter`, and a `reshape` if untiled.
Upstream: `jax/_src/lax/parallel.py` (`psum_scatter`, `unreduced_psum_scatter`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.errors import collectives as errors
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_map
from minijax.core.trace import typeof
from minijax.lax.arithmetic import mul
from minijax.lax.collectives.axes import (
    Groups,
    as_groups,
    as_names,
    canonical_axis,
    cast_to_varying,
    check_bound,
    check_varying,
    check_whole,
    group_size,
    names_size,
    operand_type,
    params_names,
    retyped,
    state_over,
)
from minijax.lax.collectives.cases import case
from minijax.lax.collectives.common import (
    batch_collective,
    group_attributes,
    split_dim,
)
from minijax.lax.collectives.primitives import (
    all_gather_p,
    all_gather_reduced_p,
    reduce_scatter_p,
    unreduced_reduce_scatter_p,
)
from minijax.lax.rules import NUMBER, check_dtypes, const
from minijax.lax.shapes import squeeze, sum_over
from minijax.lowering import dialect

Names = tuple[str, ...]


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Sums every leaf of `x` over named axes, and keeps this device's part.

    Args:
      x: a pytree of arrays.
      axis_name: a name or a tuple of names, the first of which counts slowest.
      scatter_dimension: of the operand; device `k` keeps its part `k`.
      axis_index_groups: sums and scatters within each of these lists of indices.
      tiled: whether the dimension stays, divided by the number of devices. Otherwise
        its size must be that number, and it goes away.

    >>> import numpy as np, minijax
    >>> rows = np.array([[1, 2], [10, 20]])
    >>> minijax.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(rows)
    Array([11, 22], dtype=int32)
    """
    names = as_names(axis_name)
    groups = as_groups(axis_index_groups)

    def scatter(leaf: Any) -> Any:
        if not names:
            return _alone(leaf, scatter_dimension, tiled)
        state = state_over(operand_type(leaf), names, "jax.lax.psum_scatter")
        size = group_size(names, groups)
        dim = canonical_axis(scatter_dimension, operand_type(leaf).ndim)
        params: dict[str, Any] = {
            "axis_name": names,
            "scatter_dimension": dim,
            "axis_size": size,
            "tiled": tiled,
        }
        if state == "unreduced":
            if groups is not None:
                raise errors.groups_not_invariant("psum_scatter", "varying")
            return unreduced_reduce_scatter_p.bind1(leaf, **params)
        leaf = cast_to_varying(leaf, names)
        return reduce_scatter_p.bind1(leaf, axis_index_groups=groups, **params)

    return tree_map(scatter, x)


def _alone(x: Any, scatter_dimension: int, tiled: bool) -> Any:
    """Over no name at all, a device is alone."""
    dim = canonical_axis(scatter_dimension, operand_type(x).ndim)
    _scattered(typeof(x), scatter_dimension=dim, axis_size=1, tiled=tiled)
    return x if tiled else squeeze(x, (dim,))


# --------------------------------------------------------------- abstract evaluation


def _scattered(
    aval: ShapedArray, *, scatter_dimension: int, axis_size: int, tiled: bool
) -> ShapedArray:
    check_dtypes("add", [aval, aval], [NUMBER, NUMBER])
    shape = list(aval.shape)
    size = shape[scatter_dimension]
    if tiled:
        if size % axis_size:
            raise errors.scatter_indivisible(size, axis_size)
        shape[scatter_dimension] = size // axis_size
    else:
        if size != axis_size:
            raise errors.scatter_size(size, axis_size)
        del shape[scatter_dimension]
    return aval.update(shape=shape)


@reduce_scatter_p.def_abstract_eval
def _type(
    aval: ShapedArray, *, axis_name: Names, axis_index_groups: Groups, **how: Any
) -> list[ShapedArray]:
    check_bound(axis_name, "reduce_scatter")
    check_whole(aval, axis_name, "reduce_scatter")
    out = _scattered(aval, **how)
    check_varying(aval, axis_name, "reduce_scatter")
    return [out]


@unreduced_reduce_scatter_p.def_abstract_eval
def _unreduced_type(
    aval: ShapedArray, *, axis_name: Names, **how: Any
) -> list[ShapedArray]:
    name, manual = "unreduced_psum_scatter", aval.manual
    check_bound(axis_name, "reduce_scatter")
    if not manual.unreduced:
        raise errors.wants_some(name, "unreduced", aval.short())
    if not manual.unreduced.intersection(axis_name):
        raise errors.collective_wants(
            name, "Unreduced -> Varying", "unreduced", "axis_name", axis_name,
            manual.unreduced,
        )  # fmt: skip
    if manual.varying.intersection(axis_name):
        raise errors.collective_cannot_be(
            name, "varying", aval.short(), "axis_name", axis_name
        )
    out = _scattered(aval, **how)
    if missing := set(axis_name) - manual.unreduced:
        raise errors.partly_varying(name, "unreduced", missing, axis_name)
    return retyped(
        out,
        varying=manual.varying.union(axis_name),
        unreduced=manual.unreduced.difference(axis_name),
    )


# --------------------------------------------------------------------- lowering


@reduce_scatter_p.def_lowering
def _lowering(
    ctx: Any,
    x: Any,
    *,
    axis_name: Names,
    scatter_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Groups = None,
) -> list[Any]:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    if (
        tiled and not aval.shape[scatter_dimension]
    ):  # StableHLO scatters no dimension of size 0
        return [dialect.full(out, 0)]
    shape = list(aval.shape)
    shape[scatter_dimension] //= axis_size
    attributes = group_attributes(ctx, axis_name, axis_index_groups)
    attributes["scatter_dimension"] = dialect.i64(scatter_dimension)
    part = dialect.op1(
        "stablehlo.reduce_scatter",
        [x],
        dialect.tensor(tuple(shape), aval.dtype),
        attributes,
        [
            dialect.combiner(
                "stablehlo.add",
                aval.dtype,
                lambda v: ctx.with_sharding(v, aval.update(shape=())),
            )
        ],
    )
    return [part if tiled else dialect.reshape(part, dialect.ir_type(out))]


unreduced_reduce_scatter_p.lowering = reduce_scatter_p.lowering

# ------------------------------------------------------------------ derivatives


def _gather(primitive: Primitive) -> Callable[..., Any]:
    def transpose(ct: Any, _: Any, *, scatter_dimension: int, **params: Any) -> Any:
        return primitive.bind1(ct, all_gather_dimension=scatter_dimension, **params)

    return transpose


reduce_scatter_p.def_linear(_gather(all_gather_p))
unreduced_reduce_scatter_p.def_linear(_gather(all_gather_reduced_p))

# --------------------------------------------------------------------- batching


def _own(x: Any, d: int | None, size: int, params: Any) -> tuple[Any, int]:
    """Over the mapped name: a sum, whose parts become the rows."""
    dim = params["scatter_dimension"]
    if d is None:
        x = mul(const(x, size), x)
    else:
        x = sum_over(x, (d,))
    return (split_dim(x, dim, size) if params["tiled"] else x), dim


def _shift(params: Any, d: int) -> tuple[Any, int]:
    dim = params["scatter_dimension"]
    if d <= dim:
        return params | {"scatter_dimension": dim + 1}, d
    return params, d if params["tiled"] else d - 1


def _mixed(x: Any, _: int | None, at: int, params: Any) -> tuple[Any, int]:
    """Over the mapped name and others, rows in front: one after the other."""
    names, dim = params["axis_name"], params["scatter_dimension"]
    major, minor = names[:at], names[at + 1 :]
    x, d = _scatter_over(x, major, dim + 1), 0
    size = typeof(x).shape[0]
    x, d = _own(x, d, size, {"scatter_dimension": dim, "tiled": True})
    x = _scatter_over(x, minor, d + 1)
    return (x if params["tiled"] else squeeze(x, (d + 1,))), d


def _scatter_over(x: Any, names: Names, dim: int) -> Any:
    if not names:
        return x
    return reduce_scatter_p.bind1(
        x,
        axis_name=names,
        scatter_dimension=dim,
        axis_index_groups=None,
        axis_size=names_size(names),
        tiled=True,
    )


reduce_scatter_p.axis_names = params_names
reduce_scatter_p.batch = batch_collective(reduce_scatter_p, _own, _shift, _mixed)
unreduced_reduce_scatter_p.axis_names = params_names
unreduced_reduce_scatter_p.batch = batch_collective(
    unreduced_reduce_scatter_p, _own, _shift
)

# ------------------------------------------------------------------------- cases

CASES = [
    case(psum_scatter, scatter_dimension=dim, tiled=tiled)
    for dim in (0, 1)
    for tiled in (False, True)
]
