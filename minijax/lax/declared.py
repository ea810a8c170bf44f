"""Primitives that a page below their own page needs.

Two pages whose derivative rules need each other cannot import each other: broadcasting
is transposed by a sum, and a sum by broadcasting. The primitive that would close such a
circle is made here, without rules, and its page, which fills the slots, imports it from
here.
"""

from minijax.core.primitive import Primitive

#: Page: `reductions`. Needed by the transpose of `broadcast_in_dim`.
reduce_sum_p = Primitive("reduce_sum")

#: Page: `elementwise`. Needed by `full` of a traced value of another dtype.
convert_element_type_p = Primitive("convert_element_type")

#: Page: `tokens`. Needed where a symbolic zero of token type becomes a value.
create_token_p = Primitive("create_token")

#: Page: `place`. Needed by broadcasting to another sharding.
reshard_p = Primitive("reshard")

#: Page: `scatter`. Needed by the transpose of `gather`.
scatter_add_p = Primitive("scatter-add")
