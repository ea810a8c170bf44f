"""`minijax.experimental`: what upstream keeps under that name.

Names only; the functions are in `transforms/callbacks/host.py`.
"""

from minijax.transforms.callbacks.host import io_callback

__all__ = ["io_callback"]
