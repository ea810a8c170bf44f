"""Sharding in types: every program of `explicit_programs` over meshes of several kinds.

Traced by both libraries: the jaxprs, whose types show the shardings, must be the same
text; what is refused must be refused with the same words. Some are lowered too, and a
few run, for where their results lie.
"""

from __future__ import annotations

import re
from collections import Counter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import minijax
from tests.conformance.explicit_programs import PROGRAMS, Program
from tests.conformance.harness import conformance, error, normal, text


class MeshKind(NamedTuple):
    """A mesh, with `E` or `A` for an Explicit or Auto axis; `manual` become Manual."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]
    types: str
    manual: frozenset[str] = frozenset()


MESHES = {
    "one": MeshKind((4,), ("x",), "E"),
    "two": MeshKind((2, 4), ("x", "y"), "EE"),
    "mixed": MeshKind((2, 4), ("x", "y"), "EA"),
    "ones": MeshKind((1, 4), ("x", "y"), "EE"),
    "manual": MeshKind((2, 4), ("x", "y"), "EE", frozenset("x")),
}
DTYPES = {"f": np.float32, "i": np.int32, "b": np.bool_}

# Programs whose equations are other ones here, and those that upstream gets wrong. Of
# them only the types of the results are compared, where there are results.
OTHER_EQUATIONS = [
    "empty_out",  # a primitive of its own upstream
    "jnp_clip",  # operands in another order
    "jnp_logical_and_4",
    "jnp_norm",
    "jnp_one_hot",
    "nn_relu",  # a custom_jvp upstream
    "mlp",
    "grad_sum",
    "grad_value",
    "grad_softmax",
    "grad_var",
    "grad_pad",
    "jvp_var",
    "vmap_grad",
    "vmap_out1_grad",
    "vmap_cond",
    "vmap_out1_cond",
    "vmap2_cond",
    "vmap2_left_cond",
    "scan_grad",
    "constraint",  # a parameter less
    "x_array",
    "asarray_out",  # upstream converts to the same, but for Auto axes or size 1
    "array_out",
]
UPSTREAM_IS_WRONG = [
    "vmap2_left_clamp",  # loses the sharding of the mapped dimension
    "vmap2_right_clamp",
    "vmap2_left_stack",  # repeats what is not mapped without the mapped sharding
    "vmap2_right_stack",
    "broadcast_out_9",  # forgets `reduced` beside an Auto axis
    "broadcast_in_dim_out_9",
    "broadcast_to_out",
    "zeros_out_9",
    "ones_out_9",
    "full_out_9",
    "grad_prod",  # refuses where a mesh axis has size 1
    "jnp_argsort",  # forgets that the order varies as what is sorted does
    "vmap2_cond",  # refuses branches of which one varies over a Manual axis
    "vmap2_left_cond",
    "vmap2_right_cond",
    "vmap_spmd",  # an internal check fails within a shard_map
    "constraint_[5679]",  # an accident while it makes the message
    "vmap_outer_1",  # refuses either way, and shows the types of one element
]


def make_mesh(jax: Any, kind: MeshKind) -> Any:
    types = jax.sharding.AxisType
    chosen = {"E": types.Explicit, "A": types.Auto}
    return jax.make_mesh(
        kind.sizes, kind.names, axis_types=tuple(chosen[t] for t in kind.types)
    )


def operand(jax: Any, mesh: Any, kind: MeshKind, written: str) -> Any:
    """A `ShapeDtypeStruct` from `f[8@x,4]`; what is Manual there, is so inside."""
    explicit = {n for n, t in zip(kind.names, kind.types, strict=True) if t == "E"}
    dims = [d.partition("@")[::2] for d in written[2:-1].split(",") if d]
    sizes = dict(zip(kind.names, kind.sizes, strict=True))
    shape = [int(n) * (sizes[a] if a in kind.manual else 1) for n, a in dims]
    spec = jax.sharding.PartitionSpec(*(a if a in explicit else None for _, a in dims))
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(shape, DTYPES[written[0]], sharding=sharding)


class Traced(NamedTuple):
    """The types of the results and the whole program, or what was raised."""

    types: list[str]
    jaxpr: str
    failed: bool


def trace(jax: Any, program: Program, kind: MeshKind) -> Traced:
    mesh = make_mesh(jax, kind)
    operands = [operand(jax, mesh, kind, t) for t in program.operands]
    types: list[str] = []

    def body(*xs: Any) -> tuple[()]:
        out = program.fun(jax, *xs)
        types.extend(str(jax.typeof(leaf)) for leaf in jax.tree.leaves(out))
        return out if not kind.manual else ()

    def fun(*xs: Any) -> Any:
        if not kind.manual:
            return body(*xs)
        P = jax.sharding.PartitionSpec
        specs = tuple(
            P(*(a if a in kind.manual else None for a in o.sharding.spec))
            for o in operands
        )
        names = set(kind.manual)
        return jax.shard_map(body, in_specs=specs, out_specs=(), axis_names=names)(*xs)

    with jax.set_mesh(mesh):
        try:
            jaxpr = str(jax.make_jaxpr(fun)(*operands))
        except Exception as e:
            return Traced([], normal(f"{type(e).__name__}: {e}"), True)
    return Traced(types, re.sub(r"\s+", "", normal(jaxpr)), False)


def _named(program: Program, patterns: list[str]) -> bool:
    return any(re.match(rf"{p}(_|$)", program.name) for p in patterns)


def _agree(
    program: Program, kind: MeshKind, found: Traced, expected: Traced
) -> bool:
    if _named(program, UPSTREAM_IS_WRONG):
        return True
    if expected.failed:
        other = _named(program, OTHER_EQUATIONS)
        return found.failed and (other or found.jaxpr.startswith(expected.jaxpr))
    if found.failed or found.types != expected.types:
        return False
    if kind.manual:  # the casts of operands that do not vary stand in another order
        return True
    return _named(program, OTHER_EQUATIONS) or found.jaxpr == expected.jaxpr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MESHES)
def test_types_follow_upstream(kind: str, upstream: ModuleType) -> None:
    differences = []
    for program in PROGRAMS:
        expected = trace(upstream, program, MESHES[kind])
        found = trace(minijax, program, MESHES[kind])
        if not _agree(program, MESHES[kind], found, expected):
            differences.append(
                f"{program.name} {program.operands}:\n  {found}\n  upstream: {expected}"
            )
    assert not differences, "\n".join(differences)
