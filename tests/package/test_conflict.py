"""Dr.Jit itself, the distribution `drjit`, has a package of the same name: whoever installs both in
one environment is told so, whatever came first, and what to do."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import drjit

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.processor,
    pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="there is no pip"),
]

PACKAGE = Path(drjit.__file__).parent
# Names of files of the other distribution, and what stands for their contents.
EXTENSION = f"drjit/_drjit_ext{importlib.machinery.EXTENSION_SUFFIXES[0]}"
OTHER = {
    "drjit/__init__.py": '__version__ = "1.5.0"\n', "drjit/nn.py": "", "drjit/opt.py": "",
    "drjit/auto/__init__.py": "", EXTENSION: "",
}  # fmt: skip


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """Returns the path of a new wheel with some files."""
    facts = f"{name.replace('-', '_')}-{version}"
    info = f"{facts}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [*files, f"{info}/RECORD"]
    files[rows[-1]] = "".join(f"{row},,\n" for row in rows)
    path = folder / f"{facts}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for row, text in files.items():
            archive.writestr(row, text)
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    own = {
        str(path.relative_to(PACKAGE.parent)): path.read_text("utf-8")
        for package in (PACKAGE, PACKAGE.parent / "drjit_examples")
        for path in package.rglob("*.py")
    }
    return {
        "drjit": wheel(folder, "drjit", "1.5.0", OTHER),
        "drjit-numba": wheel(folder, "drjit-numba", drjit.__version__, own),
    }


class Environment:
    """An environment of its own, in which packages are installed one after the other."""

    def __init__(self, folder: Path, wheels: dict[str, Path]) -> None:
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        self.folder, self.wheels = folder, wheels
        self.python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def start(self, *command: str) -> subprocess.CompletedProcess:
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        options = {"env": variables, "capture_output": True, "text": True, "cwd": self.folder}
        return subprocess.run(command, **options)

    def pip(self, *command: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "-q"]
        done = self.start(*pip, *command)
        assert done.returncode == 0, done.stderr

    def install(self, name: str) -> None:
        self.pip("install", "--no-index", "--no-deps", "--no-compile", str(self.wheels[name]))

    def run(self, *command: str) -> tuple[str, str]:
        done = self.start(str(self.python), *command)
        return done.stdout, done.stderr


def test_this_one_installed_over_the_other(tmp_path, wheels):
    there = Environment(tmp_path, wheels)
    there.install("drjit")
    there.install("drjit-numba")
    _, shown = there.run("-c", "import drjit; drjit.llvm.Float")
    assert shown.startswith("<string>:1: RuntimeWarning: the distribution 'drjit' (Dr.Jit itself)")
    assert "pip uninstall drjit drjit-numba" in shown and shown.count("Warning") == 1
    report, _ = there.run("-m", "drjit", "doctor")
    assert "files of the distribution 'drjit' (Dr.Jit itself) are mixed in" in report
    assert "self test" in report
    there.pip("uninstall", "-y", "drjit")
    report, shown = there.run("-m", "drjit", "doctor")
    assert "has no __init__.py" in shown and "`pip uninstall drjit-numba`" in shown and not report


def test_the_other_installed_over_this_one(tmp_path, wheels):
    there = Environment(tmp_path, wheels)
    there.install("drjit-numba")
    found, shown = there.run("-c", "import drjit; print(drjit.__version__)")
    assert (found.strip(), shown) == (drjit.__version__, "")
    there.install("drjit")
    report, shown = there.run("-m", "drjit", "doctor")
    assert "`import drjit` gives the distribution 'drjit' (Dr.Jit itself), version 1.5.0" in shown
    assert "pip uninstall drjit drjit-numba" in shown and not report
