"""Random numbers from keys: `minijax.random`. Names only.

Upstream: `jax.random`.
"""

from minijax.random.choices import categorical as categorical
from minijax.random.choices import choice as choice
from minijax.random.choices import permutation as permutation
from minijax.random.keys import PRNGKey as PRNGKey
from minijax.random.keys import bits as bits
from minijax.random.keys import fold_in as fold_in
from minijax.random.keys import key as key
from minijax.random.keys import key_data as key_data
from minijax.random.keys import split as split
from minijax.random.keys import wrap_key_data as wrap_key_data
from minijax.random.samplers import bernoulli as bernoulli
from minijax.random.samplers import exponential as exponential
from minijax.random.samplers import gumbel as gumbel
from minijax.random.samplers import normal as normal
from minijax.random.samplers import randint as randint
from minijax.random.samplers import truncated_normal as truncated_normal
from minijax.random.samplers import uniform as uniform
