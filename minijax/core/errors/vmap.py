"""Errors of `vmap`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def in_axes_type(in_axes: object) -> TypeError:
    return TypeError(
        "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
        f"positional arguments passed to the function, but got {in_axes}."
    )


def axes_leaves(what: str, axes: object) -> TypeError:
    return TypeError(
        f"vmap {what} must be an int, None, or (nested) container with those types as "
        f"leaves, but got {axes}. Each is a dimension to map, or None for none."
    )


def in_axes_length(in_axes: int, args: int) -> ValueError:
    return ValueError(
        "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
        f"positional arguments passed to the function, but got len(in_axes)={in_axes}, "
        f"len(args)={args}."
    )


def rank_too_small(dim: int, shape: tuple[int, ...]) -> ValueError:
    need = dim + 1 if dim >= 0 else -dim
    return ValueError(
        f"vmap was requested to map its argument along axis {dim}, which implies that "
        f"its rank should be at least {need}, but is only {len(shape)} (its shape is "
        f"{shape})"
    )


def nothing_mapped(args: object, kwargs: object, leaves: bool) -> ValueError:
    if leaves:
        return ValueError(
            "vmap must have at least one non-None value in in_axes or axis_size must "
            "be specified"
        )
    return ValueError(
        "vmap wrapped function must be passed at least one argument containing an "
        f"array or axis_size must be specified, got empty *args={args} and "
        f"**kwargs={kwargs}"
    )


def inconsistent_sizes(
    mapped: Sequence[tuple[str, str, int, int]], axis_size: int | None
) -> ValueError:
    """`mapped` lists (`argument x` or so, type, mapped dimension, size)."""
    counts = Counter(size for *_, size in mapped)
    if axis_size is not None:
        counts.pop(axis_size, None)
    lines = [] if axis_size is None else [f"the `axis_size` argument was {axis_size}"]
    most = max(counts.values())
    for i, (size, count) in enumerate(counts.most_common()):
        name, aval, dim, _ = next(m for m in mapped if m[3] == size)
        where = f"axis {dim} of {name} of type {aval}"
        if count == 1:
            lines.append(f"one axis had size {size}: {where}")
        else:
            many = "most" if i == 0 and count == most else "some"
            lines.append(f"{many} axes ({count} of them) had size {size}, e.g. {where}")
    text = ";\n".join(f"  * {line}" for line in lines)
    return ValueError(
        f"vmap got inconsistent sizes for array axes to be mapped:\n{text}"
    )


def out_axes_none(axis_name: object, dim: int) -> ValueError:
    if axis_name is None:
        return ValueError(
            f"at vmap out_axes, got axis spec None but output was batched on axis {dim}"
        )
    return ValueError(
        f"vmap has mapped output (axis_name={axis_name}) but out_axes is None"
    )


def out_axes_range(dim: int, ndim: int) -> ValueError:
    return ValueError(f"axis {dim} is out of bounds for array of dimension {ndim}")


def bad_output(value: object) -> TypeError:
    return TypeError(
        f"Output from batched function {value!r} with type {type(value)} is not a "
        "valid JAX type"
    )


def inconsistent_shardings(first: object, second: object) -> ValueError:
    return ValueError(
        "Mapped away dimension of inputs passed to vmap should be sharded the same. "
        f"Got inconsistent axis specs: {first} vs {second}"
    )


def spmd_and_explicit(spmd_axis_name: object, explicit_mesh_axis: object) -> ValueError:
    return ValueError(
        "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is "
        f"allowed. Got {spmd_axis_name=} and arrays sharded on {explicit_mesh_axis=}"
    )
