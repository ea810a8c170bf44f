"""Small programs over Explicit axes: one or more of every function that has a rule.

Each is a function of a module and operands, with the types of the operands. In these
`x`, `y` are mesh axes; a mesh of a test that lacks one, or has it as an Auto axis, does
not shard over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Program(NamedTuple):
    """A function of a module and operands, and the types of these."""

    name: str
    fun: Callable[..., Any]
    operands: tuple[str, ...]


XY, X0, Y1, NONE = "f[8@x,8@y]", "f[8@x,8]", "f[8,8@y]", "f[8,8]"
V, U, S = "f[8@x]", "f[8]", "f[]"
XY3, X3, M3 = "f[8@x,8,8@y]", "f[8@x,8,8]", "f[8,8@x,8]"
I2, I1, IS, B2 = "i[8@x,8@y]", "i[8@x]", "i[]", "b[8@x,8@y]"
ONE = "f[1,8@x]"

PROGRAMS: list[Program] = []


def add(name: str, fun: Callable[..., Any], *operands: str | tuple[str, ...]) -> None:
    """One program for each tuple of operand types."""
    for i, types in enumerate(operands):
        given = (types,) if isinstance(types, str) else types
        label = name if len(operands) == 1 else f"{name}_{i}"
        PROGRAMS.append(Program(label, fun, given))


def _of(home: str, name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    def call(jax: Any, *operands: Any) -> Any:
        return getattr(getattr(jax, home), name)(*operands, *args, **kwargs)

    return call


def lax(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """`jax.lax.<name>` of the operands, then of these arguments."""
    return _of("lax", name, *args, **kwargs)


def jnp(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """`jax.numpy.<name>` of the operands, then of these arguments."""
    return _of("numpy", name, *args, **kwargs)


def to(*partitions: Any, **kinds: Any) -> Callable[[Any], Any]:
    """A PartitionSpec, once the module is known."""
    return lambda jax: jax.sharding.PartitionSpec(*partitions, **kinds)


# ------------------------------------------------------------------------ elementwise

for _name in (
    "abs neg sign floor ceil round exp exp2 expm1 log log1p sin cos tan tanh asin acos "
    "atan sinh cosh asinh acosh atanh sqrt rsqrt cbrt square reciprocal logistic erf "
    "erfc erf_inv lgamma digamma is_finite"
).split():
    add(_name, lax(_name), XY)
for _name in "bitwise_not population_count clz".split():
    add(_name, lax(_name), I2)
for _name in "add sub mul div rem max min atan2 nextafter pow eq lt ge ne".split():
    add(_name, lax(_name), (XY, XY), (XY, S))
for _name in "bitwise_and bitwise_or bitwise_xor shift_left".split():
    add(_name, lax(_name), (I2, I2))
_MIXED = [(XY, X0), (X0, NONE), (NONE, Y1), (X0, Y1), (X0, "f[8,8@x]"), (XY, NONE)]
for _name in "add mul max eq pow".split():
    add(f"{_name}_mixed", lax(_name), *_MIXED)
add("complex", lax("complex"), (XY, XY))
add("integer_pow", lax("integer_pow", 3), XY)
add("select", lax("select"), (B2, XY, XY), (B2, X0, X0), ("b[]", XY, XY))
add("select_n", lax("select_n"), (B2, XY, XY), ("b[]", X0, X0), (B2, XY, X0))
add("clamp", lax("clamp"), (S, XY, S), (XY, XY, XY), (X0, XY, X0))
add("clamp_numbers", lambda jax, x: jax.lax.clamp(0.0, x, 1.0), XY)
add("convert", lax("convert_element_type", np.int32), XY)
add("convert_bool", lax("convert_element_type", np.bool_), XY, I2)
add("bitcast", lax("bitcast_convert_type", np.int32), XY)
add("bitcast_narrower", lax("bitcast_convert_type", np.int16), XY)
add("reduce_precision", lax("reduce_precision", 5, 3), XY)
add("stop_gradient", lax("stop_gradient"), XY)
add("barrier", lax("optimization_barrier"), XY)

# -------------------------------------------------------------------------- reductions

for _name in "reduce_sum reduce_max reduce_min reduce_prod".split():
    add(_name, lax(_name, (0,)), XY, X0, Y1)
    add(f"{_name}_all", lax(_name, (0, 1)), XY)
for _name in "reduce_and reduce_or".split():
    add(_name, lax(_name, (1,)), B2)
add("reduce_xor", lax("reduce_xor", (1,)), I2)
for _name in "argmax argmin".split():
    add(_name, lax(_name, 0, np.int32), XY, Y1)
for _name in "cumsum cumprod cummax cummin cumlogsumexp".split():
    add(_name, lax(_name, 0), XY, Y1)
add("sort", lax("sort", dimension=0), XY, Y1)
add(
    "sort_two",
    lambda jax, x, y: jax.lax.sort((x, y), dimension=1, num_keys=1),
    (X0, X0),
    (XY, XY),
    (X0, NONE),
)
add("top_k", lax("top_k", 2), X0, XY)

# ------------------------------------------------------------------------------ shapes

add("transpose", lax("transpose", (1, 0)), XY, X0)
add("reshape_merge", lax("reshape", (64,)), XY, X0, Y1, NONE)
add("reshape_split", lax("reshape", (4, 2, 8)), XY, X0, Y1)
add("reshape_split_last", lax("reshape", (8, 4, 2)), XY, X0, Y1)
add("reshape_mixed", lax("reshape", (2, 4, 4, 2)), XY, X0, NONE)
add("reshape_ones", lax("reshape", (8, 1, 8)), XY)
add("reshape_other", lax("reshape", (16, 4)), XY, X0, Y1)
add("reshape_3_merge", lax("reshape", (64, 8)), XY3, X3, M3)
add("reshape_dims", lax("reshape", (8, 8), (1, 0)), XY)
add("reshape_one_gone", lax("reshape", (8,)), ONE)
add("broadcast", lax("broadcast", (3,)), XY, S)
add("broadcast_in_dim", lax("broadcast_in_dim", (8, 3, 8), (0, 2)), XY, X0)
add("broadcast_in_dim_one", lax("broadcast_in_dim", (8, 8), (0, 1)), ONE)
add("expand_dims", lax("expand_dims", (1,)), XY)
add("squeeze", lambda jax, x: jax.lax.squeeze(x, (0,)), ONE, "f[1@x,8]")
add("rev", lax("rev", (0,)), XY)
add("collapse", lax("collapse", 0, 2), X0, XY)
add(
    "concatenate",
    lambda jax, x, y: jax.lax.concatenate([x, y], 0),
    (XY, XY),
    (Y1, Y1),
    (Y1, NONE),
    (X0, X0),
)
add("pad", lax("pad", np.float32(0), ((0, 0, 0), (1, 2, 0))), XY, X0)
add("pad_interior", lax("pad", np.float32(0), ((0, 0, 1), (0, 0, 0))), XY, Y1)
add("pad_negative", lax("pad", np.float32(0), ((-4, 0, 0), (0, 0, 0))), XY)
add("pad_even", lax("pad", np.float32(0), ((4, 4, 0), (0, 0, 0))), XY)
add("split", lambda jax, x: jax.lax.split(x, (4, 4), 0), XY, Y1)
add("split_uneven", lambda jax, x: jax.lax.split(x, (3, 5), 0), XY, Y1)
add("tile", lax("tile", (2, 1)), XY, Y1)
add("iota", lambda jax, x: jax.lax.iota(np.int32, 8), XY)
add("full", lambda jax, x: jax.lax.full((8, 8), 1.5, np.float32), XY)
add("full_traced", lambda jax, x: jax.lax.full((8, 8), x), S)
add("full_like", lax("full_like", 2), XY, X0)
add("full_like_dtype", lax("full_like", 2, np.int32), XY)
add("full_like_shape", lax("full_like", 2, shape=(4, 4)), XY)

# ---------------------------------------------------------------------------- indexing

add("slice", lax("slice", (0, 0), (4, 8)), XY, Y1)
add("slice_uneven", lax("slice", (1, 0), (4, 8)), XY, Y1)
add("slice_strided", lax("slice", (0, 0), (8, 8), (2, 1)), XY, Y1)
add("slice_whole", lax("slice", (0, 0), (8, 8)), XY)
add("slice_in_dim", lax("slice_in_dim", 0, 4, axis=1), X0)
add("index_in_dim", lax("index_in_dim", 2, 0, False), XY, Y1)
add(
    "dynamic_slice",
    lambda jax, x, i: jax.lax.dynamic_slice(x, (i, i), (8, 4)),
    (X0, IS),
    (XY, IS),
    (Y1, IS),
)
add("dynamic_slice_in_dim", lax("dynamic_slice_in_dim", 4, axis=0), (Y1, IS), (X0, IS))
add(
    "dynamic_update_slice",
    lambda jax, x, y, i: jax.lax.dynamic_update_slice(x, y, (i, i)),
    (XY, XY, IS),
    (XY, X0, IS),
    ("f[8@x,8]", "f[8@x,4]", IS),
    (NONE, NONE, IS),
)
add("dynamic_index", lax("dynamic_index_in_dim", 0, False), (XY, IS), (Y1, IS))
add("x_i", lambda jax, x, i: x[i], (XY, IS), (Y1, IS))
add("x_1", lambda jax, x: x[1], XY, Y1)
add("x_last", lambda jax, x: x[:, -1], XY, X0)
add("x_slice", lambda jax, x: x[:4], XY, Y1)
add("x_step", lambda jax, x: x[::2], XY, Y1)
add("x_rev", lambda jax, x: x[::-1], XY)
add("x_none", lambda jax, x: x[:, None], XY)
add("x_ellipsis", lambda jax, x: x[..., 0], X3, XY3)
add(
    "x_array",
    lambda jax, x, i: x[i],
    (XY, "i[4]"),
    (Y1, "i[4]"),
    (Y1, "i[4@x]"),
    (X0, "i[4]"),
    (NONE, "i[4@x]"),
)
add("x_array_1", lambda jax, x, i: x[:, i], (X0, "i[4]"), (X0, "i[4@y]"), (XY, "i[4]"))
add("x_mask_set", lambda jax, x, m: x.at[m].set(0.0), (XY, B2))
add("at_set", lambda jax, x: x.at[0].set(1.0), XY, Y1)
add("at_add", lambda jax, x, i: x.at[:, i].add(1.0), (X0, "i[4]"), (XY, "i[4]"))
add(
    "at_add_rows",
    lambda jax, x, i, u: x.at[i].add(u),
    (Y1, "i[4]", "f[4,8@y]"),
    (XY, "i[4]", "f[4,8@y]"),
    (NONE, "i[4@x]", "f[4@x,8]"),
)
add("at_get", lambda jax, x, i: x.at[i].get(), (Y1, "i[4]"), (XY, "i[4]"))
add(
    "at_get_out",
    lambda jax, x, i: x.at[i].get(out_sharding=to("x")(jax)),
    (XY, "i[4@x]"),
    (NONE, "i[4]"),
)

# -------------------------------------------------------------------------- dot_general

_MM = (((1,), (0,)), ((), ()))
_BATCH = (((2,), (1,)), ((0,), (0,)))
for _i, _types in enumerate(
    [
        (X0, Y1),
        (X0, NONE),
        (NONE, Y1),
        (XY, NONE),
        (XY, "f[8@y,8]"),
        (NONE, X0),
        (X0, "f[8,8@x]"),
        (Y1, "f[8@x,8]"),
        (XY, Y1),
    ]
):
    add(f"dot_{_i}", lambda jax, x, y: jax.lax.dot_general(x, y, _MM), _types)
    add(f"matmul_{_i}", lambda jax, x, y: x @ y, _types)
    add(f"jnp_dot_{_i}", lambda jax, x, y: jax.numpy.dot(x, y), _types)
    add(f"einsum_{_i}", lambda jax, x, y: jax.numpy.einsum("ij,jk->ik", x, y), _types)
add(
    "dot_batch",
    lambda jax, x, y: jax.lax.dot_general(x, y, _BATCH),
    (X3, X3),
    (XY3, "f[8@x,8@y,8]"),
    (X3, M3),
    (X3, "f[8,8,8]"),
)
add("dot_vectors", lambda jax, x, y: jax.lax.dot(x, y), (U, U), (V, V), (V, U))
add("dot_matrix_vector", lambda jax, x, y: jax.lax.dot(x, y), (X0, U), (X0, V))
for _i, _spec in enumerate(
    [
        to("x"),
        to(None, "x"),
        to("x", "y"),
        to(),
        to(None, None),
        to(unreduced={"y"}),
        to("x", unreduced={"y"}),
        to(None, None, "x"),
        to("z"),
        to(reduced={"x"}),
    ]
):
    for _types in [(X0, NONE), (XY, "f[8@y,8]")]:
        add(
            f"dot_out_{_i}_{_types[0]}",
            lambda jax, x, y, s=_spec: jax.lax.dot_general(
                x, y, _MM, out_sharding=s(jax)
            ),
            _types,
        )
    _mm = (XY, "f[8@y,8]")
    add(
        f"matmul_out_{_i}",
        lambda jax, x, y, s=_spec: jax.numpy.matmul(x, y, out_sharding=s(jax)),
        _mm,
    )
    add(
        f"jnp_dot_out_{_i}",
        lambda jax, x, y, s=_spec: jax.numpy.dot(x, y, out_sharding=s(jax)),
        _mm,
    )
    add(
        f"einsum_out_{_i}",
        lambda jax, x, y, s=_spec: jax.numpy.einsum(
            "ij,jk->ik", x, y, out_sharding=s(jax)
        ),
        _mm,
    )
    add(
        f"reshape_out_{_i}",
        lambda jax, x, s=_spec: jax.lax.reshape(x, (16, 4), out_sharding=s(jax)),
        XY,
    )
    add(
        f"jnp_reshape_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.reshape(x, (16, 4), out_sharding=s(jax)),
        XY,
    )
    add(
        f"x_reshape_out_{_i}",
        lambda jax, x, s=_spec: x.reshape(16, 4, out_sharding=s(jax)),
        XY,
    )
    add(
        f"ravel_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.ravel(x, out_sharding=s(jax)),
        XY,
    )
    add(
        f"broadcast_out_{_i}",
        lambda jax, x, s=_spec: jax.lax.broadcast(x, (8,), out_sharding=s(jax)),
        U,
    )
    add(
        f"broadcast_in_dim_out_{_i}",
        lambda jax, x, s=_spec: jax.lax.broadcast_in_dim(
            x, (8, 8), (1,), out_sharding=s(jax)
        ),
        U,
    )
    add(
        f"broadcast_to_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.broadcast_to(x, (8, 8), out_sharding=s(jax)),
        U,
    )
    add(
        f"iota_out_{_i}",
        lambda jax, x, s=_spec: jax.lax.broadcasted_iota(
            np.int32, (8, 8), 0, out_sharding=s(jax)
        ),
        S,
    )
    add(
        f"reduce_sum_out_{_i}",
        lambda jax, x, s=_spec: jax.lax.reduce_sum(x, (1,), out_sharding=s(jax)),
        XY,
        X3,
    )
    add(
        f"reduce_max_out_{_i}",
        lambda jax, x, s=_spec: jax.lax.reduce_max(x, (1,), out_sharding=s(jax)),
        XY,
    )
    for _name in "zeros ones empty".split():
        add(
            f"{_name}_out_{_i}",
            lambda jax, x, s=_spec, n=_name: getattr(jax.numpy, n)(
                (8, 8), out_sharding=s(jax)
            ),
            S,
        )
    add(
        f"full_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.full((8, 8), x, out_sharding=s(jax)),
        S,
    )
    add(
        f"arange_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.arange(8, out_sharding=s(jax)),
        S,
    )
    add(
        f"array_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.array(x, out_sharding=s(jax)),
        XY,
    )
    add(
        f"asarray_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.asarray(x, out_sharding=s(jax)),
        XY,
    )
    add(
        f"sum_out_{_i}",
        lambda jax, x, s=_spec: jax.numpy.sum(x, 1, out_sharding=s(jax)),
        XY,
    )
    add(
        f"reshard_{_i}",
        lambda jax, x, s=_spec: jax.sharding.reshard(x, s(jax)),
        XY,
        NONE,
    )
    add(
        f"constraint_{_i}",
        lambda jax, x, s=_spec: jax.lax.with_sharding_constraint(x, s(jax)),
        XY,
    )
    add(
        f"auto_axes_{_i}",
        lambda jax, x, s=_spec: jax.sharding.auto_axes(
            lambda y: jax.numpy.sin(y) + 1.0, out_sharding=s(jax)
        )(x),
        XY,
    )
    add(
        f"auto_axes_x_{_i}",
        lambda jax, x, s=_spec: jax.sharding.auto_axes(
            lambda y: jax.numpy.sin(y) @ y, axes="x", out_sharding=s(jax)
        )(x),
        X0,
    )
    add(
        f"explicit_axes_{_i}",
        lambda jax, x, s=_spec: jax.sharding.explicit_axes(
            lambda y: jax.numpy.sin(y) + y, in_sharding=s(jax)
        )(x),
        NONE,
    )

# ------------------------------------------------------------------------------- numpy

for _name in (
    "sin exp abs negative sqrt square isnan isfinite sign floor log1p tanh ravel "
    "transpose zeros_like ones_like flip sum prod mean max min var std argmax all any "
    "cumsum sort argsort squeeze"
).split():
    add(f"jnp_{_name}", jnp(_name), XY, X0)
    if _name in "sum prod mean max min var std argmax all any cumsum sort argsort":
        for _axis in (0, 1):
            add(f"jnp_{_name}_{_axis}", jnp(_name, axis=_axis), XY, X0)
for (
    _name
) in "add multiply subtract divide maximum power equal less logical_and".split():
    add(
        f"jnp_{_name}",
        jnp(_name),
        (XY, XY),
        (XY, X0),
        (XY, V),
        (XY, S),
        (X0, U),
        (X0, ONE),
        (X0, "f[8@x,1]"),
    )
add("jnp_where", jnp("where"), (B2, XY, XY), (B2, XY, S), (B2, S, S), (B2, X0, S))
add("jnp_where_number", lambda jax, x: jax.numpy.where(x > 2, x, 0), XY, X0)
add("jnp_where_row", lambda jax, x, v: jax.numpy.where(x > 2, v, x), (Y1, U), (X0, U))
add("jnp_clip", lambda jax, x: jax.numpy.clip(x, 0, 1), XY)
add("jnp_broadcast_to", jnp("broadcast_to", (8, 8)), U, V, S)
add("jnp_broadcast_arrays", jnp("broadcast_arrays"), (XY, V), (X0, S))
add("jnp_concatenate", lambda jax, x, y: jax.numpy.concatenate([x, y]), (Y1, Y1))
add("jnp_stack", lambda jax, x, y: jax.numpy.stack([x, y], 1), (XY, XY), (XY, X0))
add("jnp_vstack", lambda jax, x, y: jax.numpy.vstack([x, y]), (Y1, Y1))
add("jnp_expand_dims", jnp("expand_dims", 1), XY)
add("jnp_swapaxes", jnp("swapaxes", 0, 1), XY)
add("jnp_moveaxis", jnp("moveaxis", 0, 1), XY)
add("jnp_reshape", lambda jax, x: x.reshape(8, 2, 4), XY, X0)
add("jnp_reshape_minus", lambda jax, x: x.reshape(-1), XY, X0)
add("jnp_tile", jnp("tile", (2, 1)), XY, Y1)
add("jnp_repeat", jnp("repeat", 2, axis=0), XY, Y1)
add("jnp_take", lambda jax, x, i: jax.numpy.take(x, i, axis=0), (Y1, "i[4]"))
add(
    "jnp_take_along",
    lambda jax, x, i: jax.numpy.take_along_axis(x, i, axis=1),
    (X0, "i[8@x,2]"),
)
add("jnp_roll", jnp("roll", 1, axis=0), XY, Y1)
add("jnp_pad", jnp("pad", ((0, 0), (1, 1))), XY, X0)
add("jnp_tril", jnp("tril"), XY, X0)
add("jnp_diag", jnp("diag"), U, V)
add("jnp_trace", jnp("trace"), XY)
add("jnp_outer", jnp("outer"), (V, U), (V, "f[8@y]"))
add("jnp_vdot", jnp("vdot"), (U, U), (V, V))
add("jnp_inner", jnp("inner"), (X0, NONE))
add("jnp_tensordot", jnp("tensordot", 1), (X0, NONE))
add("jnp_split", lambda jax, x: jax.numpy.split(x, 2), XY, Y1)
add("jnp_norm", lambda jax, x: jax.numpy.linalg.norm(x), XY)
add("jnp_one_hot", lambda jax, i: jax.nn.one_hot(i, 8), I1)
for _name in "relu softmax log_softmax gelu silu sigmoid".split():
    add(f"nn_{_name}", _of("nn", _name), X0, XY)
add("nn_logsumexp", lambda jax, x: jax.nn.logsumexp(x, axis=1), X0, XY)
add("operators", lambda jax, x, v: (2 * x - v[:, None]) / 3**x, (XY, V))
add("comparison", lambda jax, x: (x > 0) & (x < 1), XY)
add("mlp", lambda jax, x, w: jax.nn.relu(x @ w + 1.0).sum(), (X0, NONE), (X0, Y1))
add(
    "attention",
    lambda jax, q, k: jax.nn.softmax(jax.numpy.einsum("bqd,bkd->bqk", q, k)),
    (X3, X3),
)
add(
    "einsum_bsh",
    lambda jax, x, w: jax.numpy.einsum("bsh,hf->bsf", x, w),
    (X3, Y1),
    (XY3, "f[8@y,8]"),
)

# --------------------------------------------------------------------- transformations


def _loss(jax: Any, x: Any, w: Any) -> Any:
    return jax.numpy.sum(jax.numpy.tanh(x @ w))


add(
    "grad_matmul",
    lambda jax, x, w: jax.grad(lambda *a: _loss(jax, *a), (0, 1))(x, w),
    (X0, NONE),
    (X0, Y1),
    (NONE, Y1),
    (NONE, NONE),
)
for _n, _f in {
    "sum": lambda jax, x: jax.numpy.sum(x * x),
    "max": lambda jax, x: jax.numpy.max(x),
    "reshape": lambda jax, x: jax.numpy.sum(x.reshape(8, 2, 4) ** 2),
    "where": lambda jax, x: jax.numpy.sum(jax.numpy.where(x > 0, x, 0.0)),
    "index": lambda jax, x: jax.numpy.sum(x[:, 0]),
    "softmax": lambda jax, x: jax.numpy.sum(jax.nn.softmax(x)[:, 0]),
    "transpose": lambda jax, x: jax.numpy.sum(x.T * 2.0),
    "cumsum": lambda jax, x: jax.numpy.sum(jax.numpy.cumsum(x, 1)),
    "concatenate": lambda jax, x: jax.numpy.sum(jax.numpy.concatenate([x, x], 1) ** 2),
    "broadcast": lambda jax, x: jax.numpy.sum(x[:, None] * x[None, :, 0][..., None]),
    "mean": lambda jax, x: jax.numpy.mean(x),
    "var": lambda jax, x: jax.numpy.var(x),
    "pad": lambda jax, x: jax.numpy.sum(jax.numpy.pad(x, ((0, 0), (1, 1)))),
    "slice": lambda jax, x: jax.numpy.sum(x[:, :4]),
    "reshard": lambda jax, x: jax.numpy.sum(
        jax.sharding.reshard(x, to(None, "x")(jax)) ** 2
    ),
    "auto_axes": lambda jax, x: jax.numpy.sum(
        jax.sharding.auto_axes(jax.numpy.sin, out_sharding=to("x")(jax))(x)
    ),
    "explicit_axes": lambda jax, x: jax.numpy.sum(
        jax.sharding.explicit_axes(jax.numpy.sin, in_sharding=to("x")(jax))(x)
    ),
    "sort": lambda jax, x: jax.numpy.sum(jax.numpy.sort(x, 1)),
    "prod": lambda jax, x: jax.numpy.prod(x, 1).sum(),
}.items():
    add(f"grad_{_n}", lambda jax, x, f=_f: jax.grad(lambda y: f(jax, y))(x), X0, XY)
    add(f"jvp_{_n}", lambda jax, x, f=_f: jax.jvp(lambda y: f(jax, y), (x,), (x,)), X0)
add("grad_value", lambda jax, x: jax.value_and_grad(lambda y: (y * y).sum())(x), XY)
add("vjp", lambda jax, x: jax.vjp(jax.numpy.sin, x)[1](x), XY)
add("vjp_wrong", lambda jax, x, y: jax.vjp(jax.numpy.sin, x)[1](y), (XY, X0))
add("linearize", lambda jax, x: jax.linearize(jax.numpy.sin, x)[1](x), XY)
add(
    "linearize_wrong", lambda jax, x, y: jax.linearize(jax.numpy.sin, x)[1](y), (XY, X0)
)
add("jvp_wrong", lambda jax, x, y: jax.jvp(jax.numpy.sin, (x,), (y,)), (XY, X0))
add("jit", lambda jax, x: jax.jit(jax.numpy.sin)(x), XY)
add(
    "checkpoint",
    lambda jax, x: jax.grad(lambda y: jax.checkpoint(jax.numpy.sin)(y).sum())(x),
    XY,
)

for _n, _f in {
    "sin": lambda jax, x: jax.numpy.sin(x),
    "add_scalar": lambda jax, x: x + 1.0,
    "sum": lambda jax, x: x.sum(),
    "sum_0": lambda jax, x: x.sum(0),
    "expand": lambda jax, x: x[..., None],
    "reshape": lambda jax, x: x.reshape(1, -1),
    "where": lambda jax, x: jax.numpy.where(x > 0, x, 0),
    "dot": lambda jax, x: x @ x,
    "outer": lambda jax, x: jax.numpy.outer(x, x),
    "concat": lambda jax, x: jax.numpy.concatenate([x, x], -1),
    "full": lambda jax, x: jax.numpy.ones(3) + x.sum(),
    "unmapped": lambda jax, x: jax.numpy.ones(3),
    "index": lambda jax, x: x[0],
    "cumsum": lambda jax, x: jax.numpy.cumsum(x, -1),
    "sort": lambda jax, x: jax.numpy.sort(x, -1),
    "softmax": lambda jax, x: jax.nn.softmax(x),
    "grad": lambda jax, x: jax.grad(lambda y: (y * y).sum())(x),
    "iota": lambda jax, x: x + jax.numpy.arange(8.0),
    "at_set": lambda jax, x: x.at[0].set(1.0),
    "take": lambda jax, x: x[np.array([0, 1])],
    "dynamic": lambda jax, x: jax.lax.dynamic_slice(x, (x[0].astype(int),), (2,)),
    "reshard": lambda jax, x: jax.sharding.reshard(x, to(None)(jax)),
    "reshard_y": lambda jax, x: jax.sharding.reshard(x, to("y")(jax)),
    "out": lambda jax, x: jax.lax.broadcast(x, (4,), out_sharding=to(None, "y")(jax)),
    "scan": lambda jax, x: (
        jax.lax.scan(lambda c, y: (c + y, c * y), x, None, 3)
        if False
        else jax.lax.scan(lambda c, y: (c + y, c * y), x.sum(), x)
    ),
    "cond": lambda jax, x: jax.lax.cond(x.sum() > 0, lambda y: y, lambda y: -y, x),
    "while": lambda jax, x: jax.lax.while_loop(
        lambda y: y.sum() < 3, lambda y: y + 1, x
    ),
    "jit": lambda jax, x: jax.jit(lambda y: y * 2)(x),
    "pad": lambda jax, x: jax.numpy.pad(x, 1),
    "argmax": lambda jax, x: jax.numpy.argmax(x),
}.items():
    add(f"vmap_{_n}", lambda jax, x, f=_f: jax.vmap(lambda y: f(jax, y))(x), X0, Y1)
    add(
        f"vmap_out1_{_n}",
        lambda jax, x, f=_f: jax.vmap(lambda y: f(jax, y), out_axes=-1)(x),
        X0,
    )
for _n, _f in {
    "add": lambda jax, x, y: x + y,
    "mul": lambda jax, x, y: x * y,
    "dot": lambda jax, x, y: x @ y,
    "where": lambda jax, x, y: jax.numpy.where(x > 0, x, y),
    "concat": lambda jax, x, y: jax.numpy.concatenate([x, y]),
    "stack": lambda jax, x, y: jax.numpy.stack([x, y]),
    "dus": lambda jax, x, y: jax.lax.dynamic_update_slice(x, y, (0,)),
    "clamp": lambda jax, x, y: jax.lax.clamp(x, y, x),
    "both": lambda jax, x, y: (x, y),
    "scan": lambda jax, x, y: jax.lax.scan(lambda c, z: (c + z, c), x, y[None]),
    "cond": lambda jax, x, y: jax.lax.cond(
        x.sum() > 0, lambda a, b: a, lambda a, b: b, x, y
    ),
    "fori": lambda jax, x, y: jax.lax.fori_loop(0, 3, lambda i, c: c + x, y),
    "sort": lambda jax, x, y: jax.lax.sort((x, y)),
    "scatter": lambda jax, x, y: x.at[np.array([0, 1])].add(y[:2]),
    "gather": lambda jax, x, y: x[y.astype(int)],
}.items():
    add(
        f"vmap2_{_n}",
        lambda jax, x, y, f=_f: jax.vmap(lambda a, b: f(jax, a, b))(x, y),
        (X0, X0),
        (X0, NONE),
    )
    add(
        f"vmap2_left_{_n}",
        lambda jax, x, y, f=_f: jax.vmap(lambda a, b: f(jax, a, b), in_axes=(0, None))(
            x, y
        ),
        (X0, U),
        (XY, "f[8@y]"),
    )
    add(
        f"vmap2_right_{_n}",
        lambda jax, x, y, f=_f: jax.vmap(lambda a, b: f(jax, a, b), in_axes=(None, 0))(
            x, y
        ),
        (U, X0),
    )
add("vmap_axis_1", lambda jax, x: jax.vmap(jax.numpy.sin, in_axes=1)(x), XY)
add("vmap_twice", lambda jax, x: jax.vmap(jax.vmap(jax.numpy.sin))(x), XY)
add("vmap_size", lambda jax, x: jax.vmap(lambda y: y, axis_size=8, in_axes=None)(x), V)
add("vmap_spmd", lambda jax, x: jax.vmap(jax.numpy.sin, spmd_axis_name="y")(x), X0)
add("vmap_spmd_same", lambda jax, x: jax.vmap(jax.numpy.sin, spmd_axis_name="x")(x), X0)

# --------------------------------------------------------------------------- control

add("scan", lambda jax, x: jax.lax.scan(lambda c, y: (c + y, c * y), x[0], x), Y1, XY)
add(
    "scan_carry",
    lambda jax, x: jax.lax.scan(lambda c, y: (c * 2, c.sum()), x, None, length=3),
    XY,
)
add(
    "scan_carry_type",
    lambda jax, x, y: jax.lax.scan(lambda c, _: (c + y, None), x, None, length=3),
    (NONE, XY),
)
add(
    "scan_grad",
    lambda jax, x: jax.grad(
        lambda z: jax.lax.scan(lambda c, y: (c * y, None), z[0], z)[0].sum()
    )(x),
    Y1,
)
add(
    "while",
    lambda jax, x: jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x),
    XY,
)
add(
    "while_type",
    lambda jax, x, y: jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: c + y, x),
    (NONE, XY),
)
add("fori", lambda jax, x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2, x), XY)
add(
    "cond",
    lambda jax, p, x: jax.lax.cond(p, jax.numpy.sin, jax.numpy.cos, x),
    ("b[]", XY),
)
add(
    "cond_types",
    lambda jax, p, x, y: jax.lax.cond(p, lambda: x, lambda: y),
    ("b[]", XY, X0),
)
add(
    "switch",
    lambda jax, i, x: jax.lax.switch(
        i, [jax.numpy.sin, jax.numpy.cos, jax.numpy.tanh], x
    ),
    (IS, XY),
)
add("map", lambda jax, x: jax.lax.map(jax.numpy.sin, x), Y1, XY)
