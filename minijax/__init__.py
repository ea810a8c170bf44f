"""minijax: a minimal tracing compiler that shows how JAX works.

Names only: the public API. Start reading at `docs/index.md`.
"""

from minijax import lax  # isort: skip - the pages come before what uses them
from minijax import debug, errors, experimental, nn, numpy, random, sharding, tree
from minijax.core.avals import ShapeDtypeStruct
from minijax.core.ending import checking_leaks
from minijax.core.trace import set_bottom_trace, typeof
from minijax.lax.operators import install
from minijax.runtime.array import Array
from minijax.runtime.backend import (
    default_backend,
    device_count,
    devices,
    local_devices,
    make_mesh,
)
from minijax.runtime.config import config
from minijax.runtime.ordered import effects_barrier
from minijax.transforms.callbacks.host import pure_callback
from minijax.transforms.checkpoint import checkpoint, checkpoint_policies, remat
from minijax.transforms.custom_rules import custom_jvp, custom_vjp
from minijax.transforms.derivatives import hessian, jacfwd, jacobian, jacrev
from minijax.transforms.evaluate import EvalTrace, clear_caches
from minijax.transforms.grad import grad, linearize, value_and_grad, vjp
from minijax.transforms.jit import jit
from minijax.transforms.jvp import jvp
from minijax.transforms.linear_transpose import linear_transpose
from minijax.transforms.place import (
    block_until_ready,
    device_put,
    reshard,
    set_mesh,
)
from minijax.transforms.shapes import eval_shape, make_jaxpr
from minijax.transforms.shard_map import shard_map
from minijax.transforms.top_level import top_level_all_gather
from minijax.transforms.vmap import vmap

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "block_until_ready",
    "checking_leaks",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "config",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "default_backend",
    "device_count",
    "device_put",
    "devices",
    "effects_barrier",
    "errors",
    "eval_shape",
    "experimental",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "local_devices",
    "make_jaxpr",
    "make_mesh",
    "nn",
    "numpy",
    "pure_callback",
    "random",
    "remat",
    "reshard",
    "set_mesh",
    "shard_map",
    "sharding",
    "top_level_all_gather",
    "tree",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]

__version__ = "0.1.0"

set_bottom_trace(EvalTrace())
install(jit)
