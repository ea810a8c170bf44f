"""What the demonstration prints, and the check that it ends with."""

import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

import minijax
from minijax.demo import dense, model, train
from minijax.demo.data import Text
from minijax.demo.model import Params, Sizes
from minijax.sharding import Mesh

#: The largest difference from the dense model, over the largest value, that passes.
#: Both are correct to the rounding of f32 (6e-8), which sums of some hundred terms
#: multiply; a wrong factor or a lost token is far above it.
TOLERANCE = 1e-4
CANDIDATES = 8
COLLECTIVES = ("all-to-all", "all-gather", "reduce-scatter", "all-reduce")


class Difference(NamedTuple):
    """How far a value of minijax is from the dense model's."""

    name: str
    largest: float  # of the dense model's entries, by absolute value
    difference: float  # the largest, by absolute value

    @property
    def relative(self) -> float:
        """The difference over the largest entry."""
        return self.difference / max(self.largest, 1e-30)


def row(name: str, text: str) -> None:
    """Prints one line of the report."""
    print(f"{name:<9} {text}", flush=True)


def introduce(mesh: Mesh, text: Text, sizes: Sizes, params: Params) -> None:
    """Prints what is about to run, and on what."""
    packages = [f"jaxlib {version('jaxlib')}", f"numpy {version('numpy')}"]
    python = f"Python {platform.python_version()}"
    row("versions", ", ".join([f"minijax {minijax.__version__}", *packages, python]))
    row("platform", _devices(mesh))
    axes = " x ".join(f"{name}={size}" for name, size in mesh.shape.items())
    row("mesh", axes)
    row(
        "text",
        f"{text.source}: {len(text.codes):,} characters, {sizes.alphabet} different",
    )
    count = sum(value.size for value in params.values())
    here = sizes.experts // mesh.shape["expert"]
    row("model", f"{count:,} numbers; {sizes.experts} experts, {here} on each device")


def _devices(mesh: Mesh) -> str:
    device: Any = mesh.devices.flat[0]
    if device.platform == "cpu":
        return f"cpu, {mesh.size} virtual devices in one process"
    return f"{device.platform}, {mesh.size} x {device.device_kind}"


def collectives(program: str) -> str:
    """Counts the collectives of a compiled program, given as the text of its HLO.

    >>> collectives("%a = f32[8] all-to-all(%x)  %b = f32[] all-reduce-start(%y)")
    '1 all-to-all, 1 all-reduce'
    """
    kinds = "|".join(COLLECTIVES)
    found = Counter(re.findall(rf" ({kinds})(?:-start)?\(", program))
    counts = [f"{found[kind]} {kind}" for kind in COLLECTIVES if found[kind]]
    return ", ".join(counts) or "none"


def quote(given: str, written: str) -> str:
    """A written line on one line of the terminal, after what was given.

    >>> quote("a mesh", " of\\ndevices")
    'a mesh| of devices'
    """
    return f"{given}|{written}".replace("\n", " ")


def compare(
    params: Params, batches: Iterator[Any], sizes: Sizes, parts: int
) -> list[Difference]:
    """The loss and all gradients of a batch, of minijax against the dense model.

    Of a few batches it takes the one whose tokens are least undecided between two
    experts: at a tie, rounding would decide.
    """
    exact = {name: np.asarray(value, np.float64) for name, value in params.items()}

    def clear(batch: Any) -> float:
        return dense.closest_choice(exact, batch[0], sizes, parts)

    contexts, targets = max(islice(batches, CANDIDATES), key=clear)
    differentiate = minijax.jit(
        minijax.value_and_grad(partial(model.loss, sizes=sizes))
    )
    loss, grads = differentiate(params, *train.place((contexts, targets)))
    right_loss, right = dense.loss_and_gradients(exact, contexts, targets, sizes, parts)
    return list(differences({"loss": loss, **grads}, {"loss": right_loss, **right}))


def differences(
    got: Mapping[str, Any], right: Mapping[str, Any]
) -> Iterator[Difference]:
    """Each value's difference from the right one, by name.

    >>> next(differences({"a": [1.0, 2.5]}, {"a": [1.0, 2.0]}))
    Difference(name='a', largest=2.0, difference=0.5)
    """
    for name, value in right.items():
        difference = np.abs(np.asarray(got[name], np.float64) - value).max()
        yield Difference(name, float(np.abs(value).max()), float(difference))


def verdict(found: Sequence[Difference]) -> bool:
    """Prints the check as a table, with PASS or FAIL; returns whether it passed."""
    print("check     against the dense NumPy model, in float64:")
    print(f"  {'':<16} {'largest value':>14} {'difference':>11} {'relative':>9}")
    for d in found:
        name = d.name if d.name == "loss" else f"gradient {d.name}"
        print(
            f"  {name:<16} {d.largest:>14.4g} {d.difference:>11.1e} {d.relative:>9.1e}"
        )
    passed = all(d.relative <= TOLERANCE for d in found)  # not so for a NaN
    row(
        "PASS" if passed else "FAIL", f"relative differences up to {TOLERANCE:.0e} pass"
    )
    return passed
