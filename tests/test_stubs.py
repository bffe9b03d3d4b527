"""The stubs of the namespaces: current, complete, and what type checkers make of them."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import drjit as dr
from drjit.array import table

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests/data"


def test_the_stubs_are_current():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / ".ci/stubs.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for path, text in script.stubs().items():
        assert path.read_text() == text, f"{path} is out of date: run .ci/stubs.py"


@pytest.mark.parametrize("namespace", ["scalar", "llvm", "llvm.ad", "cuda", "cuda.ad"])
def test_every_type_is_in_the_stub_of_its_namespace(namespace):
    first, _, second = namespace.partition(".")
    text = (ROOT / "drjit" / first / f"{second or '__init__'}.pyi").read_text()
    for name in table.names(namespace):
        assert f"class {name}(" in text or f"\n{name}: TypeAlias" in text, name


def test_components_in_the_stubs_exist():
    found = {}
    for size, cls in ((2, dr.llvm.Array2f), (3, dr.llvm.Array3f), (4, dr.llvm.Array4f)):
        text = (ROOT / "drjit/array/swizzles.pyi").read_text()
        body = text.partition(f"class Swizzles{size}(")[2].partition("\nclass ")[0]
        found[size] = [line.split(":")[0].strip() for line in body.split("\n") if ": Part" in line]
        for name in found[size]:
            assert getattr(cls(1), name) is not None
    assert sum(map(len, found.values())) == 4 + 4**2 + 4**3 + 4**4


def test_a_type_checker_knows_types_and_reports_mistakes():
    files = [DATA / "typing_uses.py", DATA / "typing_mistakes.py"]
    made = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", *map(str, files)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    reports = json.loads(made.stdout)["generalDiagnostics"]
    found = {
        (Path(r["file"]).name, r["range"]["start"]["line"]): r["message"]
        for r in reports
        if r["severity"] == "error"
    }
    lines = files[1].read_text().split("\n")
    expected = {(files[1].name, n) for n, line in enumerate(lines) if line.endswith("# wrong")}
    assert {place: found[place] for place in found.keys() - expected} == {}
    assert expected - found.keys() == set()
