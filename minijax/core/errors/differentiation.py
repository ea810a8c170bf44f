"""Errors of `jvp`, `linearize`, `vjp` and `grad`."""

from __future__ import annotations

from typing import Any


def jvp_not_tuple(primals: object, tangents: object) -> TypeError:
    return TypeError(
        "primal and tangent arguments to jax.jvp must be tuples or lists; found "
        f"{type(primals).__name__} and {type(tangents).__name__}."
    )


def jvp_trees(primals: object, tangents: object) -> TypeError:
    return TypeError(
        "primal and tangent arguments to jax.jvp must have the same tree structure; "
        f"primals have tree structure {primals} whereas tangents have tree structure "
        f"{tangents}."
    )


def jvp_dtypes(primal: Any, tangent: Any, expected: Any) -> TypeError:
    return TypeError(
        "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, "
        "or in case of int/bool primal dtype the tangent dtype must be float0. "
        f"Got primal dtype {primal} and so expected tangent dtype {expected}, but got "
        f"tangent dtype {tangent} instead."
    )


def jvp_shapes(primal: Any, tangent: Any) -> ValueError:
    return ValueError(
        "jvp called with different primal and tangent shapes; "
        f"Got primal shape {primal} and tangent shape as {tangent}"
    )


def grad_not_scalar(shape: tuple[int, ...]) -> TypeError:
    return TypeError(
        f"Gradient only defined for scalar-output functions. Output had shape: {shape}."
        " To get the gradient, reduce the output to a scalar with output.sum(), or use "
        "jax.jacobian to differentiate a function with a non-scalar output."
    )


def grad_not_array(value: object) -> TypeError:
    return TypeError(
        f"Gradient only defined for scalar-output functions. Output was {value}."
    )


def output_dtype(dtype: Any, *, complex_: bool) -> TypeError:
    how = (
        "For holomorphic differentiation, pass holomorphic=True. For differentiation "
        "of non-holomorphic functions involving complex outputs, use jax.vjp directly."
        if complex_
        else "For differentiation of functions with integer outputs, use jax.vjp "
        "directly."
    )
    return TypeError(
        "grad requires real-valued outputs (output dtype that is a sub-dtype of "
        f"np.floating), but got {dtype}. {how}"
    )


def input_dtype(dtype: Any) -> TypeError:
    return TypeError(
        "grad requires real- or complex-valued inputs (input dtype that is a "
        f"sub-dtype of np.inexact), but got {dtype}. If you want to use Boolean- or "
        "integer-valued inputs, use vjp or set allow_int to True."
    )


def holomorphic(what: str, dtype: Any) -> TypeError:
    return TypeError(
        f"grad with holomorphic=True requires {what}s with complex dtype, but got "
        f"{dtype}."
    )


def argnums_out_of_range(argnums: object, needed: int, count: int) -> TypeError:
    return TypeError(
        f"differentiating with respect to {argnums=} requires at least {needed} "
        "positional arguments to be passed by the caller, but got only "
        f"{count} positional arguments."
    )


def negative_argnums(position: int, count: int) -> ValueError:
    return ValueError(
        "Positional argument indices, e.g. for `static_argnums`, must have value "
        "greater than or equal to -len(args) and less than len(args), but got value "
        f"{position} for len(args) == {count}."
    )


def not_a_pair(value: object) -> TypeError:
    return TypeError(
        "expected function with aux output to return a two-element tuple, but got "
        f"type {type(value)} with value {value!r}"
    )


def not_a_jax_type(value: object) -> TypeError:
    return TypeError(
        f"Argument '{value}' of type {type(value)} is not a valid JAX type."
    )


def cotangent_tree(function: str, differences: str) -> ValueError:
    return ValueError(
        "unexpected tree structure.\n\nThe argument to a VJP function returned by "
        "`jax.vjp` must match the pytree\nstructure of the differentiated function "
        f"{function}.\n\nBut the tree structures differ:\n{differences}"
    )


def cotangent_type(got: str, expected: str, primal: str) -> ValueError:
    return ValueError(
        "unexpected JAX type (e.g. shape/dtype) for argument to VJP function: "
        f"got {got}, but expected {expected} because the corresponding output of the "
        f"differentiated function had JAX type {primal}"
    )


def linear_tangent_tree(expected: object, got: object) -> TypeError:
    return TypeError(f"expected {expected}, got {got}")


def linear_tangent_type(got: object, primal: object, expected: object) -> ValueError:
    return ValueError(
        "linearized function called on tangent values inconsistent with the original "
        f"primal values:\nGot tangent aval {got} for primal aval {primal} but expected "
        f"{expected}."
    )
