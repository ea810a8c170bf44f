"""What every test and doctest runs under: eight CPU devices and Hypothesis profiles.

It stands at the root, not in `tests/`, so that the doctests of a single file under
`minijax/` see the same devices as the suite. The variables are set before anything
imports jaxlib, which reads them once; a value that the caller has set stays.
"""

import os
import sys

from hypothesis import HealthCheck, settings

os.environ.setdefault("MINIJAX_PLATFORM", "cpu")
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # upstream's, the oracle
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# XLA sizes its thread pool by this. With fewer threads than devices, the devices of one
# collective may wait for each other forever.
os.environ.setdefault("NPROC", "32")
# Both libraries read this one.
_COUNT = "--xla_force_host_platform_device_count"
if _COUNT not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_COUNT}=8".strip()

if loaded := {"jax", "jaxlib"} & sys.modules.keys():
    raise RuntimeError(f"imported before its environment was set: {sorted(loaded)}")

# A first example may compile for a second, hence no deadline and no health check on
# speed. In CI the examples are the same in every run; on a desk they vary.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("desk", max_examples=25, **_COMMON)
settings.register_profile(
    "ci", max_examples=50, derandomize=True, database=None, **_COMMON
)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
