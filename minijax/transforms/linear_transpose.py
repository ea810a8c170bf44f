"""linear_transpose: a linear function, backwards.

Upstream: `jax/_src/api.py` (`linear_transpose`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.errors import custom_rules as errors
from minijax.core.jaxpr import eval_jaxpr
from minijax.core.linear import UndefinedPrimal
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import DebugInfo, consts_as_args, stage_tree
from minijax.core.trace import typeof
from minijax.lax.rules import instantiate
from minijax.transforms.partial_eval import partial_eval_jaxpr
from minijax.transforms.shapes import aval_of_leaf
from minijax.transforms.transpose import backward_pass


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """The transpose of a function that is linear in all its arguments.

    The function is traced, not run, and no point is needed to be linear at.

    Args:
      fun: a function of pytrees of arrays.
      primals: arguments, or `ShapeDtypeStruct`s of them.

    Returns:
      A function from a cotangent of the result to a tuple of cotangents of the
      arguments.

    Raises:
      TypeError: where dtypes are mixed, or a cotangent does not fit the result.

    >>> import numpy as np, minijax
    >>> transposed = linear_transpose(lambda x: 2.0 * x, np.float32(0))
    >>> float(transposed(3.0)[0])
    6.0

    Upstream: `jax/_src/api.py` (`linear_transpose`).
    """
    leaves, _ = tree_flatten(primals)
    tree = tree_flatten((primals, {}))[1]
    in_tree = tree_flatten(primals)[1]
    in_avals = [aval_of_leaf(x) for x in leaves]
    traced, consts, out_tree = stage_tree(
        fun, tree, in_avals, DebugInfo(fun, "linear_transpose")
    )
    jaxpr = consts_as_args(traced)
    out_avals = jaxpr.out_avals
    _check_dtypes(in_avals, out_avals)
    # Equations that hold both a known and a linear part are split.
    unknown = [False] * len(consts) + [True] * len(in_avals)
    parts = partial_eval_jaxpr(jaxpr, unknown, [True] * len(out_avals))

    def transposed(cotangent: Any) -> Any:
        cts, tree = tree_flatten(cotangent)
        if tree != out_tree:
            raise errors.linear_tree(out_tree, tree)
        if not all(_fits(ct, a) for ct, a in zip(cts, out_avals, strict=True)):
            raise errors.linear_type(tuple(out_avals), cts)
        residuals = parts.residuals(consts, eval_jaxpr(parts.known, [], consts))
        holes = [UndefinedPrimal(a) for a in in_avals]
        found = backward_pass(parts.unknown, [*residuals, *holes], cts)
        results = [instantiate(ct) for ct in found[len(residuals) :]]
        return tree_unflatten(in_tree, results)

    return transposed


def _check_dtypes(ins: Sequence[Any], outs: Sequence[Any]) -> None:
    both = [
        [a.dtype for a in avals if isinstance(a, ShapedArray)] for avals in (ins, outs)
    ]
    for kind in (np.inexact, np.integer):
        if all(
            d == dtypes.float0 or dtypes.issubdtype(d, kind) for ds in both for d in ds
        ):
            return
    raise errors.linear_dtypes(*both)


def _fits(ct: Any, aval: Any) -> bool:
    if not isinstance(aval, ShapedArray):
        return True  # a token
    found = typeof(ct)
    return found.shape == aval.shape and found.dtype == aval.dtype
