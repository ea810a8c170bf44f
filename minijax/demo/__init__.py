"""The demonstration: `python -m minijax demo`.

It trains a small mixture-of-experts model on minijax's own documentation, on a mesh of
eight CPU devices unless told otherwise, and checks the result against NumPy. Read
`model.py` for what it shows; this file is the command line.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

import minijax
from minijax.command_line import OneSentenceParser
from minijax.demo import data, model, report, train
from minijax.demo.model import Sizes
from minijax.demo.progress import Progress
from minijax.sharding import Mesh

DEVICES = (1, 2, 4, 8, 16, 32)
DEFAULT_DEVICES = 8
TOKENS = 512  # in a batch, over all devices


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(
            f"it takes a whole number of at least {least}, not {text!r}"
        )
    return int(text)


def make_parser() -> OneSentenceParser:
    """The parser of the demonstration's arguments."""
    parser = OneSentenceParser(
        prog="python -m minijax demo",
        description="Trains a small mixture-of-experts model on this documentation, "
        "with expert parallelism, and checks it against NumPy.",
    )
    add = parser.add_argument
    add("--devices", type=int, choices=DEVICES, help="default: as many, up to 8")
    add("--steps", type=partial(_at_least, 1), default=800, help="default: 800")
    add("--platform", help="cpu, cuda, tpu, or the path of a PJRT plugin")
    add("--seed", type=partial(_at_least, 0), default=0, help="default: 0")
    return parser


def make_mesh(devices: int | None, platform: str | None) -> Mesh:
    """A mesh `data` x `expert`: 1x1, 1x2, 2x2, 2x4, 4x4 or 4x8.

    Raises RuntimeError or ValueError where there is no such platform, or too few
    devices.
    """
    if platform is not None:
        minijax.config(platform=platform)
    if devices is not None and devices > DEFAULT_DEVICES:
        minijax.config(num_cpu_devices=devices)
    there = minijax.devices()
    wanted = min(len(there), DEFAULT_DEVICES) if devices is None else devices
    if wanted > len(there):
        platform = there[0].platform
        raise ValueError(f"there are {len(there)} {platform} devices, not {wanted}")
    count = max(n for n in DEVICES if n <= wanted)
    expert = 1 << count.bit_length() // 2
    shape = (count // expert, expert)
    return minijax.make_mesh(shape, model.AXES, devices=there[:count])


def demonstrate(mesh: Mesh, steps: int, seed: int, progress: Progress) -> bool:
    """Trains, writes and checks on the context mesh; returns whether it passed."""
    text = data.load()
    sizes = Sizes(alphabet=len(text.alphabet))
    batches = data.batches(text, sizes.context, TOKENS, seed)
    state = train.start(seed, sizes)
    report.introduce(mesh, text, sizes, state.params)

    begin = time.perf_counter()
    step = minijax.jit(partial(train.step, sizes=sizes))
    step = step.lower(state, *train.place(next(batches))).compile()
    report.row("compiled", f"in {time.perf_counter() - begin:.1f} s")
    nowhere = " (from the one device to itself)" if mesh.size == 1 else ""
    report.row("moves", report.collectives(step.as_text()) + nowhere)

    state, moments = train.run(step, state, batches, steps, progress.show)
    first, last = moments[0], moments[-1]
    speed = TOKENS * last.step / last.seconds
    report.row(
        "loss", f"{first.loss:.3f} at first, {last.loss:.3f} after {steps} steps"
    )
    report.row("speed", f"{speed:,.0f} characters per second")

    for given, written in train.write(
        state.params, text, sizes, length=60, lines=mesh.size
    )[:3]:
        report.row("sample", report.quote(given, written))
    return report.verdict(report.compare(state.params, batches, sizes, mesh.size))


def main(argv: Sequence[str]) -> int:
    """Run the demonstration; the exit status is 1 where the check fails."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    progress = Progress(arguments.steps)
    try:
        try:
            mesh = make_mesh(arguments.devices, arguments.platform)
        except (RuntimeError, ValueError) as error:
            parser.error(str(error))
        with minijax.set_mesh(mesh):
            passed = demonstrate(mesh, arguments.steps, arguments.seed, progress)
    except KeyboardInterrupt:
        print(f"\nInterrupted {progress.so_far()}.", file=sys.stderr)
        return 130
    return 0 if passed else 1
