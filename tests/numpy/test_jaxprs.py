"""Programs print as upstream's: the same equations, and the same calls by name."""

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.nn
import minijax.numpy

X, M, I = np.ones(3, np.float32), np.ones((3, 4), np.float32), np.arange(3)  # noqa: E741

PROGRAMS = """
jnp.zeros((2,))
jnp.zeros(())
jnp.full_like(x, 2)
jnp.arange(1, 7, 2)
jnp.linspace(0, 1, 5)
jnp.eye(3)
jnp.tri(3)
jnp.tril(m)
jnp.triu(m, 1)
jnp.diag(x)
jnp.array([x, x])
jnp.array([1., 2.])
jnp.float32(3) + x
jnp.exp(i)
jnp.log10(x)
jnp.isnan(x)
jnp.isinf(x)
jnp.isfinite(i)
jnp.logical_and(x, x)
jnp.floor(i)
jnp.trunc(x)
jnp.rint(x)
jnp.round(x)
jnp.reciprocal(x)
jnp.float_power(x, 2)
jnp.nan_to_num(x)
jnp.heaviside(x, x)
jnp.deg2rad(x)
jnp.where(x > 0, x, 0.)
jnp.moveaxis(m, 0, 1)
jnp.expand_dims(x, 0)
jnp.broadcast_to(x, (2, 3))
jnp.concatenate([x, i])
jnp.stack([x, x], 1)
jnp.vstack([x, x])
jnp.hstack([x, x])
jnp.tile(m, (2, 1))
jnp.repeat(x, 2)
jnp.roll(m, (1, 2), (0, 1))
jnp.flip(x)
jnp.atleast_2d(x)
jnp.sum(m, axis=1)
jnp.mean(m)
jnp.var(m)
jnp.argmax(m)
jnp.nansum(x)
jnp.nanmean(x)
jnp.count_nonzero(x)
jnp.diff(x)
jnp.dot(m, m.T)
m @ m.T
jnp.outer(x, x)
jnp.inner(x, x)
jnp.vdot(x, x)
jnp.tensordot(m, m.T, 1)
jnp.kron(m, m)
jnp.einsum('ij,jk->ik', m, m.T)
jnp.einsum('ij->i', m)
jnp.einsum('bij,bjk->bik', m[None], m.T[None])
jnp.linalg.norm(x)
jnp.linalg.norm(m, axis=1)
jnp.take_along_axis(m, i[:, None], 1)
jnp.isclose(x, x)
jnp.allclose(x, x)
nn.softmax(m)
nn.log_softmax(m)
nn.logsumexp(m, axis=1)
nn.gelu(x)
nn.sigmoid(x)
nn.silu(x)
nn.one_hot(i, 3)
nn.elu(x)
nn.selu(x)
nn.leaky_relu(x)
nn.standardize(m)
"""


def printed(library, source):
    scope = {"jnp": library.numpy, "nn": library.nn}

    def program(x, i, m):
        return eval(source, scope | {"x": x, "i": i, "m": m})

    return str(library.make_jaxpr(program)(X, I, M))


@pytest.mark.parametrize("source", PROGRAMS.split("\n")[1:-1])
def test_same_jaxpr(source):
    assert printed(minijax, source) == printed(jax, source)
