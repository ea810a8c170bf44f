"""`out_sharding` of samplers: the mesh axes are Auto while a sample is drawn.

What is drawn does not depend on how it is sharded. So the compiler is left to cut up
the steps of a sampler, and only the result has the sharding asked for.

Upstream: `jax/_src/random/core.py` (`maybe_auto_axes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.core.out_sharding import canonicalize_sharding
from minijax.transforms.axis_types import auto_axes


def sharded(fun: Callable[..., Any], name: str, out_sharding: Any) -> Any:
    """`fun`, whose result is sharded so over Explicit axes; itself for None.

    `name` is that of the sampler. Errors are those of `canonicalize_sharding`.

    >>> sharded(abs, "uniform", None)(-1)
    1
    """
    to = canonicalize_sharding(out_sharding, name)
    if to is None:
        return fun
    return auto_axes(fun, out_sharding=to, axes=to.mesh.explicit_axes)
