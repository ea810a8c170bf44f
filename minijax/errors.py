"""`minijax.errors`: the exceptions that programs may want to catch.

Names only, those of `jax.errors`; the classes and their wording are in `core/errors/`.
`docs/errors.md` shows a program that raises each error, and the mended one.
"""

from jaxlib._jax import (  # pyright: ignore[reportMissingImports]
    JaxRuntimeError,
)

from minijax.core.errors.jaxprs import JaxprTypeError
from minijax.core.errors.tracing import (
    ConcretizationTypeError,
    JAXIndexError,
    JAXTypeError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

__all__ = [
    "ConcretizationTypeError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
]
