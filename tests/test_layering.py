"""The architecture as a test: an import goes down, never up, never inside a function.

The layers are `LAYERS`; what each may see is `SEES`. `violations` reads one source text
and says in plain sentences what it imports and should not. Its own tests stand at the
end: each is a few lines of source that break one rule.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# The first segment after `minijax.` gives a module's layer.
LAYERS = {
    **{name: name for name in ("core", "lowering", "runtime", "lax", "transforms")},
    **dict.fromkeys(("numpy", "random", "nn", "tree", "sharding", "debug"), "public"),
    **dict.fromkeys(("errors", "experimental"), "public"),
    **dict.fromkeys(("__main__", "command_line", "demo", "tour"), "top"),
}
SEES = {
    "core": {"core"},
    "lowering": {"core", "lowering"},
    "runtime": {"core", "runtime"},
    "lax": {"core", "lowering", "lax"},
    "transforms": {"core", "lowering", "runtime", "lax", "transforms"},
}
SEES["public"] = SEES["transforms"] | {"public", "facade"}
SEES["top"] = SEES["public"] | {"top"}
SEES["facade"] = SEES["top"]
# One page needs arrays as values: the operators of `Array` and `Tracer`.
EXTRA = {"minijax.lax.operators": {"runtime"}}

FACADES = {"minijax", "minijax.lax"}
# The two late bindings, each called once, from the package root.
LATE_BINDINGS = {"set_bottom_trace", "install"}

STDLIB = sys.stdlib_module_names
PACKAGES = {"core": {"numpy", "ml_dtypes"}}  # elsewhere: these and jaxlib


def layer_of(module: str) -> str | None:
    """`minijax.core.mesh` -> `core`; a facade has a layer of its own."""
    if module in FACADES:
        return "facade"
    return LAYERS.get(module.split(".")[1])


def imports(node: ast.AST, modules: set[str]) -> Iterator[str]:
    """The modules that one import statement loads, as full names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in modules else base


def import_violations(module: str, target: str) -> Iterator[str]:
    """What is wrong with `module` importing `target`."""
    layer, package = layer_of(module), target.split(".")[0]
    if package == "minijax":
        seen = SEES[layer] | EXTRA.get(module, set())
        if layer_of(target) is None:
            yield f"{target} belongs to no layer"
        elif layer_of(target) == "facade" and layer not in ("facade", "public", "top"):
            yield f"imports from the facade {target}, not from the page"
        elif layer_of(target) not in seen:
            yield f"{layer} imports {target}"
    elif package not in STDLIB:
        allowed = PACKAGES.get(layer, {"numpy", "ml_dtypes", "jaxlib"})
        if package not in allowed:
            yield f"{layer} imports the package {package}"


def holds_a_name(node: ast.stmt, module: str) -> bool:
    """Is this a statement that a facade may hold?"""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
            return True
        case ast.Assign([ast.Name("__all__" | "__version__")]):
            return True
        case ast.Expr(ast.Call(ast.Name(name))):
            return module == "minijax" and name in LATE_BINDINGS
    return False


def violations(source: str, module: str, modules: set[str]) -> list[str]:
    """All that `module`, with this source, does against the layering."""
    if layer_of(module) is None:
        return [f"{module} belongs to no layer"]
    tree = ast.parse(source)
    found: list[str] = []
    if module in FACADES:
        found += [
            f"line {node.lineno}: a facade holds only names"
            for node in tree.body
            if not holds_a_name(node, module)
        ]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [
                f"line {node.lineno}: an import inside a function"
                for node in ast.walk(function)
                if isinstance(node, ast.Import | ast.ImportFrom)
            ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(f"line {node.lineno}: a relative import")
            continue
        for target in imports(node, modules):
            found += [
                f"line {node.lineno}: {what}"
                for what in import_violations(module, target)
            ]
    return list(dict.fromkeys(found))


def module_name(path: Path) -> str:
    """`minijax/core/mesh.py` -> `minijax.core.mesh`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.glob("minijax/**/*.py"))}


@pytest.mark.parametrize("module", FILES)
def test_imports_go_down(module: str):
    source = FILES[module].read_text(encoding="utf-8")
    assert violations(source, module, set(FILES)) == []


def test_a_package_has_an_init_file():
    """Without one a folder is a namespace package, and its doctests load it twice."""
    folders = {path.parent for path in FILES.values()}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


# The checker itself: sources that obey, and sources that break one rule each.
TREE = {
    "minijax",
    "minijax.core",
    "minijax.core.mesh",
    "minijax.core.pretty",
    "minijax.lax",
    "minijax.lax.tokens",
    "minijax.lax.operators",
    "minijax.lowering.lower",
    "minijax.runtime.array",
    "minijax.transforms.jit",
    "minijax.numpy",
    "minijax.demo",
}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("minijax.core.mesh", "import numpy as np\nfrom math import prod"),
        ("minijax.lax.tokens", "from minijax.lowering.lower import lower"),
        ("minijax.lax.operators", "from minijax.runtime.array import Array"),
        ("minijax.transforms.jit", "from minijax.lax import tokens"),
        ("minijax.transforms.jit", "import minijax.lax.tokens"),
        ("minijax.runtime.array", "from jaxlib import xla_client"),
        ("minijax.numpy", "from minijax.lax import cond\nfrom minijax import jit"),
        ("minijax.demo", "import minijax\nfrom minijax import numpy as jnp"),
        ("minijax", '"""Doc."""\nfrom minijax import lax\n__all__ = ["lax"]'),
        ("minijax", "from minijax.core.mesh import install\ninstall(1)"),
        ("minijax.lax", "from minijax.transforms.jit import jit"),
    ],
)
def test_the_checker_lets_pass(module: str, source: str):
    assert violations(source, module, TREE) == []


@pytest.mark.parametrize(
    ("module", "source", "what"),
    [
        ("minijax.core.mesh", "import jax", "the package jax"),
        ("minijax.demo", "from jax import lax", "the package jax"),
        ("minijax.core.mesh", "import jaxlib", "the package jaxlib"),
        ("minijax.core.mesh", "import minijax.lax.tokens", "core imports"),
        ("minijax.core.mesh", "from minijax.lax import tokens", "core imports"),
        ("minijax.lowering.lower", "import minijax.runtime.array", "lowering imports"),
        ("minijax.runtime.array", "import minijax.lowering.lower", "runtime imports"),
        ("minijax.lax.tokens", "import minijax.runtime.array", "lax imports"),
        ("minijax.lax.operators", "import minijax.transforms.jit", "lax imports"),
        ("minijax.transforms.jit", "import minijax.numpy", "transforms imports"),
        ("minijax.transforms.jit", "import minijax.demo", "transforms imports"),
        ("minijax.transforms.jit", "from minijax.lax import cond", "the facade"),
        ("minijax.transforms.jit", "from minijax import grad", "the facade"),
        ("minijax.transforms.jit", "import minijax.lax as lax", "the facade"),
        ("minijax.core.mesh", "from . import pretty", "a relative import"),
        ("minijax.core.mesh", "def f():\n  import math", "inside a function"),
        ("minijax.core.mesh", "class A:\n async def f(s):\n  import re", "inside a"),
        ("minijax.core.mesh", "if x:\n  import minijax.lax.tokens", "core imports"),
        ("minijax.core.mesh", "import minijax.extra.thing", "no layer"),
        ("minijax.extra", "", "no layer"),
        ("minijax", "def f(): ...", "only names"),
        ("minijax", "x = 1", "only names"),
        ("minijax.lax", "install(1)", "only names"),
    ],
)
def test_the_checker_objects(module: str, source: str, what: str):
    assert any(what in line for line in violations(source, module, TREE))
