"""copy and stop_gradient: the identity, with and without a derivative.

`copy` makes sure of a new array; `stop_gradient` has the zero tangent, so that nothing
is differentiated through it. Both lower to their operand.

Upstream: `jax/_src/lax/lax.py` (`copy_p`, `stop_gradient`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import dtypes, rules
from minijax.core.avals import ShapedArray
from minijax.core.pytree import tree_map
from minijax.core.trace import typeof
from minijax.lax.cases import unary
from minijax.lax.rules import ANY, elementwise


def stop_gradient(x: Any) -> Any:
    """Every leaf of `x`, taken as a constant by differentiation."""

    def stop(leaf: Any) -> Any:
        # Only what has a derivative needs to be stopped.
        aval = typeof(leaf)
        array = isinstance(aval, ShapedArray)  # and no token
        inexact = array and dtypes.issubdtype(aval.dtype, np.inexact)
        return stop_gradient_p.bind1(leaf) if inexact else leaf

    return tree_map(stop, x)


def copy(x: Any) -> Any:
    """A copy of an array."""
    return copy_p.bind1(x)


stop_gradient_p = elementwise("stop_gradient", ANY, sums=rules.linear)
stop_gradient_p.def_lowering(lambda _, x: [x])
stop_gradient_p.def_nondifferentiable("that is what it is for")

copy_p = elementwise("copy", ANY, sums=rules.linear)
copy_p.def_lowering(lambda ctx, x: [ctx.with_sharding(x, ctx.avals_out[0])])
copy_p.def_linear(lambda ct, _: ct)

CASES = [unary(stop_gradient_p, smooth=()), unary(copy_p)]
