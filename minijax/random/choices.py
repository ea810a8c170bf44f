"""Permutations and choices: which, and in which order.

Upstream: `jax/_src/random/core.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import Shape
from minijax.core.errors import random as errors
from minijax.core.trace import typeof
from minijax.lax.arithmetic import add, sub
from minijax.lax.convert import convert_element_type
from minijax.lax.promote import broadcast_shapes
from minijax.lax.rearrange import take
from minijax.lax.shapes import canonicalize_axis, canonicalize_shape, expand_dims
from minijax.lax.shapes import reshape as reshape_to
from minijax.lax.slicing import index_in_dim, slice_in_dim
from minijax.lax.sorting import sort_key_val, top_k
from minijax.lax.statistics import argmax, cumsum
from minijax.lax.transcendental import log
from minijax.numpy.creation import arange, asarray, zeros
from minijax.numpy.searching import searchsorted
from minijax.numpy.shaping import moveaxis
from minijax.random.keys import UINT32, check_key, random_bits, split
from minijax.random.samplers import gumbel, randint, uniform
from minijax.transforms.axis_types import with_out_sharding
from minijax.transforms.jit import jit


def permutation(
    key: Any,
    x: Any,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Any:
    """Shuffles along an axis.

    Args:
      key: a single key.
      x: an array, or an integer `n`, which stands for `arange(n)`.
      axis: what is shuffled.
      independent: whether each vector along the axis is shuffled in its own way.
      out_sharding: of the result, over Explicit mesh axes.

    >>> import minijax
    >>> minijax.random.permutation(minijax.random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    check_key("permutation", key)
    aval = typeof(x)
    axis = canonicalize_axis(axis, aval.ndim or 1)
    if not aval.shape:
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise errors.not_permutable(aval.dtype)
        x = arange(int(x))

    def draw(key: Any, x: Any) -> Any:
        if independent or aval.ndim <= 1:
            return _shuffle(key, asarray(x), axis)
        return take(x, _shuffle(key, arange(aval.shape[axis]), 0), axis)

    return with_out_sharding(draw, "permutation", out_sharding)(key, x)


def _by_random_keys(key: Any, x: Any, axis: int) -> Any:
    """Sorts by random numbers, again and again, so that ties do not matter."""
    size = max(1, typeof(x).size)
    rounds = math.ceil(3 * np.log(size) / np.log(np.iinfo(np.uint32).max))
    for _ in range(rounds):
        key, now = (index_in_dim(split(key), i, 0, keepdims=False) for i in (0, 1))
        _, x = sort_key_val(random_bits(now, typeof(x).shape, UINT32), x, axis)
    return x


_shuffle = jit(_by_random_keys, static_argnums=2)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
) -> Any:
    """Chooses among the slices of an array, or among `arange(a)`.

    Args:
      key: a single key.
      a: an array, or an integer.
      shape: how many are chosen, and in which arrangement.
      replace: whether one may be chosen more than once.
      p: the probabilities, one for each; by default they are equal.
      axis: along which axis the slices lie.

    Raises ValueError where there is too little to choose from.

    >>> import minijax
    >>> minijax.random.choice(minijax.random.key(0), 10, (3,))
    Array([9, 0, 2], dtype=int32)
    """
    check_key("choice", key)
    if not isinstance(shape, Sequence):
        raise errors.choice_shape(shape)
    aval, draws = typeof(a), math.prod(shape)
    if aval.shape:
        axis = canonicalize_axis(axis, aval.ndim)
    size = aval.shape[axis] if aval.shape else int(a)
    if draws == 0:
        return zeros(shape, aval.dtype)
    if size <= 0:
        raise errors.choice_of_nothing()
    if not replace and draws > size:
        raise errors.choice_too_many(draws, size)
    if p is not None:
        chosen = _by_probability(key, shape, size, replace, asarray(p))
    elif replace:
        chosen = randint(key, shape, 0, size)
    else:
        shuffled = permutation(key, a if aval.shape else size, axis)
        return _arranged(slice_in_dim(shuffled, 0, draws, axis=axis), aval, shape, axis)
    if not aval.shape:
        return reshape_to(chosen, shape)
    return _arranged(take(a, chosen, axis), aval, shape, axis)


def _arranged(x: Any, aval: Any, shape: Any, axis: int) -> Any:
    if not aval.shape:
        return reshape_to(x, shape)
    return reshape_to(x, (*aval.shape[:axis], *shape, *aval.shape[axis + 1 :]))


def _by_probability(key: Any, shape: Any, size: int, replace: bool, p: Any) -> Any:
    p = convert_element_type(p, dtypes.to_inexact_dtype(p.dtype))
    if p.shape != (size,):
        raise errors.choice_probabilities(p.shape, size)
    integer = dtypes.default_dtype("i")
    if replace:
        total = cumsum(p)
        last = index_in_dim(total, size - 1, 0, keepdims=False)
        drawn = uniform(key, shape, dtype=p.dtype)
        at = last * sub(np.ones((), p.dtype)[()], drawn)
        return convert_element_type(searchsorted(total, at), integer)
    scores = add(gumbel(key, (size,), dtype=p.dtype), log(p))
    chosen = top_k(scores, math.prod(shape))[1]
    return convert_element_type(chosen, integer)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Samples positions along `axis` with probabilities `softmax(logits)`.

    `shape` ends with the shape of `logits` without `axis`; the dimensions before that
    are filled with further samples, with or without replacement.

    >>> import minijax
    >>> import numpy as np
    >>> minijax.random.categorical(minijax.random.key(0), np.zeros(3, np.float32))
    Array(1, dtype=int32)
    """
    check_key("categorical", key)
    logits = asarray(logits)
    batch = tuple(np.delete(logits.shape, axis).tolist())
    shape = batch if shape is None else canonicalize_shape(shape)
    result = broadcast_shapes(shape, batch)
    if result != shape:
        raise errors.parameter_shapes("categorical", result, shape)
    axis = canonicalize_axis(axis, logits.ndim)
    sample = _with_replacement if replace else _without_replacement

    def draw(key: Any, logits: Any) -> Any:
        return sample(key, logits, axis, shape, batch, mode)

    return with_out_sharding(draw, "categorical", out_sharding)(key, logits)


def _with_replacement(
    key: Any, logits: Any, axis: int, shape: Shape, batch: Shape, mode: str | None
) -> Any:
    lead = len(shape) - len(batch)
    sizes = [*shape[lead:]]
    sizes.insert(axis, logits.shape[axis])
    noise = gumbel(key, (*shape[:lead], *sizes), logits.dtype, mode)
    scores = noise + expand_dims(logits, tuple(range(lead)))
    return argmax(scores, axis=axis + lead)


def _without_replacement(
    key: Any, logits: Any, axis: int, shape: Shape, batch: Shape, mode: str | None
) -> Any:
    count = math.prod(shape[: len(shape) - len(batch)])
    if count > logits.shape[axis]:
        raise errors.categories_too_few(count, logits.shape[axis])
    scores = add(logits, gumbel(key, logits.shape, logits.dtype, mode))
    chosen = top_k(moveaxis(scores, axis, -1), count)[1]
    rank = len(chosen.shape)
    return reshape_to(chosen, shape, (rank - 1, *range(rank - 1)))
