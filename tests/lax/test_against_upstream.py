"""The elementwise operations, reductions and products print as upstream's do.

Each program is a function of a library and its `lax`, traced by both. Compared are the
printed jaxpr, the StableHLO module, and, where it fails, the exception's type and the
first line of its message. Layout is not compared here, nor the order in which sets of
dtypes print, which upstream leaves to chance.
"""

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minijax

Program = Callable[..., Any]

F32, I32, U32, BOOL, C64, F16 = (
    np.dtype(d) for d in ("f4", "i4", "u4", "?", "c8", "f2")
)


def _x(*shape: int, dtype: Any = F32) -> tuple[tuple[int, ...], Any]:
    return shape, dtype


V, S, M = _x(3), _x(), _x(4, 4)


def _unary() -> Iterator[tuple[str, Program, list[Any]]]:
    names = """tanh sin cos exp log sqrt rsqrt logistic tan log1p expm1 cbrt square abs
    sign erf_inv asin acos atan sinh cosh asinh acosh atanh exp2 floor ceil neg round
    is_finite conj stop_gradient"""
    for name in names.split():
        yield name, lambda m, lax, x, n=name: getattr(lax, n)(x), [V]
        yield (
            f"jvp {name}",
            lambda m, lax, x, n=name: m.jvp(getattr(lax, n), (x,), (x,)),
            [V],
        )
    for name in "real imag conj sign neg exp log sqrt tanh square".split():
        yield name, lambda m, lax, x, n=name: getattr(lax, n)(x), [_x(3, dtype=C64)]
    for name in "bitwise_not population_count clz neg sign abs square".split():
        for dtype in (I32, U32, BOOL):
            of = [_x(3, dtype=dtype)]
            yield name, lambda m, lax, x, n=name: getattr(lax, n)(x), of
    for y in (-3, -1, 0, 1, 2, 3, 5):
        for dtype in (F32, I32):
            of = [_x(3, dtype=dtype)]
            yield f"**{y}", lambda m, lax, x, y=y: lax.integer_pow(x, y), of
        yield (
            f"jvp **{y}",
            lambda m, lax, x, y=y: m.jvp(lambda x: lax.integer_pow(x, y), (x,), (x,)),
            [V],
        )


def _binary() -> Iterator[tuple[str, Program, list[Any]]]:  # noqa: C901
    for name in "add sub mul div rem max min atan2 nextafter pow".split():
        for pair in ([V, V], [V, S], [S, V]):

            def jvp(m: Any, lax: Any, x: Any, y: Any, n: str = name) -> Any:
                return m.jvp(getattr(lax, n), (x, y), (x, y))

            yield f"jvp {name}", jvp, pair
        for axes in ((0, 0), (None, 0), (0, None), (1, 0), (1, 1)):

            def mapped(
                m: Any, lax: Any, x: Any, y: Any, n: str = name, a: Any = axes
            ) -> Any:
                return m.vmap(getattr(lax, n), a)(x, y)

            yield f"vmap {name} {axes}", mapped, [M, M]
    for name in "add sub mul div max".split():
        for pair in ([M, M], [M, S], [_x(1, 4), M]):

            def grad(m: Any, lax: Any, x: Any, y: Any, n: str = name) -> Any:
                total = lambda *xs: lax.reduce_sum(getattr(lax, n)(*xs), (0, 1))  # noqa: E731
                return m.grad(total, (0, 1))(x, y)

            yield f"grad {name}", grad, pair
    names = "eq ne lt le gt ge max min bitwise_and bitwise_or bitwise_xor shift_left"
    for name in names.split():
        for dtype in (F32, I32, U32, BOOL, C64):
            of = [_x(3, dtype=dtype)] * 2
            yield name, lambda m, lax, x, y, n=name: getattr(lax, n)(x, y), of
    for pair in (
        [V, _x(4)],
        [V, _x(4, 3)],
        [V, _x(3, dtype=I32)],
        [_x(1, 3), _x(4, 3)],
    ):
        yield "add", lambda m, lax, x, y: lax.add(x, y), pair
    yield "weak", lambda m, lax, x: lax.mul(lax.add(x, 1), 2), [_x(3, dtype=I32)]
    yield "weak mismatch", lambda m, lax, x: lax.add(x, 1), [V]
    yield (
        "pow by int",
        lambda m, lax, x: m.jvp(lambda x: lax.pow(x, 2), (x,), (x,)),
        [V],
    )


def _choices() -> Iterator[tuple[str, Program, list[Any]]]:  # noqa: C901
    yield "clamp", lambda m, lax, x: lax.clamp(0.0, x, 1.0), [V]
    yield (
        "jvp clamp",
        lambda m, lax, x: m.jvp(lambda x: lax.clamp(0.0, x, 1.0), (x,), (x,)),
        [V],
    )
    for of in ([V, M, S], [S, M, V], [_x(dtype=I32), M, S]):
        yield "clamp error", lambda m, lax, a, b, c: lax.clamp(a, b, c), of
    which = _x(4, 4, dtype=BOOL)
    for axes in ((0, 0, 0), (0, 1, 1), (0, 0, None), (None, 0, 0)):

        def mapped(m: Any, lax: Any, p: Any, x: Any, y: Any, a: Any = axes) -> Any:
            return m.vmap(lax.select, a)(p, x, y)

        first = _x(4, dtype=BOOL) if axes == (0, 0, 0) else which
        first = _x(dtype=BOOL) if axes[0] is None else first
        last = _x(4) if axes[2] is None else M
        yield f"vmap select {axes}", mapped, [first, M, last]

    def grad(m: Any, lax: Any, p: Any, x: Any, y: Any) -> Any:
        total = lambda x, y: lax.reduce_sum(lax.select(p, x, y), (0, 1))  # noqa: E731
        return m.grad(total, (0, 1))(x, y)

    yield "grad select", grad, [which, M, M]
    three = lambda m, lax, p, x, y: lax.select_n(p, x, y, x)  # noqa: E731
    for dtype in (I32, BOOL, F32):
        yield "select_n", three, [_x(4, 4, dtype=dtype), M, M]
    two = lambda m, lax, p, x, y: lax.select_n(p, x, y)  # noqa: E731
    for of in (
        [_x(3, dtype=BOOL), M, M],
        [which, M, _x(4, 4, dtype=I32)],
        [which, M, V],
    ):
        yield "select_n error", two, of
    for dtype in (I32, F16, BOOL, C64, F32):
        for of in ([M], [_x(3, dtype=C64)], [_x(3, dtype=BOOL)]):
            to = lambda m, lax, x, d=dtype: lax.convert_element_type(x, d)  # noqa: E731
            yield f"convert to {dtype}", to, of
    for name in "int32 int16 int8 float16 uint8 bool".split():

        def bits(m: Any, lax: Any, x: Any, d: str = name) -> Any:
            return lax.bitcast_convert_type(x, np.dtype(d))

        yield f"bitcast to {name}", bits, [M]
    for exponent, mantissa in ((5, 10), (0, 10), (5, -1)):

        def rounded(
            m: Any, lax: Any, x: Any, e: int = exponent, f: int = mantissa
        ) -> Any:
            return lax.reduce_precision(x, e, f)

        yield f"reduce_precision {exponent} {mantissa}", rounded, [M]


def _reductions() -> Iterator[tuple[str, Program, list[Any]]]:  # noqa: C901
    for name in "reduce_sum reduce_max reduce_min reduce_prod".split():
        for axes in ((0,), (0, 1), (1, 1), (2,)):
            yield (
                f"{name} {axes}",
                lambda m, lax, x, n=name, a=axes: getattr(lax, n)(x, a),
                [M],
            )

        def jvp(m: Any, lax: Any, x: Any, n: str = name) -> Any:
            return m.jvp(lambda x: getattr(lax, n)(x, (0,)), (x,), (x,))

        yield f"jvp {name}", jvp, [_x(4, 5)]

        def mapped(m: Any, lax: Any, x: Any, n: str = name) -> Any:
            return m.vmap(lambda x: getattr(lax, n)(x, (0,)), 1)(x)

        yield f"vmap {name}", mapped, [_x(2, 3, 4)]
        for dtype in (I32, C64, BOOL):
            of = [_x(3, dtype=dtype)]
            yield name, lambda m, lax, x, n=name: getattr(lax, n)(x, (0,)), of
    for name in "reduce_and reduce_or reduce_xor".split():
        for dtype in (BOOL, I32, F32):
            of = [_x(3, 2, dtype=dtype)]
            yield name, lambda m, lax, x, n=name: getattr(lax, n)(x, (0,)), of
    for name in "argmax argmin".split():
        for axis, dtype in ((0, I32), (1, I32), (3, I32), (0, F32)):

            def arg(
                m: Any, lax: Any, x: Any, n: str = name, a: int = axis, d: Any = dtype
            ):
                return getattr(lax, n)(x, a, d)

            yield f"jaxpr {name} {axis} {dtype}", arg, [M]
    for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
        for axis in (0, 1, -1, 3):

            def running(m: Any, lax: Any, x: Any, n: str = name, a: int = axis) -> Any:
                return getattr(lax, n)(x, a, True)

            yield f"jaxpr {name} {axis}", running, [M]
    for name in "cumsum cumprod cummax cummin".split():

        def push(m: Any, lax: Any, x: Any, n: str = name) -> Any:
            return m.jvp(lambda x: getattr(lax, n)(x, 0), (x,), (x,))

        yield f"jaxpr jvp {name}", push, [M]


def _dots() -> Iterator[tuple[str, Program, list[Any]]]:
    plain, batched = (((1,), (0,)), ((), ())), (((2,), (2,)), ((0,), (1,)))
    crossed = (((1, 2), (2, 0)), ((0,), (1,)))
    wrong = [
        (((3,), (0,)), ((), ())),
        (((1,), (3,)), ((), ())),
        (((1,), (0,)), ((0,), ())),
        (((1, 1), (0, 0)), ((), ())),
        (((1,), (0,)), ((1,), (1,))),
        (((1,), (0,)), ((0, 0), (1, 1))),
    ]
    cases = [
        (plain, [M, M]),
        (plain, [M, _x(3, 3)]),
        (plain, [M, _x(4, 4, dtype=F16)]),
        (plain, [M, _x(4, 4, dtype=I32)]),
        (plain, [_x(4, 4, dtype=U32), _x(4, 4, dtype=I32)]),
        (batched, [_x(2, 3, 4), _x(5, 2, 4)]),
        (crossed, [_x(2, 3, 4), _x(4, 2, 3)]),
        *((dims, [M, M]) for dims in wrong),
    ]
    for dims, of in cases:
        yield f"dot {dims}", lambda m, lax, x, y, d=dims: lax.dot_general(x, y, d), of
    for dims, of, rank in ((plain, [M, M], 2), (crossed, cases[6][1], 1)):

        def grad(m: Any, lax: Any, x: Any, y: Any, d: Any = dims, r: int = rank) -> Any:
            def total(x: Any, y: Any) -> Any:
                return lax.reduce_sum(lax.dot_general(x, y, d), tuple(range(r)))

            return m.grad(total, (0, 1))(x, y)

        yield f"grad dot {dims}", grad, of
    for axes in ((0, 0), (None, 0), (0, None), (1, 2), (2, None), (None, 3)):
        shapes = [list(s) for s in ((2, 3, 4), (5, 2, 4))]
        for shape, axis in zip(shapes, axes, strict=True):
            if axis is not None:
                shape.insert(axis, 7)

        def mapped(m: Any, lax: Any, x: Any, y: Any, a: Any = axes) -> Any:
            return m.vmap(lambda x, y: lax.dot_general(x, y, batched), a)(x, y)

        yield f"vmap dot {axes}", mapped, [_x(*s) for s in shapes]

    def precise(m: Any, lax: Any, x: Any, y: Any) -> Any:
        return lax.dot_general(x, y, plain, "highest", np.float32)

    yield "dot highest", precise, [_x(4, 4, dtype=F16)] * 2


def _others() -> Iterator[tuple[str, Program, list[Any]]]:
    yield "rng", lambda m, lax, a, b: lax.rng_uniform(a, b, (3,)), [S, S]
    yield "rng shapes", lambda m, lax, a, b: lax.rng_uniform(a, b, (3,)), [V, S]
    yield (
        "rng dtypes",
        lambda m, lax, a, b: lax.rng_uniform(a, b, (3,)),
        [S, _x(dtype=F16)],
    )
    yield "rng shape", lambda m, lax, a, b: lax.rng_uniform(a, b, 3), [S, S]
    yield (
        "barrier",
        lambda m, lax, x, y: lax.optimization_barrier((x, {"a": y})),
        [M, V],
    )

    def grad(m: Any, lax: Any, x: Any) -> Any:
        def total(x: Any) -> Any:
            return lax.reduce_sum(lax.optimization_barrier((x, x))[0], (0, 1))

        return m.grad(total)(x)

    yield "grad barrier", grad, [M]


PROGRAMS = [
    pytest.param(fun, of, name.startswith("jaxpr "), id=name)
    for family in (_unary, _binary, _choices, _reductions, _dots, _others)
    for name, fun, of in family()
]


def _normal(text: str) -> str:
    text = re.sub(r"np\.int64\((\d+)\)", r"\1", text)
    text = re.sub(r"module @\S+", "module", text)
    text = re.sub(r"[\s;]+", " ", text)
    subtypes = re.search(r"(?<=are subtypes of ).*(?=\.)", text)
    if subtypes:
        kinds = ", ".join(sorted(subtypes[0].split(", ")))
        text = text.replace(subtypes[0], kinds)
    return text.replace("[ ", "[").replace(" ]", "]")


def _outcome(make: Callable[[], Any]) -> str:
    try:
        return _normal(str(make()))
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return _normal(f"{type(error).__name__}: {first}")


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("program", "of", "jaxpr_only"), PROGRAMS)
def test_text(
    upstream: ModuleType, program: Program, of: list[Any], jaxpr_only: bool
) -> None:
    found, expected = [], []
    for library, outcomes in ((minijax, found), (upstream, expected)):
        args = [library.ShapeDtypeStruct(shape, dtype) for shape, dtype in of]

        def fun(*xs: Any, m: Any = library) -> Any:
            return program(m, m.lax, *xs)

        outcomes.append(_outcome(lambda f=fun, m=library, a=args: m.make_jaxpr(f)(*a)))
        if not jaxpr_only:
            lower = lambda f=fun, m=library, a=args: m.jit(f).lower(*a).as_text()  # noqa: E731
            outcomes.append(_outcome(lower))
    assert found == expected
