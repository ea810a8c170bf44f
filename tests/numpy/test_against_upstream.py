"""`minijax.numpy` and `minijax.nn` against upstream: one expression, both libraries.

Each expression is evaluated twice, with `jnp`, `nn` and operands of one library and of
the other. Values, shapes, dtypes and weak types agree; exceptions agree in type and
text.
"""

import re

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.nn
import minijax.numpy

X = np.array([-1.5, -0.25, 0.0, 0.5, 2.0], np.float32)
NAMES = {
    "np": np,
    "x": X,
    "z": np.array([np.nan, np.inf, -np.inf, 1.0], np.float32),
    "p": np.array([0.1, 0.5, 0.75, 1.5], np.float32),
    "i": np.array([3, -1, 4, 0], np.int32),
    "u": np.array([3, 1, 4], np.uint8),
    "t": np.array([True, False, True]),
    "c": np.array([1 + 2j, -3j, 0], np.complex64),
    "m": np.arange(12, dtype=np.float32).reshape(3, 4),
    "s": np.array([[2, 1], [1, 3]], np.float32),
    "k": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
}


def names(library):
    jnp = library.numpy
    arrays = {
        k: jnp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in NAMES.items()
    }
    return arrays | {"jnp": jnp, "nn": library.nn, "lib": library}


BOTH = names(jax), names(minijax)


def evaluate(source, scope):
    """The result, or the exception that stopped it."""
    try:
        return eval(source, dict(scope))
    except Exception as error:
        return error


def plain(x):
    """Something of either library as what can be compared."""
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    if isinstance(x, Exception):
        text = re.sub(r" at 0x\w+", "", str(x)).replace("minijax", "jax")
        return type(x).__name__, text
    if hasattr(x, "weak_type"):
        return np.asarray(x), x.weak_type
    return x


def assert_same(ours, theirs, rtol=2e-6):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, rtol)
    elif isinstance(theirs, tuple) and isinstance(theirs[0], np.ndarray):
        assert isinstance(ours[0], np.ndarray), ours
        assert (ours[0].dtype, ours[0].shape) == (theirs[0].dtype, theirs[0].shape)
        np.testing.assert_allclose(
            *(v[0].astype(complex) for v in (ours, theirs)), rtol, 1e-7
        )
        assert ours[1] == theirs[1], "weak type"
    elif isinstance(theirs, tuple) and str(theirs[0]).endswith("Error"):
        # A message may go on after upstream's.
        assert (ours[0], ours[1][: len(theirs[1])]) == theirs
    else:
        assert ours == theirs


CREATION = """
jnp.array([1., 2.])
jnp.array([1, 2.5, True])
jnp.array([])
jnp.array([[1], [2]], dtype='int8')
jnp.array([x, x])
jnp.array([x[0], 2.])
jnp.array(1.)
jnp.array(True)
jnp.array(2, dtype=jnp.bfloat16)
jnp.array(1., ndmin=2)
jnp.asarray(x, dtype=int)
jnp.asarray(3)
jnp.asarray(np.float64(3))
jnp.asarray(None)
jnp.asarray('a')
jnp.asarray(['a'])
jnp.asarray([1, None])
jnp.asarray({})
jnp.asarray(np.ma.masked_array([1], [True]))
jnp.zeros(3)
jnp.zeros((2, 3), jnp.int32)
jnp.zeros(())
jnp.ones((2,), bool)
jnp.full((2,), 7)
jnp.full((2,), 1.5, dtype=int)
jnp.full((2, 3), np.arange(3))
jnp.empty((2,))
jnp.zeros_like(x)
jnp.ones_like(i)
jnp.ones_like(x, dtype='int8')
jnp.full_like(x, 2)
jnp.full_like(3., 2)
jnp.zeros_like(x, shape=(2, 2))
jnp.arange(4)
jnp.arange(1, 7, 2)
jnp.arange(1., 3.)
jnp.arange(3, 0, -1)
jnp.arange(0, 1, 0.25)
jnp.arange(4, dtype=jnp.float16)
jnp.arange(0)
jnp.linspace(0, 1, 5)
jnp.linspace(0, 10, 5, endpoint=False)
jnp.linspace(0, 10, 4, dtype=int)
jnp.linspace(2., 3., 1)
jnp.linspace(2., 3., 0)
jnp.linspace(np.zeros(2), np.ones(2), 3)
jnp.linspace(np.zeros(2), np.ones(2), 3, axis=1)
jnp.linspace(0, 1, 3, retstep=True)
jnp.eye(3)
jnp.eye(2, 3, k=1, dtype=int)
jnp.identity(2)
jnp.tri(3, 4, -1)
jnp.tril(m, 1)
jnp.triu(m)
jnp.tril(k)
jnp.triu(x)
jnp.diag(x)
jnp.diag(x, 1)
jnp.diag(x, -2)
jnp.diag(m, 1)
jnp.diag(k)
jnp.meshgrid(x, i)
jnp.meshgrid(x, i, indexing='ij')
jnp.meshgrid(x, i, sparse=True)
jnp.float32(3)
jnp.int8(x)
jnp.bfloat16(1.1)
jnp.bool_(2)
"""

ELEMENTWISE = """
jnp.exp(x)
jnp.exp(i)
jnp.exp([1.])
jnp.exp('a')
jnp.exp2(x)
jnp.expm1(x)
jnp.log(p)
jnp.log2(p)
jnp.log10(p)
jnp.log1p(p)
jnp.sqrt(p)
jnp.cbrt(x)
jnp.sin(x)
jnp.tan(x)
jnp.arcsin(p)
jnp.arctan(x)
jnp.arctan2(x, 2.)
jnp.sinh(x)
jnp.arcsinh(x)
jnp.hypot(x, 2.)
jnp.deg2rad(x)
jnp.rad2deg(i)
jnp.square(x)
jnp.square(i)
jnp.reciprocal(p)
jnp.float_power(p, 2)
jnp.fmod(x, 0.4)
jnp.abs(x)
jnp.abs(c)
jnp.sign(x)
jnp.sign(i)
jnp.fabs(i)
jnp.logaddexp(x, 0.5)
jnp.logaddexp(z[1:3], z[1:3])
jnp.floor(x)
jnp.floor(i)
jnp.ceil(x)
jnp.trunc(x)
jnp.rint(x)
jnp.round(x)
jnp.round(x, 1)
jnp.isnan(z)
jnp.isinf(z)
jnp.isfinite(z)
jnp.isfinite(i)
jnp.isinf(c)
jnp.isposinf(z)
jnp.isneginf(z)
jnp.signbit(x)
jnp.nan_to_num(z)
jnp.nan_to_num(z, nan=1., posinf=2.)
jnp.real(c)
jnp.imag(c)
jnp.imag(x)
jnp.conj(c)
jnp.angle(c)
jnp.iscomplexobj(c)
jnp.isreal(c)
jnp.logical_and(x, i[0])
jnp.logical_or(t, False)
jnp.logical_xor(t, t)
jnp.logical_not(x)
jnp.bitwise_and(i, 3)
jnp.bitwise_not(i)
jnp.bitwise_count(u)
jnp.left_shift(u, 1)
jnp.heaviside(x, 0.5)
jnp.sinc(x)
jnp.where(x > 0, x, 0.)
jnp.where(t, 1, 2.5)
jnp.clip(x, 0, 1)
jnp.clip(x, max=0.)
jnp.maximum(x, 0)
jnp.minimum(i, 1.5)
jnp.add(x, i)
jnp.add(x, 'a')
jnp.add(x, [1])
jnp.add(x, c)
jnp.power(x, 2)
jnp.power(i, 2)
jnp.power(p, x[:4])
jnp.mod(i, 3)
jnp.floor_divide(x, 0.3)
jnp.divmod(i, 3)
jnp.divide(i, 2)
jnp.equal(x, 0)
jnp.greater(x, i[0])
jnp.true_divide(u, u)
jnp.subtract(u, 1)
jnp.multiply(t, t)
"""

SHAPING = """
jnp.reshape(m, (4, -1))
jnp.reshape(m, 5)
jnp.ravel(m)
jnp.transpose(k)
jnp.transpose(k, (1, 0, 2))
jnp.moveaxis(k, 0, -1)
jnp.moveaxis(k, (0, 1), (2, 0))
jnp.moveaxis(k, 5, 0)
jnp.swapaxes(k, 0, 1)
jnp.squeeze(m[None])
jnp.squeeze(m, 0)
jnp.expand_dims(x, 0)
jnp.expand_dims(x, (0, 2))
jnp.broadcast_to(x, (2, 5))
jnp.broadcast_to(x, (2, 3))
jnp.broadcast_arrays(x, m[:, :1])
jnp.broadcast_shapes((2, 1), (3,))
jnp.concatenate([x, i])
jnp.concatenate([m, m], axis=1)
jnp.concatenate([m, m], axis=None)
jnp.concatenate([])
jnp.concatenate([x, m])
jnp.concatenate([1., 2.])
jnp.concatenate([x, x], dtype=int)
jnp.stack([x, x])
jnp.stack([x, x], axis=-1)
jnp.stack([x, i])
jnp.stack([])
jnp.vstack([x, x])
jnp.hstack([x, x])
jnp.hstack([m, m])
jnp.column_stack([x, x])
jnp.append(x, 3.)
jnp.atleast_1d(1.)
jnp.atleast_2d(x)
jnp.unstack(m)
jnp.split(m, 2, 1)
jnp.split(m, 3, 1)
jnp.split(m, [1, 3], 1)
jnp.array_split(m, 3, 1)
jnp.tile(x, 2)
jnp.tile(x, (2, 1))
jnp.tile(m, 2)
jnp.repeat(x, 2)
jnp.repeat(m, 2, axis=1)
jnp.roll(x, 1)
jnp.roll(m, (1, -2), (0, 1))
jnp.roll(m, 1, 1)
jnp.roll(m, 5)
jnp.roll(x, jnp.asarray(2))
jnp.roll(x, jnp.asarray(-7))
jnp.flip(m)
jnp.flip(m, 1)
jnp.rot90(m)
jnp.rot90(m, 3)
jnp.pad(x, 1)
jnp.pad(x, (1, 2), constant_values=3)
jnp.pad(m, ((1, 0), (0, 2)))
jnp.pad(m, 1, constant_values=((1, 2), (3, 4)))
jnp.pad(m, 1, mode='edge')
jnp.pad(m, 2, mode='reflect')
jnp.pad(x, 2, mode='wrap')
"""

REDUCTIONS = """
jnp.sum(m)
jnp.sum(m, axis=1, keepdims=True)
jnp.sum(u)
jnp.sum(t)
jnp.sum(m, where=m > 3)
jnp.prod(x)
jnp.mean(m, axis=0)
jnp.mean(i)
jnp.var(x)
jnp.std(m, axis=1, ddof=1)
jnp.max(m, axis=(0, 1))
jnp.min(i)
jnp.any(t)
jnp.all(t)
jnp.argmax(x)
jnp.argmin(m, axis=1)
jnp.cumsum(m, axis=1)
jnp.cumsum(m)
jnp.cumprod(x)
jnp.sort(i)
jnp.argsort(i)
jnp.median(x)
jnp.median(m, axis=1)
jnp.median(m, axis=1, keepdims=True)
jnp.quantile(x, 0.3)
jnp.quantile(m, np.array([0.2, 0.9], np.float32), axis=0)
jnp.quantile(m, 0.3, method='lower')
jnp.quantile(m, 0.3, method='nearest')
jnp.percentile(x, 30.)
jnp.quantile(z, 0.5)
jnp.nansum(z[:1])
jnp.nanmean(z[jnp.array([0, 3])])
jnp.nanmax(z)
jnp.nanmin(z)
jnp.average(x)
jnp.average(m, axis=1, weights=p)
jnp.count_nonzero(m)
jnp.diff(x)
jnp.diff(m, axis=0, n=2)
jnp.ptp(m)
"""

PRODUCTS = """
jnp.dot(m, m.T)
jnp.dot(x, 2)
jnp.matmul(m, p)
jnp.matmul(k, k.swapaxes(1, 2))
jnp.matmul(m, x)
jnp.inner(x, x)
jnp.inner(m, m)
jnp.outer(x, i)
jnp.vdot(c, c)
jnp.tensordot(m, m.T, 1)
jnp.tensordot(m, m)
jnp.tensordot(k, m, ((1, 2), (0, 1)))
jnp.kron(s, m)
jnp.einsum('ij,jk->ik', m, m.T)
jnp.einsum('ij->ji', m)
jnp.einsum('ij->i', m)
jnp.einsum('ij->', m)
jnp.einsum('ii->i', s)
jnp.einsum('ii', s)
jnp.einsum('ij,kj', m, m)
jnp.einsum('bij,bkj->bik', k, k)
jnp.einsum('...ij,...kj->...ik', k, m)
jnp.einsum('ij,jk,kl->il', m, m.T, m)
jnp.einsum('i,i->i', x, x)
jnp.einsum('i,j->ji', x, p)
jnp.einsum('i,i', i, p)
jnp.einsum('bthd,bshd->bhts', k[..., None], k[..., None])
jnp.linalg.norm(x)
jnp.linalg.norm(m, axis=1)
jnp.linalg.norm(m, axis=1, keepdims=True)
jnp.linalg.norm(x, ord=1)
jnp.linalg.norm(x, ord=np.inf)
jnp.linalg.norm(x, ord=3)
jnp.linalg.norm(m, ord='fro')
jnp.linalg.norm(m, ord=1)
jnp.linalg.norm(m, ord=np.inf)
jnp.linalg.norm(c)
jnp.linalg.norm(k)
jnp.trace(m)
jnp.diagonal(m, 1)
"""

SEARCHING = """
jnp.take(m, jnp.array([0, 2]), axis=1)
jnp.take_along_axis(m, jnp.array([[0], [3], [-1]]), axis=1)
jnp.take_along_axis(m, jnp.array([[0, 9]]), axis=1)
jnp.take_along_axis(m, jnp.array([0]), axis=1)
jnp.take_along_axis(x, jnp.argsort(x), axis=None)
jnp.searchsorted(p, x)
jnp.searchsorted(p, p, side='right')
jnp.searchsorted(p, 0.6)
jnp.isclose(x, x + 1e-7)
jnp.isclose(z, z, equal_nan=True)
jnp.isclose(i, i + 1)
jnp.allclose(x, x)
jnp.array_equal(x, x)
jnp.array_equal(x, i)
jnp.shape(m)
jnp.ndim(m)
jnp.size(m)
jnp.size(m, 1)
jnp.result_type(jnp.bfloat16, 1.)
jnp.promote_types('int8', jnp.float16)
jnp.issubdtype(jnp.bfloat16, jnp.floating)
jnp.finfo(jnp.bfloat16).bits
jnp.iinfo(jnp.int8).max
jnp.pi, jnp.e, jnp.inf, jnp.newaxis
np.dtype(jnp.bfloat16) == np.dtype('bfloat16')
jnp.float32 == np.float32, jnp.float32 == x.dtype, x.dtype == jnp.float32
"""

NN = """
nn.relu(x)
nn.relu(i)
nn.relu(z)
nn.relu6(x * 5)
nn.leaky_relu(x)
nn.elu(x)
nn.celu(x)
nn.selu(x)
nn.gelu(x)
nn.gelu(x, approximate=False)
nn.sigmoid(x)
nn.silu(x)
nn.softplus(x)
nn.log_sigmoid(x)
nn.soft_sign(x)
nn.hard_tanh(x)
nn.squareplus(x)
nn.glu(m)
nn.tanh(x)
nn.softmax(m)
nn.softmax(m, axis=0)
nn.softmax(m, axis=(0, 1))
nn.softmax(m, where=m > 2)
nn.log_softmax(m)
nn.logsumexp(m)
nn.logsumexp(m, axis=1, keepdims=True)
nn.logsumexp(m, b=-m, return_sign=True)
nn.logsumexp(z[1:3])
nn.one_hot(i, 5)
nn.one_hot(i, 4, axis=0, dtype=jnp.int8)
nn.standardize(m)
"""

GRADIENTS = """
lib.grad(lambda x: nn.relu(x).sum())(x)
lib.grad(lambda x: nn.relu6(x * 3).sum())(x)
lib.grad(lambda x: nn.gelu(x).sum())(x)
lib.grad(lambda x: nn.softplus(x).sum())(x)
lib.grad(lambda x: nn.elu(x).sum())(x * 100)
lib.grad(lambda x: nn.silu(x).sum())(x)
lib.grad(lambda m: (nn.softmax(m) * m).sum())(m)
lib.grad(lambda m: (nn.log_softmax(m) * m).sum())(m)
lib.grad(lambda m: nn.logsumexp(m))(m)
lib.grad(lambda x: jnp.logaddexp(x, 0.).sum())(x)
lib.grad(lambda x: jnp.linalg.norm(x))(x)
lib.grad(lambda x: jnp.where(x > 0, x ** 2, x).sum())(x)
lib.grad(lambda x: jnp.std(x))(x)
lib.grad(lambda m: jnp.einsum('ij,kj->ik', m, m).sum())(m)
lib.grad(lambda x: jnp.sort(x)[0])(x)
lib.vmap(jnp.dot)(m, m)
lib.vmap(lambda v: jnp.roll(v, 1))(m)
lib.vmap(lambda v: jnp.take_along_axis(v, jnp.argsort(-v), 0))(m)
lib.vmap(nn.softmax)(m)
lib.jit(lambda: jnp.array([1, 2]) * jnp.array([3, 4]))()
lib.jit(lambda y: jnp.array([y, 2.]) * jnp.arange(2))(1.)
lib.jit(lambda y: jnp.zeros(()) + jnp.float32(2) + y)(1.)
"""


def programs(text):
    return [line for line in text.splitlines() if line]


#: Upstream compiles these two whole, so that its message is about arguments of `jit`.
REFUSED = ["jnp.exp('a')", "jnp.add(x, 'a')"]


@pytest.mark.parametrize(
    "source",
    [
        source
        for text in (
            CREATION,
            ELEMENTWISE,
            SHAPING,
            REDUCTIONS,
            PRODUCTS,
            SEARCHING,
            NN,
            GRADIENTS,
        )
        for source in programs(text)
        if source not in REFUSED
    ],
)
def test_same_as_upstream(source):
    theirs, ours = (plain(evaluate(source, scope)) for scope in BOTH)
    assert_same(ours, theirs)


@pytest.mark.parametrize("source", REFUSED)
def test_strings_are_refused(source):
    theirs, ours = (evaluate(source, scope) for scope in BOTH)
    assert type(ours) is type(theirs) is TypeError
    assert "requires ndarray or scalar arguments, got <class 'str'>" in str(ours)
