"""A small mixture-of-experts character model, trained with expert parallelism.

The mesh has two axes. Tokens are sharded over both; the experts over `expert`. Each
layer's weights are *stored* in pieces, one a device, and *gathered* for a step:

    stored      f32[64@(data,expert),90]          a device keeps 1/8 of a matrix
    gathered    f32[64,90]{R:(data,expert)}       top_level_all_gather
    gradient    f32[64@(data,expert),90]          summed and cut: one reduce-scatter

and each token travels to the device of its expert and back:

    f32[8 experts, C, d]  --all_to_all-->  f32[2 of my experts, 4 C, d]  --MLP-->  ...

The model predicts the next character from the `context` before it. It is written for
one device; `shard_map` runs it on all. `dense.py` is the same model without a mesh.

Source of the routing: Fedus, Zoph, Shazeer, "Switch Transformers" (2021), section 2.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import minijax
from minijax import lax, random
from minijax import numpy as jnp
from minijax.sharding import PartitionSpec as P

AXES = ("data", "expert")

# An accelerator multiplies f32 with fewer bits unless asked not to, and then the
# comparison with the dense model would measure that.
einsum = partial(jnp.einsum, precision="highest")

type Params = Mapping[str, Any]

#: How each parameter is stored; its shape is in `initial`.
STORED = {
    "embed": P(None, AXES),
    "mix": P(None, None, AXES),
    "route": P(AXES, None),
    "up": P("expert", "data", None),
    "down": P("expert", "data", None),
    "out": P(AXES, None),
    "bias": P(None),
}
#: How a step uses it: whole, but for the experts. `bias` is small and always whole, so
#: its gradient is an all-reduce instead.
_WHOLE = P(reduced=set(AXES))
_MY_EXPERTS = P("expert", reduced={"data"})
GATHERED = {
    "embed": _WHOLE,
    "mix": _WHOLE,
    "route": _WHOLE,
    "up": _MY_EXPERTS,
    "down": _MY_EXPERTS,
    "out": _WHOLE,
    "bias": P(),
}
TOKENS = P(AXES)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model. `embedding` and `width` are multiples of the mesh's size.

    `slots` is how many tokens of one device an expert takes, over an even share.
    """

    alphabet: int
    context: int = 16
    embedding: int = 32
    width: int = 64
    experts: int = 8
    hidden: int = 128
    slots: float = 1.5
    balance: float = 0.01

    def capacity(self, tokens: int) -> int:
        """Tokens that an expert takes from a device with `tokens` of them.

        >>> Sizes(alphabet=90).capacity(64)
        12
        """
        return math.ceil(self.slots * tokens / self.experts)


def initial(key: Any, sizes: Sizes) -> dict[str, Any]:
    """Random parameters, not yet placed on a mesh."""
    s = sizes
    shapes = {  # the number of inputs that a sum runs over, and the shape
        "embed": (1, (s.alphabet, s.embedding)),
        "mix": (s.context * s.embedding, (s.context, s.embedding, s.width)),
        "route": (s.width, (s.width, s.experts)),
        "up": (s.width, (s.experts, s.width, s.hidden)),
        "down": (s.hidden, (s.experts, s.hidden, s.width)),
        "out": (s.width, (s.width, s.alphabet)),
    }
    # One draw that is cut: it compiles in a fraction of the time of six.
    counts = [math.prod(shape) for _, shape in shapes.values()]
    drawn = random.normal(key, (sum(counts),))
    pieces = jnp.split(drawn, list(accumulate(counts))[:-1])
    params = {
        name: piece.reshape(shape) / math.sqrt(inputs)
        for piece, (name, (inputs, shape)) in zip(pieces, shapes.items(), strict=True)
    }
    return {**params, "bias": jnp.zeros(s.alphabet)}


def loss(params: Params, contexts: Any, targets: Any, sizes: Sizes) -> Any:
    """The mean loss of a batch: stored parameters, sharded tokens in; f32[] out."""

    @minijax.shard_map(in_specs=(GATHERED, TOKENS, TOKENS), out_specs=P())
    def per_device(params: Params, contexts: Any, targets: Any) -> Any:
        scores, imbalance = forward(params, contexts, sizes)
        right = targets[:, None] == jnp.arange(sizes.alphabet)
        surprise = -jnp.mean(jnp.sum(log_softmax(scores) * right, axis=1))
        return lax.pmean(surprise + sizes.balance * imbalance, AXES)

    return per_device(minijax.top_level_all_gather(params, GATHERED), contexts, targets)


def predict(params: Params, contexts: Any, sizes: Sizes) -> Any:
    """The scores of the next character: i32[tokens,context] to f32[tokens,alphabet]."""

    @minijax.shard_map(in_specs=(GATHERED, TOKENS), out_specs=TOKENS)
    def per_device(params: Params, contexts: Any) -> Any:
        return forward(params, contexts, sizes)[0]

    return per_device(minijax.top_level_all_gather(params, GATHERED), contexts)


def forward(params: Params, contexts: Any, sizes: Sizes) -> tuple[Any, Any]:
    """One device's tokens through the model: the scores, and how uneven the load is."""
    letters = params["embed"][contexts]
    x = jnp.tanh(einsum("tce,ced->td", letters, params["mix"]))
    chances = jnp.exp(log_softmax(einsum("td,dx->tx", x, params["route"])))
    chosen = jnp.argmax(chances, axis=1)[:, None] == jnp.arange(sizes.experts)
    chosen = chosen.astype(x.dtype)  # f32[t,x], a single one in each row

    dispatch = slots(
        chosen, sizes.capacity(len(contexts))
    )  # f32[t,x,c], zeros and ones
    mine = einsum("txc,td->xcd", dispatch, x)
    there = lax.all_to_all(mine, "expert", split_axis=0, concat_axis=1, tiled=True)
    hidden = jnp.tanh(einsum("xcd,xdh->xch", there, params["up"]))
    there = einsum("xch,xhd->xcd", hidden, params["down"])
    back = lax.all_to_all(there, "expert", split_axis=1, concat_axis=0, tiled=True)
    x = x + einsum("txc,tx,xcd->td", dispatch, chances, back)

    # Least when every expert is chosen equally often (the paper's equation 4).
    imbalance = sizes.experts * jnp.sum(chosen.mean(axis=0) * chances.mean(axis=0))
    return einsum("td,da->ta", x, params["out"]) + params["bias"], imbalance


def slots(chosen: Any, capacity: int) -> Any:
    """Gives each token the next slot of its expert: f32[t,x] to f32[t,x,capacity].

    A token that comes when all slots are taken gets none; its expert adds nothing.
    """
    position = jnp.cumsum(chosen, axis=0) - 1
    return chosen[:, :, None] * (position[:, :, None] == jnp.arange(capacity))


def log_softmax(x: Any) -> Any:
    """The logarithm of the softmax over the last axis."""
    x = x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    return x - jnp.log(jnp.sum(jnp.exp(x), axis=-1, keepdims=True))
