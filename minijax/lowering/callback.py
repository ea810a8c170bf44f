"""Calls of Python functions from a program, as XLA's foreign functions know them.

The operation holds a number: the position of the function among the `host_callbacks`
that the module is compiled with. The function takes numpy arrays that are XLA's own
memory, valid during the call, and returns a tuple of numpy arrays of just the types of
the results. An ordered one also takes the token, and returns it.

Where it runs: in a `shard_map` every device calls the function with its own part;
elsewhere one device calls it, with whole arrays.

Upstream: `jax/_src/callback.py` (`emit_python_callback`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir

from minijax.core.avals import ShapedArray, abstract_token
from minijax.core.effects import Effect
from minijax.core.errors import callbacks as errors
from minijax.lowering.dialect import attr, ir_type, op, string
from minijax.lowering.rule_context import LoweringContext

__all__ = ["call_python"]

_TARGETS = {
    "cpu": "xla_ffi{}_python_cpu_callback",
    "gpu": "xla_ffi{}_python_gpu_callback",
}
_ON_ALL = "<mesh<[]>, [{}]>"
_ON_ONE = "<mesh<[], device_ids=[{}]>, []>"


def call_python(
    ctx: LoweringContext,
    function: Callable[..., tuple[Any, ...]],
    values: Sequence[ir.Value],
    *,
    order: Effect | None = None,
    device: int | None = 0,
    has_side_effect: bool = True,
    partitioned: bool = False,
) -> list[ir.Value]:
    """Appends the call of a Python function; returns its results.

    Args:
      function: takes and returns as many numpy arrays as the equation has operands and
        results. For `order`, the token comes first in both.
      order: the effect whose chain of tokens it takes its place in.
      device: the position of the device that calls it where not every device does;
        None leaves open where it runs.
      has_side_effect: whether it is called even if nothing reads its results.
      partitioned: whether each device calls it with the part that lies there.

    Raises NotImplementedError in a `shard_map` over only some of the mesh axes.
    """
    module = ctx.module
    target = _TARGETS.get(module.platform)
    if target is None:
        raise errors.unsupported_platform(module.platform)
    index = len(module.host_callbacks)
    module.host_callbacks.append(function)

    tokens = [] if order is None else [abstract_token]
    before = [] if order is None else [module.tokens.current[order]]
    avals_in, avals_out = [*tokens, *ctx.avals_in], [*tokens, *ctx.avals_out]
    attributes = {
        "call_target_name": string(target.format("_partitioned" * partitioned)),
        "has_side_effect": attr("true" if has_side_effect else "false"),
        "backend_config": string(""),
        "mhlo.backend_config": attr(f"{{index = {index} : ui64}}"),
        # 1 although it is a foreign function: that is how upstream has it read.
        "api_version": attr("1 : i32"),
        "operand_layouts": _layouts(avals_in),
        "result_layouts": _layouts(avals_out),
    }
    sharding = _sharding(ctx, avals_out or [None], device)
    if sharding is not None:
        attributes["sdy.sharding"] = sharding
    types = [ir_type(a) for a in avals_out]
    outs = op("stablehlo.custom_call", [*before, *values], types, attributes)
    if order is not None:
        module.tokens.current[order] = outs.pop(0)
    return outs


def _layouts(avals: Sequence[Any]) -> ir.Attribute:
    """Row-major layouts, written from the minor dimension to the major one."""
    ranks = [a.ndim if isinstance(a, ShapedArray) else 0 for a in avals]
    each = [
        f"dense<{list(reversed(range(n))) if n else ''}> : tensor<{n}xindex>"
        for n in ranks
    ]
    return attr(f"[{', '.join(each)}]")


def _sharding(
    ctx: LoweringContext, avals: Sequence[Any], device: int | None
) -> ir.Attribute | None:
    """On which devices it runs; an operation without results counts as one with one."""
    if device is None:
        return None
    if ctx.mesh is not None:
        if not ctx.manual_axes.issuperset(ctx.mesh.axis_names):
            raise errors.partly_manual()
        ranks = [a.ndim if isinstance(a, ShapedArray) else 0 for a in avals]
        each = [_ON_ALL.format(", ".join(["{}"] * n)) for n in ranks]
    else:
        each = [_ON_ONE.format(device)] * len(avals)
    return attr(f"#sdy.sharding_per_value<[{', '.join(each)}]>")
