"""Products summed over dimensions: inner, outer, tensordot, einsum.

`dot` and `matmul` are in `lax/numeric.py`, as `@` stands for the latter.

Upstream: `jax/_src/numpy/tensor_contractions.py`, `einsum.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.errors import numpy as errors
from minijax.core.out_sharding import canonicalize_sharding
from minijax.core.trace import typeof
from minijax.lax import shapes
from minijax.lax.arithmetic import mul
from minijax.lax.dot import dot_general
from minijax.lax.numeric import conjugate, dot, multiply
from minijax.lax.outlined import outlined
from minijax.lax.promote import as_arrays, cast, promote_dtypes
from minijax.lax.rearrange import diagonal, ravel
from minijax.lax.reductions import reduce_sum
from minijax.lax.shapes import canonicalize_axis, expand_dims

# ---------------------------------------------------------------- of two operands


def inner(a: Any, b: Any, *, precision: Any = None) -> Any:
    """Products summed over the last dimension of both.

    >>> import minijax.numpy as jnp
    >>> jnp.inner(jnp.arange(3), jnp.arange(3))
    Array(5, dtype=int32)
    """
    a, b = as_arrays("inner", a, b)
    if 0 in (typeof(a).ndim, typeof(b).ndim):
        return multiply(a, b)
    return tensordot(a, b, ((-1,), (-1,)), precision=precision)


def outer(a: Any, b: Any) -> Any:
    """The product of each element of `a` with each of `b`, both made flat.

    >>> import minijax.numpy as jnp
    >>> jnp.outer(jnp.arange(2), jnp.arange(3))
    Array([[0, 0, 0],
           [0, 1, 2]], dtype=int32)
    """
    a, b = promote_dtypes(*as_arrays("outer", a, b))
    return mul(expand_dims(ravel(a), (1,)), expand_dims(ravel(b), (0,)))


def vdot(a: Any, b: Any, *, precision: Any = None) -> Any:
    """The product of two vectors, or of arrays made flat; `a` is conjugated."""
    a, b = as_arrays("vdot", a, b)
    return dot(ravel(conjugate(a)), ravel(b), precision=precision)


def tensordot(
    a: Any, b: Any, axes: Any = 2, *, precision: Any = None, out_sharding: Any = None
) -> Any:
    """Products summed over pairs of axes.

    `axes` is a number `n`, for the last `n` axes of `a` and the first of `b`; or a pair
    of axes or sequences of axes.

    >>> import minijax.numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), 1).shape
    (2, 4)
    """
    a, b = as_arrays("tensordot", a, b)
    ndims = typeof(a).ndim, typeof(b).ndim
    if isinstance(axes, int | np.integer):
        count = int(axes)
        pair = (range(ndims[0] - count, ndims[0]), range(count))
    elif isinstance(axes, tuple | list) and len(axes) == 2:
        pair = tuple(v if np.ndim(v) else (v,) for v in axes)
    else:
        raise errors.tensordot_axes(axes)
    contracting = tuple(
        tuple(canonicalize_axis(i, ndim) for i in side)
        for side, ndim in zip(pair, ndims, strict=True)
    )
    if len(contracting[0]) != len(contracting[1]):
        raise errors.tensordot_axes(axes)
    return _product(a, b, (contracting, ((), ())), precision, out_sharding)


def _product(
    a: Any, b: Any, numbers: Any, precision: Any, out_sharding: Any = None
) -> Any:
    wanted, weak = dtypes.result_type(a, b, return_weak_type_flag=True)
    out = dot_general(
        a,
        b,
        numbers,
        precision=precision,
        preferred_element_type=wanted,
        out_sharding=out_sharding,
    )
    return cast(out, wanted, weak)


@outlined("kron")
def kron(a: Any, b: Any) -> Any:
    """Kronecker's product: `b` times each element of `a`, laid out as blocks."""
    a, b = promote_dtypes(*as_arrays("kron", a, b))
    rank = max(typeof(a).ndim, typeof(b).ndim)
    a, b = (shapes.broadcast_to_rank(x, rank) for x in (a, b))
    sizes = [n * m for n, m in zip(typeof(a).shape, typeof(b).shape, strict=True)]
    a = expand_dims(a, range(1, 2 * rank, 2))
    b = expand_dims(b, range(0, 2 * rank, 2))
    return shapes.reshape(mul(a, b), sizes)


# ------------------------------------------------------------------------- einsum


def einsum(
    subscripts: str,
    /,
    *operands: Any,
    precision: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Einstein's notation: products summed over the labels that the result lacks.

    Args:
      subscripts: the labels of each operand's dimensions, and of the result's:
        `"bij,jk->bik"`. Without an arrow, the result has the labels that stand once, in
        order. `...` stands for dimensions that broadcast.
      operands: as many arrays as there are terms.
      precision: see `lax.dot_general`.
      out_sharding: over Explicit axes, how the result is laid out.

    The operands are contracted one by one from left to right. (Upstream looks for the
    cheapest order.)

    Raises ValueError where subscripts and operands do not fit.

    >>> import minijax.numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    out_sharding = canonicalize_sharding(out_sharding, "einsum")
    arrays = as_arrays("einsum", *operands)
    terms, output = _parsed(subscripts, [typeof(x).ndim for x in arrays])
    sizes = _sizes(terms, [typeof(x).shape for x in arrays])
    prepared = [_prepared(x, t, sizes) for x, t in zip(arrays, terms, strict=True)]
    promoted = promote_dtypes(*(x for x, _ in prepared))
    pairs = [(x, t) for x, (_, t) in zip(promoted, prepared, strict=True)]
    x, labels = pairs[0]
    for i, (y, others) in enumerate(pairs[1:], 2):
        later = set(output).union(*(t for _, t in pairs[i:]))
        to = out_sharding if i == len(pairs) else None
        x, labels = _contracted(x, labels, y, others, later, precision, to)
    gone = tuple(i for i, label in enumerate(labels) if label not in output)
    if gone:
        x = reduce_sum(x, gone)
        labels = "".join(label for label in labels if label in output)
    return _as_output(x, labels, output, sizes)


def _parsed(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """The terms and the result, with an ellipsis spelled out in fresh labels."""
    if not isinstance(subscripts, str):
        raise errors.einsum_subscripts(type(subscripts))
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise errors.einsum_operands(len(ndims), len(terms))
    fresh = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in text]
    most = 0
    for i, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        count = ndim - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term):
            raise errors.einsum_rank(term, ndim)
        most = max(most, count)
        # The last dimensions of all ellipses are aligned.
        terms[i] = term.replace("...", "".join(fresh[:count][::-1]))
    whole = "".join(fresh[:most][::-1])
    if not arrow:
        seen = "".join(terms)
        once = [c for c in seen if seen.count(c) == 1 and c not in whole]
        output = whole + "".join(sorted(once))
    output = output.replace("...", whole)
    if len(set(output)) != len(output) or not set(output) <= set("".join(terms)):
        raise errors.einsum_output(output)
    return terms, output


def _sizes(terms: Sequence[str], shapes: Sequence[Any]) -> dict[str, int]:
    """The size of each label; dimensions of size 1 broadcast."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            known = sizes.setdefault(label, size)
            if known != size and 1 not in (known, size):
                raise errors.einsum_size(label, known, size)
            if known == 1:
                sizes[label] = size
    return sizes


def _prepared(x: Any, term: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """An operand without repeated labels and without dimensions to broadcast."""
    thin = tuple(
        i
        for i, (label, n) in enumerate(zip(term, typeof(x).shape, strict=True))
        if n == 1 and sizes[label] != 1
    )
    if thin:
        x = shapes.squeeze(x, thin)
        term = "".join(c for i, c in enumerate(term) if i not in thin)
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            i = term.index(label)
            j = term.index(label, i + 1)
            x = diagonal(x, 0, i, j)  # which puts it last
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + label
    return x, term


def _contracted(
    x: Any,
    ours: str,
    y: Any,
    theirs: str,
    later: set[str],
    precision: Any,
    out_sharding: Any,
) -> tuple[Any, str]:
    """The product of two operands, summed over the labels that nothing needs later."""
    x, ours = _summed(x, ours, set(theirs) | later)
    y, theirs = _summed(y, theirs, set(ours) | later)
    shared = [c for c in ours if c in theirs]
    batch = [c for c in shared if c in later]
    contracting = [c for c in shared if c not in later]
    numbers = tuple(
        tuple(tuple(labels.index(c) for c in group) for labels in (ours, theirs))
        for group in (contracting, batch)
    )
    out = _product(x, y, numbers, precision, out_sharding)
    free = [c for c in ours + theirs if c not in shared]
    return out, "".join(batch + free)


def _summed(x: Any, labels: str, needed: set[str]) -> tuple[Any, str]:
    gone = tuple(i for i, c in enumerate(labels) if c not in needed)
    if not gone:
        return x, labels
    return reduce_sum(x, gone), "".join(c for c in labels if c in needed)


def _as_output(x: Any, labels: str, output: str, sizes: dict[str, int]) -> Any:
    """The dimensions in the order asked for."""
    missing = [c for c in output if c not in labels]  # of size 1 in every operand
    if missing:
        shape = (*(sizes[c] for c in missing), *typeof(x).shape)
        x = shapes.broadcast_to(x, shape)
        labels = "".join(missing) + labels
    return shapes.transpose(x, [labels.index(c) for c in output])
