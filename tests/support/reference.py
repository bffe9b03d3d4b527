"""Scripts that run under the reference and here, and what the reference printed.

The output of `oracle/NAME.py` and `programs/NAME.py` is kept in `expected/NAME.txt` beside them.
With the interpreter of an environment that has the reference, all of it, or that of the scripts
named, is stored anew:

    python tests/support/reference.py INTERPRETER [oracle/calls.py ...]
"""

import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nursery

HERE = Path(__file__).parents[1]
# The numbers of a text, but not those in names such as Float64.
NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan\b|inf\b)")
CASE = re.compile(r"^.*  ->  ", re.MULTILINE)


def scripts(folder: str) -> list[str]:
    """Returns the names of the scripts of a folder."""
    return sorted(p.stem for p in (HERE / folder).glob("*.py") if not p.stem.startswith("_"))


def printed(path: Path, interpreter: str = sys.executable, **options: Any) -> str:
    """Runs a script in a process of its own and returns what it prints. `options` are those of
    `nursery.run`."""
    if interpreter == sys.executable:
        done = nursery.run(path, **options)
    else:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([interpreter, "-P", path], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stored(path: Path) -> Path:
    """Returns the file with what the reference printed."""
    return path.parent / "expected" / f"{path.stem}.txt"


def results(text: str) -> str:
    """Removes the cases, which the script has, from the lines that show what they gave."""
    return CASE.sub("", text)


def same_number(expected: str, found: str, rtol: float, atol: float) -> bool:
    """Tells whether a number is the expected one, within the tolerances."""
    a, b = float(expected), float(found)
    if re.fullmatch(r"[-+]?\d{7,}", expected):  # an integer: a float has a point or fewer digits
        return expected == found
    if not (math.isfinite(a) and math.isfinite(b)):
        return str(a) == str(b)
    return abs(a - b) <= atol + rtol * abs(a)


def same_line(expected: str, found: str, rtol: float, atol: float) -> bool:
    """Tells whether two lines have the same words and, within the tolerances, the same numbers;
    or, where an exception is shown, whether a handler for that of the reference catches it."""
    if expected.startswith("!") and found.startswith("!"):
        return expected[1:].split("/")[0] in re.split("[/:]", found[1:])
    if rtol == atol == 0 or expected == found:
        return expected == found
    words = ["".join(NUMBER.sub("#", text).split()) for text in (expected, found)]
    return words[0] == words[1] and all(
        same_number(a, b, rtol, atol)
        for a, b in zip(NUMBER.findall(expected), NUMBER.findall(found), strict=True)
    )


def differences(expected: str, printed: str, rtol: float, atol: float) -> list[str]:
    """Returns a text for every line that does not show what is expected."""
    return [
        f"line {number}\n  expected {a}\n  found    {b}"
        for number, (a, b) in enumerate(
            itertools.zip_longest(
                expected.splitlines(), printed.splitlines(), fillvalue="(nothing)"
            ),
            1,
        )
        if not same_line(a, results(b), rtol, atol)
    ]


if __name__ == "__main__":
    interpreter, *names = sys.argv[1:]
    every = [
        HERE / folder / f"{n}.py" for folder in ("oracle", "programs") for n in scripts(folder)
    ]
    for path in [HERE / name for name in names] or every:
        stored(path).parent.mkdir(exist_ok=True)
        stored(path).write_text(results(printed(path, interpreter)))
        print(path.relative_to(HERE))
