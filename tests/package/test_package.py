"""The package as a whole: what an import loads, namespaces, metadata, the order of the layers."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import metadata, requires, version
from pathlib import Path

import pytest

import drjit as dr

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "drjit"

# A layer imports from its own row and from those above. What is not named here (modules beside the
# packages) is on top.
NAMESPACES = {"auto", "cuda", "llvm", "scalar"}
LAYERS = [  # and above these the package itself, with what sees all of it, such as reports
    {"jit"}, {"ad"}, {"array"}, NAMESPACES, {"function"}, {"random"}, {"flow"},
    {"hashgrid", "texture"}, {"nn", "opt"},
]  # fmt: skip
# The same for the folders of a package. Modules beside them and folders not named come first.
FOLDERS = {
    "jit": [{"text"}, {"run"}, {"native"}, {"trace", "primitives", "cpu", "cuda"}],
    "flow": [{"region"}, {"loop", "call"}, {"syntax", "freeze"}, {"export"}],
    "function": [{"data"}, {"math", "inspect"}, {"ad", "signal"}, {"exchange"}],
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


@cache
def imports(module: str) -> set[str]:
    """Modules of the package that a module imports anywhere, in functions as well; not those that
    are for type checkers only."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(FILES[module].read_text())]
    while pending:
        node = pending.pop()
        if is_type_checking(node):
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join(parents + ([node.module] if node.module else []))
            for name in node.names:
                inner = f"{base}.{name.name}"
                found.add(inner if inner in FILES else base)
    return {name for name in found if name in FILES and name != module}


def layer(module: str) -> int:
    first = [*module.split("."), ""][1]
    return next((k for k, names in enumerate(LAYERS) if first in names), len(LAYERS))


def folder(module: str) -> tuple[str, int]:
    """The package of a module, and the place of its folder among those of the package."""
    _, package, name, *_ = [*module.split("."), "", ""]
    places = FOLDERS.get(package, [])
    return package, next((k for k, names in enumerate(places) if name in names), -1)


def in_fresh_process(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_leaves_heavy_packages_alone():
    loaded = in_fresh_process("import drjit, sys; print(*sys.modules)").split()
    assert "drjit" in loaded
    heavy = {"numba", "llvmlite", "numpy", "scipy", "torch", "jax", "matplotlib"}
    assert not heavy & set(loaded)


WITHOUT_NUMPY = """
import sys
import drjit as dr
from drjit.llvm.ad import Array3f, Complex2f, Float, Float16, Float64, Int, Int64, UInt, UInt8
dr.set_flag(dr.JitFlag.LaunchBlocking, True)
x, z = Float([1, 2.5, -3]), Complex2f(3, [4, 1e20])
dr.enable_grad(x)
y = dr.select(x > 0, dr.sqrt(abs(x)), dr.fma(x, 2, 1))
dr.backward(dr.sum(y))
print(y, x.grad, dr.mean(y), y[2], list(y))
print(Float16([1, 65504, 0.1]), Float64(1, 2) / 3, UInt8([1, 255]) + 1, Int(-7, 7) >> 1)
total = dr.zeros(UInt, 3)
dr.scatter_add(total, UInt(1, 2), UInt([0, 2]))
print(total, dr.gather(Array3f, Float(range(6)), UInt(0, 1)), dr.any(x > 2), dr.cumsum(x))
i = Int(0)
while i[0] < 3:
    i += 1
print(i, isinstance(x, (int, float)), dr.floor(Float(-0.5)), ~UInt(1), dr.lzcnt(UInt(1)))
print(dr.sin(Float(1)), dr.lgamma(Float64(0.3)), dr.fma(Float64(0.1), 10, -1), Float(1) / 0)
print(Float(Int64(1 << 60)), UInt8(Float(300)), dr.exp(Float16(2)), dr.smallest(x), dr.abs(z))
print(dr.resample(x, (2,)), dr.convolve(x, "gaussian", 1), dr.convolve(x, [1, 2], normalize=True))
print("numpy" in sys.modules)
import numpy as np
print(x.numpy(), Float(np.float32([1, 2])) + np.float32(1), np.array([1, 2]) + Int(1, 2))
"""


def test_imports_hide_from_the_collector_what_stays():
    script = "import gc\n{}\nimport drjit as dr\nprint(gc.get_freeze_count())"
    assert int(in_fresh_process(script.format(""))) > 10_000
    # A busy process may have objects that are garbage later.
    assert int(in_fresh_process(script.format("x = [[] for _ in range(30000)]"))) == 0
    # Of a program that decides for itself, nothing more is hidden.
    assert int(in_fresh_process(script.format("gc.freeze()"))) < 20_000


AT_THE_END = """
import atexit, gc, sys
from os import write
atexit.register(lambda: print(len(gc.get_objects()) < 1000, flush=True))  # after what `drjit` does
{}
import drjit as dr
from drjit.llvm import Float
print(Float(1, 2) + 1)
class Owner: pass
owner = Owner()
owner.owner = owner
{}
"""
FINALIZED = {
    "a finalizer": "Owner.__del__ = lambda self, write=write: write(1, b'done\\n')",
    "a file": "owner.file = open(1, 'w', closefd=False); owner.file.write('done\\n')",
    "a file of the program": "file = open(1, 'w', closefd=False); file.write('done\\n')",
    "a generator": """
def steps(write):
    try:
        yield
    finally:
        write(1, b"done\\n")
owner.steps = steps(write)
next(owner.steps)
""",
}


def test_the_end_of_a_process_hides_what_needs_no_finalizer():
    assert in_fresh_process(AT_THE_END.format("", "")) == "[2, 3]\nTrue\n"
    binary = "sys.modules['other'] = type(sys)('other'); sys.modules['other'].__file__ = '/a.so'"
    assert in_fresh_process(AT_THE_END.format("", binary)) == "[2, 3]\nFalse\n"


@pytest.mark.parametrize("code", FINALIZED.values(), ids=FINALIZED)
def test_finalizers_in_cycles_run_at_the_end(code):
    assert in_fresh_process(AT_THE_END.format("", code)) == "[2, 3]\nFalse\ndone\n"


def test_files_from_before_the_import_are_written_at_the_end():
    file = "file = open(1, 'w', closefd=False); file.write('done\\n')"
    assert in_fresh_process(AT_THE_END.format(file, "")) == "[2, 3]\nFalse\ndone\n"


FORWARD = """
import gc, weakref
import drjit as dr
from drjit.llvm.ad import Float
class Cycle: pass
before = gc.get_freeze_count()
cycle, x = Cycle(), Float(1, 2)
cycle.cycle, alive = cycle, weakref.ref(cycle)
if {freeze}:
    gc.freeze()
dr.enable_grad(x)
y = x * x
dr.forward(x)
print(y.grad, gc.get_freeze_count() > before, gc.get_freeze_count() > before // 2)
del cycle
gc.collect()
print(alive() is None)
"""


@pytest.mark.parametrize("freeze", [False, True])
def test_a_forward_traversal_freezes_only_what_the_program_froze(freeze):
    output = in_fresh_process(FORWARD.format(freeze=freeze))
    assert output == f"[2, 4] {freeze} True\n{not freeze}\n"


@pytest.mark.parametrize("tier", ["auto", "compiled"])
def test_a_program_without_numpy_prints_what_it_prints_with_it(monkeypatch, tier):
    monkeypatch.setenv("DRJIT_TIER", tier)
    before, after = in_fresh_process(WITHOUT_NUMPY).split("False\n")
    assert before + "True\n" + after == in_fresh_process("import numpy" + WITHOUT_NUMPY)


def test_version_is_that_of_the_distribution():
    assert dr.__version__ == version("drjit-numba")
    assert f"\nversion: {dr.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_extra_package_of_the_examples_is_declared():
    declared = {
        re.match(r"[\w-]+", line).group()
        for line in requires("drjit-numba") or []
        if 'extra == "examples"' in line or "extra ==" not in line
    }
    imported = {
        re.match(r"\w+", module).group()
        for path in (ROOT / "drjit_examples").glob("*.py")
        for module in re.findall(r"^\s*(?:import|from) ([\w.]+)", path.read_text(), re.MULTILINE)
    }
    known = set(sys.stdlib_module_names) | {"drjit", "drjit_examples", "numpy"}
    assert imported - known <= declared


@pytest.mark.parametrize(
    "name", ["scalar", "llvm", "llvm.ad", "cuda", "cuda.ad", "auto", "auto.ad"]
)
def test_namespaces(name: str):
    namespace = importlib.import_module(f"drjit.{name}")
    for kind in ("Float", "Bool", "UInt32", "Array3f", "TensorXf"):
        assert kind in dir(namespace)
        assert isinstance(getattr(namespace, kind), type)


def test_namespaces_are_attributes_of_the_package():
    assert in_fresh_process("import drjit; print(drjit.llvm.ad.Float.__name__)") == "Float\n"


def test_imports_point_downwards():
    upwards = [
        f"{module} imports {other}"
        for module in FILES
        for other in sorted(imports(module))
        if layer(other) > layer(module)
    ]
    assert upwards == []


def test_folders_of_a_package_build_on_each_other_in_order():
    upwards = [
        f"{module} imports {other}"
        for module in FILES
        for other in sorted(imports(module))
        if folder(other)[0] == folder(module)[0] and folder(other)[1] > folder(module)[1]
    ]
    assert upwards == []


def test_imports_have_no_cycle():
    # static_order raises CycleError, with the cycle.
    order = list(TopologicalSorter({module: imports(module) for module in FILES}).static_order())
    assert set(order) == set(FILES)


def test_the_readme_gives_the_two_commands_that_the_checks_run():
    command = ["bash", ROOT / ".ci" / "run", "--show"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    in_readme = [
        line for line in (ROOT / "README.md").read_text().splitlines() if "-m venv" in line
    ]
    assert shown == in_readme
    example, tests = shown
    assert re.search(r"install .*\[examples\].* && \S+ -m drjit demo \w+$", example)
    assert re.search(r"install .*\[test\].* && \S+ -m pytest\b", tests)


def test_the_extras_that_the_readme_installs_exist():
    assert {"examples", "test"} <= set(metadata("drjit-numba").get_all("Provides-Extra") or [])
