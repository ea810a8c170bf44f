"""scan and map: a body run once for each slice of its inputs, handing on a carry.

The number of steps is known, so a scan can be differentiated backwards: what a step
hands to the backward pass is one more of the `ys`, and the backward pass is a scan in
the opposite direction. The primitive is in `scan_primitive`.

Upstream: `jax/_src/lax/control_flow/loops.py` (`scan`, `map`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.errors import control as errors
from minijax.core.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_map,
    tree_unflatten,
    treedef_tuple,
)
from minijax.core.trace import Tracer, typeof
from minijax.lax.joining import concatenate
from minijax.lax.shapes import asarray, reshape
from minijax.lax.slicing import slice_in_dim
from minijax.transforms.control import scan_backward, scan_lowering
from minijax.transforms.control.common import (
    Body,
    check_carry,
    chosen,
    forwarding,
    is_token,
    merged,
    promote_weak,
    rearranged,
    trace_body,
    where,
)
from minijax.transforms.control.scan_primitive import ScanIn, ScanOut, scan_p
from minijax.transforms.vmap import unmapped, vmap

Function = Callable[..., Any]

scan_p.partial_eval = scan_backward.partial_eval
scan_p.transpose = scan_backward.transpose
scan_p.lowering = scan_lowering.lowering


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Runs `carry, y = f(carry, x)` for each slice of `xs`.

    Args:
      f: the body. Its carry keeps tree and types.
      init: a pytree, the carry to begin with. Weakly typed leaves, such as Python
        scalars, take the type that comes out of the body.
      xs: a pytree of arrays, cut along dimension 0; None for none.
      length: the number of steps, needed where there are no `xs`.
      reverse: whether to go from the last slice to the first; `ys[i]` still belongs to
        `xs[i]`.
      unroll: how many steps make one round of the compiled loop; all where True or 0.

    Returns:
      The carry that comes out of the last step, and the pytree of `y`s, stacked along
      a new dimension 0.

    Raises:
      TypeError: where the carry comes out of another tree or type.
      ValueError: where the sizes of `xs` and `length` disagree.

    >>> import numpy as np
    >>> total, sums = scan(lambda c, x: (c + x, c + x), 0, np.arange(4))
    >>> int(total), sums.tolist()
    (6, [0, 1, 3, 6])

    Upstream: `jax/_src/lax/control_flow/loops.py` (`scan`).
    """
    if not callable(f):
        raise errors.not_callable("scan", "f argument should be a")
    init_leaves, init_tree = tree_flatten(init)
    xs_leaves, xs_tree = tree_flatten(xs)
    length = _length(xs_leaves, length)
    x_avals = [unmapped(typeof(x), 0) for x in xs_leaves]
    init_leaves, body = _traced(f, init_leaves, init_tree, x_avals, xs_tree)
    carry_tree, ys_tree = body.out_tree.children()
    count = carry_tree.num_leaves
    avals = [typeof(x) for x in init_leaves]
    after = carry_tree, body.jaxpr.out_avals[:count]
    check_carry("scan body", f, (init_tree, avals), after)
    params = {"length": length, "reverse": reverse, "unroll": _unroll(unroll, length)}
    carry, ys = _bind(body, init_leaves, xs_leaves, params)
    return tree_unflatten(carry_tree, carry), tree_unflatten(ys_tree, ys)


def _length(xs: Sequence[Any], length: Any) -> int:
    """The number of steps, on which all that is said of it agrees."""
    without = [x for x in xs if is_token(x) or not typeof(x).shape]
    if without:
        raise errors.scan_no_leading_axis(", ".join(str(x) for x in without))
    avals = [typeof(x) for x in xs]
    if any(a.sharding.spec.axes_of(0) for a in avals):
        specs = ", ".join(str(a.sharding.spec) for a in avals)
        raise errors.scan_leading_sharded(specs)
    sizes = [a.shape[0] for a in avals]
    if length is None:
        if not sizes:
            raise errors.scan_no_length()
        if len(set(sizes)) > 1:
            raise errors.scan_lengths_differ(sizes)
        return sizes[0]
    what = (
        "The `length` argument to `scan` expects a concrete `int` value. For "
        "scan-like iteration with a dynamic length, use `while_loop` or `fori_loop`."
    )
    length = _concrete(length, what)
    if any(size != length for size in sizes):
        raise errors.scan_length(length, sizes)
    return length


def _unroll(unroll: Any, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    what = "The `unroll` argument to `scan` expects a concrete `int` or `bool` value."
    if not isinstance(unroll, Tracer) and not hasattr(unroll, "__index__"):
        raise errors.scan_unroll_type(type(unroll))
    unroll = _concrete(unroll, what)
    if unroll < 0:
        raise errors.scan_unroll()
    return unroll


def _concrete(x: Any, what: str) -> int:
    value = x.concrete() if isinstance(x, Tracer) else x
    if value is None:
        raise errors.scan_not_concrete(str(x.aval).lstrip("~"), what, x.origin())
    return operator.index(int(value))


def _traced(
    f: Function,
    init: list[Any],
    init_tree: PyTreeDef,
    x_avals: list[Any],
    xs_tree: PyTreeDef,
) -> tuple[list[Any], Body]:
    """Traces the body; twice where weakly typed initial carries must be converted."""
    in_tree = treedef_tuple((treedef_tuple((init_tree, xs_tree)), tree_flatten({})[1]))
    body = _trace(f, in_tree, init, x_avals)
    carry_tree = body.out_tree.children()[0]
    if carry_tree.num_leaves != len(init):
        return init, body  # which is refused later
    outs = body.jaxpr.out_avals[: len(init)]
    promoted = [promote_weak(x, typeof(x), a) for x, a in zip(init, outs, strict=True)]
    if any(changed for _, changed in promoted):
        init = [x for x, _ in promoted]
        body = _trace(f, in_tree, init, x_avals)
    return init, body


def _trace(
    f: Function, in_tree: PyTreeDef, init: list[Any], x_avals: list[Any]
) -> Body:
    body = trace_body(f, in_tree, [*[typeof(x) for x in init], *x_avals], "scan")
    tree = body.out_tree
    pair = tree_unflatten(tree, body.jaxpr.out_avals)
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
        raise errors.scan_not_a_pair(pair)
    return body


def _bind(
    body: Body, init: list[Any], xs: list[Any], params: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Binds the scan without what only passes through it.

    A carry that never changes becomes a constant; stacked slices of an input are that
    input.
    """
    jaxpr, num_consts = body.closed(), len(body.consts)
    count = len(init)
    passed = forwarding(jaxpr)
    still = [i == num_consts + k for k, i in enumerate(passed[:count])]
    moving = [not s for s in still]
    first_x = num_consts + count
    same = [None if i is None or i < first_x else i - first_x for i in passed[count:]]
    ys = tuple(i is None for i in same)
    if any(still) or not all(ys):
        ins = [*where(still, num_consts), *range(num_consts)]
        ins += [*where(moving, num_consts), *range(first_x, len(jaxpr.invars))]
        jaxpr = rearranged(jaxpr, ins, [*where(moving), *where(ys, count)])
    constants, carried = chosen(init, still), chosen(init, moving)
    results = scan_p.bind(
        *constants,
        *body.consts,
        *carried,
        *xs,
        ft_in=ScanIn(num_consts + len(constants), len(carried), len(xs)),
        ft_out=ScanOut(len(carried), ys),
        jaxpr=jaxpr,
        **params,
    )
    constants = [x if is_token(x) else asarray(x) for x in constants]
    carry = merged(still, results[: len(carried)], constants)
    made = iter(results[len(carried) :])
    return carry, [next(made) if i is None else asarray(xs[i]) for i in same]


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each slice of `xs` along dimension 0, one after the other, stacked.

    Args:
      f: from a pytree of slices to a pytree.
      xs: a pytree of arrays.
      batch_size: how many slices to compute at once, by `vmap`; 0 for all.

    >>> import numpy as np
    >>> map(lambda x: x * 2, np.arange(3)).tolist()
    [0, 2, 4]

    Upstream: `jax/_src/lax/control_flow/loops.py` (`map`).
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    leaves, _ = tree_flatten(xs)
    if not leaves:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    for x in leaves:
        if not typeof(x).ndim:
            raise errors.map_scalar(str(typeof(x)))
        if typeof(x).sharding.spec.axes_of(0):
            raise errors.map_leading_sharded(str(typeof(x)))
    size = typeof(leaves[0]).shape[0]
    rounds = size // batch_size if batch_size else 0
    whole = rounds * batch_size
    if not rounds:
        return vmap(f)(xs)

    def head(x: Any) -> Any:
        first = slice_in_dim(x, 0, whole)
        return reshape(first, (rounds, batch_size, *typeof(x).shape[1:]))

    def flat(y: Any) -> Any:
        return reshape(y, (whole, *typeof(y).shape[2:]))

    ys = tree_map(flat, scan(lambda _, x: ((), vmap(f)(x)), (), tree_map(head, xs))[1])
    if whole == size:
        return ys
    rest = vmap(f)(tree_map(lambda x: slice_in_dim(x, whole, size), xs))
    return tree_map(lambda y, r: concatenate([y, r], 0), ys, rest)
