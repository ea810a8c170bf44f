"""Meshes, specs and shardings against upstream: prints, messages, layouts."""

import copy
import pickle
import re
import threading

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minijax.core import mesh as mini


class Upstream:
    """Upstream's names, under the names that `minijax.core.mesh` has for them."""

    AbstractMesh = jax.sharding.AbstractMesh
    AxisType = jax.sharding.AxisType
    Mesh = jax.sharding.Mesh
    NamedSharding = jax.sharding.NamedSharding
    P = PartitionSpec = jax.sharding.PartitionSpec
    SingleDeviceSharding = jax.sharding.SingleDeviceSharding
    UnreducedKind = jax.sharding.PartitionSpec(unreduced={"x"}).unreduced_kind.__class__
    set_mesh = jax.set_mesh
    use_abstract_mesh = jax.sharding.use_abstract_mesh
    get_abstract_mesh = staticmethod(jax.sharding.get_abstract_mesh)
    get_concrete_mesh = staticmethod(jax.sharding.get_mesh)


def namespace(lib):
    """What the expressions below speak of."""
    devices = np.array(jax.devices()[:8])
    grid = devices.reshape(2, 4)
    explicit = (lib.AxisType.Explicit,) * 2
    return {
        "P": lib.P,
        "Mesh": lib.Mesh,
        "AbstractMesh": lib.AbstractMesh,
        "NamedSharding": lib.NamedSharding,
        "Single": lib.SingleDeviceSharding,
        "AxisType": lib.AxisType,
        "Kind": lib.UnreducedKind,
        "lib": lib,
        "np": np,
        "d": devices,
        "m": lib.Mesh(grid, ("x", "y")),
        "me": lib.Mesh(grid, ("x", "y"), explicit),
        "a": lib.AbstractMesh((2, 4), ("x", "y")),
    }


def outcome(lib, expression):
    """How an expression prints, or the exception that it raises."""
    try:
        value = eval(expression, namespace(lib))
    except Exception as error:
        # A class is shown with its module, which is not ours to share.
        return type(error).__name__, re.sub(r"<class '[\w.]+\.", "<class '", str(error))
    return repr(value), str(value)


SPECS = """
P()
P(None)
P('x', None)
P(('x',))
P(('x',), ('x', 'y'), ())
P(['x', 'y'])
P([['x'], 'y'])
P((('x',), 'y'))
P(3, 'x')
P('x', None, reduced={'y'})
P(('x', 'z'), reduced={'y'})
P(('x', 'z'), 'w', reduced={'y'})
P(reduced={'y'})
P('x', None, unreduced={'y'})
P(unreduced={'y'}, unreduced_kind=Kind.max)
P('x', None, unreduced={'y'}, reduced={'z'})
P('x', unreduced='y')
P('x', reduced=('y',))
P('x', unreduced={None})
P('x', reduced={None})
P('x', unreduced={'x'})
P(None, ('y', 'x'), reduced={'x'})
P(unreduced={'x'}, reduced={'x'})
P(unreduced_kind=Kind.sum)
P(unreduced={'x'}, unreduced_kind='sum').unreduced
P(P.UNCONSTRAINED, 'y')
P(('x', P.UNCONSTRAINED), 'y')
P('x') == ('x',), P('x') == P(('x',)), P('x') == P('x', None)
P('x', 'y')[0], P('x', 'y')[-1:], list(P('x')), len(P('x', reduced={'y'}))
P('x', ('y',)).index(('y',)), P('x', 'x').count(('x',))
P('x', reduced={'y'})[0]
list(P('x', unreduced={'y'}))
P('x') + P('y'), P('x') + ('y',), ('y',) + P('x')
(P(reduced={'x'}) + P('y', reduced={'z'})).reduced == {'x', 'z'}
P(unreduced={'x'}) + P('y')
P(unreduced={'x'}) + ('y',)
('y',) + P(reduced={'x'})
P('x').update(unreduced={'y'}), P('x', reduced={'y'}).update(partitions=(None, 'z'))
setattr(P('x'), 'reduced', 1)
"""

MESHES = """
m
me
a
me.abstract_mesh
m.abstract_mesh
m.abstract_mesh == Mesh(m.devices[::-1], ('x', 'y')).abstract_mesh
me.abstract_mesh.update_axis_types({'y': AxisType.Auto})
a.update_axis_types({'x': AxisType.Manual})
a.manual_axes, a.auto_axes, a.explicit_axes
a.shape, a.shape_tuple, a.size, a.axis_sizes, a.axis_names, a.axis_types, a.empty
m.shape, m.shape_tuple, m.size, m.axis_sizes, m.axis_names, m.axis_types, m.empty
m.devices, m.device_ids, m.local_devices, m.is_multi_process
AbstractMesh((), ()), AbstractMesh((), ()).size, AbstractMesh((), ()).empty
AbstractMesh((2,), ('x',), 'Auto')
AbstractMesh((2, 4), ('x', 'y'), AxisType.Auto)
AbstractMesh((2,), ('x',), AxisType.Auto)
a.devices
a.device_ids
a.update(axis_sizes=(4, 4)), me.abstract_mesh.update(axis_sizes=(4, 4))
m.update(axis_names=('a', 'b'))
Mesh(d, ('x', 'y'))
Mesh(d, [None])
Mesh(d, 'x', (AxisType.Auto,) * 2)
Mesh(d, 'x', ('Auto',))
Mesh(list(d), 'x'), Mesh(list(d), 'x').devices
Mesh([], 'x')
Mesh(np.empty((), object), ())
Mesh(np.empty((), object), ()).abstract_mesh
Mesh(d[:1].reshape(()), ())
Mesh(d[:1].reshape(()), ()).abstract_mesh
Mesh(d, 'x') is Mesh(d, 'x'), Mesh(d, 'x') == Mesh(d[::-1], 'x')
AxisType.Auto, (AxisType.Explicit, AxisType.Manual)
a.are_all_axes_explicit, m.are_all_axes_auto, a.are_all_axes_manual
AbstractMesh((), ()).are_all_axes_auto
setattr(m, 'size', 1)
setattr(a, 'size', 1)
"""

SHARDINGS = """
NamedSharding(m, P('x'))
NamedSharding(me, P('x', None, reduced={'y'}))
NamedSharding(a, P('x'))
NamedSharding(me.abstract_mesh, P('x'))
NamedSharding(m, P(), memory_kind='unpinned_host')
NamedSharding(m, P()).memory_kind, NamedSharding(a, P()).memory_kind
NamedSharding(m, P(), memory_kind='foo')
Single(d[0], memory_kind='foo')
NamedSharding(m, P('q'))
NamedSharding(m, P('x', 'x'))
NamedSharding(m, P(('x', 'x')))
NamedSharding(m, P('y', 'x', 'y', 'x'))
NamedSharding(m, P(P.UNCONSTRAINED))
NamedSharding(me, P(P.UNCONSTRAINED, 'y'))
NamedSharding(m, P(('x', P.UNCONSTRAINED)))
NamedSharding(me, P(reduced={'q'}))
NamedSharding(me, P(unreduced={'q'}))
NamedSharding(m, P(unreduced={'x'}))
NamedSharding(m, P(reduced={'x'}))
NamedSharding(m.abstract_mesh, P(reduced={'x'}))
NamedSharding(AbstractMesh((), ()), P(None))
NamedSharding(AbstractMesh((), ()), P('x'))
NamedSharding(m, P('x')).shard_shape((3, 4))
NamedSharding(m, P(None, 'x', 'y')).shard_shape((4, 4, 3))
NamedSharding(m, P('x', 'y')).check_compatible_aval((4,))
NamedSharding(m, P('x')).check_compatible_aval(())
NamedSharding(me, P('x', unreduced={'y'})).shard_shape((4, 4))
NamedSharding(me, P(unreduced={'y', 'x'})).shard_shape((4, 4))
NamedSharding(m, P(P.UNCONSTRAINED)).shard_shape((4, 4))
NamedSharding(a, P('x')).shard_shape((4, 4))
NamedSharding(m, P()).devices_indices_map(())
NamedSharding(m, P(('y', 'x'), None)).devices_indices_map((8, 4))
NamedSharding(me, P('x', reduced={'y'})).devices_indices_map((4, 4))
NamedSharding(m, P('x')).is_fully_replicated, NamedSharding(m, P()).is_fully_replicated
NamedSharding(me, P(unreduced={'y'})).is_fully_replicated
NamedSharding(me, P(reduced={'y'})).is_fully_replicated
NamedSharding(m, P('x')).num_devices, NamedSharding(a, P('x')).num_devices
sorted(map(str, NamedSharding(m, P('x')).device_set))
sorted(map(str, NamedSharding(m, P('x')).addressable_devices))
NamedSharding(m, P('x')).is_fully_addressable
NamedSharding(me, P('x', reduced={'y'})).replicated_axes
NamedSharding(a, P('x')).device_set
NamedSharding(a, P('x')).addressable_devices
NamedSharding(a, P('x')).is_fully_addressable
NamedSharding(a, P('x')).devices_indices_map((4, 4))
NamedSharding(m, P('x')).update(spec=('y',))
NamedSharding(m, P('x')).with_memory_kind('pinned_host')
NamedSharding(m, P('x')) == NamedSharding(m, P('x', None))
Single(d[1]), Single(d[1]).shard_shape((4, 4)), Single(d[1]).devices_indices_map((4, 4))
Single(d[1]).device_set, Single(d[1]).is_fully_replicated, Single(d[1]).num_devices
lib.use_abstract_mesh(m)
lib.set_mesh(a)
lib.set_mesh('a')
lib.set_mesh(Mesh(d, 'x', (AxisType.Manual,)))
lib.get_abstract_mesh(), lib.get_concrete_mesh()
"""


@pytest.mark.parametrize(
    "expression",
    [line for part in (SPECS, MESHES, SHARDINGS) for line in part.strip().split("\n")],
)
def test_prints_and_raises_as_upstream(expression):
    kind, text = outcome(mini, expression)
    expected = outcome(Upstream, expression)
    if kind.endswith("Error"):  # a message may go on after upstream's
        text = text[: len(expected[1])]
    assert (kind, text) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Upstream raises, or loses an axis; see the docstrings.
        ("Mesh(d.reshape(2, 4), ('x', 'x'))", "ValueError"),
        ("AbstractMesh((2,), ('x', 'y'))", "ValueError"),
        ("Mesh(np.arange(2), ('x',))", "TypeError"),
        ("NamedSharding(m, 'x')", "TypeError"),
        ("NamedSharding(m, None)", "TypeError"),
        ("NamedSharding('m', P())", "TypeError"),
        ("NamedSharding(m, P('x', 'y')).shard_shape((4,))", "ValueError"),
        ("P('x', unreduced={'y'}).update(unreduced=set())", "P('x',)"),
        ("AbstractMesh([2], ['x'])", "AbstractMesh('x': 2, axis_types=(Explicit,))"),
        (
            "list(NamedSharding(me, P('x', unreduced={'y'}))"
            ".devices_indices_map((4,)).values())[4]",
            "(slice(2, 4, None),)",
        ),
    ],
)
def test_is_right_where_upstream_is_not(expression, expected):
    assert outcome(mini, expression)[0] == expected


# --- laws ----------------------------------------------------------------------------

NAMES = ("x", "y", "z")


@st.composite
def meshes(draw):
    """(sizes, names, order of the devices) of a mesh of at most 8 devices."""
    sizes = draw(st.sampled_from([(8,), (2, 4), (4, 2), (2, 2, 2), (1, 4, 2), (1,)]))
    names = draw(st.permutations(NAMES))[: len(sizes)]
    order = draw(st.sampled_from(["as is", "reversed"]))
    return sizes, tuple(names), order


@st.composite
def layouts(draw):
    """A mesh, spec entries and an unreduced set that fit it."""
    sizes, names, order = draw(meshes())
    shuffled = draw(st.permutations(names))
    owners = [draw(st.sampled_from([0, 1, None, "unreduced"])) for _ in shuffled]
    entries = tuple(
        tuple(n for n, o in zip(shuffled, owners, strict=True) if o == dim)
        for dim in range(draw(st.integers(0, 2)))
    )
    unreduced = {n for n, o in zip(shuffled, owners, strict=True) if o == "unreduced"}
    return sizes, names, order, entries, unreduced


def build(lib, layout):
    sizes, names, order, entries, unreduced = layout
    devices = jax.devices()[: np.prod(sizes)][:: -1 if order == "reversed" else 1]
    grid = np.array(devices).reshape(sizes)
    mesh = lib.Mesh(grid, names, (lib.AxisType.Explicit,) * len(names))
    return lib.NamedSharding(mesh, lib.P(*entries, unreduced=unreduced))


@given(layouts())
def test_shards_lie_where_upstream_puts_them(layout):
    ours, theirs = build(mini, layout), build(Upstream, layout)
    assert repr(ours) == repr(theirs) or len(layout[4]) > 1
    assert ours.shard_shape((8, 16)) == theirs.shard_shape((8, 16))
    assert ours.is_fully_replicated == theirs.is_fully_replicated
    if not theirs.spec.unreduced or all(
        theirs.mesh.shape[n] == 1 for n in theirs.spec.unreduced
    ):
        shape = (8, 16)
        assert ours.devices_indices_map(shape) == theirs.devices_indices_map(shape)


@given(layouts(), layouts())
def test_equivalence_is_upstreams(first, second):
    ours = build(mini, first).is_equivalent_to(build(mini, second), 2)
    theirs = build(Upstream, first).is_equivalent_to(build(Upstream, second), 2)
    assert ours == theirs


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("NamedSharding(m, P('x'))", "NamedSharding(me, P('x', None))"),
        ("NamedSharding(m, P(('x', 'y')))", "NamedSharding(Mesh(d, 'a'), P('a'))"),
        ("NamedSharding(m, P(('y', 'x')))", "NamedSharding(Mesh(d, 'a'), P('a'))"),
        ("NamedSharding(me, P(reduced={'x'}))", "NamedSharding(me, P())"),
        ("NamedSharding(me, P(unreduced={'x'}))", "NamedSharding(me, P())"),
        ("NamedSharding(a, P('x'))", "NamedSharding(m, P('x'))"),
        ("NamedSharding(a, P('x'))", "NamedSharding(m.abstract_mesh, P('x'))"),
        ("Single(d[0])", "NamedSharding(Mesh(d[:1], 'x'), P('x'))"),
        ("Single(d[0])", "Single(d[1])"),
    ],
)
def test_equivalent_as_upstream(left, right):
    def ask(lib):
        one, two = (eval(text, namespace(lib)) for text in (left, right))
        return one.is_equivalent_to(two, 2), two.is_equivalent_to(one, 2)

    assert ask(mini) == ask(Upstream)


@given(meshes(), st.data())
def test_replica_groups_are_blocks_of_the_mesh(mesh, data):
    sizes, names, _ = mesh
    chosen = data.draw(st.permutations(names))[: data.draw(st.integers(0, len(names)))]
    ours = mini.AbstractMesh(sizes, names)
    groups = mini.replica_groups(ours, tuple(chosen))
    assert sorted(sum(groups, ())) == list(range(ours.size))
    for group in groups:
        stands = [
            dict(zip(names, np.unravel_index(i, sizes), strict=True)) for i in group
        ]
        for axis in set(names) - set(chosen):
            assert len({where[axis] for where in stands}) == 1
        ranks = [tuple(where[axis] for axis in chosen) for where in stands]
        assert ranks == sorted(ranks)  # row-major in the order given


# --- identity ------------------------------------------------------------------------


def test_copies_and_pickles_are_the_same_object():
    mesh = mini.AbstractMesh((2,), ("x",))
    spec = mini.P("x", mini.P.UNCONSTRAINED, unreduced={"y"})
    sharding = mini.NamedSharding(mesh, mini.P("x"))
    for value in (mesh, spec, sharding):
        assert pickle.loads(pickle.dumps(value)) is value
        assert copy.copy(value) is value
        assert copy.deepcopy([value])[0] is value


def test_threads_agree_on_one_object():
    seen = []
    start = threading.Barrier(8)

    def make():
        start.wait()
        seen.append(mini.P("of", "many", "threads"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(map(id, seen))) == 1


def test_the_users_array_is_left_alone():
    devices = np.array(jax.devices()[:2])
    mesh = mini.Mesh(devices, "x")
    devices[0] = devices[1]
    assert mesh.device_ids.tolist() == [0, 1]
    assert not mesh.devices.flags.writeable


# --- the context mesh ----------------------------------------------------------------


def context_story(lib):
    """What the context mesh is at each step."""
    told = []
    names = namespace(lib)

    def tell():
        told.append(f"{lib.get_abstract_mesh()} {lib.get_concrete_mesh()}")

    with lib.set_mesh(names["m"]):
        tell()
        with lib.set_mesh(lib.Mesh(names["d"][:4], "z")):
            tell()
        tell()
        try:
            with lib.use_abstract_mesh(lib.AbstractMesh((4,), ("x",))):
                tell()
        except ValueError as error:
            told.append(str(error))
        with lib.use_abstract_mesh(lib.AbstractMesh((8,), ("x",))):
            tell()
        with lib.use_abstract_mesh(lib.AbstractMesh((), ())):
            tell()
        with lib.set_mesh(None):
            tell()
    tell()
    setter = lib.set_mesh(names["me"])  # as a plain call
    tell()
    with setter:
        tell()
    tell()
    try:
        with lib.set_mesh(names["m"]):
            raise KeyError
    except KeyError:
        tell()
    return told


def test_context_mesh_changes_as_upstream():
    assert context_story(mini) == context_story(Upstream)


def test_another_thread_has_no_mesh():
    seen = []
    with mini.set_mesh(namespace(mini)["m"]):
        thread = threading.Thread(target=lambda: seen.append(mini.get_abstract_mesh()))
        thread.start()
        thread.join()
    assert seen == [mini.EMPTY_ABSTRACT_MESH]


def test_with_mesh_is_not_the_context_mesh():
    mesh = namespace(mini)["m"]
    with pytest.warns(DeprecationWarning, match="has been deprecated"):
        mesh.__enter__()
    assert mini.get_entered_mesh() is mesh
    assert mini.get_abstract_mesh().empty
    mesh.__exit__()
    assert mini.get_entered_mesh() is mini.EMPTY_MESH


def test_use_concrete_mesh_changes_the_devices_only():
    mesh = namespace(mini)["m"]
    with mini.use_concrete_mesh(mesh):
        assert mini.get_concrete_mesh() is mesh
        assert mini.get_abstract_mesh().empty
    assert mini.get_concrete_mesh() is mini.EMPTY_MESH
