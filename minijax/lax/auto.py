"""Leaving how a result over Explicit axes comes about to the compiler.

Indexing takes `out_sharding` where no rule could tell how the result is sharded. The
operands lose their shardings, the operation runs as if all Explicit axes were Auto, and
the result is resharded. `transforms/axis_types.py` does the same for any function.

Upstream: `jax/_src/pjit.py` (`auto_axes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.core.mesh import AxisType, NamedSharding, use_abstract_mesh
from minijax.core.out_sharding import typed, visible
from minijax.core.trace import typeof
from minijax.lax.declared import reshard_p


def in_auto_axes(
    fun: Callable[..., Any], out_sharding: NamedSharding, *operands: Any
) -> Any:
    """`fun` of operands whose types do not show the Explicit axes of the mesh."""
    mesh = out_sharding.mesh.abstract_mesh
    auto = mesh.update_axis_types(dict.fromkeys(mesh.explicit_axes, AxisType.Auto))
    with use_abstract_mesh(auto):
        hidden = [
            reshard_p.bind1(
                x, dst_sharding=NamedSharding(auto, visible(_spec(x), auto))
            )
            for x in operands
        ]
        out = fun(*hidden)
    return reshard_p.bind1(out, dst_sharding=typed(out_sharding, typeof(out).shape))


def _spec(x: Any) -> Any:
    return typeof(x).sharding.spec
