"""Measures all_to_all on CPU devices: the ways tried, upstream's op, and a copy.

    python bench/all_to_all_cpu.py 64 --rounds 9

One process measures one size (the memory allocator adapts itself to what came before),
with all ways after each other in every round, each round in another order. Printed are
the median time, and the medians over the rounds of the ratios to upstream's op and to
a copy of the same bytes into memory in use, with the quartiles of the first.

It needs JAX. `minijax` is this library's own result; ways with `d:` donate the operand;
`exchange_64` is the loop of `minijax/lax/collectives/all_to_all_cpu.py` with chunks of
64 KiB, written with upstream's functions.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

import minijax

DEVICES = 8
Body = Callable[[Any], Any]


def direct(x: Any) -> Any:
    """Upstream's op."""
    return lax.all_to_all(x, "i", 0, 0, tiled=True)


def loop(kib: int, fresh: bool = False) -> Body:
    """A loop over chunks, in place or into zeros."""

    def body(x: Any) -> Any:
        length = min(kib * 1024 // 4 // DEVICES, x.shape[1])

        def step(i: Any, out: Any) -> Any:
            source = x if fresh else out
            part = lax.dynamic_slice(source, (0, i * length), (DEVICES, length))
            return lax.dynamic_update_slice(out, direct(part), (0, i * length))

        start = jax.numpy.zeros_like(x) if fresh else x
        return lax.fori_loop(0, x.shape[1] // length, step, start)

    return body


def permutes(x: Any) -> Any:
    """Every block by a `ppermute` of its own, written into place."""
    i, out = lax.axis_index("i"), x
    for r in range(1, DEVICES):
        block = lax.dynamic_slice(x, ((i + r) % DEVICES, 0), (1, x.shape[1]))
        perm = [(a, (a + r) % DEVICES) for a in range(DEVICES)]
        block = lax.ppermute(block, "i", perm)
        out = lax.dynamic_update_slice(out, block, ((i - r) % DEVICES, 0))
    return out


def pairs(x: Any) -> Any:
    """The same between the pairs whose numbers differ by an exclusive or, in place."""
    i, out = lax.axis_index("i"), x
    for r in range(1, DEVICES):
        block = lax.dynamic_slice(out, (i ^ r, 0), (1, x.shape[1]))
        block = lax.ppermute(block, "i", [(a, a ^ r) for a in range(DEVICES)])
        out = lax.dynamic_update_slice(out, block, (i ^ r, 0))
    return out


def gather(x: Any) -> Any:
    """Everything to everyone, of which each keeps its column."""
    rows = lax.all_gather(x, "i")
    return lax.dynamic_index_in_dim(rows, lax.axis_index("i"), 1, keepdims=False)


def zeros(x: Any) -> Any:
    """No exchange: a result in fresh memory. What no way without donation is below."""
    return jax.numpy.zeros_like(x) + x[0, 0]


WAYS: dict[str, Body] = {
    "direct": direct,
    "exchange_64": loop(64),
    "exchange_256": loop(256),
    "exchange_1024": loop(1024),
    "fresh_256": loop(256, fresh=True),
    "permutes": permutes,
    "pairs": pairs,
    "gather": gather,
    "zeros": zeros,
    "d:direct": direct,
    "d:exchange_256": loop(256),
}


def calls(size: int) -> dict[str, Callable[[], Any]]:
    """What to time: everything takes and leaves arrays of `size` bytes per device."""
    shape = (DEVICES * DEVICES, size // 4 // DEVICES)
    host = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    mesh = jax.make_mesh((DEVICES,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("i")
    x = jax.device_put(host, NamedSharding(mesh, spec))
    want = None

    def timed(name: str, body: Body) -> Callable[[], Any]:
        nonlocal want
        donate = (0,) if name.startswith("d:") else ()
        f = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
        run = jax.jit(f, donate_argnums=donate).lower(x).compile()
        if not donate:
            got = np.asarray(run(x))
            want = got if want is None else want
            if name != "zeros" and not np.array_equal(got, want):
                raise AssertionError(f"{name} is wrong")
            return lambda: jax.block_until_ready(run(x))
        own = [x + 0]

        def chained() -> None:
            own[0] = jax.block_until_ready(run(own[0]))

        return chained

    out = {
        name: timed(name, body)
        for name, body in WAYS.items()
        if name != "gather" or size <= 4 << 20
    }
    out |= _minijax(host)
    rows = [np.ones(size // 4, np.float32) for _ in range(DEVICES)]
    into = [row.copy() for row in rows]
    out["copy"] = lambda: [np.copyto(a, b) for a, b in zip(into, rows, strict=True)]
    out["copy_fresh"] = lambda: [row.copy() for row in rows]
    return out


def _minijax(host: Any) -> dict[str, Callable[[], Any]]:
    mesh = minijax.make_mesh((DEVICES,), ("i",))
    spec = minijax.sharding.PartitionSpec("i")
    f = minijax.shard_map(
        lambda x: minijax.lax.all_to_all(x, "i", 0, 0, tiled=True),
        mesh=mesh,
        in_specs=spec,
        out_specs=spec,
    )
    x = minijax.device_put(host, minijax.sharding.NamedSharding(mesh, spec))
    plain, donating = minijax.jit(f), minijax.jit(f, donate_argnums=0)
    own = [minijax.device_put(host, minijax.sharding.NamedSharding(mesh, spec))]

    def chained() -> None:
        own[0] = donating(own[0])
        own[0].block_until_ready()

    return {"minijax": lambda: plain(x).block_until_ready(), "d:minijax": chained}


def main() -> None:
    """Measures one size and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mib", type=float, help="per device")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    timed = calls(int(options.mib * 2**20))
    times: dict[str, list[float]] = {name: [] for name in timed}
    repeats = max(1, round(4 / options.mib))
    for call in timed.values():
        call()
    order = list(timed)
    for _ in range(options.rounds):
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            for _ in range(repeats):
                timed[name]()
            times[name].append((time.perf_counter() - start) / repeats)
    print(f"{options.mib} MiB per device, {options.rounds} rounds")
    for name, own in times.items():
        up = [a / b for a, b in zip(own, times["direct"], strict=True)]
        copies = [a / b for a, b in zip(own, times["copy"], strict=True)]
        low, middle, high = statistics.quantiles(up, n=4)
        print(
            f"{name:15} {statistics.median(own) * 1e3:8.2f} ms  upstream {middle:5.2f}"
            f" [{low:.2f}..{high:.2f}]  copy {statistics.median(copies):5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
