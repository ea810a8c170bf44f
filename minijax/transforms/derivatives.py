"""Jacobians and Hessians: `vmap` of one direction at a time.

`jacfwd` pushes every unit tangent forward, `jacrev` pulls every unit cotangent back.

Upstream: `jax/_src/api.py` (`jacfwd`, `jacrev`, `hessian`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.arguments import check_callable
from minijax.core.errors import custom_rules as errors
from minijax.core.pytree import tree_flatten, tree_map, tree_transpose, tree_unflatten
from minijax.core.trace import typeof
from minijax.lax.shapes import reshape
from minijax.lax.slicing import slice_in_dim
from minijax.transforms.grad import vjp
from minijax.transforms.jvp import jvp
from minijax.transforms.vmap import vmap

Function = Callable[..., Any]


def jacfwd(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:
    """The Jacobian of a function, column by column, in forward mode.

    Good where there are fewer inputs than outputs.

    Args:
      fun: a function of pytrees of arrays.
      argnums: the positional argument, or arguments, to differentiate.
      has_aux: whether `fun` returns `(output, aux)`; the result is then
        `(jacobian, aux)`.
      holomorphic: whether `fun` is promised to be holomorphic.

    Returns:
      A function of the same arguments. Its result has the tree of the output, and in
      each leaf the tree of the argument, with arrays of shape
      `output.shape + argument.shape`.

    >>> import numpy as np, minijax
    >>> jacfwd(lambda x: x * x)(np.float32([1, 2])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    Upstream: `jax/_src/api.py` (`jacfwd`).
    """

    check_callable(fun)

    @wraps(fun)
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen = _of_arguments(fun, argnums, args, kwargs)
        for x in tree_flatten(chosen)[0]:
            _check_jacfwd("inputs", x, holomorphic)
        push = partial(jvp, of_chosen, chosen, has_aux=has_aux)
        axes = (None, -1, None) if has_aux else (None, -1)
        value, columns, *aux = vmap(push, out_axes=axes)(_unit_vectors(chosen))
        for y in tree_flatten(value)[0]:
            _check_jacfwd("outputs", y, holomorphic)
        example = chosen[0] if _is_int(argnums) else chosen
        jac = tree_map(
            lambda y, j: _cut(example, j, len(typeof(y).shape)), value, columns
        )
        return (jac, *aux) if has_aux else jac

    return jacobian_fun


def jacrev(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """The Jacobian of a function, row by row, in reverse mode.

    Good where there are fewer outputs than inputs. Arguments and result are those of
    `jacfwd`; `allow_int` is that of `grad`.

    >>> import numpy as np, minijax
    >>> jacrev(lambda x: x * x)(np.float32([1, 2])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    Upstream: `jax/_src/api.py` (`jacrev`).
    """

    check_callable(fun)

    @wraps(fun)
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen = _of_arguments(fun, argnums, args, kwargs)
        for x in tree_flatten(chosen)[0]:
            _check_jacrev_input(x, holomorphic, allow_int)
        value, pull, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        for y in tree_flatten(value)[0]:
            _check_jacrev_output(y, holomorphic)
        rows = vmap(pull)(_unit_vectors(value))
        rows = rows[0] if _is_int(argnums) else rows
        cut = tree_map(lambda j: _cut(value, j, 0), rows)
        outer, inner = tree_flatten(rows)[1], tree_flatten(value)[1]
        jac = tree_transpose(outer, inner, cut)
        return (jac, *aux) if has_aux else jac

    return jacobian_fun


jacobian = jacrev


def hessian(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:
    """The Hessian of a function, as the forward Jacobian of the backward one.

    >>> import minijax
    >>> float(hessian(lambda x: x * x * x)(2.0))
    12.0

    Upstream: `jax/_src/api.py` (`hessian`).
    """
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)


def _is_int(argnums: int | Sequence[int]) -> bool:
    return not isinstance(argnums, (tuple, list))


def _of_arguments(
    fun: Function, argnums: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Function, tuple[Any, ...]]:
    """The function of the chosen arguments alone, and those."""
    positions = [
        operator.index(i) for i in ([argnums] if _is_int(argnums) else argnums)
    ]
    for i in positions:
        if not -len(args) <= i < len(args):
            raise errors.jacobian_position(i, len(args))

    def of_chosen(*values: Any) -> Any:
        every = list(args)
        for i, value in zip(positions, values, strict=True):
            every[i] = value
        return fun(*every, **kwargs)

    return of_chosen, tuple(args[i] for i in positions)


def _unit_vectors(tree: Any) -> Any:
    """A pytree of arrays with a new leading dimension: all unit vectors, in order."""
    leaves, treedef = tree_flatten(tree)
    avals = [typeof(x) for x in leaves]
    sizes = [math.prod(a.shape) for a in avals]
    total, start, units = sum(sizes), 0, []
    for aval, size in zip(avals, sizes, strict=True):
        dtype = aval.to_tangent().dtype
        if dtype == dtypes.float0:
            units.append(np.zeros((total, *aval.shape), dtypes.float0))
        else:
            ones = np.eye(total, size, -start, dtype=np.float32).astype(dtype)
            units.append(ones.reshape((total, *aval.shape)))
        start += size
    return tree_unflatten(treedef, units)


def _cut(tree: Any, x: Any, axis: int) -> Any:
    """Cuts the dimension of unit vectors into the leaves of the tree they are of."""
    leaves, treedef = tree_flatten(tree)
    shape, start, parts = typeof(x).shape, 0, []
    for leaf in leaves:
        own = typeof(leaf).shape
        size = math.prod(own)
        part = slice_in_dim(x, start, start + size, axis=axis)
        parts.append(reshape(part, (*shape[:axis], *own, *shape[axis + 1 :])))
        start += size
    return tree_unflatten(treedef, parts)


def _check_jacfwd(what: str, x: Any, holomorphic: bool) -> None:
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise errors.holomorphic("jacfwd", what, dtype.name)
    elif what == "inputs" and not dtypes.issubdtype(dtype, np.floating):
        raise errors.jacfwd_input(dtype.name)


def _check_jacrev_input(x: Any, holomorphic: bool, allow_int: bool) -> None:
    dtype = typeof(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, np.complexfloating):
        raise errors.holomorphic("jacrev", "inputs", dtype.name)
    if not dtypes.issubdtype(dtype, np.inexact) and not allow_int:
        raise errors.jacrev_input(dtype.name)


def _check_jacrev_output(y: Any, holomorphic: bool) -> None:
    dtype = typeof(y).dtype
    complex_ = dtypes.issubdtype(dtype, np.complexfloating)
    if holomorphic:
        if not complex_:
            raise errors.holomorphic("jacrev", "outputs", dtype.name)
    elif complex_ or not dtypes.issubdtype(dtype, np.floating):
        raise errors.jacrev_output(dtype.name, complex_=complex_)
