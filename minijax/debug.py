"""`minijax.debug`: looking into programs while they run.

Names only; the functions are in `transforms/callbacks/debugging.py`.
"""

from minijax.transforms.callbacks.debugging import debug_callback as callback
from minijax.transforms.callbacks.debugging import debug_print as print

__all__ = ["callback", "print"]
