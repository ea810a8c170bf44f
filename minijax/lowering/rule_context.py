"""What lowering rules are given: the module, and the place in it being built.

Each equation calls the lowering rule of its primitive, which appends operations to
the block being built; the values that stand for its variables go into an environment.
The rules are on the primitives' pages; here is what they share: inner programs, inner
functions, manual computations, and the shardings that types carry.

Upstream: `jax/_src/interpreters/mlir.py` (`ModuleContext`, `LoweringRuleContext`,
`jaxpr_subcomp`), `jax/_src/shard_map.py` (`_shard_map_lowering_shardy`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jaxlib.mlir import ir

from minijax.core.avals import (
    NO_NAMES,
    AbstractValue,
    Names,
    ShapedArray,
    abstract_token,
)
from minijax.core.effects import ordered_effects
from minijax.core.errors import lowering as errors
from minijax.core.jaxpr import Atom, Jaxpr, Var, dead_code_eliminated
from minijax.core.mesh import (
    AxisType,
    BaseMesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
)
from minijax.core.primitive import Primitive
from minijax.core.source import replaying
from minijax.lowering.dialect import (
    Region,
    attr,
    constant,
    fill_region,
    ir_type,
    string,
)
from minijax.lowering.sharding import (
    constrain,
    manual_axes_attr,
    per_value_sharding,
)
from minijax.lowering.tokens import Tokens

__all__ = ["LoweringContext", "ModuleContext"]

Values = Sequence[ir.Value]
Shardings = Sequence[Sharding | None]


class ModuleContext:
    """A module while it is built.

    Attributes:
      platform: what it is for: `cpu`, `gpu` or `tpu`.
      devices: those it is for, where a rule needs to know.
      host_callbacks: a rule that calls Python appends its function here, and its
        operation names it by the index.
      tokens: where each ordered effect is; `tokens.op` makes operations with effects.
      runnable: whether the module is to be compiled, and not only shown.
      lacking: whether a rule showed an operation that is not to be compiled; see
        `substitutes`.
    """

    __slots__ = (
        "devices",
        "functions",
        "host_callbacks",
        "lacking",
        "module",
        "platform",
        "runnable",
        "symbols",
        "tokens",
    )

    def __init__(
        self, platform: str, devices: Sequence[Any] = (), runnable: bool = False
    ):
        self.platform = platform
        self.runnable = runnable
        self.lacking = False
        self.devices = tuple(devices)
        self.module = ir.Module.create()
        self.symbols = ir.SymbolTable(self.module.operation)
        # The inner functions, by jaxpr, name and shardings.
        self.functions: dict[Any, str] = {}
        self.host_callbacks: list[Any] = []
        self.tokens = Tokens()

    def substitutes(self) -> bool:
        """Whether an operation that XLA does not do well here is made of others now.

        A rule asks where it has such a one. In a module that is only shown it stands
        as it is, and that is noted.
        """
        self.lacking = self.lacking or not self.runnable
        return self.runnable

    def add_function(
        self,
        name: str,
        jaxpr: Jaxpr,
        scope: LoweringContext,
        *,
        shardings: tuple[Shardings, Shardings] | None = None,
        public: bool = False,
        arg_attrs: Sequence[dict[str, ir.Attribute]] = (),
        result_attrs: Sequence[dict[str, ir.Attribute]] = (),
    ) -> str:
        """Lowers a jaxpr to a function; returns its name, which may get a number.

        `scope` says which axes are manual where it is called; `shardings`, how its
        arguments and results are laid out, which is stated in its body. In front of
        them stand the tokens of its ordered effects.
        """
        ordered = ordered_effects(jaxpr.effects)
        tokens = [abstract_token] * len(ordered)
        own_types = [ir_type(v.aval) for v in jaxpr.invars]
        types = [ir_type(a) for a in (*tokens, *jaxpr.in_avals)]
        results = [ir_type(a) for a in (*tokens, *jaxpr.out_avals)]
        attributes: dict[str, ir.Attribute] = {
            "sym_name": string(name),
            "sym_visibility": string("public" if public else "private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, results)),
        }
        for key, dicts in (("arg_attrs", arg_attrs), ("res_attrs", result_attrs)):
            if ordered or any(dicts):
                count = len(types if key == "arg_attrs" else results) - len(ordered)
                own = dicts or [{}] * count
                every = [*[{"jax.token": attr("true")}] * len(ordered), *own]
                entries = [ir.DictAttr.get(d) for d in every]
                attributes[key] = ir.ArrayAttr.get(entries)
        function = ir.Operation.create(
            "func.func", attributes=attributes, regions=1, ip=False
        )
        self.module.body.append(function)
        unique = self.symbols.insert(function).value

        in_avals, out_avals = jaxpr.in_avals, jaxpr.out_avals
        before, after = shardings or ([None] * len(in_avals), [None] * len(out_avals))

        def body(*args: ir.Value) -> Values:
            ins = scope.state_unreduced(args, in_avals)
            outs = scope.lower_jaxpr(jaxpr, constrain(ins, before, in_avals))
            return scope.state_unreduced(constrain(outs, after, out_avals), out_avals)

        region = Region(own_types, body, "func.return")
        fill_region(function.regions[0], self.tokens.region(ordered, region))
        return unique


class LoweringContext:
    """What a lowering rule knows besides its operands and parameters.

    Attributes:
      module: the `ModuleContext`.
      primitive: of the equation being lowered.
      avals_in, avals_out: the types of its operands and results.
      mesh: that of the enclosing `shard_map`, with all its axes; None outside.
      manual_axes: the axes that are manual here, for that and all outer `shard_map`s.
    """

    __slots__ = (
        "avals_in",
        "avals_out",
        "manual_axes",
        "mesh",
        "module",
        "primitive",
    )

    def __init__(
        self,
        module: ModuleContext,
        mesh: BaseMesh | None = None,
        manual_axes: Names = NO_NAMES,
        primitive: Primitive | None = None,
        avals_in: Sequence[Any] = (),
        avals_out: Sequence[Any] = (),
    ):
        self.module = module
        self.mesh = mesh
        self.manual_axes = manual_axes
        self.primitive = primitive
        self.avals_in = avals_in
        self.avals_out = avals_out

    def lower_jaxpr(self, jaxpr: Jaxpr, values: Values) -> list[ir.Value]:
        """Lowers a program (without constvars) into the current block."""
        env: dict[Atom, ir.Value] = dict(zip(jaxpr.invars, values, strict=True))
        live, _ = dead_code_eliminated(jaxpr, [True] * len(jaxpr.outvars))
        with replaying() as source_is:
            for eqn in live.eqns:
                primitive = eqn.primitive
                ctx = LoweringContext(
                    self.module,
                    self.mesh,
                    self.manual_axes,
                    primitive,
                    [v.aval for v in eqn.invars],
                    [v.aval for v in eqn.outvars],
                )
                operands = [
                    env[v] if isinstance(v, Var) else _literal(v) for v in eqn.invars
                ]
                # For rules that trace; to search the stack would take long deep inside.
                source_is(eqn.source)
                with _location(primitive.name):
                    results = primitive.lowering(ctx, *operands, **eqn.params)
                if len(results) != len(eqn.outvars):
                    raise errors.wrong_number_of_results(
                        primitive.name, len(eqn.outvars), len(results)
                    )
                env.update(zip(eqn.outvars, results, strict=True))
        return [env[v] if isinstance(v, Var) else _literal(v) for v in jaxpr.outvars]

    def call(
        self,
        jaxpr: Jaxpr,
        name: str,
        values: Values,
        in_shardings: Shardings | None = None,
        out_shardings: Shardings | None = None,
    ) -> list[ir.Value]:
        """Calls a program as a function, which is lowered once per module.

        Shardings, where not None, are stated in the function.
        """
        none_in, none_out = (None,) * len(jaxpr.invars), (None,) * len(jaxpr.outvars)
        shardings = (tuple(in_shardings or none_in), tuple(out_shardings or none_out))
        functions, key = self.module.functions, (jaxpr, name, shardings)
        symbol = functions.get(key)
        if symbol is None:
            symbol = functions[key] = self.module.add_function(
                name, jaxpr, self, shardings=shardings
            )
        callee = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
        types = [ir_type(a) for a in jaxpr.out_avals]
        outs = self.module.tokens.op(jaxpr.effects, "func.call", values, types, callee)
        return self.with_shardings(outs, jaxpr.out_avals)

    def with_sharding(self, value: ir.Value, aval: AbstractValue) -> ir.Value:
        """States the layout that a type demands, where it has Explicit axes.

        Nothing is stated where all axes are Auto, or all Manual.
        """
        if not isinstance(aval, ShapedArray):
            return value
        mesh = aval.sharding.mesh
        if mesh.empty or mesh.are_all_axes_manual or mesh.are_all_axes_auto:
            return value
        return constrain([value], [aval.sharding], [aval], open_auto=True)[0]

    def with_shardings(self, values: Values, avals: Sequence[Any]) -> list[ir.Value]:
        """The same for several values."""
        return [self.with_sharding(v, a) for v, a in zip(values, avals, strict=True)]

    def state_unreduced(self, values: Values, avals: Sequence[Any]) -> list[ir.Value]:
        """The same, at the borders of functions, for values that are unreduced."""
        return [
            self.with_sharding(v, a)
            if isinstance(a, ShapedArray) and a.sharding.spec.unreduced
            else v
            for v, a in zip(values, avals, strict=True)
        ]

    def manual_computation(
        self,
        jaxpr: Jaxpr,
        values: Values,
        mesh: BaseMesh,
        in_specs: Sequence[PartitionSpec],
        out_specs: Sequence[PartitionSpec],
        manual_axes: Names,
    ) -> list[ir.Value]:
        """Lowers the body of a `shard_map`, the current equation.

        Args:
          manual_axes: those that become manual here.

        Where all of them have size 1 the body already is the program of the only
        device along them, and stands in the current block.
        """
        inner = LoweringContext(
            self.module, mesh, manual_axes | frozenset(mesh.manual_axes)
        )
        ordered = [n for n in mesh.axis_names if n in manual_axes]
        if math.prod(mesh.shape[n] for n in ordered) == 1:
            return inner.lower_jaxpr(jaxpr, values)

        tokens = [abstract_token] * len(ordered_effects(jaxpr.effects))
        in_specs = [*[PartitionSpec()] * len(tokens), *in_specs]
        out_specs = [*[PartitionSpec()] * len(tokens), *out_specs]

        def shardings(specs: Sequence[PartitionSpec], avals: Any) -> ir.Attribute:
            avals = [*tokens, *avals]
            return per_value_sharding(
                [self._boundary(mesh, s, a) for s, a in zip(specs, avals, strict=True)],
                [a.ndim if isinstance(a, ShapedArray) else 0 for a in avals],
                open_auto=len(ordered) < len(mesh.axis_names),
            )

        region = Region(
            [ir_type(v.aval) for v in jaxpr.invars],
            lambda *args: inner.lower_jaxpr(jaxpr, args),
            "sdy.return",
        )
        outs = self.module.tokens.op(
            jaxpr.effects,
            "sdy.manual_computation",
            values,
            [ir_type(a) for a in self.avals_out],
            {
                "in_shardings": shardings(in_specs, self.avals_in),
                "out_shardings": shardings(out_specs, self.avals_out),
                "manual_axes": manual_axes_attr(ordered),
            },
            [region],
        )
        return self.with_shardings(outs, self.avals_out)

    def _boundary(
        self, mesh: BaseMesh, spec: PartitionSpec, aval: AbstractValue
    ) -> NamedSharding:
        """How a value is laid out at the border of a manual computation.

        A type without Auto axes knows better than the spec, which names only the
        axes that become manual here.
        """
        if isinstance(aval, ShapedArray):
            around = aval.sharding.mesh
            if around.are_all_axes_explicit_or_manual:
                spec = aval.sharding.spec
        manual = dict.fromkeys(self.manual_axes, AxisType.Manual)
        return NamedSharding(mesh.abstract_mesh.update_axis_types(manual), spec)


def _literal(atom: Any) -> ir.Value:
    return constant(atom.val, atom.aval.dtype)


@lru_cache(maxsize=4096)
def _location(primitive: str) -> ir.Location:
    """Names the primitive in what MLIR and XLA report.

    Not the user's line: the same program written on two lines is one module, which is
    compiled once.
    """
    return ir.Location.name(primitive)
