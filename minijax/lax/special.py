"""Special functions: erf, erfc, erf_inv, lgamma, digamma, polygamma.

CHLO: an operation each, which XLA's pipeline expands. Upstream lowers `lgamma` to a
program of its own instead.

Upstream: `jax/_src/lax/special.py`, `jax/_src/lax/erf.py`.
"""

from __future__ import annotations

import math
from typing import Any

from minijax.lax.arithmetic import add, mul, neg, square
from minijax.lax.cases import Case, unary
from minijax.lax.rules import (
    FLOAT,
    cast_together,
    const,
    derivatives,
    derivatives_from_result,
    elementwise,
)
from minijax.lax.transcendental import exp


def erf(x: Any) -> Any:
    """Elementwise error function."""
    return erf_p.bind1(x)


def erfc(x: Any) -> Any:
    """Elementwise `1 - erf(x)`, accurate for large `x`."""
    return erfc_p.bind1(x)


def erf_inv(x: Any) -> Any:
    """Elementwise inverse of `erf`."""
    return erf_inv_p.bind1(x)


def lgamma(x: Any) -> Any:
    """Elementwise logarithm of the absolute value of the gamma function."""
    return lgamma_p.bind1(x)


def digamma(x: Any) -> Any:
    """Elementwise derivative of the logarithm of the gamma function."""
    return digamma_p.bind1(x)


def polygamma(m: Any, x: Any) -> Any:
    """Elementwise derivative number `m` of `digamma`."""
    m, x = cast_together(m, x)
    return polygamma_p.bind1(m, x)


erf_p = elementwise("erf", FLOAT, op="chlo.erf")
erfc_p = elementwise("erfc", FLOAT, op="chlo.erfc")
erf_inv_p = elementwise("erf_inv", FLOAT, op="chlo.erf_inv")
lgamma_p = elementwise("lgamma", FLOAT, op="chlo.lgamma")
digamma_p = elementwise("digamma", FLOAT, op="chlo.digamma")
polygamma_p = elementwise("polygamma", FLOAT, FLOAT, op="chlo.polygamma")

_SLOPE = 2 / math.sqrt(math.pi)  # of erf at 0


def _bell(x: Any) -> Any:
    return exp(neg(square(x)))


derivatives(erf_p, lambda g, x: mul(const(x, _SLOPE), mul(g, _bell(x))))
derivatives(erfc_p, lambda g, x: mul(const(x, -_SLOPE), mul(g, _bell(x))))
derivatives_from_result(
    erf_inv_p, lambda g, y, x: mul(const(x, 1 / _SLOPE), mul(g, exp(square(y))))
)
derivatives(lgamma_p, lambda g, x: mul(g, digamma(x)))
derivatives(digamma_p, lambda g, x: mul(g, polygamma(const(x, 1), x)))
# The order is a whole number: nothing is differentiated with respect to it.
derivatives(
    polygamma_p,
    None,
    lambda g, m, x: mul(g, polygamma(add(m, const(m, 1)), x)),
)

CASES = [
    *(unary(prim) for prim in (erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p)),
    Case(polygamma_p, [(), (3, 2)], smooth=(1,), domain=(1.0, 1.0)),
]
