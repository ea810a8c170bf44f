"""Each collective: right on every device, with the factors of nccl-tests."""

import dataclasses

import numpy as np
import pytest
from minijax_bench import operations, proof, run, trial
from minijax_bench.errors import BadInput
from minijax_bench.measure import Budget
from minijax_bench.operations import OPERATIONS, Setting

import minijax
from minijax import lax
from minijax.sharding import AxisType, NamedSharding, PartitionSpec

QUICK = run.Options(budget=Budget(2, 0, 1.0), rounds=1, chain=(1, 2))


def make_mesh(*shape):
    explicit = (AxisType.Explicit,) * len(shape)
    return minijax.make_mesh(shape, tuple("xy"[: len(shape)]), axis_types=explicit)


def setting(shape=(8,), axes=("x",), dtype="float32", **others):
    return Setting(make_mesh(*shape), axes, np.dtype(dtype), **others)


def check(op, s, size=4096):
    count = trial.count_for(op, s, size)
    parts = trial.inputs(op, s, count)
    with minijax.set_mesh(s.mesh):
        y = minijax.jit(trial.program(op, s))(trial.place(parts, s))
    return trial.wrong(op, s, y, trial.expected(op, s, parts))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("psum", 14 / 8), ("all_gather", 7 / 8), ("psum_scatter", 7 / 8),
     ("all_to_all", 7 / 8), ("ppermute", 1), ("top_level_all_gather", 7 / 8)],
)  # fmt: skip
def test_the_factors_are_those_of_nccl_tests(name, factor):
    assert OPERATIONS[name].factor(8) == factor


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_ragged_factor_is_the_share_that_leaves(n):
    table = operations.sends(n, 4 * n)
    leaves = [row.sum() - row[i] for i, row in enumerate(table)]
    assert {row.sum() for row in table} == {4 * n}
    assert {column.sum() for column in table.T} == {4 * n}
    assert leaves == [OPERATIONS["ragged_all_to_all"].factor(n) * 4 * n] * n


WHERE = [((8,), ("x",)), ((2, 4), ("x",)), ((2, 4), ("y",)), ((2, 4), ("x", "y"))]


@pytest.mark.parametrize(
    ("name", "shape", "axes"),
    [
        (name, *where)
        for name in OPERATIONS
        for where in WHERE
        if name != "ragged_all_to_all" or len(where[1]) == 1
    ],
)
def test_each_is_right_over_every_choice_of_axes(name, shape, axes):
    assert check(OPERATIONS[name], setting(shape, axes)) == (0, "")


@pytest.mark.parametrize("name", ["psum", "all_gather", "psum_scatter", "all_to_all"])
def test_each_is_right_in_groups(name):
    s = setting(groups=((0, 3, 5, 6), (1, 2, 4, 7)))
    assert s.ranks == 4
    assert check(OPERATIONS[name], s) == (0, "")


@pytest.mark.parametrize("name", ["all_gather", "psum_scatter", "all_to_all"])
@pytest.mark.parametrize("layout", ["matrix", "stacked"])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_each_is_right_in_every_layout(name, layout, axes):
    s = setting(layout=layout, split=axes[0], concat=axes[1])
    assert check(OPERATIONS[name], s) == (0, "")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint8", "complex64"])
@pytest.mark.parametrize("name", ["psum", "psum_scatter", "all_to_all"])
def test_sums_of_the_data_are_exact_in_every_type(name, dtype):
    assert check(OPERATIONS[name], setting(dtype=dtype)) == (0, "")


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_other_reductions(reduce):
    assert check(OPERATIONS["psum"], setting(reduce=reduce)) == (0, "")


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_data_depends_on_place_and_position(name):
    s = setting()
    parts = trial.inputs(OPERATIONS[name], s, 4096)
    for axis in (0, 1):
        assert np.mean(parts == np.roll(parts, 1, axis)) < 0.05


WRONG = {
    "psum": lambda x, s: lax.pmax(x, "x"),
    "all_gather": lambda x, s: lax.all_gather(lax.ppermute(
        x, "x", [(i, (i + 1) % 8) for i in range(8)]), "x", tiled=True),
    "psum_scatter": lambda x, s: lax.psum_scatter(x[::-1], "x", tiled=True),
    "all_to_all": lambda x, s: x,
    "ppermute": lambda x, s: lax.ppermute(
        x, "x", [(i, (i - 1) % 8) for i in range(8)]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_operation_is_caught_and_fails(name):
    op = dataclasses.replace(OPERATIONS[name], apply=WRONG[name])
    s = setting()
    with minijax.set_mesh(s.mesh):
        row = run.Runner(dataclasses.replace(QUICK, chain=())).row(op, s, 4096)
    if name == "all_to_all":  # nothing is sent, which the HLO tells as well
        assert "eliminated" in row.flags
        assert row.error
    assert row.fresh.wrong > 0
    assert row.failed


def test_one_wrong_element_on_one_device_is_counted():
    op, s = OPERATIONS["all_to_all"], setting()
    count = trial.count_for(op, s, 1024)
    parts = trial.inputs(op, s, count)
    right = trial.expected(op, s, parts)
    y = np.stack(right)
    y[5, 3] += 1
    assert trial.wrong(op, s, trial.place(y, s), right) == (1, "")


def test_a_layout_that_was_not_asked_for_is_told():
    op, s = OPERATIONS["ppermute"], setting()
    parts = trial.inputs(op, s, 64)
    with minijax.set_mesh(s.mesh):
        nowhere = NamedSharding(s.mesh, PartitionSpec())
        everywhere = minijax.device_put(parts.reshape(-1), nowhere)
    bad, said = trial.wrong(op, s, everywhere, trial.expected(op, s, parts))
    assert bad == parts.size
    assert "lies as" in said


def test_a_group_of_one_is_flagged_as_eliminated_and_does_not_fail():
    s = setting((8, 1), ("y",))
    with minijax.set_mesh(s.mesh):
        row = run.Runner(QUICK).row(OPERATIONS["all_to_all"], s, 1024)
    assert row.ranks == 1
    assert row.flags == ["one rank: nothing is exchanged", "eliminated"]
    assert row.hlo["found"] == 0
    assert not row.failed


@pytest.mark.parametrize("name", [n for n in OPERATIONS if OPERATIONS[n].again])
def test_every_link_of_a_chain_survives(name):
    op, s = OPERATIONS[name], setting()
    x = trial.place(trial.inputs(op, s, 1024), s)
    text = minijax.jit(trial.chain(op, s, 3)).lower(x).compile().as_text()
    found = proof.prove(text, op.hlo, 3)
    assert found.found == 3 or found.kinds == {"all-gather": 12}  # ragged, on a CPU


def test_a_row_has_what_it_says_it_has():
    s = setting()
    runner = run.Runner(QUICK)
    with minijax.set_mesh(s.mesh):
        row = runner.row(OPERATIONS["ppermute"], s, 4000)
    assert (row.size, row.count, row.ranks) == (4000, 1000, 8)
    assert len(row.fresh.samples) == len(row.in_place.samples) == 2
    assert row.fresh.wrong == row.in_place.wrong == 0
    assert set(row.slope["samples"]) == {"1", "2"}
    assert "collective-permute" in runner.hlo[row.hlo["hash"]]
    assert min(row.trace, row.lower, row.compile) > 0
    assert not row.failed


def test_a_row_above_the_memory_cap_is_skipped():
    s = setting()
    options = dataclasses.replace(QUICK, memory=10_000)
    row = run.Runner(options).row(OPERATIONS["psum"], s, 4096)
    assert "memory cap" in row.skipped
    assert row.fresh is None
    assert not row.failed


def test_what_stands_in_for_a_collective_is_told():
    op, s = OPERATIONS["ragged_all_to_all"], setting()
    with minijax.set_mesh(s.mesh):
        row = run.Runner(QUICK).row(op, s, 4096)
    assert row.error == ""
    assert row.fresh.wrong == 0
    assert row.flags == ["carried out by all-gather"]


@pytest.mark.parametrize(
    ("name", "others", "what"),
    [
        ("psum", {"dtype": "bool"}, "psum cannot take the sum of bool"),
        ("psum", {"dtype": "complex64", "reduce": "max"}, "max of complex64"),
        ("psum_scatter", {"reduce": "min"}, "the sum only"),
        ("ppermute", {"groups": ((0, 1, 2, 3), (4, 5, 6, 7))}, "no axis_index_groups"),
        ("top_level_all_gather", {"layout": "matrix"}, "layout flat only"),
        ("all_to_all", {"split": 1}, "one axis"),
        ("all_to_all", {"split": 2, "layout": "matrix"}, "0 or 1"),
    ],
)
def test_what_a_collective_cannot_take(name, others, what):
    with pytest.raises(BadInput, match=what):
        trial.check(OPERATIONS[name], setting(**others))


def test_a_size_below_the_least_says_how_much_is_needed():
    with pytest.raises(
        BadInput, match="below the 32 that all_to_all of float32 over 8"
    ):
        trial.count_for(OPERATIONS["all_to_all"], setting(), 31)


def test_cold_buffers_are_as_many_as_asked_for():
    s = setting()
    options = dataclasses.replace(QUICK, cold=100_000)
    with minijax.set_mesh(s.mesh):
        x = trial.place(trial.inputs(OPERATIONS["psum"], s, 1024), s)
        copy = run._compile(run._identity(s, x), x, options.clock)
        feed = run.Runner(options)._feed(copy, x)
        seen = {id(feed()) for _ in range(20)}
    assert len(seen) == -(-100_000 // (4096 * 8))


def test_a_copy_is_a_copy():
    s = setting()
    x = trial.place(trial.inputs(OPERATIONS["psum"], s, 1024), s)
    copy = run._compile(run._identity(s, x), x, QUICK.clock)
    assert " copy(" in copy.text


def test_the_proof_counts_pairs_once_and_no_other_collective():
    text = (
        "%a = f32[8]{0} all-gather-start(%x)\n%b = f32[8] all-gather-done(%a)\n"
        "%c = (f32[8]{0}, f32[8]{0}) all-to-all(%b, %b)\n"
        '%d = f32[8] add(%b, %b), metadata={op_name="all-gather(x)"}\n'
    )
    assert proof.prove(text, ["all-gather"]).found == 1
    assert proof.prove(text, ["all-to-all"]).found == 1
    assert proof.prove(text, ["all-reduce"]).eliminated


def test_an_error_is_the_rows_and_not_the_end():
    def fails(x, s):
        raise RuntimeError("UNIMPLEMENTED: HLO opcode `all-reduce` is not supported")

    op = dataclasses.replace(OPERATIONS["psum"], apply=fails)
    s = setting()
    with minijax.set_mesh(s.mesh):
        row = run.Runner(QUICK).row(op, s, 4096)
    assert row.error == "XLA for cpu does not implement all-reduce"
    assert row.failed
