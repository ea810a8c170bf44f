"""Evaluates jaxprs with numpy, the devices of a `shard_map` in lock-step.

What `lockstep` is for collectives this is for whole programs: an oracle that compiles
nothing and needs no devices, so that a law can be tried on hundreds of programs. It
holds what rules make of a program (batching, differentiation, transposition) against
the definitions; that the lowering says the same is for tests on devices.

A value in a body is stacked as in `lockstep`: the axes of the mesh lead. Every result
is held to its type: shape and dtype, and that it is the same along every axis that the
type does not say it varies over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.jaxpr import Jaxpr, JaxprEqn, Literal
from tests.lockstep import World

NOWHERE = World({})


def evaluate(closed: Any, *args: np.ndarray) -> list[np.ndarray]:
    """The results of a closed jaxpr."""
    consts = [np.asarray(c) for c in closed.consts]
    return _run(closed.jaxpr, NOWHERE, False, consts, args)


def _run(
    jaxpr: Jaxpr,
    world: World,
    check_vma: bool,
    consts: Sequence[np.ndarray],
    args: Sequence[np.ndarray],
) -> list[np.ndarray]:
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env |= zip(jaxpr.invars, args, strict=True)

    def read(atom: Any) -> np.ndarray:
        if not isinstance(atom, Literal):
            return env[atom]
        value = np.asarray(atom.val, atom.aval.dtype)
        return np.broadcast_to(value, (*world.sizes.values(), *value.shape))

    for eqn in jaxpr.eqns:
        outs = _apply(eqn, world, check_vma, [read(v) for v in eqn.invars])
        for var, out in zip(eqn.outvars, outs, strict=True):
            _check_type(eqn, var.aval, world, check_vma, out)
            env[var] = out
    return [read(v) for v in jaxpr.outvars]


def _check_type(
    eqn: JaxprEqn, aval: Any, world: World, check_vma: bool, out: np.ndarray
) -> None:
    name, lead = eqn.primitive.name, len(world.names)
    assert out.shape[lead:] == aval.shape, (name, out.shape, aval)
    assert out.dtype == aval.dtype, (name, out.dtype, aval)
    if not check_vma:
        return
    for dim, axis in enumerate(world.names):
        if axis not in aval.manual.varying | aval.manual.unreduced:
            same = np.broadcast_to(out.take([0], dim), out.shape)
            assert np.array_equal(out, same), (name, axis, aval)


def _apply(
    eqn: JaxprEqn, world: World, check_vma: bool, args: list[np.ndarray]
) -> list[np.ndarray]:
    name, params = eqn.primitive.name, eqn.params
    if name == "jit":
        return _run(params["jaxpr"], world, check_vma, [], args)
    if name == "shard_map":
        return _shard_map(args, **params)
    if name in _COLLECTIVES:
        return [_COLLECTIVES[name](world, *args, **params)]
    outs = {}
    for device in itertools.product(*(range(n) for n in world.sizes.values())):
        own = [x[device] for x in args]
        found = _PLAIN[name](*own, **params)
        outs[device] = found if isinstance(found, list) else [found]
    stacked = [np.stack(each) for each in zip(*outs.values(), strict=True)]
    lead = tuple(world.sizes.values())
    return [
        x.reshape(lead + x.shape[1:]).astype(var.aval.dtype)
        for x, var in zip(stacked, eqn.outvars, strict=True)
    ]


# -------------------------------------------------------------------- shard_map


def _shard_map(
    args: list[np.ndarray],
    *,
    mesh: Any,
    jaxpr: Jaxpr,
    in_specs: Any,
    out_specs: Any,
    check_vma: bool,
    **_: Any,
) -> list[np.ndarray]:
    world = World(dict(mesh.shape))
    blocks = [_cut(world, x, spec) for x, spec in zip(args, in_specs, strict=True)]
    outs = _run(jaxpr, world, check_vma, [], blocks)
    return [_join(world, x, spec) for x, spec in zip(outs, out_specs, strict=True)]


def _window(world: World, device: Any, shape: Sequence[int], spec: Any) -> Any:
    """Where a device's block of this shape lies in the whole."""
    starts = [
        world.flat_index(device, spec.axes_of(dim)) * n for dim, n in enumerate(shape)
    ]
    return tuple(slice(s, s + n) for s, n in zip(starts, shape, strict=True))


def _parts(world: World, spec: Any, rank: int) -> list[int]:
    axes = [spec.axes_of(dim) for dim in range(rank)]
    return [int(np.prod([world.sizes[a] for a in names])) for names in axes]


def _devices(world: World) -> Any:
    return itertools.product(*(range(n) for n in world.sizes.values()))


def _cut(world: World, x: np.ndarray, spec: Any) -> np.ndarray:
    parts = _parts(world, spec, x.ndim)
    shape = [n // p for n, p in zip(x.shape, parts, strict=True)]
    blocks = [x[_window(world, d, shape, spec)] for d in _devices(world)]
    return np.stack(blocks).reshape(*world.sizes.values(), *shape)


def _join(world: World, x: np.ndarray, spec: Any) -> np.ndarray:
    shape = x.shape[len(world.names) :]
    parts = _parts(world, spec, len(shape))
    out = np.zeros([n * p for n, p in zip(shape, parts, strict=True)], x.dtype)
    for device in _devices(world):
        out[_window(world, device, shape, spec)] = x[device]
    return out


# ------------------------------------------------------------------- primitives


def _reduction(kind: str) -> Callable[..., np.ndarray]:
    """psum, pmax and pmin, whose axes may be dimensions too."""
    total = {"psum": lambda x, a: x.sum(a, x.dtype), "pmax": np.max, "pmin": np.min}

    def reduce(
        world: World, x: np.ndarray, *, axes: Any, axis_index_groups: Any = None
    ) -> np.ndarray:
        lead = len(world.names)
        if dims := tuple(lead + a for a in axes if isinstance(a, int)):
            x = np.asarray(total[kind](x, dims))
        names = tuple(a for a in axes if not isinstance(a, int))
        if not names:
            return x
        return getattr(world, kind)(x, names, axis_index_groups=axis_index_groups)

    return reduce


def _gathered(world: World, x: np.ndarray, **params: Any) -> np.ndarray:
    return world.all_gather(
        x,
        params["axis_name"],
        axis=params["all_gather_dimension"],
        tiled=params["tiled"],
        axis_index_groups=params.get("axis_index_groups"),
    )


def _scattered(world: World, x: np.ndarray, **params: Any) -> np.ndarray:
    return world.psum_scatter(
        x,
        params["axis_name"],
        scatter_dimension=params["scatter_dimension"],
        tiled=params["tiled"],
        axis_index_groups=params.get("axis_index_groups"),
    )


def _exchanged(world: World, x: np.ndarray, **params: Any) -> np.ndarray:
    # The primitive keeps its dimensions, tiled or not.
    names, split = params["axis_name"], params["split_axis"]
    groups = params["axis_index_groups"]
    return world.all_to_all(
        x, names, split, params["concat_axis"], tiled=True, axis_index_groups=groups
    )


def _cast(_: World, x: np.ndarray, **__: Any) -> np.ndarray:
    return x


_COLLECTIVES: dict[str, Callable[..., np.ndarray]] = {
    **{kind: _reduction(kind) for kind in ("psum", "pmax", "pmin")},
    "psum_invariant": _reduction("psum"),
    "unreduced_psum": _reduction("psum"),
    "all_gather": _gathered,
    "all_gather_invariant": _gathered,
    "all_gather_reduced": _gathered,
    "reduce_scatter": _scattered,
    "unreduced_reduce_scatter": _scattered,
    "all_to_all": _exchanged,
    "ppermute": lambda w, x, axis_name, perm: w.ppermute(x, axis_name, perm),
    "ragged_all_to_all": World.ragged_all_to_all,
    "pbroadcast": lambda w, x, axis_name, source: w.pbroadcast(x, axis_name, source),
    "axis_index": lambda w, axis_name: w.axis_index(axis_name),
    "pvary": _cast,
    "preduced": _cast,
    # The partial sums of which the first has everything are as good as any.
    "vary_unreduced_cast": _cast,
    "reduced_vary_cast": _cast,
}


def _broadcast_in_dim(
    x: Any, *_: Any, shape: Any, broadcast_dimensions: Any, **__: Any
) -> Any:
    own = [1] * len(shape)
    for dim, n in zip(broadcast_dimensions, np.shape(x), strict=True):
        own[dim] = n
    return np.broadcast_to(np.reshape(x, own), shape)


def _iota(*, dtype: Any, shape: Any, dimension: int, **_: Any) -> Any:
    own = [1] * len(shape)
    own[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).reshape(own), shape)


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    at = [
        min(max(int(s), 0), n - size)
        for s, n, size in zip(starts, x.shape, slice_sizes, strict=True)
    ]
    windows = zip(at, slice_sizes, strict=True)
    return x[tuple(slice(s, s + size) for s, size in windows)]


def _dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    at = [
        min(max(int(s), 0), n - size)
        for s, n, size in zip(starts, x.shape, update.shape, strict=True)
    ]
    out, windows = np.array(x), zip(at, update.shape, strict=True)
    out[tuple(slice(s, s + size) for s, size in windows)] = update
    return out


def _split(x: Any, *, sizes: Any, axis: int) -> list[Any]:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    assert all(low >= 0 and high >= 0 for low, high, _ in padding_config)
    shape = [
        low + n + high + inner * max(n - 1, 0)
        for n, (low, high, inner) in zip(x.shape, padding_config, strict=True)
    ]
    out = np.full(shape, value, x.dtype)
    at = tuple(
        slice(low, low + (n - 1) * (inner + 1) + 1 if n else low, inner + 1)
        for n, (low, _, inner) in zip(x.shape, padding_config, strict=True)
    )
    out[at] = x
    return out


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    windows = zip(start_indices, limit_indices, strides or [1] * x.ndim, strict=True)
    return x[tuple(slice(*w) for w in windows)]


def _windows(
    x: Any, indices: Any, numbers: Any, sizes: Any, kept: tuple[int, ...], mode: Any
) -> Any:
    """Where each window of a gather or scatter lies in `x`, and in the windows.

    `kept` are the dimensions of the windows that are not batches.
    """
    _, gone, where, batching, of_indices = numbers
    for batch in np.ndindex(indices.shape[:-1]):
        start = [0] * x.ndim
        for k, dim in enumerate(where):
            start[dim] = int(indices[batch][k])
        for dim, at in zip(batching, of_indices, strict=True):
            start[dim] = batch[at]
        low = [n - size for n, size in zip(x.shape, sizes, strict=True)]
        inside = [min(max(s, 0), most) for s, most in zip(start, low, strict=True)]
        if inside != start and mode.name == "FILL_OR_DROP":
            inside = None
        in_windows: Any = list(batch)
        for dim in kept:
            in_windows.insert(dim, slice(None))
        in_x: Any = inside and tuple(
            s if d in (*gone, *batching) else slice(s, s + size)
            for d, (s, size) in enumerate(zip(inside, sizes, strict=True))
        )
        yield in_x, tuple(in_windows)


def _gather(
    x: Any,
    indices: Any,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    **_: Any,
) -> Any:
    numbers = dimension_numbers
    kept = numbers.offset_dims
    windows = [
        n
        for d, n in enumerate(slice_sizes)
        if d not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    ]
    shape = list(indices.shape[:-1])
    for dim, n in zip(kept, windows, strict=True):
        shape.insert(dim, n)
    out = np.zeros(shape, x.dtype)
    for in_x, at in _windows(x, indices, numbers, slice_sizes, kept, mode):
        assert in_x is not None  # no rule of a collective reads out of bounds
        out[at] = x[in_x]
    return out


def _scatter(add: bool) -> Callable[..., Any]:
    def scatter(
        x: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: Any,
        mode: Any,
        **_: Any,
    ) -> Any:
        numbers, out = dimension_numbers, np.array(x)
        kept = numbers.update_window_dims
        sizes = [updates.shape[d] for d in kept]
        gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        for dim in sorted(gone):
            sizes.insert(dim, 1)
        for in_x, at in _windows(x, indices, numbers, sizes, kept, mode):
            if in_x is not None:
                out[in_x] = out[in_x] + updates[at] if add else updates[at]
        return out

    return scatter


def _elementwise(fun: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **_: fun(*args)


_PLAIN: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "convert_element_type": lambda x, new_dtype, **_: np.asarray(x).astype(new_dtype),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "iota": _iota,
    "pad": _pad,
    "reduce_max": lambda x, axes, **_: np.max(x, axes),
    "reduce_min": lambda x, axes, **_: np.min(x, axes),
    "reduce_sum": lambda x, axes, **_: np.sum(x, axes, x.dtype),
    "reshape": lambda x, new_sizes, **_: np.reshape(x, new_sizes),
    "scatter": _scatter(False),
    "scatter-add": _scatter(True),
    "select_n": lambda which, *cases: np.choose(which, cases),
    "slice": _slice,
    "split": _split,
    "squeeze": lambda x, dimensions: np.squeeze(x, dimensions),
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    **{
        name: _elementwise(fun)
        for name, fun in {
            "add": np.add,
            "add_any": np.add,
            "and": np.bitwise_and,
            "div": lambda a, b: np.asarray(np.true_divide(a, b)).astype(a.dtype),
            "eq": np.equal,
            "ge": np.greater_equal,
            "gt": np.greater,
            "le": np.less_equal,
            "lt": np.less,
            "max": np.maximum,
            "min": np.minimum,
            "mul": np.multiply,
            "ne": np.not_equal,
            "neg": np.negative,
            "not": np.bitwise_not,
            "or": np.bitwise_or,
            "rem": np.fmod,
            "sub": np.subtract,
        }.items()
    },
}
