"""create_token and after_all: values without data, which only order what happens.

    t0 = create_token    t1 = create_token    t2 = after_all t0 t1      all of type Tok

An operation that takes a token happens after the one that made it. Neither primitive
has an effect: a token that nothing reads is never made.

StableHLO: `create_token` and `after_all`.
Upstream: `jax/_src/lax/lax.py` (`create_token`, `after_all`).
"""

from __future__ import annotations

from typing import Any

from minijax.core.avals import AbstractToken, abstract_token
from minijax.core.errors import tokens as errors
from minijax.core.errors import tracing as tracing_errors
from minijax.core.linear import Zero
from minijax.core.primitive import Primitive
from minijax.core.trace import is_value
from minijax.lax.declared import create_token_p
from minijax.lowering.dialect import op, token_type


def create_token(_: Any = None) -> Any:
    """A new token, which is ordered after nothing. The argument is ignored.

    >>> import minijax
    >>> minijax.typeof(create_token())
    AbstractToken()
    """
    return create_token_p.bind1()


def after_all(*operands: Any) -> Any:
    """A token that is ordered after all the tokens given; none at all are enough.

    TypeError if an argument is not a token.

    >>> import minijax
    >>> print(minijax.make_jaxpr(after_all)(create_token()))
    { lambda ; a:Tok. let b:Tok = after_all a in (b,) }
    """
    for position, x in enumerate(operands):
        if not is_value(x):
            raise tracing_errors.bad_argument("after_all", position, x)
    return after_all_p.bind1(*operands)


after_all_p = Primitive("after_all")


@create_token_p.def_abstract_eval
def _create_type() -> list[AbstractToken]:
    return [abstract_token]


@after_all_p.def_abstract_eval
def _after_type(*operands: Any) -> list[AbstractToken]:
    for position, aval in enumerate(operands):
        if not isinstance(aval, AbstractToken):
            raise errors.not_a_token(position, aval)
    return [abstract_token]


@create_token_p.def_lowering
def _create_lowering(_: Any) -> list[Any]:
    return op("stablehlo.create_token", [], [token_type()])


@after_all_p.def_lowering
def _after_lowering(_: Any, *operands: Any) -> list[Any]:
    return op("stablehlo.after_all", operands, [token_type()])


create_token_p.def_nondifferentiable("it has no operand")


@after_all_p.def_jvp
def _after_jvp(primals: Any, _: Any) -> Any:
    # A token has one tangent, which says nothing.
    return after_all_p.bind(*primals), [Zero(abstract_token)]


@after_all_p.def_transpose
def _after_transpose(_: Any, *operands: Any) -> list[Any]:
    return [None] * len(operands)


def _batch(_: Any, args: Any, __: Any) -> Any:
    # One token orders all elements of a batch.
    return after_all_p.bind(*args), [None]


after_all_p.batch = _batch
create_token_p.batch = lambda _, args, dims: (create_token_p.bind(), [None])
