"""From a jaxpr and the values it is called on to an executable.

This is where lowering and the runtime meet: which devices take part, how each
argument and result lies on them, the module, and the compiled program. Eager
evaluation and `jit` both come through here.

Upstream: `jax/_src/interpreters/pxla.py` (`lower_sharding_computation`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from minijax.core.avals import ShapedArray, abstract_token
from minijax.core.effects import Effect, ordered_effects
from minijax.core.errors import jit as errors
from minijax.core.errors import tracing as tracing_errors
from minijax.core.jaxpr import Jaxpr, dead_code_eliminated, subjaxprs
from minijax.core.mesh import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    get_concrete_mesh,
)
from minijax.core.staging import check_live
from minijax.core.trace import Tracer, typeof
from minijax.lowering.lower import LoweredModule, lower_to_module
from minijax.runtime.array import Array, Kind
from minijax.runtime.backend import devices as default_devices
from minijax.runtime.execute import Executable, compile_module


def signature(x: Any) -> Any:
    """All that compiling needs to know of an argument; hashable.

    A tracer, which is no value to compute with, is refused here: by its type alone it
    would pass for an array of a program that is compiled already.
    """
    if type(x) is Array:
        return x.kind
    if isinstance(x, Tracer):
        check_live(x)
        raise tracing_errors.tracer_at_bottom(str(x.aval))
    return typeof(x)


def placement(x: Any) -> Kind | None:
    """Where an argument lies; None for one that lies nowhere yet."""
    return x.kind if type(x) is Array else None


class LoweredProgram(NamedTuple):
    """A lowered program with what is needed to compile and call it."""

    module: LoweredModule
    devices: tuple[Any, ...]
    mesh: Mesh | None
    kept: list[int]  # positions of the arguments that the module takes
    in_avals: list[Any]
    out_avals: list[Any]
    in_shardings: list[Sharding | None]
    out_shardings: list[Sharding | None]
    committed: bool
    ordered: tuple[Effect, ...]  # the module takes and returns a token for each
    runnable: Callable[[], LoweredModule]  # what to compile where `module` is lacking


def lower(
    jaxpr: Jaxpr,
    name: str,
    placements: Sequence[Kind | None],
    *,
    in_shardings: Sequence[Sharding | None] = (),
    out_shardings: Sequence[Sharding | None] = (),
    donated: Sequence[bool] = (),
    result_info: Sequence[str] | None = None,
    keep_unused: bool = False,
    runnable: bool = False,
    describe: Callable[[int], str] = "argument {}".format,
) -> LoweredProgram:
    """Lowers a jaxpr without constvars for arguments that lie as told.

    Args:
      placements: per argument where it lies now.
      in_shardings, out_shardings: what the user asked for; None leaves it open.
      donated: which arguments' memory may be reused.
      runnable: whether it is only to be compiled, and nobody will look at its text.
      describe: names an argument by position, for errors.
    """
    count = len(jaxpr.invars)
    asked = list(in_shardings) or [None] * count
    for i, (p, wanted) in enumerate(zip(placements, asked, strict=True)):
        if wanted is None and p is not None and p.committed:
            asked[i] = p.sharding
    outs = list(out_shardings) or [None] * len(jaxpr.outvars)
    devices, mesh, committed = _devices(jaxpr, [*asked, *outs], describe)
    ordered = ordered_effects(jaxpr.effects)
    _check_order(ordered, devices)
    platform = devices[0].platform
    partitioned = len(devices) > 1
    outs = [
        _out_sharding(s, v.aval, mesh) for s, v in zip(outs, jaxpr.outvars, strict=True)
    ]
    trimmed, kept = _without_unused(jaxpr, keep_unused)
    ins = [
        _in_sharding(asked[i], v.aval, mesh)
        for i, v in zip(kept, trimmed.invars, strict=True)
    ]
    lowering = partial(
        lower_to_module,
        trimmed,
        f"jit_{name}",
        in_shardings=ins if partitioned else None,
        out_shardings=outs if partitioned else None,
        donated=[donated[i] for i in kept] if any(donated) else None,
        result_info=result_info,
        num_partitions=len(devices),
        platform=platform,
        devices=devices,
    )
    return LoweredProgram(
        lowering(runnable=runnable),
        devices,
        mesh,
        kept,
        trimmed.in_avals,
        trimmed.out_avals,
        ins,
        outs,
        committed,
        ordered,
        partial(lowering, runnable=True),
    )


def _check_order(ordered: Sequence[Effect], devices: Sequence[Any]) -> None:
    """Refuses effects that nothing orders where several devices have them."""
    refused = [e for e in ordered if not e.shardable]
    if refused and len(devices) > 1:
        raise errors.ordered_on_several_devices(refused)


def compile_lowered(lowered: LoweredProgram) -> Executable:
    """Compiles; a program that was compiled before for the same devices is shared."""
    if lowered.module.lacking:
        lowered = lowered._replace(module=lowered.runnable())
    if lowered.out_avals.count(abstract_token) > 1:
        lowered = lowered._replace(module=lowered.module.with_distinct_tokens())
    callbacks = lowered.module.host_callbacks
    if callbacks:
        return _compile(lowered, lowered.module.module, callbacks)
    bytecode = lowered.module.bytecode()
    key = (
        bytecode,
        lowered.devices,
        lowered.mesh,
        tuple(lowered.in_shardings),
        tuple(lowered.out_shardings),
        tuple(lowered.out_avals),
        lowered.committed,
    )
    found = _compiled.get(key)
    if found is None:
        found = _compiled[key] = _compile(lowered, bytecode, ())
    _recent.append(found)
    return found


#: Every program that somebody still uses, by what it was compiled from.
_compiled: WeakValueDictionary[Any, Executable] = WeakValueDictionary()
#: The last ones, used or not, for functions that are made anew at each call.
_recent: deque[Executable] = deque(maxlen=128)


def clear_compiled() -> None:
    """Forgets all compiled programs."""
    _compiled.clear()
    _recent.clear()


def _compile(
    lowered: LoweredProgram, module: Any, callbacks: Sequence[Any]
) -> Executable:
    several = callbacks and len(lowered.devices) > 1
    return compile_module(
        module,
        lowered.devices,
        in_avals=lowered.in_avals,
        out_avals=lowered.out_avals,
        in_shardings=lowered.in_shardings,
        out_shardings=lowered.out_shardings,
        mesh=lowered.mesh,
        committed=lowered.committed,
        host_callbacks=callbacks,
        ordered=lowered.ordered,
        restated=lowered.module.with_results_on_all_devices if several else None,
    )


def _without_unused(jaxpr: Jaxpr, keep_unused: bool) -> tuple[Jaxpr, list[int]]:
    """Drops arguments that nothing reads; returns the positions of the others."""
    trimmed, read = dead_code_eliminated(jaxpr, [True] * len(jaxpr.outvars))
    if keep_unused or all(read):
        return jaxpr, list(range(len(jaxpr.invars)))
    return trimmed, [i for i, r in enumerate(read) if r]


def _devices(
    jaxpr: Jaxpr,
    shardings: Sequence[Sharding | None],
    describe: Callable[[int], str],
) -> tuple[tuple[Any, ...], Mesh | None, bool]:
    """The devices a program runs on, a mesh over them, and whether someone chose them.

    The values that are committed, the meshes in the program, and the context mesh
    must all agree.
    """
    found: tuple[Any, ...] | None = None
    mesh: Mesh | None = None
    first = ""
    for what, sharding in _claims(jaxpr, shardings, describe):
        claimed = sharding.flat_devices
        if found is None:
            found, first = claimed, what
        elif claimed != found:
            ids = [[d.id for d in ds] for ds in (found, claimed)]
            platform = claimed[0].platform.upper()
            raise errors.incompatible_devices(first, ids[0], what, ids[1], platform)
        if mesh is None and isinstance(sharding, NamedSharding):
            mesh = sharding.mesh if isinstance(sharding.mesh, Mesh) else None
    if found is not None:
        return found, mesh, True
    context = get_concrete_mesh()
    if not context.empty:
        return context.flat_devices, context, True
    return (default_devices()[0],), None, False


def _claims(
    jaxpr: Jaxpr,
    shardings: Sequence[Sharding | None],
    describe: Callable[[int], str],
) -> Iterator[tuple[str, Sharding]]:
    count = len(jaxpr.invars)
    for i, sharding in enumerate(shardings):
        if sharding is not None and _has_devices(sharding):
            what = describe(i) if i < count else f"result {i - count}"
            if i < count:
                what += f" with shape {jaxpr.invars[i].aval} and"
            yield what, sharding
    for mesh in meshes_in(jaxpr):
        yield "a mesh inside the function", NamedSharding(mesh, PartitionSpec())


def _has_devices(sharding: Sharding) -> bool:
    return isinstance(sharding, SingleDeviceSharding) or isinstance(
        getattr(sharding, "mesh", None), Mesh
    )


def meshes_in(jaxpr: Jaxpr) -> list[Mesh]:
    """The meshes of devices that equations of a program name, at any depth."""
    if "meshes" not in jaxpr.cache:
        found: dict[Mesh, None] = {}
        for eqn in jaxpr.eqns:
            found.update(dict.fromkeys(_named_meshes(eqn.params)))
            for body in subjaxprs(eqn.params):
                found.update(dict.fromkeys(meshes_in(body)))
        jaxpr.cache["meshes"] = list(found)
    return jaxpr.cache["meshes"]


def _named_meshes(params: dict[str, Any]) -> Iterator[Mesh]:
    """The meshes among an equation's parameters, also those of shardings."""
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            mesh = item.mesh if isinstance(item, NamedSharding) else item
            if isinstance(mesh, Mesh):
                yield mesh


def _in_sharding(
    asked: Sharding | None, aval: Any, mesh: Mesh | None
) -> Sharding | None:
    """An argument's sharding: its own, or what its type says under Explicit axes."""
    if asked is not None:
        return _over_mesh(asked, mesh)
    if mesh is None or not isinstance(aval, ShapedArray) or not mesh.explicit_axes:
        return None
    return NamedSharding(mesh, aval.sharding.spec.for_aval(aval.ndim))


def _out_sharding(
    asked: Sharding | None, aval: Any, mesh: Mesh | None
) -> Sharding | None:
    """A result's sharding: what was asked, or what an Explicit type says."""
    if asked is not None:
        return _over_mesh(asked, mesh)
    if mesh is None or not isinstance(aval, ShapedArray) or aval.mesh.empty:
        return None
    if aval.mesh.are_all_axes_explicit:
        return NamedSharding(mesh, aval.sharding.spec)
    return None


def _over_mesh(sharding: Sharding | None, mesh: Mesh | None) -> Sharding | None:
    """A sharding over an abstract mesh, taken over the devices of the program."""
    if isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh):
        return None if mesh is None else NamedSharding(mesh, sharding.spec)
    return sharding
