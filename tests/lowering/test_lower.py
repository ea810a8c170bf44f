"""Lowered modules against upstream's `jit(f).lower(...).as_text()`, word for word."""

import importlib.util
import pathlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from minijax.core.jaxpr import Jaxpr
from minijax.core.mesh import UNCONSTRAINED, SingleDeviceSharding
from minijax.core.primitive import Primitive
from minijax.lowering.dialect import op, tensor
from minijax.lowering.lower import LoweredModule, lower_to_module


def _beside(name: str) -> Any:
    """A module beside this file; the tests are not a package."""
    path = pathlib.Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"tests_lowering_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


p = _beside("programs")
Build, P, AxisType, f32 = p.Build, p.P, p.AxisType, p.f32
AUTO, EXPLICIT, MANUAL = AxisType.Auto, AxisType.Explicit, AxisType.Manual
X4, X88 = f32(4), f32(8, 8)


def lowered(jaxpr: Jaxpr, **options: Any) -> str:
    n = len(jaxpr.outvars)
    info = ["result"] if n == 1 else [f"result[{i}]" for i in range(n)]
    return str(lower_to_module(jaxpr, "jit_f", result_info=info, **options))


def expected(jax: ModuleType, f: Any, *args: Any, **options: Any) -> str:
    f.__name__ = "f"
    args = tuple(
        jax.ShapeDtypeStruct(a, np.float32) if type(a) is tuple else a for a in args
    )
    return jax.jit(f, **options).lower(*args).as_text()


# ------------------------------------------------------------------ one function


def test_elementwise_and_literals(upstream: ModuleType) -> None:
    b = Build(X4)
    y = b(p.mul, X4, b(p.sin, X4, *b.invars), b.scalar(2.0, X4))
    jaxpr = b.returns(b(p.add, X4, y, b.scalar(2.0, X4)))

    def f(x: Any) -> Any:
        return upstream.lax.sin(x) * 2.0 + 2.0

    assert lowered(jaxpr) == expected(upstream, f, (4,))


def test_unused_equations_go_and_unused_arguments_stay(upstream: ModuleType) -> None:
    b = Build(X4, X4)
    b(p.sin, X4, b.invars[0])
    text = lowered(b.returns(b.invars[1]))
    assert text == expected(upstream, lambda x, y: y, (4,), (4,), keep_unused=True)


def test_no_results(upstream: ModuleType) -> None:
    assert lowered(Build().returns()) == expected(upstream, lambda: None)


def test_a_literal_result(upstream: ModuleType) -> None:
    literal = p.Literal(1.0, p.ShapedArray((), np.float32))
    text = lowered(Build().returns(literal))
    assert text == expected(upstream, lambda: np.float32(1.0))


def test_tokens(upstream: ModuleType) -> None:
    token = p.abstract_token
    b = Build(X4)
    t = b(p.create_token, token)
    inner = Build(token, X4)
    body = inner.returns(inner(p.after_all, token, inner.invars[0]), inner.invars[1])
    outs = b(p.call, [token, X4], t, *b.invars, jaxpr=body, name="g")

    def g(t: Any, x: Any) -> Any:
        return upstream.lax.after_all(t), x

    def f(x: Any) -> Any:
        return upstream.jit(g)(upstream.lax.create_token(), x)

    assert lowered(b.returns(*outs)) == expected(upstream, f, (4,))


def test_the_name_is_one_that_xla_keeps() -> None:
    module = lower_to_module(Build().returns(), "jit_<lambda>")
    assert str(module).startswith("module @jit__lambda attributes")


# --------------------------------------------------------------- inner functions


def test_inner_functions_are_lowered_once_and_numbered(upstream: ModuleType) -> None:
    def unary(primitive: Primitive) -> Jaxpr:
        inner = Build(X4)
        return inner.returns(inner(primitive, X4, *inner.invars))

    bodies = [unary(p.sin), unary(p.cos)]
    b = Build(X4)
    (x,) = b.invars
    for body in [*bodies, *bodies]:
        x = b(p.call, X4, x, jaxpr=body, name="<lambda>")

    sin = upstream.jit(lambda x: upstream.lax.sin(x))
    cos = upstream.jit(lambda x: upstream.lax.cos(x))

    def f(x: Any) -> Any:
        return cos(sin(cos(sin(x))))

    assert lowered(b.returns(x)) == expected(upstream, f, (4,))


def test_inner_functions_within_inner_functions(upstream: ModuleType) -> None:
    inner = Build(X4)
    g = inner.returns(inner(p.sin, X4, *inner.invars))
    middle = Build(X4)
    y = middle(p.call, X4, *middle.invars, jaxpr=g, name="g")
    h = middle.returns(middle(p.add, X4, y, *middle.invars))
    b = Build(X4)
    y = b(p.call, X4, *b.invars, jaxpr=h, name="h")
    jaxpr = b.returns(b(p.call, X4, y, jaxpr=g, name="g"))

    gu = upstream.jit(named("g", lambda x: upstream.lax.sin(x)))
    hu = upstream.jit(named("h", lambda x: gu(x) + x))
    text = expected(upstream, lambda x: gu(hu(x)), (4,))
    assert lowered(jaxpr) == text


def named(name: str, f: Any) -> Any:
    f.__name__ = name
    return f


# --------------------------------------------------------------------- shardings


def on_devices(upstream: ModuleType, types: AxisType, **axes: int) -> Any:
    """Upstream's mesh of the first devices."""
    kind = getattr(upstream.sharding.AxisType, types.name)
    n = int(np.prod(list(axes.values())))
    return upstream.make_mesh(
        tuple(axes.values()),
        tuple(axes),
        axis_types=(kind,) * len(axes),
        devices=upstream.devices()[:n],
    )


def test_shardings_of_arguments_and_results(upstream: ModuleType) -> None:
    mesh, theirs = p.mesh(AUTO, x=2, y=4), on_devices(upstream, AUTO, x=2, y=4)
    b = Build(X88, f32())
    jaxpr = b.returns(b(p.sin, X88, b.invars[0]), b.invars[1])
    text = lowered(
        jaxpr,
        in_shardings=[p.NamedSharding(mesh, P("x")), p.NamedSharding(mesh, P())],
        out_shardings=[p.NamedSharding(mesh, P(None, ("y", "x"))), None],
        num_partitions=8,
    )
    sharding, spec = upstream.sharding.NamedSharding, upstream.P

    assert text == expected(
        upstream,
        lambda x, y: (upstream.lax.sin(x), y),
        (8, 8),
        (),
        in_shardings=(sharding(theirs, spec("x")), sharding(theirs, spec())),
        out_shardings=(sharding(theirs, spec(None, ("y", "x"))), None),
    )


def test_the_compiler_chooses_what_is_unconstrained() -> None:
    mesh = p.mesh(AUTO, x=2, y=4)
    wholly = p.NamedSharding(mesh, P(UNCONSTRAINED, UNCONSTRAINED))
    partly = p.NamedSharding(mesh, P("x", UNCONSTRAINED))
    b = Build(X88, X88)
    text = lowered(
        b.returns(*b.invars),
        in_shardings=[wholly, partly],
        out_shardings=[wholly, partly],
        num_partitions=8,
    )
    assert "%arg0: tensor<8x8xf32>, %arg1: tensor<8x8xf32> {sdy.sharding" in text
    assert text.count("sdy.sharding =") == 1
    assert '[{"x"}, {?}]' in text


@pytest.mark.parametrize(("x_axes", "y_axes"), [("E", "E"), ("E", "A"), ("A", "A")])
@pytest.mark.parametrize("spec", [("x", "y"), ("x",), ()])
def test_explicit_axes_are_stated(
    upstream: ModuleType, x_axes: str, y_axes: str, spec: tuple[str, ...]
) -> None:
    types = tuple(EXPLICIT if t == "E" else AUTO for t in (x_axes, y_axes))
    mesh = p.AbstractMesh((2, 4), ("x", "y"), types)
    kinds = tuple(getattr(upstream.sharding.AxisType, t.name) for t in types)
    theirs = upstream.make_mesh((2, 4), ("x", "y"), axis_types=kinds)
    # The type knows the Explicit axes only.
    in_type = [n if t is EXPLICIT else None for n, t in zip(spec, types, strict=False)]
    in_type += [None] * (2 - len(in_type))
    aval = f32(8, 8, sharding=p.NamedSharding(mesh, P(*in_type)))
    b = Build(aval)
    y = b(p.sin, aval, *b.invars)
    jaxpr = b.returns(b(p.mul, aval, y, b.scalar(2.0, aval)))
    all_explicit = types == (EXPLICIT, EXPLICIT)
    text = lowered(
        jaxpr,
        in_shardings=[p.NamedSharding(mesh, P(*spec))],
        out_shardings=[aval.sharding if all_explicit else None],
        num_partitions=8,
    )
    arg = upstream.ShapeDtypeStruct(
        (8, 8),
        np.float32,
        sharding=upstream.sharding.NamedSharding(theirs, upstream.P(*spec)),
    )
    with upstream.set_mesh(theirs):
        assert text == expected(upstream, lambda x: upstream.lax.sin(x) * 2.0, arg)


def test_shardings_of_inner_functions(upstream: ModuleType) -> None:
    mesh, theirs = p.mesh(AUTO, x=2, y=4), on_devices(upstream, AUTO, x=2, y=4)
    inner = Build(X88)
    body = inner.returns(inner(p.sin, X88, *inner.invars))
    x, y = (p.NamedSharding(mesh, P(*s)) for s in (("x",), (None, "y")))
    b = Build(X88)
    once = b(p.call, X88, *b.invars, jaxpr=body, name="g", ins=[x], outs=[y])
    twice = b(p.call, X88, once, jaxpr=body, name="g", ins=[y])
    again = b(p.call, X88, twice, jaxpr=body, name="g", ins=[x], outs=[y])

    def g(x: Any) -> Any:
        return upstream.lax.sin(x)

    sharding, spec = upstream.sharding.NamedSharding, upstream.P
    xu, yu = sharding(theirs, spec("x")), sharding(theirs, spec(None, "y"))
    g1 = upstream.jit(g, in_shardings=xu, out_shardings=yu)
    g2 = upstream.jit(g, in_shardings=yu)
    text = expected(upstream, lambda x: g1(g2(g1(x))), (8, 8))
    assert lowered(b.returns(again), num_partitions=8) == text


def test_unreduced_values_are_stated_at_borders(upstream: ModuleType) -> None:
    mesh, theirs = p.mesh(EXPLICIT, x=2, y=4), on_devices(upstream, EXPLICIT, x=2, y=4)
    aval = f32(8, 8, sharding=p.NamedSharding(mesh, P(None, "y")))
    unreduced = p.NamedSharding(mesh, P(None, None, unreduced={"x"}))
    out = f32(8, 8, sharding=unreduced)
    inner = Build(out)
    identity = inner.returns(*inner.invars)
    b = Build(aval)
    y = b(p.state, out, *b.invars)
    y = b(p.call, out, y, jaxpr=identity, name="g")

    def g(x: Any) -> Any:
        return x

    spec = upstream.P

    def f(x: Any) -> Any:
        x = upstream.reshard(x, spec(None, None, unreduced={"x"}))
        return upstream.jit(g)(x)

    sharding = upstream.sharding.NamedSharding(theirs, spec(None, "y"))
    arg = upstream.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding)
    text = lowered(
        b.returns(y),
        in_shardings=[aval.sharding],
        out_shardings=[unreduced],
        num_partitions=8,
    )
    with upstream.set_mesh(theirs):
        assert text == expected(upstream, f, arg)


def test_a_single_device_is_a_mesh_without_axes(upstream: ModuleType) -> None:
    device = upstream.devices()[3]
    b = Build(X4)
    text = lowered(
        b.returns(b(p.sin, X4, *b.invars)), in_shardings=[SingleDeviceSharding(device)]
    )
    arg = upstream.device_put(np.zeros(4, np.float32), device)
    assert text == expected(upstream, lambda x: upstream.lax.sin(x), arg)


# ----------------------------------------------------------- manual computations


def shard_map_of(
    mesh: Any,
    in_spec: Any,
    out_spec: Any,
    names: str,
    body: Any,
    *,
    aval: Any = X88,
    inner: Any = None,
) -> Jaxpr:
    """A program that is one `shard_map` of a function of `Build` and its variable."""
    types = dict.fromkeys(names, MANUAL)
    inside = mesh.update_axis_types(types)
    shard = tuple(
        size // int(np.prod([mesh.shape[n] for n in in_spec.axes_of(i)] or [1]))
        for i, size in enumerate(aval.shape)
    )
    local = f32(*shard, sharding=p.NamedSharding(inside, inner or P(None, None)))
    bb = Build(local)
    result = body(bb, local, bb.invars[0])
    out = tuple(
        size * int(np.prod([mesh.shape[n] for n in out_spec.axes_of(i)] or [1]))
        for i, size in enumerate(result.aval.shape)
    )
    b = Build(aval)
    y = b(
        p.shard_map,
        aval.update(shape=out),
        *b.invars,
        jaxpr=bb.returns(result),
        mesh=mesh,
        in_specs=(in_spec,),
        out_specs=(out_spec,),
        manual_axes=frozenset(names),
    )
    return b.returns(y)


def psum_x(b: Any, aval: Any, x: Any) -> Any:
    return b(p.psum, aval, x, axes=("x",))


@pytest.mark.parametrize(
    ("axes", "names"),
    [
        ({"x": 2, "y": 4}, "xy"),  # every axis manual
        ({"x": 2, "y": 4}, "x"),  # the compiler goes on along y
        ({"x": 1, "y": 4}, "x"),  # nothing to do along x
        ({"x": 1, "y": 1}, "xy"),  # one device
    ],
)
def test_shard_map(upstream: ModuleType, axes: dict[str, int], names: str) -> None:
    mesh, theirs = p.mesh(AUTO, **axes), on_devices(upstream, AUTO, **axes)
    jaxpr = shard_map_of(mesh, P("x"), P(), names, psum_x)

    def f(x: Any) -> Any:
        return upstream.shard_map(
            lambda x: upstream.lax.psum(x, "x"),
            mesh=theirs,
            in_specs=upstream.P("x"),
            out_specs=upstream.P(),
            axis_names=set(names),
        )(x)

    text = lowered(jaxpr, num_partitions=mesh.size)
    assert text == expected(upstream, f, (8, 8))


def test_the_mesh_is_whole_for_nested_shard_maps(upstream: ModuleType) -> None:
    mesh, theirs = p.mesh(AUTO, x=2, y=4), on_devices(upstream, AUTO, x=2, y=4)

    def body(b: Any, aval: Any, x: Any) -> Any:
        inner = aval.sharding.mesh.update_axis_types({"y": MANUAL})
        shard = f32(4, 2, sharding=p.NamedSharding(inner, P(None, None)))
        bb = Build(shard)
        result = bb(p.psum, shard, *bb.invars, axes=("y",))
        return b(
            p.shard_map,
            aval.update(shape=(4, 2)),
            x,
            jaxpr=bb.returns(result),
            mesh=aval.sharding.mesh,
            in_specs=(P(None, "y"),),
            out_specs=(P(),),
            manual_axes=frozenset("y"),
        )

    jaxpr = shard_map_of(mesh, P("x"), P("x"), "x", body)
    spec = upstream.P

    def inner(x: Any) -> Any:
        return upstream.shard_map(
            lambda x: upstream.lax.psum(x, "y"),
            in_specs=spec(None, "y"),
            out_specs=spec(),
            axis_names={"y"},
        )(x)

    def f(x: Any) -> Any:
        return upstream.shard_map(
            inner,
            mesh=theirs,
            in_specs=spec("x"),
            out_specs=spec("x"),
            axis_names={"x"},
        )(x)

    assert lowered(jaxpr, num_partitions=8) == expected(upstream, f, (8, 8))


def test_two_meshes(upstream: ModuleType) -> None:
    """One symbol for each, and one more for each in replica groups."""
    xy, x8 = p.mesh(AUTO, x=2, y=4), p.mesh(AUTO, x=8)
    first = shard_map_of(xy, P("x"), P(), "xy", psum_x, aval=f32(16, 8))
    second = shard_map_of(x8, P("x"), P(), "x", psum_x)
    b = Build(f32(16, 8))
    y = b.invars[0]
    for eqn in (*first.eqns, *second.eqns):
        y = b(eqn.primitive, eqn.outvars[0].aval, y, **eqn.params)
    jaxpr = b.returns(y)

    def psum(mesh: Any) -> Any:
        return upstream.shard_map(
            lambda x: upstream.lax.psum(x, "x"),
            mesh=mesh,
            in_specs=upstream.P("x"),
            out_specs=upstream.P(),
        )

    xy = on_devices(upstream, AUTO, x=2, y=4)
    x8 = on_devices(upstream, AUTO, x=8)
    text = expected(upstream, lambda x: psum(x8)(psum(xy)(x)), (16, 8))
    assert lowered(jaxpr, num_partitions=8) == text


def test_a_partly_manual_explicit_mesh(upstream: ModuleType) -> None:
    mesh, theirs = p.mesh(EXPLICIT, x=2, y=4), on_devices(upstream, EXPLICIT, x=2, y=4)
    aval = f32(8, 8, sharding=p.NamedSharding(mesh, P("x", "y")))
    jaxpr = shard_map_of(
        mesh, P("x"), P(None, None), "x", psum_x, aval=aval, inner=P(None, "y")
    )
    # The result's type keeps y.
    out = f32(4, 8, sharding=p.NamedSharding(mesh, P(None, "y")))
    (eqn,) = jaxpr.eqns
    b = Build(aval)
    jaxpr = b.returns(b(eqn.primitive, out, *b.invars, **eqn.params))
    spec, sharding = upstream.P, upstream.sharding.NamedSharding
    arg = upstream.ShapeDtypeStruct(
        (8, 8), np.float32, sharding=sharding(theirs, spec("x", "y"))
    )

    def f(x: Any) -> Any:
        return upstream.shard_map(
            lambda x: upstream.lax.psum(x, "x"),
            in_specs=spec("x"),
            out_specs=spec(None),
            axis_names={"x"},
        )(x)

    text = lowered(
        jaxpr,
        in_shardings=[aval.sharding],
        out_shardings=[out.sharding],
        num_partitions=8,
    )
    with upstream.set_mesh(theirs):
        assert text == expected(upstream, f, arg)


@pytest.mark.parametrize("groups", [None, [[0, 1], [2, 3]], [[3, 0], [1, 2]]])
def test_groups_along_an_axis(upstream: ModuleType, groups: Any) -> None:
    mesh, theirs = p.mesh(AUTO, x=2, y=4), on_devices(upstream, AUTO, x=2, y=4)

    def body(b: Any, aval: Any, x: Any) -> Any:
        size = 2 if groups else 4
        return b(p.all_to_all, aval, x, axis="y", size=size, groups=groups)

    jaxpr = shard_map_of(mesh, P(None, "y"), P(None, "y"), "xy", body)

    def f(x: Any) -> Any:
        return upstream.shard_map(
            lambda x: upstream.lax.all_to_all(
                x, "y", 0, 0, tiled=True, axis_index_groups=groups
            ),
            mesh=theirs,
            in_specs=upstream.P(None, "y"),
            out_specs=upstream.P(None, "y"),
        )(x)

    assert lowered(jaxpr, num_partitions=8) == expected(upstream, f, (8, 8))


# ---------------------------------------------------------------------- donation


def test_donated_arguments_take_the_place_of_results(upstream: ModuleType) -> None:
    b = Build(X4, X4)
    x, y = b.invars
    jaxpr = b.returns(b(p.sin, X4, x), b(p.cos, X4, y))
    text = lowered(jaxpr, donated=[False, True])
    assert text == expected(
        upstream,
        lambda x, y: (upstream.lax.sin(x), upstream.lax.cos(y)),
        (4,),
        (4,),
        donate_argnums=1,
    )


@pytest.mark.parametrize("chosen", [True, False])
def test_donated_arguments_of_several_devices(
    upstream: ModuleType, chosen: bool
) -> None:
    mesh, theirs = p.mesh(AUTO, x=2, y=4), on_devices(upstream, AUTO, x=2, y=4)
    b = Build(X88, X88)
    x, y = b.invars
    jaxpr = b.returns(b(p.sin, X88, x), b(p.cos, X88, y))
    ours = [p.NamedSharding(mesh, P("x"))] * 2
    sharding = upstream.sharding.NamedSharding(theirs, upstream.P("x"))
    text = lowered(
        jaxpr,
        in_shardings=ours,
        out_shardings=ours if chosen else [ours[0], None],
        donated=[True, True],
        num_partitions=8,
    )
    assert text == expected(
        upstream,
        lambda x, y: (upstream.lax.sin(x), upstream.lax.cos(y)),
        (8, 8),
        (8, 8),
        in_shardings=(sharding, sharding),
        out_shardings=(sharding, sharding if chosen else None),
        donate_argnums=(0, 1),
    )


def test_a_donated_argument_that_fits_no_result_is_told() -> None:
    b = Build(X88, X4)
    jaxpr = b.returns(b.invars[1])
    with pytest.warns(UserWarning, match=r"^Some donated buffers.*: float32\[8,8\]\."):
        text = lowered(jaxpr, donated=[True, False])
    assert "donor" not in text
    assert "aliasing" not in text


# ------------------------------------------------------------------------ errors


def test_an_invalid_operation_is_laid_at_its_primitives_door() -> None:
    def lower(ctx: Any, x: Any) -> Any:
        return op("stablehlo.sine", [x], [tensor((3,), np.float32)])

    bad = p.primitive("bad", lower)
    b = Build(X4)
    jaxpr = b.returns(b(bad, f32(3), *b.invars))
    with pytest.raises(ValueError, match=r'(?s)verifier errors.*stablehlo.sine.*"bad"'):
        lowered(jaxpr)


def test_a_rule_must_return_all_results() -> None:
    bad = p.primitive("bad", lambda ctx, x: [x, x])
    b = Build(X4)
    with pytest.raises(ValueError, match="Lowering rule for bad returned 2 values"):
        lowered(b.returns(b(bad, X4, *b.invars)))


def test_bytecode() -> None:
    module = lower_to_module(Build(X4).returns(), "f")
    assert isinstance(module, LoweredModule)
    assert module.bytecode().startswith(b"ML\xefR")
