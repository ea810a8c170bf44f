"""Reading what people write: sizes, times, bandwidths, meshes and groups.

Sizes are binary as in nccl-tests: `1K` is 1024 bytes. Bandwidths are decimal, as links
are sold: `50GB/s` is 50e9 bytes a second.
"""

import json
import re
from collections.abc import Iterator, Sequence

from minijax_bench.errors import BadInput

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.I)
_TIME = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(ns|us|ms|s)", re.I)
_RATE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([KMGT]?)B/s", re.I)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def size(text: str) -> int:
    """A number of bytes.

    >>> size("1K"), size("64MiB"), size("100")
    (1024, 67108864, 100)
    """
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{text!r} is not a size such as 512, 1K or 64M")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


def seconds(text: str) -> float:
    """A time in seconds.

    >>> seconds("1.5us")
    1.5e-06
    """
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{text!r} is not a time such as 1us or 20ms")
    return float(found[1]) * _SECONDS[found[2].lower()]


def rate(text: str) -> float:
    """A bandwidth in bytes per second.

    >>> rate("50GB/s")
    50000000000.0
    """
    found = _RATE.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise BadInput(f"{text!r} is not a bandwidth such as 50GB/s")
    return float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " ")


def sweep(begin: int, end: int, factor: int | None, step: int | None) -> list[int]:
    """The sizes from `begin` to `end`, times a factor or plus a step.

    >>> sweep(1024, 8192, 2, None)
    [1024, 2048, 4096, 8192]
    >>> sweep(100, 350, None, 100)
    [100, 200, 300]
    """
    if begin < 1 or end < begin:
        raise BadInput(f"the sizes go from {begin} to {end} bytes, which holds none")
    if step is not None and step < 1:
        raise BadInput(f"the step is {step} bytes and must be at least 1")
    factor = 2 if factor is None else factor
    if step is None and factor < 2:
        raise BadInput(f"the factor is {factor} and must be at least 2")
    return list(_steps(begin, end, factor, step))


def _steps(begin: int, end: int, factor: int, step: int | None) -> Iterator[int]:
    while begin <= end:
        yield begin
        begin = begin * factor if step is None else begin + step


def mesh(text: str) -> dict[str, int]:
    """The axes of a mesh, in order.

    >>> mesh("2x4")
    {'x': 2, 'y': 4}
    >>> mesh("data=2,expert=4")
    {'data': 2, 'expert': 4}
    """
    parts = re.split(r"[,x]" if "=" not in text else ",", text)
    if "=" not in text:
        parts = [f"{name}={n}" for name, n in zip("xyzwvutsrq", parts, strict=False)]
    axes: dict[str, int] = {}
    for part in parts:
        found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*", part)
        if not found or int(found[2]) < 1 or found[1] in axes:
            raise BadInput(f"{text!r} is not a mesh such as 8, 2x4 or x=2,y=4")
        axes[found[1]] = int(found[2])
    return axes


def groups(text: str, axis_size: int) -> tuple[tuple[int, ...], ...]:
    """`axis_index_groups`: equal lists that hold each index of the axis once.

    >>> groups("[[0, 2], [1, 3]]", 4)
    ((0, 2), (1, 3))
    """
    try:
        found = tuple(tuple(int(i) for i in group) for group in json.loads(text))
    except (ValueError, TypeError):
        raise BadInput(f"{text!r} are not groups such as [[0,1],[2,3]]") from None
    members = sorted(i for group in found for i in group)
    if members != list(range(axis_size)) or len({len(g) for g in found}) != 1:
        raise BadInput(
            f"the groups {text} must be of one size and hold each of the indices 0 to "
            f"{axis_size - 1} once"
        )
    return found


def show_size(count: int) -> str:
    """A size as `-b` takes it, where that is exact.

    >>> show_size(65536), show_size(1000)
    ('64K', '1000')
    """
    for power, letter in ((3, "G"), (2, "M"), (1, "K")):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{letter}"
    return str(count)


def numbers(text: str, what: str) -> list[int]:
    """A list of whole numbers of at least 1.

    >>> numbers("1,4,8", "--chain")
    [1, 4, 8]
    """
    parts: Sequence[str] = text.split(",")
    if not all(p.strip().isdecimal() and int(p) for p in parts):
        raise BadInput(f"{what} takes whole numbers such as 1,4,8, not {text!r}")
    return [int(p) for p in parts]
