"""Vectorisation: a function of one element becomes a function of many.

A `BatchTracer` holds a value with one more dimension than it shows. The trace runs
the primitive's `batch` rule with its parent current. Collectives over the mapped
axis's name get their rule called even on operands without a mapped dimension, since
what they compute depends on the axis itself.

Upstream: `jax/_src/interpreters/batching.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from minijax.core.arguments import argument_names, check_callable
from minijax.core.avals import AbstractToken, ShapedArray
from minijax.core.ending import ending
from minijax.core.errors import vmap as errors
from minijax.core.jaxpr import Jaxpr, eval_jaxpr, subjaxprs
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    flatten_axes,
    keystr,
    tree_flatten,
    tree_leaves_with_path,
    tree_unflatten,
)
from minijax.core.source import Source, user_source
from minijax.core.staging import stage_body
from minijax.core.trace import (
    Trace,
    Tracer,
    axis_env,
    current_trace,
    extend_axis_env,
    is_value,
    typeof,
    use_trace,
)
from minijax.lax.collectives.pcast import pvary
from minijax.lax.rules import batch_at, move_batch


class BatchAxis:
    """The axis being mapped.

    Args:
      name: what collectives call it, or None.
      size: how many elements there are.
      spmd_name: mesh axes that the mapped dimension is sharded over, for `shard_map`.
      explicit: Explicit mesh axes that it is sharded over, as its type says.
    """

    __slots__ = ("explicit", "name", "size", "spmd_name")

    def __init__(
        self,
        name: str | None,
        size: int,
        spmd_name: tuple[str, ...] = (),
        explicit: tuple[str, ...] = (),
    ):
        self.name = name
        self.size = size
        self.spmd_name = spmd_name
        self.explicit = explicit

    def spread_over(self) -> tuple[str, ...]:
        """The Manual mesh axes that the mapped dimension is spread over, if any.

        Within a `shard_map` whose types follow such axes, a mapped value varies over
        the axes of `spmd_name`.
        """
        if not self.spmd_name:
            return ()
        env = axis_env()
        return tuple(n for n in self.spmd_name if env.check_vma and n in env.manual)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchAxis) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.size, self.spmd_name, self.explicit)


class BatchTracer(Tracer):
    """A value with the mapped dimension `dim`, which its type does not show."""

    __slots__ = ("_aval", "dim", "source", "val")
    shown_as = "BatchTracer"

    def __init__(
        self, trace: BatchTrace, val: Any, dim: int, source: Source | None = None
    ):
        self.owner = trace
        self.val = val
        self.dim = dim
        self.source = source
        self._aval: Any = None

    @property
    def aval(self) -> Any:
        if self._aval is None:
            self._aval = unmapped(typeof(self.val), self.dim)
        return self._aval

    def origin(self) -> str:
        if isinstance(self.val, Tracer):
            return self.val.origin()
        if self.source is None:
            return ""
        return (
            f"This VmapTracer with object id {id(self)} was created on line:\n"
            f"  {self.source}"
        )

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={typeof(self.val)})"


def unmapped(aval: Any, dim: int) -> Any:
    """The type of one element."""
    if isinstance(aval, AbstractToken):
        return aval
    shape = aval.shape[:dim] + aval.shape[dim + 1 :]
    if aval.mesh.empty:
        return ShapedArray(shape, aval.dtype, aval.weak_type, None, aval.manual)
    spec = aval.sharding.spec
    parts = spec.partitions
    if len(parts) > dim:
        spec = spec.update(partitions=parts[:dim] + parts[dim + 1 :])
    return aval.update(shape=shape, sharding=aval.sharding.update(spec=spec))


def mapped(aval: Any, dim: int | None, axis: BatchAxis) -> Any:
    """The type of all elements together; the inverse of `unmapped`."""
    if dim is None or isinstance(aval, AbstractToken):
        return aval
    shape = (*aval.shape[:dim], axis.size, *aval.shape[dim:])
    if aval.mesh.empty:
        return ShapedArray(shape, aval.dtype, aval.weak_type, None, aval.manual)
    spread = axis.spread_over()
    if spread:
        varying = aval.manual.varying.union(spread)
        aval = aval.update(manual=aval.manual.update(varying=varying))
    spec = aval.sharding.spec.padded(aval.ndim)
    parts = spec.partitions
    spec = spec.update(partitions=(*parts[:dim], axis.explicit or None, *parts[dim:]))
    return aval.update(shape=shape, sharding=aval.sharding.update(spec=spec))


def _vary_over(x: Any, names: tuple[str, ...]) -> Any:
    """Casts an operand to vary over what the mapped ones beside it vary over."""
    aval = typeof(x)
    if isinstance(aval, AbstractToken):
        return x
    missing = tuple(n for n in names if n not in aval.manual.varying)
    return pvary(x, missing) if missing else x


class BatchTrace(Trace):
    """Applies `batch` rules, under its parent."""

    __slots__ = ("axis", "parent")

    def __init__(self, parent: Trace, axis: BatchAxis):
        super().__init__()
        self.parent = parent
        self.axis = axis

    def process(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        vals, dims, touched = [], [], False
        for a in args:
            if type(a) is BatchTracer and a.owner is self:
                vals.append(a.val)
                dims.append(a.dim)
                touched = True
            else:
                vals.append(a)
                dims.append(None)
        names = primitive.axis_names
        if not touched and names is not None:
            touched = self.axis.name is not None and self.axis.name in names(params)
        with use_trace(self.parent):
            if not touched:
                return primitive.bind(*vals, **params)
            spread = self.axis.spread_over()
            if spread and not any(subjaxprs(params)):
                vals = [_vary_over(x, spread) for x in vals]
            outs, out_dims = primitive.batch(self.axis, vals, dims, **params)
        source = user_source(3)
        return [
            x if d is None else BatchTracer(self, x, d, source)
            for x, d in zip(outs, out_dims, strict=True)
        ]

    def doing(self) -> str:
        return "mapping with vmap"

    def unpack(self, x: Any) -> tuple[Any, int | None]:
        """Any value and its mapped dimension, None where it has none."""
        if type(x) is BatchTracer and x.owner is self:
            return x.val, x.dim
        return x, None


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[int | None],
) -> tuple[list[Any], list[int | None]]:
    """Maps a function of flat arguments; returns results and their dimensions."""
    trace = BatchTrace(current_trace(), axis)
    with ending(trace):
        pairs = _batched(trace, fun, args, dims)
    return [x for x, _ in pairs], [d for _, d in pairs]


def _batched(
    trace: BatchTrace,
    fun: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    dims: Sequence[int | None],
) -> list[tuple[Any, int | None]]:
    axis = trace.axis
    tracers = [
        x if d is None else BatchTracer(trace, x, d)
        for x, d in zip(args, dims, strict=True)
    ]
    names = [] if axis.name is None else [(axis.name, axis.size)]
    with use_trace(trace), extend_axis_env(names, axis.explicit):
        outs = fun(*tracers)
    return [trace.unpack(x) for x in outs]


def at_dim(x: Any, axis: BatchAxis, dim: int | None, wanted: int | None) -> Any:
    """A value with its mapped dimension moved to, or made at, `wanted`."""
    if dim == wanted or wanted is None:
        return x
    return batch_at(x, axis, wanted) if dim is None else move_batch(x, dim, wanted)


def batch_jaxpr(
    jaxpr: Jaxpr,
    axis: BatchAxis,
    dims: Sequence[int | None],
    out_dims: Sequence[int | None] | None = None,
) -> tuple[Jaxpr, list[int | None]]:
    """The jaxpr of all elements together, and the mapped dimension of each output.

    `out_dims` says where outputs shall have it; an output asked to have none keeps
    what it has.
    """
    wanted = tuple(out_dims or [None] * len(jaxpr.outvars))
    key = ("batch", axis, tuple(dims), wanted)
    if key not in jaxpr.cache:
        jaxpr.cache[key] = _batch_jaxpr(jaxpr, axis, dims, wanted)
    return jaxpr.cache[key]


def _batch_jaxpr(
    jaxpr: Jaxpr,
    axis: BatchAxis,
    dims: Sequence[int | None],
    wanted: Sequence[int | None],
) -> tuple[Jaxpr, list[int | None]]:
    out_dims: list[int | None] = []

    def fun(*args: Any) -> list[Any]:
        outs, found = batch_flat(
            lambda *xs: eval_jaxpr(jaxpr, [], xs), axis, args, dims
        )
        placed = list(zip(outs, found, wanted, strict=True))
        out_dims.extend(d if w is None else w for _, d, w in placed)
        return [at_dim(x, axis, d, w) for x, d, w in placed]

    avals = [mapped(a, d, axis) for a, d in zip(jaxpr.in_avals, dims, strict=True)]
    return stage_body(fun, avals), out_dims


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
    spmd_axis_name: str | tuple[str, ...] | None = None,
) -> Callable[..., Any]:
    """Maps a function over a dimension of its arguments.

    Args:
      fun: a function of pytrees of arrays.
      in_axes: for each positional argument the dimension to map over, None for an
        argument that every element shares; an int, or a tuple with a pytree prefix
        for each argument. Keyword arguments are mapped over dimension 0.
      out_axes: a pytree prefix of the result: where its mapped dimensions go.
      axis_name: binds a name, so that collectives can act over the axis.
      axis_size: the size, needed only where no argument is mapped.
      spmd_axis_name: mesh axes for the mapped dimension in a `shard_map` inside.

    Returns:
      A function of the same trees, with the mapped dimension added.

    Raises:
      ValueError: where sizes disagree, or axes do not fit the arguments.

    >>> import numpy as np, minijax
    >>> minijax.vmap(lambda x: x * 2)(np.arange(3.0))
    Array([0., 2., 4.], dtype=float32)

    Upstream: `jax/_src/api.py` (`vmap`).
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple))):
        raise errors.in_axes_type(in_axes)
    _check_axes("in_axes", in_axes)
    _check_axes("out_axes", out_axes)
    spmd = _names(spmd_axis_name)

    @wraps(fun)
    def vmapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise errors.in_axes_length(len(in_axes), len(args))
        leaves, in_tree = tree_flatten((args, kwargs))
        dims = flatten_axes("vmap in_axes", in_tree, (in_axes, 0), kws=True)
        size = _mapped_size(fun, in_tree, leaves, dims, axis_size)
        canonical = [
            d if d is None else _canonical(d, x)
            for d, x in zip(dims, leaves, strict=True)
        ]
        axis = _batch_axis(axis_name, size, spmd, leaves, canonical)
        trees: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            a, k = tree_unflatten(in_tree, xs)
            outs, tree = tree_flatten(fun(*a, **k))
            for x in outs:
                if not is_value(x):
                    raise errors.bad_output(x)
            trees.append(tree)
            return outs

        outs, out_dims = batch_flat(flat, axis, leaves, canonical)
        wanted = flatten_axes("vmap out_axes", trees[0], out_axes)
        placed = [
            _place(x, axis, d, w)
            for x, d, w in zip(outs, out_dims, wanted, strict=True)
        ]
        return tree_unflatten(trees[0], placed)

    return vmapped


def _names(names: str | Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def _batch_axis(
    name: str | None,
    size: int,
    spmd: tuple[str, ...],
    leaves: Sequence[Any],
    dims: Sequence[int | None],
) -> BatchAxis:
    """The axis, with what the types of the mapped arguments say of its sharding."""
    found: tuple[str, ...] | None = None
    for x, d in zip(leaves, dims, strict=True):
        aval = typeof(x)
        if d is None or isinstance(aval, AbstractToken):
            continue
        axes = () if aval.mesh.empty else aval.sharding.spec.axes_of(d)
        if found is not None and axes != found:
            raise errors.inconsistent_shardings(_shown(found), _shown(axes))
        found = axes
    explicit = found or ()
    if spmd and explicit and spmd != explicit:
        raise errors.spmd_and_explicit(spmd, explicit)
    return BatchAxis(name, size, () if explicit else spmd, explicit)


def _shown(axes: tuple[str, ...]) -> Any:
    return axes[0] if len(axes) == 1 else axes or None


def _canonical(dim: int, x: Any) -> int:
    return dim + typeof(x).ndim if dim < 0 else dim


def _check_axes(what: str, axes: Any) -> None:
    if not all(type(axis) is int for axis in tree_flatten(axes)[0]):
        raise errors.axes_leaves(what, axes)


def _place(x: Any, axis: BatchAxis, dim: int | None, wanted: int | None) -> Any:
    """Moves a result's mapped dimension to where `out_axes` wants it."""
    if wanted is None:
        if dim is not None:
            raise errors.out_axes_none(axis.name, dim)
        return x
    aval = typeof(x)
    if isinstance(aval, AbstractToken):
        return x  # one token orders the effects of all elements
    ndim = aval.ndim + (dim is None)
    if not -ndim <= wanted < ndim:
        raise errors.out_axes_range(wanted, ndim)
    return at_dim(x, axis, dim, wanted + ndim if wanted < 0 else wanted)


def _mapped_size(
    fun: Any,
    in_tree: Any,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    axis_size: int | None,
) -> int:
    """The one size of all mapped dimensions, each checked against the ranks."""
    sizes = set() if axis_size is None else {axis_size}
    for x, d in zip(leaves, dims, strict=True):
        if d is None:
            continue
        shape = getattr(typeof(x), "shape", ())
        if not -len(shape) <= d < len(shape):
            raise errors.rank_too_small(d, shape)
        sizes.add(shape[d])
    if not sizes:
        args, kwargs = tree_unflatten(in_tree, leaves)
        raise errors.nothing_mapped(args, kwargs, bool(leaves))
    if len(sizes) > 1:
        names = _leaf_names(fun, in_tree)
        mapped_leaves = [
            (name, str(typeof(x)), d, typeof(x).shape[d])
            for name, x, d in zip(names, leaves, dims, strict=True)
            if d is not None
        ]
        raise errors.inconsistent_sizes(mapped_leaves, axis_size)
    return sizes.pop()


def _leaf_names(fun: Any, in_tree: Any) -> list[str]:
    """`argument x['a']` for each positional leaf, `kwargs['y']` for the others."""
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    positional = argument_names(fun, tree_flatten((args, {}))[1])
    paths = [path for path, _ in tree_leaves_with_path(kwargs)]
    return [
        *[f"argument {name}" for name in positional],
        *[f"kwargs{keystr(path)}" for path in paths],
    ]
