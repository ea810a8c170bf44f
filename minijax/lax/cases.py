"""Cases: the small examples at the end of each page, which the law tests run.

Every page ends with `CASES = [...]`. From each case `tests/test_laws.py` checks that
the type rule tells what comes out, that batching is a loop, that the derivative rules
agree with finite differences and with each other, and that the lowering is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minijax.core.primitive import Primitive


@dataclass(frozen=True)
class Case:
    """One application of one primitive.

    Args:
      primitive: what is applied.
      shapes: the shapes of its operands.
      params: its parameters.
      dtypes: one for all operands, or one each; float32 by default.
      smooth: the operands, by position, in which it can be differentiated numerically;
        None means every float operand.
      domain: the interval that the operands' elements are drawn from.
      batches: whether it has a batching rule.
      make: builds the operands instead, from a random generator.
    """

    primitive: Primitive
    shapes: Sequence[tuple[int, ...]]
    params: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Any = np.float32
    smooth: Sequence[int] | None = None
    domain: tuple[float, float] = (0.3, 0.9)
    batches: bool = True
    make: Callable[[np.random.Generator], Sequence[Any]] | None = None

    def __str__(self) -> str:
        shapes = " ".join("x".join(map(str, s)) or "()" for s in self.shapes)
        params = ",".join(f"{k}={v}" for k, v in self.params.items())
        return f"{self.primitive.name}[{params}] {shapes}"

    def operands(self, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
        """Random operands."""
        if self.make is not None:
            return list(self.make(rng))
        kinds = self.dtypes
        if not isinstance(kinds, (list, tuple)):
            kinds = [kinds] * len(self.shapes)
        return [
            self._draw(rng, s, np.dtype(d))
            for s, d in zip(self.shapes, kinds, strict=True)
        ]

    def _draw(self, rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        if dtype.kind in "iu":
            return rng.integers(1, 5, shape).astype(dtype)
        x = rng.uniform(*self.domain, shape)
        if dtype.kind == "c":
            x = x + 1j * rng.uniform(*self.domain, shape)
        return np.asarray(x, dtype)

    def differentiable(self) -> list[int]:
        """The operands in which derivatives are checked."""
        if self.smooth is not None:
            return list(self.smooth)
        kinds = self.dtypes
        if not isinstance(kinds, (list, tuple)):
            kinds = [kinds] * len(self.shapes)
        return [i for i, d in enumerate(kinds) if np.dtype(d).kind == "f"]


def unary(primitive: Primitive, **options: Any) -> Case:
    """A case of one operand of shape (3, 2)."""
    return Case(primitive, [(3, 2)], **options)


def binary(primitive: Primitive, **options: Any) -> Sequence[Case]:
    """Cases of two operands: of one shape, and with a scalar on either side."""
    return [
        Case(primitive, shapes, **options)
        for shapes in ([(3, 2), (3, 2)], [(3, 2), ()], [(), (3, 2)], [(3, 1), (1, 2)])
    ]
