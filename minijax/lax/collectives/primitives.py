"""The collectives whose derivatives name each other, as primitives without rules.

The transpose of a psum is a pvary and conversely; the transpose of an all_gather is a
reduce_scatter and conversely. So that their pages need not import one another, the
objects stand here; every rule stands on the page that is named beside it.
"""

from minijax.core.primitive import Primitive

# pcast.py
pvary_p = Primitive("pvary")
preduced_p = Primitive("preduced")
vary_unreduced_cast_p = Primitive("vary_unreduced_cast")
reduced_vary_cast_p = Primitive("reduced_vary_cast")

# psum.py
psum_p = Primitive("psum")
psum_invariant_p = Primitive("psum_invariant")
unreduced_psum_p = Primitive("unreduced_psum")

# all_gather.py
all_gather_p = Primitive("all_gather")
all_gather_invariant_p = Primitive("all_gather_invariant")
all_gather_reduced_p = Primitive("all_gather_reduced")

# psum_scatter.py
reduce_scatter_p = Primitive("reduce_scatter")
unreduced_reduce_scatter_p = Primitive("unreduced_reduce_scatter")
