"""Places where upstream is wrong and minijax is not: each is a row of a document.

`docs/differences.md` names these tests. A test runs one program with both libraries and
states what each does, so that it fails on the day that upstream is mended. Rows that
need more than a few lines have their tests beside the code.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax._src.shard_map as upstream_shard_map
import ml_dtypes
import numpy as np
import pytest
from jax._src import dtypes as upstream_dtypes

import minijax
from minijax.core import dtypes
from minijax.core.errors.sharding import show_frozenset

ROOT = Path(__file__).parent.parent
GROUPS = [[0, 1], [2, 3]]
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def outcome(program: Callable[[Any], Any], lib: Any) -> str:
    """The result as text, or the exception as `Class: message`."""
    try:
        return str(program(lib))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def differ(program: Callable[[Any], Any], upstream: str, ours: str) -> None:
    """`program(lib)` starts so with upstream and so with minijax."""
    found = [outcome(program, lib).strip() for lib in (jax, minijax)]
    assert found[0].startswith(upstream), found[0]
    assert found[1].startswith(ours), found[1]


def P(lib: Any, *parts: Any, **kinds: Any) -> Any:
    return lib.sharding.PartitionSpec(*parts, **kinds)


def make_mesh(lib: Any, shape: Any, names: Any, kind: str) -> Any:
    kinds = (getattr(lib.sharding.AxisType, kind),) * len(names)
    return lib.make_mesh(shape, names, axis_types=kinds)


def each(lib: Any, fun: Any, size: int = 4) -> Any:
    """`fun` of one row per device of a mesh of one axis, i."""
    return lib.shard_map(
        lambda *vs: fun(*(v[0] for v in vs))[None],
        mesh=make_mesh(lib, (size,), ("i",), "Auto"),
        in_specs=P(lib, "i"),
        out_specs=P(lib, "i"),
    )


# ------------------------------------------------------------------- collectives


def test_gradient_of_an_untiled_all_to_all():
    x = np.ones((4, 4, 3), np.float32)

    def program(lib):
        f = each(lib, lambda v: lib.lax.all_to_all(v, "i", 0, 1))
        return lib.grad(lambda v: f(v).sum())(x).shape

    differ(program, "ValueError: Expected cotangent type", "(4, 4, 3)")


def test_all_to_all_of_an_operand_that_is_not_mapped():
    def program(lib):
        f = lib.vmap(
            lambda _, v: lib.lax.all_to_all(v, "i", 0, 0),
            in_axes=(0, None),
            axis_name="i",
        )
        return f(np.zeros(4), SQUARE[0]).shape

    differ(program, "(4, 4, 4)", "(4, 4)")


COLLECTIVES = {
    "psum": lambda lax, v, n, **k: lax.psum(v, n, **k),
    "pmax": lambda lax, v, n, **k: lax.pmax(v, n, **k),
    "all_gather": lambda lax, v, n, **k: lax.all_gather(v, n, **k),
    "psum_scatter": lambda lax, v, n, **k: lax.psum_scatter(v, n, **k),
    "all_to_all": lambda lax, v, n, **k: lax.all_to_all(v, n, 0, 0, **k),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_groups_under_vmap(name):
    x = np.ones((4, 2), np.float32)

    def program(lib):
        def f(v):
            return COLLECTIVES[name](lib.lax, v, "i", axis_index_groups=GROUPS)

        return lib.vmap(f, axis_name="i")(x).shape[0]

    differ(program, "NotImplementedError", "4")


def test_psum_with_groups_under_check_vma():
    def program(lib):
        f = each(lib, lambda v: lib.lax.psum(v, "i", axis_index_groups=GROUPS))
        return np.asarray(f(np.arange(4)))

    differ(program, "NotImplementedError", "[1 1 5 5]")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_mapped_name_and_a_mesh_axis_together(name):
    x = np.ones((2, 2, 4), np.float32)

    def program(lib):
        def f(v):
            return COLLECTIVES[name](lib.lax, v, ("i", "j"))

        return each(lib, lib.vmap(f, axis_name="j"), 2)(x).shape[:2]

    found = outcome(program, jax)
    assert found.startswith(("AssertionError", "ValueError"))
    assert outcome(program, minijax) == "(2, 2)"


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_mapped_name_inside_shard_map(name):
    x = np.ones((2, 4, 4), np.float32)

    def program(lib):
        def f(v):
            return COLLECTIVES[name](lib.lax, v, "j")

        return each(lib, lib.vmap(f, axis_name="j"), 2)(x).shape[:2]

    differ(program, "AssertionError", "(2, 4)")


@pytest.mark.parametrize("name", ["all_gather", "psum_scatter"])
def test_a_list_of_names(name):
    def program(lib):
        f = lib.vmap(lambda v: COLLECTIVES[name](lib.lax, v, ["i"]), axis_name="i")
        return f(SQUARE).shape[0]

    differ(program, "TypeError: unhashable type: 'list'", "4")


def test_no_names():
    x = np.ones((1, 3), np.float32)

    def gathered(lib):
        f = lib.vmap(lambda v: lib.lax.all_gather(v, ()), axis_name="i")
        return f(x).shape

    def scattered(lib):
        f = lib.vmap(lambda v: lib.lax.psum_scatter(v, ()), axis_name="i")
        return f(x[..., None, :1][:, :1]).shape

    def exchanged(lib):
        return lib.lax.all_to_all(x, (), 0, 0).shape

    differ(gathered, "(1, 3)", "(1, 1, 3)")
    differ(scattered, "(1, 1, 1)", "(1, 1)")
    differ(exchanged, "RuntimeError: all_to_all must be used within", "(1, 3)")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_name_twice(name):
    def program(lib):
        def f(v):
            return COLLECTIVES[name](lib.lax, v, ("i", "i"))

        return lib.vmap(f, axis_name="i")(np.ones((2, 4), np.float32))

    assert re.match("[A-Z][A-Za-z]+Error", outcome(program, jax))
    assert "names 'i' more than once" not in outcome(program, jax)
    assert "names 'i' more than once" in outcome(program, minijax)


@pytest.mark.parametrize("name", ["all_gather", "all_to_all"])
@pytest.mark.parametrize("groups", [[[0, 1], [2]], [[0, 1]]])
def test_groups_are_checked_while_tracing(name, groups):
    def program(lib):
        def f(v):
            return COLLECTIVES[name](lib.lax, v, "i", axis_index_groups=groups)

        return lib.make_jaxpr(f, axis_env=[("i", 4)])(np.ones(2))

    differ(program, "{ lambda", "ValueError: axis_index_groups must cover all")


def test_groups_of_unequal_size_are_refused_while_tracing():
    def program(lib):
        def f(v):
            groups = [[0], [1, 2, 3]]
            return lib.lax.all_to_all(v, "i", 0, 0, axis_index_groups=groups)

        return lib.make_jaxpr(f, axis_env=[("i", 4)])(np.ones(1))

    differ(program, "{ lambda", "ValueError: Replica groups must be equally sized")


def test_a_partial_ppermute_under_vmap():
    def program(lib):
        f = lib.vmap(lambda v: lib.lax.ppermute(v, "i", [(0, 1)]), axis_name="i")
        return f(np.array([7, 8, 9]))

    differ(program, "AssertionError: Permutation doesn't match", "[0 7 0]")


def test_pbroadcast_on_a_cpu():
    def program(lib):
        return each(lib, lambda v: lib.lax.pbroadcast(v, "i", 2))(np.arange(4))

    differ(program, "NotImplementedError: MLIR translation rule", "[2 2 2 2]")


def test_numpy_integers_stay_out_of_programs():
    def program(lib):
        def f(v):
            return lib.lax.ppermute(v, "i", [(np.int64(0), np.int64(1))])

        return "np.int64" in str(lib.make_jaxpr(f, axis_env=[("i", 4)])(1.0))

    differ(program, "True", "False")


# ------------------------------------------------------------------------- tokens


def _branches(lib):
    return [lambda t, x: (lib.lax.after_all(t), x), lambda t, x: (t, x)]


TOKENS = {
    "cond": lambda lib: lib.lax.cond(
        True, *_branches(lib), lib.lax.create_token(), 1.0
    )[1],
    "switch": lambda lib: lib.lax.switch(
        1, _branches(lib), lib.lax.create_token(), 1.0
    )[1],
    "vmap": lambda lib: lib.vmap(lambda x: (lib.lax.create_token(), x))(np.ones(1))[1][
        0
    ],
    "jvp": lambda lib: lib.jvp(lambda x: (lib.lax.create_token(), x), (1.0,), (1.0,))[
        1
    ][1],
    "shard_map": lambda lib: lib.shard_map(
        lambda t, x: (lib.lax.after_all(t), x),
        mesh=make_mesh(lib, (1,), ("i",), "Auto"),
        in_specs=(P(lib), P(lib)),
        out_specs=(P(lib), P(lib)),
    )(lib.lax.create_token(), np.float32(1))[1],
}


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_pass(name):
    assert re.match("AttributeError|KeyError", outcome(TOKENS[name], jax))
    assert outcome(TOKENS[name], minijax) == "1.0"


# ----------------------------------------------------------- top_level_all_gather


def gather(lib: Any, value: Any, target: Any) -> Any:
    of = minijax if lib is minijax else upstream_shard_map
    mesh = make_mesh(lib, (2, 2, 2), ("x", "y", "z"), "Explicit")
    with lib.set_mesh(mesh):
        return lib.typeof(of.top_level_all_gather(value(lib), target(lib)))


def test_top_level_all_gather_is_public():
    assert not hasattr(jax, "top_level_all_gather")
    assert minijax.top_level_all_gather.__doc__


@pytest.mark.parametrize("left", [1, 2])
def test_top_level_all_gather_of_three_axes(left):
    names = ("x", "y", "z")

    def program(lib):
        target = P(lib, names[:left], reduced=set(names[left:]))
        value = lambda lib: lib.device_put(X, P(lib, names))  # noqa: E731
        return gather(lib, value, lambda _: target)

    differ(program, "ValueError", "float32[8@")


@pytest.mark.parametrize("put", [False, True])
def test_top_level_all_gather_of_an_array_off_the_mesh(put):
    def program(lib):
        def value(lib):
            return lib.device_put(X, lib.devices()[0]) if put else X

        return gather(lib, value, lambda lib: P(lib))

    ours = "ValueError: top_level_all_gather takes arrays that are sharded over"
    differ(program, "AssertionError: AbstractMesh", ours)


def test_top_level_all_gather_to_a_spec_that_is_too_long():
    def program(lib):
        value = lambda lib: lib.device_put(X, P(lib, "x"))  # noqa: E731
        return gather(lib, value, lambda lib: P(lib, None, None, None, reduced={"x"}))

    ours = "ValueError: top_level_all_gather out_sharding P(None, None, None"
    differ(program, "ValueError: safe_zip()", ours)


# ---------------------------------------------------------------------- shard_map


def test_the_replication_error_names_the_function():
    def rows(v):
        return v

    def program(lib):
        mesh = make_mesh(lib, (4,), ("i",), "Auto")
        f = lib.shard_map(rows, mesh=mesh, in_specs=P(lib, "i"), out_specs=P(lib))
        return f(np.ones(4))

    start = "ValueError: shard_map applied to the function '{}' was given out_specs"
    differ(program, start.format("_rem_singleton"), start.format("rows"))


def test_nothing_is_printed():
    def program(lib):
        f = lib.shard_map(
            lambda v: v,
            mesh=make_mesh(lib, (4,), ("i",), "Auto"),
            in_specs=P(lib, unreduced={"i"}),
            out_specs=P(lib, "i"),
        )
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(ValueError):
            f(np.ones(4))
        return f"printed: {out.getvalue()}"

    assert outcome(program, jax) != "printed: "
    assert outcome(program, minijax) == "printed: "


def test_sets_in_messages_are_sorted():
    names = {"z", "y", "x", "w", "v"}
    assert show_frozenset(names) == "frozenset({'v', 'w', 'x', 'y', 'z'})"


# -------------------------------------------------------------- numbers and arrays


def test_reshape_to_another_size_is_refused_when_traced():
    def program(lib):
        return lib.make_jaxpr(lambda v: lib.lax.reshape(v, (5,)))(np.ones(4))

    differ(program, "{ lambda", "ValueError: cannot reshape array of size 4 into")


def test_rng_uniform_under_vmap():
    def program(lib):
        f = lib.vmap(lambda a: lib.lax.rng_uniform(a, 2.0, (2,)))
        return f(np.zeros(3, np.float32)).shape

    differ(program, "NotImplementedError: Batching rule for", "(3, 2)")


def test_transposing_trees_without_leaves():
    def program(lib):
        outer, inner = lib.tree.structure(()), lib.tree.structure([0, 0])
        return lib.tree.transpose(outer, inner, ())

    differ(program, "ValueError: Too few leaves", "[(), ()]")


def test_inexact_dtype_of_small_integers():
    two_bits = np.dtype(ml_dtypes.int2)
    assert upstream_dtypes.to_inexact_dtype(two_bits) == two_bits
    assert dtypes.to_inexact_dtype(two_bits) == np.float32


def test_powers_of_reduced_values():
    def program(lib):
        mesh = make_mesh(lib, (4,), ("x",), "Explicit")
        with lib.set_mesh(mesh):
            x = lib.device_put(np.ones(4, np.float32), P(lib, reduced={"x"}))
            return lib.typeof(lib.lax.integer_pow(x, 3))

    differ(program, "NotImplementedError: unreduced/reduced rule", "float32[4]{R:x}")


def test_unreduced_arrays_can_be_read():
    def program(lib):
        mesh = make_mesh(lib, (4,), ("x",), "Explicit")
        with lib.set_mesh(mesh):
            x = lib.device_put(np.ones((2, 4), np.float32), P(lib, None, "x"))
            y = lib.device_put(np.ones((4, 2), np.float32), P(lib, "x"))
            out = P(lib, unreduced={"x"})
            total = lib.numpy.einsum("ij,jk->ik", x, y, out_sharding=out)
            return np.asarray(total)[0]

    differ(program, "JaxRuntimeError", "[4. 4.]")


def test_keys_are_arrays_of_two_words():
    def program(lib):
        key = lib.random.key(0)
        return key.dtype, key.shape

    differ(program, "(key<fry>, ())", "(dtype('uint32'), (2,))")


def test_captured_arrays_are_leading_arguments():
    captured = np.arange(3, dtype=np.float32)

    def program(lib):
        return lib.jit(lambda x: x + captured).trace(1.0).jaxpr

    assert outcome(program, jax).startswith("{ lambda a:f32[3]; b:f32[].")
    assert outcome(program, minijax).startswith("{ lambda ; a:f32[3] b:f32[].")


def test_relu_is_a_formula():
    def program(lib):
        nn = jax.nn if lib is jax else minijax.nn
        return "custom_jvp_call" in str(lib.make_jaxpr(nn.relu)(1.0))

    differ(program, "True", "False")


def test_some_jitted_numpy_functions_differ_inside():
    x = np.ones(3, np.float32)

    def program(lib):
        return lib.make_jaxpr(lambda v: lib.numpy.clip(v, 0, 1))(x)

    texts = [outcome(program, lib) for lib in (jax, minijax)]
    assert texts[0] != texts[1]
    assert [t.count("name=clip") for t in texts] == [1, 1]


def test_ragged_all_to_all_on_a_cpu():
    def program(lib):
        def f(operand, output, *sizes):
            return lib.lax.ragged_all_to_all(operand, output, *sizes, axis_name="i")

        mesh = make_mesh(lib, (4,), ("i",), "Auto")
        spec = P(lib, "i")
        f = lib.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        words = np.arange(16, dtype=np.float32)
        read_from = np.tile(np.arange(4, dtype=np.int32), 4)
        write_to = np.repeat(np.arange(4, dtype=np.int32), 4)
        ones = np.ones(16, np.int32)
        return lib.jit(f)(words, 0 * words, read_from, ones, write_to, ones)

    unable = "JaxRuntimeError: UNIMPLEMENTED: HLO opcode `ragged-all-to-all`"
    differ(program, unable, "[ 0.  4.  8. 12.  1.  5.  9. 13.")


# -------------------------------------------------------------------- the document


def test_every_row_names_a_test_that_exists():
    rows = (ROOT / "docs/differences.md").read_text("utf-8").splitlines()
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", r) for r in rows]
    is_row = [r.startswith("| ") and r[2:5] not in ("---", "pla") for r in rows]
    table = [n for n, is_one in zip(named, is_row, strict=True) if is_one]
    assert len(table) > 30
    assert all(table)
    for path, test in (pair for row in table for pair in row):
        assert f"def {test}(" in (ROOT / path).read_text("utf-8"), (path, test)


# ------------------------------------------------------------------ printed otherwise


def test_two_uses_of_a_value_add_up_in_another_order():
    def program(lib):
        printed = str(lib.make_jaxpr(lib.grad(lambda x: x * x))(1.0))
        return re.search(r"add_any \w \w", printed).group()

    differ(program, "add_any c b", "add_any b c")


def test_eager_shard_map_says_where_a_tracer_came_from():
    def program(lib):
        return each(lib, lambda v: v if v.sum() > 0 else -v)(np.arange(4.0))

    start = "TracerBoolConversionError: Attempted boolean conversion of traced array"
    differ(program, f"{start} with shape bool[]{{V:i}}.\nSee", start)
    assert "depends on the value of the argument v" in outcome(program, minijax)


def test_a_mapped_numpy_array_comes_back_as_an_array():
    def program(lib):
        exchange = lib.vmap(lambda v: lib.lax.all_to_all(v, "i", 0, 0), axis_name="i")
        return type(exchange(SQUARE)[0]).__name__

    differ(program, "ndarray", "Array")


def test_a_captured_token_is_an_argument():
    def program(lib):
        token = lib.lax.create_token()
        text = lib.jit(lambda: lib.lax.after_all(token)).lower().as_text()
        return "create_token" in text

    differ(program, "True", "False")


def test_tokens_are_donated_and_pass_through():
    token = minijax.lax.create_token()
    f = minijax.jit(lambda t, x: (t, x + 1), donate_argnums=(0, 1))
    again, x = f(token, minijax.numpy.ones(3))
    assert np.array_equal(x, [2, 2, 2])
    minijax.lax.after_all(again).block_until_ready()


def test_wrong_trees_of_out_specs_show_the_class_of_tracers():
    def program(lib):
        specs = (P(lib), P(lib))
        mesh = make_mesh(lib, (4,), ("i",), "Auto")
        f = lib.shard_map(lambda v: v, mesh=mesh, in_specs=P(lib), out_specs=specs)
        return f(np.arange(4))

    differ(program, "ValueError: pytree structure error", "ValueError: pytree struct")
    assert "minijax.core.staging.StagingTracer" in outcome(program, minijax)


def test_vjp_returns_a_function():
    def program(lib):
        return type(lib.vjp(lambda x: x * x, 3.0)[1]).__name__

    differ(program, "VJP", "function")


def _over_a_mapped_axis(function):
    """The type of `function(lib, row, scalar-like row)` mapped over a sharded axis."""

    def program(lib):
        with lib.set_mesh(make_mesh(lib, (4,), ("x",), "Explicit")):
            x = lib.device_put(np.ones((8, 8), np.float32), P(lib, "x"))
            y = lib.device_put(np.ones(8, np.float32), P(lib))
            mapped = lib.vmap(lambda a, b: function(lib, a, b), in_axes=(0, None))
            return lib.typeof(mapped(x, y))

    return program


def test_clamp_keeps_the_sharding_of_the_mapped_axis():
    program = _over_a_mapped_axis(lambda lib, a, b: lib.lax.clamp(a, b, a))
    differ(program, "float32[8,8]", "float32[8@x,8]")


def test_stack_repeats_what_is_not_mapped_with_the_mapped_sharding():
    program = _over_a_mapped_axis(lambda lib, a, b: lib.numpy.stack([a, b]))
    differ(program, "ShardingTypeError: All operands", "float32[8@x,2,8]")


def test_reduced_results_beside_an_auto_axis():
    def program(lib):
        kinds = (lib.sharding.AxisType.Explicit, lib.sharding.AxisType.Auto)
        with lib.set_mesh(lib.make_mesh((2, 4), ("x", "y"), axis_types=kinds)):
            zeros = lib.numpy.zeros((8, 8), out_sharding=P(lib, reduced={"x"}))
            return lib.typeof(zeros)

    differ(program, "float32[8,8]", "float32[8,8]{R:x}")


def test_gradient_of_a_product_over_an_axis_of_size_1():
    def program(lib):
        kinds = (lib.sharding.AxisType.Explicit,) * 2
        with lib.set_mesh(lib.make_mesh((1, 4), ("x", "y"), axis_types=kinds)):
            x = lib.device_put(np.ones((8, 8), np.float32), P(lib, "x"))
            return lib.typeof(lib.grad(lambda x: lib.numpy.prod(x, 1).sum())(x))

    differ(program, "ValueError: Expected cotangent type", "float32[8@x,8]")


def test_vmap_with_a_mesh_axis_inside_shard_map():
    def program(lib):
        kinds = (lib.sharding.AxisType.Explicit,) * 2
        seen = []

        def body(x):
            out = lib.vmap(lib.numpy.sin, spmd_axis_name="y")(x)
            seen.append(str(lib.typeof(out)))
            return out

        mesh = lib.make_mesh((2, 4), ("x", "y"), axis_types=kinds)
        with lib.set_mesh(mesh):
            x = lib.device_put(np.ones((16, 8), np.float32), P(lib, "x"))
            spec = P(lib, "x")
            lib.make_jaxpr(
                lib.shard_map(body, in_specs=spec, out_specs=spec, axis_names={"x"})
            )(x)
        return seen[0]

    differ(program, "ValueError: Axes mentioned in", "float32[8,8]{V:x}")


def test_constraint_to_unreduced_axes_says_what_does_not_match():
    def program(lib):
        with lib.set_mesh(make_mesh(lib, (4,), ("x",), "Explicit")):
            x = lib.device_put(np.ones((8, 8), np.float32), P(lib, "x"))
            return lib.lax.with_sharding_constraint(x, P(lib, unreduced={"x"}))

    ours = "AssertionError: `with_sharding_constraint` acts as an assert"
    differ(program, "ValueError: Using *pspec is dangerous", ours)
