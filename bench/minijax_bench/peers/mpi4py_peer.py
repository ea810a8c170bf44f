"""The peer `mpi4py`: an MPI library, one process per device. Run under mpiexec.

Rank 0 speaks with the benchmark. The others wait for its word asleep: a blocking MPI
call would spin, and take the cores from what is measured in between.
"""

import json
import sys
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD


def call(request):
    """A function that runs the collective once."""
    n, part, dtype = world.size, request["part"], np.dtype(request["dtype"])
    x = np.ones(part, dtype)
    reduce = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}.get(request["reduce"])
    match request["operation"]:
        case "psum":
            y = np.empty_like(x)
            return lambda: world.Allreduce(x, y, reduce)
        case "all_gather" | "top_level_all_gather":
            y = np.empty(part * n, dtype)
            return lambda: world.Allgather(x, y)
        case "psum_scatter":
            y = np.empty(part // n, dtype)
            return lambda: world.Reduce_scatter_block(x, y, reduce)
        case "all_to_all":
            y = np.empty_like(x)
            return lambda: world.Alltoall(x, y)
        case "ragged_all_to_all":
            y = np.empty_like(x)
            gives = request["sends"][world.rank]
            gets = [row[world.rank] for row in request["sends"]]
            return lambda: world.Alltoallv([x, gives], [y, gets])
        case "ppermute":
            y = np.empty_like(x)
            to, source = (world.rank + 1) % n, (world.rank - 1) % n
            return lambda: world.Sendrecv(x, to, 0, y, source, 0)
    raise ValueError(f"mpi4py_peer has no {request['operation']}")


def measure(request):
    """Samples: the slowest rank's time, after a barrier, for each iteration."""
    run = call(request)
    for _ in range(request["warmup"]):
        run()
    mine = np.zeros(request["iterations"])
    begin = time.perf_counter()
    done = 0
    for i in range(request["iterations"]):
        late = np.array(i > 0 and time.perf_counter() - begin > request["seconds"])
        world.Bcast(late)
        if late:
            break
        world.Barrier()
        start = time.perf_counter()
        run()
        mine[i] = time.perf_counter() - start
        done = i + 1
    slowest = np.empty_like(mine)
    world.Allreduce(mine, slowest, MPI.MAX)
    return slowest[:done].tolist()


def serve():
    """Rank 0: passes requests on and answers them."""
    library = MPI.Get_library_version().partition("\n")[0].strip(" \0")
    print(json.dumps({"ready": library}), flush=True)
    for line in sys.stdin:
        for rank in range(1, world.size):
            world.send(line, rank, 99)
        try:
            answer = {"samples": measure(json.loads(line))}
        except Exception as error:
            answer = {"error": str(error).partition("\n")[0] or type(error).__name__}
        print(json.dumps(answer), flush=True)
    for rank in range(1, world.size):
        world.send("", rank, 99)


def follow():
    """The other ranks: look for a request every millisecond, asleep in between."""
    while True:
        while not world.iprobe(source=0, tag=99):
            time.sleep(0.001)
        line = world.recv(source=0, tag=99)
        if not line:
            return
        try:
            measure(json.loads(line))
        except ValueError:
            pass  # rank 0 has the same error and tells it


if __name__ == "__main__":
    serve() if world.rank == 0 else follow()
