"""The wording of every error about pytrees.

Each function takes plain data (types, lengths, printed keys) and returns the exception
for the caller to raise, so that the code which walks trees reads without paragraphs of
text in its way, and so that the texts, which are upstream's, stand in one place.
Source of the texts: upstream ``tree_util.py``, ``api_util.py`` and jaxlib's pytree.
"""

import difflib
import textwrap
from collections.abc import Hashable, Iterable, Sequence

__all__ = [
    "axes_mismatch",
    "axis_resources_mismatch",
    "axis_resources_not_args_tuple",
    "cannot_flatten_type",
    "custom_arity_mismatch",
    "custom_data_mismatch",
    "custom_type_mismatch",
    "dataclass_fields_incomplete",
    "dataclass_fields_overlap",
    "dataclass_fields_required",
    "dict_key_mismatch",
    "duplicate_registration",
    "expected_container",
    "flatten_result_not_a_pair",
    "key_difference",
    "keys_not_sortable",
    "named_tuple_type_mismatch",
    "prefix_child_count_mismatch",
    "prefix_length_mismatch",
    "prefix_metadata_mismatch",
    "prefix_type_mismatch",
    "sequence_arity_mismatch",
    "too_few_leaves",
    "too_many_leaves",
    "transpose_mismatch",
]


# Building and flattening.


def duplicate_registration(cls: type, *, is_dataclass: bool) -> ValueError:
    """Return the error for registering a class twice, or a built-in container."""
    kind = "custom dataclass" if is_dataclass else "custom"
    return ValueError(f"Duplicate {kind} PyTreeDef type registration for {cls}.")


def keys_not_sortable() -> ValueError:
    """Return the error for a dict whose keys cannot be compared with each other."""
    return ValueError(
        "Comparator raised exception while sorting pytree dictionary keys."
    )


def cannot_flatten_type(cls: type) -> ValueError:
    """Return the error for asking a leaf for its children."""
    return ValueError(f"can't tree-flatten type: {cls}")


def flatten_result_not_a_pair(result: object) -> ValueError:
    """Return the error for a registered flatten function that returns no pair."""
    return ValueError(
        "The to_iterable function for a custom PyTree node should return a "
        f"(children, aux_data) tuple, got {result}"
    )


def too_few_leaves(expected: int, given: int) -> ValueError:
    """Return the error for unflattening with too few leaves."""
    return ValueError(f"Too few leaves for PyTreeDef; expected {expected}, got {given}")


def too_many_leaves(expected: int) -> ValueError:
    """Return the error for unflattening with too many leaves."""
    return ValueError(f"Too many leaves for PyTreeDef; expected {expected}.")


def transpose_mismatch(given: object, expected: object) -> TypeError:
    """Return the error for transposing a tree that is not outer-of-inner."""
    return TypeError(f"Mismatch\n{given}\n != \n{expected}")


# register_dataclass.


def dataclass_fields_required(
    nodetype: type,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
) -> TypeError:
    """Return the error for leaving out field lists that cannot be inferred."""
    if (data_fields is None) != (meta_fields is None):
        return TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified "
            f"when either is specified. Got {data_fields=} {meta_fields=}."
        )
    return TypeError(
        "register_dataclass: data_fields and meta_fields are required when nodetype "
        f"is not a dataclass. Got {nodetype=}."
    )


def dataclass_fields_incomplete(missing: set[str], unexpected: set[str]) -> ValueError:
    """Return the error for field lists that do not name exactly the init fields."""
    message = (
        "data_fields and meta_fields must include all dataclass fields with "
        "``init=True`` and only them."
    )
    if missing:
        message += (
            f" Missing fields: {missing}. Add them to drop_fields to suppress this "
            "error."
        )
    if unexpected:
        message += f" Unexpected fields: {unexpected}."
    return ValueError(message)


def dataclass_fields_overlap(overlap: set[str]) -> ValueError:
    """Return the error for a field listed both as data and as metadata."""
    return ValueError(
        f"data_fields and meta_fields must not overlap. Overlapping fields: {overlap}."
    )


# PyTreeDef.flatten_up_to.

_NONE_IS_NO_PREFIX = (
    "\n\nIn previous releases of JAX, flatten-up-to used to consider None to be a "
    "tree-prefix of non-None values. To obtain the previous behavior, you can usually "
    "write:\n  jax.tree.map(lambda x, y: None if x is None else f(x, y), a, b, "
    "is_leaf=lambda x: x is None)"
)


def expected_container(name: str, value: object) -> ValueError:
    """Return the error for a value that is no ``name`` (tuple, list, dict, None...)."""
    if name == "None":
        return ValueError(f"Expected None, got {value!r}.{_NONE_IS_NO_PREFIX}")
    return ValueError(f"Expected {name}, got {value!r}.")


def sequence_arity_mismatch(
    name: str, given: int, expected: int, value: object
) -> ValueError:
    """Return the error for a tuple, list or named tuple of the wrong length."""
    noun = name.rsplit(" ", maxsplit=1)[-1]
    return ValueError(
        f"{name.capitalize()} arity mismatch: {given} != {expected}; {noun}: {value!r}."
    )


def named_tuple_type_mismatch(expected: type, value: object) -> ValueError:
    """Return the error for a named tuple of another class."""
    return ValueError(
        f"Named tuple type mismatch: expected type: {expected}, tuple: {value!r}."
    )


def dict_key_mismatch(
    expected: Sequence[object], present: Sequence[object]
) -> ValueError:
    """Return the error for a dict with other keys."""
    return ValueError(
        f"Dict key mismatch; expected keys: {list(expected)!r}; "
        f"present keys: {list(present)!r}."
    )


def custom_type_mismatch(
    expected: type, value: object, *, is_dataclass: bool
) -> ValueError:
    """Return the error for a value that is not of the registered class expected."""
    kind = "dataclass node" if is_dataclass else "node"
    return ValueError(
        f"Custom {kind} type mismatch: expected type: {expected}, value: {value!r}."
    )


def custom_data_mismatch(
    expected: object, given: object, value: object, *, is_dataclass: bool
) -> ValueError:
    """Return the error for a registered class with other static data."""
    kind = "dataclass node" if is_dataclass else "node"
    return ValueError(
        f"Mismatch custom {kind} data: {expected!r} != {given!r}; value: {value!r}."
    )


def custom_arity_mismatch(given: int, expected: int, value: object) -> ValueError:
    """Return the error for a registered class with another number of children."""
    return ValueError(
        f"Custom type arity mismatch: {given} != {expected}; value: {value!r}."
    )


# prefix_errors: one tree should have been a prefix of another. ``name`` is what the
# caller calls the prefix ("vmap in_axes"), ``where`` the printed key path below it.


def prefix_type_mismatch(
    name: str, where: str, prefix_type: type, full_type: type
) -> ValueError:
    """Return the error for nodes of different types."""
    return ValueError(
        "pytree structure error: different types at key path\n"
        f"    {name}{where}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type\n"
        f"    {prefix_type}\n"
        "but at the same key path the full pytree has a subtree of different type\n"
        f"    {full_type}."
    )


def prefix_length_mismatch(
    name: str, where: str, cls: type, prefix_length: int, full_length: int
) -> ValueError:
    """Return the error for tuples or lists of different lengths."""
    noun = cls.__name__
    return ValueError(
        f"pytree structure error: different lengths of {noun} at key path\n"
        f"    {name}{where}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type {noun} of "
        f"length {prefix_length}, but the full pytree has a subtree of the same type "
        f"but of length {full_length}."
    )


def prefix_child_count_mismatch(
    name: str,
    where: str,
    cls: type,
    prefix_keys: Sequence[Hashable],
    full_keys: Sequence[Hashable],
) -> ValueError:
    """Return the error for nodes of one type with different numbers of children."""
    return ValueError(
        "pytree structure error: different numbers of pytree children at key path\n"
        f"    {name}{where}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type\n"
        f"    {cls}\n"
        f"with {len(prefix_keys)} child keys\n"
        f"    {_spaced(prefix_keys)}\n"
        "but at the same key path the full pytree has a subtree of the same type but "
        f"with {len(full_keys)} child keys\n"
        f"    {_spaced(full_keys)}\n"
        "so the symmetric difference on key sets is\n"
        f"    {_spaced(key_difference(prefix_keys, full_keys))}"
    )


def prefix_metadata_mismatch(
    name: str, where: str, cls: type, prefix_meta: object, full_meta: object
) -> ValueError:
    """Return the error for nodes of one type with different static data."""
    before, after = str(prefix_meta), str(full_meta)
    diff = "\n".join(difflib.ndiff(before.splitlines(), after.splitlines()))
    return ValueError(
        "pytree structure error: different pytree metadata at key path\n"
        f"    {name}{where}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type\n"
        f"    {cls}\n"
        "with metadata\n"
        f"    {before}\n"
        "but at the same key path the full pytree has a subtree of the same type but "
        "with metadata\n"
        f"    {after}\n"
        "so the diff in the metadata at these pytree nodes is\n"
        f"{textwrap.indent(diff, prefix='    ')}"
    )


def key_difference[K: Hashable](keys1: Sequence[K], keys2: Sequence[K]) -> list[K]:
    """Return the keys that are in one of two lists only, in their order.

    Example:
        >>> key_difference(["a", "b"], ["b", "c"])
        ['a', 'c']
    """
    only1 = [key for key in keys1 if key not in keys2]
    return only1 + [key for key in keys2 if key not in keys1]


def _spaced(keys: Iterable[object]) -> str:
    return " ".join(str(key) for key in keys)


# flatten_axes and flatten_axis_resources: a spec should have been a prefix of a value.


def axes_mismatch(
    name: str,
    details: Sequence[str],
    *,
    tupled_args: bool,
    singleton_tuple_would_do: bool,
) -> ValueError:
    """Return the error for axis specs (``vmap in_axes``) that are no prefix."""
    hint = ""
    if tupled_args:
        hint += (
            f" Note that {name} that are non-trivial pytrees should always be wrapped "
            "in a tuple representing the argument list."
        )
    if singleton_tuple_would_do:
        hint += (
            " In particular, you're passing in a single argument which means that "
            f"{name} might need to be wrapped in a singleton tuple."
        )
    listing = "\n  ".join(details)
    return ValueError(
        f"{name} specification must be a tree prefix of the corresponding value; "
        f"{hint}\n  Mismatch details ({len(details)} found):\n  {listing}"
    )


def axis_resources_not_args_tuple(
    name: str,
    given: type,
    given_length: int | None,
    n_args: int,
    *,
    singleton_tuple_would_do: bool,
) -> ValueError:
    """Return the error for shardings that are no tuple with one entry per argument.

    ``given_length`` is None where what was given is not a tuple at all.
    """
    message = (
        f"{name} specification must be a tree prefix of the positional arguments "
        f"tuple. In particular, {name} must either be a Sharding, a PartitionSpec, or "
        "a tuple of length equal to the number of positional arguments."
    )
    if given_length is None:
        message += f" But {name} is not a tuple: got {given} instead."
    else:
        message += (
            f" But {name} is the wrong length: got a tuple or list of length "
            f"{given_length} for an args tuple of length {n_args}."
        )
    if singleton_tuple_would_do:
        message += (
            " Given the corresponding argument being passed, it looks like "
            f"{name} might need to be wrapped in a singleton tuple."
        )
    return ValueError(message)


def axis_resources_mismatch(details: Sequence[str]) -> ValueError:
    """Return the error for shardings that differ from the arguments further down."""
    listing = "\n".join(details)
    return ValueError(f"Mismatch details ({len(details)} found):\n{listing}")
