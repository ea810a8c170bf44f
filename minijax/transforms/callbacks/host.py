"""pure_callback and io_callback: results computed by Python.

    y = pure_callback[callback result_avals sharding vmap_method] x
    y = io_callback[callback ordered result_avals sharding] x

A pure callback depends on its arguments only, so it may be called more or less often
than written. An impure one has an effect, `IO`, and is called as often as written; an
ordered one has `OrderedIO` and is called in the order of the program.

Neither has a derivative. Mapped over many elements, the pure one does what its
`vmap_method` says; the impure one is called for each element, unless it is ordered.

StableHLO: `custom_call`. Upstream: `jax/_src/callback.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from minijax.core.avals import ShapedArray, manual_type, replicated
from minijax.core.effects import Effect
from minijax.core.errors import callbacks as errors
from minijax.core.mesh import Sharding, SingleDeviceSharding
from minijax.core.primitive import Primitive
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.lax.rules import batch_at, move_batch
from minijax.lax.shapes import expand_dims
from minijax.lowering.callback import call_python
from minijax.transforms.callbacks.common import (
    FlatCallback,
    host_function,
    passing_token,
    result_types,
)
from minijax.transforms.control.scan import map as map_loop
from minijax.transforms.control.scan import scan
from minijax.transforms.vmap import BatchAxis, mapped

io_effect = Effect("IO")
ordered_io_effect = Effect("OrderedIO", ordered=True, shardable=True)

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
    None,
)

# ------------------------------------------------------------------ public functions


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """What a Python function without side effects returns, also in compiled programs.

    It may be called several times, or not at all if nothing reads the result.

    Args:
      callback: takes the arguments with numpy arrays as leaves, and returns a pytree
        of arrays of the types announced.
      result_shape_dtypes: a pytree of `ShapeDtypeStruct`s, or of what else has a shape
        and a dtype.
      args, kwargs: pytrees of arrays, given to `callback`.
      sharding: the device that calls it, as a `SingleDeviceSharding`.
      vmap_method: how it is mapped over many elements: `sequential` calls it for each;
        `sequential_unrolled` does so without a loop; `expand_dims` calls it once, with
        leading dimensions of size 1 on what is not mapped; `broadcast_all`, of full
        size; `legacy_vectorized`, without.

    Raises:
      ValueError: when differentiated, for 64-bit results unless those are enabled, and
        for another `vmap_method`.
      NotImplementedError: when mapped without `vmap_method`.
      JaxRuntimeError: where the callback raises, or returns other types.

    >>> import numpy as np, minijax
    >>> x = np.float32(4)
    >>> float(minijax.jit(lambda x: pure_callback(np.sqrt, x, x))(x))
    2.0

    Upstream: `jax/_src/callback.py` (`pure_callback`).
    """
    if vmap_method not in VMAP_METHODS:
        raise errors.bad_vmap_method(VMAP_METHODS, vmap_method)
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = result_types(result_shape_dtypes)
    outs = pure_callback_p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return tree_unflatten(out_tree, outs)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """What a Python function with side effects returns, also in compiled programs.

    Args:
      callback, result_shape_dtypes, args, kwargs, sharding: as for `pure_callback`.
      ordered: whether it is called after the ordered callbacks before it in the
        program, and after those of programs that this thread started before.

    Raises:
      ValueError: when differentiated; when mapped, if ordered; and for 64-bit results
        unless those are enabled.
      JaxRuntimeError: where the callback raises, or returns other types.

    >>> import numpy as np, minijax
    >>> seen = []
    >>> def put(x):
    ...     seen.append(int(x))
    >>> minijax.jit(lambda x: io_callback(put, None, x, ordered=True))(3)
    >>> minijax.effects_barrier()
    >>> seen
    [3]

    Upstream: `jax/_src/callback.py` (`io_callback`).
    """
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = result_types(result_shape_dtypes)
    outs = io_callback_p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        ordered=ordered,
        result_avals=avals,
        sharding=sharding,
    )
    return tree_unflatten(out_tree, outs)


# ------------------------------------------------------------------------ primitives

pure_callback_p = Primitive("pure_callback")
io_callback_p = Primitive("io_callback")


@pure_callback_p.def_abstract_eval
@io_callback_p.def_abstract_eval
def _type(*avals: Any, result_avals: tuple[ShapedArray, ...], **_: Any) -> list[Any]:
    """As announced; in a `shard_map` each device has a result of its own operands."""
    operands = [a for a in avals if isinstance(a, ShapedArray) and a.manual.varying]
    if not operands:
        return list(result_avals)
    mesh = operands[0].mesh
    manual = manual_type(frozenset[str]().union(*[a.manual.varying for a in operands]))
    return [
        a.update(sharding=replicated(mesh, a.ndim), manual=manual) for a in result_avals
    ]


@io_callback_p.def_effects
def _effects(*_: Any, ordered: bool, **__: Any) -> frozenset[Effect]:
    return frozenset({ordered_io_effect if ordered else io_effect})


@pure_callback_p.def_lowering
def _pure_lowering(
    ctx: Any, *values: Any, callback: FlatCallback, sharding: Any, **_: Any
) -> Any:
    function = host_function("pure_callback", callback, ctx.avals_out)
    device = _device(ctx, sharding)
    return call_python(ctx, function, values, device=device, has_side_effect=False)


@io_callback_p.def_lowering
def _io_lowering(
    ctx: Any,
    *values: Any,
    callback: FlatCallback,
    ordered: bool,
    sharding: Any,
    **_: Any,
) -> Any:
    function = host_function("io_callback", callback, ctx.avals_out)
    device = _device(ctx, sharding)
    if not ordered:
        return call_python(ctx, function, values, device=device)
    function = passing_token(function)
    return call_python(ctx, function, values, device=device, order=ordered_io_effect)


def _device(ctx: Any, sharding: Sharding | None) -> int:
    """The position of the device that calls the function."""
    if sharding is None:
        return 0
    if ctx.mesh is not None:
        raise errors.sharding_inside_shard_map()
    if not isinstance(sharding, SingleDeviceSharding):
        raise errors.not_one_device(type(sharding))
    (device,) = sharding.flat_devices
    if device not in ctx.module.devices:
        raise errors.device_not_taking_part(device, ctx.module.devices)
    return ctx.module.devices.index(device)


# ----------------------------------------------------------------------- derivatives


@pure_callback_p.def_jvp
def _pure_jvp(*_: Any, **__: Any) -> NoReturn:
    raise errors.no_jvp("Pure")


@pure_callback_p.def_transpose
def _pure_transpose(*_: Any, **__: Any) -> NoReturn:
    raise errors.no_transpose("Pure")


@io_callback_p.def_jvp
def _io_jvp(*_: Any, **__: Any) -> NoReturn:
    raise errors.no_jvp("IO")


@io_callback_p.def_transpose
def _io_transpose(*_: Any, **__: Any) -> NoReturn:
    raise errors.no_transpose("IO")


# -------------------------------------------------------------------------- batching


@pure_callback_p.def_batch
def _pure_batch(
    axis: BatchAxis,
    args: Any,
    dims: Any,
    *,
    result_avals: tuple[ShapedArray, ...],
    vmap_method: str | None,
    **rest: Any,
) -> Any:
    rest = rest | {"vmap_method": vmap_method}
    args = _in_front(args, dims)
    if vmap_method in ("sequential", "sequential_unrolled"):

        def one(_: Any, elements: Any) -> Any:
            own = _merged(args, dims, elements)
            return (), pure_callback_p.bind(*own, result_avals=result_avals, **rest)

        unroll = vmap_method == "sequential_unrolled"
        elements = _only_mapped(args, dims)
        _, outs = scan(one, (), elements, length=axis.size, unroll=unroll)
        return outs, [0] * len(outs)
    if vmap_method is None:
        raise errors.vmap_without_method(vmap_method)
    if vmap_method != "legacy_vectorized":
        whole = vmap_method == "broadcast_all"

        def widened(x: Any) -> Any:
            return batch_at(x, axis, 0) if whole else expand_dims(x, (0,))

        args = [
            x if d is not None else widened(x) for x, d in zip(args, dims, strict=True)
        ]
    avals = tuple(mapped(a, 0, axis) for a in result_avals)
    outs = pure_callback_p.bind(*args, result_avals=avals, **rest)
    return outs, [0] * len(outs)


@io_callback_p.def_batch
def _io_batch(
    _: BatchAxis, args: Any, dims: Any, *, ordered: bool, **params: Any
) -> Any:
    """Calls it for each element, in no order."""
    if ordered:
        raise errors.ordered_vmap()
    args = _in_front(args, dims)

    def one(elements: Any) -> list[Any]:
        own = _merged(args, dims, elements)
        return io_callback_p.bind(*own, ordered=False, **params)

    outs = map_loop(one, _only_mapped(args, dims))
    return outs, [0] * len(outs)


def _in_front(args: Any, dims: Any) -> list[Any]:
    """The operands with their mapped dimensions in front."""
    return [
        x if d is None else move_batch(x, d, 0) for x, d in zip(args, dims, strict=True)
    ]


def _only_mapped(args: Any, dims: Any) -> list[Any]:
    return [x for x, d in zip(args, dims, strict=True) if d is not None]


def _merged(args: Any, dims: Any, elements: Any) -> list[Any]:
    """The operands with one element each of those that are mapped."""
    each = iter(elements)
    return [x if d is None else next(each) for x, d in zip(args, dims, strict=True)]
