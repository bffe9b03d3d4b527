"""Checks and measures `drjit.cuda` on this machine's GPU, and writes a report in Markdown.

    python benchmarks/gpu.py [--out FOLDER] [--minutes 8] [--emulated] [--scale LOG2]

The report, `report.md` in the folder, is also printed. First, a corpus of programs runs on the GPU
and on the emulated one: what they compute must be equal, bit by bit but for the order in which
floats are summed. Then it measures memory, networks, launches and arithmetic, and tries what else
there is. With `--emulated`, everything runs on the emulated GPU at a tiny size, which checks the
script; the times mean nothing then. `--scale` is the binary logarithm of the number of entries in
large workloads.

Each part is a process with a limit of time: what ends it costs the row in which it happened, and
the rest of the part goes on in another process. What failed runs again, one launch at a time, and
under compute-sanitizer where that is installed; the folder has the kernels of all errors.
`--part NAME` runs one part in this process.
"""

# This process imports nothing that uses the GPU, or that may be missing.
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import gpu_report

ROOT = Path(__file__).parents[1]
GRACE = 10.0  # seconds that a process has to write what it knows when its time is up
AGAIN = 40.0  # seconds of a row that runs again
MOST_AGAIN = 3  # rows of a part run again
MOST_PROCESSES = 6  # of a part
TAIL = 25  # lines of the output of a process that ended too early


class Part(NamedTuple):
    """Rows that share a process: the module and the function that yields them, and the seconds that
    they have."""

    module: str
    function: str
    seconds: float


CORPUS = {
    "elementary functions": Part("gpu_programs", "elementary", 90),
    "access to memory": Part("gpu_programs", "memory", 60),
    "collectives": Part("gpu_programs", "collectives", 60),
    "control flow": Part("gpu_programs", "control_flow", 60),
    "networks": Part("gpu_programs", "networks", 60),
}
"""What is compared with the emulated GPU."""
PARTS = {
    "facts": Part("gpu_tries", "facts", 60),
    **CORPUS,
    "streams": Part("gpu_programs", "streams", 60),
    "speed of networks": Part("gpu_programs", "speeds", 60),
    "small kernels": Part("gpu_programs", "small_kernels", 30),
    "sorting": Part("gpu_programs", "sorting", 40),
    "bad indices": Part("gpu_tries", "bad_index", 40),
    "Ctrl-C": Part("gpu_tries", "interrupt", 20),
    "full memory": Part("gpu_tries", "full_memory", 40),
    "limit of memory": Part("gpu_tries", "memory_limit", 30),
    "threads": Part("gpu_tries", "threads", 40),
    "loops": Part("gpu_programs", "loops", 60),
    "reductions": Part("gpu_programs", "reductions", 60),
    "products": Part("gpu_programs", "products", 60),
    "networks in single precision": Part("gpu_programs", "speeds_single", 90),
    "PyTorch": Part("gpu_tries", "pytorch", 60),
    "CuPy": Part("gpu_tries", "cupy", 60),
    "Numba": Part("gpu_tries", "numba", 60),
    "green contexts": Part("gpu_tries", "green", 30),
    "OpenGL": Part("gpu_tries", "graphics", 30),
    "launches": Part("gpu_programs", "calls", 60),
    "new kernels": Part("gpu_programs", "new_kernels", 60),
    "products by warpgroups": Part("gpu_programs", "warpgroups", 60),
}
"""What matters most comes first."""


def folder_of(out: Path, part: str, how: str) -> Path:
    """Returns the folder of a part's processes."""
    return out / "parts" / (part if how == "plain" else f"{part}.{how}").replace(" ", "_")


class Problem(NamedTuple):
    """What went wrong in a row, the kernels that may be its cause, and what was found out about it
    later."""

    part: str
    row: str
    text: str
    kernels: tuple[str, ...] = ()
    folder: Path = Path()
    found: tuple[str, ...] = ()


class Outcome:
    """What a part has found: the entries of the journal for its rows, its `status`, and
    `problems`."""

    def __init__(self, name: str) -> None:
        self.name, self.seconds, self.status = name, 0.0, "not started"
        self.rows: dict[str, dict[str, Any]] = {}
        self.problems: list[Problem] = []


class Session:
    """All processes of a run, and what they have found."""

    def __init__(self, options: argparse.Namespace, parts: dict[str, Part]) -> None:
        self.out, self.options, self.parts = options.out, options, parts
        self.end = time.monotonic() + 60 * options.minutes
        self.outcomes = {name: Outcome(name) for name in parts}
        self.running: set[subprocess.Popen] = set()

    @property
    def remaining(self) -> float:
        return self.end - time.monotonic()

    @property
    def problems(self) -> list[Problem]:
        return [p for outcome in self.outcomes.values() for p in outcome.problems]

    # ---- Processes

    def start(self, part: str, how: str, *more: str, prefix: tuple[str, ...] = ()) -> Any:
        """Starts a process of a part."""
        options, folder = self.options, folder_of(self.out, part, how)
        folder.mkdir(parents=True, exist_ok=True)
        command = [*prefix, sys.executable, sys.argv[0], "--part", part, "--out", str(self.out)]
        command += ["--how", how, "--scale", str(options.scale), *more]
        command += ["--emulated"] * options.emulated
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        own = {"PYTHONPATH": path, "DRJIT_CACHE_DIR": str(self.out / "cache")}
        own["DRJIT_TRACEBACK"] = "full"
        if how in ("blocking", "checked"):
            own |= {"CUDA_LAUNCH_BLOCKING": "1", "DRJIT_VERIFY": "1"}
        with (folder / "output.log").open("a") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, env=os.environ | own,
            )  # fmt: skip
        self.running.add(process)
        return process

    def wait(self, process: Any, seconds: float) -> str:
        """Returns how a process has ended, after so many seconds at the latest."""
        seconds = max(min(seconds, self.remaining), 1)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop(process)
            return f"timed out after {seconds:.0f} s"
        self.running.discard(process)
        if code < 0:
            return f"ended by signal {-code} ({signal.Signals(-code).name})"
        return f"ended with status {code}" if code else "ended"

    def stop(self, process: Any) -> None:
        """Ends a process, which first writes what it knows, and those that it has started."""
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        with suppress(ProcessLookupError, AttributeError):  # Windows has no groups
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        self.running.discard(process)

    # ---- Parts

    def run(self) -> None:
        """Runs all parts. Those of the corpus are compared with emulated ones, which begin with the
        first of them."""
        emulated: dict[str, Any] = {}
        for name, outcome in self.outcomes.items():
            if name in CORPUS and not emulated:
                emulated = self.start_emulated()
            if self.remaining < 5:
                outcome.problems.append(Problem(name, "", "not started: the time is up"))
                continue
            if name in emulated:
                self.expect(outcome, emulated[name])
            start, outcome.status = time.monotonic(), "interrupted"
            self.run_part(outcome)
            outcome.seconds = time.monotonic() - start
            print(f"{name}: {outcome.status}, {outcome.seconds:.1f} s", file=sys.stderr, flush=True)
            if name == "facts" and "GPU" not in outcome.rows:
                return
            if name in emulated:
                self.complete(outcome)
            self.report()
        for outcome in self.outcomes.values():
            self.examine(outcome)

    def start_emulated(self) -> dict[str, Any]:
        """Starts what computes the corpus on an emulated GPU of the same compute capability."""
        facts = self.outcomes["facts"].rows if "facts" in self.outcomes else {}
        capability = facts.get("compute capability", {"text": "9.0"})["text"]
        more = "--capability", capability
        return {name: self.start(name, "emulated", *more) for name in CORPUS if name in self.parts}

    def expect(self, outcome: Outcome, process: Any) -> None:
        """Waits for what the emulated GPU computes."""
        name = outcome.name
        status = self.wait(process, self.parts[name].seconds)
        for entry in self.journal(name, "emulated"):
            if "problem" in entry:
                text = f"on the emulated GPU: {entry['problem']}"
                folder = folder_of(self.out, name, "emulated")
                problem = Problem(name, entry["row"], text, tuple(entry["kernels"]), folder)
                outcome.problems.append(problem)
        if status != "ended":
            text = f"the emulated run {status}{self.tail(name, 'emulated')}"
            outcome.problems.append(Problem(name, "", text))

    def complete(self, outcome: Outcome) -> None:
        """Notes results that only the emulated GPU has."""
        there = set(outcome.rows) | {p.row for p in outcome.problems}
        computed = [e["row"] for e in self.journal(outcome.name, "emulated") if "text" in e]
        missing = [row for row in computed if row not in there]
        if missing:
            text = f"only the emulated GPU has computed {', '.join(missing)}"
            outcome.problems.append(Problem(outcome.name, "", text))

    def run_part(self, outcome: Outcome) -> None:
        """Runs the rows of a part. If a row ends the process, those after it have another one."""
        name, after, ends, complete = outcome.name, "", [], False
        while not complete and len(ends) < MOST_PROCESSES and (after or not ends):
            seen = len(self.journal(name))
            process = self.start(name, "plain", "--after", after)
            status = self.wait(process, self.parts[name].seconds)
            entries = self.journal(name)[seen:]
            self.enter(outcome, entries)
            ends.append(status)
            complete = status == "ended" and any("end" in entry for entry in entries)
            after = "" if complete else self.interrupted_row(outcome, entries, status)
            if self.remaining < 5:
                break
        outcome.status = "complete" if complete else "incomplete"
        outcome.status += f", in {len(ends)} processes" if len(ends) > 1 else ""
        outcome.status += "".join([f"; one {status}" for status in ends if status != "ended"])

    def interrupted_row(self, outcome: Outcome, entries: list[dict], status: str) -> str:
        """Returns the row in which a process has ended, or nothing if it was in none; notes this as
        a problem unless the process has done so."""
        begun = next((e["begin"] for e in reversed(entries) if "begin" in e), "")
        row = begun if begun not in outcome.rows else ""
        if not any("problem" in e and e["row"] in (begun, "") for e in entries):
            text = f"the process {status}{self.tail(outcome.name)}"
            outcome.problems.append(Problem(outcome.name, row, text))
        elif status != "ended":
            last = outcome.problems[-1]
            outcome.problems[-1] = last._replace(text=f"the process {status}: {last.text}")
        return row

    def enter(self, outcome: Outcome, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if "problem" in entry:
                folder = folder_of(self.out, outcome.name, "plain")
                text, kernels = entry["problem"], tuple(entry["kernels"])
                outcome.problems.append(Problem(outcome.name, entry["row"], text, kernels, folder))
            elif "begin" not in entry and "end" not in entry:
                outcome.rows[entry["row"]] = entry

    def journal(self, part: str, how: str = "plain") -> list[dict[str, Any]]:
        file = folder_of(self.out, part, how) / "journal"
        entries = []
        for line in file.read_text().splitlines() if file.exists() else ():
            with suppress(ValueError):  # a process ended while it wrote
                entries.append(json.loads(line))
        return entries

    def tail(self, part: str, how: str = "plain") -> str:
        """Returns the end of what a process has said, as a paragraph."""
        file = folder_of(self.out, part, how) / "output.log"
        lines = file.read_text(errors="replace").splitlines()[-TAIL:] if file.exists() else []
        return "\n".join(["", *lines]) if lines else ""

    # ---- Again

    def examine(self, outcome: Outcome) -> None:
        """Runs the rows that failed once more, one launch at a time, and the first one under
        compute-sanitizer as well."""
        tool, rows = shutil.which("compute-sanitizer"), set()
        for k, problem in enumerate(outcome.problems):
            row = problem.row
            if not row or row in rows or len(rows) == MOST_AGAIN or self.remaining < 10:
                continue
            again = self.again(outcome.name, row, "blocking")
            found = [f"One launch at a time, {again.text}"]
            if tool and not rows and self.remaining > 10:
                check = (tool, "--error-exitcode", "9")
                checked = self.again(outcome.name, row, "checked", check)
                found.append(f"Under compute-sanitizer, {checked.text}")
            rows.add(row)
            if not problem.kernels:
                problem = problem._replace(kernels=again.kernels, folder=again.folder)
            outcome.problems[k] = problem._replace(found=tuple(found))
            self.report()

    def again(self, part: str, row: str, how: str, prefix: tuple[str, ...] = ()) -> Problem:
        """Returns what happens when a row runs once more."""
        seen, folder = len(self.journal(part, how)), folder_of(self.out, part, how)
        seconds = min(AGAIN, self.parts[part].seconds)
        status = self.wait(self.start(part, how, "--row", row, prefix=prefix), seconds)
        told = [e for e in self.journal(part, how)[seen:] if "problem" in e]
        kernels: tuple[str, ...] = ()
        if told:
            kernels, text = tuple(told[-1]["kernels"]), f"it fails: {told[-1]['problem']}"
        elif status == "ended":
            text = "it works."
        else:  # all kernels are written before they run, so the newest one is what ran
            made = sorted(folder.glob("*.txt"), key=lambda file: file.stat().st_mtime_ns)
            kernels, text = tuple(file.stem for file in made[-1:]), f"the process {status}."
        if kernels:
            text = f"in kernel {', '.join(kernels)}, {text}"
        return Problem(part, row, text + self.tail(part, how) * bool(prefix), kernels, folder)

    def report(self) -> str:
        """Writes the report of what is known by now."""
        text = gpu_report.render(self)
        (self.out / "report.md").write_text(text)
        return text


@contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """Ends the processes with this one, and leaves the report behind in any case."""

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for process in list(session.running):
            session.stop(process)
        print(session.report())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    folder = Path(time.strftime("gpu-report-%Y%m%d-%H%M%S"))
    parser.add_argument("--out", type=Path, default=folder, help="folder to write to")
    parser.add_argument("--minutes", type=float, default=8, help="limit of the whole run")
    parser.add_argument("--emulated", action="store_true", help="check this script without a GPU")
    parser.add_argument("--scale", type=int, help="log2 of the entries of large workloads")
    parser.add_argument("--part", help="run one part in this process")
    how = ("plain", "emulated", "blocking", "checked")
    parser.add_argument("--how", choices=how, default="plain", help="how to run the part")
    parser.add_argument("--capability", default="9.0", help="of the emulated GPU")
    parser.add_argument("--after", default="", help="rows of the part up to this one are skipped")
    parser.add_argument("--row", action="append", help="rows of the part, instead of all")
    return parser.parse_args()


def main(parts: dict[str, Part] = PARTS) -> None:
    options = parse()
    options.out = options.out.resolve()
    options.scale = options.scale or (12 if options.emulated else 28)
    if options.part:
        if options.emulated or options.how == "emulated":
            os.environ["DRJIT_CUDA"] = "emulated"
        folders = [folder_of(options.out, options.part, how) for how in (options.how, "emulated")]
        import_module("gpu_process").run(parts[options.part], *folders, options)
        return
    if (options.out / "parts").exists():
        sys.exit(f"{options.out} has the report of another run: give a new folder by --out")
    options.out.mkdir(parents=True, exist_ok=True)
    session = Session(options, parts)
    with interruptible(session):
        session.run()
    sys.exit(1 if session.problems else 0)


if __name__ == "__main__":
    main()
