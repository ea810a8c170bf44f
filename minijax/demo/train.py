"""Training: the step that is compiled, and the loop that feeds it.

`step` is one program: gather, forward, `grad`, and Adam on the pieces that each device
stores. The optimizer knows nothing of meshes: its arithmetic is on global arrays, whose
types say how they are sharded.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minijax
from minijax import numpy as jnp
from minijax import tree
from minijax.demo import model
from minijax.demo.data import Text
from minijax.demo.dense import softmax
from minijax.demo.model import Params, Sizes
from minijax.sharding import reshard

RATE = 3e-3
DECAY = (0.9, 0.99)
EPSILON = 1e-8
TEMPERATURE = 0.7


class State(NamedTuple):
    """Parameters, and Adam's running means of the gradient and of its square."""

    params: Params
    mean: Params
    square: Params
    count: Any


class Moment(NamedTuple):
    """How far the training is."""

    step: int
    loss: float
    seconds: float


def start(seed: int, sizes: Sizes) -> State:
    """The state before the first step, placed on the context mesh."""

    @minijax.jit
    def fresh(key: Any) -> State:
        params = reshard(model.initial(key, sizes), model.STORED)
        zeros = tree.map(jnp.zeros_like, params)
        return State(params, zeros, zeros, jnp.zeros(()))

    return fresh(minijax.random.key(seed))


def step(state: State, contexts: Any, targets: Any, sizes: Sizes) -> tuple[State, Any]:
    """One step of Adam (Kingma and Ba, 2015); the new state, and the loss before it."""
    loss_of = partial(model.loss, contexts=contexts, targets=targets, sizes=sizes)
    loss, grads = minijax.value_and_grad(loss_of)(state.params)
    (a, b), count = DECAY, state.count + 1
    mean = tree.map(lambda m, g: a * m + (1 - a) * g, state.mean, grads)
    square = tree.map(lambda s, g: b * s + (1 - b) * g * g, state.square, grads)
    # Both means start at zero, and are too small at first by these factors.
    rate = RATE * jnp.sqrt(1 - b**count) / (1 - a**count)
    params = tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(s) + EPSILON),
        state.params,
        mean,
        square,
    )
    return State(params, mean, square, count), loss


def place(batch: tuple[Any, Any]) -> tuple[Any, Any]:
    """Puts a batch on the context mesh, some tokens on each device."""
    return minijax.device_put(batch, model.TOKENS)


def run(
    step: Callable[..., Any],
    state: State,
    batches: Iterator[Any],
    steps: int,
    show: Callable[[Moment], None],
) -> tuple[State, list[Moment]]:
    """Takes `steps` steps and shows the moment after each; the last state and all."""
    moments: list[Moment] = []
    begin = time.perf_counter()
    for i in range(1, steps + 1):
        state, loss = step(state, *place(next(batches)))
        moments.append(Moment(i, float(loss), time.perf_counter() - begin))
        show(moments[-1])
    return state, moments


def write(
    params: Params, text: Text, sizes: Sizes, *, length: int, lines: int
) -> list[tuple[str, str]]:
    """Lets the model go on from places of the text, one on each of `lines` devices.

    Each character is drawn by the model's probabilities, sharpened a little. Returns
    pairs of what was given and what was written.
    """
    predict = minijax.jit(partial(model.predict, sizes=sizes))
    generator = np.random.default_rng(0)
    places = np.linspace(0, len(text.codes) - sizes.context, lines).astype(int)
    codes = text.codes[places[:, None] + np.arange(sizes.context)]
    for _ in range(length):
        recent = minijax.device_put(codes[:, -sizes.context :], model.TOKENS)
        totals = softmax(np.asarray(predict(params, recent)) / TEMPERATURE).cumsum(
            axis=1
        )
        drawn = (totals < generator.random((lines, 1))).sum(axis=1)
        drawn = drawn.clip(max=sizes.alphabet - 1)
        codes = np.concatenate([codes, drawn[:, None].astype(np.int32)], axis=1)
    given, written = np.split(codes, [sizes.context], axis=1)
    return [
        (text.decode(g), text.decode(w)) for g, w in zip(given, written, strict=True)
    ]
