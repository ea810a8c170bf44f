"""The primitive of `shard_map`: a program that every device of a mesh runs on its part.

Its parameters are the body, a jaxpr over per-device values, and how the whole values
are cut into them: `in_specs` and `out_specs` over the mesh axes that become Manual.
Each rule transforms the body and binds again. `inside` is the only place that enters
the axis environment and the manual mesh of a body.

The typing of bodies makes transposition easy: it only exchanges the specs, because a
cotangent's type says what must still be summed over which axis.

Upstream: `jax/_src/shard_map.py` (`shard_map_p`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minijax.core.avals import (
    AbstractToken,
    ManualAxisType,
    Names,
    ShapedArray,
    manual_type,
)
from minijax.core.errors import shard_map as errors
from minijax.core.jaxpr import Jaxpr, collective_names, compose
from minijax.core.linear import UndefinedPrimal, Zero, is_undefined
from minijax.core.mesh import (
    AbstractMesh,
    AxisType,
    BaseMesh,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
    use_abstract_mesh,
)
from minijax.core.primitive import Primitive
from minijax.core.staging import stage_body
from minijax.core.trace import AxisEnv, axis_env, typeof, use_axis_env, use_trace
from minijax.lax.collectives.psum import psum
from minijax.lax.shapes import expand_dims, squeeze
from minijax.transforms.jvp import jvp_jaxpr
from minijax.transforms.partial_eval import (
    PartialEvalJaxpr,
    PartialEvalTrace,
    partial_eval_jaxpr,
    selected,
)
from minijax.transforms.transpose import backward_pass
from minijax.transforms.vmap import BatchAxis, batch_jaxpr

Specs = tuple[PartitionSpec, ...]

shard_map_p = Primitive("shard_map")
shard_map_p.axis_names = lambda params: tuple(
    n for n in collective_names(params["jaxpr"]) if n not in params["newly_manual_axes"]
)


# ------------------------------------------------------------------ inside the body


def manual_mesh(mesh: BaseMesh, names: Names) -> AbstractMesh:
    """The abstract mesh that a body sees."""
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(names, AxisType.Manual))


@contextmanager
def inside(mesh: BaseMesh, names: Names, check_vma: bool) -> Iterator[None]:
    """Binds the names of the mesh axes that become Manual, for a body."""
    env = axis_env()
    sizes = {k: v for k, v in env.sizes.items() if k not in names}
    sizes |= {n: mesh.shape[n] for n in mesh.axis_names if n in names}
    body_env = AxisEnv(sizes, env.manual | names, check_vma)
    with use_axis_env(body_env), use_abstract_mesh(manual_mesh(mesh, names)):
        yield


def spec_type(spec: PartitionSpec) -> ManualAxisType:
    """What a value with this spec is over each Manual axis, inside."""
    return manual_type(spec.axes, spec.unreduced, spec.reduced)


def mesh_ordered(mesh: BaseMesh, names: Names) -> tuple[str, ...]:
    """The names as a tuple, the same in every run."""
    return tuple(n for n in mesh.axis_names if n in names)


def shard_aval(
    aval: Any, spec: PartitionSpec, mesh: BaseMesh, names: Names, check_vma: bool
) -> Any:
    """The type of one device's part of a value."""
    if isinstance(aval, AbstractToken):
        return aval
    outer = aval.sharding.spec
    if spec.unreduced != outer.unreduced & names:
        raise errors.in_spec_kind("unreduced", spec, aval.short())
    if spec.reduced != outer.reduced & names:
        raise errors.in_spec_kind("reduced", spec, aval.short())
    shape = [
        n // math.prod(mesh.shape[a] for a in spec.axes_of(i))
        for i, n in enumerate(aval.shape)
    ]
    inner_mesh = manual_mesh(mesh, names)
    sharding = NamedSharding(inner_mesh, _without(outer, names, aval.ndim))
    manual = aval.manual
    if check_vma:
        manual = manual_type(
            manual.varying.union(spec.axes),
            manual.unreduced | spec.unreduced,
            manual.reduced | spec.reduced,
        )
    return ShapedArray(shape, aval.dtype, aval.weak_type, sharding, manual)


def _without(spec: PartitionSpec, names: Names, ndim: int) -> PartitionSpec:
    """A spec that no longer mentions the named axes."""
    parts = [
        tuple(n for n in spec.axes_of(i) if n not in names) or None for i in range(ndim)
    ]
    return PartitionSpec(
        *parts, unreduced=spec.unreduced - names, reduced=spec.reduced - names
    )


def unshard_aval(
    aval: Any, spec: PartitionSpec, mesh: BaseMesh, check_vma: bool
) -> Any:
    """The type of the whole value, of which every device has a part of type `aval`."""
    if isinstance(aval, AbstractToken):
        return aval
    if check_vma and spec.unreduced != aval.manual.unreduced - _outer_manual():
        raise errors.out_spec_kind("unreduced", spec, aval.short())
    if check_vma and spec.reduced != aval.manual.reduced - _outer_manual():
        raise errors.out_spec_kind("reduced", spec, aval.short())
    shape = [
        n * math.prod(mesh.shape[a] for a in spec.axes_of(i))
        for i, n in enumerate(aval.shape)
    ]
    context = get_abstract_mesh()
    outer = mesh.abstract_mesh if context.empty else context
    inner = aval.sharding.spec
    parts = [(spec.axes_of(i) + inner.axes_of(i)) or None for i in range(aval.ndim)]
    visible = frozenset(outer.explicit_axes)
    whole = PartitionSpec(
        *[p and (tuple(n for n in p if n in visible) or None) for p in parts],
        unreduced=(spec.unreduced | inner.unreduced) & visible,
        reduced=(spec.reduced | inner.reduced) & visible,
    )
    still = frozenset(outer.manual_axes)
    manual = aval.manual
    return ShapedArray(
        shape,
        aval.dtype,
        aval.weak_type,
        NamedSharding(outer, whole),
        manual_type(
            manual.varying & still, manual.unreduced & still, manual.reduced & still
        ),
    )


def _outer_manual() -> Names:
    return frozenset(get_abstract_mesh().manual_axes)


# -------------------------------------------------------------------- the plain rules


@shard_map_p.def_abstract_eval
def _type(
    *_: Any, mesh: Any, jaxpr: Jaxpr, out_specs: Specs, check_vma: bool, **__: Any
) -> list[Any]:
    return [
        unshard_aval(a, s, mesh, check_vma)
        for a, s in zip(jaxpr.out_avals, out_specs, strict=True)
    ]


@shard_map_p.def_effects
def _effects(*_: Any, jaxpr: Jaxpr, **__: Any) -> Any:
    return jaxpr.effects


@shard_map_p.def_lowering
def _lowering(
    ctx: Any,
    *values: Any,
    mesh: Any,
    jaxpr: Jaxpr,
    in_specs: Specs,
    out_specs: Specs,
    newly_manual_axes: Names,
    **_: Any,
) -> Any:
    return ctx.manual_computation(
        jaxpr, values, mesh, in_specs, out_specs, newly_manual_axes
    )


# ----------------------------------------------------------------------- derivatives


@shard_map_p.def_jvp
def _jvp(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: Jaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **rest: Any,
) -> Any:
    nonzero = [type(t) is not Zero for t in tangents]
    with _inside(rest):
        body, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    kept = [t for t in tangents if type(t) is not Zero]
    results = shard_map_p.bind(
        *primals,
        *kept,
        jaxpr=body,
        in_specs=in_specs + selected(in_specs, nonzero),
        out_specs=out_specs + selected(out_specs, nonzero_out),
        **rest,
    )
    count = len(out_specs)
    outs, found = results[:count], iter(results[count:])
    avals = _type(jaxpr=jaxpr, out_specs=out_specs, **rest)
    tangents_out = [
        next(found) if n else Zero(a.to_tangent())
        for n, a in zip(nonzero_out, avals, strict=True)
    ]
    return outs, tangents_out


def _inside(params: dict[str, Any]) -> Any:
    return inside(params["mesh"], params["newly_manual_axes"], params["check_vma"])


@shard_map_p.def_partial_eval
def _partial_eval(
    trace: PartialEvalTrace,
    args: Any,
    *,
    jaxpr: Jaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **rest: Any,
) -> list[Any]:
    """Splits the body; residuals leave it stacked along their leading dimension.

    They are sharded there over all axes they vary over, so that each device gets its
    own back. A scalar is given a dimension for that.
    """
    unknown = [trace.is_unknown(x) for x in args]
    known = [not u for u in unknown]
    with _inside(rest):
        split = partial_eval_jaxpr(jaxpr, unknown)
        known_body, unknown_body = _with_stacked_residuals(split)
    count = split.out_unknown.count(False)
    computed_specs = [residual_spec(a, rest) for a in known_body.out_avals[count:]]
    out_known = [not u for u in split.out_unknown]
    results = trace.known(
        lambda *known_args: shard_map_p.bind(
            *known_args,
            jaxpr=known_body,
            in_specs=selected(in_specs, known),
            out_specs=(*selected(out_specs, out_known), *computed_specs),
            **rest,
        ),
        *selected(args, known),
    )
    residuals = split.residuals(selected(args, known), results[count:])
    residual_specs = split.residuals(selected(in_specs, known), computed_specs)
    with use_trace(trace.staging):
        late = shard_map_p.bind(
            *residuals,
            *selected(args, unknown),
            jaxpr=unknown_body,
            in_specs=(*residual_specs, *selected(in_specs, unknown)),
            out_specs=selected(out_specs, split.out_unknown),
            **rest,
        )
    return split.merge(results[:count], late)


def residual_spec(aval: Any, params: dict[str, Any]) -> PartitionSpec:
    """How a residual lies outside: cut along its leading dimension."""
    if isinstance(aval, AbstractToken):
        return PartitionSpec()
    mesh, manual = params["mesh"], aval.manual
    names = manual.varying if params["check_vma"] else params["newly_manual_axes"]
    order = mesh_ordered(mesh, names & params["newly_manual_axes"])
    return PartitionSpec(
        *([order] if order else []),
        unreduced=manual.unreduced,
        reduced=manual.reduced,
    )


def _with_stacked_residuals(split: PartialEvalJaxpr) -> tuple[Jaxpr, Jaxpr]:
    """Both parts, with computed scalar residuals given a dimension in between."""
    if "stacked" in split.known.cache:
        return split.known.cache["stacked"]
    count = split.out_unknown.count(False)
    scalar = [_is_scalar(a) for a in split.known.out_avals[count:]]

    def stack(*outs: Any) -> list[Any]:
        stacked = [
            expand_dims(x, (0,)) if s else x
            for x, s in zip(outs[count:], scalar, strict=True)
        ]
        return [*outs[:count], *stacked]

    computed = iter(scalar)
    which = [next(computed) if i is None else False for i in split.forwarded]
    which += [False] * (len(split.unknown.invars) - len(which))

    def unstack(*args: Any) -> list[Any]:
        return [squeeze(x, (0,)) if w else x for x, w in zip(args, which, strict=True)]

    known_body = compose(split.known, stage_body(stack, split.known.out_avals))
    expanded = iter(known_body.out_avals[count:])
    in_avals = [
        next(expanded) if i is None else a
        for i, a in zip(split.forwarded, split.unknown.in_avals, strict=False)
    ]
    in_avals += split.unknown.in_avals[len(in_avals) :]
    unknown_body = compose(stage_body(unstack, in_avals), split.unknown)
    split.known.cache["stacked"] = known_body, unknown_body
    return known_body, unknown_body


def _is_scalar(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.shape == ()


@shard_map_p.def_transpose
def _transpose(
    cts: Any,
    *args: Any,
    mesh: Any,
    jaxpr: Jaxpr,
    in_specs: Specs,
    out_specs: Specs,
    newly_manual_axes: Names,
    check_vma: bool,
) -> list[Any]:
    """Exchanges the specs.

    Without `check_vma` nothing tells what must still be summed: a cotangent of an
    output that is not sharded over an axis is divided among the devices along it, and
    the cotangents of an input that is not are summed.
    """
    linear = [is_undefined(x) for x in args]
    zero = [type(ct) is Zero for ct in cts]
    params = {
        "mesh": mesh,
        "newly_manual_axes": newly_manual_axes,
        "check_vma": check_vma,
    }

    def unmentioned(spec: PartitionSpec) -> tuple[str, ...]:
        named = {*spec.axes, *spec.unreduced, *spec.reduced}
        return mesh_ordered(mesh, newly_manual_axes - named)

    def divided(ct: Any, spec: PartitionSpec) -> Any:
        parts = math.prod(mesh.shape[n] for n in unmentioned(spec))
        return ct if check_vma or parts == 1 else ct / parts

    nonzero: list[bool] = []

    def body(*flat: Any) -> list[Any]:
        given, known = iter(flat[: zero.count(False)]), iter(flat[zero.count(False) :])
        cts_in_body = [
            Zero(a.to_cotangent()) if z else next(given)
            for a, z in zip(jaxpr.out_avals, zero, strict=True)
        ]
        operands = [
            UndefinedPrimal(a) if u else next(known)
            for a, u in zip(jaxpr.in_avals, linear, strict=True)
        ]
        found = selected(backward_pass(jaxpr, operands, cts_in_body), linear)
        nonzero.extend(type(ct) is not Zero for ct in found)
        results = []
        for ct, spec in zip(found, selected(in_specs, linear), strict=True):
            if type(ct) is not Zero:
                names = () if check_vma else unmentioned(spec)
                results.append(psum(ct, names) if names else ct)
        return results

    kept = [
        divided(ct, s)
        for ct, s in zip(cts, out_specs, strict=True)
        if type(ct) is not Zero
    ]
    ct_avals = [
        a.to_cotangent() for a in selected(jaxpr.out_avals, [not z for z in zero])
    ]
    known_avals = selected(jaxpr.in_avals, [not u for u in linear])
    with _inside(params):
        transposed = stage_body(body, [*ct_avals, *known_avals])
    ct_specs = [s.cotangent() for s in selected(out_specs, [not z for z in zero])]
    ct_in_specs = [s.cotangent() for s in selected(in_specs, linear)]
    results = iter(
        shard_map_p.bind(
            *kept,
            *selected(args, [not u for u in linear]),
            jaxpr=transposed,
            in_specs=(*ct_specs, *selected(in_specs, [not u for u in linear])),
            out_specs=selected(ct_in_specs, nonzero),
            **params,
        )
    )
    found = iter([next(results) if n else None for n in nonzero])
    return [next(found) if u else None for u in linear]


# -------------------------------------------------------------------------- batching


@shard_map_p.def_batch
def _batch(
    axis: BatchAxis,
    args: Any,
    dims: Any,
    *,
    jaxpr: Jaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **rest: Any,
) -> Any:
    """Batches the body; the mapped dimension is whole on every device.

    With `spmd_axis_name` it is sharded over those mesh axes instead.
    """
    spmd = axis.spmd_name
    _check_explicit("in", axis.explicit, in_specs)
    _check_spmd("in", spmd, in_specs)
    new_in = tuple(with_dim(s, d, spmd) for s, d in zip(in_specs, dims, strict=True))
    if rest["newly_manual_axes"].intersection(axis.explicit):
        _refuse_mapped(new_in, args, dims)
    _check_explicit("out", axis.explicit, out_specs)
    inner = axis
    if spmd:
        parts = math.prod(rest["mesh"].shape[n] for n in spmd)
        inner = BatchAxis(axis.name, axis.size // parts, spmd)
    with _inside(rest):
        body, out_dims = batch_jaxpr(jaxpr, inner, dims)
    _check_spmd("out", spmd, out_specs)
    new_out = tuple(
        with_dim(s, d, spmd) for s, d in zip(out_specs, out_dims, strict=True)
    )
    outs = shard_map_p.bind(
        *args, jaxpr=body, in_specs=new_in, out_specs=new_out, **rest
    )
    return outs, out_dims


def with_dim(
    spec: PartitionSpec, dim: int | None, names: tuple[str, ...]
) -> PartitionSpec:
    """A spec with one more dimension, sharded over `names`."""
    if dim is None:
        return spec
    parts = list(spec.partitions)
    parts += [None] * (dim - len(parts))
    return spec.update(partitions=(*parts[:dim], names or None, *parts[dim:]))


def _check_spmd(prefix: str, spmd: tuple[str, ...], specs: Specs) -> None:
    clash = _clash(spmd, specs)
    if clash:
        raise errors.spmd_name_clash(prefix, clash)


def _check_explicit(prefix: str, explicit: tuple[str, ...], specs: Specs) -> None:
    clash = _clash(explicit, specs)
    if clash:
        raise errors.mapped_axis_clash(prefix, clash)


def _refuse_mapped(specs: Specs, args: Any, dims: Sequence[int | None]) -> None:
    """The mapped dimension is sharded over axes that the body takes for its own.

    That happens to a program staged before it was mapped.
    """
    for spec, x, dim in zip(specs, args, dims, strict=True):
        if dim is not None:
            aval = typeof(x)
            wanted = spec.padded(aval.ndim)
            raise errors.spec_differs(wanted, aval.sharding.spec, aval)


def _clash(names: tuple[str, ...], specs: Specs) -> tuple[str, ...]:
    """Those of the names that specs use."""
    used = {n for s in specs for n in (*s.axes, *s.unreduced, *s.reduced)}
    return tuple(n for n in names if n in used)
