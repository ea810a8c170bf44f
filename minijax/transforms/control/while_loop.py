"""while_loop and fori_loop: a body run as long as a condition holds.

The condition reads the carry and decides; the body turns one carry into the next, of
the same type. How often is not known beforehand, so a while loop has a derivative
forwards but not backwards. `fori_loop` with bounds that are known is a `scan`, which
has both. The primitive is in `while_primitive`.

Upstream: `jax/_src/lax/control_flow/loops.py` (`while_loop`, `fori_loop`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import control as errors
from minijax.core.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_unflatten,
    treedef_is_leaf,
    treedef_tuple,
)
from minijax.core.trace import Tracer, typeof
from minijax.lax.arithmetic import add
from minijax.lax.compare import lt
from minijax.lax.convert import convert_element_type
from minijax.lax.rules import const
from minijax.transforms.control.common import (
    Body,
    check_carry,
    promote_weak,
    trace_body,
    vary_over,
    varying,
)
from minijax.transforms.control.scan import scan
from minijax.transforms.control.while_primitive import bind_loop

Function = Callable[..., Any]


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Applies `body_fun` to a value as long as `cond_fun` of it holds.

    Args:
      cond_fun: from a value to a boolean scalar.
      body_fun: from a value to the next, of the same tree and types.
      init_val: a pytree of arrays. Weakly typed leaves, such as Python scalars, take
        the type that comes out of the body.

    Raises:
      TypeError: where what comes out of the functions is of another tree or type.
      ValueError: when it is differentiated in reverse mode.

    >>> int(while_loop(lambda x: x < 100, lambda x: x * 2, 3))
    192

    Upstream: `jax/_src/lax/control_flow/loops.py` (`while_loop`).
    """
    if not (callable(body_fun) and callable(cond_fun)):
        what = "body_fun and cond_fun arguments should be"
        raise errors.not_callable("while_loop", what)
    init, tree = tree_flatten(init_val)
    init, cond, body = _traced(cond_fun, body_fun, init, tree)
    avals = [typeof(x) for x in init]
    after = body.out_tree, body.jaxpr.out_avals
    check_carry("while_loop body", body_fun, (tree, avals), after)
    return tree_unflatten(body.out_tree, bind_loop(cond, body, init))


def _traced(
    cond_fun: Function, body_fun: Function, init: list[Any], tree: PyTreeDef
) -> tuple[list[Any], Body, Body]:
    """Traces both functions on the types of the carry, which the first pass tells."""
    in_tree = treedef_tuple((treedef_tuple((tree,)), tree_flatten({})[1]))

    def trace(init: list[Any]) -> tuple[Body, Body, Any]:
        avals = [typeof(x) for x in init]
        cond = trace_body(cond_fun, in_tree, avals, "while_cond")
        body = trace_body(body_fun, in_tree, avals, "while_body")
        return cond, body, _check_condition(cond)

    cond, body, pred = trace(init)
    if len(body.jaxpr.outvars) == len(init):
        pairs = zip(init, body.jaxpr.out_avals, strict=True)
        promoted = [promote_weak(x, typeof(x), a)[0] for x, a in pairs]
        # Where devices decide for themselves when to stop, all carries vary.
        promoted = [vary_over(x, varying(pred)) for x in promoted]
        if any(x is not y for x, y in zip(init, promoted, strict=True)):
            init = promoted
            cond, body, _ = trace(init)
    return init, cond, body


def _check_condition(cond: Body) -> Any:
    """The type of the condition, which must be a boolean scalar."""
    if not treedef_is_leaf(cond.out_tree) or cond.out_tree.num_leaves != 1:
        raise errors.not_boolean_tree(cond.out_tree)
    (aval,) = cond.jaxpr.out_avals
    scalar = isinstance(aval, ShapedArray) and aval.shape == ()
    if not scalar or aval.dtype != np.bool_:
        raise errors.not_boolean(cond.jaxpr.out_avals)
    return aval


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Function,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): value = body_fun(i, value)`, from `init_val`.

    With bounds that are known while tracing it is a `scan`, which can be differentiated
    in both modes; else it is a `while_loop`.

    Args:
      lower, upper: integer scalars of one dtype; Python's take that of the other.
      body_fun: from an index and a value to the next value, of the same types.
      unroll: as for `scan`; only where the bounds are known.

    >>> int(fori_loop(0, 5, lambda i, x: x + i, 0))
    10

    Upstream: `jax/_src/lax/control_flow/loops.py` (`fori_loop`).
    """
    if not callable(body_fun):
        raise errors.not_callable("fori_loop", "body_fun argument should be")
    avals = typeof(lower), typeof(upper)
    dtype = _index_dtype(*avals)
    bounds = _known_bounds(lower, upper)
    if bounds is not None:
        (_, result), _ = scan(
            _around(body_fun, _scan_body),
            (bounds[0], init_val),
            None,
            length=max(bounds[1] - bounds[0], 0),
            unroll=False if unroll is None else unroll,
        )
        return result
    if unroll is not None and unroll is not False and unroll != 1:
        raise errors.fori_unroll()
    lower, upper = [
        x if a.dtype == dtype else convert_element_type(x, dtype)
        for x, a in zip((lower, upper), avals, strict=True)
    ]
    init = (lower, upper, init_val)
    return while_loop(_fori_cond, _around(body_fun, _while_body), init)[2]


def _index_dtype(lower: ShapedArray, upper: ShapedArray) -> Any:
    if lower.dtype == upper.dtype:
        return lower.dtype
    signed = all(dtypes.issubdtype(a.dtype, np.signedinteger) for a in (lower, upper))
    if not signed or lower.weak_type == upper.weak_type:
        raise errors.fori_types(lower.dtype.name, upper.dtype.name)
    return upper.dtype if lower.weak_type else lower.dtype


def _known_bounds(lower: Any, upper: Any) -> tuple[int, int] | None:
    known = [x.concrete() if isinstance(x, Tracer) else x for x in (lower, upper)]
    if known[0] is None or known[1] is None:
        return None
    try:
        return operator.index(int(known[0])), operator.index(int(known[1]))
    except TypeError:
        return None


# Loop bodies around users' functions: the same for the same, to be traced only once.
_bodies: WeakKeyDictionary[Any, dict[Any, Function]] = WeakKeyDictionary()


def _around(fun: Function, wrapper: Function) -> Function:
    """`wrapper` of `fun`, which it refers to weakly, as it is kept with it."""
    try:
        memo, known = _bodies.setdefault(fun, {}), ref(fun)
    except TypeError:
        return partial(wrapper, fun)

    def body(loop_carry: Any, *rest: Any) -> Any:
        return wrapper(known(), loop_carry, *rest)

    return memo.setdefault(wrapper, body)


def _fori_cond(carry: Any) -> Any:
    i, upper, _ = carry
    return lt(i, upper)


def _while_body(body_fun: Function, carry: Any) -> Any:
    i, upper, x = carry
    return add(i, const(i, 1)), upper, body_fun(i, x)


def _scan_body(body_fun: Function, carry: Any, _: Any) -> Any:
    i, x = carry
    return (add(i, const(i, 1)), body_fun(i, x)), None
