"""Errors of custom derivative rules, `linear_transpose` and the Jacobians."""

from __future__ import annotations

from minijax.core.errors.tracing import UnexpectedTracerError


class CustomRuleException(Exception):
    """A function with a rule of its own was differentiated in what it closes over."""


def no_rule(kind: str, name: str) -> AttributeError:
    rule = "JVP" if kind == "custom_jvp" else "VJP"
    verb = f"def{rule.lower()}"
    return AttributeError(f"No {rule} defined for {kind} function {name} using {verb}.")


def unresolved(kind: str, name: str, error: object) -> TypeError:
    return TypeError(
        f"The input arguments to the {kind}-decorated function {name} could not be "
        f"resolved to positional-only arguments. Binding failed with the error:\n"
        f"{error}"
    )


def closed_over(kind: str) -> CustomRuleException:
    rule, parts = (
        ("JVP", "custom_jvp rule")
        if kind == "custom_jvp"
        else ("VJP", "custom_vjp fwd and bwd rules")
    )
    return CustomRuleException(
        f"Detected differentiation of a {kind} function with respect to a closed-over "
        f"value. That isn't supported because the custom {rule} rule only specifies "
        f"how to differentiate the {kind} function with respect to explicit input "
        f"parameters. Try passing the closed-over value into the {kind} function as an "
        f"argument, and adapting the {parts}."
    )


def defjvps_nondiff() -> TypeError:
    return TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")


def jvp_not_a_pair(rule: str, name: str, value: object) -> TypeError:
    return TypeError(
        f"Custom JVP rule {rule} for function {name} must produce a pair (list or "
        "tuple of length two) representing primal and tangent outputs, but got "
        f"{value}."
    )


def jvp_trees_differ(
    rule: str, name: str, primal: object, tangent: object
) -> TypeError:
    return TypeError(
        f"Custom JVP rule {rule} for function {name} must produce primal and tangent "
        f"outputs with equal container (pytree) structures, but got {primal} and "
        f"{tangent} respectively."
    )


def _primal_differs(
    kind: str, rule: str, name: str, aspect: str, what: str, got: str, expected: str
) -> TypeError:
    where = (
        "(equal in value to the output of the custom_jvp-decorated function "
        f"{name}, and in particular {aspect}), but instead the JVP rule output's first "
        f"element had {what}:\n"
        if kind == "JVP"
        else f"(equal to the output of the custom_vjp-decorated function {name}) and "
        "the second element represents residuals (i.e. values stored from the forward "
        "pass for use on the backward pass), but instead the fwd rule output's first "
        f"element had {what}:\n"
    )
    decorated = "custom_jvp" if kind == "JVP" else "custom_vjp"
    label = "JVP" if kind == "JVP" else "VJP fwd"
    return TypeError(
        f"Custom {label} rule {rule} for function {name} must produce a pair (list or "
        f"tuple of length two) where the first element represents the primal output "
        f"{where}    {got}\nwhile the {decorated}-decorated function {name} had output "
        f"{what}:\n    {expected}"
    )


def primal_tree(kind: str, rule: str, name: str, got: str, expected: str) -> TypeError:
    aspect = "of the same container/pytree structure"
    what = "container/pytree structure"
    return _primal_differs(kind, rule, name, aspect, what, got, f"{expected}.")


def primal_types(kind: str, rule: str, name: str, got: str, expected: str) -> TypeError:
    aspect, what = "with leaves of the same shape/dtype", "shapes/dtypes of"
    return _primal_differs(kind, rule, name, aspect, what, got, expected)


def jvp_tangent_type(expected: str, primal: str, got: str) -> TypeError:
    return TypeError(
        "Custom JVP rule must produce primal and tangent outputs with corresponding "
        f"shapes and dtypes. Expected {expected} (tangent type of {primal}) but got "
        f"{got}."
    )


def jvp_tangent_types(disagreements: str) -> TypeError:
    return TypeError(
        "Custom JVP rule must produce primal and tangent outputs with corresponding "
        f"shapes and dtypes, but got:\n{disagreements}"
    )


def fwd_not_a_pair(rule: str, name: str, value: object) -> TypeError:
    return TypeError(
        f"Custom VJP fwd rule {rule} for function {name} must produce a pair (list or "
        "tuple of length two) where the first element represents the primal output "
        f"(equal to those of the custom_vjp-decorated function {name}) and the second "
        "element represents residuals (i.e. values stored from the forward pass for "
        "use on the backward pass), but instead of a pair the fwd rule "
        f"{rule} produced {value}."
    )


def bwd_tree(got: object, expected: object) -> TypeError:
    return TypeError(
        "Custom VJP bwd rule must produce an output with the same container (pytree) "
        "structure as the args tuple of the primal function, and in particular must "
        "produce a tuple of length equal to the number of arguments to the primal "
        f"function, but got bwd output structure {got} for primal input structure "
        f"{expected}."
    )


def bwd_type(place: str, path: str, got: str, expected: str, extra: str) -> ValueError:
    return ValueError(
        f"Custom VJP bwd rule attached to {place} must produce an output with the same "
        f"type as the args tuple of the primal function, but at output{path} the bwd "
        f"rule produced an output of type {got} corresponding to an input of type "
        f"{expected}{extra}"
    )


def forward_mode() -> TypeError:
    return TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
    )


def nondiff_tracer() -> UnexpectedTracerError:
    return UnexpectedTracerError(
        "Found a JAX Tracer object passed as an argument to a custom_vjp function in a "
        "position indicated by nondiff_argnums as non-differentiable. Tracers cannot "
        "be passed as non-differentiable arguments to custom_vjp functions; instead, "
        "nondiff_argnums should only be used for arguments that can't be or contain "
        "JAX tracers, e.g. function-valued arguments. In particular, array-valued "
        "arguments should typically not be indicated as nondiff_argnums.\n"
        "See https://docs.jax.dev/en/latest/101/errors.html"
        "#jax.errors.UnexpectedTracerError"
    )


def linear_dtypes(ins: object, outs: object) -> TypeError:
    return TypeError(
        "linear_transpose only supports [float, complex, or float0] -> [float, "
        f"complex, or float0], and integer -> integer functions, but got {ins} -> "
        f"{outs}."
    )


def linear_tree(expected: object, got: object) -> TypeError:
    return TypeError(
        f"cotangent tree does not match function output, expected {expected} but got "
        f"{got}"
    )


def linear_type(expected: object, got: object) -> TypeError:
    return TypeError(
        f"cotangent type does not match function output, expected {expected} but got "
        f"{got}"
    )


def jacobian_position(position: int, count: int) -> ValueError:
    return ValueError(
        "Positional argument indices, e.g. for `static_argnums`, must have value "
        "greater than or equal to -len(args) and less than len(args), but got value "
        f"{position} for len(args) == {count}."
    )


def holomorphic(name: str, what: str, dtype: str) -> TypeError:
    return TypeError(
        f"{name} with holomorphic=True requires {what} with complex dtype, but got "
        f"{dtype}."
    )


def jacfwd_input(dtype: str) -> TypeError:
    return TypeError(
        "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of "
        f"np.floating), but got {dtype}. For holomorphic differentiation, pass "
        "holomorphic=True. For differentiation of non-holomorphic functions involving "
        "complex inputs or integer inputs, use jax.jvp directly."
    )


def jacrev_input(dtype: str) -> TypeError:
    return TypeError(
        "jacrev requires real- or complex-valued inputs (input dtype that is a "
        f"sub-dtype of np.inexact), but got {dtype}. If you want to use Boolean- or "
        "integer-valued inputs, use vjp or set allow_int to True."
    )


def jacrev_output(dtype: str, *, complex_: bool) -> TypeError:
    advice = (
        "For holomorphic differentiation, pass holomorphic=True. For differentiation "
        "of non-holomorphic functions involving complex outputs, use jax.vjp directly."
        if complex_
        else "For differentiation of functions with integer outputs, use jax.vjp "
        "directly."
    )
    return TypeError(
        "jacrev requires real-valued outputs (output dtype that is a sub-dtype of "
        f"np.floating), but got {dtype}. {advice}"
    )
