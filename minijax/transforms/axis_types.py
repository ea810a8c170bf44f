"""Other axis types for a while: `auto_axes` and `explicit_axes`.

    with set_mesh(mesh):                      # x: Explicit
        y = auto_axes(f, out_sharding=P("x"))(x)

Within `f` the axes are Auto: types do not show them, and the compiler decides how
values are laid out. On the way in, arguments are resharded to what their types can
still say; on the way out, the result to `out_sharding`, which only the caller knows.
`explicit_axes` is the converse. Neither is a primitive: the body's equations stand
between two `reshard`s, and so derivatives and batching need no rules of their own.

Upstream: `jax/_src/pjit.py` (`auto_axes`, `explicit_axes`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from minijax.core.errors import place as errors
from minijax.core.mesh import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    get_abstract_mesh,
    use_abstract_mesh,
)
from minijax.core.out_sharding import canonicalize_sharding, visible
from minijax.core.pytree import tree_leaves, tree_map
from minijax.core.trace import typeof
from minijax.transforms.place import reshard

Axes = str | tuple[str, ...] | None


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: Axes = None,
    out_sharding: Any = None,
) -> Any:
    """A function within which mesh axes are Auto.

    Args:
      f: the function; without it, the result is a decorator.
      axes: the axes; None for all of the context mesh.
      out_sharding: how the result is sharded over Explicit axes: a pytree prefix of
        PartitionSpecs or NamedShardings. Without it, each call must give it by keyword.

    Returns:
      A function of the same arguments and result.

    Raises:
      TypeError: from the call, where `out_sharding` was given nowhere.

    >>> import numpy as np, minijax, minijax.numpy as jnp
    >>> from minijax.sharding import AxisType, PartitionSpec as P
    >>> mesh = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
    >>> def total(x):
    ...     print(minijax.typeof(x))
    ...     return x @ x
    >>> with minijax.set_mesh(mesh):
    ...     x = minijax.device_put(np.ones((4, 4), np.float32), P("i", None))
    ...     y = minijax.jit(auto_axes(total, out_sharding=P("i")))(x)
    ...     print(minijax.typeof(y))
    float32[4,4]
    float32[4@i,4]

    Upstream: `jax/_src/pjit.py` (`auto_axes`).
    """
    if f is None:
        return lambda g: auto_axes(g, axes=axes, out_sharding=out_sharding)
    fun = f

    @wraps(fun)
    def with_auto_axes(*args: Any, **kwargs: Any) -> Any:
        target = _target("out_sharding", out_sharding, kwargs)
        change = _changed(axes, AxisType.Auto, "auto_axes", target)
        if change is None or set(change.old.auto_axes) == set(change.axes):
            return fun(*args, **kwargs)
        with use_abstract_mesh(change.new):
            out = fun(*_hidden(args), **kwargs)
        return reshard(out, target)

    return with_auto_axes


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: Axes = None,
    in_sharding: Any = None,
) -> Any:
    """A function within which mesh axes are Explicit.

    Args:
      f: the function; without it, the result is a decorator.
      axes: the axes; None for all of the context mesh.
      in_sharding: how the arguments are sharded within: a pytree prefix of the tuple
        of arguments. Without it, each call must give it by keyword.

    Returns:
      A function of the same arguments and result.

    Raises:
      TypeError: from the call, where `in_sharding` was given nowhere.
      ValueError: from the call, where there is no context mesh.

    >>> import numpy as np, minijax, minijax.numpy as jnp
    >>> from minijax.sharding import AxisType, PartitionSpec as P
    >>> mesh = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    >>> def f(x):
    ...     print(minijax.typeof(x))
    ...     return x + 1
    >>> with minijax.set_mesh(mesh):
    ...     y = minijax.jit(explicit_axes(f, in_sharding=P("i")))(np.arange(8))
    int32[8@i]

    Upstream: `jax/_src/pjit.py` (`explicit_axes`).
    """
    if f is None:
        return lambda g: explicit_axes(g, axes=axes, in_sharding=in_sharding)
    fun = f

    @wraps(fun)
    def with_explicit_axes(*args: Any, **kwargs: Any) -> Any:
        target = _target("in_sharding", in_sharding, kwargs)
        change = _changed(axes, AxisType.Explicit, "explicit_axes", None)
        if change is None:
            raise errors.empty_context()
        with use_abstract_mesh(change.new):
            out = fun(*reshard(args, target), **kwargs)
        return _hidden(out)

    return with_explicit_axes


def _target(name: str, given: Any, kwargs: dict[str, Any]) -> Any:
    if given is not None:
        return given
    if name not in kwargs:
        raise errors.missing_target(name)
    return kwargs.pop(name)


def _hidden(values: Any) -> Any:
    """Values resharded to what their types can say over the mesh now in force."""
    mesh = get_abstract_mesh()
    specs = tree_map(lambda x: visible(typeof(x).sharding.spec, mesh), values)
    return reshard(values, specs)


def with_out_sharding(fun: Callable[..., Any], name: str, out_sharding: Any) -> Any:
    """`fun`, whose result is sharded so over Explicit axes; itself for None.

    For functions of arrays, the samplers above all, that let the compiler cut up their
    steps: the mesh axes are Auto meanwhile. `name` is the function's for errors, which
    are those of `canonicalize_sharding`.

    >>> with_out_sharding(abs, "uniform", None)(-1)
    1

    Upstream: `jax/_src/random/core.py` (`maybe_auto_axes`).
    """
    to = canonicalize_sharding(out_sharding, name)
    if to is None:
        return fun
    return auto_axes(fun, out_sharding=to, axes=to.mesh.explicit_axes)


class _Change(NamedTuple):
    """A mesh before and after the types of some axes change."""

    old: AbstractMesh
    new: AbstractMesh
    axes: tuple[str, ...]


def _changed(axes: Axes, kind: AxisType, name: str, shardings: Any) -> _Change | None:
    """The mesh in force, or that of the shardings, with axes of another type."""
    context, found = get_abstract_mesh(), None
    for sharding in tree_leaves(shardings):
        if isinstance(sharding, NamedSharding):
            mesh = sharding.mesh.abstract_mesh
            if found is not None and found != mesh:
                raise errors.several_meshes(name, found, sharding.mesh)
            found = mesh
    if found is None and context.empty:
        return None
    if found is not None and not context.empty and found != context:
        raise errors.mesh_not_context(context, found)
    old = context if found is None else found
    if axes is None:
        axes = old.axis_names
    elif not isinstance(axes, tuple):
        axes = (axes,)
    if any(old.axis_type(n) is AxisType.Manual for n in axes):
        raise errors.from_manual()
    return _Change(old, old.update_axis_types(dict.fromkeys(axes, kind)), axes)
