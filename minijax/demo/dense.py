"""The model of `model.py` in plain NumPy, with gradients written by hand.

It is what the demonstration is checked against, so it shares no code with minijax and
works differently: there is no dispatch and no collective. Every expert sees every
token, and a matrix of gates, mostly zero, says whose answer counts. Only the capacity
remembers that there were devices: an expert takes so many tokens *from each*, so the
batch is cut into the same parts.

It computes in the parameters' dtype; the check passes float64.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from minijax.demo.model import Sizes

type Array = np.ndarray[Any, Any]
type Params = Mapping[str, Array]


class Pass(NamedTuple):
    """What the backward pass needs of the forward pass of one part of a batch."""

    letters: Array  # [t,c,e]
    x: Array  # [t,d]
    chances: Array  # [t,x]
    chosen: Array  # [t,x], a single one in each row
    kept: Array  # [t,x], `chosen` without the tokens that found no slot
    hidden: Array  # [t,x,h]
    answers: Array  # [t,x,d]
    y: Array  # [t,d]
    scores: Array  # [t,a]


def loss_and_gradients(
    params: Params, contexts: Array, targets: Array, sizes: Sizes, parts: int
) -> tuple[float, dict[str, Array]]:
    """The loss of a batch cut into `parts`, and its gradient for every parameter."""
    losses: list[float] = []
    gradients: list[dict[str, Array]] = []
    for c, t in zip(np.split(contexts, parts), np.split(targets, parts), strict=True):
        seen = forward(params, c, sizes)
        losses.append(_loss(seen, t, sizes))
        gradients.append(_backward(params, seen, c, t, sizes))
    mean = {name: np.mean([g[name] for g in gradients], axis=0) for name in params}
    return float(np.mean(losses)), mean


def forward(params: Params, contexts: Array, sizes: Sizes) -> Pass:
    """One device's tokens through the model."""
    letters = params["embed"][contexts]
    x = np.tanh(np.einsum("tce,ced->td", letters, params["mix"], optimize=True))
    chances = softmax(x @ params["route"])
    chosen = np.eye(sizes.experts, dtype=x.dtype)[chances.argmax(axis=1)]
    kept = chosen * (chosen.cumsum(axis=0) <= sizes.capacity(len(x)))
    hidden = np.tanh(np.einsum("td,xdh->txh", x, params["up"], optimize=True))
    answers = np.einsum("txh,xhd->txd", hidden, params["down"], optimize=True)
    y = x + np.einsum("tx,txd->td", kept * chances, answers)
    scores = y @ params["out"] + params["bias"]
    return Pass(letters, x, chances, chosen, kept, hidden, answers, y, scores)


def _loss(seen: Pass, targets: Array, sizes: Sizes) -> float:
    rows = np.arange(len(targets))
    surprise = -np.log(softmax(seen.scores)[rows, targets]).mean()
    load = seen.chosen.mean(axis=0)
    imbalance = sizes.experts * (load * seen.chances.mean(axis=0)).sum()
    return surprise + sizes.balance * imbalance


def _backward(
    params: Params, seen: Pass, contexts: Array, targets: Array, sizes: Sizes
) -> dict[str, Array]:
    """The gradient of `_loss`. `d_v` is the gradient for the value `v`."""
    letters, x, chances, chosen, kept, hidden, answers, y, scores = seen
    count = len(targets)

    d_scores = softmax(scores)
    d_scores[np.arange(count), targets] -= 1
    d_scores /= count
    d_y = d_scores @ params["out"].T

    d_answers = (kept * chances)[:, :, None] * d_y[:, None, :]
    d_hidden = np.einsum("txd,xhd->txh", d_answers, params["down"], optimize=True)
    d_before = d_hidden * (1 - hidden**2)  # before the tanh

    load = chosen.mean(axis=0)
    d_chances = kept * np.einsum("td,txd->tx", d_y, answers)
    d_chances = d_chances + sizes.balance * sizes.experts * load / count
    d_route = chances * (d_chances - (chances * d_chances).sum(axis=1, keepdims=True))

    d_x = d_y + d_route @ params["route"].T
    d_x = d_x + np.einsum("txh,xdh->td", d_before, params["up"], optimize=True)
    d_mixed = d_x * (1 - x**2)
    d_letters = np.einsum("td,ced->tce", d_mixed, params["mix"], optimize=True)
    d_embed = np.zeros_like(params["embed"])
    np.add.at(d_embed, contexts, d_letters)  # a character occurs many times

    return {
        "embed": d_embed,
        "mix": np.einsum("tce,td->ced", letters, d_mixed, optimize=True),
        "route": x.T @ d_route,
        "up": np.einsum("td,txh->xdh", x, d_before, optimize=True),
        "down": np.einsum("txh,txd->xhd", hidden, d_answers, optimize=True),
        "out": y.T @ d_scores,
        "bias": d_scores.sum(axis=0),
    }


def closest_choice(params: Params, contexts: Array, sizes: Sizes, parts: int) -> float:
    """The least lead, in probability, of any token's expert over its second best.

    Where it is near zero, rounding decides who is chosen, and two correct programs may
    differ by a whole expert's answer.
    """
    chances = [forward(params, c, sizes).chances for c in np.split(contexts, parts)]
    best = np.sort(np.concatenate(chances), axis=1)
    return float((best[:, -1] - best[:, -2]).min())


def softmax(x: Array) -> Array:
    """The softmax over the last axis.

    >>> softmax(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
