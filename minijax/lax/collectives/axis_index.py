"""axis_index: which device this is along a named axis. axis_size: how many there are.

    device        0   1   2   3
    axis_index    0   1   2   3      i32[]{V:i}
    axis_size     4   4   4   4      a Python int

StableHLO: `partition_id`, divided and taken modulo by the sizes of the mesh axes.
Upstream: `jax/_src/lax/parallel.py` (`axis_index`, `axis_size`).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray, manual_type, replicated
from minijax.core.errors import tracing as tracing_errors
from minijax.core.jaxpr import Jaxpr, JaxprEqn, Var
from minijax.core.mesh import P, get_abstract_mesh
from minijax.core.primitive import Primitive
from minijax.core.trace import axis_env
from minijax.core.trace import axis_size as size_of_name
from minijax.lax.collectives.axes import (
    as_groups,
    as_names,
    check_bound,
    group_size,
    params_names,
    typed,
)
from minijax.lax.shapes import iota
from minijax.lowering.dialect import constant, op1, tensor


def axis_index(axis_name: Any) -> Any:
    """The index along a named axis, `int32[]`.

    Several names together count row-major, the first name slowest. NameError if a
    name is not bound.

    >>> import minijax
    >>> minijax.vmap(lambda _: axis_index("i"), axis_name="i")(np.zeros(3))
    Array([0, 1, 2], dtype=int32)
    """
    if not isinstance(axis_name, tuple | list):
        return _of(axis_name)
    names = as_names(axis_name)
    index, inner = 0, 1
    for name in reversed(names):
        index = index + _of(name) * inner
        inner *= size_of_name(name)
    return index


def _of(name: Any) -> Any:
    if isinstance(name, int):
        raise tracing_errors.unbound_axis(name, axis_env().sizes)
    check_bound([name], "axis_index")
    return axis_index_p.bind1(axis_name=name)


def axis_size(axis_name: Any) -> int:
    """The size of a named axis, or of several together, as a Python int.

    >>> import minijax
    >>> minijax.vmap(lambda _: axis_size("i"), axis_name="i")(np.zeros(3))
    Array([3, 3, 3], dtype=int32, weak_type=True)
    """
    return group_size(as_names(axis_name), as_groups(None))


axis_index_p = Primitive("axis_index")
axis_index_p.axis_names = params_names


@axis_index_p.def_abstract_eval
def _type(*, axis_name: str) -> list[ShapedArray]:
    check_bound([axis_name], "axis_index")
    sharding = replicated(get_abstract_mesh(), 0)
    manual = manual_type(varying=typed([axis_name]))
    return [ShapedArray((), np.int32, sharding=sharding, manual=manual)]


@axis_index_p.def_lowering
def _lowering(ctx: Any, *, axis_name: str) -> list[Any]:
    mesh = ctx.mesh
    size = mesh.shape[axis_name]
    others = frozenset(mesh.axis_names) - ctx.manual_axes
    if others:
        # The index of a partition says nothing while an axis is left to the compiler,
        # so the others become manual around it.
        if size == 1:
            return [constant(0, np.int32)]
        out = Var(ctx.avals_out[0])
        eqn = JaxprEqn(axis_index_p, [], [out], {"axis_name": axis_name})
        jaxpr = Jaxpr([], [], [out], [eqn])
        return ctx.manual_computation(jaxpr, [], mesh, [], [P()], others)
    after = mesh.axis_sizes[mesh.axis_names.index(axis_name) + 1 :]
    unsigned = tensor((), np.dtype(np.uint32))
    inner, modulus = constant(prod(after), np.uint32), constant(size, np.uint32)
    device = op1("stablehlo.partition_id", (), unsigned)
    row = op1("stablehlo.divide", (device, inner), unsigned)
    index = op1("stablehlo.remainder", (row, modulus), unsigned)
    return [op1("stablehlo.convert", (index,), tensor((), np.dtype(np.int32)))]


axis_index_p.def_nondifferentiable("it has no operand")


@axis_index_p.def_batch
def _batch(axis: Any, _args: Any, _dims: Any, *, axis_name: str) -> Any:
    if axis.name != axis_name:
        return axis_index_p.bind(axis_name=axis_name), [None]
    return [iota(np.int32, axis.size)], [0]
