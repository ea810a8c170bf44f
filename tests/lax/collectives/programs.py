"""Runs one collective over named axes, some of them mapped by vmap, others a mesh.

A value is stacked as in `lockstep`: its leading dimensions are the axes in the order of
`sizes`. `run` takes the library as an argument, so that upstream can be held to the
same programs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.lax import collectives
from minijax.lax.collectives.cases import CollectiveCase
from tests.lockstep import World

PAGES = [
    importlib.import_module(page.name)
    for page in pkgutil.iter_modules(collectives.__path__, "minijax.lax.collectives.")
]
CASES: dict[str, CollectiveCase] = {
    str(case): case for page in PAGES for case in getattr(page, "CASES", ())
}


def usable(cases: dict[str, CollectiveCase], groups: Any) -> dict[str, CollectiveCase]:
    """Those of the cases that can be made with these groups."""
    return {k: c for k, c in cases.items() if groups is None or c.groups}


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
    f = program(jax, sizes, mesh_names, fun, check_vma)
    return jax.tree.map(np.asarray, (jax.jit(f) if jit else f)(*xs))


def program(
    jax: Any,
    sizes: dict[str, int],
    mesh_names: Sequence[str],
    fun: Callable[..., Any],
    check_vma: bool = True,
) -> Callable[..., Any]:
    """The function of stacked values that `run` calls."""
    names = list(sizes)
    mapped = [n for n in names if n not in mesh_names]

    # Over the mapped names, whose dimensions lead; the first one outermost.
    rows = fun
    for name in reversed(mapped):
        rows = jax.vmap(rows, axis_name=name, axis_size=sizes[name])
    if not mesh_names:
        return rows

    mesh = jax.make_mesh(
        [sizes[n] for n in mesh_names],
        list(mesh_names),
        axis_types=(jax.sharding.AxisType.Auto,) * len(mesh_names),
    )
    spec = jax.sharding.PartitionSpec(*(n if n in mesh_names else None for n in names))
    dims = [i for i, n in enumerate(names) if n in mesh_names]

    def body(*args: Any) -> Any:
        args = jax.tree.map(lambda x: jax.lax.squeeze(x, dims), args)
        return jax.tree.map(lambda y: jax.lax.expand_dims(y, dims), rows(*args))

    return jax.shard_map(
        body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma
    )


def ways(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every choice of which names are mesh axes."""
    chosen: list[tuple[str, ...]] = [()]
    for name in names:
        chosen += [(*c, name) for c in chosen]
    return chosen


def numbers(*shape: int) -> np.ndarray:
    """Small integers, all different as far as float32 sums stay exact."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def all_of_them(
    names: Any, groups: Any = None, cases: dict[str, CollectiveCase] = CASES
) -> Callable[..., Any]:
    """All cases in one program, which compiles once."""
    more = {} if groups is None else {"axis_index_groups": groups}

    def f(v: Any) -> Any:
        return {
            k: c.fun(v, names, **c.options, **more)
            for k, c in usable(cases, groups).items()
        }

    return f


def expected_of(
    world: World,
    x: np.ndarray,
    names: Any,
    groups: Any = None,
    cases: dict[str, CollectiveCase] = CASES,
) -> dict[str, np.ndarray]:
    """The same in the lock-step world."""
    more = {} if groups is None else {"axis_index_groups": groups}
    return {
        k: world.each(x, names, groups, c.model)
        if c.model
        else getattr(world, c.fun.__name__)(x, names, **c.options, **more)
        for k, c in usable(cases, groups).items()
    }
