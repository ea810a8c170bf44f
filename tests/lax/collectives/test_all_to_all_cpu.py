"""all_to_all as a loop over chunks on CPU devices, held against the StableHLO op.

The sizes at which the loop is used are lowered, so that small operands go through it.
"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minijax
from minijax.core.avals import ShapedArray
from minijax.lax.collectives import all_to_all_cpu

ROOT = Path(__file__).parents[3]
P = minijax.sharding.PartitionSpec
DTYPES = [bool, np.int8, np.uint16, np.int32, np.float16, ml_dtypes.bfloat16]
DTYPES += [ml_dtypes.float8_e4m3fn, np.float32, np.complex64]
GROUPS = [[3, 0], [1, 2]]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(all_to_all_cpu, "THRESHOLD", 256)
    monkeypatch.setattr(all_to_all_cpu, "CHUNK", 64)


def _mesh(shape=(4,), axes=("i",)):
    auto = (minijax.sharding.AxisType.Auto,) * len(axes)
    return minijax.make_mesh(shape, axes, axis_types=auto)


def _exchange():
    """Over four devices, tiled, along the only dimension that is sharded."""
    return minijax.shard_map(
        lambda x: minijax.lax.all_to_all(x, "i", 0, 0, tiled=True),
        mesh=_mesh(),
        in_specs=P("i"),
        out_specs=P("i"),
    )


def _compiled(x, names="i", shape=(4,), *args, donate=(), **options):
    """The result, and whether the loop was compiled."""
    options = {"tiled": True} | options
    axes = tuple("ij"[: len(shape)])
    mesh = _mesh(shape, axes)
    f = minijax.shard_map(
        lambda x: minijax.lax.all_to_all(x, names, *(args or (0, 0)), **options),
        mesh=mesh,
        in_specs=P(axes),
        out_specs=P(axes),
    )
    lowered = minijax.jit(f, donate_argnums=donate).lower(x)
    assert "stablehlo.while" not in lowered.as_text()
    module = lowered._lowered
    runs = module.runnable() if module.module.lacking else module.module
    return np.asarray(lowered.compile()(x)), "stablehlo.while" in str(runs)


def _alike(monkeypatch, x, *args, **options):
    """Whether the loop was compiled; its result is bit-identical to that of the op."""
    got, loop = _compiled(x, *args, **options)
    with monkeypatch.context() as patch:
        patch.setattr(all_to_all_cpu, "_CANONICAL", True)
        want, never = _compiled(x, *args, **options)
    assert not never
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()
    return loop


def _bits(shape, dtype, seed=0):
    """Random bits: among floats, also NaNs with a payload."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return raw.view(dtype)[..., 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(small, monkeypatch, dtype):
    assert _alike(monkeypatch, _bits((32, 64), dtype))


@pytest.mark.parametrize("axes", list(itertools.product((0, 1, 2), repeat=2)))
@pytest.mark.parametrize("tiled", [False, True])
def test_axes(small, monkeypatch, axes, tiled):
    shape = (16 if not tiled and axes[0] == 0 else 32, 4, 4)
    x = _bits(shape, np.float32)
    assert _alike(monkeypatch, x, "i", (4,), *axes, tiled=tiled) == (axes[0] == axes[1])


@pytest.mark.parametrize("names", ["i", "j", ("i", "j"), ("j", "i")])
def test_several_axes(small, monkeypatch, names):
    assert _alike(monkeypatch, _bits((64, 32), np.float32), names, (4, 2))


def test_groups(small, monkeypatch):
    x = _bits((32, 64), np.int32)
    assert _alike(monkeypatch, x, axis_index_groups=GROUPS)


def test_a_donated_operand(small):
    x = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    want, _ = _compiled(x)
    got, loop = _compiled(minijax.numpy.asarray(x), donate=0)
    assert loop
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(("columns", "loop"), [(4, False), (8, True), (12, True)])
def test_around_the_threshold(small, monkeypatch, columns, loop):
    assert _alike(monkeypatch, _bits((32, columns), np.float32)) is loop


def test_sizes_that_no_chunk_divides():
    prime = (4, 4194301)
    assert all_to_all_cpu.plan(ShapedArray(prime, np.float32), 0, 0, 4) is None


def test_nothing_to_send(small):
    assert all_to_all_cpu.plan(ShapedArray((4, 0), np.float32), 0, 0, 4) is None


def test_the_gradient(small):
    x = _bits((32, 64), np.int8).astype(np.float32)
    f = _exchange()
    weights = np.arange(x.size, dtype=np.float32).reshape(x.shape)
    grad = minijax.jit(minijax.grad(lambda x: (f(x) * weights).sum()))(x)
    # An exchange is its own inverse, and so its own transpose.
    np.testing.assert_array_equal(np.asarray(grad), np.asarray(f(weights)))


def test_a_large_operand_shows_the_op_and_compiles_the_loop():
    x = np.zeros((8 * 4, all_to_all_cpu.THRESHOLD // 32), np.float32)
    f = _exchange()
    lowered = minijax.jit(f).lower(x)
    assert "stablehlo.while" not in lowered.as_text()
    assert "stablehlo.while" in str(lowered._lowered.runnable())


def test_the_switch():
    program = (
        "import numpy as np\n"
        "from minijax.core.avals import ShapedArray\n"
        "from minijax.lax.collectives.all_to_all_cpu import plan\n"
        "print(plan(ShapedArray((8, 1 << 20), np.float32), 0, 0, 8) is None)"
    )
    for value, kept in (("auto", "False"), ("canonical", "True")):
        out = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"MINIJAX_CPU_ALL_TO_ALL": value, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert out.stdout.strip() == kept
