"""Checks the tests themselves: makes one small mistake at a time in a copy of the package, and runs
the tests that ought to notice. A mistake that no test notices asks for a test.

    python tests/support/mutate.py --only schedule      # those in files of that name, or like this
    python tests/support/mutate.py --log mutations.log  # may be interrupted and continued

The mistakes are in `mutations.txt`: below the path of a file and the tests to run there, a snippet
of code after `-`, what replaces it after `+`, and after `?` other tests for this one. A snippet of
several lines has as many in its replacement. It must occur exactly once, which
`tests/package/test_mutations.py` checks.

A mistake is noticed if a test fails that passes without it, if the process dies, or if the tests do
not end.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutations.txt")
# Exit statuses of pytest; the second one if a file cannot be imported.
_FAILED, _INTERRUPTED, _NOTHING = 1, 2, 5
_ENDLESS = "without end:"


class Mutation(NamedTuple):
    """A mistake: in a `file`, the `before` becomes `after`; `tests` are arguments of pytest."""

    file: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.before)} -> {' '.join(self.after)}"

    def pattern(self) -> str:
        """Returns a regular expression that the snippet matches, with any indentation."""
        return r"\n *".join(map(re.escape, self.before))

    def places(self, text: str) -> int:
        """Returns how often the snippet occurs."""
        return len(re.findall(self.pattern(), text))

    def applied(self, text: str) -> str:
        """Returns the text of the file with the mistake."""

        def replaced(found: re.Match[str]) -> str:
            indents = re.findall(r"\n *", found[0])
            rows = zip(["", *indents], self.after, strict=True)
            return "".join([indent + line for indent, line in rows])

        return re.sub(self.pattern(), replaced, text)


def mutations(text: str) -> Iterator[Mutation]:
    """Yields the mutations of a table."""
    file = tests = ""
    for part in re.sub(r"(?m)^#.*\n", "", text).split("\n\n"):
        lines = part.strip("\n").split("\n")
        rows = {kind: tuple([s[2:] for s in lines if s.startswith(f"{kind} ")]) for kind in "-+?"}
        if rows["-"]:
            own = rows["?"][0] if rows["?"] else tests
            yield Mutation(file, rows["-"], rows["+"], own)
        elif any(lines):
            file, tests = lines


class Checkout:
    """A copy of the working tree, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)

    def write(self, file: str, text: str) -> None:
        """Writes a module, and removes what Python has compiled of it."""
        path = self.root / file
        path.write_text(text)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()

    def run(self, tests: str, limit: float) -> tuple[int | None, str]:
        """Runs tests, one file after the other as long as they pass; returns the exit status, None
        if they do not end within `limit` seconds, and what they print."""
        for command in _commands(tests):
            status, output = self.pytest(command, limit, "-x")
            if status not in (0, _NOTHING):
                return status, output
        return 0, output

    def pytest(
        self, arguments: list[str], limit: float | None, *options: str
    ) -> tuple[int | None, str]:
        """See `run`."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        command += arguments
        env = os.environ | {"PYTHONPATH": str(self.root), "TMPDIR": str(self.temporary)}
        env.pop("DRJIT_CACHE_DIR", None)
        output = self.temporary / "output"
        with output.open("w") as file:
            process = subprocess.Popen(
                command, cwd=self.root, env=env, stdout=file, stderr=file, start_new_session=True
            )
            try:
                status: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        text = output.read_text(errors="replace")
        for left in self.temporary.iterdir():
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        return status, text


def place(name: str) -> str:
    """Returns where a test is, given its file and perhaps its name."""
    file, *rest = name.split("::")
    (found,) = Path(ROOT, "tests").rglob(file)
    return "::".join([str(found.relative_to(ROOT)), *rest])


def _commands(tests: str) -> list[list[str]]:
    """Returns the arguments of pytest for each of some files, which `-k` and an expression may
    follow."""
    files, option, expression = tests.partition(" -k ")
    more = ["-k", expression.strip('"')] if option else []
    return [[place(name), *more] for name in files.split()]


class Checker:
    """Tries mutations, each run in one of some checkouts; `limit` is the time of a run in
    seconds."""

    def __init__(self, folder: Path, jobs: int, limit: float) -> None:
        self.limit = limit
        self._checkouts: SimpleQueue[Checkout] = SimpleQueue()
        for k in range(jobs):
            self._checkouts.put(Checkout(folder / str(k)))

    def __call__(self, m: Mutation) -> tuple[str, str, float]:
        """Returns whether a mutation is noticed (`killed`, `survived`, `error`), by what, and how
        many seconds that took."""
        checkout, start = self._checkouts.get(), time.monotonic()
        try:
            outcome, by = self._outcome(m, checkout)
        finally:
            self._checkouts.put(checkout)
        return outcome, by, time.monotonic() - start

    def _outcome(self, m: Mutation, checkout: Checkout) -> tuple[str, str]:
        text = (checkout.root / m.file).read_text()
        if m.places(text) != 1:
            return "error", f"the snippet occurs {m.places(text)} times"
        checkout.write(m.file, m.applied(text))
        try:
            status, output = checkout.run(m.tests, self.limit)
        finally:
            checkout.write(m.file, text)
        if status == 0:
            return "survived", m.tests
        failed = re.findall(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output)
        if status is None:
            return "killed", f"{_ENDLESS} {m.tests}"
        if status < 0:
            return "killed", f"signal {-status}"
        if status in (_FAILED, _INTERRUPTED) and failed:
            return "killed", failed[0]
        return "error", f"status {status}: {output.strip()[-500:]!r}"

    def failing(self, tests: list[str]) -> list[str]:
        """Returns those of some tests that fail without a mistake."""
        checkout = self._checkouts.get()
        _, output = checkout.pytest(tests, None)
        self._checkouts.put(checkout)
        return re.findall(r"(?m)^(?:FAILED|ERROR) .*$", output)


def main() -> None:
    parser = argparse.ArgumentParser(description="Checks whether tests notice mistakes.")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only those that match this")
    parser.add_argument("--jobs", type=int, default=1, help="number of test runs at a time")
    parser.add_argument("--limit", type=float, default=300, help="seconds, for one run of tests")
    parser.add_argument("--list", action="store_true", help="only show the mutations")
    parser.add_argument("--log", type=Path, help="keep results there, and skip those that it has")
    options = parser.parse_args()
    chosen = [m for m in mutations(TABLE.read_text()) if re.search(options.only, str(m))]
    if options.list:
        print(*[f"{m}   [{m.tests}]" for m in chosen], sep="\n")
        return
    rows = options.log.read_text().splitlines() if options.log and options.log.exists() else []
    known = {row.split("\t")[1]: row for row in rows}
    with tempfile.TemporaryDirectory(prefix="drjit-mutations-") as folder:
        check = Checker(Path(folder), options.jobs, options.limit)
        todo = [m for m in chosen if str(m) not in known]
        with ThreadPoolExecutor(options.jobs) as pool:
            for m, (outcome, by, seconds) in zip(todo, pool.map(check, todo), strict=True):
                known[str(m)] = row = f"{outcome}\t{m}\t{by}\t{seconds:.0f} s"
                print(row, flush=True)
                if options.log:
                    with options.log.open("a") as log:
                        print(row, file=log)
        found = [known[str(m)].split("\t") for m in chosen]
        # A test that always fails notices nothing.
        tests = dict.fromkeys([row[2] for row in found if "::" in row[2]])
        failing = check.failing([*tests]) if tests else []
    print(*failing, sep="\n")
    count = Counter([outcome for outcome, *_ in found])
    print(", ".join([f"{n} {outcome}" for outcome, n in count.items()]))
    sys.exit(count["survived"] + count["error"] + len(failing) > 0)


if __name__ == "__main__":
    main()
