"""One collective in one setting: data, program, and the check of the result.

What can be asked for is checked here, before anything runs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minijax
from minijax.sharding import NamedSharding
from minijax.sharding import PartitionSpec as P
from minijax_bench.errors import BadInput
from minijax_bench.operations import Operation, Parts, Setting

# ----------------------------------------------------------------- what is possible

#: Whole numbers up to this are exact in the type, and so are their sums.
EXACT = {
    "bool": 1, "int8": 127, "uint8": 255, "int16": 2**15 - 1, "uint16": 2**16 - 1,
    "int32": 2**24, "uint32": 2**24, "int64": 2**24, "uint64": 2**24,
    "float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**24,
    "complex64": 2**24, "complex128": 2**24,
}  # fmt: skip


def check(op: Operation, s: Setting) -> None:
    """Raises BadInput for a setting that the collective cannot take."""
    kind = s.dtype.name
    if op.reduces and (kind == "bool" or (s.dtype.kind == "c" and s.reduce != "sum")):
        raise BadInput(f"{op.name} cannot take the {s.reduce} of {kind}")
    if op.name == "psum_scatter" and s.reduce != "sum":
        raise BadInput(f"psum_scatter takes the sum only, not {s.reduce}")
    if s.groups and (not op.groups or len(s.axes) > 1):
        why = "over several axes" if op.groups else ""
        raise BadInput(f"{op.name} {why} takes no axis_index_groups".replace("  ", " "))
    if s.layout != "flat" and not op.shaped:
        raise BadInput(f"{op.name} has the layout flat only, not {s.layout}")
    if op.name == "ragged_all_to_all" and len(s.axes) > 1:
        raise BadInput("ragged_all_to_all goes over one mesh axis, not several")
    if s.layout == "flat" and (s.split or s.concat):
        raise BadInput("the layout flat has one axis: --split-axis and --concat-axis 0")
    if not (0 <= s.split < 2 and 0 <= s.concat < 2):
        raise BadInput("--split-axis and --concat-axis are 0 or 1")


def count_for(op: Operation, s: Setting, size: int) -> int:
    """The elements of S: `size` bytes, rounded down to what can be cut evenly."""
    align = op.align(s)
    count = size // s.dtype.itemsize // align * align
    if not count:
        needed = align * s.dtype.itemsize
        raise BadInput(
            f"the size of {size} bytes is below the {needed} that {op.name} of "
            f"{s.dtype.name} over {s.ranks} devices needs at least"
        )
    return count


# ------------------------------------------------------------------------- the data


def inputs(op: Operation, s: Setting, count: int) -> Parts:
    """Parts whose elements tell where they come from, as far as the type can.

    A value is a hash of place and position, modulo what sums of `n` can hold exactly.
    """
    shape = op.part_shape(s, count)
    largest = EXACT[s.dtype.name]
    modulus = max(2, (largest // s.ranks if op.reduces else largest) + 1)
    if op.reduces and s.reduce == "sum":
        modulus = max(2, largest // s.ranks)
    at = np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(2654435761)
    place = np.arange(s.mesh.size, dtype=np.uint64) * np.uint64(2246822519)
    mixed = ((at + place[:, None]) % np.uint64(2**32)) >> np.uint64(7)
    values = (mixed % np.uint64(modulus)).reshape(s.mesh.size, *shape)
    if s.dtype.kind == "c":
        return (values + 1j * values[::-1]).astype(s.dtype)
    return values.astype(s.dtype)


def expected(op: Operation, s: Setting, parts: Parts) -> list[Any]:
    """The result of each place."""
    results: list[Any] = [None] * len(parts)
    for family in s.families():
        outs = op.expect(parts[family], s)
        for place, out in zip(family, outs, strict=True):
            results[place] = out
    return results


def place(parts: Parts, s: Setting) -> Any:
    """The parts as one array, a part on each device."""
    whole = parts.reshape(-1, *parts.shape[2:])
    return minijax.device_put(whole, NamedSharding(s.mesh, P(s.order)))


def out_spec(op: Operation, s: Setting) -> P:
    """How the result lies on the mesh."""
    alone = s.order[: -len(s.axes)]
    if op.name == "top_level_all_gather":
        return P(alone or None, reduced=set(s.axes))
    if op.name == "psum" and not s.groups:
        return P(alone) if alone else P()
    return P(s.order)


def program(op: Operation, s: Setting) -> Callable[[Any], Any]:
    """The collective on the whole array."""
    if op.name == "top_level_all_gather":
        return lambda x: op.apply(x, s)
    return minijax.shard_map(
        lambda x: op.apply(x, s),
        mesh=s.mesh,
        in_specs=(P(s.order),),
        out_specs=out_spec(op, s),
    )


def chain(op: Operation, s: Setting, length: int) -> Callable[[Any], Any]:
    """`length` collectives, each on what the one before gave, in one program."""
    again = op.again
    if again is None:
        raise BadInput(f"{op.name} has no chain")

    def links(x: Any) -> Any:
        for _ in range(length):
            x = again(op.apply(x, s), x, s)
        return x

    spec = P(s.order)
    return minijax.shard_map(links, mesh=s.mesh, in_specs=(spec,), out_specs=spec)


def wrong(op: Operation, s: Setting, y: Any, right: Sequence[Any]) -> tuple[int, str]:
    """How many elements are wrong, over all devices, and what is wrong with the layout.

    Each device's part is compared where it lies, so a right value on a wrong device
    counts. A layout that is not the one asked for is told in words.
    """
    asked = NamedSharding(s.mesh, out_spec(op, s))
    said = ""
    if not y.sharding.is_equivalent_to(asked, y.ndim):
        said = f"the result lies as {y.sharding.spec}, not {asked.spec}"
    places = {device: i for i, device in enumerate(s.devices)}
    bad, seen = 0, set()
    for shard in y.addressable_shards:
        i = places[shard.device]
        seen.add(i)
        got = np.asarray(shard.data)
        same_type = got.shape == right[i].shape and got.dtype == right[i].dtype
        bad += int(np.sum(got != right[i])) if same_type else right[i].size
    bad += sum(right[i].size for i in range(len(right)) if i not in seen)
    return bad, said
