"""The `>>>` examples of the pages in docs/ and the programs of the README do what they say.

Examples of a section share their names. Sections about another framework run where it is installed.
"""

import importlib
import inspect
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import drjit as dr

DOCS = Path(__file__).parents[2] / "docs"
README = DOCS.parent / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))
sys.path.append(str(DOCS / "_ext"))
examples = importlib.import_module("examples")
SECTIONS = [
    (f"{page.stem}: {title}", text)
    for page in PAGES
    for title, text in examples.sections(page.read_text())
]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("title", "text"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_section(title: str, text: str):
    for framework in examples.frameworks(text):
        pytest.importorskip(framework, reason=f"{framework} is not installed")
    failures = examples.failures(text, title)
    assert not failures, failures


def test_there_are_examples():
    assert len(SECTIONS) >= 10


@pytest.mark.parametrize(
    "program", re.findall(r"^```python\n(import drjit.*?)^```$", README.read_text(), re.M | re.S)
)
def test_program_of_the_readme(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "program.py"
    file.write_text(program)
    runpy.run_path(str(file))
    expected = re.findall(r"^print\(.*\)  # (\[.*\])$", program, re.M)
    assert expected
    assert capsys.readouterr().out.splitlines()[-len(expected) :] == expected


def test_the_readme_of_a_package_index_refers_to_the_repository():
    setup = runpy.run_path(str(README.parent / "setup.py"), run_name="setup")
    assert setup["readme"]("") == README.read_text()
    where = "https://example.org/drjit"
    links = re.findall(r"\]\(([^)]*)\)", setup["readme"](where))
    own = [link for link in links if link.startswith(where)]
    assert len(own) > 40 and all(link.startswith(("https://", "#")) for link in links)
    for link in own:
        kind, main, path = link[len(where) + 1 :].split("/", 2)
        assert (README.parent / path).is_file() and main == "main"
        assert kind == ("raw" if "/images/" in path else "blob")


def test_files_that_pages_name_exist():
    """Paths such as `drjit/jit/ir/node.py`; a line of a name may be wrapped, a path may not."""
    for page in [README, *PAGES]:
        named = re.findall(
            r"`((?:drjit|tests|examples|benchmarks)/[\w/]+(?:\.py)?)`", page.read_text()
        )
        missing = [name for name in named if not (DOCS.parent / name).exists()]
        assert not missing, f"{page.name} names files that are not there: {missing}"


def test_the_reference_has_every_public_name():
    reference = SimpleNamespace(**runpy.run_path(str(DOCS / "_ext" / "reference_pages.py")))
    text = "\n".join(reference.pages().values())
    documented = set(re.findall(r"^\.\. [\w:]+:: drjit\.(\w+)$", text, re.M))
    public = {n for n in dir(dr) if not n.startswith("_") and not inspect.ismodule(getattr(dr, n))}
    assert public - documented == set()
    for name in reference.MODULES:
        module = getattr(dr, name, None) or importlib.import_module(f"drjit.{name}")
        listed = set(re.findall(rf"^\.\. [\w:]+:: drjit\.{name}\.(\w+)$", text, re.M))
        assert set(module.__all__) == listed


def test_the_report_of_the_tutorial_finds_the_mistakes_of_its_program(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.syspath_prepend(str(DOCS / "tutorials"))
    cloud = importlib.import_module("cloud")
    monkeypatch.setattr(cloud, "RAYS", 1000)
    with dr.report(lanes="nan", gradients=True) as run:
        cloud.main(12)
    data, lines = run.data(), Path(str(cloud.__file__)).read_text().splitlines()

    def line(place: int) -> str:
        return lines[data["places"][place][1] - 1].strip()

    reasons = [reason for row in data["why"] for reason in row["reasons"]]
    assert any("`detail` is a Python int" in r["text"] and "2 was 1" in r["text"] for r in reasons)
    (recorded,) = data["lanes"]
    kernel, (origin,) = data["kernels"][recorded["kernel"]], recorded["origins"]
    chain = [recorded["steps"][k] for k in origin["chain"]]
    assert chain[0][3] == ["nan"] and chain[1][3][0] < 0
    assert "dr.log(1 - density" in line(kernel["places"][chain[0][0] - 1])
    norms = {v["label"]: v["norm"] for v in data["derivatives"][0]["variables"] if v["leaf"]}
    assert norms["edge"] == 0 and norms["density"] > 0
    (lost,) = data["lost"]
    assert lost["kind"] == "comparison" and line(lost["place"]) == "if water > edge:"
