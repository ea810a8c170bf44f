"""Control flow held against upstream: values, derivatives, mappings, texts, errors."""

from typing import Any

import numpy as np

from tests.conformance.harness import conformance, error, text

X = np.array([0.3, -0.5, 0.8, 1.1], np.float32)
M = np.array([[0.3, -0.5], [0.8, 1.1], [-0.2, 0.4]], np.float32)
PREDS = np.array([True, False, True, True])


def _sum(jax: Any, x: Any) -> Any:
    return jax.lax.reduce_sum(x, tuple(range(np.ndim(x))))


def _every_way(jax: Any, f: Any, x: Any) -> list[Any]:
    """A function of a vector run, compiled, differentiated and mapped."""

    def total(x: Any) -> Any:
        return _sum(jax, f(x))

    rows = np.stack([x, 2 * x, x - 1])
    return [
        f(x),
        jax.jit(f)(x),
        jax.grad(total)(x),
        jax.jit(jax.grad(total))(x),
        jax.jvp(f, (x,), (x,)),
        jax.linearize(f, x)[1](x),
        jax.vmap(f)(rows),
        jax.vmap(f, in_axes=1, out_axes=1)(rows.T),
        jax.vmap(jax.grad(total))(rows),
        jax.jit(jax.vmap(jax.grad(total)))(rows),
        jax.grad(lambda r: _sum(jax, jax.vmap(f)(r)))(rows),
        jax.grad(lambda x: _sum(jax, jax.grad(total)(x)))(x),
        jax.jvp(jax.grad(total), (x,), (x,)),
        jax.vmap(jax.jacfwd(jax.grad(total)))(rows),
    ]


# ------------------------------------------------------------------------------- cond


def cond_every_way(jax: Any) -> Any:
    lax = jax.lax
    c = np.float32([1, 2, 3, 4])

    def f(x: Any) -> Any:
        scale = x[0] * 2.0

        def yes(v: Any) -> Any:
            return lax.sin(v) * scale + c

        def no(v: Any) -> Any:
            return lax.exp(v) * v[1]

        return lax.cond(x[1] > 0.2, yes, no, x)

    return _every_way(jax, f, X)


def cond_of_scalars_and_keyword(jax: Any) -> Any:
    lax = jax.lax
    return [
        lax.cond(2, lambda x: x + 1, lambda x: x - 1, 3),
        lax.cond(0.0, lambda x: x + 1, lambda x: x - 1, operand=3),
        lax.cond(np.bool_(True), lambda: 1.0, lambda: 2.0),
        lax.cond(True, lambda x: x, lambda x: {"a": x["a"]}, {"a": X}),
        lax.cond(True, lambda x, y: (x, y), lambda x, y: (x, x), 1.0, 2.0),
    ]


def cond_weak_types(jax: Any) -> Any:
    lax = jax.lax
    return lax.cond(False, lambda x: x, lambda _: 2.0, np.float32(3))


def switch_clamps(jax: Any) -> Any:
    lax = jax.lax
    fs = [lambda x: x, lax.sin, lambda x: x * x]
    return [
        [lax.switch(i, fs, X) for i in (-3, 0, 1, 2, 9)],
        jax.vmap(lambda i, x: lax.switch(i, fs, x))(np.arange(4) - 1, X),
        jax.vmap(lambda i: lax.switch(i, fs, X))(np.arange(4)),
        jax.grad(lambda x: lax.switch(1, fs, x))(0.5),
        lax.switch(5, [lambda x: x], 2.0),
        lax.switch(np.uint8(2), fs, 3.0),
    ]


def cond_mapped_predicate(jax: Any) -> Any:
    lax = jax.lax

    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, lax.sqrt, lambda v: v * v, x)

    def loss(x: Any) -> Any:
        return _sum(jax, jax.vmap(f)(X > 0, x))

    return [
        jax.vmap(f)(PREDS, abs(X)),
        jax.grad(loss)(X),
        jax.vmap(f, (0, None))(PREDS, 2.0),
    ]


def cond_unmapped_predicate(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any, y: Any) -> Any:
        return lax.cond(True, lambda a, b: (a, b), lambda a, b: (b, b), x, y)

    return jax.vmap(f, (0, None))(X, np.float32(3))


def cond_text(jax: Any) -> Any:
    lax, c = jax.lax, np.float32([1, 2, 3, 4])

    def f(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda v: v * 2, lambda v: v + c, x)

    def passing(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda a, b: (a, b), lambda a, b: (a, a), x, 2 * x)

    return [
        text(jax, f, X),
        text(jax, passing, X),
        text(jax, jax.vmap(lambda x: lax.cond(x > 0, lax.sin, lambda v: 2.0, x)), X),
        text(jax, lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0]), 1),
        jax.jit(f).lower(X).as_text().count("stablehlo.case"),
    ]


def cond_errors(jax: Any) -> Any:
    lax, cond = jax.lax, jax.lax.cond
    return [
        error(cond, None, lambda: 1, lambda: 2),
        error(cond, [1], lambda: 1, lambda: 2),
        error(cond, X, lambda: 1, lambda: 2),
        error(cond, 1j, lambda: 1, lambda: 2),
        error(cond, True, 1, 2),
        error(cond, True, lambda x: x, lambda x: (x, x), 3),
        error(cond, True, lambda x: x, lambda x: x + 1.5, 3),
        error(cond, True, lambda x: (x, x), lambda x: (x + 1.5, X), 3),
        error(cond, True, lambda x: x, lambda x: x, 3, operand=3),
        error(lax.switch, 1.0, [lambda: 1, lambda: 2]),
        error(lax.switch, X, [lambda: 1, lambda: 2]),
        error(lax.switch, 1, []),
        error(lax.switch, 1, [1, 2]),
    ]


# ------------------------------------------------------------------------------- scan


def scan_every_way(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        def body(carry: Any, s: Any) -> Any:
            c, n = carry
            c = lax.sin(c) * s + x[0]
            return (c, n + 1), c * x[1]

        (c, _), ys = lax.scan(body, (x[2], 0), x)
        return ys * c

    return _every_way(jax, f, X)


def scan_backwards_every_way(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        def body(c: Any, s: Any) -> Any:
            return c * 0.5 + s * s, lax.exp(c)

        return lax.scan(body, np.float32(1), x, reverse=True)[1]

    return _every_way(jax, f, X)


def scan_without_ys(jax: Any) -> Any:
    lax = jax.lax
    return _every_way(
        jax, lambda x: lax.scan(lambda c, _: (lax.sin(c) * x, None), x, None, 3)[0], X
    )


def scan_unrolled(jax: Any) -> Any:
    lax = jax.lax

    def run(unroll: Any, reverse: bool) -> Any:
        def f(x: Any) -> Any:
            c, ys = lax.scan(
                lambda c, s: (c + s, c * s), 0.0, x, unroll=unroll, reverse=reverse
            )
            return _sum(jax, ys) * c

        return f(X), jax.grad(f)(X)

    return [run(u, r) for u in (0, 1, 2, 3, 4, True, False) for r in (False, True)]


def scan_of_nothing(jax: Any) -> Any:
    lax = jax.lax
    empty = np.zeros((0, 2), np.float32)
    return [
        lax.scan(lambda c, x: (c + 1.0, x * 2), 0.0, empty),
        jax.grad(lambda x: lax.scan(lambda c, _: (c * x, None), x, None, 0)[0])(2.0),
        lax.scan(lambda c, x: (c, x), 0.0, empty, unroll=2),
    ]


def scan_trees_and_passing_through(jax: Any) -> Any:
    lax = jax.lax

    def body(carry: Any, x: Any) -> Any:
        same = carry["same"]
        return {"n": carry["n"] + same, "same": same}, (x["a"], carry["n"], x)

    init = {"n": 0, "same": np.float32(2)}
    return [
        lax.scan(body, init, {"a": X, "b": M[:2].reshape(4)}),
        text(jax, lambda x: lax.scan(body, init, {"a": x, "b": x}), X),
        jax.vmap(lambda x: lax.scan(body, init, {"a": x, "b": X[:2]}))(M),
    ]


def scan_of_matrices(jax: Any) -> Any:
    lax = jax.lax

    def f(m: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            c = lax.sin(c) + row * m[0]
            return c, _sum(jax, c)

        return lax.scan(body, m[1], m)[1]

    def total(m: Any) -> Any:
        return _sum(jax, f(m))

    many = np.stack([M, M + 1], axis=1)
    return [
        f(M),
        jax.grad(total)(M),
        jax.vmap(f, in_axes=1)(many),
        jax.vmap(jax.grad(total), in_axes=1, out_axes=2)(many),
        jax.hessian(total)(M[:2]),
    ]


def scan_mapped_carry_only(jax: Any) -> Any:
    lax = jax.lax

    def f(c: Any) -> Any:
        return lax.scan(lambda c, x: ((c[1], c[0] * x), c[0]), (1.0, c), X)

    return [jax.vmap(f)(X), jax.grad(lambda c: _sum(jax, f(c)[1]))(0.5)]


def scan_weak_carry(jax: Any) -> Any:
    lax = jax.lax
    return [
        lax.scan(lambda c, x: (c + x, c), 0, X),
        lax.scan(
            lambda c, x: ({"a": c["a"], "b": c["a"] * 1.5}, 1),
            {"a": 1.0, "b": 2},
            None,
            3,
        )[0]["b"],
        text(jax, lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x), X),
        text(jax, jax.vmap(lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x)), M),
    ]


def scan_carry_gains_a_tangent(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        def body(carry: Any, s: Any) -> Any:
            a, b, c = carry
            return (b, c, c * x + s), a

        return lax.scan(body, (1.0, 2.0, 3.0), X)[1]

    def known(x: Any) -> Any:
        # One carry and one result do not depend on x at all.
        def body(carry: Any, s: Any) -> Any:
            a, b = carry
            return (a * 2, b * x * a), (a, lax.sin(b) * a * s)

        return lax.scan(body, (1.0, x), X)

    return [
        jax.jvp(f, (0.5,), (1.0,)),
        jax.grad(lambda x: _sum(jax, f(x)))(0.5),
        jax.grad(lambda x: _sum(jax, known(x)[1][1]))(0.5),
        jax.vmap(jax.grad(lambda x: _sum(jax, known(x)[1][1])))(X),
        jax.grad(jax.grad(lambda x: _sum(jax, known(x)[1][1])))(0.5),
    ]


def scan_errors(jax: Any) -> Any:
    scan = jax.lax.scan
    three, two = np.ones(3, np.float32), np.ones(2, np.float32)
    swapped = {"a": three, "b": two}
    return [
        error(scan, lambda c, x: c, 0.0, None, length=3),
        error(scan, lambda c, x: (c, c, c), np.float32(0), None, length=3),
        error(scan, lambda c, x: (three, c), 0.0, None, length=3),
        error(scan, lambda c, x: ({"a": c["b"], "b": c["a"]}, 1), swapped, None, 3),
        error(scan, lambda c, x: (c, x), 0.0, (three, two)),
        error(scan, lambda c, x: (c, x), 0.0, three, length=2),
        error(scan, lambda c, x: (c, x), 0.0, 1.0),
        error(scan, lambda c, x: (c, x), 0.0, None),
        error(scan, 3, 0.0, None),
        error(scan, lambda c, x: (c, x), 0.0, three, unroll=-1),
    ]


def map_in_batches(jax: Any) -> Any:
    lax = jax.lax

    def f(row: Any) -> Any:
        return {"s": _sum(jax, row), "r": lax.sin(row)}

    long = np.arange(14, dtype=np.float32).reshape(7, 2)
    return [
        lax.map(f, M),
        [lax.map(f, long, batch_size=b) for b in (1, 2, 3, 7, 9)],
        jax.grad(lambda x: _sum(jax, lax.map(lax.sin, x)))(X),
    ]


# ------------------------------------------------------------------------------ while


def while_values(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, lax.sin(c[1]) * x), (0, x)
        )[1]

    return [
        f(X),
        jax.jit(f)(X),
        jax.jvp(f, (X,), (X,)),
        jax.vmap(f)(M),
        jax.linearize(f, X)[1](X),
        jax.jacfwd(f)(X),
        text(jax, f, X),
        text(jax, lambda x: jax.jvp(f, (x,), (x,)), X),
    ]


def while_each_stops_by_itself(jax: Any) -> Any:
    lax = jax.lax

    def f(n: Any, x: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, np.float32(1))
        )

    counts = np.arange(4)
    twice = jax.vmap(jax.vmap(f, (0, None)), (None, 0))
    other = jax.vmap(jax.vmap(f, (None, 0)), (0, None))
    return [
        jax.vmap(f)(counts, X),
        twice(counts, X),
        other(counts, X),
        jax.jit(twice)(counts, X),
        jax.vmap(lambda n, x: jax.jvp(lambda x: f(n, x)[1], (x,), (x,)))(counts, X),
        text(jax, jax.vmap(f), counts, X),
    ]


def while_constants(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any, limit: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < limit,
            lambda c: (c[0] + x[0], c[1], c[2] * c[1]),
            (0.0, 2.0, x),
        )

    return [
        f(abs(X), 1.0),
        jax.vmap(f, (None, 0))(abs(X), np.float32([1, 2])),
        jax.jvp(lambda x: f(x, 1.0), (abs(X),), (X,)),
        text(jax, f, X, 1.0),
    ]


def while_errors(jax: Any) -> Any:
    loop = jax.lax.while_loop
    return [
        error(loop, lambda c: 1.0, lambda c: c, 0.0),
        error(loop, lambda c: (True,), lambda c: c, 0.0),
        error(loop, lambda c: c < 3, lambda c: c + 1.5, np.int32(0)),
        error(loop, 1, lambda c: c, 0.0),
        error(jax.grad(lambda x: loop(lambda c: c < 3, lambda c: c * x, x)), 2.0),
        error(jax.lax.fori_loop, np.int16(0), np.int8(3), lambda i, c: c, 0),
        error(jax.lax.fori_loop, 0, 3.0, lambda i, c: c, 0),
        error(jax.lax.fori_loop, 0, 3, 4, 0),
    ]


def fori_values(jax: Any) -> Any:
    lax = jax.lax

    def f(n: Any, x: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, c: lax.sin(c) * x + i, x)

    return [
        f(3, X),
        f(np.int32(3), X),
        f(-1, X),
        lax.fori_loop(np.int8(1), 4, lambda i, c: c + i, np.int8(0)),
        jax.jit(f)(3, X),
        jax.grad(lambda x: _sum(jax, f(3, x)))(X),
        jax.vmap(f, (0, None))(np.arange(3), X),
        jax.jvp(lambda x: jax.jit(f)(3, x), (X,), (X,)),
        lax.fori_loop(0, 5, lambda i, c: c + i, 0, unroll=2),
        text(jax, lambda x: lax.fori_loop(0, 3, lambda i, c: c * i, x), X),
        text(jax, f, 3, X),
    ]


# ------------------------------------------------------------------------------ nests


def nested_every_way(jax: Any) -> Any:
    """A scan of a cond of a fori loop of a jit."""
    lax = jax.lax

    @jax.jit
    def inner(c: Any, x: Any) -> Any:
        return lax.sin(c) * x

    def f(x: Any) -> Any:
        def body(c: Any, s: Any) -> Any:
            c = lax.cond(
                s > 0,
                lambda c: lax.fori_loop(0, 2, lambda i, c: inner(c, x[1]) + i, c),
                lambda c: lax.scan(lambda d, y: (d * y, d), c, x)[0] + s,
                c,
            )
            return c, c * s

        return lax.scan(body, x[0], x)[1]

    return _every_way(jax, f, X)


def scan_of_while_forward(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        def body(c: Any, s: Any) -> Any:
            c = lax.while_loop(lambda c: c < 3.0, lambda c: c * 2.0 + abs(s), abs(c))
            return c - 2.5, c

        return lax.scan(body, x[0], x)[1]

    return [f(X), jax.jvp(f, (X,), (X,)), jax.vmap(f)(np.stack([X, X + 1]))]


def in_shard_map(jax: Any) -> Any:
    lax, spec = jax.lax, jax.sharding.PartitionSpec("i")
    mesh = jax.make_mesh((2,), ("i",), (jax.sharding.AxisType.Auto,))

    def body(x: Any) -> Any:
        def step(c: Any, s: Any) -> Any:
            total = lax.psum(c * s, "i")
            c = lax.cond(s > 0, lambda c: lax.sin(c) * total, lambda c: c + s, c)
            return c, c

        c, ys = lax.scan(step, x[0], x)
        again = lax.fori_loop(0, 2, lambda i, y: y * c, ys)
        return lax.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * x), (0, again)
        )[1]

    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))
    return [f(X), jax.jvp(f, (X,), (X,))]


def derivatives_in_shard_map(jax: Any) -> Any:
    lax, spec = jax.lax, jax.sharding.PartitionSpec("i")
    mesh = jax.make_mesh((2,), ("i",), (jax.sharding.AxisType.Auto,))

    def body(x: Any) -> Any:
        def step(c: Any, s: Any) -> Any:
            c = lax.cond(s > 0, lambda c: lax.sin(c) * s, lambda c: c + s, c)
            return c, c * lax.psum(c, "i")

        return lax.scan(step, x[0], x)[1]

    def run(check_vma: bool) -> Any:
        g = jax.shard_map(
            body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma
        )
        return jax.jit(jax.grad(lambda x: _sum(jax, g(x))))(X)

    return run(True), run(False)


def carry_must_not_become_varying(jax: Any) -> Any:
    lax, spec = jax.lax, jax.sharding.PartitionSpec("i")
    mesh = jax.make_mesh((2,), ("i",), (jax.sharding.AxisType.Auto,))

    def body(x: Any) -> Any:
        return x * lax.scan(lambda c, s: (c + s, None), np.float32(0), x)[0]

    f = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
    return error(f, X)


def collectives_of_a_mapped_axis(jax: Any) -> Any:
    lax = jax.lax

    def f(x: Any) -> Any:
        def step(c: Any, s: Any) -> Any:
            return c + lax.psum(s, "b"), lax.axis_index("b")

        c, ys = lax.scan(step, 0.0, x)
        return lax.cond(True, lambda c: lax.psum(c, "b"), lambda c: c, c), ys

    return jax.vmap(f, axis_name="b")(M)


test = conformance(globals())
