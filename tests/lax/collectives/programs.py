"""Runs one collective over named axes, some of them mapped by vmap, others a mesh.

A value is stacked as in `lockstep`: its leading dimensions are the axes in the order of
`sizes`. `run` takes the library as an argument, so that upstream can be held to the
same programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def run(
    jax: Any,
    sizes: dict[str, int],
    mesh_names: Sequence[str],
    fun: Callable[..., Any],
    *xs: np.ndarray,
    check_vma: bool = True,
    jit: bool = False,
) -> Any:
    """`fun` of what one device sees, on every device; the stacked results."""
    names = list(sizes)
    mapped = [n for n in names if n not in mesh_names]

    def rows(*args: Any) -> Any:
        """Over the mapped names, whose dimensions lead; the first one outermost."""
        f = fun
        for name in reversed(mapped):
            f = jax.vmap(f, axis_name=name, axis_size=sizes[name])
        return f(*args)

    if not mesh_names:
        f = jax.jit(rows) if jit else rows
        return jax.tree.map(np.asarray, f(*xs))

    mesh = jax.make_mesh(
        [sizes[n] for n in mesh_names],
        list(mesh_names),
        axis_types=(jax.sharding.AxisType.Auto,) * len(mesh_names),
    )
    spec = jax.sharding.PartitionSpec(*(n if n in mesh_names else None for n in names))
    dims = [i for i, n in enumerate(names) if n in mesh_names]

    def body(*args: Any) -> Any:
        args = tuple(jax.lax.squeeze(x, dims) for x in args)
        return jax.tree.map(lambda y: jax.lax.expand_dims(y, dims), rows(*args))

    f = jax.shard_map(
        body, mesh=mesh, in_specs=(spec,) * len(xs), out_specs=spec, check_vma=check_vma
    )
    return jax.tree.map(np.asarray, (jax.jit(f) if jit else f)(*xs))


def ways(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every choice of which names are mesh axes."""
    chosen: list[tuple[str, ...]] = [()]
    for name in names:
        chosen += [(*c, name) for c in chosen]
    return chosen


def numbers(*shape: int) -> np.ndarray:
    """Small integers, all different as far as float32 sums stay exact."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
