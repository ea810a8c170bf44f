"""rng_uniform: random numbers from the state that the hardware keeps.

    rng_uniform[shape=(3,)](a: f32[], b: f32[]): f32[3]      a <= each element < b

Every evaluation gives other numbers. For most purposes a generator with a key is
better; this one is for speed. With `b <= a` the result is undefined.

Mapped, it draws numbers for every element: the result has the mapped dimension in
front. (Upstream has no batching rule. Where only the bounds are mapped, the numbers
are drawn from [0, 1) and scaled.)

StableHLO: `rng`. Upstream: `jax/_src/lax/lax.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import Shape, ShapedArray
from minijax.core.errors import operands as errors
from minijax.core.primitive import Primitive
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add, mul, sub
from minijax.lax.cases import Case
from minijax.lax.rules import cast_together, const
from minijax.lax.shapes import broadcast_in_dim, canonicalize_shape
from minijax.lowering import dialect


def rng_uniform(a: Any, b: Any, shape: Iterable[int]) -> Any:
    """Uniformly distributed random numbers in `[a, b)`; integers, if those are.

    Args:
      a, b: scalars of one dtype.
      shape: of the result.

    ValueError where the bounds are no scalars, or of different dtypes.
    """
    a, b = cast_together(a, b)
    return rng_uniform_p.bind1(a, b, shape=canonicalize_shape(tuple(shape)))


rng_uniform_p = Primitive("rng_uniform")


@rng_uniform_p.def_abstract_eval
def _rng_type(a: ShapedArray, b: ShapedArray, *, shape: Shape) -> list[ShapedArray]:
    rules.only_arrays(rng_uniform_p, (a, b))
    if a.dtype != b.dtype:
        raise errors.rng_dtypes(a.dtype, b.dtype)
    if a.shape or b.shape:
        raise errors.rng_shapes(a.shape, b.shape)
    weak = a.weak_type and b.weak_type
    aval = rules.result_type(
        "rng_uniform",
        (a, b),
        shape,
        a.dtype,
        weak,
        partitions=lambda: [None] * len(shape),
        sums=rules.no_sums,
    )
    return [aval]


@rng_uniform_p.def_lowering
def _rng_lowering(ctx: Any, a: Any, b: Any, *, shape: Shape) -> list[Any]:
    (out,) = ctx.avals_out
    sizes = dialect.constant(np.array(shape, np.int64))
    uniform = {"rng_distribution": dialect.attr("#stablehlo<rng_distribution UNIFORM>")}
    type_ = dialect.ir_type(out)
    drawn = dialect.op1("stablehlo.rng", (a, b, sizes), type_, uniform)
    return [ctx.with_sharding(drawn, out)]


rng_uniform_p.without(
    jvp="how random numbers depend on their bounds is not defined",
    transpose="it is not linear",
)


@rng_uniform_p.def_batch
def _rng_batch(axis: Any, args: Any, dims: Any, *, shape: Shape) -> Any:
    if dims == [None, None]:
        return rng_uniform_p.bind(*args, shape=shape), [None]
    whole = (axis.size, *shape)
    dtype = typeof(args[0]).dtype
    if not dtypes.issubdtype(dtype, np.floating):
        raise errors.rng_batch_of_integers(dtype)
    unit = rng_uniform_p.bind1(const(args[0], 0), const(args[0], 1), shape=whole)
    low, high = (
        broadcast_in_dim(x, whole, () if d is None else (0,))
        for x, d in zip(args, dims, strict=True)
    )
    return [add(low, mul(unit, sub(high, low)))], [0]


CASES = [
    Case(
        rng_uniform_p,
        [(), ()],
        {"shape": (4,)},
        smooth=(),
        batches=False,  # no two evaluations agree
        make=lambda _: [np.float32(0), np.float32(1)],
    )
]
