"""Errors about tracers: leaks, conversions to Python values, missing rules.

The classes are public as `minijax.errors`, which is how they print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

_DOCS = "https://docs.jax.dev/en/latest/101/errors.html#jax.errors."


_PUBLIC = "minijax.errors"


class JAXTypeError(TypeError):
    """A `TypeError` that is about tracers."""

    __module__ = _PUBLIC


class JAXIndexError(IndexError):
    """An `IndexError` that is about tracers."""

    __module__ = _PUBLIC


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where a concrete one is needed."""

    __module__ = _PUBLIC


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition in Python."""

    __module__ = _PUBLIC


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as a Python integer."""

    __module__ = _PUBLIC


class TracerArrayConversionError(JAXTypeError):
    """A traced value was given to numpy."""

    __module__ = _PUBLIC


class UnexpectedTracerError(JAXTypeError):
    """A tracer was used after its trace had ended."""

    __module__ = _PUBLIC


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index."""

    __module__ = _PUBLIC


def _see(error: type[Exception], text: str, origin: str, advice: str) -> Exception:
    lines = [text, origin, f"See {_DOCS}{error.__name__}", advice]
    return error("\n".join(line for line in lines if line))


def bool_conversion(aval: str, origin: str) -> Exception:
    text = f"Attempted boolean conversion of traced array with shape {aval}."
    advice = (
        "To choose between values use jnp.where(condition, x, y), between functions "
        "jax.lax.cond; or mark the argument as static (static_argnums)."
    )
    return _see(TracerBoolConversionError, text, origin, advice)


def integer_conversion(aval: str, origin: str) -> Exception:
    text = f"The __index__() method was called on traced array with shape {aval}"
    advice = (
        "Index a jnp array instead of a list, loop with jax.lax.fori_loop instead of "
        "range, or mark the argument as static (static_argnums)."
    )
    return _see(TracerIntegerConversionError, text, origin, advice)


def array_conversion(aval: str, origin: str) -> Exception:
    text = (
        "The numpy.ndarray conversion method __array__() was called on "
        f"traced array with shape {aval}"
    )
    advice = (
        "Use the function of jax.numpy instead of numpy's, or call numpy through "
        "jax.pure_callback."
    )
    return _see(TracerArrayConversionError, text, origin, advice)


def concretization(function: str) -> Callable[[str, str], Exception]:
    """The error for `int(x)`, `float(x)` or `complex(x)` of a tracer."""

    def error(aval: str, origin: str) -> Exception:
        text = (
            "Abstract tracer value encountered where concrete value is expected: "
            f"traced array with shape {aval}\n"
            f"The problem arose with the `{function}` function. If trying to convert "
            f"the data type of a value, try using `x.astype({function})` or "
            f"`jnp.array(x, {function})` instead."
        )
        advice = f"`{function}` works on an argument that is marked as static."
        return _see(ConcretizationTypeError, text, origin + "\n", advice)

    return error


def concrete_value_needed(aval: str, why: str, origin: str) -> Exception:
    text = (
        "Abstract tracer value encountered where concrete value is expected: "
        f"traced array with shape {aval}\n{why}"
    )
    return _see(ConcretizationTypeError, text, origin + "\n", "")


def nonconcrete_boolean_index(aval: str) -> Exception:
    return NonConcreteBooleanIndexError(
        f"Array boolean indices must be concrete; got {aval}\n\n"
        f"See {_DOCS}NonConcreteBooleanIndexError\n"
        "How many elements a mask selects is not known while tracing: use "
        "jnp.where(mask, x, other), which keeps the shape."
    )


def not_an_index() -> TypeError:
    return TypeError("Only integer scalar arrays can be converted to a scalar index.")


def not_one_element(wanted: str, size: int) -> Exception:
    if wanted == "truth":
        if size == 0:
            return ValueError("The truth value of an empty array is ambiguous.")
        return ValueError(
            "The truth value of an array with more than one element is ambiguous. "
            "Use a.any() or a.all()"
        )
    return TypeError("Only scalar arrays can be converted to Python scalars.")


def no_sharding_on_tracer(aval: str) -> AttributeError:
    return AttributeError(
        f"The 'sharding' attribute is not available on traced array with shape {aval}."
        " To query sharding information on tracers, use `jax.typeof(x)`. It tells of "
        "Explicit axes; over Auto ones the compiler decides, after tracing."
    )


def token_has_no(tracer: str, attribute: str) -> AttributeError:
    return AttributeError(
        f"{tracer} has no attribute {attribute}: it is a token, which carries no data"
    )


class TokenTypeError(TypeError, AttributeError):
    """A token stood where an array is needed.

    An `AttributeError` too, so that `hasattr` may be asked of a token's type.
    """

    def __init__(self, attribute: str):
        super().__init__(
            f"A token has no {attribute}: it carries no data, and stands where an "
            "array is needed. jax.lax.after_all and optimization_barrier take tokens, "
            "and functions may take and return them."
        )


def not_callable(fun: object) -> TypeError:
    return TypeError(f"Expected a callable value, got {fun}")


def unhashable(tracer: str) -> TypeError:
    return TypeError(f"unhashable type: '{tracer}'")


def in_scope(sizes: Mapping[str, int]) -> str:
    """The sentence on which axis names are bound.

    >>> in_scope({"x": 2, "y": 4})
    "Axis names in scope: 'x' (of size 2), 'y' (of size 4)."
    """
    if sizes:
        names = ", ".join(f"{n!r} (of size {size})" for n, size in sizes.items())
        return f"Axis names in scope: {names}."
    return (
        "No axis names are in scope here: jax.shard_map binds those of its mesh, and "
        "jax.vmap its axis_name, within the function they are given."
    )


def unbound_axis(name: object, sizes: Mapping[str, int]) -> NameError:
    return NameError(f"unbound axis name: {name}. {in_scope(sizes)}")


def found_unbound_axis(
    name: object, primitive: str, sizes: Mapping[str, int]
) -> NameError:
    return NameError(
        f"Found an unbound axis name: {name}. To fix this, please call {primitive} "
        f"under `jax.shard_map`. {in_scope(sizes)}"
    )


def rule_missing(primitive: str, kind: str) -> NotImplementedError:
    return NotImplementedError(f"{kind} for '{primitive}' not implemented")


def masked_array() -> ValueError:
    return ValueError(
        "numpy masked arrays are not supported as direct inputs to JAX functions. "
        "Use arr.filled() to convert the value to a standard numpy array. The mask "
        "would be lost: jnp.where(mask, fill, x) says what the masked elements are."
    )


class NotAValueError(TypeError):
    """Something that is no array, scalar or token was used as a value."""

    def __init__(self, value: object):
        kind = f"{type(value)}" if isinstance(value, str) else f"'{type(value)}'"
        super().__init__(f"Argument '{value}' of type {kind} is not a valid JAX type")
        self.value = value


def bad_argument_of(
    primitive: str, args: Sequence[object], error: NotAValueError
) -> TypeError:
    """`error`, told as a mistake in an operand of a primitive, if it is one."""
    for position, x in enumerate(args):
        if x is error.value:
            return bad_argument(primitive, position, x)
    return error


def bad_argument(primitive: str, position: int, x: object) -> TypeError:
    return TypeError(
        f"Error interpreting argument to {primitive} as a JAX value. The problematic "
        f"value is of type {type(x)} and was passed to {primitive} at position "
        f"{position}.\n"
    )


def bad_output(function: str, verb: str, x: object, path: str) -> TypeError:
    where = f" at output component {path}" if path else ""
    return TypeError(
        f"function {function} traced for {verb} returned a value of type "
        f"{type(x)}{where}, which is not a valid JAX type"
    )


def leaked(aval: str, tracer: str, function: str, created: str) -> Exception:
    """A tracer used after its trace ended.

    `function` is the sentence on the function that was traced; `created` the line of
    the user's program that made the value. Either may be empty.
    """
    detail = ""
    if function:
        rule = "-" * 30
        detail = (
            f"{function}\n{rule}\n"
            f"The leaked intermediate value was created on line {created}. \n{rule}\n"
            "When the value was created, the final 5 stack frames (most recent last) "
            f"excluding JAX-internal frames were:\n{rule}\n{created}\n{rule}\n\n"
        )
    return _see(
        UnexpectedTracerError,
        "Encountered an unexpected tracer. A function transformed by JAX had a side "
        "effect, allowing for a reference to an intermediate value with type "
        f"{aval} wrapped in a {tracer} to escape the scope of the transformation.\n"
        "JAX transformations require that functions explicitly return their outputs, "
        "and disallow saving intermediate values to global state.\n"
        f"{detail}To catch the leak earlier, try setting the environment variable "
        "JAX_CHECK_TRACER_LEAKS or using the `jax.checking_leaks` context manager.",
        "",
        "Return the value from the function instead of storing it.",
    )


def leaks(trace: str, tracers: Sequence[tuple[str, str, str]]) -> Exception:
    """`tracers` lists (what it is, where it came from, who holds it).

    A bare `Exception`, as upstream's.
    """
    texts = [
        "\n".join([tracer, *filter(None, [origin]), f"It is held by {held}."])
        for tracer, origin, held in tracers
    ]
    return Exception(
        f"Leaked trace {trace}. Leaked tracer(s):\n\n" + "\n\n".join(texts) + "\n"
    )


def body_closes_over(aval: str) -> RuntimeError:
    return RuntimeError(
        f"a rule closed over a tracer of type {aval}; the body of an equation must "
        "take every value as an argument"
    )


def needs_mapped_context(primitive: str) -> RuntimeError:
    return RuntimeError(
        f"{primitive} must be used within a mapped context like vmap or shard_map. "
        f"{in_scope({})}"
    )


def tracer_at_bottom(aval: str) -> RuntimeError:
    return RuntimeError(
        f"a traced value of type {aval} was used where no trace is current, for "
        "example in another thread than the one that traces"
    )
