"""The peer `jax`: upstream JAX on simulated devices, or on what it finds."""

import json
import sys
import time
from functools import partial

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

programs = {}


def body(request, x):
    """The collective of a request on one device's part."""
    n = request["ranks"]
    match request["operation"], request["reduce"]:
        case "psum", reduce:
            return {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}[reduce](x, "x")
        case "all_gather" | "top_level_all_gather", _:
            return lax.all_gather(x, "x", tiled=True)
        case "psum_scatter", _:
            return lax.psum_scatter(x, "x", tiled=True)
        case "all_to_all", _:
            return lax.all_to_all(x, "x", 0, 0, tiled=True)
        case "ppermute", _:
            return lax.ppermute(x, "x", [(i, (i + 1) % n) for i in range(n)])
    raise ValueError(f"jax_peer has no {request['operation']}")


def program(request):
    """The compiled program of a request and its argument, made once."""
    key = json.dumps({k: v for k, v in request.items() if k not in BUDGET})
    if key not in programs:
        programs.clear()
        n = request["ranks"]
        mesh = Mesh(np.array(jax.devices()[:n]), ("x",))
        out = P() if request["operation"] == "psum" else P("x")
        fun = jax.jit(
            jax.shard_map(
                partial(body, request), mesh=mesh, in_specs=P("x"), out_specs=out
            )
        )
        x = np.ones(request["part"] * n).astype(request["dtype"])
        x = jax.device_put(x, NamedSharding(mesh, P("x")))
        programs[key] = fun, x
    return programs[key]


BUDGET = ("iterations", "warmup", "seconds")


def measure(request):
    """The samples of a request."""
    fun, x = program(request)
    begin = time.perf_counter()
    for _ in range(request["warmup"]):
        fun(x).block_until_ready()
        if time.perf_counter() - begin > request["seconds"]:
            break
    samples = []
    begin = time.perf_counter()
    while len(samples) < request["iterations"]:
        if samples and time.perf_counter() - begin > request["seconds"]:
            break
        start = time.perf_counter()
        fun(x).block_until_ready()
        samples.append(time.perf_counter() - start)
    return samples


def main():
    """Answers requests until the input ends."""
    print(json.dumps({"ready": f"jax {jax.__version__}"}), flush=True)
    for line in sys.stdin:
        try:
            answer = {"samples": measure(json.loads(line))}
        except Exception as error:
            answer = {"error": str(error).partition("\n")[0] or type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
