"""Traces, tracers, and what is current.

`bind` asks the current trace to process a primitive. A transforming trace holds its
`parent`, unpacks its own tracers (those it is the `owner` of), treats every other
value as a constant, and runs the primitive's rule with `parent` current. That is the
whole mechanism: there is no stack and there are no levels.

Current state is kept in ContextVars, so threads never see each other's:

* the current trace (`None` stands for the bottom: evaluation);
* the axis environment: which axis names are bound, to which sizes.

Upstream: `jax/_src/core.py` (`Trace`, `Tracer`, `TracingContext`, `AxisEnv`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import NO_NAMES, AbstractToken, Names, ShapedArray
from minijax.core.errors import tracing as errors
from minijax.core.errors.shapes import bad_shape

if TYPE_CHECKING:
    from minijax.core.primitive import Primitive


class Trace:
    """Decides what binding a primitive means."""

    __slots__ = ("__weakref__", "closed")

    def __init__(self) -> None:
        self.closed = False

    def process(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        """Applies `primitive` to `args`, of which some may be its own tracers."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the trace: its tracers must not be used any more."""
        self.closed = True

    def doing(self) -> str:
        """What goes on while the trace is current, for notes on errors."""
        return "tracing"


class _Bottom:
    """Holds the trace below all others; evaluation installs itself here."""

    trace: Trace


_current: ContextVar[Trace | None] = ContextVar("current_trace", default=None)


def set_bottom_trace(trace: Trace) -> None:
    """Late binding, called once: core cannot import evaluation, which is above."""
    _Bottom.trace = trace


def current_trace() -> Trace:
    """The trace that `bind` asks."""
    return _current.get() or _Bottom.trace


def is_evaluating() -> bool:
    """Whether the current trace is the bottom one, so that values are concrete."""
    return _current.get() is None


class use_trace:  # reads as a verb in `with use_trace(parent):`
    """Makes a trace current within a `with` block; a class, as it is hot."""

    __slots__ = ("token", "trace")

    def __init__(self, trace: Trace):
        self.trace = None if trace is _Bottom.trace else trace

    def __enter__(self) -> None:
        self.token = _current.set(self.trace)

    def __exit__(self, *_: object) -> None:
        _current.reset(self.token)


# --------------------------------------------------------------------- tracers


class Tracer:
    """Stands for a value while a function is traced.

    A subclass adds what its trace, the `owner`, knows of the value, and `aval`, its
    type. (The names leave `trace` and `var` to the methods that arrays have.)
    Arithmetic and indexing are installed by `lax.operators`.
    """

    __slots__ = ("__weakref__", "owner")

    # Makes `numpy_array * tracer` ask the tracer.
    __array_priority__ = 1000

    owner: Trace
    aval: Any
    #: What messages call it: upstream's name for this kind of tracer.
    shown_as = "Tracer"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array_type("shape").shape

    @property
    def dtype(self) -> Any:
        return self._array_type("dtype").dtype

    @property
    def ndim(self) -> int:
        return len(self._array_type("ndim").shape)

    @property
    def size(self) -> int:
        return self._array_type("size").size

    @property
    def weak_type(self) -> bool:
        return self._array_type("weak_type").weak_type

    @property
    def sharding(self) -> NoReturn:
        raise errors.no_sharding_on_tracer(plain_type(self.aval))

    def _array_type(self, attribute: str) -> ShapedArray:
        if isinstance(self.aval, AbstractToken):
            raise errors.token_has_no(self.shown_as, attribute)
        return self.aval

    def concrete(self) -> Any:
        """The value itself where the trace knows it (under `grad`), else None."""
        return None

    def origin(self) -> str:
        """One or two sentences on where this tracer came from, for errors."""
        return ""

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __hash__(self) -> int:
        raise errors.unhashable(type(self).__name__)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise errors.array_conversion(plain_type(self.aval), self.origin())

    def __bool__(self) -> bool:
        self._check_one_element("truth")
        return bool(self._concrete_or(errors.bool_conversion))

    def __index__(self) -> int:
        aval = self._array_type("shape")
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise errors.not_an_index()
        return int(self._concrete_or(errors.integer_conversion))

    def __int__(self) -> int:
        self._check_one_element("int")
        return int(self._concrete_or(errors.concretization("int")))

    def __float__(self) -> float:
        self._check_one_element("float")
        return float(self._concrete_or(errors.concretization("float")))

    def __complex__(self) -> complex:
        self._check_one_element("complex")
        return complex(self._concrete_or(errors.concretization("complex")))

    def _check_one_element(self, wanted: str) -> None:
        size = self._array_type("size").size
        if size != 1 if wanted == "truth" else self.shape != ():
            raise errors.not_one_element(wanted, size)

    def _concrete_or(self, error: Any) -> Any:
        value = self.concrete()
        if value is None:
            raise error(plain_type(self.aval), self.origin())
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


def plain_type(aval: Any) -> str:
    """A type as errors say it: with the dtype's long name, and without weakness."""
    return "Tok" if isinstance(aval, AbstractToken) else str(aval).removeprefix("~")


# ------------------------------------------------------------ types of values

#: How values that are not tracers get their type: by Python type. Python and numpy
#: values are entered below; the runtime adds its arrays and tokens.
aval_of_type: dict[type, Callable[[Any], Any]] = {}


def typeof(x: Any) -> Any:
    """The abstract value of a tracer, an array, a token, or a scalar.

    >>> typeof(1.5)
    ShapedArray(float32[], weak_type=True)
    """
    if isinstance(x, Tracer):
        return x.aval
    rule = aval_of_type.get(type(x))  # pyright: ignore[reportUnknownArgumentType]
    if rule is None:
        rule = _aval_rule(x)
    return rule(x)


def _aval_rule(x: Any) -> Any:
    for base in type(x).__mro__:
        if base in aval_of_type:
            return aval_of_type[base]
    if hasattr(x, "__jax_array__"):
        return _jax_array_aval
    raise errors.NotAValueError(x)


def _jax_array_aval(x: Any) -> Any:
    return typeof(x.__jax_array__())


def is_value(x: Any) -> bool:
    """Whether `typeof` knows a type for `x`."""
    return isinstance(x, Tracer) or any(b in aval_of_type for b in type(x).__mro__)


_aval_cache: dict[Any, ShapedArray] = {}


def shaped(shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> ShapedArray:
    """The one shared `ShapedArray` of a shape and dtype without mesh."""
    key = (shape, dtype, weak_type)
    aval = _aval_cache.get(key)
    if aval is None:
        # 1.0 and True equal 1: what is kept must be right for all that find it.
        if not all(type(d) is int for d in shape):
            return shaped(_as_ints(shape), dtype, weak_type)
        if len(_aval_cache) > 65536:
            _aval_cache.clear()
        aval = _aval_cache[key] = ShapedArray(shape, dtype, weak_type)
    return aval


def _as_ints(shape: tuple[Any, ...]) -> tuple[int, ...]:
    try:
        return tuple([int(operator.index(d)) for d in shape])
    except TypeError:
        raise bad_shape(shape) from None


# ------------------------------------------------------- the axis environment


class AxisEnv:
    """Which axis names are bound, to which sizes, and by what.

    `manual` names are mesh axes bound by `shard_map`; the others were bound by
    `vmap`, or given to `make_jaxpr`. `check_vma` says whether types follow which
    manual axes a value varies over. `mapped` names are Explicit mesh axes that the
    mapped dimension of a `vmap` is sharded over: taken, though not to be named.
    """

    __slots__ = ("_hash", "check_vma", "manual", "mapped", "sizes")

    def __init__(
        self,
        sizes: dict[str, int] | None = None,
        manual: Names = NO_NAMES,
        check_vma: bool = False,
        mapped: Names = NO_NAMES,
    ):
        self.sizes = sizes or {}
        self.manual = manual
        self.check_vma = check_vma
        self.mapped = mapped
        self._hash = hash((tuple(self.sizes.items()), manual, check_vma, mapped))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, AxisEnv)
            and list(self.sizes.items()) == list(other.sizes.items())
            and self.manual == other.manual
            and self.check_vma == other.check_vma
            and self.mapped == other.mapped
        )


#: Where no axis is bound, which is nearly everywhere.
NO_AXES = AxisEnv()
_axis_env: ContextVar[AxisEnv] = ContextVar("axis_env", default=NO_AXES)


def axis_env() -> AxisEnv:
    """The axis environment in force."""
    return _axis_env.get()


def axis_size(name: str) -> int:
    """The size of a bound axis name, else upstream's short NameError."""
    size = _axis_env.get().sizes.get(name)
    if size is None:
        raise errors.unbound_axis(name, _axis_env.get().sizes)
    return size


@contextmanager
def use_axis_env(env: AxisEnv) -> Generator[None]:
    """Replaces the axis environment within a `with` block."""
    token = _axis_env.set(env)
    try:
        yield
    finally:
        _axis_env.reset(token)


@contextmanager
def extend_axis_env(
    names: Iterable[tuple[str, int]], mapped: Iterable[str] = ()
) -> Generator[None]:
    """Binds names as `vmap` does; an inner name hides an outer one."""
    bound = dict(names)
    also = frozenset(mapped)
    if not (bound or also):
        yield
        return
    env = _axis_env.get()
    outer = {k: v for k, v in env.sizes.items() if k not in bound}
    manual = env.manual.difference(bound)
    with use_axis_env(AxisEnv(outer | bound, manual, env.check_vma, env.mapped | also)):
        yield


def _masked_array(_: Any) -> NoReturn:
    raise errors.masked_array()


def _scalar(dtype: Any, weak_type: bool) -> Callable[[Any], ShapedArray]:
    """The type of all scalars of one class, narrow or, under x64, wide."""
    narrow, wide = (
        shaped((), dtypes.canonical(x64, np.dtype(dtype)), weak_type)
        for x64 in (False, True)
    )
    if narrow is wide:
        return lambda _: wide
    return lambda _: wide if dtypes.x64_enabled() else narrow


def _numpy_value(x: Any) -> ShapedArray:
    return shaped(x.shape, dtypes.dtype_of(x))


aval_of_type.update({d.type: _scalar(d, False) for d in dtypes.NUMERIC_DTYPES})
aval_of_type.update(
    {
        bool: _scalar(bool, False),
        int: _scalar(np.int64, True),
        float: _scalar(np.float64, True),
        complex: _scalar(np.complex128, True),
        np.ndarray: _numpy_value,
        np.generic: _numpy_value,
        np.ma.MaskedArray: _masked_array,
    }
)
