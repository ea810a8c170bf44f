"""Devices, arrays on them, and compiled programs run on them, through PJRT.

XLA reads its log level when jaxlib is loaded, so the quieter default is set here,
before any module of this package imports jaxlib. Nothing else may live here.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
