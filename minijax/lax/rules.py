"""Rules that whole kinds of primitives share, and the tools that rules are made with.

* `elementwise` makes a primitive that acts on each element: its type, its batching and
  its lowering follow from its name and the dtypes it accepts;
* `derivatives` builds a jvp rule from one formula per operand;
* `move_batch`, `batch_at` put a mapped dimension where a batching rule wants it;
* `instantiate`, `add_tangents`, `unbroadcast` are for derivative rules;
* `cast_together` is what public functions do first inside `shard_map`;
* `emit`, `composed` are for lowering rules.

Upstream: `jax/_src/lax/lax.py` (`naryop`, `unop`, `_nary_lower_hlo`),
`jax/_src/interpreters/ad.py` (`defjvp`), `jax/_src/interpreters/batching.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import NO_MANUAL, ShapedArray, abstract_token
from minijax.core.errors import operands as errors
from minijax.core.jaxpr import Jaxpr
from minijax.core.linear import Zero, is_undefined, zero_tangent
from minijax.core.mesh import NamedSharding, get_abstract_mesh, use_abstract_mesh
from minijax.core.primitive import Primitive
from minijax.core.staging import stage
from minijax.core.trace import axis_env, is_evaluating, typeof
from minijax.lax import shapes
from minijax.lax.collectives.axes import in_mesh_order
from minijax.lax.collectives.primitives import (
    preduced_p,
    pvary_p,
    reduced_vary_cast_p,
    vary_unreduced_cast_p,
)
from minijax.lax.declared import create_token_p
from minijax.lax.shapes import (
    broadcast,
    broadcast_in_dim,
    expand_dims,
    for_vmap,
    full,
    moveaxis,
    reshape,
    sum_over,
)
from minijax.lowering import dialect

# ------------------------------------------------------------------ kinds of dtypes

Kinds = tuple[type, ...]
FLOAT: Kinds = (np.floating,)
COMPLEX: Kinds = (np.complexfloating,)
INT: Kinds = (np.integer,)
BOOL: Kinds = (np.bool_,)
INEXACT = FLOAT + COMPLEX
NUMBER = INT + FLOAT + COMPLEX
ORDERED = INT + FLOAT + BOOL
BOOL_OR_INT = INT + BOOL
ANY = NUMBER + BOOL


def is_complex(x: Any) -> bool:
    """Whether a value is of a complex dtype."""
    return dtypes.issubdtype(typeof(x).dtype, np.complexfloating)


def real_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype; a real dtype itself.

    >>> real_dtype(np.complex64)
    dtype('float32')
    """
    return np.abs(np.zeros((), dtype)).dtype


def check_dtypes(
    name: str, avals: Sequence[ShapedArray], kinds: Sequence[Kinds]
) -> None:
    """Refuses an operand whose dtype is of none of its kinds."""
    for i, (aval, accepted) in enumerate(zip(avals, kinds, strict=True)):
        position = None if len(avals) == 1 else i
        if any(dtypes.issubdtype(aval.dtype, k) for k in accepted):
            continue
        if aval.dtype == dtypes.float0:
            raise errors.float0_operand(name, position)
        found = aval.dtype.name
        shown = [k.__name__ for k in accepted]
        raise errors.dtype_not_accepted(name, found, position, shown)


def check_same_dtypes(name: str, avals: Sequence[ShapedArray]) -> None:
    """Refuses operands of different dtypes: `lax` promotes nothing."""
    if any(a.dtype != avals[0].dtype for a in avals[1:]):
        raise errors.different_dtypes(name, [a.dtype.name for a in avals])


# ------------------------------------------------------------ elementwise primitives


def elementwise(
    name: str,
    *kinds: Kinds,
    op: str | None = None,
    result: Callable[..., Any] | None = None,
    same_dtypes: bool = True,
    sums: rules.Sums = rules.nonlinear,
    primitive: Primitive | None = None,
) -> Primitive:
    """A primitive that computes each element from the same element of its operands.

    Operands have one shape, up to dimensions of size 1, or are scalars.

    Args:
      kinds: the dtypes it accepts, per operand.
      op: the operation that it lowers to; without, the page gives a lowering rule.
      result: `result(*avals, **params) -> dtype`; by default that of operand 0.
      same_dtypes: whether operands must agree in dtype.
      sums: what it makes of unreduced and reduced operands, see `core.rules`.
      primitive: one made in `declared`; by default a new one.
    """
    prim = primitive or Primitive(name)

    @prim.def_abstract_eval
    @remembered
    def abstract_eval(*avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        rules.only_arrays(prim, avals)
        check_dtypes(name, avals, kinds)
        if same_dtypes:
            check_same_dtypes(name, avals)
        aval = rules.result_type(
            name,
            avals,
            rules.join_shapes(name, avals),
            avals[0].dtype if result is None else result(*avals, **params),
            all(a.weak_type for a in avals),
            partitions=lambda: rules.join_partitions(name, avals),
            sums=sums,
        )
        return [aval]

    if op is not None:
        opcode = op  # a name that the type checker knows to be no None

        @prim.def_lowering
        def lowering(ctx: Any, *operands: Any, **_: Any) -> list[Any]:
            return emit(ctx, opcode, *operands)

    if len(kinds) == 1:
        prim.batch = batch_unary(prim)
    else:
        prim.batch = batch_broadcasting(prim)
    return prim


def remembered(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers the answers of an abstract evaluation rule, also by the mesh in force.

    For rules of hashable parameters that read nothing else from their surroundings.
    Types are shared objects, so this is most of what makes tracing fast.
    """

    @lru_cache(maxsize=2048)
    def remember(_: Any, /, *avals: Any, **params: Any) -> Any:
        return rule(*avals, **params)

    def abstract_eval(*avals: Any, **params: Any) -> Any:
        return remember(get_abstract_mesh(), *avals, **params)

    return abstract_eval


# ---------------------------------------------------------------------- derivatives


def derivatives(prim: Primitive, *formulas: Callable[..., Any] | None) -> None:
    """The jvp of a primitive from one formula per operand.

    `formula(g, *primals, **params)` is the tangent of the result due to the tangent
    `g` of that operand; None where the result does not depend on the operand smoothly.
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        outs = prim.bind(*primals, **params)
        parts = [
            formula(g, *primals, **params)
            for formula, g in zip(formulas, tangents, strict=True)
            if formula is not None and type(g) is not Zero
        ]
        return outs, [_sum_of(parts, outs[0])]

    prim.jvp = jvp
    if not prim.has("transpose") and "transpose" not in prim.undeclared:
        prim.without(transpose="it is not linear")


def derivatives_from_result(prim: Primitive, *formulas: Callable[..., Any]) -> None:
    """The same for formulas that use the result: `formula(g, result, *primals)`."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (out,) = prim.bind(*primals, **params)
        parts = [
            formula(g, out, *primals, **params)
            for formula, g in zip(formulas, tangents, strict=True)
            if type(g) is not Zero
        ]
        return [out], [_sum_of(parts, out)]

    prim.jvp = jvp
    prim.without(transpose="it is not linear")


def _sum_of(parts: list[Any], out: Any) -> Any:
    return reduce(add_tangents, parts) if parts else zero_tangent(out)


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents, of which any may be `Zero`."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add_any(x, y)


def instantiate(x: Any) -> Any:
    """A tangent as a value: a `Zero` becomes an array of zeros of exactly its type."""
    if type(x) is not Zero:
        return x
    aval = x.aval
    if aval is abstract_token:
        return create_token_p.bind1()
    assert isinstance(aval, ShapedArray)
    if aval.dtype == dtypes.float0 and is_evaluating():
        return np.zeros(aval.shape, dtypes.float0)
    zero: Any = np.zeros((), aval.dtype)
    if aval.dtype != dtypes.float0:
        zero = zero[()]
    if aval.weak_type and _WEAK.get(aval.dtype.kind) is not None:
        zero = _WEAK[aval.dtype.kind](0)
    spec = aval.sharding.spec
    told = aval.mesh.explicit_axes and (spec.axes or spec.unreduced or spec.reduced)
    return cast_to_type(full(aval.shape, zero, sharding=_told(aval, told)), aval)


_WEAK: Mapping[str, type] = {"i": int, "f": float, "c": complex}


def _told(aval: ShapedArray, told: Any) -> NamedSharding | None:
    return aval.sharding if told else None


def cast_to_type(x: Any, aval: ShapedArray) -> Any:
    """Casts an invarying value to the manual axis type of `aval`."""
    wanted, found = aval.manual, typeof(x).manual
    if wanted is found or wanted == found or not axis_env().check_vma:
        return x
    spread = wanted.varying | wanted.unreduced
    x = _bind_cast(pvary_p, x, spread - found.varying)
    x = _bind_cast(vary_unreduced_cast_p, x, wanted.unreduced)
    return _bind_cast(preduced_p, x, wanted.reduced - found.reduced)


def _bind_cast(cast: Primitive, x: Any, names: Any) -> Any:
    return cast.bind1(x, axes=in_mesh_order(names)) if names else x


def unbroadcast(aval: ShapedArray, x: Any) -> Any:
    """The cotangent of an operand of type `aval` that was broadcast to the type of `x`.

    It sums over what was repeated.
    """
    found = typeof(x)
    if found.shape == aval.shape:
        return x
    if not aval.shape:
        return sum_over(x, tuple(range(len(found.shape))))
    repeated = tuple(
        i
        for i, (a, b) in enumerate(zip(found.shape, aval.shape, strict=True))
        if a != b
    )
    return reshape(sum_over(x, repeated), aval.shape)


def broadcast_like(x: Any, out: Any) -> Any:
    """The tangent of an operand as one of the result that it was broadcast to.

    `out` is the result, or its type.
    """
    found = typeof(x)
    wanted = out if isinstance(out, ShapedArray) else typeof(out)
    if found.shape == wanted.shape:
        return x
    explicit = wanted.sharding if wanted.sharding.spec.axes else None
    dims = range(len(wanted.shape)) if found.shape else ()
    return broadcast_in_dim(x, wanted.shape, dims, out_sharding=explicit)


def const(x: Any, value: Any) -> Any:
    """A scalar constant of the dtype of `x`, weak if that is weak."""
    aval = typeof(x)
    kind = _WEAK.get(aval.dtype.kind) if aval.weak_type else None
    return kind(value) if kind else _typed_scalar(aval.dtype, value)


@lru_cache(maxsize=1024)
def _typed_scalar(dtype: Any, value: Any) -> Any:
    return np.asarray(value, dtype)[()]


def transpose_unary(ct_rule: Callable[..., Any]) -> Callable[..., Any]:
    """A transpose rule of one operand from `ct_rule(ct, operand, **params)`."""

    def rule(cts: Any, x: Any, **params: Any) -> list[Any]:
        (ct,) = cts
        return [None if type(ct) is Zero else ct_rule(ct, x, **params)]

    return rule


def transpose_each(*ct_rules: Callable[..., Any]) -> Callable[..., Any]:
    """A transpose rule from one rule per operand, `ct_rule(ct, *args)`.

    A rule's result may have the shape of the result where the operand was broadcast.
    """

    def rule(cts: Any, *args: Any, **_: Any) -> list[Any]:
        (ct,) = cts
        if type(ct) is Zero:
            return [None] * len(args)
        return [
            unbroadcast(x.aval, ct_rule(ct, *args)) if is_undefined(x) else None
            for x, ct_rule in zip(args, ct_rules, strict=True)
        ]

    return rule


# ------------------------------------------------------------------------- batching


def move_batch(x: Any, src: int, dst: int) -> Any:
    """Moves the mapped dimension; nothing if it is there already."""
    return moveaxis(x, src, dst)


def batch_at(x: Any, axis: Any, dim: int) -> Any:
    """Repeats a value along a new mapped dimension `dim`, sharded as the axis is.

    A token stays one token.
    """
    aval = typeof(x)
    if aval is abstract_token:
        return x
    shape = (*aval.shape[:dim], axis.size, *aval.shape[dim:])
    dims = [i for i in range(len(shape)) if i != dim]
    sharding, spec = None, aval.sharding.spec
    if axis.explicit or spec.axes or spec.unreduced or spec.reduced:
        sharding = for_vmap(axis, aval.sharding, dim)
    return broadcast_in_dim(x, shape, dims, out_sharding=sharding)


def batch_front(x: Any, axis: Any, dim: int | None) -> Any:
    """A value with its mapped dimension in front, made there if it has none."""
    return batch_at(x, axis, 0) if dim is None else move_batch(x, dim, 0)


def batch_unary(prim: Primitive) -> Callable[..., Any]:
    """Batching of an operation on each element of one operand: the operation itself."""

    def batch(_: Any, args: Any, dims: Any, **params: Any) -> Any:
        outs = prim.bind(*args, **params)
        return outs, [dims[0]] * len(outs)

    return batch


def _in_front(x: Any, shape: tuple[int, ...]) -> Any:
    """A value with a first dimension of size 1; numpy counts, as it does upstream."""
    dims: Any = np.arange(1, len(shape) + 1, dtype=np.int64)
    return broadcast_in_dim(x, (1, *shape), tuple(dims))


def batch_broadcasting(prim: Primitive) -> Callable[..., Any]:
    """Batching of an operation on each element of several operands.

    An operand that is not mapped gets a dimension of size 1, or stays a scalar.
    """

    def batch(_: Any, args: Any, dims: Any, **params: Any) -> Any:
        shapes = [typeof(x).shape for x in args]
        mapped = zip(shapes, dims, strict=True)
        shape, dim = next((s, d) for s, d in mapped if d is not None)
        pairs = zip(shapes, dims, strict=True)
        if all(s == shape and d == dim for s, d in pairs if s):
            return prim.bind(*args, **params), [dim]
        arrays = [
            x if not s else _in_front(x, s) if d is None else move_batch(x, d, 0)
            for x, s, d in zip(args, shapes, dims, strict=True)
        ]
        ndim = max(len(typeof(x).shape) for x in arrays)
        aligned = [
            x if d is None else _with_ones(x, ndim)
            for x, d in zip(arrays, dims, strict=True)
        ]
        return prim.bind(*aligned, **params), [0]

    return batch


def _with_ones(x: Any, ndim: int) -> Any:
    """A mapped scalar, with dimensions of size 1 for those of the other operands."""
    rank = len(typeof(x).shape)
    return expand_dims(x, tuple(range(rank, ndim))) if rank < ndim else x


# ------------------------------------------------------------------- public functions


def cast_together(*xs: Any) -> Sequence[Any]:
    """Operands cast so that all vary over the same Manual axes, where types follow it.

    What each lacks is added by `pvary`, or by `reduced_vary_cast` if it is reduced over
    just that. Every public function of several operands begins with this.
    """
    if not axis_env().check_vma:
        return xs if not get_abstract_mesh().explicit_axes else _reduce_scalars(xs)
    avals = [typeof(x) for x in xs]
    varying = [a.manual.varying for a in avals if a is not abstract_token]
    if all(v is varying[0] for v in varying):
        return xs
    union = frozenset().union(*varying)
    return [_vary_over(x, a, union) for x, a in zip(xs, avals, strict=True)]


def full_like(x: Any, fill_value: Any, dtype: Any = None, **changes: Any) -> Any:
    """An array like `x` that holds one scalar, and varies over the same Manual axes.

    `shapes.full_like`, which is told what to change, leaves out only the latter.
    """
    made, _ = cast_together(shapes.full_like(x, fill_value, dtype, **changes), x)
    return made


def _vary_over(x: Any, aval: Any, union: frozenset[str]) -> Any:
    missing = frozenset() if aval is abstract_token else union - aval.manual.varying
    if not missing:
        return x
    cast = reduced_vary_cast_p if aval.manual.reduced == missing else pvary_p
    return _bind_cast(cast, x, missing)


def _reduce_scalars(xs: Sequence[Any]) -> Sequence[Any]:
    """A scalar beside an operand that is reduced over Explicit axes becomes so, too."""
    avals = [typeof(x) for x in xs]
    if len(xs) != 2 or abstract_token in avals:
        return xs
    reduced = frozenset().union(*(a.sharding.spec.reduced for a in avals))
    if not reduced:
        return xs
    return [
        _as_reduced(x, reduced) if not a.shape and not a.sharding.spec.reduced else x
        for x, a in zip(xs, avals, strict=True)
    ]


def _as_reduced(x: Any, reduced: frozenset[str]) -> Any:
    spec = typeof(x).sharding.spec.update(reduced=reduced)
    sharding = NamedSharding(get_abstract_mesh(), spec)
    return broadcast(x, (), out_sharding=sharding)


# ------------------------------------------------------------------------- lowering


def emit(
    ctx: Any, op: str, *operands: Any, attributes: Mapping[str, Any] | None = None
) -> list[Any]:
    """Lowers an elementwise equation to one operation; operands are broadcast first."""
    (aval,) = ctx.avals_out
    values = broadcast_operands(ctx, operands)
    out = dialect.op1(op, values, dialect.ir_type(aval), attributes)
    return [ctx.with_sharding(out, aval)]


def broadcast_operands(ctx: Any, operands: Sequence[Any]) -> list[Any]:
    """Operands broadcast to the shape of the result."""
    (out,) = ctx.avals_out
    values: list[Any] = []
    for x, aval in zip(operands, ctx.avals_in, strict=True):
        if aval.shape != out.shape:
            dims = range(out.ndim - aval.ndim, out.ndim)
            x = dialect.broadcast_in_dim(x, dims, dialect.tensor(out.shape, aval.dtype))
        if aval.sharding != out.sharding:
            x = ctx.with_sharding(x, out)
        values.append(x)
    return values


def composed(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering rule that lowers what `fun(*operands, **params)` does instead."""

    def lowering(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
        return ctx.lower_jaxpr(staged(ctx, fun, params), operands)

    return lowering


def called(name: str, fun: Callable[..., Any]) -> Callable[..., Any]:
    """The same, as a function of its own in the module."""

    @lru_cache(maxsize=256)
    def once(avals: Any, params: Any) -> Jaxpr:
        return _stage(fun, avals, dict(params))

    def lowering(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
        jaxpr = once(tuple(ctx.avals_in), tuple(params.items()))
        return ctx.call(jaxpr, name, operands)

    return lowering


def staged(ctx: Any, fun: Callable[..., Any], params: dict[str, Any]) -> Jaxpr:
    """The program of `fun` on operands of the types of the current equation."""
    return _stage(fun, ctx.avals_in, params)


def _stage(fun: Callable[..., Any], avals: Any, params: dict[str, Any]) -> Jaxpr:
    def flat(*xs: Any) -> list[Any]:
        outs = fun(*xs, **params)
        return list(outs) if isinstance(outs, (list, tuple)) else [outs]

    # Inside of a shard_map the mesh in force is its own, with Manual axes. Casts lower
    # to nothing, so what the operands vary over is left out.
    arrays = [a for a in avals if isinstance(a, ShapedArray)]
    meshes = (a.mesh for a in arrays if not a.mesh.empty)
    with use_abstract_mesh(next(meshes, get_abstract_mesh())):
        jaxpr, consts = stage(flat, [a.update(manual=NO_MANUAL) for a in arrays])
    if consts:
        raise ValueError(f"{fun} uses array constants, which a lowering cannot hold")
    return jaxpr


# -------------------------------------------------------------------------- add_any

add_any_p = elementwise("add_any", ANY, ANY, op="stablehlo.add", sums=rules.added)


def add_any(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents of one type; of tokens, either."""
    if typeof(x) is abstract_token:
        return x
    x, y = cast_together(x, y)
    return add_any_p.bind1(x, y)


def _add_any_jvp(primals: Any, tangents: Any) -> Any:
    return add_any_p.bind(*primals), [add_tangents(*tangents)]


add_any_p.jvp = _add_any_jvp
add_any_p.transpose = transpose_each(lambda ct, x, y: ct, lambda ct, x, y: ct)
