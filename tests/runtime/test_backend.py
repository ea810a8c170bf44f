"""Platforms, device counts and settings. Each case is a process of its own, because a
process has its clients once."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from minijax.core.mesh import AxisType, Mesh
from minijax.runtime.backend import default_backend, device_count, devices, make_mesh

COUNT = "from minijax.runtime.backend import device_count; print(device_count('cpu'))"
CONFIGURED = (
    "from minijax.runtime.config import config; config(num_cpu_devices=5); " + COUNT
)
FLAG = "--xla_force_host_platform_device_count"


@pytest.mark.parametrize(
    ("program", "env", "count"),
    [
        (COUNT, {}, "8"),
        (COUNT, {"XLA_FLAGS": f"{FLAG}=2 {FLAG}=3"}, "3"),
        (COUNT, {"XLA_FLAGS": f"{FLAG}=3", "MINIJAX_NUM_CPU_DEVICES": "4"}, "4"),
        (CONFIGURED, {"XLA_FLAGS": f"{FLAG}=3", "MINIJAX_NUM_CPU_DEVICES": "4"}, "5"),
        (COUNT, {"JAX_PLATFORMS": "cpu"}, "8"),
        (COUNT, {"MINIJAX_PLATFORM": "cpu"}, "8"),
    ],
)
def test_cpu_device_count_precedence(fresh_process, program, env, count):
    assert fresh_process(program, **env) == count


def failing(call: str) -> str:
    return (
        "from minijax.runtime import backend, config\n"
        f"try: {call}\n"
        "except Exception as e: print(type(e).__name__ + ': ' + str(e))"
    )


@pytest.mark.parametrize(
    ("call", "env", "text"),
    [
        (
            "backend.devices()",
            {"MINIJAX_NUM_CPU_DEVICES": "many"},
            "ValueError: MINIJAX_NUM_CPU_DEVICES must be a positive integer, but it is "
            "'many'.",
        ),
        (
            "config.config(num_cpu_devices=2.5)",
            {},
            "ValueError: num_cpu_devices must be a positive integer, but it is 2.5.",
        ),
        (
            "config.config(devices=2)",
            {},
            "ValueError: a setting must be one of num_cpu_devices, platform, but it is "
            "'devices'.",
        ),
        (
            "backend.devices('foo')",
            {},
            "RuntimeError: Unknown backend foo. Available backends are ['cpu']",
        ),
        (
            "backend.devices()",
            {"MINIJAX_PLATFORM": "/no/such.so"},
            "RuntimeError: Unknown backend /no/such.so. Available backends are ['cpu']",
        ),
        (
            "(backend.devices(), config.config(num_cpu_devices=3))",
            {},
            "RuntimeError: num_cpu_devices config should be updated before backends "
            "are initialized i.e. before any operation is executed",
        ),
    ],
)
def test_bad_settings_are_told_in_a_sentence(fresh_process, call, env, text):
    assert fresh_process(failing(call), **env).startswith(text)


def test_a_setting_may_be_repeated_once_in_use(fresh_process):
    program = (
        "from minijax.runtime import backend, config\n"
        "config.config(num_cpu_devices=3); backend.devices()\n"
        "config.config(num_cpu_devices=3); print(config.config().num_cpu_devices)"
    )
    assert fresh_process(program) == "3"


def test_importing_makes_no_client_and_does_not_import_jax(fresh_process):
    program = (
        "import sys; from minijax.runtime import backend, execute\n"
        "print(backend._clients, 'jax' in sys.modules)"
    )
    assert fresh_process(program) == "{} False"


def test_threads_share_one_client(fresh_process):
    program = (
        "import threading; from minijax.runtime import backend\n"
        "found = []\n"
        "ts = [threading.Thread(target=lambda: found.append(backend.get_client()))"
        " for _ in range(8)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(len(found), len({id(c) for c in found}))"
    )
    assert fresh_process(program) == "8 1"


def test_nproc_is_left_as_it_was(fresh_process):
    program = (
        "import os; from minijax.runtime import backend; backend.devices()\n"
        "print(os.environ.get('NPROC'))"
    )
    assert fresh_process(program) == "None"
    assert fresh_process(program, NPROC="20") == "20"


PLUGIN = importlib.util.find_spec("lammps_jax_pjrt_cpu")


@pytest.mark.skipif(PLUGIN is None, reason="the wheel lammps-jax-pjrt-cpu is absent")
def test_a_plugin_library_by_its_path(fresh_process):
    assert PLUGIN is not None
    assert PLUGIN.origin is not None
    library = Path(PLUGIN.origin).parent / "pjrt_c_api_cpu_plugin.so"
    program = (
        "import numpy as np, sys\n"
        "from minijax.core.mesh import NamedSharding, P\n"
        "from minijax.core.trace import shaped\n"
        "from minijax.runtime.backend import default_backend, devices, make_mesh\n"
        "from minijax.runtime.execute import compile_module\n"
        "from minijax.runtime.placement import device_put\n"
        "mesh = make_mesh((4,), ('x',))\n"
        "x = device_put(np.arange(8, dtype='f'), NamedSharding(mesh, P('x')))\n"
        "t = shaped((8,), x.dtype)\n"
        "s = '#sdy.sharding<@mesh, [{\"x\"}]>'\n"
        "text = f'''module @m {{ sdy.mesh @mesh = <[\"x\"=4]>\n"
        "func.func public @main(%a: tensor<8xf32> {{sdy.sharding = {s}}})"
        " -> (tensor<8xf32> {{sdy.sharding = {s}}}) {{\n"
        "%0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>\n"
        "return %0 : tensor<8xf32> }} }}'''\n"
        "ex = compile_module(text, mesh.flat_devices, in_avals=[t], out_avals=[t],"
        " in_shardings=[x.sharding], out_shardings=[x.sharding])\n"
        "y, = ex.call([x])\n"
        "print(default_backend(), len(devices()), y, 'jax' in sys.modules)"
    )
    out = fresh_process(
        program, MINIJAX_PLATFORM=str(library), MINIJAX_NUM_CPU_DEVICES="4"
    )
    assert out == "cpu 4 [7. 6. 5. 4. 3. 2. 1. 0.] False"


def test_default_backend_and_devices():
    assert default_backend() == devices()[0].platform
    assert device_count() == len(devices())


def test_make_mesh_takes_the_first_devices_and_explicit_axes():
    mesh = make_mesh((2, 2), ("x", "y"))
    assert mesh.flat_devices == tuple(devices()[:4])
    assert mesh.axis_types == (AxisType.Explicit,) * 2
    given = make_mesh((2,), "x", (AxisType.Auto,), devices=devices()[::-1])
    assert given == Mesh(np.array(devices()[:-3:-1]), ("x",), (AxisType.Auto,))


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        ((16,), ValueError, "Number of devices 8 must be >= the product of mesh_shape"),
        (("a",), ValueError, "`axis_sizes` passed to `make_mesh` should be a sequence"),
        (8, TypeError, "'int' object is not iterable"),
        ((-1,), ValueError, "must equal the product of mesh_shape"),
        ((0,), ValueError, "every axis must have at least one device"),
        ((2, 2), ValueError, "Mesh requires the ndim of its first argument"),
    ],
)
def test_make_mesh_errors(shape, error, text):
    with pytest.raises(error, match=text):
        make_mesh(shape, ("x",), devices=devices()[:8])
