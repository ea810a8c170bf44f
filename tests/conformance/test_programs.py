"""Whole programs, as users write them: numpy, random numbers, control flow, updates."""

from typing import Any

import numpy as np

from tests.conformance.harness import conformance, ops, text

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4)).astype(np.float32)
Y = RNG.normal(size=(8, 2)).astype(np.float32)


def _network(jax: Any) -> Any:
    jnp = jax.numpy

    def init(key: Any) -> Any:
        one, two = jax.random.split(key)
        return {
            "w": jax.random.normal(one, (4, 3)) / 2,
            "v": jax.random.uniform(two, (3, 2)),
            "b": jnp.zeros(3),
        }

    def loss(params: Any, x: Any, y: Any) -> Any:
        hidden = jnp.tanh(x @ params["w"] + params["b"])
        return jnp.mean((hidden @ params["v"] - y) ** 2)

    return init, loss


def training(jax: Any) -> Any:
    init, loss = _network(jax)

    @jax.jit
    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value

    params, values = init(jax.random.key(0)), []
    for _ in range(3):
        params, value = step(params, X, Y)
        values.append(value)
    return [params, values, text(jax, jax.grad(loss), params, X, Y)]


def gradients_of_each_example(jax: Any) -> Any:
    init, loss = _network(jax)
    params = init(jax.random.key(1))
    each = jax.vmap(jax.grad(loss), (None, 0, 0))
    return [jax.jit(each)(params, X, Y), text(jax, each, params, X, Y)]


def training_on_a_mesh(jax: Any) -> Any:
    init, loss = _network(jax)
    P, auto = jax.sharding.PartitionSpec, jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((8,), "i", (auto,))

    def mean_loss(params: Any, x: Any, y: Any) -> Any:
        return jax.lax.pmean(loss(params, x, y), "i")

    mapped = jax.shard_map(
        mean_loss, mesh=mesh, in_specs=(P(), P("i"), P("i")), out_specs=P()
    )
    params = init(jax.random.key(2))
    f = jax.jit(jax.value_and_grad(mapped))
    return [f(params, X, Y), jax.jit(jax.value_and_grad(loss))(params, X, Y)]


def a_recurrence(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def run(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h * w + x)
            return h, h.sum()

        return lax.scan(step, jnp.zeros(4), xs)

    def last(w: Any) -> Any:
        return jnp.sum(run(w, X)[0] ** 2)

    return [
        jax.jit(run)(0.5, X),
        jax.jit(jax.grad(last))(0.5),
        text(jax, run, 0.5, X),
        ops(jax.jit(run).lower(0.5, X).as_text()),
    ]


def loops_and_branches(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def newton(x: Any) -> Any:
        def better(state: Any) -> Any:
            i, r = state
            return i + 1, (r + x / r) / 2

        return lax.while_loop(lambda s: s[0] < 6, better, (0, x))[1]

    def choose(i: Any, x: Any) -> Any:
        return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], x)

    def absolute(x: Any) -> Any:
        return lax.cond(x > 0, lambda x: x, lambda x: -x, x)

    return [
        jax.jit(newton)(2.0),
        [jax.jit(choose)(i, 1.0) for i in (0, 2)],
        jax.grad(absolute)(-2.0),
        jax.vmap(absolute)(X[0]),
        text(jax, choose, 1, 1.0),
        text(jax, newton, 2.0),
        lax.fori_loop(0, 5, lambda i, t: t + i, 0),
    ]


def indexing_and_updates(jax: Any) -> Any:
    x = jax.numpy.asarray(X)

    def f(x: Any, i: Any) -> Any:
        return (
            x[i],
            x[:, 1],
            x[::2, ::-1],
            x[i, 2],
            x[None, ..., 0],
            x.at[i].set(0.0),
            x.at[1, 2].add(5.0),
            x.at[:, 0].multiply(2.0),
            x[np.array([0, 2, 2])],
        )

    return [
        jax.jit(f)(x, 3),
        [text(jax, lambda x, k=k: f(x, 3)[k], x) for k in range(9)],
        jax.jit(jax.grad(lambda x: x.at[0].set(1.0)[1, 1] * x[2, 0]))(x),
    ]


def random_numbers(jax: Any) -> Any:
    random = jax.random
    key = random.key(7)
    a, b = random.split(key)
    return [
        random.uniform(a, (3,)),
        random.normal(b, (2, 2)),
        random.randint(a, (4,), 0, 10),
        random.bernoulli(b, 0.3, (5,)),
        random.permutation(a, 6),
        random.uniform(random.fold_in(key, 3)),
        jax.vmap(lambda k: random.uniform(k))(random.split(key, 3)),
        jax.jit(lambda k: random.normal(k, (2,)))(key),
    ]


def units_of_all_dtypes(jax: Any) -> Any:
    """What a reduction begins with must be a number of the dtype."""
    c = np.array([1 + 2j, 3 - 1j, 0.5 + 3j, 3 + 3j], np.complex64)
    return [
        jax.lax.reduce_and(np.array([7, 5], np.uint32), (0,)),
        jax.lax.reduce_and(np.zeros(0, np.uint8), (0,)),
        jax.lax.cumlogsumexp(c, axis=0),
    ]


test = conformance(globals())
