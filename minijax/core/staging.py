"""Staging: running a Python function on tracers to record a jaxpr.

The staging trace has no parent: it records what is bound. A value that is not its own
tracer is a constant. Scalars become literals in the equation; every other constant,
also a tracer of an enclosing trace, becomes a constvar whose value the caller passes
on (closure conversion: `consts_as_args`).

Upstream: `jax/_src/interpreters/partial_eval.py` (`DynamicJaxprTrace`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.avals import AbstractValue
from minijax.core.ending import ending
from minijax.core.errors import tracing as errors
from minijax.core.jaxpr import (
    NO_EFFECTS,
    Atom,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    set_printer,
)
from minijax.core.pretty import eqn_text, jaxpr_text
from minijax.core.primitive import Primitive
from minijax.core.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_leaves_with_path,
    tree_unflatten,
)
from minijax.core.source import Source, user_source
from minijax.core.trace import (
    Trace,
    Tracer,
    is_value,
    plain_type,
    typeof,
    use_trace,
)

set_printer(jaxpr_text, eqn_text)


class DebugInfo:
    """The Python function that is being traced, for names and errors.

    Args:
      fun: the user's function.
      verb: what traces it, as upstream names it: `jit`, `shard_map`, `scan`, ...
      arg_paths: names the flat arguments, called only when an error needs them.
    """

    __slots__ = ("arg_paths", "fun", "verb")

    def __init__(
        self,
        fun: Callable[..., Any],
        verb: str,
        arg_paths: Callable[[], Sequence[str]] | None = None,
    ):
        self.fun = fun
        self.verb = verb
        self.arg_paths = arg_paths

    @property
    def name(self) -> str:
        return fun_name(self.fun)

    @property
    def place(self) -> str:
        """`NAME at FILE:LINE`, as far as known."""
        fun: Any = self.fun
        while hasattr(fun, "__wrapped__") or hasattr(fun, "func"):
            fun = fun.__wrapped__ if hasattr(fun, "__wrapped__") else fun.func
        code = getattr(fun, "__code__", None)
        at = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
        return f"{self.name}{at}"


def fun_name(fun: Callable[..., Any]) -> str:
    """A function's own name, looking through `functools.partial`."""
    inner: Any = fun
    while not hasattr(inner, "__name__") and hasattr(inner, "func"):
        inner = inner.func
    return getattr(inner, "__name__", type(inner).__name__)


class StagingTracer(Tracer):
    """A value that the traced program will compute: a variable of the jaxpr."""

    __slots__ = ("aval", "variable")
    shown_as = "DynamicJaxprTracer"

    owner: StagingTrace

    def __init__(self, trace: StagingTrace, var: Var):
        # A narrower type than Tracer's; nobody assigns it later.
        self.owner = trace  # pyright: ignore[reportIncompatibleVariableOverride]
        self.variable = var
        self.aval = var.aval

    def origin(self) -> str:
        debug = self.owner.debug
        if debug is None:
            return ""
        start = (
            f"The error occurred while tracing the function {debug.place} "
            f"for {debug.verb}. "
        )
        names = self.owner.depends_on(self.variable)
        if not names:
            return start.rstrip()
        many = len(names) > 1
        return (
            f"{start}This concrete value was not available in Python because it "
            f"depends on the value{'s' * many} of the argument{'s' * many} "
            f"{' and '.join(names)}."
        )

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"


class StagingTrace(Trace):
    """Records equations."""

    __slots__ = ("consts", "debug", "eqns", "invars")

    def __init__(self, debug: DebugInfo | None = None):
        super().__init__()
        self.debug = debug
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        # By identity; the value is kept, so that its id stays its own.
        self.consts: dict[int, tuple[Var, Any]] = {}

    def new_arg(self, aval: AbstractValue) -> StagingTracer:
        """A tracer for one more argument of the program."""
        var = Var(aval)
        self.invars.append(var)
        return StagingTracer(self, var)

    def process(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        if self.closed:
            raise RuntimeError(f"{primitive} was bound under a trace that has ended")
        atoms = [
            a.variable if type(a) is StagingTracer and a.owner is self else self.atom(a)
            for a in args
        ]
        avals = [a.aval for a in atoms]
        out_avals = primitive.abstract_eval(*avals, **params)
        rule = primitive.effects
        effects = NO_EFFECTS if rule is None else rule(*avals, **params)
        outvars = [Var(a) for a in out_avals]
        self.eqns.append(
            JaxprEqn(primitive, atoms, outvars, params, effects, user_source(3))
        )
        return [StagingTracer(self, v) for v in outvars]

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for any value in this program."""
        if isinstance(x, Tracer):
            if type(x) is StagingTracer and x.owner is self:
                return x.variable
            check_live(x)
        elif is_literal(x):
            return Literal(x, typeof(x))
        known = self.consts.get(id(x))
        if known is not None:
            return known[0]
        var = Var(typeof(x))
        self.consts[id(x)] = (var, x)
        return var

    def finish(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """Ends the trace; returns the program and the values of its constants."""
        outvars = [self.atom(x) for x in outs]
        self.close()
        constvars = [v for v, _ in self.consts.values()]
        consts = [x for _, x in self.consts.values()]
        return Jaxpr(constvars, self.invars, outvars, self.eqns), consts

    def doing(self) -> str:
        debug = self.debug
        return f"tracing {debug.name} for {debug.verb}" if debug else super().doing()

    def depends_on(self, var: Var) -> list[str]:
        """The names of the arguments that a variable was computed from."""
        needed = {var}
        for eqn in reversed(self.eqns):
            if any(v in needed for v in eqn.outvars):
                needed.update(v for v in eqn.invars if isinstance(v, Var))
        paths = self.debug and self.debug.arg_paths
        names = paths() if paths else ()
        return [n for n, v in zip(names, self.invars, strict=False) if v in needed]

    def source_of(self, var: Var) -> Source | None:
        """The user's line that computed a variable."""
        return next((e.source for e in self.eqns if var in e.outvars), None)


def is_literal(x: Any) -> bool:
    """Whether a value stands in an equation itself: any scalar but a token."""
    return getattr(x, "shape", ()) == () and hasattr(x, "__float__")


def check_live(x: Tracer) -> None:
    """Refuses a tracer whose trace has ended."""
    trace = x.owner
    if not trace.closed:
        return
    function = created = ""
    if isinstance(x, StagingTracer) and x.owner.debug is not None:
        debug = x.owner.debug
        function = (
            f"The function being traced when the value leaked was {debug.place} "
            f"traced for {debug.verb}."
        )
        created = str(x.owner.source_of(x.variable) or "")
    raise errors.leaked(plain_type(x.aval), x.shown_as, function, created)


def stage(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[AbstractValue],
    debug: DebugInfo | None = None,
) -> tuple[Jaxpr, list[Any]]:
    """Traces a function of flat arguments that returns a flat list.

    Returns the jaxpr and the values of its constvars.
    """
    trace = StagingTrace(debug)
    with ending(trace):
        return _staged(trace, fun, avals)


def _staged(
    trace: StagingTrace,
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[AbstractValue],
) -> tuple[Jaxpr, list[Any]]:
    args = [trace.new_arg(a) for a in avals]
    with use_trace(trace):
        outs = fun(*args)
        return trace.finish(outs)


def stage_body(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[AbstractValue],
    debug: DebugInfo | None = None,
) -> Jaxpr:
    """Traces a function that closes over no tracers, such as a rule of a body.

    Arrays that it makes on the way stand in the equations themselves, so that the
    jaxpr is complete and can be cached with its original.
    """
    jaxpr, consts = stage(fun, avals, debug)
    if not consts:
        return jaxpr
    for x in consts:
        if isinstance(x, Tracer):
            raise errors.body_closes_over(str(x.aval))
    literals: dict[Atom, Atom] = {
        v: Literal(x, v.aval) for v, x in zip(jaxpr.constvars, consts, strict=True)
    }
    for eqn in jaxpr.eqns:
        eqn.invars = [literals.get(v, v) for v in eqn.invars]
    outvars = [literals.get(v, v) for v in jaxpr.outvars]
    return jaxpr.replace(constvars=[], outvars=outvars)


def stage_tree(
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    avals: Sequence[AbstractValue],
    debug: DebugInfo,
) -> tuple[Jaxpr, list[Any], PyTreeDef]:
    """Traces a function of pytrees; `in_tree` is the tree of `(args, kwargs)`.

    Returns the jaxpr, the values of its constvars, and the tree of the result.
    """
    out_tree: PyTreeDef | None = None

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        args, kwargs = tree_unflatten(in_tree, leaves)
        outs, out_tree = tree_flatten(fun(*args, **kwargs))
        check_outputs(outs, out_tree, debug)
        return outs

    jaxpr, consts = stage(flat, avals, debug)
    assert out_tree is not None
    return jaxpr, consts, out_tree


def check_outputs(outs: Sequence[Any], out_tree: PyTreeDef, debug: DebugInfo) -> None:
    """Refuses results that are no JAX values."""
    for i, x in enumerate(outs):
        if not is_value(x):
            path = result_paths(out_tree)[i]
            raise errors.bad_output(debug.place, debug.verb, x, path)


def result_paths(out_tree: PyTreeDef) -> list[str]:
    """Where each flat result stands in the user's result: `['a'][0]`."""
    tree = tree_unflatten(out_tree, range(out_tree.num_leaves))
    return [keystr(path) for path, _ in tree_leaves_with_path(tree)]


def consts_as_args(jaxpr: Jaxpr) -> Jaxpr:
    """Closure conversion: the constvars become leading arguments."""
    if not jaxpr.constvars:
        return jaxpr
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
