"""Running programs: compile a StableHLO module, place its arguments, wrap its results.

What a call needs is worked out beforehand: when the program is compiled, per result
jaxlib's handler with our type and sharding; once per kind of arguments, which of them
lie elsewhere than the program wants. Nothing here knows how a module is made.

Upstream: `jax/_src/compiler.py` and `jax/_src/interpreters/pxla.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from jaxlib import xla_client as xc

from minijax.core.avals import AbstractToken, ShapedArray, abstract_token
from minijax.core.effects import Effect
from minijax.core.errors import runtime as errors
from minijax.core.mesh import (
    Device,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)
from minijax.core.token import Token
from minijax.runtime.array import Array, Kind
from minijax.runtime.layout import array_type, hlo_sharding, layout_of
from minijax.runtime.ordered import in_order, next_tokens, noticed
from minijax.runtime.placement import TOKEN_TYPE, device_put

type Aval = ShapedArray | AbstractToken


def compile_module(
    module: Any,
    devices: Sequence[Device],
    *,
    in_avals: Sequence[Aval],
    out_avals: Sequence[Aval],
    in_shardings: Sequence[Sharding | None] | None = None,
    out_shardings: Sequence[Sharding | None] | None = None,
    mesh: Mesh | None = None,
    committed: bool = True,
    host_callbacks: Sequence[Callable[..., Any]] = (),
    ordered: Sequence[Effect] = (),
    restated: Callable[[list[int]], Any] | None = None,
) -> Executable:
    """Compiles a module whose `main` takes and returns one value per aval.

    Args:
      module: an MLIR module; without callbacks, also its bytecode or text.
      devices: those it runs on. Several make it a partitioned (SPMD) program with one
        partition per device, numbered in this order.
      in_avals, out_avals: the types of whole arrays; `abstract_token` for a token.
      in_shardings, out_shardings: where they lie; `None` for what the compiler chose.
      mesh: what shardings that the compiler chose are expressed over.
      committed: whether the results are committed to the devices.
      host_callbacks: the Python functions that the module calls by number.
      ordered: effects for each of which `main` takes one more argument, and returns
        one more result: a token, in front of the others.
      restated: the module with the results at these positions on all devices. It is
        compiled instead where results would be on one device only, which the results
        of a callback are.

    Raises jaxlib's JaxRuntimeError where XLA refuses the module.
    """
    devices = tuple(devices)
    callbacks = {"host_callbacks": list(host_callbacks)} if host_callbacks else {}
    options = _options(devices)
    compile_for = partial(devices[0].client.compile_and_load, **callbacks)
    loaded = compile_for(module, xc.DeviceList(devices), options)
    if restated is not None and (alone := _on_one_device(loaded)):
        loaded = compile_for(restated(alone), xc.DeviceList(devices), options)
    free, tokens = [None] * len(ordered), [abstract_token] * len(ordered)
    ins = [*free, *(in_shardings or [None] * len(in_avals))]
    in_avals, out_avals = [*tokens, *in_avals], [*tokens, *out_avals]
    ins = _complete(ins, in_avals, loaded.get_parameter_shardings, devices, mesh)
    outs = [*free, *(out_shardings or [None] * (len(out_avals) - len(free)))]
    outs = _complete(outs, out_avals, loaded.get_output_shardings, devices, mesh)
    waited_for = devices if host_callbacks else ()
    return Executable(loaded, ins, out_avals, outs, committed, waited_for, ordered)


def _on_one_device(loaded: Any) -> list[int]:
    """The positions of results that are on one of several devices."""
    protos = loaded.get_output_shardings() or []
    return [i for i, p in enumerate(protos) if p.type == xc.OpSharding.Type.MAXIMAL]


def _options(devices: tuple[Device, ...]) -> Any:
    options = xc.CompileOptions()
    options.num_replicas = 1
    options.num_partitions = len(devices)
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = True
    ids = np.array([[device.id for device in devices]], np.int32)
    options.device_assignment = xc.DeviceAssignment.create(ids)
    return options


type Call = Callable[[Sequence[Any]], list[Any]]


class Executable:
    """A compiled program, ready to be called.

    Attributes:
      in_shardings, out_shardings: where arguments are placed and results lie.
      loaded: jaxlib's executable.
    """

    __slots__ = (
        "__weakref__",
        "_execute",
        "_handlers",
        "_ordered",
        "in_shardings",
        "loaded",
        "out_shardings",
    )

    def __init__(
        self,
        loaded: Any,
        in_shardings: Sequence[Sharding],
        out_avals: Sequence[Aval],
        out_shardings: Sequence[Sharding],
        committed: bool,
        noticed_on: tuple[Device, ...] = (),
        ordered: Sequence[Effect] = (),
    ):
        count = len(ordered)
        self.loaded = loaded
        self.in_shardings = tuple(in_shardings[count:])
        self.out_shardings = tuple(out_shardings[count:])
        # On these devices `effects_barrier` waits for it.
        self._execute = (
            noticed(loaded, noticed_on) if noticed_on else loaded.execute_sharded
        )
        self._handlers = [
            _handler(aval, sharding, committed)
            for aval, sharding in zip(out_avals, out_shardings, strict=True)
        ]
        # Its leading arguments and results are a token for each of these.
        self._ordered = [*zip(ordered, in_shardings, strict=False)]

    def caller(
        self,
        kinds: Sequence[Kind | None],
        before: Sequence[Any] = (),
        kept: Sequence[int] | None = None,
    ) -> Call:
        """The function that runs the program on such arguments; see `_caller`.

        Args:
          kinds: per argument its kind, or None for one that is no `Array` or of which
            nothing is known.
          before: values that come before the arguments each time.
          kept: positions, among all these values, of those that the program takes;
            None for all of them.
        """
        kinds = [*(x.kind if type(x) is Array else None for x in before), *kinds]
        if kept is None:
            kept = range(len(kinds))
        effects = [effect for effect, _ in self._ordered]
        moved = [(i, place) for i, (_, place) in enumerate(self._ordered)]
        for i, (position, wanted) in enumerate(
            zip(kept, self.in_shardings, strict=True), len(effects)
        ):
            kind = kinds[position]
            if kind is None or kind.sharding is not wanted:
                moved.append((i, wanted))
        arranged = None
        if before or moved or len(kept) < len(kinds):
            arranged = _arranger(tuple(before), tuple(kept), effects, moved)
        call = _caller(self._execute, self._handlers, arranged)
        return in_order(call, effects) if effects else call

    def call(self, args: Sequence[Any]) -> list[Any]:
        """Runs the program on arguments of any kind; see `_caller`.

        Raises TypeError for another number of arguments.
        """
        count = len(self.in_shardings)
        if len(args) != count:
            raise errors.argument_count(count, len(args))
        return self.caller([None] * count)(args)

    def as_text(self) -> str:
        """The optimised HLO."""
        return "\n\n".join(m.to_string() for m in self.loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of operations (`flops`) and of `bytes accessed`."""
        return self.loaded.cost_analysis()

    def memory_analysis(self) -> Any:
        """The sizes of arguments, results and scratch space, in bytes per device."""
        return self.loaded.get_compiled_memory_stats()


def _caller(
    execute: Callable[[list[Any]], Any],
    handlers: list[Any],
    arranged: Callable[[Sequence[Any]], list[Any]] | None,
) -> Call:
    """The function that runs a program, with all it needs in local variables.

    A small program takes about five microseconds to start, so an attribute or a
    keyword argument more shows in the time of a call.

    Args:
      arranged: makes the program's arguments of those given, where they differ.
    """

    def call(args: Sequence[Any]) -> list[Any]:
        """Runs the program; returns one `Array` or `Token` per result, not yet ready.

        Args:
          args: one `Array`, `Token`, numpy array or Python scalar per argument. What
            lies elsewhere is copied to where the program wants it.

        Raises RuntimeError for an array that was deleted or donated, or is donated
        twice.
        """
        values = args
        try:
            if arranged is not None:
                values = arranged(args)
            return execute([x._buf for x in values]).consume_with_handlers(handlers)
        except Exception as error:
            for x in values:
                if isinstance(x, Array) and x.is_deleted():
                    raise errors.deleted(str(x.aval)) from error
            raise

    return call


def _arranger(
    before: tuple[Any, ...],
    kept: tuple[int, ...],
    effects: Sequence[Effect],
    moved: Sequence[tuple[int, Sharding]],
) -> Callable[[Sequence[Any]], list[Any]]:
    """Puts values in front, drops unused ones, adds tokens, and moves what must be."""

    def arranged(args: Sequence[Any]) -> list[Any]:
        every = [*before, *args]
        values = [*next_tokens(effects), *[every[i] for i in kept]]
        for i, sharding in moved:
            x = device_put(values[i], sharding)
            values[i] = x._buf if type(x) is Token else x
        return values

    return arranged


def _handler(aval: Aval, sharding: Sharding, committed: bool) -> Any:
    """Makes the `Array` or `Token` of a result; jaxlib calls it."""
    kept, sharding = _result_type(aval, sharding)
    xla = layout_of(sharding, kept.ndim).xla
    kind = Kind.of(kept, sharding, committed)

    def array(buf: Any) -> Array:
        return Array(buf, kind)

    def token(buf: Any) -> Token:
        return Token(Array(buf, kind))

    wrap = token if isinstance(aval, AbstractToken) else array
    return xc.array_result_handler(kept, xla, committed).wrap(wrap)


def _result_type(aval: Aval, sharding: Sharding) -> tuple[ShapedArray, Sharding]:
    """The type that the array of a result has, and its sharding."""
    if isinstance(aval, AbstractToken):
        return TOKEN_TYPE, sharding
    if aval.sharding.mesh.empty:
        aval = array_type(aval.shape, aval.dtype, aval.weak_type, sharding)
    return aval, sharding


# ----------------------------------------------------- shardings the compiler chose


def _complete(
    shardings: Sequence[Sharding | None],
    avals: Sequence[Aval],
    read: Callable[[], Any],
    devices: tuple[Device, ...],
    mesh: Mesh | None,
) -> list[Sharding]:
    """Fills in the shardings that are not given with those of the executable."""
    if len(devices) == 1:
        one = (
            SingleDeviceSharding(devices[0])
            if mesh is None
            else NamedSharding(mesh, PartitionSpec())
        )
        return [one if given is None else given for given in shardings]
    chosen = (read() if None in shardings else None) or [None] * len(avals)
    if mesh is None or mesh.flat_devices != devices:
        mesh = Mesh(np.array(devices), ("_devices",))
    return [
        _named(proto, aval, mesh) if given is None else given
        for given, proto, aval in zip(shardings, chosen, avals, strict=True)
    ]


def _named(proto: Any, aval: Aval, mesh: Mesh) -> NamedSharding:
    """The named sharding over `mesh` that XLA's `proto` stands for."""
    nowhere = NamedSharding(mesh, PartitionSpec())
    if proto is None or isinstance(aval, AbstractToken):
        return nowhere
    wanted = xc.HloSharding.from_proto(proto)
    if wanted.is_replicated():
        return nowhere
    tiles = tuple(wanted.tile_assignment_dimensions()[: aval.ndim])
    for candidate in (mesh, _refined(mesh)):
        for spec in _specs(tiles, candidate, ()):
            found = NamedSharding(candidate, PartitionSpec(*spec))
            if hlo_sharding(found, aval.ndim) == wanted:
                return found
    raise errors.no_spec_for(str(wanted), mesh)


def _refined(mesh: Mesh) -> Mesh:
    """`mesh` with each axis cut into axes of prime size, in the same device order.

    The compiler may shard two dimensions by parts of one axis.
    """
    sizes, names = [], []
    for name, size in mesh.shape.items():
        factors = _prime_factors(size)
        sizes += factors
        names += [f"{name}:{i}" for i in range(len(factors))]
    return Mesh(mesh.devices.reshape(sizes), names)


def _prime_factors(number: int) -> list[int]:
    for factor in range(2, number + 1):
        if number % factor == 0:
            return [factor, *_prime_factors(number // factor)]
    return []


def _specs(tiles: tuple[int, ...], mesh: Mesh, used: tuple[str, ...]) -> Any:
    """All ways to cut dimensions into so many tiles each, along axes not yet used."""
    if not tiles:
        yield ()
        return
    free = [n for n in mesh.axis_names if n not in used and mesh.shape[n] > 1]
    for count in range(len(free) + 1):
        for names in permutations(free, count):
            if int(np.prod([mesh.shape[n] for n in names])) == tiles[0]:
                for rest in _specs(tiles[1:], mesh, used + names):
                    yield (names or None, *rest)
