"""Processes that begin with the package imported, which takes longer than what many tests let a
process do.

A nursery is a process that imports, and forks another for each script or text it is asked to run:
one that has evaluated nothing, and ends as any interpreter does. Where there is no fork, a script
runs in a new interpreter. What is about the start of a process needs one of those in any case.
"""

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 120
# Without the compiler: processes compile less, and later, as long as they have not loaded it.
IMPORTS = ("drjit.auto.ad", "drjit.scalar", "drjit.nn", "drjit.opt", "drjit.hashgrid")


def run(
    program: Path | str,
    *arguments: str,
    environment: dict[str, str | None] | None = None,
    imports: tuple[str, ...] = (),
    strict: bool = False,
    seconds: int = SECONDS,
) -> subprocess.CompletedProcess:
    """Runs a script, or the text of one. Folders of scripts are not on the path of modules.

    `environment` replaces variables, or removes them for None, of those which are read when needed:
    the package has been imported. `imports` are imported by all scripts from now on. If `strict`,
    warnings are errors. A process that takes longer than `seconds` is ended.
    """
    changed = {k: v for k, v in (os.environ | (environment or {})).items() if v is not None}
    if not hasattr(os, "fork"):
        what = [program] if isinstance(program, Path) else ["-c", program]
        command = [sys.executable, "-P", *(["-W", "error"] * strict), *what, *arguments]
        return subprocess.run(command, env=changed, capture_output=True, text=True, timeout=seconds)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "output", Path(folder) / "errors"]
        job = {
            "path": str(program) if isinstance(program, Path) else None,
            "text": program.read_text() if isinstance(program, Path) else program,
            "arguments": arguments,
            "environment": changed,
            "imports": imports,
            "strict": strict,
            "seconds": seconds,
            "files": [str(path) for path in files],
        }
        nursery = _nursery()
        nursery.stdin.write(json.dumps(job) + "\n")
        nursery.stdin.flush()
        status = int(nursery.stdout.readline())
        return subprocess.CompletedProcess(program, status, *[path.read_text() for path in files])


@cache
def _nursery() -> subprocess.Popen:
    path = f"import sys; sys.path.insert(0, {str(HERE)!r}); import nursery; del sys.path[0]"
    code = f"{path}; nursery.serve()"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)  # which closes its input, and so ends it
    return process


def serve() -> None:
    """Forks a process for each line of the input; prints its status when it has ended."""
    for name in IMPORTS:
        importlib.import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        for name in job["imports"]:
            importlib.import_module(name)
        with warnings.catch_warnings():
            # Newer Pythons warn of the threads of NumPy's linear algebra, which expects forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _become(job)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(job: dict) -> None:
    """Runs a script in this process, which is to end when this returns."""
    signal.alarm(job["seconds"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, path in enumerate(job["files"], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(job["environment"])
    if job["strict"]:
        warnings.simplefilter("error")
    path = job["path"] or "<text>"
    sys.argv[:] = [path, *job["arguments"]]
    main = types.ModuleType("__main__")
    main.__dict__["__file__"] = path
    sys.modules["__main__"] = main
    exec(compile(job["text"], path, "exec"), main.__dict__)
