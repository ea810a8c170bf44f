"""Compiled programs: calls, shardings that the compiler chose, tokens, donation."""

import numpy as np
import pytest

from minijax.core.avals import abstract_token
from minijax.core.mesh import NamedSharding, P
from minijax.core.token import Token
from minijax.core.trace import shaped
from minijax.runtime.array import Array
from minijax.runtime.backend import devices, make_mesh
from minijax.runtime.execute import compile_module
from minijax.runtime.placement import device_put

F32 = np.dtype(np.float32)


def vector(size):
    return shaped((size,), F32)


def program(signature, body, mesh=""):
    return f"module @m {{ {mesh} func.func public @main{signature} {{ {body} }} }}"


def doubling(attributes=""):
    text = program(
        f"(%a: tensor<4xf32> {attributes}) -> tensor<4xf32>",
        "%0 = stablehlo.add %a, %a : tensor<4xf32> return %0 : tensor<4xf32>",
    )
    kinds = {"in_avals": [vector(4)], "out_avals": [vector(4)]}
    return compile_module(text, devices()[:1], **kinds)


ONES = np.ones(4, np.float32)


def test_arguments_of_every_kind_from_everywhere():
    double = doubling()
    mesh = make_mesh((4,), "x")
    for x in (
        ONES,
        device_put(ONES),
        device_put(ONES, devices()[3]),
        device_put(ONES, NamedSharding(mesh, P("x"))),
    ):
        (y,) = double.call([x])
        assert type(y) is Array
        assert y.tolist() == [2, 2, 2, 2]
        assert y.aval is vector(4)
        assert y.devices() == {devices()[0]}


def test_values_in_front_and_arguments_that_are_not_taken():
    text = program(
        "(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32>",
        "%0 = stablehlo.subtract %a, %b : tensor<4xf32> return %0 : tensor<4xf32>",
    )
    kinds = {"in_avals": [vector(4)] * 2, "out_avals": [vector(4)]}
    subtract = compile_module(text, devices()[:1], **kinds)
    x = device_put(ONES)
    two = device_put(2 * ONES, devices()[2])
    call = subtract.caller([x.kind, None], before=(two,), kept=(0, 1))
    assert call([x, "not looked at"])[0].tolist() == [1, 1, 1, 1]
    call = subtract.caller([None, x.kind], kept=(1, 0))
    assert call([3 * ONES, x])[0].tolist() == [-2, -2, -2, -2]
    call = subtract.caller([x.kind] * 2)
    assert call([x, x])[0].tolist() == [0, 0, 0, 0]


def test_wrong_number_of_arguments():
    with pytest.raises(TypeError, match="takes 1 arguments but was given 2"):
        doubling().call([ONES, ONES])


def test_committed_is_what_the_caller_says():
    text = program("() -> tensor<f32>", "%0 = stablehlo.constant dense<1.0> : "
                   "tensor<f32> return %0 : tensor<f32>")  # fmt: skip
    for committed in (True, False):
        one = compile_module(
            text,
            devices()[:1],
            in_avals=[],
            out_avals=[shaped((), F32, True)],
            committed=committed,
        )
        (x,) = one.call([])
        assert x.committed is committed
        assert repr(x) == "Array(1., dtype=float32, weak_type=True)"


PARTITIONED = program(
    '(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y","x"},{}]>}, '
    "%t: !stablehlo.token) -> (tensor<8x4xf32>, !stablehlo.token, "
    "tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})",
    "%0 = stablehlo.add %a, %a : tensor<8x4xf32> "
    "%1 = stablehlo.after_all %t : !stablehlo.token "
    "%2 = stablehlo.transpose %0, dims = [1, 0] : "
    "(tensor<8x4xf32>) -> tensor<4x8xf32> "
    "return %0, %1, %2 : tensor<8x4xf32>, !stablehlo.token, tensor<4x8xf32>",
    'sdy.mesh @mesh = <["x"=2,"y"=4]>',
)


def partitioned():
    mesh = make_mesh((2, 4), ("x", "y"))
    executable = compile_module(
        PARTITIONED,
        mesh.flat_devices,
        in_avals=[shaped((8, 4), F32), abstract_token],
        out_avals=[shaped((8, 4), F32), abstract_token, shaped((4, 8), F32)],
        mesh=mesh,
    )
    return mesh, executable


def new_token():
    text = program("() -> !stablehlo.token", "%0 = stablehlo.create_token : "
                   "!stablehlo.token return %0 : !stablehlo.token")  # fmt: skip
    create = compile_module(
        text, devices()[:1], in_avals=[], out_avals=[abstract_token]
    )
    return create.call([])[0]


def test_shardings_that_the_compiler_chose_are_read_back():
    mesh, executable = partitioned()
    cut = NamedSharding(mesh, P(("y", "x"), None))
    whole = NamedSharding(mesh, P())
    assert executable.in_shardings == (cut, whole)
    assert executable.out_shardings == (cut, whole, whole)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    y, token, z = executable.call([x, new_token()])
    np.testing.assert_array_equal(np.asarray(y), 2 * x)
    np.testing.assert_array_equal(np.asarray(z), 2 * x.T)
    assert str(y.aval) == "float32[8@(y,x),4]"
    again, *_ = executable.call([y, token])
    np.testing.assert_array_equal(np.asarray(again), 4 * x)


def test_tokens():
    token = new_token()
    assert type(token) is Token
    assert token.block_until_ready() is None
    assert repr(token._buf) == "Array([], shape=(0,), dtype=bool)"
    with pytest.raises(RuntimeError, match="Cannot convert a token-shape buffer to"):
        _ = token._buf._value
    mesh = make_mesh((2, 4), ("x", "y"))
    moved = device_put(token, NamedSharding(mesh, P()))
    assert moved._buf.devices() == set(devices()[:8])
    assert device_put(token) is token


def test_deleted_and_donated_arguments():
    double = doubling("{tf.aliasing_output = 0 : i32}")
    x = device_put(ONES)
    assert double.call([x])[0].tolist() == [2, 2, 2, 2]
    assert x.is_deleted()
    with pytest.raises(
        RuntimeError, match=r"Array has been deleted with shape=float32\[4"
    ):
        double.call([x])
    _, executable = partitioned()
    y = executable.call([np.zeros((8, 4), np.float32), new_token()])[0]
    y.delete()
    with pytest.raises(RuntimeError, match="Array has been deleted with shape=float32"):
        executable.call([y, new_token()])


def test_the_same_buffer_donated_twice():
    text = program(
        "(%a: tensor<4xf32> {jax.buffer_donor = true}, "
        "%b: tensor<4xf32> {jax.buffer_donor = true}) -> "
        "(tensor<4xf32>, tensor<4xf32>)",
        "%0 = stablehlo.add %a, %b : tensor<4xf32> "
        "return %0, %a : tensor<4xf32>, tensor<4xf32>",
    )
    both = {"in_avals": [vector(4)] * 2, "out_avals": [vector(4)] * 2}
    add = compile_module(text, devices()[:1], **both)
    x = device_put(ONES)
    with pytest.raises(RuntimeError, match="Attempt to donate the same buffer twice"):
        add.call([x, x])


def test_what_an_executable_tells():
    double = doubling()
    assert double.as_text().startswith("HloModule m")
    assert double.cost_analysis()["flops"] == 4
    assert double.memory_analysis().argument_size_in_bytes == 16


WHOLE_PROGRAM = """
import sys
import numpy as np
from minijax.core.mesh import NamedSharding, P
from minijax.core.trace import shaped
from minijax.runtime.backend import devices, make_mesh
from minijax.runtime.execute import compile_module
from minijax.runtime.placement import device_put
text = '''module @m { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
%0 = stablehlo.add %a, %a : tensor<8xf32> return %0 : tensor<8xf32> } }'''
t = shaped((8,), np.dtype("float32"))
mesh = make_mesh((8,), ("x",))
for devs in (devices()[:1], devices()):
    double = compile_module(text, devs, in_avals=[t], out_avals=[t])
    x = device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
    (y,) = double.call([x])
    repr(y), y.tolist(), y.copy(), np.from_dlpack(device_put(y, devices()[1]))
    [repr(s) for s in x.addressable_shards + y.addressable_shards]
    x.addressable_data(3), device_put(x, NamedSharding(mesh, P())), double.as_text()
    double.call([y.addressable_data(0)])
    x.delete(), x.is_deleted(), y.block_until_ready().is_ready()
print("jax" in sys.modules)
"""


def test_a_whole_program_does_not_import_jax(fresh_process):
    assert fresh_process(WHOLE_PROGRAM) == "False"


def test_a_sharding_by_a_part_of_a_mesh_axis_is_read_back():
    text = program(
        '(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> '
        '(tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, '
        '{"x":(2)2}]>})',
        "%0 = stablehlo.reshape %a : (tensor<8xf32>) -> tensor<2x4xf32> "
        "return %0 : tensor<2x4xf32>",
        'sdy.mesh @mesh = <["x"=4]>',
    )
    mesh = make_mesh((4,), "x")
    reshape = compile_module(
        text,
        mesh.flat_devices,
        in_avals=[vector(8)],
        out_avals=[shaped((2, 4), F32)],
        mesh=mesh,
    )
    (y,) = reshape.call([np.arange(8, dtype=np.float32)])
    np.testing.assert_array_equal(np.asarray(y), np.arange(8.0).reshape(2, 4))
    assert y.sharding.shard_shape(y.shape) == (1, 2)
    for shard in y.addressable_shards:
        assert shard.data.tolist() == np.asarray(y)[shard.index].tolist()
