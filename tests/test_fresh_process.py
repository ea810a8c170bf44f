"""minijax on its own: programs in a process that has never imported JAX."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

PROGRAM = """
import sys
import numpy as np
import minijax
import minijax.numpy as jnp
from minijax.sharding import AxisType, PartitionSpec as P

mesh = minijax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
key = minijax.random.key(0)
w = minijax.random.normal(key, (8, 4))
x = jnp.linspace(0.0, 1.0, 64).reshape(8, 8)


def layer(x, w):
    return minijax.lax.psum(jnp.tanh(x @ w), "y")


mapped = minijax.shard_map(
    layer, mesh=mesh, in_specs=(P("x", "y"), P("y")), out_specs=P("x")
)


@minijax.jit
def loss(w):
    return jnp.mean(mapped(x, w) ** 2)


gradient = minijax.jit(minijax.grad(loss))(w)
step = np.float32(1e-2)
direction = np.ones_like(w)
slope = (loss(w + step * direction) - loss(w - step * direction)) / (2 * step)
np.testing.assert_allclose(np.sum(np.asarray(gradient)), slope, rtol=1e-2)
assert minijax.vmap(minijax.grad(jnp.sin))(x[0]).shape == (8,)
assert not {m for m in sys.modules if m == "jax" or m.startswith("jax.")}
print("fine", gradient.shape)
"""

IMPORTS = """
import sys
import minijax
from minijax.runtime import backend

roots = {m.partition(".")[0] for m in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(r for r in roots if not r.startswith("_")))
print(len(backend._clients))
"""


def run(program: str, **variables: str) -> str:
    """What a program prints, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_a_whole_program_runs_without_jax() -> None:
    assert run(PROGRAM) == "fine (8, 4)\n"


def test_importing_brings_in_little_and_starts_nothing() -> None:
    roots, clients = run(IMPORTS).splitlines()
    assert set(roots.split()) <= {
        "jaxlib",
        "minijax",
        "ml_dtypes",
        "numpy",
    }
    assert clients == "0"
