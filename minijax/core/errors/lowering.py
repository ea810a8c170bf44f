"""What minijax says when a program cannot be lowered.

Upstream: `jax/_src/interpreters/mlir.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

_DONATION = "https://docs.jax.dev/en/latest/201/jit.html#jax-201-buffer-donation."


def unused_donations(avals: Sequence[str]) -> str:
    """The warning about donated arguments that fit no result."""
    return (
        f"Some donated buffers were not usable: {', '.join(avals)}.\n"
        f"See an explanation at {_DONATION}"
    )


def invalid_module(diagnostics: Sequence[str], text: str) -> ValueError:
    """The verifier refused the module: some lowering rule is wrong.

    A diagnostic names the primitive whose rule built the operation.
    """
    found = "".join(f"\t{d}\n" for d in diagnostics)
    return ValueError(f"Cannot lower jaxpr with verifier errors:\n{found}{text}")


def wrong_number_of_results(primitive: str, expected: int, got: int) -> ValueError:
    """A lowering rule returned too few or too many values."""
    return ValueError(
        f"Lowering rule for {primitive} returned {got} values; the equation has "
        f"{expected} results."
    )
