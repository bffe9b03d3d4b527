"""Runs some programs when the site has been built, and writes reports of them beside its pages:
`reports/NAME.html`. The role `report` makes a link to one.

Each program is small enough for some seconds, and compiles everything, as its first run would. A
report is made again if its program or the package's part for reports has changed since.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from drjit.reporting import page

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "drjit_examples"
ROW = ",".join(str(100 * 256 + k) for k in range(0, 256, 8))  # lanes: a row of a picture
# The options of a report, the program, and its own options.
PROGRAMS: dict[str, tuple[list[str], Path, list[str]]] = {
    "cloud": (["--lanes", "nan", "--gradients"], ROOT / "docs" / "tutorials" / "cloud.py", []),
    "mandelbrot": (
        ["--lanes", ROW],
        EXAMPLES / "mandelbrot.py",
        ["--size", "256", "--limit", "100"],
    ),
    "neural_field": ([], EXAMPLES / "neural_field.py", ["--iterations", "40"]),
    "path_tracing": ([], EXAMPLES / "path_tracing.py", ["--size", "128", "--samples", "64"]),
    "sphere_tracing": ([], EXAMPLES / "sphere_tracing.py", ["--size", "256"]),
}
SECONDS = 300  # that a program may take on a busy machine
LARGEST = 750_000  # bytes of a report


def make(name: str, to: Path) -> str:
    """Runs a program and writes its report; returns what went wrong, or an empty text."""
    options, program, own = PROGRAMS[name]
    path = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DRJIT_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": path}
        if program.parent == EXAMPLES:
            own = [*own, "--output", f"{folder}/{name}.png"]
        command = [sys.executable, "-m", "drjit", "report", *options, "--out", str(to)]
        command += [str(program.relative_to(ROOT)), *own]
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=environment, timeout=SECONDS, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return f"the report of {name} takes more than {SECONDS} s"
        if run.returncode:
            return f"the report of {name} failed:\n{run.stderr}"
        whole = to.read_text("utf-8")
        data = page.read(whole)
        text = json.dumps(data)
        for where in (folder, str(ROOT)):  # where files are is nobody's concern
            text = text.replace(json.dumps(where + os.sep)[1:-1], "")
        whole = whole.replace(page.embedded(data), page.embedded(json.loads(text)))
        to.write_text(whole, "utf-8")
    size = to.stat().st_size
    return f"the report of {name} has {size:,} bytes" if size > LARGEST else ""


def is_fresh(name: str, file: Path) -> bool:
    """Returns whether a report is newer than what it is made of."""
    sources = [PROGRAMS[name][1], Path(__file__), *(ROOT / "drjit" / "reporting").glob("*.*")]
    return file.exists() and file.stat().st_mtime > max(s.stat().st_mtime for s in sources)


def setup(app: Any) -> dict[str, bool]:
    from docutils import nodes
    from sphinx.util import logging
    from sphinx.util.docutils import ReferenceRole

    logger = logging.getLogger(__name__)

    class Report(ReferenceRole):
        """`report`, with a name or with a text and a name: a link to a report."""

        def run(self) -> Any:
            if self.target not in PROGRAMS:
                logger.warning("there is no report %s", self.target, location=self.env.docname)
            up = "../" * self.env.docname.count("/")
            address = f"{up}reports/{self.target}.html"
            return [nodes.reference("", self.title, refuri=address, internal=False)], []

    def write(app: Any, error: Exception | None) -> None:
        if error is not None or app.builder.format != "html":
            return
        folder = Path(app.outdir) / "reports"
        folder.mkdir(exist_ok=True)
        for name in PROGRAMS:
            file = folder / f"{name}.html"
            if not is_fresh(name, file) and (wrong := make(name, file)):
                file.unlink(missing_ok=True)
                logger.warning("%s", wrong)

    app.add_role("report", Report())
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
