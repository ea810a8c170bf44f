"""What minijax says when tokens are misused."""

from __future__ import annotations

__all__: list[str] = []


def not_a_token(position: int, aval: object) -> TypeError:
    return TypeError(
        f"Arguments to after_all must be tokens: argument {position} has type {aval}. "
        "A token comes from jax.lax.create_token, from another after_all, or from an "
        "argument that is a token."
    )
