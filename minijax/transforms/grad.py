"""Reverse-mode differentiation: `linearize`, `vjp`, `grad`, `value_and_grad`.

`grad` is `transpose . partial_eval . jvp`, and each of the three is a file of its own.
This one only joins them and checks what the user gave.

Upstream: `jax/_src/api.py` and `jax/_src/interpreters/ad.py` (`linearize`, `vjp`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.arguments import check_callable
from minijax.core.avals import EMPTY_MESH, ShapedArray
from minijax.core.errors import differentiation as errors
from minijax.core.jaxpr import eval_jaxpr
from minijax.core.linear import UndefinedPrimal, Zero
from minijax.core.mesh import get_abstract_mesh
from minijax.core.pytree import equality_errors, keystr, tree_flatten, tree_unflatten
from minijax.core.staging import DebugInfo
from minijax.core.trace import is_evaluating, is_value, typeof
from minijax.lax.rules import cast_to_type, instantiate
from minijax.lax.shapes import scalar_of
from minijax.runtime.placement import device_put
from minijax.transforms.partial_eval import Linear, linearize_flat
from minijax.transforms.place import reshard_p
from minijax.transforms.transpose import backward_pass


class _Flat:
    """A function of pytrees seen as one of leaves; remembers its result's trees."""

    __slots__ = ("aux_tree", "fun", "has_aux", "in_tree", "out_tree")

    def __init__(self, fun: Callable[..., Any], in_tree: Any, has_aux: bool):
        self.fun = fun
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree: Any = None
        self.aux_tree: Any = None

    def __call__(self, *leaves: Any) -> tuple[list[Any], list[Any]]:
        out = self.fun(*tree_unflatten(self.in_tree, leaves))
        aux: Any = None
        if self.has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise errors.not_a_pair(out)
            out, aux = out
        outs, self.out_tree = tree_flatten(out)
        aux_leaves, self.aux_tree = tree_flatten(aux)
        return outs, aux_leaves


def _linearize_tree(
    fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool
) -> tuple[_Flat, list[Any], list[Any], Linear, Any]:
    """Linearizes at pytrees; returns the outputs and auxiliary outputs apart."""
    check_callable(fun)
    leaves, in_tree = tree_flatten(tuple(primals))
    for x in leaves:
        if not is_value(x):
            raise errors.not_a_jax_type(x)
    flat = _Flat(fun, in_tree, has_aux)
    nonzero = [_differentiable(x) for x in leaves]
    outs, aux, linear = linearize_flat(flat, leaves, nonzero)
    return flat, leaves, outs, linear, tree_unflatten(flat.aux_tree, aux)


def _differentiable(x: Any) -> bool:
    aval = typeof(x)
    return isinstance(aval, ShapedArray) and aval.to_tangent().dtype == aval.dtype


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and its linear approximation, to be applied many times.

    Args:
      fun: a function of pytrees.
      primals: where to linearize.
      has_aux: whether `fun` returns a pair whose second part is not differentiated.

    Returns:
      `(value, f_jvp)`, and the second part as a third where `has_aux`; `f_jvp` maps
      tangents of `primals` to the tangent of the value.

    >>> import minijax, minijax.numpy as jnp
    >>> y, f_jvp = minijax.linearize(jnp.square, 3.0)
    >>> float(f_jvp(1.0))
    6.0

    Upstream: `jax/_src/api.py` (`linearize`).
    """
    flat, leaves, outs, linear, aux = _linearize_tree(fun, primals, has_aux)

    def f_jvp(*tangents: Any) -> Any:
        given, tree = tree_flatten(tuple(tangents))
        if tree != flat.in_tree:
            raise errors.linear_tangent_tree(flat.in_tree, tree)
        nonzero = []
        for t, p in zip(given, leaves, strict=True):
            expected = typeof(p).to_tangent()
            if not _same_type(typeof(t), expected):
                raise errors.linear_tangent_type(typeof(t), typeof(p), expected)
            if _differentiable(p):
                nonzero.append(t)
        found = iter(eval_jaxpr(linear.jaxpr, [], [*linear.residuals, *nonzero]))
        results = [
            next(found) if n else instantiate(Zero(a))
            for n, a in zip(linear.nonzero_out, linear.out_avals, strict=True)
        ]
        return tree_unflatten(flat.out_tree, results)

    value = tree_unflatten(flat.out_tree, outs)
    return (value, f_jvp, aux) if has_aux else (value, f_jvp)


def _pull_back(linear: Linear, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Cotangents of all leaves from those of the outputs."""
    holes = [UndefinedPrimal(a) for a in linear.in_avals]
    kept = [ct for ct, n in zip(cts, linear.nonzero_out, strict=True) if n]
    cts_in = backward_pass(linear.jaxpr, [*linear.residuals, *holes], kept)
    found = iter(cts_in[len(linear.residuals) :])
    return [
        next(found) if _differentiable(x) else Zero(typeof(x).to_cotangent())
        for x in leaves
    ]


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and the map from its cotangents back to its arguments'.

    Args:
      fun: a function of pytrees.
      primals: where to differentiate.
      has_aux: whether `fun` returns a pair whose second part is not differentiated.

    Returns:
      `(value, f_vjp)`, and the second part as a third where `has_aux`; `f_vjp` takes
      one cotangent, of the tree and types of the value, and returns a tuple with a
      cotangent for each of `primals`.

    Raises:
      ValueError: from `f_vjp`, for a cotangent of another tree or type.

    >>> import minijax, minijax.numpy as jnp
    >>> y, f_vjp = minijax.vjp(jnp.square, 3.0)
    >>> float(f_vjp(2.0)[0])
    12.0

    Upstream: `jax/_src/api.py` (`vjp`).
    """
    flat, leaves, outs, linear, aux = _linearize_tree(fun, primals, has_aux)
    out_avals = [typeof(x) for x in outs]

    def f_vjp(cotangent: Any) -> Any:
        cts, tree = tree_flatten(cotangent)
        if tree != flat.out_tree:
            expected = tree_unflatten(flat.out_tree, out_avals)
            raise errors.cotangent_tree(
                DebugInfo(fun, "vjp").place, _differences(expected, cotangent)
            )
        for ct, aval in zip(cts, out_avals, strict=True):
            _check_cotangent(ct, aval)
        cts_in = _pull_back(linear, leaves, cts)
        return tree_unflatten(flat.in_tree, map(instantiate, cts_in))

    value = tree_unflatten(flat.out_tree, outs)
    return (value, f_vjp, aux) if has_aux else (value, f_vjp)


def _differences(expected: Any, got: Any) -> str:
    return "\n".join(
        f"  * out{keystr(path)} was a {was} in the original output, but a {now} here, "
        f"so {why}."
        for path, was, now, why in equality_errors(expected, got)
    )


def _check_cotangent(ct: Any, aval: Any) -> None:
    if not isinstance(aval, ShapedArray):
        return  # a token
    expected, got = aval.to_cotangent(), typeof(ct)
    if not _same_type(got, expected):
        plain = [str(a.strip_weak_type()) for a in (got, expected, aval)]
        raise errors.cotangent_type(*plain)


def _same_type(got: Any, expected: Any) -> bool:
    """Whether types are the same, up to weak types and meshes without a say.

    A value that is on no mesh, such as a numpy array, goes for any placement.
    """
    if got is expected or not isinstance(expected, ShapedArray):
        return got == expected
    found, wanted = got.sharding.spec, expected.sharding.spec
    if got.mesh.empty:
        wanted = wanted.update(found.partitions)
    return (
        got.shape == expected.shape
        and got.dtype == expected.dtype
        and got.manual == expected.manual
        and found == wanted
    )


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The gradient of a function with a scalar result.

    Args:
      fun: a function of pytrees that returns a scalar.
      argnums: the positional argument, or arguments, to differentiate.
      has_aux: whether `fun` returns `(scalar, aux)`; the gradient function then
        returns `(gradient, aux)`.
      holomorphic: whether `fun` is promised to be holomorphic.
      allow_int: whether integer arguments are allowed; their gradients are `float0`.

    Returns:
      A function of the same arguments, whose result has the tree of the argument
      `argnums`, or is a tuple of such trees.

    Raises:
      TypeError: where the result is no real scalar, or an argument no inexact array.

    >>> import minijax, minijax.numpy as jnp
    >>> float(minijax.grad(jnp.square)(3.0))
    6.0

    Upstream: `jax/_src/api.py` (`grad`).
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Like `grad`, but the function returned gives `(value, gradient)`.

    >>> import minijax, minijax.numpy as jnp
    >>> value, gradient = minijax.value_and_grad(jnp.square)(3.0)
    >>> float(value), float(gradient)
    (9.0, 6.0)

    Upstream: `jax/_src/api.py` (`value_and_grad`).
    """
    check_callable(fun)
    single = not isinstance(argnums, (tuple, list))
    positions = [operator.index(i) for i in ([argnums] if single else argnums)]  # type: ignore[list-item]

    @wraps(fun)
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        needed = max(positions, default=-1) + 1
        if needed > len(args):
            raise errors.argnums_out_of_range(argnums, needed, len(args))
        if min(positions, default=0) < -len(args):
            raise errors.negative_argnums(min(positions), len(args))
        chosen = [i % len(args) for i in positions]
        leaves, _ = tree_flatten([args[i] for i in chosen])
        for x in leaves:
            _check_input(x, holomorphic, allow_int)

        def of_chosen(*values: Any) -> Any:
            full_args = list(args)
            for i, v in zip(chosen, values, strict=True):
                full_args[i] = v
            return fun(*full_args, **kwargs)

        flat, leaves, outs, linear, aux = _linearize_tree(
            of_chosen, [args[i] for i in chosen], has_aux
        )
        _check_output(flat, outs, holomorphic)
        one = _one(typeof(outs[0]).to_cotangent())
        cts_in = _pull_back(linear, leaves, [one])
        gradients = tree_unflatten(flat.in_tree, map(instantiate, cts_in))
        gradient = gradients[0] if single else gradients
        return ((outs[0], aux) if has_aux else outs[0]), gradient

    return value_and_grad_fun


def _one(aval: ShapedArray) -> Any:
    """The cotangent to start from: one, of the type that the result's has."""
    one = aval.dtype.type(1)
    one = scalar_of(one.item() if aval.weak_type else one, aval.dtype, aval.weak_type)
    if is_evaluating():
        one = device_put(one)
    elif aval.mesh.explicit_axes or aval.mesh not in (EMPTY_MESH, get_abstract_mesh()):
        one = reshard_p.bind1(one, dst_sharding=aval.sharding)
    return cast_to_type(one, aval)


def _check_input(x: Any, holomorphic: bool, allow_int: bool) -> None:
    if not is_value(x):
        raise errors.not_a_jax_type(x)
    aval = typeof(x)
    if not isinstance(aval, ShapedArray):
        return  # a token has the trivial tangent
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise errors.holomorphic("input", aval.dtype.name)
    elif not dtypes.issubdtype(aval.dtype, np.inexact) and not allow_int:
        raise errors.input_dtype(aval.dtype.name)


def _check_output(flat: _Flat, outs: list[Any], holomorphic: bool) -> None:
    value = tree_unflatten(flat.out_tree, outs)
    if not is_value(value) or not isinstance(typeof(value), ShapedArray):
        raise errors.grad_not_array(value)
    aval = typeof(value)
    if aval.shape != ():
        raise errors.grad_not_scalar(aval.shape)
    complex_ = dtypes.issubdtype(aval.dtype, np.complexfloating)
    if holomorphic:
        if not complex_:
            raise errors.holomorphic("output", aval.dtype.name)
    elif complex_ or not dtypes.issubdtype(aval.dtype, np.floating):
        raise errors.output_dtype(aval.dtype.name, complex_=complex_)
