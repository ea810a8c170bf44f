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


def _agree(program: Program, kind: MeshKind, found: Traced, expected: Traced) -> bool:
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


@pytest.mark.timeout(300)
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


# What the compiler is told. Operations that lower to several say it in other places;
# these are of one kind each.
LOWERED = re.compile(
    r"(sin|add|mul_mixed|max|eq_mixed|select|clamp|convert|reduce_sum|reduce_max|"
    r"transpose|reshape|broadcast|expand_dims|rev|concatenate|pad|split|full|iota|slice|"
    r"dot|matmul|einsum|reshard|constraint|auto_axes|explicit_axes|zeros|cumsum|"
    r"grad_matmul|grad_sum|grad_reshape|grad_auto_axes|vmap_sin|vmap2_mul)(_|$)"
)
SHARDINGS = re.compile(r"sdy\.sharding_constraint %\S+ (<.*?>) :")


def annotations(jax: Any, program: Program, kind: MeshKind) -> Counter[str] | None:
    """How often each sharding is stated in the module, but of scalars."""
    mesh = make_mesh(jax, kind)
    operands = [operand(jax, mesh, kind, t) for t in program.operands]
    with jax.set_mesh(mesh):
        try:
            lowered = jax.jit(lambda *xs: program.fun(jax, *xs)).lower(*operands)
        except Exception:
            return None
    found = SHARDINGS.findall(lowered.as_text())
    return Counter(s for s in found if "[]" not in s)


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["two", "mixed"])
def test_the_compiler_is_told_the_same(kind: str, upstream: ModuleType) -> None:
    differences = []
    for program in PROGRAMS:
        if not LOWERED.match(program.name) or _named(program, UPSTREAM_IS_WRONG):
            continue
        expected = annotations(upstream, program, MESHES[kind])
        found = annotations(minijax, program, MESHES[kind])
        if expected is not None and found != expected:
            differences.append(
                f"{program.name} {program.operands}: {found}\n  upstream: {expected}"
            )
    assert not differences, "\n".join(differences)


# ----------------------------------------------------------------- what is carried out

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def _mesh(jax: Any, types: str = "EE") -> Any:
    return make_mesh(jax, MeshKind((2, 4), ("x", "y"), types))


def results_lie_as_types_say(jax: Any) -> Any:
    P, jnp = jax.sharding.PartitionSpec, jax.numpy
    with jax.set_mesh(_mesh(jax)):
        x = jax.device_put(X, P("x", "y"))
        w = jax.device_put(X.T, P("y", None))

        def product(x: Any, w: Any) -> Any:
            return jnp.matmul(x, w, out_sharding=P("x", "y"))

        return [
            jnp.where(x > 2, x, 0),
            x.T,
            x.sum(0),
            jax.sharding.reshard(x, P(None, "x")),
            jnp.zeros((8, 4), out_sharding=P("y")),
            jax.jit(lambda x: jnp.sin(x)[:, None])(x),
            jax.jit(product)(x, w),
            jax.jit(jax.grad(lambda x, w: product(x, w).sum()))(x, w),
            jax.vmap(lambda r: r * 2 + r.sum())(x),
            jnp.broadcast_to(x.sum(0), (8, 4)),
            x.at[:, 0].get(out_sharding=P("x")),
            jax.lax.with_sharding_constraint(x, P("x", "y")),
        ]


def axes_become_auto_for_a_while(jax: Any) -> Any:
    P, jnp, auto = jax.sharding.PartitionSpec, jax.numpy, jax.sharding.auto_axes
    seen = []

    def f(x: Any, n: Any = 2) -> Any:
        seen.append(str(jax.typeof(x)))
        return {"a": jnp.cumsum(x, 0) * n, "b": (x @ x.T).sum(1)}

    with jax.set_mesh(_mesh(jax)):
        x = jax.device_put(X, P("x", "y"))
        specs = {"a": P("x", "y"), "b": P("y")}
        whole = auto(f, out_sharding=specs)
        part = auto(axes="x", out_sharding=P(None, "y"))(lambda x: jnp.cumsum(x, 0))

        def loss(x: Any) -> Any:
            return (whole(x)["a"] * x).sum() + part(x).sum()

        nested = auto(
            lambda x: jax.sharding.explicit_axes(jnp.sin, in_sharding=P("y"))(x),
            out_sharding=P("x"),
        )
        return [
            whole(x),
            jax.jit(whole)(x),
            jax.jit(lambda x: whole(x, n=3))(x),
            auto(f)(x, out_sharding=specs)["b"],
            jax.jit(part)(x),
            jax.jit(jax.grad(loss))(x),
            jax.grad(loss)(x),
            jax.jit(jax.vmap(auto(jnp.cumsum, out_sharding=P(None))))(x),
            jax.jit(nested)(x),
            jax.jit(lambda x: jax.jvp(nested, (x,), (x,)))(x),
            jax.jit(lambda x: jax.lax.scan(lambda c, _: (part(c), None), x, None, 2))(
                jax.device_put(X, P(None, "y"))
            ),
            text(jax, jax.grad(lambda x: whole(x)["a"].sum()), x),
            sorted(set(seen)),
            whole.__name__,
        ]


def axes_become_explicit_for_a_while(jax: Any) -> Any:
    P, explicit = jax.sharding.PartitionSpec, jax.sharding.explicit_axes
    seen = []

    def f(x: Any, y: Any) -> Any:
        seen.extend([str(jax.typeof(x)), str(jax.typeof(y))])
        return x * 2 + y.sum()

    with jax.set_mesh(_mesh(jax, "AA")):
        x = jax.device_put(X, P("x"))
        whole = explicit(f, in_sharding=(P("y"), P(None, "x")))
        part = explicit(f, axes="y", in_sharding=(P("y"), P()))
        return [
            jax.jit(whole)(x, x),
            jax.jit(part)(x, x),
            jax.jit(jax.grad(lambda x: whole(x, x).sum()))(x),
            explicit(f)(x, x, in_sharding=P()),
            text(jax, whole, x, x),
            sorted(set(seen)),
        ]


def wrong_axis_types(jax: Any) -> Any:
    sharding = jax.sharding
    P, N = sharding.PartitionSpec, sharding.NamedSharding
    auto, explicit = sharding.auto_axes, sharding.explicit_axes
    mesh, other = _mesh(jax), make_mesh(jax, MeshKind((4,), ("x",), "E"))

    def f(x: Any) -> Any:
        return x

    out = [
        error(auto(f), X),
        error(explicit(f), X),
        error(explicit(f, in_sharding=P()), X),
        error(auto(f, out_sharding=(N(mesh, P()), N(other, P()))), X),
        auto(f, out_sharding=P())(X),
    ]
    with jax.set_mesh(mesh):
        x = jax.device_put(X, P("x"))
        out += [
            error(auto(f, out_sharding=N(other, P())), x),
            error(sharding.reshard, x, P(None, None, "x")),
            error(sharding.reshard, x, None).name,
            error(sharding.reshard, x, "x").name,
            jax.vjp(jax.numpy.sin, x)[1](X),
            jax.linearize(jax.numpy.sin, x)[1](X),
            error(jax.vjp(jax.numpy.sin, x)[1], jax.device_put(X, P("y"))),
            error(jax.linearize(jax.numpy.sin, x)[1], jax.device_put(X, P("y"))),
            error(jax.lax.with_sharding_constraint, x, P("y")),
            sharding.get_mesh().axis_names,
            error(jax.jit(lambda x: (sharding.get_mesh(), x)[1]), x),
        ]
    with jax.set_mesh(_mesh(jax, "EA")):
        x = jax.device_put(X, P("x"))
        out += [
            error(sharding.reshard, x, P("y")),
            error(jax.lax.with_sharding_constraint, x, P("x")),
            jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P(None, "y")))(x),
        ]
    return out


def staged_before_it_was_mapped(jax: Any) -> Any:
    P, lax = jax.sharding.PartitionSpec, jax.lax
    with jax.set_mesh(_mesh(jax)):
        x, z = jax.device_put(X, P()), jax.device_put(np.stack([X] * 4), P("y"))
        f = jax.shard_map(
            lambda x: lax.pcast(x * 2, "y", to="varying"),
            in_specs=P(),
            out_specs=P("y"),
        )
        return error(jax.vmap(jax.linearize(f, x)[1]), z)


def the_seed_of_a_gradient_is_of_the_type_of_the_loss(jax: Any) -> Any:
    P, N = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    out = []
    for types in ("EE", "AA"):
        mesh = _mesh(jax, types)
        x = jax.device_put(X, N(mesh, P("x")))
        f = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        for loss in (jax.numpy.sum, lambda x, f=f: f(x).sum()):
            out.append(text(jax, jax.grad(loss), x))
            with jax.set_mesh(mesh):
                out.append(text(jax, jax.grad(loss), x))
    return out


test = conformance(globals())
