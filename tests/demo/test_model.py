"""The model on a mesh against the dense one in NumPy, and its training."""

import re
from functools import partial

import numpy as np
import pytest

import minijax
from minijax import demo
from minijax.demo import dense, model, train
from minijax.demo.data import batches, encode
from minijax.demo.model import Sizes
from minijax.sharding import PartitionSpec as P

TEXT = encode("a test", "the quick brown fox jumps over the lazy dog. " * 5)
SIZES = Sizes(
    alphabet=len(TEXT.alphabet),
    context=3,
    embedding=8,
    width=8,
    experts=8,
    hidden=8,
    slots=1.0,
)
DEVICES = [1, 2, 4, 8]


@pytest.fixture(params=DEVICES)
def mesh(request):
    mesh = demo.make_mesh(request.param, None)
    assert mesh.size == request.param
    with minijax.set_mesh(mesh):
        yield mesh


def to_numpy(params, dtype=np.float64):
    return {name: np.asarray(value, dtype) for name, value in params.items()}


def assert_close(got, right):
    assert got.keys() == right.keys()
    for name in right:
        scale = np.abs(right[name]).max()
        np.testing.assert_allclose(
            np.asarray(got[name]), right[name], rtol=0, atol=1e-5 * scale, err_msg=name
        )


def test_loss_and_gradients_are_those_of_the_dense_model(mesh):
    params = train.start(0, SIZES).params
    batch = next(batches(TEXT, SIZES.context, 64, seed=0))
    exact = to_numpy(params)
    assert dense.closest_choice(exact, batch[0], SIZES, mesh.size) > 1e-5
    differentiate = minijax.jit(
        minijax.value_and_grad(partial(model.loss, sizes=SIZES))
    )
    loss, grads = differentiate(params, *train.place(batch))
    right_loss, right = dense.loss_and_gradients(exact, *batch, SIZES, mesh.size)
    assert float(loss) == pytest.approx(right_loss, rel=1e-6)
    assert_close(grads, right)
    # A gradient is stored as its parameter is.
    for name, value in params.items():
        assert grads[name].sharding == value.sharding


def test_training_is_that_of_the_dense_model(mesh):
    step = minijax.jit(partial(train.step, sizes=SIZES))
    state = train.start(0, SIZES)
    a, b = train.DECAY
    params = to_numpy(state.params)
    mean = square = dict.fromkeys(params, 0.0)
    source = batches(TEXT, SIZES.context, 64, seed=0)
    for count, batch in zip(range(1, 4), source, strict=False):
        right_loss, grads = dense.loss_and_gradients(params, *batch, SIZES, mesh.size)
        mean = {k: a * mean[k] + (1 - a) * grads[k] for k in params}
        square = {k: b * square[k] + (1 - b) * grads[k] ** 2 for k in params}
        params = {
            k: params[k]
            - train.RATE
            * (mean[k] / (1 - a**count))
            / (np.sqrt(square[k] / (1 - b**count)) + 1e-8)
            for k in params
        }
        state, loss = step(state, *train.place(batch))
        assert float(loss) == pytest.approx(right_loss, rel=1e-4)
    # Adam divides by the size of the gradient, so rounding in small ones shows.
    for name, value in params.items():
        got = np.asarray(state.params[name])
        np.testing.assert_allclose(got, value, rtol=0, atol=train.RATE / 10)


def test_the_program_moves_tokens_and_weights_as_it_says():
    with minijax.set_mesh(demo.make_mesh(8, None)):
        state = train.start(0, SIZES)
        batch = train.place(next(batches(TEXT, SIZES.context, 64, seed=0)))
        step = minijax.jit(partial(train.step, sizes=SIZES))
        text = step.lower(state, *batch).as_text()
    counts = {
        kind: len(re.findall(rf'"?stablehlo.{kind}"?\(', text))
        for kind in ("all_to_all", "all_gather", "reduce_scatter")
    }
    # There and back, forward and backward; all parameters but the bias are gathered.
    assert counts == {"all_to_all": 4, "all_gather": 6, "reduce_scatter": 6}


def test_predict_gives_the_scores_of_the_dense_model(mesh):
    params = train.start(0, SIZES).params
    contexts, _ = next(batches(TEXT, SIZES.context, 64, seed=0))
    placed = minijax.device_put(contexts, model.TOKENS)
    scores = minijax.jit(partial(model.predict, sizes=SIZES))(params, placed)
    parts = np.split(contexts, mesh.size)
    right = [dense.forward(to_numpy(params), c, SIZES).scores for c in parts]
    np.testing.assert_allclose(np.asarray(scores), np.concatenate(right), atol=1e-5)


def test_written_lines_go_on_from_the_text():
    with minijax.set_mesh(demo.make_mesh(4, None)):
        params = train.start(0, SIZES).params
        lines = train.write(params, TEXT, SIZES, length=5, lines=4)
        again = train.write(params, TEXT, SIZES, length=5, lines=4)
    assert len(lines) == 4
    assert lines[0][0] == "the"
    assert all(len(written) == 5 for _, written in lines)
    assert lines == again


def test_slots_are_given_in_the_order_of_arrival():
    chosen = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], np.float32)
    taken = np.asarray(minijax.jit(partial(model.slots, capacity=2))(chosen))
    assert taken[:, 0].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert taken[:, 1].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0]]


def test_stored_parameters_are_whole_multiples_of_the_mesh():
    assert model.STORED.keys() == model.GATHERED.keys()
    with minijax.set_mesh(demo.make_mesh(8, None)):
        params = train.start(0, SIZES).params
        assert params["up"].sharding.spec == P("expert", "data", None)
        shards = [shard.data.size for shard in params["mix"].addressable_shards]
    assert shards == [params["mix"].size // 8] * 8
