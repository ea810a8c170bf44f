"""custom_jvp and custom_vjp: functions whose derivatives are written by hand.

Where nothing is traced, and while differentiating, the user's functions run as they
are, on whatever values there are, and may look at them. Under any other trace the
function becomes an equation that holds its program and its rules.

Upstream: `jax/_src/custom_derivatives.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import update_wrapper
from typing import Any

from minijax.core.errors import custom_rules as errors
from minijax.core.linear import Zero
from minijax.core.pytree import tree_leaves, tree_map
from minijax.core.staging import fun_name
from minijax.core.trace import Tracer, typeof
from minijax.lax.gradients import stop_gradient
from minijax.lax.rules import add_any, instantiate
from minijax.transforms.control.common import is_token
from minijax.transforms.custom_call import Function, flat_call
from minijax.transforms.custom_jvp_call import JVPRule, call_jvp
from minijax.transforms.custom_vjp_call import VJPRule, call_vjp


class _Custom:
    """What both kinds of functions share."""

    kind = ""

    def __init__(self, fun: Function, nondiff_argnums: Sequence[int] = ()):
        update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = tuple(nondiff_argnums)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _positional(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """All arguments by position, defaults included."""
        try:
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
        except TypeError as error:
            name = fun_name(self.fun)
            raise errors.unresolved(self.kind, name, error) from error
        except ValueError:  # a built-in function without signature
            return tuple(args)
        bound.apply_defaults()
        if bound.kwargs:
            name, extra = fun_name(self.fun), ", ".join(map(repr, bound.kwargs))
            why = f"The following keyword arguments could not be resolved: {extra}"
            raise errors.unresolved(self.kind, name, why)
        return bound.args


class _Method:
    """A custom function that is a method, bound to its instance."""

    def __init__(self, custom: _Custom, instance: Any):
        self._custom = custom
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._custom(self._instance, *args, **kwargs)


class custom_jvp(_Custom):
    """A function with a forward derivative of its own, from which all others follow.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that the rule gets first, as they are.

    >>> import minijax
    >>> @minijax.custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 100.0 * t
    >>> float(minijax.grad(f)(3.0))
    100.0

    Upstream: `jax/_src/custom_derivatives.py` (`custom_jvp`).
    """

    kind = "custom_jvp"
    jvp: Function | None = None

    def defjvp(self, jvp: Function) -> Function:
        """Sets the rule: `jvp(*nondiff, primals, tangents) -> (outputs, tangents)`."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Sets a rule per argument: `jvp(tangent, output, *primals) -> tangent`.

        The tangents are added up; None stands for zero.
        """
        if self.nondiff_argnums:
            raise errors.defjvps_nondiff()

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            zeros = tree_map(lambda x: instantiate(Zero(typeof(x).to_tangent())), out)
            parts = [
                zeros if rule is None else rule(t, out, *primals)
                for t, rule in zip(tangents, jvps, strict=True)
            ]
            total = parts[0] if parts else zeros
            for part in parts[1:]:
                total = tree_map(add_any, total, part)
            return out, total

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise errors.no_rule(self.kind, fun_name(self.fun))
        args = self._positional(args, kwargs)
        positions = {i % len(args) for i in self.nondiff_argnums}
        # Given as they are, they must not bring in tangents.
        args = tuple(
            tree_map(_stopped, x) if i in positions else x for i, x in enumerate(args)
        )
        call, leaves = flat_call(self.fun, args, self.nondiff_argnums)
        return call.result(call_jvp(call, JVPRule(call, self.jvp), leaves))


def _stopped(x: Any) -> Any:
    return stop_gradient(x) if isinstance(x, Tracer) and not is_token(x) else x


class custom_vjp(_Custom):
    """A function with a backward derivative of its own.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are no arrays; the backward rule
        gets them first.

    >>> import minijax
    >>> @minijax.custom_vjp
    ... def f(x, y):
    ...     return x * y
    >>> f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda res, ct: (ct, 7.0 * ct))
    >>> [float(g) for g in minijax.grad(f, (0, 1))(2.0, 3.0)]
    [1.0, 7.0]

    Upstream: `jax/_src/custom_derivatives.py` (`custom_vjp`).
    """

    kind = "custom_vjp"
    fwd: Function | None = None
    bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Sets the rules.

        `fwd(*args) -> (output, residuals)`; `bwd(*nondiff, residuals, cotangent)`
        returns a tuple of one cotangent per argument, where None stands for zero.
        """
        self.fwd = fwd
        self.bwd = bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise errors.no_rule(self.kind, fun_name(self.fun))
        args = self._positional(args, kwargs)
        for i in self.nondiff_argnums:
            if any(isinstance(x, Tracer) for x in tree_leaves(args[i])):
                raise errors.nondiff_tracer()
        call, leaves = flat_call(self.fun, args, self.nondiff_argnums)
        rule = VJPRule(call, self.fwd, self.bwd)
        return call.result(call_vjp(call, rule, leaves))
