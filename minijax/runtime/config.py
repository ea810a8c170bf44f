"""The settings of the runtime: which platform, and how many CPU devices.

They are read once, when the first client is made; after that they are facts about
the process, and changing them is an error. So there are no other settings: all else
is an argument of the function it concerns.

Each setting may come from `config(...)`, then from an environment variable, then from
a default.
"""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass, replace
from typing import Any

from minijax.core.errors import runtime as errors

#: CPU devices in a process that says nothing: enough to try a 2x4 mesh.
DEFAULT_CPU_DEVICES = 8


@dataclass(frozen=True)
class Settings:
    """What `config` was told; `None` leaves a setting to the environment.

    Args:
      num_cpu_devices: devices that the CPU client shows. `None`: the variable
        `MINIJAX_NUM_CPU_DEVICES`, else `--xla_force_host_platform_device_count` in
        `XLA_FLAGS`, else 8.
      platform: the default platform: `cpu`, `cuda` (or `gpu`), `tpu`, or the path of a
        PJRT plugin library. `None`: the variable `MINIJAX_PLATFORM`, else the best
        that this machine has.
    """

    num_cpu_devices: int | None = None
    platform: str | None = None


_settings = Settings()
_in_use = False


def config(**changes: Any) -> Settings:
    """Changes settings by name, and returns those in force.

    Raises RuntimeError once devices are in use and a setting would change.

    >>> isinstance(config(), Settings)
    True
    >>> config(num_cpu_devices=0)
    Traceback (most recent call last):
    ValueError: num_cpu_devices must be a positive integer, but it is 0.
    """
    global _settings
    for name, value in changes.items():
        if name not in Settings.__dataclass_fields__:
            known = ", ".join(Settings.__dataclass_fields__)
            raise errors.bad_setting("a setting", f"one of {known}", name)
        if value is not None:
            _CHECKS[name](name, value)
        if _in_use and value != getattr(_settings, name):
            raise errors.config_too_late(name)
    _settings = replace(_settings, **changes)
    return _settings


def mark_in_use() -> None:
    """From now on the settings are fixed."""
    global _in_use
    _in_use = True


def _positive(name: str, value: Any) -> int:
    try:
        number = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(value, bool):
        raise errors.bad_setting(name, "a positive integer", value)
    return number


def _platform(name: str, value: Any) -> str:
    if not (isinstance(value, str) and value.strip()):
        raise errors.bad_setting(name, "a platform's name or a path", value)
    return value.strip()


_CHECKS = {"num_cpu_devices": _positive, "platform": _platform}
_XLA_COUNT = re.compile(r"--xla_force_host_platform_device_count=(\S+)")


def cpu_device_count() -> int:
    """The number of CPU devices to make, by the precedence of `Settings`."""
    if _settings.num_cpu_devices is not None:
        return _settings.num_cpu_devices
    if value := os.environ.get("MINIJAX_NUM_CPU_DEVICES"):
        return _positive("MINIJAX_NUM_CPU_DEVICES", value)
    if found := _XLA_COUNT.findall(os.environ.get("XLA_FLAGS", "")):
        name = "--xla_force_host_platform_device_count in XLA_FLAGS"
        return _positive(name, found[-1])
    return DEFAULT_CPU_DEVICES


def platform() -> str | None:
    """The platform asked for, or `None` for the best there is."""
    if _settings.platform is not None:
        return _settings.platform.strip()
    if value := os.environ.get("MINIJAX_PLATFORM"):
        return _platform("MINIJAX_PLATFORM", value)
    return None
