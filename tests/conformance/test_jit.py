"""`jit`: how often it traces, what it takes, and where results lie."""

import warnings
from functools import partial
from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, ops, text

X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.arange(3, dtype=np.float32)


class _Counted:
    """A function that counts how often it runs, that is, is traced."""

    def __init__(self, fun: Any):
        self.fun = fun
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.fun(*args, **kwargs)


def traces_once_per_type(jax: Any) -> Any:
    f = _Counted(lambda x: jax.lax.add(x, x))
    jitted = jax.jit(f)
    counts = []
    for x in (V, V + 1, X, V.astype(np.int32), 1.0, 2.0, 1, np.float32(1)):
        jitted(x)
        counts.append(f.count)
    return counts


def traces_once_per_static_value(jax: Any) -> Any:
    f = _Counted(lambda x, n: jax.lax.integer_pow(x, n))
    jitted = jax.jit(f, static_argnums=1)
    results = [jitted(V, 2), jitted(V, 2), jitted(V, 3), jitted(V, 2)]
    return [results, f.count]


def traces_once_per_tree(jax: Any) -> Any:
    f = _Counted(lambda d: d)
    jitted = jax.jit(f)
    for d in ({"a": V}, {"a": V}, {"b": V}, [V], (V,), {"a": V, "b": None}, V):
        jitted(d)
    return f.count


def nested_calls_share_their_trace(jax: Any) -> Any:
    f = _Counted(lambda x: jax.lax.sin(x))
    inner = jax.jit(f)
    outer = jax.jit(lambda x: jax.lax.add(inner(x), inner(x)))
    return [outer(V), f.count, outer(V), f.count, inner(V), f.count]


def another_wrapper_traces_anew(jax: Any) -> Any:
    f = _Counted(lambda x: jax.lax.neg(x))
    first = jax.jit(f)
    first(V)
    first.clear_cache()
    first(V)
    return f.count


def static_names(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any, n: int = 1, *, m: int = 2) -> Any:
        return lax.add(lax.integer_pow(x, n), lax.integer_pow(x, m))

    by_name = jax.jit(f, static_argnames=("n", "m"))
    by_number = jax.jit(f, static_argnums=(1,), static_argnames="m")
    return [
        by_name(V, 2),
        by_name(V, n=2),
        by_name(V, n=3, m=1),
        by_number(V, 3),
        by_name(V),
    ]


def methods_and_partials(jax: Any) -> Any:
    lax = jax.lax

    class Model:
        def __init__(self, scale: float):
            self.scale = scale

        @partial(jax.jit, static_argnums=0)
        def scaled(self, x: Any) -> Any:
            return lax.mul(x, self.scale)

    @jax.jit
    def f(x: Any, /, y: Any, *rest: Any, z: Any = 1.0, **more: Any) -> Any:
        total = lax.add(lax.mul(x, y), z)
        for v in (*rest, *more.values()):
            total = lax.add(total, v)
        return total

    return [
        Model(2.0).scaled(V),
        Model(3.0).scaled(V),
        f(V, 2.0),
        f(V, y=2.0),
        f(V, 2.0, V, z=V, w=V, a=V),
        jax.jit(partial(lambda x, y: lax.sub(x, y), 1.0))(2.0),
        jax.jit(partial(lambda x, y: lax.sub(x, y), y=1.0))(2.0),
        jax.jit(jax.jit(f))(V, V),
    ]


def trees_go_in_and_out(jax: Any) -> Any:
    f = jax.jit(lambda d, xs: {"x": (d["a"], None), "y": [*xs, 1.0], "z": ()})
    return [f({"a": V}, [X, V]), f({"a": 1}, ())]


def types_of_results(jax: Any) -> Any:
    lax = jax.lax
    same = jax.jit(lambda x: x)
    return [
        same(1),
        same(1.0),
        same(True),
        same(1j),
        same(np.float64(1)),
        same(np.arange(2)),
        same(np.float16(2)),
        jax.jit(lambda: 1.0)(),
        jax.jit(lambda: V)(),
        jax.jit(lambda: np.float32(2))(),
        jax.jit(lambda x: lax.mul(x, 2))(3),
        jax.jit(lambda x: (x, x))(V),
        jax.jit(lambda x: None)(V),
    ]


def placed_by_in_and_out_shardings(jax: Any) -> Any:
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(_auto(jax),) * 2)
    P, N = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    neg, add = jax.lax.neg, jax.lax.add
    rows, both = N(mesh, P("x")), N(mesh, P("x", "y"))
    on_rows = jax.device_put(x, rows)
    return [
        jax.jit(neg, in_shardings=rows)(x),
        jax.jit(neg, in_shardings=rows, out_shardings=both)(x),
        jax.jit(neg, out_shardings=both)(on_rows),
        jax.jit(neg)(on_rows),
        jax.jit(add, in_shardings=(rows, both), out_shardings=both)(x, x),
        jax.jit(add, in_shardings=(rows, None), out_shardings=N(mesh, P()))(x, x),
        jax.jit(lambda d: d, in_shardings=({"a": rows},))({"a": x}),
        jax.jit(neg)(jax.device_put(x, jax.devices()[3])),
        neg(on_rows),
        neg(jax.device_put(x, jax.devices()[2])),
    ]


def placed_by_explicit_types(jax: Any) -> Any:
    kind = jax.sharding.AxisType.Explicit
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    P = jax.sharding.PartitionSpec
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    with jax.set_mesh(mesh):
        a = jax.device_put(x, P("x", "y"))
        f = jax.jit(lambda a: jax.lax.sin(a))
        return [
            f(a),
            str(jax.make_jaxpr(f)(a)),
            text(jax, lambda a: jax.lax.transpose(a, (1, 0)), a),
            str(jax.typeof(jax.lax.neg(a))),
        ]


def lowered_text(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        return lax.reduce_sum(lax.sin(lax.mul(x, 2.0)), (0,))

    inner = jax.jit(lambda x: lax.cos(x))
    programs = [
        jax.jit(f).lower(V),
        jax.jit(lambda x: lax.add(inner(x), inner(lax.neg(x)))).lower(V),
        jax.jit(lambda x, y: x).lower(V, X),
        jax.jit(lambda x, y: {"a": y, "b": [x]}).lower(V, X),
        jax.jit(f).lower(jax.ShapeDtypeStruct((5,), np.float32)),
        jax.jit(jax.grad(f)).lower(V),
        jax.jit(jax.vmap(f)).lower(X),
    ]
    return [p.as_text() for p in programs]


def operations_of_placed_programs(jax: Any) -> Any:
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(_auto(jax),) * 2)
    P, N = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    rows = N(mesh, P("x"))
    f = jax.jit(jax.lax.neg, in_shardings=rows, out_shardings=N(mesh, P(None, "y")))
    g = jax.jit(jax.lax.neg, donate_argnums=0)
    return [
        f.lower(x).as_text(),
        ops(jax.jit(jax.lax.neg).lower(jax.device_put(x, rows)).as_text()),
        g.lower(x).as_text(),
    ]


def compiled_programs(jax: Any) -> Any:
    compiled = jax.jit(lambda x: jax.lax.mul(x, x)).lower(V).compile()
    return [
        compiled(V),
        "multiply" in compiled.as_text(),
        error(compiled, X),
        error(compiled, V, V),
    ]


def donated_arrays_are_deleted(jax: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = jax.device_put(V)
        f = jax.jit(lambda x, y: jax.lax.add(x, y), donate_argnums=0)
        y = f(x, V)
        z = jax.device_put(V)
        jax.jit(lambda a, b: jax.lax.add(a, b), donate_argnames="b")(V, b=z)
    return [
        y,
        x.is_deleted(),
        z.is_deleted(),
        error(np.asarray, x).name,
        error(f, x, V),
    ]


def shapes_without_running(jax: Any) -> Any:
    f = jax.jit(lambda x: jax.lax.reduce_sum(x, (0,)))
    return [
        str(f.eval_shape(X)),
        str(f.eval_shape(jax.ShapeDtypeStruct((4,), np.int8))),
    ]


def wrong_calls(jax: Any) -> Any:
    lax, jit = jax.lax, jax.jit

    def one(x: Any) -> Any:
        return x

    return [
        error(jit, 3),
        error(jit(one), "text"),
        error(jit(one), object),
        error(jit(lambda d: d), {"a": [1.0, "text"]}),
        error(jit(lambda x: "text"), 1.0),
        error(jit(lambda x: {"a": [object]}), 1.0),
        error(jit(one)),
        error(jit(one), 1.0, 2.0),
        error(jit(one, static_argnums=0), [1]),
        error(jit(one, static_argnums=0), V).name,
        error(jit, one, static_argnums=3),
        error(jit, one, static_argnames="nope"),
        error(jit, one, donate_argnums=3),
        error(jit, one, donate_argnames="nope"),
        error(jit, one, static_argnums="a"),
        error(jit(lambda x, y: lax.add(x, y)), V, X),
        error(jit(lambda x: lax.add(x, x.nope)), V).name,
    ]


def devices_must_agree(jax: Any) -> Any:
    a = jax.device_put(V, jax.devices()[0])
    b = jax.device_put(V, jax.devices()[1])

    def f(x: Any, y: Any) -> Any:
        return jax.lax.add(x, y)

    return [
        error(jax.jit(f), a, b).name,
        error(f, a, b).name,
        jax.jit(f)(V, b),
        jax.jit(f)(1.0, a),
    ]


def values_needed_while_tracing(jax: Any) -> Any:
    jit = jax.jit
    return [
        error(jit(lambda x: 1 if x else 2), True),
        error(jit(lambda x: 1 if x else 2), V),
        error(jit(lambda x: float(x)), 1.0),
        error(jit(lambda x: int(x)), 1),
        error(jit(lambda x: complex(x)), 1.0),
        error(jit(lambda x: [1, 2][x]), 1),
        error(jit(lambda x: [1, 2][x]), 1.0),
        error(jit(lambda x: range(x)), 1),
        error(jit(lambda x: np.asarray(x)), V),
        error(jit(lambda x: len(x)), 1.0),
        error(jit(lambda x: hash(x)), 1.0).name,
        error(jit(lambda x: x.sharding), V),
        jit(lambda x: len(x))(V),
    ]


def _auto(jax: Any) -> Any:
    return jax.sharding.AxisType.Auto


test = conformance(globals())
