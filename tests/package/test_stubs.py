"""The stubs of the namespaces: current, complete, and what type checkers make of them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import drjit as dr
from drjit.array import table

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"


@pytest.mark.interpreter
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


FILES = [DATA / "typing_uses.py", DATA / "typing_mistakes.py"]


def errors(name: str, *options: str, files: list[Path] = FILES) -> str:
    """The output of a type checker about the files, which it checks in order."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    made = subprocess.run(
        [sys.executable, "-m", name, *options, *map(str, files)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return made.stdout


def check(found: dict[tuple[str, int], str]) -> None:
    """Checks that the reports are about those lines that are marked as wrong."""
    lines = FILES[1].read_text().split("\n")
    expected = {(FILES[1].name, n) for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {place: found[place] for place in found.keys() - expected} == {}
    assert expected - found.keys() == set()


# What pyright knows of types that refer to each other can depend on which it meets first.
@pytest.mark.parametrize("files", [FILES, FILES[::-1]], ids=["uses first", "mistakes first"])
def test_pyright_knows_types_and_reports_mistakes(files):
    reports = json.loads(errors("pyright", "--outputjson", files=files))["generalDiagnostics"]
    check(
        {
            (Path(r["file"]).name, r["range"]["start"]["line"] + 1): r["message"]
            for r in reports
            if r["severity"] == "error"
        }
    )


def test_mypy_knows_types_and_reports_mistakes():
    text = errors(
        "mypy", "--config-file=", "--strict", "--no-error-summary", "--cache-dir", os.devnull
    )
    reports = re.findall(r"^(\S+?):(\d+): error: (.*)$", text, re.MULTILINE)
    # Of an installed package, mypy reports nothing; of one in this folder, all that it would find.
    own = {f.name for f in FILES}
    found = {(Path(file).name, int(line)): message for file, line, message in reports}
    check({place: message for place, message in found.items() if place[0] in own})


@pytest.mark.sweep  # .ci/run calls both
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pyright", ["-p", ".ci/strict.json", "--pythonpath", sys.executable]),
        ("mypy", ["--cache-dir", os.devnull]),
    ],
)
def test_examples_and_programs_are_typed_strictly(name, options):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    made = subprocess.run(
        [sys.executable, "-m", name, *options], capture_output=True, text=True, cwd=ROOT
    )
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from drjit.auto.ad import Float\nFloat(1).", ["numpy", "grad", "item"]),
        ("import drjit as dr\ndr.", ["minimum", "sum", "gather", "sin", "zeros"]),
        ("import drjit as dr\ndr.opt.Adam(1).", ["step", "keys", "set_learning_rate"]),
    ],
)
def test_an_editor_completes_names_with_their_docstrings(text, names):
    jedi = pytest.importorskip("jedi")
    found = {c.name: c for c in jedi.Script(text, project=jedi.Project(ROOT)).complete()}
    for name in names:
        said = found[name].docstring(raw=True).strip()
        assert said and said[0].isupper(), name
