"""`eval_shape` and `make_jaxpr`: looking at a function without running it.

Also what the verbs share about arguments that only stand for arrays.

Upstream: `jax/_src/api.py` (`eval_shape`, `make_jaxpr`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from minijax.core.arguments import check_callable
from minijax.core.avals import ShapedArray, ShapeDtypeStruct
from minijax.core.errors import jit as errors
from minijax.core.jaxpr import ClosedJaxpr
from minijax.core.mesh import NamedSharding
from minijax.core.out_sharding import typed, visible
from minijax.core.pytree import tree_flatten, tree_unflatten
from minijax.core.staging import DebugInfo, stage_tree
from minijax.core.trace import extend_axis_env, is_value, shaped, typeof
from minijax.transforms.signature import Options


def aval_of_leaf(x: Any) -> Any:
    """The type of an argument, which may be a `ShapeDtypeStruct`."""
    if not isinstance(x, ShapeDtypeStruct):
        return typeof(x)
    aval = shaped(x.shape, x.dtype, x.weak_type)
    if x.sharding is None:
        return aval
    mesh = x.sharding.mesh.abstract_mesh
    if mesh.are_all_axes_auto:
        return aval
    shown = NamedSharding(mesh, visible(x.sharding.spec, mesh))
    return aval.update(sharding=typed(shown, aval.shape))


def sharding_of_leaf(x: Any) -> Any:
    """The sharding that a `ShapeDtypeStruct` asks for."""
    return x.sharding if isinstance(x, ShapeDtypeStruct) else None


def as_struct(aval: Any) -> Any:
    """What `eval_shape` returns for a type: a struct, or the type of a token itself."""
    if not isinstance(aval, ShapedArray):
        return aval
    sharding = None if aval.mesh.empty else aval.sharding
    return ShapeDtypeStruct(
        aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type
    )


def _trace(
    fun: Callable[..., Any], options: Options, args: Any, kwargs: Any
) -> tuple[ClosedJaxpr, Any]:
    static, args, kwargs = options.split(args, kwargs)
    leaves, tree = tree_flatten((args, kwargs))
    names = partial(static.names, fun, tree)
    for i, x in enumerate(leaves):
        if not (is_value(x) or isinstance(x, ShapeDtypeStruct)):
            raise errors.not_an_abstract_array(fun, x, names()[i])
    avals = [aval_of_leaf(x) for x in leaves]
    jaxpr, consts, out_tree = stage_tree(
        static.close_over(fun), tree, avals, DebugInfo(fun, "jit", names)
    )
    return ClosedJaxpr(jaxpr, consts), out_tree


def _options(fun: Callable[..., Any], static_argnums: Any) -> Options:
    return Options(fun, static_argnums, None, None, None, None, None, False)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[str, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that traces `fun` and returns its jaxpr.

    Args:
      fun: a function of pytrees of arrays.
      static_argnums: positions of arguments that are part of the program.
      axis_env: names and sizes of axes to bind, so that collectives can be traced.
      return_shape: whether to return `(jaxpr, shapes)`, like `eval_shape`.

    >>> import minijax, minijax.numpy as jnp
    >>> print(minijax.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(1.0))
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }

    Upstream: `jax/_src/api.py` (`make_jaxpr`).
    """
    check_callable(fun)
    options = _options(fun, static_argnums)

    @wraps(fun)
    def make(*args: Any, **kwargs: Any) -> Any:
        with extend_axis_env(axis_env or ()):
            jaxpr, out_tree = _trace(fun, options, args, kwargs)
        if not return_shape:
            return jaxpr
        return jaxpr, tree_unflatten(out_tree, map(as_struct, jaxpr.out_avals))

    return make


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of `fun(*args, **kwargs)`, without computing it.

    Arguments may be `ShapeDtypeStruct`s; the result consists of them.

    >>> import numpy as np, minijax, minijax.numpy as jnp
    >>> minijax.eval_shape(jnp.sum, minijax.ShapeDtypeStruct((2, 3), np.float32))
    ShapeDtypeStruct(shape=(), dtype=float32)

    Upstream: `jax/_src/api.py` (`eval_shape`).
    """
    jaxpr, out_tree = _trace(fun, _options(fun, ()), args, kwargs)
    return tree_unflatten(out_tree, map(as_struct, jaxpr.out_avals))
