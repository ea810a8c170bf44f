"""The hand-written gradients against finite differences of the hand-written loss."""

import numpy as np
import pytest

from minijax.demo import dense
from minijax.demo.model import Sizes

# Slots for fewer tokens than come, so that some find none.
SIZES = Sizes(
    alphabet=7, context=3, embedding=4, width=6, experts=4, hidden=5, slots=0.75
)
SHAPES = {
    "embed": (7, 4),
    "mix": (3, 4, 6),
    "route": (6, 4),
    "up": (4, 6, 5),
    "down": (4, 5, 6),
    "out": (6, 7),
    "bias": (7,),
}
PARTS = 2


def random_problem(seed=0):
    generator = np.random.default_rng(seed)
    params = {k: generator.normal(size=shape) for k, shape in SHAPES.items()}
    contexts = generator.integers(7, size=(16, 3))
    return params, contexts, generator.integers(7, size=16)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_is_the_slope_of_the_loss(name):
    params, contexts, targets = random_problem()
    _, gradients = dense.loss_and_gradients(params, contexts, targets, SIZES, PARTS)
    direction = np.random.default_rng(1).normal(size=SHAPES[name])

    def loss(distance):
        moved = {**params, name: params[name] + distance * direction}
        return dense.loss_and_gradients(moved, contexts, targets, SIZES, PARTS)[0]

    step = 1e-6  # smaller than the lead of any token's expert, so no token moves
    assert dense.closest_choice(params, contexts, SIZES, PARTS) > 100 * step
    slope = (loss(step) - loss(-step)) / (2 * step)
    assert (gradients[name] * direction).sum() == pytest.approx(slope, rel=1e-6)


def test_some_tokens_find_no_slot_and_only_the_late_ones():
    params, contexts, _ = random_problem()
    seen = dense.forward(params, contexts[:8], SIZES)
    assert SIZES.capacity(8) == 2
    taken = seen.kept.sum(axis=0)
    assert taken.max() == 2
    assert seen.chosen.sum() > seen.kept.sum()
    for expert in range(4):
        arrivals = np.flatnonzero(seen.chosen[:, expert])
        kept = np.flatnonzero(seen.kept[:, expert])
        assert kept.tolist() == arrivals[:2].tolist()


def test_a_token_without_a_slot_passes_the_experts_by():
    params, contexts, _ = random_problem()
    seen = dense.forward(params, contexts, SIZES)
    late = seen.kept.sum(axis=1) == 0
    assert late.any()
    np.testing.assert_array_equal(seen.y[late], seen.x[late])
