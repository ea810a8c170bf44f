"""Predicted times on networks that nobody has here: a model, not a measurement.

A mesh axis is a line of devices in one of three networks, each link with a latency `a`
(seconds a message) and a bandwidth `b` (bytes per second and direction):

* `ring`: a link to the next device, one way;
* `torus`: links to both neighbours, with wrap-around; both are used at once;
* `switch`: every device reaches every other in one hop through its one port.

There is no contention between axes, no launch cost, no cost of adding. Every formula
is closed, so a million devices cost no more than two.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minijax_bench import sizes
from minijax_bench.errors import BadInput
from minijax_bench.statistics import Line

MOST_DEVICES = 2**20
NETWORKS = ("ring", "torus", "switch")


@dataclass(frozen=True)
class Axis:
    """A mesh axis of `size` devices in a network; None: take the fitted figure."""

    name: str
    network: str
    size: int
    latency: float | None = None
    bandwidth: float | None = None


@dataclass(frozen=True)
class Link:
    """Seconds a message and bytes a second."""

    latency: float
    bandwidth: float


def parse(text: str) -> tuple[Axis, ...]:
    """A topology, axis by axis: `name=network:size[:latency:bandwidth]`.

    >>> parse("x=torus:16:1us:50GB/s,y=switch:8")[1]
    Axis(name='y', network='switch', size=8, latency=None, bandwidth=None)
    """
    axes: list[Axis] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\w+)=(\w+):(\d+)(?::([^:]+):([^:]+))?\s*", part)
        if not found or found[2] not in NETWORKS or int(found[3]) < 1:
            raise BadInput(
                f"{part!r} is not an axis of a topology such as x=ring:64:1us:50GB/s "
                f"with one of {', '.join(NETWORKS)}"
            )
        latency = sizes.seconds(found[4]) if found[4] else None
        bandwidth = sizes.rate(found[5]) if found[5] else None
        axes.append(Axis(found[1], found[2], int(found[3]), latency, bandwidth))
    devices = math.prod(axis.size for axis in axes)
    if devices > MOST_DEVICES:
        raise BadInput(f"{text!r} has {devices:,} devices, more than {MOST_DEVICES:,}")
    return tuple(axes)


def steps_and_share(network: str, n: int, kind: str) -> tuple[float, float]:
    """Messages in a row, and the bytes over the busiest link per byte of S.

    Args:
      kind: `gather` (also its mirror image, a reduce-scatter), `exchange` (an
        all-to-all) or `shift` (each device to the next).

    >>> steps_and_share("ring", 8, "gather")
    (7, 0.875)
    >>> steps_and_share("switch", 8, "exchange")
    (1, 0.875)
    """
    if n == 1:
        return 0, 0.0
    if kind == "shift":
        return 1, 1.0
    share = (n - 1) / n
    if network == "switch":
        # Doubling: log2(n) messages; an exchange sends to all in one step.
        return (math.ceil(math.log2(n)) if kind == "gather" else 1), share
    if network == "ring":
        # An exchange: the part for the device d steps on crosses d links.
        return n - 1, share if kind == "gather" else (n - 1) / 2
    if kind == "gather":
        return n // 2, share / 2
    # Shortest ways: the distances from a device sum to n*n // 4, on two links.
    return n // 2, (n * n // 4) / n / 2


def axis_time(axis: Axis, link: Link, size: float, kind: str) -> float:
    """Seconds that one axis takes, for S = `size` bytes."""
    steps, share = steps_and_share(axis.network, axis.size, kind)
    return steps * link.latency + share * size / link.bandwidth


KINDS = {
    "psum": ("gather", "gather"),  # a reduce-scatter, then a gather
    "all_gather": ("gather",),
    "top_level_all_gather": ("gather",),
    "psum_scatter": ("gather",),
    "all_to_all": ("exchange",),
    "ragged_all_to_all": ("exchange",),
    "ppermute": ("shift",),
}


def predict(
    operation: str, size: float, axes: Sequence[Axis], links: Sequence[Link]
) -> float:
    """Seconds for S = `size` bytes over all the axes, one axis after the other.

    A gather moves the small parts first: the last axis joins `size` over the product
    of the others. An exchange moves all of S along every axis; a shift takes one.

    >>> ring = parse("x=ring:8:1us:1GB/s")
    >>> f"{predict('psum', 8e6, ring, [Link(1e-6, 1e9)]):.4g}"
    '0.01401'
    """
    total = 0.0
    for kind in KINDS[operation]:
        part = size
        for axis, link in zip(axes, links, strict=True):
            if axis.size == 1:
                continue
            total += axis_time(axis, link, part, kind)
            if kind == "gather":
                part /= axis.size
            elif kind == "shift":
                break
    return total


def fitted_link(operation: str, line: Line, ranks: int) -> Link:
    """The link that explains a fit, were the measured devices on a switch."""
    steps = share = 0.0
    for kind in KINDS[operation]:
        more = steps_and_share("switch", ranks, kind)
        steps, share = steps + more[0], share + more[1]
    if line.refused or not share:
        why = line.refused or "one device exchanges nothing"
        raise BadInput(f"the fit of {operation} gives no link: {why}")
    return Link(line.alpha / steps, share / line.beta)


def links(axes: Sequence[Axis], fitted: Callable[[], Link]) -> list[Link]:
    """The links of axes: as given, else from the fit, which may raise BadInput."""
    return [
        fitted()
        if axis.latency is None or axis.bandwidth is None
        else Link(axis.latency, axis.bandwidth)
        for axis in axes
    ]
