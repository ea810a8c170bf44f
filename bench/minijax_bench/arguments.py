"""The arguments of the command line, and what they ask for.

Everything that can be refused without measuring is refused here, in one sentence.
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

import minijax
from minijax.sharding import AxisType
from minijax_bench import environment, files, model, plots, sizes, versus
from minijax_bench.errors import BadInput
from minijax_bench.measure import LOOPS, Budget
from minijax_bench.operations import OPERATIONS, Operation, Setting
from minijax_bench.run import Options
from minijax_bench.trial import EXACT

PROG = "python -m minijax bench"
DEFAULT_DEVICES = 8


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake with a sentence, not with a page."""

    def error(self, message: str) -> NoReturn:
        """Print `message` as one line and exit with status 2."""
        text = message.strip().partition("\n")[0].rstrip(".")
        self.exit(2, f"{self.prog}: {text}.\n")


def make_parser() -> Parser:
    """The parser of `bench COLLECTIVE ...`."""
    parser = Parser(
        prog=PROG,
        description="Measures collectives, with the conventions of nccl-tests.",
        epilog="Also: bench diff OLD NEW, bench predict COLLECTIVE --topology T. "
        "docs/benchmark.md says what every column means.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("operations", nargs="*", metavar="COLLECTIVE",
        help=f"all, or some of {', '.join(OPERATIONS)}")  # fmt: skip
    _add_sizes(parser)
    group = parser.add_argument_group("what to measure")
    add = group.add_argument
    add("-d", "--dtype", default="float32", help="types, e.g. float32,bfloat16")
    add("-o", "--redop", default="sum", help="reductions: sum,max,min")
    add("--devices", type=int, help=f"simulated CPU devices ({DEFAULT_DEVICES})")
    add("--platform", help="cpu, cuda, tpu, or the path of a PJRT plugin")
    add("--mesh", help="e.g. 2x4 or x=2,y=4 (one axis of all devices)")
    add("--axes", help="the mesh axes to go over, e.g. y (all of them)")
    add("--groups", help="axis_index_groups, e.g. [[0,1],[2,3]]")
    add("--layout", default="flat", help="flat, matrix (tiled) or stacked (not tiled)")
    add("--split-axis", type=int, default=0, help="of matrix and stacked: 0 or 1")
    add("--concat-axis", type=int, default=0, help="of matrix and stacked: 0 or 1")
    group = parser.add_argument_group("how to measure")
    add = group.add_argument
    add("-n", "--iters", type=int, default=20, help="samples per column (20)")
    add("-w", "--warmup", type=int, default=5, help="calls before them (5)")
    add("--rounds", type=int, default=3, help="turns between all columns (3)")
    add("--time-cap", type=float, default=5.0, help="seconds per column (5)")
    add("--memory-cap", help="skip rows that need more (half of what is free)")
    add("--chain", default="1,4,8", help="collectives in one program, or none")
    add("--barrier", choices=tuple(LOOPS), default="host",
        help="host: a call waits for the one before; none: 16 in flight")  # fmt: skip
    add("--cold", default="0", help="rotate among input buffers of so many bytes")
    add("--hugepages", action="store_true", help="huge pages for the allocator")
    add("--no-in-place", action="store_true", help="without the donated columns")
    add("--no-check", action="store_true", help="without #wrong")
    add("--timeout", type=float, default=300.0, help="seconds a row may take (300)")
    add("--vs", choices=tuple(versus.PEERS), help="another library, in turns")
    add("--overhead", action="store_true", help="compare with the bare executable")
    group = parser.add_argument_group("what to write")
    add = group.add_argument
    add("--json", metavar="FILE", help="everything, with raw samples and HLO")
    add("--csv", metavar="FILE", help="a line per row")
    add("--plot", metavar="FILE.png", help="time, bandwidth, predicted and measured")
    add("--topology", action="append", default=[], metavar="T",
        help="predict for it, e.g. x=torus:1024:1us:50GB/s")  # fmt: skip
    return parser


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sizes, in bytes per device")
    group.add_argument("-b", "--minbytes", default="1K", help="the first (1K)")
    group.add_argument("-e", "--maxbytes", default="64M", help="the last (64M)")
    group.add_argument("-f", "--stepfactor", type=int, help="times this (2)")
    group.add_argument("-i", "--stepbytes", help="or plus this")
    group.add_argument("--sizes", help="or just these, e.g. 1K,1000000,4M")


def byte_sizes(given: argparse.Namespace) -> list[int]:
    """The sizes that are asked for."""
    if given.sizes:
        found = [sizes.size(text) for text in given.sizes.split(",")]
        if 0 in found:
            raise BadInput("a size of 0 bytes cannot be measured")
        return found
    if given.stepfactor is not None and given.stepbytes:
        raise BadInput("-f and -i exclude each other")
    step = sizes.size(given.stepbytes) if given.stepbytes else None
    begin, end = sizes.size(given.minbytes), sizes.size(given.maxbytes)
    return sizes.sweep(begin, end, given.stepfactor, step)


def chosen(names: Sequence[str]) -> list[Operation]:
    """The collectives by name; `all` is all of them."""
    unknown = [n for n in names if n not in OPERATIONS and n != "all"]
    if unknown or not names:
        said = f"there is no collective {unknown[0]!r}" if unknown else "name some"
        raise BadInput(f"{said}: all, or some of {', '.join(OPERATIONS)}")
    every = "all" in names
    return [op for name, op in OPERATIONS.items() if every or name in names]


def mesh(given: argparse.Namespace) -> Any:
    """The mesh that is asked for; starts the platform."""
    axes = sizes.mesh(given.mesh) if given.mesh else None
    if given.devices is not None and given.devices < 1:
        raise BadInput(f"--devices is at least 1, not {given.devices}")
    try:
        if given.platform:
            minijax.config(platform=given.platform)
        if given.devices is not None:
            minijax.config(num_cpu_devices=given.devices)
        there = minijax.devices()
    except (RuntimeError, ValueError) as error:
        raise BadInput(str(error).strip().partition("\n")[0].rstrip(".")) from None
    wanted = int(np.prod(list(axes.values()))) if axes else given.devices or len(there)
    if wanted > len(there):
        platform = there[0].platform
        asked = f"the mesh {given.mesh}" if axes else "--devices"
        raise BadInput(
            f"{asked} needs {wanted} devices, and there are {len(there)} ({platform}); "
            "simulated ones are made by --devices"
        )
    axes = axes or {"x": wanted}
    return minijax.make_mesh(
        tuple(axes.values()),
        tuple(axes),
        axis_types=(AxisType.Explicit,) * len(axes),
        devices=there[:wanted],
    )


def _axes(text: str | None, mesh: Any) -> tuple[str, ...]:
    if text is None:
        return tuple(mesh.axis_names)
    names = tuple(text.split(","))
    for name in names:
        if name not in mesh.axis_names or names.count(name) > 1:
            axes = ", ".join(mesh.axis_names)
            raise BadInput(f"{name!r} is not an axis of the mesh, which has {axes}")
    return names


def _dtype(name: str) -> Any:
    if name not in EXACT:
        raise BadInput(f"{name!r} is no type of the benchmark: {', '.join(EXACT)}")
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says, the sentence below says
        held = minijax.numpy.zeros((), dtype).dtype
    if held != dtype:
        raise BadInput(f"{name} is held as {held} here, so it cannot be measured")
    return dtype


def settings(given: argparse.Namespace, mesh: Any) -> list[Setting]:
    """One setting per type, reduction and layout."""
    axes = _axes(given.axes, mesh)
    span = int(np.prod([mesh.shape[a] for a in axes]))
    groups = sizes.groups(given.groups, span) if given.groups else None
    found = []
    for name in given.dtype.split(","):
        dtype = _dtype(name)
        for reduce in given.redop.split(","):
            if reduce not in ("sum", "max", "min"):
                raise BadInput(f"{reduce!r} is no reduction: sum, max or min")
            for layout in given.layout.split(","):
                if layout not in ("flat", "matrix", "stacked"):
                    raise BadInput(f"{layout!r} is no layout: flat, matrix or stacked")
                axis = (given.split_axis, given.concat_axis)
                found.append(Setting(mesh, axes, dtype, reduce, groups, layout, *axis))
    return found


def options(given: argparse.Namespace) -> Options:
    """How to measure."""
    for name, least in (("iters", 1), ("warmup", 0), ("rounds", 1)):
        if getattr(given, name) < least:
            raise BadInput(f"--{name} is at least {least}, not {getattr(given, name)}")
    for name in ("time_cap", "timeout"):
        if not getattr(given, name) > 0:
            raise BadInput(
                f"--{name.replace('_', '-')} is a positive number of seconds"
            )
    chain = () if given.chain == "none" else sizes.numbers(given.chain, "--chain")
    if chain and len(set(chain)) < 2:
        raise BadInput("--chain needs two different lengths, or none")
    cap = given.memory_cap
    return Options(
        budget=Budget(given.iters, given.warmup, given.time_cap),
        rounds=min(given.rounds, given.iters),
        barrier=given.barrier,
        chain=tuple(chain),
        in_place=not given.no_in_place,
        check=not given.no_check,
        cold=sizes.size(given.cold),
        memory=sizes.size(cap) if cap else environment.memory() // 2,
    )


def check_outputs(given: argparse.Namespace) -> list[tuple[str, Any]]:
    """Refuses files and packages that are not there; returns the topologies."""
    for path in (given.json, given.csv, given.plot):
        if path:
            files.check_writable(path)
    if given.plot:
        plots.load()
    return [(text, model.parse(text)) for text in given.topology]


def diff_parser() -> Parser:
    """The parser of `bench diff`."""
    parser = Parser(prog=f"{PROG} diff", description="Compares two JSON files.")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument(
        "--threshold", type=float, default=5.0, help="percent that count (5)"
    )
    return parser


def predict_parser() -> Parser:
    """The parser of `bench predict`."""
    parser = Parser(
        prog=f"{PROG} predict",
        description="Predicts times on a network by a model. Nothing is measured.",
    )
    parser.add_argument("operations", nargs="*", metavar="COLLECTIVE")
    _add_sizes(parser)
    parser.add_argument("--topology", action="append", required=True)
    return parser
