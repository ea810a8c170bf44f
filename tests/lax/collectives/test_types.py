"""What types say after each cast and collective, and that vmap leaves that alone."""

import re

import numpy as np
import pytest

import minijax as jax
from minijax import lax

P = jax.sharding.PartitionSpec

# From float32[8,4]{V:i} on four devices along i: what is done, and what comes out.
STEPS = {
    "psum": (lambda x: lax.psum(x, "i"), "float32[8,4]"),
    "pmax": (lambda x: lax.pmax(x, "i"), "float32[8,4]"),
    "psum in groups": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
        "float32[8,4]{V:i}",
    ),
    "pmax in groups": (
        lambda x: lax.pmax(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
        "float32[8,4]{V:i}",
    ),
    "all_gather": (lambda x: lax.all_gather(x, "i"), "float32[4,8,4]{V:i}"),
    "all_gather to invarying": (
        lambda x: lax.all_gather(x, "i", to="invarying"),
        "float32[4,8,4]",
    ),
    "all_gather to reduced": (
        lambda x: lax.all_gather(x, "i", to="reduced", tiled=True),
        "float32[32,4]{R:i}",
    ),
    "reduced to varying": (
        lambda x: lax.pcast(
            lax.all_gather(x, "i", to="reduced", tiled=True), "i", to="varying"
        ),
        "float32[32,4]{V:i}",
    ),
    "invarying to reduced": (
        lambda x: lax.pcast(lax.psum(x, "i"), "i", to="reduced"),
        "float32[8,4]{R:i}",
    ),
    "varying to unreduced": (
        lambda x: lax.pcast(x, "i", to="unreduced"),
        "float32[8,4]{U:i}",
    ),
    "psum of unreduced": (
        lambda x: lax.psum(lax.pcast(x, "i", to="unreduced"), "i"),
        "float32[8,4]",
    ),
    "psum_scatter of unreduced": (
        lambda x: lax.psum_scatter(lax.pcast(x, "i", to="unreduced"), "i", tiled=True),
        "float32[2,4]{V:i}",
    ),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x, "i", tiled=True),
        "float32[2,4]{V:i}",
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
        "float32[2,16]{V:i}",
    ),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1)]), "float32[8,4]{V:i}"),
    "axis_index": (lambda x: lax.axis_index("i"), "int32[]{V:i}"),
}


def _mesh():
    return jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))


def _vary(x):
    """Casts back whatever comes out, so that it can leave sharded over i."""
    manual = jax.typeof(x).manual
    if manual.unreduced:
        x = lax.psum(x, "i")
    return x if manual.varying else lax.pcast(x, "i", to="varying")


def _run(f, x):
    spec = P("i") if x.ndim else P()
    f = jax.shard_map(f, mesh=_mesh(), in_specs=spec, out_specs=P("i"))
    x = jax.device_put(x, jax.sharding.NamedSharding(_mesh(), spec))
    return np.asarray(jax.jit(f)(x))


def _x():
    return np.arange(128, dtype=np.float32).reshape(32, 4)


@pytest.mark.parametrize("name", STEPS)
def test_the_type(name):
    f, wanted = STEPS[name]
    seen = []

    def body(x):
        out = f(x)
        seen.append(str(jax.typeof(out)))
        return x

    _run(body, _x())
    assert seen == [wanted]


@pytest.mark.parametrize("name", [n for n in STEPS if n != "axis_index"])
def test_vmap_of_a_step_is_a_loop(name):
    """Also of those casts and collectives that upstream cannot batch."""
    f, _ = STEPS[name]
    x = np.stack([_x(), _x() * 2, _x() + 1], axis=1)

    def mapped(v):
        return jax.vmap(lambda u: _vary(f(u)), in_axes=1, out_axes=1)(v)

    def looped(v):
        outs = [_vary(f(lax.index_in_dim(v, k, 1, keepdims=False))) for k in range(3)]
        return lax.concatenate([lax.expand_dims(y, (1,)) for y in outs], 1)

    np.testing.assert_array_equal(_run(mapped, x), _run(looped, x))


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (
            lambda x: lax.psum_scatter(lax.pcast(x, "i", to="reduced"), "i"),
            "cannot accept args which are reduced. Got f32[8,4]{R:i} and axes={'i'}",
        ),
        (
            lambda x: lax.all_to_all(lax.pcast(x, "i", to="reduced"), "i", 0, 0),
            "all_to_all requires the size",
        ),
    ],
)
def test_refusals_name_the_type(f, text):
    def body(x):
        return f(lax.psum(x, "i"))

    with pytest.raises(ValueError, match=re.escape(text)):
        _run(body, _x())
