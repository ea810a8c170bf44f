"""`top_level_all_gather`: the value stays, the type remembers what was gathered."""

from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.core.trace import typeof
from minijax.sharding import AxisType, NamedSharding, reshard
from minijax.sharding import PartitionSpec as P

X = np.arange(64, dtype=np.float32).reshape(8, 8)


@pytest.fixture
def mesh() -> Any:
    explicit = (AxisType.Explicit,) * 3
    mesh = minijax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=explicit)
    with minijax.set_mesh(mesh):
        yield mesh


GATHERS = [
    (P("x", "y"), P(None, "y", reduced={"x"}), "float32[8,8@y]{R:x}"),
    (P("x", "y"), P("x", reduced={"y"}), "float32[8@x,8]{R:y}"),
    (P(("x", "y")), P("x", reduced={"y"}), "float32[8@x,8]{R:y}"),
    (P(("x", "y")), P(reduced={"x", "y"}), "float32[8,8]{R:(x,y)}"),
    (P(("x", "y", "z")), P("x", reduced={"y", "z"}), "float32[8@x,8]{R:(y,z)}"),
    (P(("x", "y", "z")), P(("x", "y"), reduced={"z"}), "float32[8@(x,y),8]{R:z}"),
    (P(None, ("z", "y")), P(None, "z", reduced={"y"}), "float32[8,8@z]{R:y}"),
    (P("x"), P("x"), "float32[8@x,8]"),
]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("before", "after", "printed"), GATHERS)
def test_values_stay_and_types_tell(
    mesh: Any, before: P, after: P, printed: str, jit: bool
) -> None:
    x = minijax.device_put(X, before)

    def gather(x: Any) -> Any:
        return minijax.top_level_all_gather(x, after)

    out = (minijax.jit(gather) if jit else gather)(x)
    assert str(typeof(out)) == printed
    np.testing.assert_array_equal(out, X)
    np.testing.assert_array_equal(out.addressable_shards[0].data, _part(X, after))


def _part(x: np.ndarray, spec: P) -> np.ndarray:
    for dim, entry in enumerate(spec.partitions):
        names = entry if isinstance(entry, tuple) else (entry,) if entry else ()
        x = np.split(x, 2 ** len(names), dim)[0]
    return x


@pytest.mark.parametrize(("before", "after", "printed"), GATHERS)
def test_cotangents_are_summed_and_scattered(
    mesh: Any, before: P, after: P, printed: str
) -> None:
    x = minijax.device_put(X, before)
    _, pull = minijax.vjp(lambda x: minijax.top_level_all_gather(x, after), x)
    spec = after.update(reduced=frozenset(), unreduced=after.reduced)
    ct = reshard(jnp.ones((8, 8), np.float32), spec)
    (back,) = pull(ct)
    assert typeof(back) == typeof(x)
    # The ones are unreduced: what is on one device counts, the others hold zeros.
    np.testing.assert_array_equal(back, np.ones_like(X))


def test_several_dimensions_must_be_asked_for(mesh: Any) -> None:
    x = minijax.device_put(X, P("x", "y"))
    target = P(reduced={"x", "y"})
    with pytest.raises(ValueError, match="multiple dimensions cannot be all_gathered"):
        minijax.top_level_all_gather(x, target)
    out = minijax.top_level_all_gather(x, target, multi_dim=True)
    assert str(typeof(out)) == "float32[8,8]{R:(x,y)}"
    np.testing.assert_array_equal(out, X)


def test_trees_and_prefixes(mesh: Any) -> None:
    x = minijax.device_put(X, P("x"))
    target = P(reduced={"x"})
    out = minijax.top_level_all_gather({"a": x, "b": (x, None)}, target)
    assert str(typeof(out["b"][0])) == "float32[8,8]{R:x}"
    pair = minijax.top_level_all_gather((x, x), (target, NamedSharding(mesh, P("x"))))
    assert [str(typeof(p)) for p in pair] == ["float32[8,8]{R:x}", "float32[8@x,8]"]
    assert minijax.top_level_all_gather((), target) == ()


def test_it_is_mapped(mesh: Any) -> None:
    x = minijax.device_put(np.stack([X, X + 1]), P(None, "x"))

    def gather(x: Any) -> Any:
        return minijax.top_level_all_gather(x, P(reduced={"x"}))

    out = minijax.vmap(gather)(x)
    assert str(typeof(out)) == "float32[2,8,8]{R:x}"
    np.testing.assert_array_equal(out, x)


def test_the_program_is_one_all_gather(mesh: Any) -> None:
    x = minijax.device_put(X, P("x", "y"))
    f = minijax.jit(
        lambda x: minijax.top_level_all_gather(x, P(None, "y", reduced={"x"}))
    )
    text = f.lower(x).as_text()
    assert text.count("stablehlo.all_gather") == 1
    jaxpr = str(minijax.make_jaxpr(f)(x))
    assert "all_gather_reduced[" in jaxpr
    assert "name=f_shmap" in jaxpr


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (P("y"), "so that it's a prefix of in_spec"),
        (P("x", "y"), "to be unsharded on dimension 1"),
        (P(), r"Write P\(None, None, reduced={'x'}\) as its out_sharding"),
        (P("x", None, None), "top_level_all_gather"),
        (P("q"), "is not found in mesh"),
        (None, "cannot be None"),
    ],
)
def test_wrong_targets(mesh: Any, target: Any, message: str) -> None:
    x = minijax.device_put(X, P("x"))
    with pytest.raises(ValueError, match=message):
        minijax.top_level_all_gather(x, target)


@pytest.mark.parametrize(
    ("before", "target", "wanted"),
    [
        (P("x"), P(), "P(None, None, reduced={'x'})"),
        (P("x"), P(unreduced={"x"}), "P(None, None, reduced={'x'})"),
        (P("x"), P(reduced={"y"}), "P(None, None, reduced={'x'})"),
        (P("x"), P("x", reduced={"y"}), "P('x', None)"),
        (P("x", reduced={"y"}), P("x"), "P('x', None, reduced={'y'})"),
        (P("x", reduced={"y"}), P(reduced={"x"}), "P(None, None, reduced={'x', 'y'})"),
        (P(("x", "y", "z")), P("x", reduced={"z"}), "P('x', None, reduced={'y', 'z'})"),
    ],
)
@pytest.mark.parametrize("how", ["eager", "jit", "vmap", "grad"])
def test_a_target_must_say_what_is_reduced(
    mesh: Any, before: P, target: P, wanted: str, how: str
) -> None:
    """After upstream's text it names the user's call, and shows the target to write."""

    def gather(x: Any) -> Any:
        return minijax.top_level_all_gather(x, target)

    f = {
        "eager": gather,
        "jit": minijax.jit(gather),
        "vmap": lambda x: minijax.vmap(gather, in_axes=2)(jnp.stack([x, x], 2)),
        "grad": minijax.grad(lambda x: jnp.sum(gather(x))),
    }[how]
    x = minijax.device_put(X, before)
    with pytest.raises(ValueError, match=r"shard_map") as e:
        f(x)
    text = str(e.value)
    assert "This is top_level_all_gather of float32" in text
    assert f"Write {wanted} as its out_sharding." in text


def test_other_kinds_of_target(mesh: Any) -> None:
    x = minijax.device_put(X, P("x"))
    with pytest.raises(TypeError, match="only supports instances of"):
        minijax.top_level_all_gather(x, "x")


def test_it_needs_a_mesh_of_explicit_axes() -> None:
    with pytest.raises(ValueError, match="works when all mesh axes"):
        minijax.top_level_all_gather(X, P())
    auto = minijax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    with minijax.set_mesh(auto), pytest.raises(ValueError, match="are explicit"):
        minijax.top_level_all_gather(X, P())


def test_second_derivatives(mesh: Any) -> None:
    x = minijax.device_put(X / 64, P("x"))

    def loss(gather: Any) -> Any:
        def of(x: Any) -> Any:
            return jnp.sum(jnp.sin(reshard(gather(x) * 2.0, P())) ** 3)

        return of

    def gather(x: Any) -> Any:
        return minijax.top_level_all_gather(x, P(reduced={"x"}))

    def curvature(f: Any) -> Any:
        return minijax.grad(lambda x: jnp.sum(minijax.grad(f)(x) ** 2))

    found = curvature(loss(gather))(x)
    expected = curvature(lambda x: jnp.sum(jnp.sin(x * 2.0) ** 3))(jnp.asarray(X / 64))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    _, forward = minijax.jvp(minijax.grad(loss(gather)), (x,), (x,))
    assert forward.sharding.spec == P("x", None)
