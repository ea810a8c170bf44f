"""What one implementation takes: `python cases.py minijax` or `python cases.py jax`.

Prints one line of JSON: seconds per case (MiB for memory, counts for the optimised
programs). Every program is a function of the library's modules, so both run the same.
`compare.py` runs this in alternation and says what it means.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import numpy as np

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

Thunk = Callable[[], Any]
COLLECTIVE = re.compile(r" (all-to-all|all-reduce|all-gather|collective-permute)\(")
F32 = np.float32


def each(run: Thunk, times: int = 7) -> float:
    """The median of single runs, after one that is not counted; seconds."""
    run()
    return median(_timed(run, 1) for _ in range(times))


def per_call(run: Thunk, rounds: int = 7, seconds: float = 0.1) -> float:
    """The median over rounds of the mean of many calls; seconds per call."""
    run()
    calls = max(5, int(seconds / max(_timed(run, 1), 1e-7)))
    return median(_timed(run, calls) for _ in range(rounds))


def _timed(run: Thunk, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


class Programs:
    """The programs and their arguments, for one library."""

    def __init__(self, name: str):
        self.lib = importlib.import_module(name)
        self.np = importlib.import_module(f"{name}.numpy")
        self.lax = importlib.import_module(f"{name}.lax")
        self.sharding = importlib.import_module(f"{name}.sharding")
        devices = np.array(self.lib.devices()[:8])
        self.mesh = self.sharding.Mesh(devices, ("i",))
        self.x = np.ones(4, F32)
        layer = (np.ones((8, 8), F32), np.ones(8, F32))
        self.mlp_arguments = ([layer] * 3, np.ones((4, 8), F32))
        experts = tuple(np.ones((16, 16), F32) for _ in range(3))
        self.moe_arguments = ([experts] * 12, np.ones((128, 16), F32))

    def chain(self, x: Any) -> Any:
        """2,000 elementwise operations, half of them through operators."""
        for _ in range(500):
            x = self.lax.cos(self.lax.sin(x) * 1.5 + 0.5)
        return x

    def chain_gradient(self) -> Any:
        return self.lib.grad(lambda x: self.np.sum(self.chain(x)))

    def mlp_gradient(self, scale: float = 1.0) -> Any:
        def loss(layers: Any, x: Any) -> Any:
            for weight, bias in layers:
                x = self.lax.tanh(self.np.dot(x, weight) + bias)
            return self.np.sum(x) * scale

        return self.lib.grad(loss)

    def moe_gradient(self) -> Any:
        """Twelve layers of experts on eight devices: two exchanges and a norm each."""
        lax, jnp, P = self.lax, self.np, self.sharding.PartitionSpec

        def body(layers: Any, x: Any) -> Any:
            for gate, up, down in layers:
                sent = jnp.tanh(jnp.dot(x, gate)).reshape(8, -1, x.shape[-1])
                there = lax.all_to_all(sent, "i", 0, 0)
                there = jnp.dot(jnp.tanh(jnp.dot(there, up)), down)
                x = x + lax.all_to_all(there, "i", 0, 0).reshape(x.shape)
                centred = x - jnp.mean(x, axis=-1, keepdims=True)
                variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
                x = centred * lax.rsqrt(variance + 1e-5)
            return lax.psum(jnp.sum(x * x), "i")

        specs = {"in_specs": (P(), P("i")), "out_specs": P()}
        return self.lib.grad(self.lib.shard_map(body, mesh=self.mesh, **specs))

    def over_devices(self, body: Callable[[Any], Any], spec: Any) -> Any:
        how = {"in_specs": spec, "out_specs": spec, "mesh": self.mesh}
        return self.lib.jit(self.lib.shard_map(body, **how))


def fresh(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that no cache knows."""
    return lambda *args: fun(*args)


def tracing(p: Programs) -> dict[str, Thunk]:
    """Tracing, and tracing with lowering, of new functions."""
    gradient, experts = p.mlp_gradient(), p.moe_gradient()
    jobs = {
        "chain": (p.chain, (p.x,)),
        "MLP gradient": (gradient, p.mlp_arguments),
        "MoE gradient": (experts, p.moe_arguments),
        "chain gradient": (p.chain_gradient(), (p.x,)),
    }

    def trace(fun: Any, args: Any) -> Thunk:
        return lambda: p.lib.make_jaxpr(fresh(fun))(*args)

    def lower(fun: Any, args: Any) -> Thunk:
        return lambda: p.lib.jit(fresh(fun)).lower(*args).as_text()

    out = {f"trace {k}": trace(*job) for k, job in jobs.items()}
    del jobs["chain gradient"]
    return out | {f"lower {k}": lower(*job) for k, job in jobs.items()}


def dispatch(p: Programs) -> dict[str, Thunk]:
    """Calls of what is compiled already, and eager ones."""
    jit, wait = p.lib.jit, p.lib.block_until_ready
    one = p.np.asarray(p.x)
    many = [p.np.asarray(p.x + i) for i in range(50)]
    tree = {f"leaf {i:02d}": x for i, x in enumerate(many)}
    placed = p.lib.device_put(
        np.ones((8, 4), F32),
        p.sharding.NamedSharding(p.mesh, p.sharding.PartitionSpec("i")),
    )
    add_one, on_eight = jit(lambda x: x + 1), jit(lambda x: x + 1)
    all_of = jit(lambda *xs: sum(xs[1:], xs[0]))
    each_of = jit(lambda *xs: tuple(x + 1 for x in xs))
    of_tree = jit(lambda t: {k: x + 1 for k, x in t.items()})

    def fifty(x: Any) -> Any:
        for _ in range(25):
            x = p.lax.sin(x) * 1.5
        return p.np.sum(x)

    def adds() -> Any:
        x = one
        for _ in range(50):
            x = p.lax.add(x, one)
        return x

    rows = p.np.asarray(np.ones((3, 4), F32))
    return {
        "jit 1": lambda: add_one(one),
        "jit 50 to 1": lambda: all_of(*many),
        "jit 50 to 50": lambda: each_of(*many),
        "jit dict": lambda: of_tree(tree),
        "jit 8 devices": lambda: wait(on_eight(placed)),
        "eager": lambda: wait(adds()),
        "eager vmap": lambda: wait(p.lib.vmap(fifty)(rows)),
        "eager grad": lambda: wait(p.lib.grad(fifty)(one)),
    }


def collectives(p: Programs) -> dict[str, Thunk]:
    """Exchanges of 1 MiB per device."""
    P = p.sharding.PartitionSpec("i")
    place = p.sharding.NamedSharding(p.mesh, P)
    x = p.lib.device_put(np.ones((8 * 8, 32768), F32), place)  # 1 MiB per device
    bodies = {
        "all_to_all": lambda v: p.lax.all_to_all(v, "i", 0, 0, tiled=True),
        "psum": lambda v: v + p.lax.psum(v, "i"),
    }
    funs = {k: p.over_devices(body, P) for k, body in bodies.items()}

    def call(fun: Any) -> Thunk:
        return lambda: p.lib.block_until_ready(fun(x))

    return {f"collective {k}": call(fun) for k, fun in funs.items()}


def compiling(p: Programs) -> dict[str, float]:
    """XLA's part for a program, what it makes of it, and the whole way to a result."""
    scale = count(1)  # another constant each time: nothing is compiled already

    def lowered() -> Any:
        return p.lib.jit(p.mlp_gradient(float(next(scale)))).lower(*p.mlp_arguments)

    def first() -> Any:
        fun = p.lib.jit(p.mlp_gradient(float(next(scale))))
        return p.lib.block_until_ready(fun(*p.mlp_arguments))

    text = lowered().compile().as_text()
    compiled = median(_timed(lowered().compile, 1) for _ in range(5))
    return {
        "compile": compiled,
        "first result": each(first, 5),
        "instructions": float(text.count(" = ")),
        "collectives": float(len(COLLECTIVE.findall(text))),
    }


def measure(name: str, only: list[str]) -> dict[str, float]:
    """Seconds per case; those whose name has none of the words in `only` are left."""

    def wanted(case: str) -> bool:
        return not only or any(word in case for word in only)

    start = time.perf_counter()
    importlib.import_module(name)
    imported = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    p = Programs(name)
    out = {"import": imported, "memory": used}
    for kind, timer in ((tracing, each), (dispatch, per_call), (collectives, per_call)):
        out |= {k: timer(run) for k, run in kind(p).items() if wanted(k)}
    if wanted("compile") or wanted("first result"):
        out |= compiling(p)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", choices=["minijax", "jax"])
    parser.add_argument("--only", default="", help="words, separated by commas")
    given = parser.parse_args()
    words = [w for w in given.only.split(",") if w]
    print(json.dumps(measure(given.implementation, words)))
