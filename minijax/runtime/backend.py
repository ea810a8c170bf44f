"""PJRT clients and their devices, by platform, made when first asked for.

A client is jaxlib's door to one kind of device. Three ways lead to one: the CPU client
that jaxlib carries, a plugin library that a package installed (CUDA, TPU), and a plugin
library given by its path. All end in the same kind of object, so nothing above this
file asks which platform it runs on. Only clients, devices and the meshes made of them
may live here.

Upstream: `jax/_src/xla_bridge.py`, and `make_mesh` of `jax/_src/sharding_impls.py`.
"""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from jaxlib import xla_client as xc

from minijax.core.errors import runtime as errors
from minijax.core.mesh import AxisType, Device, Mesh
from minijax.runtime import config

type Client = Any

_ALIASES = {"gpu": "cuda"}
_clients: dict[str, Client] = {}
_lock = threading.RLock()
_default: Client | None = None


# -------------------------------------------------------------------- one platform


@contextmanager
def _enough_threads(devices: int) -> Iterator[None]:
    """Makes XLA size its thread pools for `devices` blocked collectives.

    A pool has a thread per processor, and each device of a collective blocks one
    thread. Where processors are fewer than devices and several collectives are under
    way, the last participant may never get a thread, and XLA aborts the process. XLA
    takes the number of processors from `NPROC` when it makes the client.
    """
    if "NPROC" in os.environ or (os.cpu_count() or 1) >= 2 * devices:
        yield
        return
    os.environ["NPROC"] = str(max(32, 2 * devices))
    try:
        yield
    finally:
        del os.environ["NPROC"]


def _make_cpu() -> Client:
    count = config.cpu_device_count()
    with _enough_threads(count):
        return xc.make_cpu_client(num_devices=count)


def _make_cuda() -> Client:
    """The CUDA client, from the library that a `jax-cuda*-pjrt` package installs.

    Upstream's entry point of that package imports jax, so the file is looked up here.
    """
    spec = importlib.util.find_spec("jax_plugins")
    for folder in (spec and spec.submodule_search_locations) or ():
        for found in sorted(Path(folder).glob("xla_cuda*/xla_cuda_plugin.so")):
            options = xc.generate_pjrt_gpu_plugin_options()
            return _load("cuda", str(found), {**options, "platform_name": "CUDA"})
    raise errors.plugin_not_found("cuda", "install jax-cuda13-plugin")


def _make_tpu() -> Client:
    """The TPU client, from `TPU_LIBRARY_PATH` or the package `libtpu`."""
    path = os.environ.get("TPU_LIBRARY_PATH")
    spec = None if path else importlib.util.find_spec("libtpu")
    if spec is not None and spec.origin is not None:
        path = str(Path(spec.origin).parent / "libtpu.so")
    if not path:
        raise errors.plugin_not_found("tpu", "set TPU_LIBRARY_PATH or install libtpu")
    return _load("tpu", path, {})


def _make_from_path(path: str) -> Client:
    """The client of any PJRT plugin library; CPU plugins are told the device count."""
    count = config.cpu_device_count()
    options = {"cpu_device_count": count} if "cpu" in Path(path).name else {}
    with _enough_threads(count):
        return _load(Path(path).stem.replace("-", "_"), path, options)


def _load(name: str, path: str, options: dict[str, Any]) -> Client:
    if not xc.pjrt_plugin_loaded(name):
        xc.load_pjrt_plugin_dynamically(name, path)
    if not xc.pjrt_plugin_initialized(name):
        xc.initialize_pjrt_plugin(name)
    return xc.make_c_api_client(name, options)


_MAKERS: dict[str, Callable[[], Client]] = {
    "cpu": _make_cpu,
    "cuda": _make_cuda,
    "tpu": _make_tpu,
}
#: Files that a machine with such hardware has: a plugin is tried unasked only there.
_HARDWARE = {"tpu": "/dev/accel[0-9]*", "cuda": "/dev/nvidia[0-9]*"}


def _make(name: str) -> Client:
    if name in _MAKERS:
        make = _MAKERS[name]
    elif os.path.isfile(name):
        make = partial(_make_from_path, name)
    else:
        raise errors.unknown_backend(name, _clients or ["cpu"])
    try:
        client = make()
    except (ValueError, RuntimeError) as error:
        if str(error).startswith("Backend ") or isinstance(error, ValueError):
            raise
        raise errors.backend_failed(name, error) from error
    config.mark_in_use()
    return client


def get_client(platform: str | None = None) -> Client:
    """The client of a platform, made at the first call for it.

    Args:
      platform: `cpu`, `cuda` or `gpu`, `tpu`, or the path of a PJRT plugin library;
        `None` for the default one (see `minijax.runtime.config.Settings`).

    Raises RuntimeError where the platform is unknown or cannot be started.
    """
    client = _default if platform is None else _clients.get(platform)
    return _first_client(platform) if client is None else client


def _first_client(platform: str | None) -> Client:
    global _default
    with _lock:
        if platform is None:
            if _default is None:
                _default = _find_default()
            return _default
        name = _ALIASES.get(platform, platform)
        if name not in _clients:
            _clients[name] = _make(name)
        _clients[platform] = _clients[name]
        return _clients[name]


def _find_default() -> Client:
    if wanted := config.platform():
        return get_client(wanted)
    for name, files in _HARDWARE.items():
        if glob(files):
            try:
                return get_client(name)
            except RuntimeError:  # no plugin, or none that starts: the CPU will do
                continue
    return get_client("cpu")


# ------------------------------------------------------------------------- devices


def devices(platform: str | None = None) -> list[Device]:
    """All devices of a platform, of every process.

    >>> devices("cpu")[0]
    CpuDevice(id=0)
    """
    return get_client(platform).devices()


def local_devices(platform: str | None = None) -> list[Device]:
    """The devices of a platform that this process can address."""
    return get_client(platform).local_devices()


def device_count(platform: str | None = None) -> int:
    """The number of `devices(platform)`."""
    return len(devices(platform))


def default_backend() -> str:
    """The name of the default platform, such as `cpu`, `gpu` or `tpu`."""
    return get_client().platform


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str] | str,
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh over the first devices, in their order, row-major.

    Args:
      axis_shapes: the size of each axis; at most as many devices as there are.
      axis_names: their names.
      axis_types: how each axis is handled; all Explicit by default.
      devices: the devices to take them from; all of the default platform by default.

    >>> make_mesh((2, 4), ("x", "y"))
    Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'), axis_types=(Explicit, Explicit))
    """
    try:
        shape = tuple(int(size) for size in axis_shapes)
    except ValueError as error:
        raise errors.bad_axis_sizes(axis_shapes) from error
    chosen = get_client().devices() if devices is None else list(devices)
    count = math.prod(shape)
    if any(size < 1 for size in shape):
        raise errors.axis_size_not_positive(len(chosen), shape)
    if count > len(chosen):
        raise errors.too_few_devices(len(chosen), shape)
    grid = np.empty(count, object)
    grid[:] = chosen[:count]
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(shape)
    return Mesh(grid.reshape(shape), axis_names, axis_types)
