"""Bad arguments, in every position of every public function: what is raised.

A line of `CALLS` is a call that works. Each of its arguments is replaced by each bad
value in turn, and both libraries are called. A mistake must not surface as an accident
of the library's own: a `KeyError`, an `AttributeError`, an error of XLA and their like
are right only where upstream raises the same. What upstream refuses is refused. And
after all of that the call as it was still works.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minijax
from tests.conformance.harness import Raised

V = np.arange(3, dtype=np.float32)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
INTS = np.arange(3, dtype=np.int32)
B = np.array([True, False, True])
C = np.arange(3).astype(np.complex64)
KEY = np.array([0, 7], np.uint32)

CALLS = """
lax.sin(V)
lax.is_finite(V)
lax.round(V)
lax.population_count(INTS)
lax.conj(C)
lax.stop_gradient(V)
lax.add(V, V)
lax.eq(V, V)
lax.pow(V, V)
lax.shift_left(INTS, INTS)
lax.integer_pow(V, 2)
lax.complex(V, V)
lax.clamp(V, V, V)
lax.select(B, V, V)
lax.argmax(V, 0, np.int32)
lax.batch_matmul(X[None], X.T[None])
lax.bitcast_convert_type(V, np.int32)
lax.convert_element_type(V, np.int32)
lax.reduce_precision(V, 5, 10)
lax.broadcast(V, (2,))
lax.broadcast_in_dim(V, (2, 3), (1,))
lax.broadcasted_iota(np.int32, (2, 3), 1)
lax.iota(np.int32, 3)
lax.collapse(X, 0, 2)
lax.expand_dims(V, (0,))
lax.full((2,), 1.0, np.float32)
lax.full_like(V, 1.0)
lax.reshape(X, (3, 2))
lax.rev(V, (0,))
lax.squeeze(X[None], (0,))
lax.transpose(X, (1, 0))
lax.concatenate([V, V], 0)
lax.split(V, (1, 2), 0)
lax.tile(V, (2,))
lax.cumsum(V, axis=0, reverse=False)
lax.cumlogsumexp(V, axis=0)
lax.dot(V, V)
lax.dot_general(X, X, dimension_numbers=(((1,), (1,)), ((), ())), precision=None)
lax.reduce_sum(X, (0,))
lax.reduce_and(B, (0,))
lax.dynamic_slice(V, (1,), (2,))
lax.dynamic_slice_in_dim(V, 1, 2, 0)
lax.dynamic_update_slice(V, V[:2], (1,))
lax.index_in_dim(V, 1, 0)
lax.pad(V, 0.0, ((1, 1, 0),))
lax.slice(V, (0,), (2,), (1,))
lax.sort(V, dimension=0, num_keys=1)
lax.top_k(V, 2)
lax.rng_uniform(0.0, 1.0, (3,))
lax.after_all(lax.create_token())
lax.all_gather(V, "i", axis=0, tiled=False)
lax.all_to_all(V, "i", 0, 0)
lax.psum(V, "i")
lax.psum_scatter(V, "i")
lax.axis_index("i")
lax.axis_size("i")
lax.cond(True, lambda x: x, lambda x: x, V)
lax.switch(0, [lambda x: x, lambda x: x], V)
lax.while_loop(lambda x: False, lambda x: x, V)
lax.fori_loop(0, 3, lambda i, x: x, V)
lax.scan(lambda c, x: (c, x), V, X, length=2, unroll=1)
lax.map(lambda x: x, V, batch_size=2)
lax.gather(V, INTS[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,))
lax.scatter(V, INTS[:, None], V, lax.ScatterDimensionNumbers((), (0,), (0,)))
jnp.sin(V)
jnp.add(V, V)
jnp.sum(X, axis=0, keepdims=True, where=B, initial=0.0)
jnp.mean(X, axis=0)
jnp.var(X, axis=0, ddof=1)
jnp.argmax(X, axis=1)
jnp.arange(0, 10, 2)
jnp.linspace(0.0, 1.0, 5)
jnp.array(V, dtype=np.float32, ndmin=1)
jnp.zeros((2, 3), np.float32)
jnp.full((2,), 1.0, np.float32)
jnp.eye(3, 4, 1)
jnp.broadcast_to(V, (2, 3))
jnp.clip(V, 0.0, 1.0)
jnp.concatenate([V, V], axis=0)
jnp.stack([V, V], axis=0)
jnp.split(V, 3, axis=0)
jnp.cumsum(X, axis=0)
jnp.diag(V, 1)
jnp.dot(V, V)
jnp.matmul(X, X.T)
jnp.einsum("ij,kj->ik", X, X)
jnp.tensordot(X, X, axes=((1,), (1,)))
jnp.expand_dims(V, 0)
jnp.squeeze(X[None], axis=0)
jnp.transpose(X, (1, 0))
jnp.swapaxes(X, 0, 1)
jnp.moveaxis(X, 0, 1)
jnp.flip(X, axis=0)
jnp.rot90(X, 1, (0, 1))
jnp.repeat(V, 2, axis=0)
jnp.tile(V, 2)
jnp.take(V, INTS, axis=0)
jnp.take_along_axis(V, INTS, axis=0)
jnp.where(B, V, V)
jnp.sort(X, axis=0)
jnp.tril(X, 0)
jnp.trace(X, 0)
jnp.size(X, 0)
random.PRNGKey(0)
random.split(KEY, 2)
random.fold_in(KEY, 1)
random.uniform(KEY, (2,), np.float32, 0.0, 1.0)
random.randint(KEY, (2,), 0, 10, np.int32)
random.bernoulli(KEY, 0.5, (2,))
random.categorical(KEY, V, axis=-1)
random.choice(KEY, V, (2,))
random.permutation(KEY, V, axis=0)
jax.jit(lambda x: x, static_argnums=0, donate_argnames=None)
jax.vmap(lambda x: x, 0, 0)
jax.grad(lambda x: x, 0)
jax.value_and_grad(lambda x: x, 0)
jax.jvp(lambda x: x, (V,), (V,))
jax.vjp(lambda x: x, V)
jax.linearize(lambda x: x, V)
jax.make_jaxpr(lambda x: x)
jax.eval_shape(lambda x: x, V)
jax.device_put(V, jax.devices()[0])
jax.custom_jvp(lambda x: x)
jax.jacfwd(lambda x: x)
jax.jacrev(lambda x: x)
jax.linear_transpose(lambda x: x, V)
jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((3,), np.float32), V)
jax.block_until_ready(V)
jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
jax.sharding.NamedSharding(jax.make_mesh((2,), ("i",)), P("i"))
jax.shard_map(lambda x: x, mesh=jax.make_mesh((2,), ("i",)), in_specs=P("i"),\
 out_specs=P("i"), axis_names={"i"}, check_vma=True)
jax.tree.flatten([V])
jax.tree.unflatten(jax.tree.structure([V]), [V])
jax.nn.softmax(X, axis=0)
jax.nn.one_hot(INTS, 3)
"""

#: Bad for most; where one is good, both libraries accept it.
BAD: dict[str, str] = {
    "None": "None",
    "a string": "'text'",
    "a float": "1.5",
    "a negative number": "-5",
    "a large number": "99",
    "a mixed list": "[1, 'a']",
    "a dict": "{'a': 1.0}",
    "a token": "lax.create_token()",
    "four floats": "np.arange(4, dtype=np.float32)",
    "a cube": "np.zeros((3, 3, 3), np.float32)",
    "a pair": "(0, 0)",
    "strings": "np.array(['a', 'b'])",
    "a leaked tracer": "leaked",
}

#: Never what a mistake of the user looks like, unless upstream says so too.
ACCIDENTS = {
    "AssertionError",
    "AttributeError",
    "IndexError",
    "JaxRuntimeError",
    "KeyError",
    "MLIRError",
    "OverflowError",
    "RecursionError",
    "RuntimeError",
    "SystemError",
    "UnboundLocalError",
}

#: Where minijax takes what upstream refuses, and why.
WIDER = {
    "lax.argmax": "complex numbers have an order, as for pmax",
    "lax.collapse": "a Python number is an array",
    "lax.cond": "tokens are operands",
    "lax.stop_gradient": "tokens have no gradient",
    "lax.switch": "tokens are operands",
    "jax.jit": "without a function it makes a decorator",
    "jax.linear_transpose": "tokens are operands",
    "jnp.sum": "what is true will do for keepdims",
    "jnp.trace": "the offset is converted to an integer",
    "random.randint": "bounds may be anything that jnp.asarray takes",
}


@pytest.fixture
def no_leaks() -> None:
    """Replaces the check that is on in all other files: here a tracer leaks."""


def names_of(jax: Any) -> dict[str, Any]:
    """What the calls are evaluated among."""
    kept: list[Any] = []
    jax.jit(lambda x: kept.append(x))(V)
    modules = {"jnp": jax.numpy, "lax": jax.lax, "random": jax.random, "np": np}
    values = {
        "V": V,
        "X": X,
        "INTS": INTS,
        "B": B,
        "C": C,
        "KEY": KEY,
        "leaked": kept[0],
    }
    return {"jax": jax, "P": jax.sharding.PartitionSpec, **modules, **values}


def replaced(call: str) -> Iterator[str]:
    """The call with each argument replaced by each bad value; one less; and more."""
    tree = ast.parse(call, mode="eval")
    node = tree.body
    assert isinstance(node, ast.Call)
    for slot in [*range(len(node.args)), *node.keywords]:
        for bad in BAD.values():
            value = ast.parse(bad, mode="eval").body
            if isinstance(slot, int):
                old, node.args[slot] = node.args[slot], value
                yield ast.unparse(tree)
                node.args[slot] = old
            else:
                old, slot.value = slot.value, value
                yield ast.unparse(tree)
                slot.value = old
    yield call.replace("(", "(*[V] * 9, ", 1)
    yield call[:-1] + ", no_such_argument=1)"


def outcome(call: str, names: dict[str, Any]) -> Raised | None:
    """What a call raises, if anything."""
    try:
        names["jax"].block_until_ready(eval(call, names))
    except Exception as error:
        return Raised(type(error).__name__, str(error))
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_bad_arguments(call: str, upstream: ModuleType):
    mine, theirs = names_of(minijax), names_of(upstream)
    works = outcome(call, mine)
    wrong: list[str] = []
    for bad in replaced(call):
        found = outcome(bad, mine)
        if found is None and call.partition("(")[0] in WIDER:
            continue
        if found is not None and found.message and found.name not in ACCIDENTS:
            continue
        expected = outcome(bad, theirs)
        if (found and found.name) != (expected and expected.name):
            wrong.append(f"{bad}: {found}\n  upstream: {expected}")
    assert not wrong, "\n".join(wrong)
    assert outcome(call, mine) == works
