"""The peer `gloo`: PyTorch's gloo backend, one process per device, over loopback."""

import json
import os
import socket
import sys
import time

import torch
from torch import distributed as dist
from torch import multiprocessing


def call(request):
    """A function that runs the collective once."""
    n, rank, part = dist.get_world_size(), dist.get_rank(), request["part"]
    x = torch.ones(part, dtype=getattr(torch, request["dtype"]))
    reduce = {
        "sum": dist.ReduceOp.SUM,
        "max": dist.ReduceOp.MAX,
        "min": dist.ReduceOp.MIN,
    }.get(request["reduce"])
    match request["operation"]:
        case "psum":
            return lambda: dist.all_reduce(x, reduce)
        case "all_gather" | "top_level_all_gather":
            ys = [torch.empty_like(x) for _ in range(n)]
            return lambda: dist.all_gather(ys, x)
        case "all_to_all":
            y = torch.empty_like(x)
            return lambda: dist.all_to_all_single(y, x)
        case "ragged_all_to_all":
            y = torch.empty_like(x)
            gives = request["sends"][rank]
            gets = [row[rank] for row in request["sends"]]
            return lambda: dist.all_to_all_single(y, x, gets, gives)
        case "ppermute":
            y = torch.empty_like(x)

            def shift():
                sent = dist.isend(x, (rank + 1) % n)
                dist.recv(y, (rank - 1) % n)
                sent.wait()

            return shift
    raise ValueError(f"gloo has no {request['operation']}")


def measure(request):
    """Samples: the slowest rank's time, after a barrier, for each iteration."""
    run = call(request)
    for _ in range(request["warmup"]):
        run()
    mine = []
    begin = time.perf_counter()
    for i in range(request["iterations"]):
        late = torch.tensor(float(i and time.perf_counter() - begin))
        dist.broadcast(late, 0)
        if late > request["seconds"]:
            break
        dist.barrier()
        start = time.perf_counter()
        run()
        mine.append(time.perf_counter() - start)
    slowest = torch.tensor(mine, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.tolist()


def work(rank, ranks, port, pipe):
    """One process: takes requests from its pipe; rank 0 answers on it."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks)
    while line := pipe.recv():
        try:
            answer = {"samples": measure(json.loads(line))}
        except Exception as error:
            answer = {"error": str(error).partition("\n")[0] or type(error).__name__}
        if rank == 0:
            pipe.send(json.dumps(answer))
    dist.destroy_process_group()


def main(ranks):
    """Starts the processes and passes requests on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    pipes = []
    for rank in range(ranks):
        mine, theirs = context.Pipe()
        arguments = (rank, ranks, port, theirs)
        context.Process(target=work, args=arguments, daemon=True).start()
        pipes.append(mine)
    print(json.dumps({"ready": f"torch {torch.__version__} gloo"}), flush=True)
    for line in sys.stdin:
        for pipe in pipes:
            pipe.send(line)
        print(pipes[0].recv(), flush=True)
    for pipe in pipes:
        pipe.send("")


if __name__ == "__main__":
    main(int(sys.argv[1]))
