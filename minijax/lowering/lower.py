"""From a jaxpr to a StableHLO module: `main`, its attributes, and the last passes.

The text of a module is upstream's, line by line, for the same program. What happens
to each equation is in `rule_context.py`.

Upstream: `jax/_src/interpreters/mlir.py` (`lower_jaxpr_to_module`).
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from minijax.core.errors import lowering as errors
from minijax.core.jaxpr import Jaxpr
from minijax.core.mesh import AbstractMesh, NamedSharding, PartitionSpec, Sharding
from minijax.lowering.dialect import attr, building, context, i32, string
from minijax.lowering.donation import Donation, is_open, plan_donation
from minijax.lowering.rule_context import LoweringContext, ModuleContext, Shardings
from minijax.lowering.sharding import says_nothing, sharding_attr
from minijax.lowering.tokens import tell_tokens_apart

__all__ = ["LoweredModule", "LoweringContext", "ModuleContext", "lower_to_module"]


class LoweredModule:
    """A finished module: `str()` is its text, `bytecode()` what PJRT takes."""

    __slots__ = ("host_callbacks", "lacking", "module")

    def __init__(
        self, module: ir.Module, host_callbacks: list[Any], lacking: bool = False
    ):
        self.module = module
        #: Whether it shows operations that are not to be compiled for the platform.
        self.lacking = lacking
        #: The Python functions that the program calls, by index.
        self.host_callbacks = host_callbacks

    def __str__(self) -> str:
        return str(self.module)

    def bytecode(self) -> bytes:
        """MLIR bytecode."""
        file = io.BytesIO()
        self.module.operation.write_bytecode(file=file)
        return file.getvalue()

    def with_results_on_all_devices(self, positions: Sequence[int]) -> ir.Module:
        """A copy that states of these results of `main` that every device has them."""
        with building():
            copy = ir.Module.parse(self.bytecode())
            main: Any = ir.SymbolTable(copy.operation)["main"]
            types = ir.FunctionType(main.attributes["function_type"].value).results
            entries: list[dict[str, ir.Attribute]] = [{} for _ in types]
            if "res_attrs" in main.attributes:  # there are none where all are empty
                for entry, named in zip(
                    entries, main.attributes["res_attrs"], strict=True
                ):
                    entry.update({x.name: x.attr for x in named})
            for i in positions:
                rank = getattr(types[i], "rank", 0)
                entries[i]["sdy.sharding"] = sharding_attr(_EVERYWHERE, rank)
            dicts = [ir.DictAttr.get(entry) for entry in entries]
            main.attributes["res_attrs"] = ir.ArrayAttr.get(dicts)
            _name_meshes(copy)
        return copy

    def with_distinct_tokens(self) -> LoweredModule:
        """A copy in which no two results of `main` are the same token.

        Where two are, XLA:CPU ends the process.
        """
        with building():
            copy = ir.Module.parse(self.bytecode())
            tell_tokens_apart(ir.SymbolTable(copy.operation)["main"])
        return LoweredModule(copy, self.host_callbacks)


_EVERYWHERE = NamedSharding(AbstractMesh((), ()), PartitionSpec())
_NOT_IN_NAMES = re.compile(r"[^\w.-]")


def lower_to_module(
    jaxpr: Jaxpr,
    name: str,
    *,
    in_shardings: Shardings | None = None,
    out_shardings: Shardings | None = None,
    donated: Sequence[bool] | None = None,
    result_info: Sequence[str] | None = None,
    num_partitions: int = 1,
    platform: str = "cpu",
    devices: Sequence[Any] = (),
    runnable: bool = False,
) -> LoweredModule:
    """Lowers a program to a module whose `main` takes and returns flat values.

    Args:
      jaxpr: without constvars. All its arguments become arguments of `main`.
      name: of the module, `jit_f`; what XLA would not accept in it is replaced.
      in_shardings, out_shardings: one each for arguments and results, None where
        the compiler chooses.
      donated: which arguments' memory may be reused for results.
      result_info: per result its place in the user's result, `result['a'][0]`.
      num_partitions: how many devices it runs on.
      platform: `cpu`, `gpu` or `tpu`.
      devices: those it runs on, where they are known.
      runnable: whether it is to be compiled: see `ModuleContext.substitutes`.

    Warns where a donated argument cannot be reused.
    """
    in_avals, out_avals = jaxpr.in_avals, jaxpr.out_avals
    ins = in_shardings or [None] * len(in_avals)
    outs = out_shardings or [None] * len(out_avals)
    with building():
        arg_attrs = [_sharding_entry(s, a) for s, a in zip(ins, in_avals, strict=True)]
        result_attrs: list[dict[str, ir.Attribute]] = [
            {} if is_open(s) else _sharding_entry(s, a)
            for s, a in zip(outs, out_avals, strict=True)
        ]
        for entry, info in zip(result_attrs, result_info or (), strict=False):
            entry["jax.result_info"] = string(info)
        if donated is not None and any(donated):
            plan = plan_donation(
                in_avals, out_avals, donated, ins, outs, num_partitions > 1
            )
            _enter_donation(plan, arg_attrs)
        module = ModuleContext(platform, devices, runnable)
        attributes = module.module.operation.attributes
        attributes["sym_name"] = string(_NOT_IN_NAMES.sub("_", name).rstrip("_"))
        attributes["mhlo.num_replicas"] = i32(1)
        attributes["mhlo.num_partitions"] = i32(num_partitions)
        module.add_function(
            "main",
            jaxpr,
            LoweringContext(module),
            public=True,
            arg_attrs=arg_attrs,
            result_attrs=result_attrs,
        )
        _verify(module.module)
        _name_meshes(module.module)
    return LoweredModule(module.module, module.host_callbacks, module.lacking)


def _sharding_entry(sharding: Sharding | None, aval: Any) -> dict[str, ir.Attribute]:
    """The sharding among the attributes of an argument or result, if it says any."""
    if sharding is None or says_nothing(sharding, aval):
        return {}
    return {"sdy.sharding": sharding_attr(sharding, aval.ndim)}


def _enter_donation(plan: Donation, arg_attrs: list[dict[str, ir.Attribute]]) -> None:
    for i, o in plan.aliases.items():
        arg_attrs[i]["tf.aliasing_output"] = i32(o)
    for i in plan.donors:
        arg_attrs[i]["jax.buffer_donor"] = attr("true")
    if plan.unused:
        warnings.warn(errors.unused_donations(plan.unused), stacklevel=3)


def _verify(module: ir.Module) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        found = [f"{d.message}\n\t\tat {d.location}" for d in error.error_diagnostics]
        raise errors.invalid_module(found, str(module)) from error


def _name_meshes(module: ir.Module) -> None:
    """Moves meshes out of attributes into named symbols, by a pass of Shardy."""
    # Made anew each time (2 us), as one must not run in two threads at once.
    lift = PassManager.parse("builtin.module(sdy-lift-inlined-meshes)", context())
    lift.run(module.operation)
