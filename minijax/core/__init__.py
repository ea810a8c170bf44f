"""The language: types, primitives, traces, jaxprs. It knows no compiler and no device.

The names below are what `minijax.core` offers to users; inside the package a module is
always imported by its own name.
"""

import os

# Every import of minijax passes here before jaxlib is loaded, which reads this once:
# without it XLA reports each device that it finds on standard error.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from minijax.core.avals import (
    AbstractToken,
    ManualAxisType,
    ShapedArray,
    abstract_token,
)
from minijax.core.check import check_jaxpr
from minijax.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
    jaxpr_as_fun,
)
from minijax.core.primitive import Primitive
from minijax.core.token import Token
from minijax.core.trace import Tracer, typeof

__all__ = [
    "AbstractToken",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "ManualAxisType",
    "Primitive",
    "ShapedArray",
    "Token",
    "Tracer",
    "Var",
    "abstract_token",
    "check_jaxpr",
    "eval_jaxpr",
    "jaxpr_as_fun",
    "typeof",
]
