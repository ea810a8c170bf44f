"""The command line: `python -m minijax bench | demo | info | --version`.

It holds no more than the reading of arguments and the printing of facts. Bad input is
answered with one sentence on standard error and exit status 2.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import minijax
from minijax import demo
from minijax.command_line import OneSentenceParser, package_version

PACKAGES = ("minijax-compiler", "jaxlib", "numpy", "ml_dtypes")
SETTINGS = (
    "MINIJAX_PLATFORM",
    "MINIJAX_NUM_CPU_DEVICES",
    "XLA_FLAGS",
    "NPROC",
    "TF_CPP_MIN_LOG_LEVEL",
)


def facts() -> Iterator[tuple[str, str]]:
    """What `info` prints: versions, the platform, its devices, the settings in force.

    Raises what starting the platform raises, for one that is unknown or not there.
    """
    # Read before the platform starts: starting it may set some of them for itself.
    settings = [(name, os.environ.get(name, "not set")) for name in SETTINGS]
    for name in PACKAGES:
        yield name, package_version(name)
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    devices = minijax.devices()
    yield "platform", devices[0].platform
    yield "devices", f"{len(devices)}: {', '.join(map(str, devices))}"
    yield from settings


def make_parser() -> OneSentenceParser:
    """The parser of the command line. `demo` and `bench` read their own arguments."""
    parser = OneSentenceParser(
        prog="python -m minijax", description="A tracing compiler for collectives."
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"minijax {package_version('minijax-compiler')}",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("bench", help="measure collectives (bench --help says more)")
    commands.add_parser("demo", help="run the demonstration (demo --help says more)")
    commands.add_parser("info", help="print versions, platform, devices and settings")
    return parser


def benchmark() -> Callable[[Sequence[str]], int]:
    """The command line of the benchmark, which is a package of its own.

    In a checkout that is not installed it lies beside this package, in `bench/`.
    """
    if find_spec("minijax_bench") is None:
        sys.path.append(str(Path(minijax.__file__).parents[1] / "bench"))
    return import_module("minijax_bench.cli").main


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["demo"]:
        return demo.main(arguments[1:])
    if arguments[:1] == ["bench"]:
        return benchmark()(arguments[1:])
    parser = make_parser()
    parser.parse_args(arguments)
    try:
        rows = list(facts())
    except (RuntimeError, ValueError) as error:
        parser.error(str(error))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
