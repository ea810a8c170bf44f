"""Control flow in traced programs: `cond`, `while_loop`, `scan` and what rests on them.

They live among the transformations, since their rules transform the programs that
their parameters hold. `minijax.lax` re-exports the public names.
"""
