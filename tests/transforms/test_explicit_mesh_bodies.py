"""Bodies of `shard_map` where the mesh in force is of Explicit axes.

Some primitives lower by way of a program that is traced while lowering. Its operands
are of the body's mesh, with Manual axes, while the context mesh is Explicit.
"""

import numpy as np
import pytest

import minijax
from minijax import numpy as jnp
from minijax import random
from minijax.sharding import PartitionSpec as P


@pytest.fixture(params=[1, 4])
def mesh(request):
    mesh = minijax.make_mesh((request.param,), ("i",))
    with minijax.set_mesh(mesh):
        yield mesh


@pytest.mark.parametrize("fun", [jnp.tanh, jnp.exp2, jnp.arcsin])
def test_derivatives_that_lower_by_a_program(mesh, fun):
    x = np.linspace(-0.5, 0.5, 8, dtype=np.float32)

    def total(x):
        return jnp.sum(fun(x))

    mapped = minijax.shard_map(minijax.grad(total), in_specs=P("i"), out_specs=P("i"))
    got = minijax.jit(mapped)(minijax.device_put(x, P("i")))
    np.testing.assert_allclose(got, minijax.grad(total)(x), rtol=1e-6)


def test_random_numbers(mesh):
    @minijax.jit
    @minijax.shard_map(in_specs=(P(), P("i")), out_specs=P("i"))
    def noisy(key, x):
        return x + random.normal(key, x.shape)

    key = random.key(0)
    got = noisy(key, minijax.device_put(np.zeros(8, np.float32), P("i")))
    each = np.asarray(random.normal(key, (8 // mesh.size,)))
    np.testing.assert_allclose(got, np.tile(each, mesh.size), rtol=1e-6)


def test_gathered_axes_may_be_of_size_one(mesh):
    @minijax.jit
    @minijax.grad
    def slope(x, w):
        total = minijax.shard_map(
            lambda x, w: minijax.lax.psum(jnp.sum(x * x) * jnp.sum(w), "i"),
            in_specs=(P(reduced={"i"}), P("i")),
            out_specs=P(),
        )
        return total(minijax.top_level_all_gather(x, P(reduced={"i"})), w)

    x, w = minijax.device_put([np.arange(8.0), np.ones(8)], P("i"))
    got = slope(x, w)
    assert got.sharding == x.sharding
    np.testing.assert_allclose(got, 2 * 8 * np.arange(8))
