"""Calling Python from compiled programs: `pure_callback`, `io_callback`, `debug`.

They live among the transformations, since mapped over many elements they become loops.
"""
