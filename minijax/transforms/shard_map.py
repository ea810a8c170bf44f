"""`shard_map`: writing the program of one device, to be run on every device of a mesh.

This file is the function: it checks meshes and specs against arguments and results,
traces the body on per-device types, and binds the primitive.

Upstream: `jax/_src/shard_map.py` (`shard_map`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, wraps
from typing import Any

from minijax.core.arguments import argument_names
from minijax.core.avals import AbstractToken
from minijax.core.errors import shard_map as errors
from minijax.core.errors.sharding import show_frozenset
from minijax.core.mesh import (
    AbstractMesh,
    AxisType,
    BaseMesh,
    Mesh,
    PartitionSpec,
    get_abstract_mesh,
)
from minijax.core.pytree import (
    broadcast_prefix,
    find_prefix_error,
    keystr,
    tree_flatten,
    tree_leaves_with_path,
    tree_unflatten,
)
from minijax.core.staging import (
    DebugInfo,
    check_outputs,
    consts_as_args,
    fun_name,
    stage,
)
from minijax.core.trace import axis_env, typeof
from minijax.lax.collectives.pcast import pvary
from minijax.transforms.shard_map_primitive import (
    inside,
    manual_mesh,
    mesh_ordered,
    shard_aval,
    shard_map_p,
    spec_type,
    unshard_aval,
)


class _Infer:
    """Stands for specs to be taken from the arguments' types."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Any = Infer,
    out_specs: Any,
    axis_names: set[str] | frozenset[str] = frozenset(),
    check_vma: bool = True,
) -> Callable[..., Any]:
    """Maps a function over the parts of its arguments on each device of a mesh.

    Inside, arrays are one device's parts and the mesh axes can be named in
    collectives.

    Args:
      f: the function of parts; without it, a decorator is returned.
      mesh: the devices; by default the context mesh.
      in_specs: a pytree prefix of the arguments with PartitionSpecs: how each is cut.
        May be left out where the mesh axes are Explicit; None marks an argument that
        is passed on as it is.
      out_specs: a pytree prefix of the result: how the parts make up the whole.
      axis_names: the mesh axes that become Manual; by default all.
      check_vma: whether to follow in the types over which axes values vary, and to
        refuse an `out_specs` that claims replication which was not inferred.

    Returns:
      A function of whole arrays.

    Raises:
      TypeError, ValueError: for meshes and specs that do not fit; the sentences are in
        `core/errors/shard_map.py`.

    >>> import numpy as np, minijax
    >>> from minijax.sharding import AxisType, PartitionSpec as P
    >>> mesh = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    >>> f = lambda x: minijax.lax.psum(x, "i")
    >>> minijax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P())(np.ones(4))
    Array([4.], dtype=float32)

    Upstream: `jax/_src/shard_map.py` (`shard_map`).
    """
    if f is None:
        return partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise errors.not_callable(f)
    fun = f

    @wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            raise errors.keyword_argument(name, fun_name(fun))
        the_mesh, names = _check_mesh(mesh, axis_names, in_specs, out_specs)
        return _Call(fun, the_mesh, names, in_specs, out_specs, check_vma)(args)

    return wrapped


# ------------------------------------------------------------------- before the call


def _check_mesh(
    mesh: Any, axis_names: Any, in_specs: Any, out_specs: Any
) -> tuple[BaseMesh, frozenset[str]]:
    context = get_abstract_mesh()
    if mesh is None:
        if context.empty:
            raise errors.no_context_mesh()
        mesh = context
    elif not isinstance(mesh, (Mesh, AbstractMesh)):
        raise errors.not_a_mesh(mesh)
    elif not context.empty and mesh.abstract_mesh != context:
        raise errors.mesh_mismatch(context, mesh)
    if mesh.empty:
        raise errors.empty_mesh(mesh)
    if not isinstance(axis_names, (set, frozenset)):
        raise errors.axis_names_type(axis_names)
    every = frozenset(mesh.axis_names) - axis_env().mapped
    names = frozenset(axis_names) or every
    if not names <= every:
        raise errors.axis_names_subset(show_frozenset(names), show_frozenset(every))
    names -= frozenset(mesh.manual_axes)
    types = [mesh.axis_type(n) for n in mesh_ordered(mesh, names)]
    if in_specs is Infer and any(t is not AxisType.Explicit for t in types):
        raise errors.in_specs_needed(show_frozenset(names), ", ".join(map(str, types)))
    if in_specs is not Infer:
        _check_specs("in", in_specs, mesh, names)
    _check_specs("out", out_specs, mesh, names)
    return mesh, names


def _check_specs(
    prefix: str, specs: Any, mesh: BaseMesh, names: frozenset[str]
) -> None:
    leaves = [(keystr(path), x) for path, x in tree_leaves_with_path(specs)]
    wrong = [(path, x) for path, x in leaves if not isinstance(x, PartitionSpec)]
    if wrong:
        raise errors.not_specs(prefix, wrong)
    foreign = [(path, n) for path, s in leaves for n in s.axes if n not in names]
    if foreign:
        raise errors.not_manual(prefix, show_frozenset(names), foreign)
    inner = manual_mesh(mesh, names)
    for _, spec in leaves:
        for kind in ("unreduced", "reduced"):
            for name in getattr(spec, kind):
                if inner.axis_type(name) is not AxisType.Manual:
                    raise errors.reduced_not_manual(kind, prefix, spec, inner)


# ---------------------------------------------------------------------- one call


class _Call:
    """One call of a mapped function."""

    def __init__(
        self,
        fun: Callable[..., Any],
        mesh: BaseMesh,
        names: frozenset[str],
        in_specs: Any,
        out_specs: Any,
        check_vma: bool,
    ):
        self.fun = fun
        self.name = fun_name(fun)
        self.mesh = mesh
        self.names = names
        self.in_specs = in_specs
        self.out_specs = out_specs
        self.check_vma = check_vma

    def __call__(self, args: tuple[Any, ...]) -> Any:
        leaves, in_tree = tree_flatten(args)
        specs = self._flat_in_specs(args, leaves)
        dynamic = [s is not None for s in specs]
        values = [x for x, d in zip(leaves, dynamic, strict=True) if d]
        avals = [typeof(x) for x in values]
        in_specs = [s for s in specs if s is not None]
        described = in_tree, self.in_specs, specs, "the passed args", "in"
        places = cache(partial(self._places, *described))
        self._check_rank("in", places, in_specs, avals)
        self._check_divides(places, in_specs, avals)
        self._check_explicit(in_specs, avals)
        inner = [
            shard_aval(a, s, self.mesh, self.names, self.check_vma)
            for a, s in zip(avals, in_specs, strict=True)
        ]
        body = _Body(self, in_tree, leaves, dynamic)
        debug = DebugInfo(
            self.fun, "shard_map", lambda: self._dynamic_names(in_tree, dynamic)
        )
        with inside(self.mesh, self.names, self.check_vma):
            jaxpr, consts = stage(body, inner, debug)
            const_specs = [PartitionSpec() for _ in consts]
        self._check_out(body, jaxpr.out_avals)
        outs = shard_map_p.bind(
            *consts,
            *values,
            check_vma=self.check_vma,
            in_specs=(*const_specs, *in_specs),
            jaxpr=consts_as_args(jaxpr),
            mesh=self.mesh,
            newly_manual_axes=self.names,
            out_specs=tuple(body.out_specs),
        )
        return tree_unflatten(body.out_tree, outs)

    def _dynamic_names(self, in_tree: Any, dynamic: Sequence[bool]) -> list[str]:
        args_only = tree_flatten((in_tree.unflatten(range(in_tree.num_leaves)), {}))[1]
        names = argument_names(self.fun, args_only)
        return [n for n, d in zip(names, dynamic, strict=True) if d]

    # --- specs of arguments

    def _flat_in_specs(
        self, args: tuple[Any, ...], leaves: Sequence[Any]
    ) -> list[PartitionSpec | None]:
        if self.in_specs is Infer:
            return [self._inferred(typeof(x)) for x in leaves]
        try:
            return broadcast_prefix(self.in_specs, args, is_leaf=lambda x: x is None)
        except ValueError:
            error = find_prefix_error(self.in_specs, args)
            if error is None:
                raise
            raise error("shard_map in_specs") from None

    def _inferred(self, aval: Any) -> PartitionSpec:
        if isinstance(aval, AbstractToken):
            return PartitionSpec()
        return self._of_type(aval)

    def _of_type(self, aval: Any) -> PartitionSpec:
        """The part of a type's sharding that is over the axes mapped here."""
        spec = aval.sharding.spec
        parts = [
            tuple(n for n in spec.axes_of(i) if n in self.names) or None
            for i in range(aval.ndim)
        ]
        return PartitionSpec(
            *parts,
            unreduced=spec.unreduced & self.names,
            reduced=spec.reduced & self.names,
        )

    def _check_explicit(
        self, specs: Sequence[PartitionSpec], avals: Iterable[Any]
    ) -> None:
        """Where all axes are Explicit, specs must be what the types say."""
        if any(self.mesh.axis_type(n) is not AxisType.Explicit for n in self.names):
            return
        for spec, aval in zip(specs, avals, strict=True):
            if isinstance(aval, AbstractToken):
                continue
            wanted = spec.for_aval(aval.ndim)
            if wanted != self._of_type(aval):
                raise errors.spec_differs(wanted, aval.sharding.spec, aval)

    # --- checks of specs against values

    def _places(
        self,
        tree: Any,
        spec_tree: Any,
        flat_specs: Sequence[Any],
        base: str,
        prefix: str,
    ) -> list[errors.SpecFailure]:
        """Per spec where it and its leaf stand in what the user wrote: for errors."""
        values = tree_unflatten(tree, range(tree.num_leaves))
        paths = [path for path, _ in tree_leaves_with_path(values)]
        spec_paths = self._spec_paths(spec_tree, values, len(paths))
        found: list[errors.SpecFailure] = []
        for path, spec_path, spec in zip(paths, spec_paths, flat_specs, strict=True):
            if spec is None:
                continue
            extra = self._bound_to(path) if prefix == "in" else ""
            text = f"{prefix}_specs{spec_path}"
            found.append(
                errors.SpecFailure(text, spec, base + keystr(path), extra, "", 0)
            )
        return found

    def _spec_paths(self, spec_tree: Any, values: Any, count: int) -> list[str]:
        if spec_tree is Infer:
            return [""] * count
        keyed = tree_leaves_with_path(spec_tree, is_leaf=lambda x: x is None)
        labels = [keystr(path) for path, _ in keyed]
        _, tree = tree_flatten(spec_tree, is_leaf=lambda x: x is None)
        return broadcast_prefix(
            tree_unflatten(tree, labels), values, is_leaf=lambda x: x is None
        )

    def _bound_to(self, path: tuple[Any, ...]) -> str:
        """To which parameter of the user's function an argument is bound."""
        try:
            signature = inspect.signature(self.fun)
        except (TypeError, ValueError):
            return ""
        parameters = [
            p
            for p in signature.parameters.values()
            if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
        ]
        position, where = path[0].idx, keystr(path[:1])
        last = len(parameters) - 1
        if not parameters:
            return ""
        if position >= last and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
            return (
                f", where args{where} is the index {position - last} component of "
                f"{self.name}'s varargs parameter '{parameters[-1].name}',"
            )
        if position > last:
            return ""
        return (
            f", where args{where} is bound to {self.name}'s parameter "
            f"'{parameters[position]}',"
        )

    def _check_rank(
        self,
        prefix: str,
        places: _Places,
        specs: Sequence[PartitionSpec],
        avals: Sequence[Any],
    ) -> None:
        failures = []
        for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
            if isinstance(aval, AbstractToken):
                if spec.partitions or spec.unreduced or spec.reduced:
                    raise errors.token_spec(spec)
            elif len(spec.partitions) > aval.ndim:
                failures.append(_failed(places()[i], aval))
        if failures:
            raise errors.spec_too_long(prefix, self.name, failures)

    def _check_divides(
        self,
        places: _Places,
        specs: Sequence[PartitionSpec],
        avals: Sequence[Any],
    ) -> None:
        failures = []
        for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
            for dim in range(len(spec.partitions)):
                axes = spec.axes_of(dim)
                total = math.prod(self.mesh.shape[n] for n in axes)
                size = aval.shape[dim]
                if size % total:
                    shown = _failed(places()[i], aval)
                    failures.append((shown, dim, size, axes, total))
        if failures:
            sizes = list(self.mesh.shape.values())
            raise errors.not_divisible(self.name, sizes, self.mesh.axis_names, failures)

    def _check_out(self, body: _Body, avals: Sequence[Any]) -> None:
        base = f"{self.name}(*args)"
        described = body.out_tree, self.out_specs, body.out_specs, base, "out"
        places = cache(partial(self._places, *described))
        self._check_rank("out", places, body.out_specs, avals)
        if self.check_vma:
            self._check_replication(places, body.out_specs, avals)
        for spec, aval in zip(body.out_specs, avals, strict=True):
            unshard_aval(aval, spec, self.mesh, self.check_vma)

    def _check_replication(
        self,
        places: _Places,
        specs: Sequence[PartitionSpec],
        avals: Sequence[Any],
    ) -> None:
        failures = []
        outer = frozenset(self.mesh.manual_axes)
        for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
            if isinstance(aval, AbstractToken):
                continue
            said, manual = spec_type(spec), aval.manual
            named = said.varying | said.unreduced | said.reduced
            held = manual.varying | manual.unreduced | manual.reduced
            missing = frozenset(self.mesh.axis_names) - named
            if not (missing - outer) & held:
                continue
            failures.append(
                (
                    places()[i].spec_path,
                    spec,
                    mesh_ordered(self.mesh, missing),
                    self._listed(said.varying),
                    self._listed(missing & held),
                    self._listed(manual.varying),
                )
            )
        if failures:
            sizes = list(self.mesh.shape.values())
            raise errors.not_replicated(
                self.name, sizes, self.mesh.axis_names, failures
            )

    def _listed(self, names: frozenset[str]) -> str:
        return ",".join(mesh_ordered(self.mesh, names))


#: Where specs and leaves stand in what the user wrote: found only for an error.
_Places = Callable[[], Sequence[errors.SpecFailure]]


def _failed(place: errors.SpecFailure, aval: Any) -> errors.SpecFailure:
    return place._replace(aval=_plain(aval), rank=aval.ndim)


def _plain(aval: Any) -> str:
    """A type without what is behind its shape."""
    return f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"


class _Body:
    """The user's function on flat parts; remembers its result's tree and specs."""

    def __init__(
        self, call: _Call, in_tree: Any, leaves: Sequence[Any], dynamic: Sequence[bool]
    ):
        self.call = call
        self.in_tree = in_tree
        self.leaves = leaves
        self.dynamic = dynamic
        self.out_tree: Any = None
        self.out_specs: list[PartitionSpec] = []

    def __call__(self, *parts: Any) -> list[Any]:
        given = iter(parts)
        every = [
            next(given) if d else x
            for x, d in zip(self.leaves, self.dynamic, strict=True)
        ]
        out = self.call.fun(*tree_unflatten(self.in_tree, every))
        outs, self.out_tree = tree_flatten(out)
        check_outputs(outs, self.out_tree, DebugInfo(self.call.fun, "shard_map"))
        specs = self.call.out_specs
        try:
            self.out_specs = broadcast_prefix(specs, out)
        except ValueError:
            error = find_prefix_error(specs, out)
            if error is None:
                raise
            raise error("shard_map out_specs") from None
        if not self.call.check_vma:
            return outs
        return [self._vary(x, s) for x, s in zip(outs, self.out_specs, strict=True)]

    def _vary(self, x: Any, spec: PartitionSpec) -> Any:
        """Casts a result to vary over the axes that its spec shards it over."""
        aval = typeof(x)
        if isinstance(aval, AbstractToken):
            return x
        missing = frozenset(spec.axes) - aval.manual.varying
        return pvary(x, mesh_ordered(self.call.mesh, missing)) if missing else x
