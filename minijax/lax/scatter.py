"""scatter: windows put into an array, each at an index of its own.

    x f32[4,3] = rows a b c d, indices [[3], [0]], updates rows u v
        scatter      ->  rows v b c u
        scatter_add  ->  rows a+v b c d+u

The five that combine (`add`, `sub`, `mul`, `min`, `max`) have a hyphen in programs, as
in upstream's: `scatter-add`. Where several updates go to one element, plain
`scatter` keeps any one of them; its derivative finds out which one that was.

StableHLO: `scatter`, which drops a window that is not inside; mode CLIP clamps the
indices first.
Upstream: `jax/_src/lax/slicing.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijax.core.avals import NO_NAMES, Names, ShapedArray
from minijax.core.errors import indexing as errors
from minijax.core.linear import Zero, aval_of, is_undefined, zero_tangent
from minijax.core.primitive import Primitive
from minijax.core.rules import only_arrays, reduced_of, result_type, unreduced_of
from minijax.core.trace import typeof
from minijax.lax import arithmetic as ar
from minijax.lax.cases import Case
from minijax.lax.compare import eq
from minijax.lax.declared import scatter_add_p
from minijax.lax.gather import gather
from minijax.lax.gather_scatter import (
    Check,
    GatherScatterMode,
    ScatterDimensionNumbers,
    as_gather,
    check_integers,
    combiner,
    shifted,
    window_sizes,
)
from minijax.lax.rules import (
    add_tangents,
    batch_front,
    cast_together,
    check_same_dtypes,
    instantiate,
)
from minijax.lax.select import select
from minijax.lax.shapes import full_like, iota, reshape
from minijax.lowering import dialect
from minijax.lowering.dialect import Region, attr, ir_type, op1, tensor

_INT32_MAX = np.iinfo(np.int32).max

scatter_p = Primitive("scatter")
scatter_sub_p = Primitive("scatter-sub")
scatter_mul_p = Primitive("scatter-mul")
scatter_min_p = Primitive("scatter-min")
scatter_max_p = Primitive("scatter-max")

# --------------------------------------------------------------- public functions


def _public(
    primitive: Primitive, combine: Primitive | None, doc: str
) -> Callable[..., Any]:
    """The function that binds one of the scatters; their signatures are the same."""

    def fun(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        if not isinstance(dimension_numbers, ScatterDimensionNumbers):
            raise errors.dimension_numbers("scatter", type(dimension_numbers))
        dtype = typeof(operand).dtype
        operands = cast_together(operand, scatter_indices, updates)
        return primitive.bind1(
            *operands,
            dimension_numbers=dimension_numbers,
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
            update_jaxpr=None if combine is None else combiner(combine, dtype),
            update_consts=(),
        )

    fun.__name__ = fun.__qualname__ = primitive.name.replace("-", "_")
    fun.__doc__ = f"""{doc}

    Args:
      operand: an array.
      scatter_indices: integers; its last dimension holds the index vectors.
      updates: a window for each index vector, of the dtype of the operand.
      dimension_numbers: see `gather_scatter`.
      indices_are_sorted: the user's promise.
      unique_indices: the user's promise that no two windows overlap.
      mode: what an index out of bounds does; by default its window is dropped.
    """
    return fun


scatter = _public(scatter_p, None, "`operand` with windows replaced by `updates`.")
scatter_add = _public(scatter_add_p, ar.add_p, "`operand` with `updates` added.")
scatter_sub = _public(scatter_sub_p, ar.sub_p, "`operand` with `updates` subtracted.")
scatter_mul = _public(scatter_mul_p, ar.mul_p, "`operand` multiplied by `updates`.")
scatter_min = _public(scatter_min_p, ar.min_p, "The least of `operand` and `updates`.")
scatter_max = _public(scatter_max_p, ar.max_p, "The greatest of both.")

# ------------------------------------------------------------ abstract evaluation


def _scatter_type(
    primitive: Primitive,
    operand: Any,
    indices: Any,
    updates: Any,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **_: Any,
) -> list[ShapedArray]:
    avals = [operand, indices, updates]
    only_arrays(primitive, avals)
    check_integers(indices)
    check_same_dtypes("scatter", [operand, updates])
    _check_dims(operand, indices, updates, dimension_numbers)
    _check_sizes(operand, indices, updates, dimension_numbers)
    return [
        result_type(
            primitive.name.replace("-", "_"),
            avals,
            operand.shape,
            operand.dtype,
            operand.weak_type,
            partitions=lambda: _partitions(
                operand, indices, updates, dimension_numbers
            ),
            sums=_scatter_sums,
        )
    ]


def _check_dims(
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    numbers: ScatterDimensionNumbers,
) -> None:
    check, rank = Check("scatter"), operand.ndim
    window, inserted, mapped, batching, indices_batching = numbers
    if indices.ndim < 1:
        raise errors.no_index_vectors("Scatter", indices.ndim)
    expected = indices.ndim - 1 + len(window)
    if updates.ndim != expected:
        raise errors.updates_rank(expected, updates.ndim)
    check.proper("update_window_dims", window, updates.ndim)
    check.proper("inserted_window_dims", inserted, rank)
    check.proper("operand_batching_dims", batching, rank)
    check.disjoint("inserted_window_dims", inserted, "operand_batching_dims", batching)
    check.disjoint(
        "scatter_dims_to_operand_dims", mapped, "operand_batching_dims", batching
    )
    check.batch(
        operand, indices, batching, "scatter_indices_batching_dims", indices_batching
    )
    size = len(window) + len(inserted) + len(batching)
    if rank != size:
        raise errors.window_rank(size, rank)
    if len(mapped) != indices.shape[-1]:
        raise errors.index_vector_size(
            "Scatter",
            "scatter_dims_to_operand_dims",
            len(mapped),
            indices.ndim - 1,
            indices.shape[-1],
        )
    for i, d in enumerate(mapped):
        if not 0 <= d < rank:
            raise errors.index_map_range("scatter_dims_to_operand_dims", rank, i, d)
    check.unique("scatter_dims_to_operand_dims", mapped)


def _outer_dims(updates: ShapedArray, numbers: ScatterDimensionNumbers) -> list[int]:
    """The dimensions of the updates that tell windows apart, as do the indices'."""
    return [d for d in range(updates.ndim) if d not in numbers.update_window_dims]


def _window_dims(operand: ShapedArray, numbers: ScatterDimensionNumbers) -> list[int]:
    """The dimensions of the operand that windows have, in the order they have them."""
    alone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    return [d for d in range(operand.ndim) if d not in alone]


def _check_sizes(
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    numbers: ScatterDimensionNumbers,
) -> None:
    inner = zip(numbers.update_window_dims, _window_dims(operand, numbers), strict=True)
    for theirs, ours in inner:
        if updates.shape[theirs] > operand.shape[ours]:
            raise errors.window_bounds(
                theirs, updates.shape[theirs], operand.shape[ours]
            )
    for d, n in zip(_outer_dims(updates, numbers), indices.shape[:-1], strict=True):
        if updates.shape[d] != n:
            raise errors.scatter_bounds(d, updates.shape[d], n)


def _partitions(
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    numbers: ScatterDimensionNumbers,
) -> Sequence[Any]:
    """The operand's sharding, where no window is spread over devices.

    ShardingTypeError where the operands' shardings would take communication.
    """
    x, i, u = (
        a.sharding.spec.partitions or (None,) * a.ndim
        for a in (operand, indices, updates)
    )
    out, outer = list(x), _outer_dims(updates, numbers)
    fits = i[-1] is None and all(x[d] is None for d in numbers.inserted_window_dims)
    shared = zip(
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
        strict=True,
    )
    for ours, theirs in shared:
        told = {p for p in (x[ours], i[theirs], u[outer[theirs]]) if p is not None}
        fits = fits and len(told) <= 1
        out[ours] = next(iter(told), None)
    inner = zip(numbers.update_window_dims, _window_dims(operand, numbers), strict=True)
    for theirs, ours in inner:
        whole = updates.shape[theirs] == operand.shape[ours]
        same = u[theirs] == x[ours]
        fits = fits and same and (whole or x[ours] is None)
    for position, d in enumerate(outer):
        if position not in numbers.scatter_indices_batching_dims:
            fits = fits and u[d] is None and i[position] is None
    if not fits:
        raise errors.scatter_sharding(operand, indices, updates)
    return out


def _scatter_sums(name: str, avals: Sequence[ShapedArray]) -> tuple[Names, Names]:
    operand, indices, updates = avals
    if any(reduced_of(a) for a in avals):
        raise errors.reduced_scatter()
    if unreduced_of(indices, None):
        raise errors.unreduced_indices(indices.short())
    if unreduced_of(operand) != unreduced_of(updates):
        raise errors.unreduced_scatter(operand.short(), updates.short())
    return unreduced_of(operand), NO_NAMES


# ----------------------------------------------------------------------- lowering


def _scatter_lowering(
    ctx: Any,
    operand: Any,
    indices: Any,
    updates: Any,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    update_jaxpr: Any,
    update_consts: Any,
) -> Any:
    (aval,) = ctx.avals_out
    if mode is GatherScatterMode.CLIP:
        indices = _clamped(ctx, indices, dimension_numbers)

    def combine(x: Any, y: Any) -> Sequence[Any]:
        return [y] if update_jaxpr is None else ctx.lower_jaxpr(update_jaxpr, [x, y])

    scalar = tensor((), aval.dtype)
    attributes = {
        "scatter_dimension_numbers": attr(
            _numbers_text(dimension_numbers, ctx.avals_in[1])
        ),
        "indices_are_sorted": attr("true" if indices_are_sorted else "false"),
        "unique_indices": attr("true" if unique_indices else "false"),
    }
    operands, regions = (operand, indices, updates), [Region((scalar, scalar), combine)]
    out = op1("stablehlo.scatter", operands, ir_type(aval), attributes, regions)
    return [ctx.with_sharding(out, aval)]


_HLO_NAMES = {"operand_batching_dims": "input_batching_dims"}


def _numbers_text(numbers: ScatterDimensionNumbers, indices: ShapedArray) -> str:
    fields = [
        f"{_HLO_NAMES.get(name, name)} = {list(dims)}"
        for name, dims in numbers._asdict().items()
        if dims
    ]
    order = ["update", "inserted", "input", "scatter_indices", "scatter_dims"]
    fields.sort(key=lambda f: next(i for i, o in enumerate(order) if f.startswith(o)))
    fields.append(f"index_vector_dim = {indices.ndim - 1}")
    return f"#stablehlo.scatter<{', '.join(fields)}>"


def _clamped(ctx: Any, indices: Any, numbers: ScatterDimensionNumbers) -> Any:
    """The indices moved so that every window lies within the operand."""
    operand, aval, updates = ctx.avals_in
    sizes = window_sizes(numbers, operand.ndim, updates.shape)
    last = [operand.shape[d] - sizes[d] for d in numbers.scatter_dims_to_operand_dims]
    dtype = np.dtype(np.int64 if max([0, *last]) > _INT32_MAX else np.int32)
    bound_aval = ShapedArray((len(last),), dtype)
    bound = dialect.constant(np.array(last, dtype))
    most = min(np.iinfo(dtype).max, np.iinfo(aval.dtype).max)
    least = (bound, dialect.full(bound_aval, most))
    bound = op1("stablehlo.minimum", least, ir_type(bound_aval))
    if dtype != aval.dtype:
        target = bound_aval.update(dtype=aval.dtype)
        bound = dialect.convert(bound, bound_aval, target)
    if bound.type != ir_type(aval):
        bound = dialect.broadcast_in_dim(bound, (aval.ndim - 1,), ir_type(aval))
    zero = dialect.full(aval, 0)
    return op1("stablehlo.clamp", (zero, indices, bound), ir_type(aval))


# ----------------------------------------------------------------------- batching


def _scatter_batch(
    primitive: Primitive,
    axis: Any,
    args: Any,
    dims: Any,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> Any:
    (operand, indices, updates), (d, index_dim, update_dim) = args, dims
    operand = batch_front(operand, axis, d)
    updates = batch_front(updates, axis, update_dim)
    window, inserted, mapped, batching, indices_batching = dimension_numbers
    window, inserted, mapped, batching = map(
        shifted, (window, inserted, mapped, batching)
    )
    if index_dim is None:  # the mapped dimension is part of every window
        window = (0, *window)
    else:
        indices = batch_front(indices, axis, index_dim)
        batching, indices_batching = (0, *batching), (0, *shifted(indices_batching))
    numbers = ScatterDimensionNumbers(
        window, inserted, mapped, batching, indices_batching
    )
    operands = cast_together(operand, indices, updates)
    return primitive.bind(*operands, dimension_numbers=numbers, **params), [0]


for _primitive in (
    scatter_p,
    scatter_add_p,
    scatter_sub_p,
    scatter_mul_p,
    scatter_min_p,
    scatter_max_p,
):
    _primitive.abstract_eval = partial(_scatter_type, _primitive)
    _primitive.lowering = _scatter_lowering
    _primitive.batch = partial(_scatter_batch, _primitive)

# -------------------------------------------------------------------- derivatives

Params = dict[str, Any]


def _options(params: Params) -> Params:
    """The parameters that another scatter to the same places takes."""
    names = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    return {n: params[n] for n in names}


def _taken(x: Any, indices: Any, updates: Any, params: Params, **options: Any) -> Any:
    """The gather that takes from `x` the windows that the updates go to."""
    numbers = params["dimension_numbers"]
    aval = typeof(x)
    sizes = window_sizes(numbers, aval.ndim, aval_of(updates).shape)
    return gather(x, indices, as_gather(numbers), sizes, **options)


def _linear_jvp(
    primitive: Primitive, primals: Any, tangents: Any, **params: Any
) -> Any:
    """Of a scatter that is linear in operand and updates together."""
    operand, indices, updates = primals
    outs = primitive.bind(operand, indices, updates, **params)
    g, _, h = tangents
    if type(g) is Zero and type(h) is Zero:
        return outs, [zero_tangent(outs[0])]
    pair = instantiate(g), indices, instantiate(h)
    return outs, primitive.bind(*cast_together(*pair), **params)


def _add_transpose(
    sign: Callable[[Any], Any],
    cts: Any,
    operand: Any,
    indices: Any,
    updates: Any,
    **params: Any,
) -> Any:
    (ct,) = cts
    if type(ct) is Zero:
        return [None, None, None]
    back = None
    if is_undefined(updates):
        mode = params["mode"]
        back = sign(_taken(ct, indices, updates, params, mode=mode, fill_value=0))
    return [ct if is_undefined(operand) else None, None, back]


for _primitive, _sign in ((scatter_add_p, lambda x: x), (scatter_sub_p, ar.neg)):
    _primitive.jvp = partial(_linear_jvp, _primitive)
    _primitive.transpose = partial(_add_transpose, _sign)


@scatter_mul_p.def_jvp
def _mul_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices, updates = primals
    g, _, h = tangents
    outs = scatter_mul_p.bind(*primals, **params)
    tangent: Any = zero_tangent(outs[0])
    if type(g) is not Zero:
        tangent = scatter_mul_p.bind1(g, indices, updates, **params)
    if type(h) is not Zero:
        if not params["unique_indices"]:
            raise errors.scatter_mul_not_unique()
        zeros = instantiate(Zero(typeof(operand)))
        spread = scatter_add(zeros, indices, h, **_options(params))
        tangent = add_tangents(tangent, ar.mul(operand, spread))
    return outs, [tangent]


@scatter_mul_p.def_transpose
def _mul_transpose(
    cts: Any, operand: Any, indices: Any, updates: Any, **params: Any
) -> Any:
    (ct,) = cts
    if type(ct) is Zero:
        return [None, None, None]
    if is_undefined(operand):
        return [scatter_mul_p.bind1(ct, indices, updates, **params), None, None]
    if not params["unique_indices"]:
        raise errors.scatter_mul_not_unique()
    product, mode = ar.mul(ct, operand), params["mode"]
    back = _taken(product, indices, updates, params, mode=mode, fill_value=0)
    return [None, None, back]


def _extremal_jvp(
    primitive: Primitive, primals: Any, tangents: Any, **params: Any
) -> Any:
    """Of min and max: whoever reached the result shares its tangent equally."""
    operand, indices, updates = primals
    (out,) = primitive.bind(operand, indices, updates, **params)
    if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
        return [out], [zero_tangent(out)]
    g, h = instantiate(tangents[0]), instantiate(tangents[2])
    zeros = full_like(operand, 0)
    no, one = full_like(updates, 0), full_like(updates, 1)

    def at(x: Any) -> Any:
        names = ("indices_are_sorted", "unique_indices", "mode")
        options = {n: params[n] for n in names}
        return _taken(x, indices, updates, params, **options)

    def count(x: Any) -> Any:
        return at(scatter_add(zeros, indices, x, **_options(params)))

    target = at(out)
    reached, kept = eq(updates, target), eq(at(operand), target)
    reaching, touching = count(select(reached, one, no)), count(one)
    share = ar.div(one, ar.add(reaching, select(kept, one, no)))
    of_update = select(reached, share, no)
    of_operand = ar.div(ar.sub(select(kept, share, no), one), touching)
    change = ar.add(ar.mul(at(g), of_operand), ar.mul(h, of_update))
    return [out], [scatter_add(g, indices, change, **_options(params))]


for _primitive in (scatter_min_p, scatter_max_p):
    _primitive.jvp = partial(_extremal_jvp, _primitive)
    _primitive.without(transpose="it is not linear")


@scatter_p.def_jvp
def _scatter_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Updates that may overlap get numbers, and are scattered with them.

    Reading the numbers back tells which updates won. The others are set to zero, as
    are the elements of the operand that were replaced; then a scatter-add, whose
    derivative is known, gives the same result.
    """
    g, _, h = tangents
    if params["unique_indices"] or (type(g) is Zero and type(h) is Zero):
        return _linear_jvp(scatter_p, primals, tangents, **params)
    operand, indices, updates = primals
    g, h = instantiate(g), instantiate(h)
    window = params["dimension_numbers"].update_window_dims
    sizes = [1 if d in window else n for d, n in enumerate(typeof(updates).shape)]
    count = math.prod(sizes)
    dtype = np.dtype(np.uint64 if count > np.iinfo(np.uint32).max else np.uint32)
    numbers = reshape(iota(dtype, count), sizes)
    numbers = ar.add(numbers, full_like(updates, 1, dtype))
    options = _options(params)
    blank = full_like(operand, 0, dtype)
    written = scatter(blank, indices, numbers, **options)
    won = eq(numbers, _taken(written, indices, updates, params))
    untouched = eq(written, blank)

    def masked(mask: Any, x: Any) -> Any:
        return select(mask, x, full_like(x, 0))

    def result(x: Any, y: Any) -> Any:
        return scatter_add(masked(untouched, x), indices, masked(won, y), **options)

    return [result(operand, updates)], [result(g, h)]


@scatter_p.def_transpose
def _scatter_transpose(
    cts: Any, operand: Any, indices: Any, updates: Any, **params: Any
) -> Any:
    (ct,) = cts
    if type(ct) is Zero:
        return [None, None, None]
    if not params["unique_indices"]:
        raise errors.scatter_not_unique()
    of_operand = of_updates = None
    if is_undefined(operand):  # what was replaced has no influence
        aval = aval_of(updates)
        zeros = instantiate(Zero(typeof(ct).update(shape=aval.shape)))
        of_operand = scatter_p.bind1(ct, indices, zeros, **params)
    if is_undefined(updates):
        mode = params["mode"]
        of_updates = _taken(ct, indices, updates, params, mode=mode, fill_value=0)
    return [of_operand, None, of_updates]


def _rows(
    primitive: Primitive, combine: Any, rows: Sequence[int], **params: Any
) -> Case:
    options = {
        "dimension_numbers": ScatterDimensionNumbers((1,), (0,), (0,)),
        "indices_are_sorted": False,
        "unique_indices": len(set(rows)) == len(rows),
        "mode": GatherScatterMode.CLIP,
        "update_jaxpr": combine and combiner(combine, np.dtype(np.float32)),
        "update_consts": (),
    } | params

    def make(rng: np.random.Generator) -> list[Any]:
        x, y = (rng.uniform(size=(n, 3)).astype(np.float32) for n in (4, len(rows)))
        return [x, np.array(rows, np.int32)[:, None], y]

    kinds = [np.float32, np.int32, np.float32]
    shapes = [(4, 3), (len(rows), 1), (len(rows), 3)]
    return Case(primitive, shapes, options, kinds, make=make)


CASES = [
    _rows(scatter_p, None, [3, 0]),
    _rows(scatter_p, None, [3, 0, 3]),
    _rows(scatter_p, None, [7, 0], mode=GatherScatterMode.FILL_OR_DROP),
    _rows(scatter_add_p, ar.add_p, [3, 0, 3]),
    _rows(scatter_add_p, ar.add_p, [7, 0], mode=GatherScatterMode.FILL_OR_DROP),
    _rows(scatter_sub_p, ar.sub_p, [3, 0, 3]),
    _rows(scatter_mul_p, ar.mul_p, [3, 0]),
    _rows(scatter_min_p, ar.min_p, [3, 0, 3]),
    _rows(scatter_max_p, ar.max_p, [3, 0, 3]),
]
