"""What a program that makes a mistake is told: the line of the program and the message, without the
frames of the package, in scripts, notebooks, debuggers and pytest.

`tests/data/mistakes.txt` has the mistakes: the program, then, after `>`, its line that the
traceback ends at, the first line of the message, and the last one of longer messages; or those of
the warning. A line that ends with `...` is the beginning.
"""

import contextlib
import copy
import gc
import io
import linecache
import os
import pickle
import re
import subprocess
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import drjit as dr
from drjit.jit import frames
from drjit.llvm.ad import Float, UInt

pytestmark = pytest.mark.processor  # whose types messages name
OURS = str(Path(dr.__file__).parent)
NAMES = """
import drjit as dr, numpy as np
from drjit import nn
from drjit.llvm.ad import *
from drjit.opt import SGD, Adam
"""
MOST_FRAMES, MOST_LINES = 2, 25


def mistakes() -> Iterator[Any]:
    text = (Path(__file__).parents[1] / "data" / "mistakes.txt").read_text()
    for block in re.split(r"(?m)^=== ", text)[1:]:
        name, _, lines = block.partition("\n")
        program, *expected = re.split(r"(?m)^> ", lines)
        yield pytest.param(program, [e.strip() for e in expected], id=name)


def run(program: str, file: str = "program.py") -> tuple[list[str], str, BaseException | None]:
    """Runs a program. Returns what it is told, in the form of the table, and all that is shown."""
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    names = {"__name__": "__main__"}
    exec(NAMES, names)
    told, shown, error = [], "", None
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RuntimeWarning)
        try:
            exec(compile(program, file, "exec"), names)
        except BaseException as raised:
            error = raised
    for w in found:
        assert w.filename == file
        told.append(f"{w.lineno}: {w.category.__name__}: {w.message}")
    if error is not None:
        assert error.__traceback__ is not None
        error = error.with_traceback(error.__traceback__.tb_next)  # without that of this function
        last = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file][-1]
        message = "".join(traceback.format_exception_only(error))
        first, *more = message.replace(f"\n{frames.NOTE}\n", "\n").rstrip("\n").split("\n")
        told.append(f"{last.lineno}: {first}")
        told += more[-1:]
        shown = "".join(traceback.format_exception(error))
    with contextlib.suppress(Exception):
        dr.sync_thread()  # what it has left behind
    return told, shown, error


def is_as(expected: str, found: str) -> bool:
    return found.startswith(expected[:-3]) if expected.endswith("...") else found == expected


@pytest.mark.parametrize("program, expected", [*mistakes()])
def test_a_mistake(program, expected):
    told, shown, _ = run(program)
    assert len(told) == len(expected) and all(map(is_as, expected, told)), "\n".join(told)
    assert shown.count(OURS) <= MOST_FRAMES
    assert len(shown.splitlines()) <= MOST_LINES
    if shown:
        message = expected[0].partition(": ")[2].partition(": ")[2].removesuffix("...")
        assert shown.count(message) == 1


def test_there_are_as_many_as_were_tried():
    assert len([*mistakes()]) >= 185


@pytest.mark.parametrize(
    "program",
    [
        "x = dr.arange(Float, 4)\nprint(x[x > 1])",
        "dr.eval(dr.gather(Float, dr.arange(Float, 3), Float(1.5)))",
        "x = Float(1)\ndr.enable_grad(x)\ny = x * x\ndr.backward(y)\ndr.backward(y)",
        "SGD(lr=1, params={'x': Float(1)}).step()",
    ],
)
def test_what_nothing_reports_may_be_an_error(program):
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(NAMES, names)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning):
            exec(program, names)
    loop = "for _ in range(3):\n    " + program.replace("\n", "\n    ")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        exec(compile(loop, "loop.py", "exec"), names)
    assert [w.filename for w in found] == ["loop.py"], "once"


def test_a_masked_assignment_reads_through_the_mask():
    x = dr.arange(Float, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x[x > 1] += 1
        x[x > 2] *= x
    assert list(x) == [0, 1, 9, 16]


def test_loops_that_end_are_not_warned_of():
    @dr.syntax
    def count(n):
        i, going = UInt(0), dr.full(dr.llvm.ad.Bool, True, dr.width(n))
        while going:
            i += 1
            going = i < n
        return i

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(count(UInt(3, 5))) == [3, 5]


# ---- Where errors are shown

PRINTS = """\
import drjit as dr
from drjit.llvm.ad import UInt

@dr.syntax
def count(n):
    i = UInt(0)
    while i < n:
        print(i)
        i += 1
    return i

def test_count():
    count(UInt(3))
"""


def shell(*command: str, cwd: Path, stdin: str = "", **environment: str) -> str:
    path = os.pathsep.join([str(Path(OURS).parent), *filter(None, [os.getenv("PYTHONPATH")])])
    known = {k: v for k, v in os.environ.items() if k != "DRJIT_TRACEBACK"}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, input=stdin, capture_output=True, text=True,
        env={**known, "PYTHONPATH": path, **environment},
    )  # fmt: skip
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def check_shown(text: str) -> None:
    assert text.count("use dr.print(i)") == 1
    assert len(re.findall(re.escape(OURS) + r"[^\n]*\bline", text)) == 0
    assert frames.NOTE in text


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(PRINTS)
    (tmp_path / "script.py").write_text(PRINTS + "test_count()\n")
    return tmp_path


def test_in_a_script(script):
    text = shell("script.py", cwd=script)
    check_shown(text)
    assert len(text.splitlines()) <= MOST_LINES
    full = shell("script.py", cwd=script, DRJIT_TRACEBACK="full")
    assert full.count(OURS) > 10 and frames.NOTE not in full
    assert "expected one of short, full" in shell("script.py", cwd=script, DRJIT_TRACEBACK="x")


def test_in_a_debugger(script):
    text = shell("-m", "pdb", "-c", "continue", "script.py", cwd=script, stdin="where\np i\nquit\n")
    assert re.search(r"script\.py\(8\)_while_body\(\)\n-> print\(i\)", text)
    assert text.count(OURS) == 0


def test_at_the_prompt_of_a_debugger(script):
    typed = "break 8\ncontinue\np i\npp i\np i + 'a'\nquit\n"
    text = shell("-m", "pdb", "script.py", cwd=script, stdin=typed)
    # It shows the last line of an error, which has to be the message.
    message = r"\*\*\* RuntimeError: a value of a symbolic loop.*To print, use dr\.print"
    assert len(re.findall(message, text)) == 2
    assert re.search(r"\*\*\* .*IncompatibleError: drjit\.llvm\.ad\.UInt\.__add__\(\): ", text)
    assert frames.NOTE not in text


def test_in_pytest(script):
    # Without the summary, which repeats the whole message where CI is set.
    options = "-q", "-rN", "-p", "no:cacheprovider", "-p", "no:xdist"
    check_shown(shell("-m", "pytest", *options, "test_it.py", cwd=script))
    assert OURS in shell("-m", "pytest", *options, "test_it.py", cwd=script, DRJIT_TRACEBACK="full")


@pytest.mark.skipif(find_spec("IPython") is None, reason="needs IPython")
def test_in_a_notebook(script):
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('import test_it')\n"
        "shell.run_cell('test_it.test_count()')\n"
    )
    check_shown(shell("-c", program, cwd=script, HOME=str(script), NO_COLOR="1"))


# ---- Exceptions are what they were


def raised_by(function: Callable[[], object]) -> Any:
    with pytest.raises(Exception) as raised:
        function()
    return raised.value


def added() -> object:
    return dr.arange(Float, 3) + dr.arange(Float, 4)


def names_of(error: BaseException) -> list[str]:
    return [f.name for f in traceback.extract_tb(error.__traceback__)]


OURS_ALONE = """
def looks_up(): return {}[1]
def fails(look_up):
    try: look_up()
    except KeyError: raise ValueError("no such thing")
"""


def test_what_the_package_handles_is_not_shown():
    names: dict[str, Any] = {"__name__": "drjit.made_up"}
    exec(OURS_ALONE, names)
    fails = frames.guard(names["fails"])

    def looks_up():
        return {}[1]

    for look_up, hidden in ((names["looks_up"], True), (looks_up, False)):
        error = raised_by(lambda look_up=look_up: fails(look_up))
        assert isinstance(error.__context__, KeyError) and error.__suppress_context__ is hidden
        assert ("During handling" in "".join(traceback.format_exception(error))) is not hidden


def test_suspended_functions_are_left_alone():
    def numbers():
        yield 1

    async def later():
        pass

    async def both():
        yield 1

    for f in (numbers, later, both):
        assert frames.guarded(f.__code__) is f.__code__
    assert frames.guarded(added.__code__) is not added.__code__


def test_a_flag_keeps_all_frames():
    assert names_of(raised_by(added))[-1] == "added"
    with dr.scoped_set_flag(dr.JitFlag.FullTraceback):
        error = raised_by(added)
    assert names_of(error)[-1] != "added" and not hasattr(error, "__notes__")


def test_frames_of_functions_that_are_called_stay():
    def inner(x):
        return x + "a"

    def body(i):
        return (inner(i),)

    error = raised_by(lambda: dr.while_loop((UInt(0, 1),), lambda i: i < 3, body))
    assert names_of(error)[-3:] == ["<lambda>", "body", "inner"]
    error = raised_by(lambda: dr.switch(UInt(0, 1), [inner, inner], Float(1, 2)))
    assert names_of(error)[-2:] == ["<lambda>", "inner"]
    assert isinstance(error.__context__, TypeError) and error.__cause__ is None


def test_what_the_program_handles_remains_the_context():
    def handled():
        try:
            raise KeyError("mine")
        except KeyError:
            dr.sum(Float(1, 2), axis=9)

    error = raised_by(handled)
    assert isinstance(error.__context__, KeyError) and not error.__suppress_context__
    assert "mine" in "".join(traceback.format_exception(error))


def test_errors_are_copied_and_may_have_notes():
    error = raised_by(added)
    error.add_note("mine")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(other) == str(error) and other.__notes__ == [frames.NOTE, "mine"]


def test_a_short_traceback_has_no_note():
    assert not hasattr(raised_by(lambda: dr.set_flag(1, True)), "__notes__")  # type: ignore[arg-type]


def test_examples_in_docstrings_need_no_note():
    names = {"added": added, "__name__": "__main__"}
    error = raised_by(
        lambda: eval(
            compile("Float(1, 2) + Float(1, 2, 3)", "<doctest a[0]>", "eval"),
            vars(dr.llvm.ad) | names,
        )
    )
    assert not hasattr(error, "__notes__")


def test_errors_hold_no_cycles():
    class Local:
        pass

    def failing():
        value = Local()
        known.append(weakref.ref(value))
        dr.sum(Float(1, 2), axis=9)

    known: list[weakref.ref] = []
    gc.disable()
    try:
        for _ in range(2):
            with contextlib.suppress(RuntimeError):
                failing()
        assert [reference() for reference in known] == [None, None]
    finally:
        gc.enable()


# ---- Guarded functions


def of_ours(text: str, name: str) -> Any:
    """Returns a function that is taken for one of the package."""
    names: dict[str, Any] = {"__name__": "drjit.example"}
    exec(text, names)
    return frames.guard(names[name])


def test_a_guarded_function_does_what_it_did():
    text = """
def work(a, *rest, b=2, **more):
    seen = []
    def note(x):
        seen.append(x)
    for i in range(a):
        try:
            with open(__file__) as file:
                note([i + j for j in range(2)])
        except NameError as error:
            note(type(error).__name__)
            if i == 3:
                raise ValueError(i) from error
        finally:
            note(len(rest))
    return seen, b, more
"""
    work = of_ours(text, "work")
    assert work(2, 5, b=3, c=4) == (["NameError", 1, "NameError", 1], 3, {"c": 4})
    error = raised_by(lambda: work(4))
    assert error.args == (3,) and names_of(error)[-1] == "<lambda>"
    assert isinstance(error.__cause__, NameError)
    assert sys.exception() is None
    code = work.__code__
    assert frames.guarded(code) is code


def test_generators_and_long_functions_are_left_alone():
    text = "def numbers():\n    yield 1\n    1 / 0"
    assert next(of_ours(text, "numbers")()) == 1
    many = "def numbers():\n    return [" + ", ".join(f"'{k}'.x" for k in range(300)) + "]"
    assert frames.strip_frames not in of_ours(many, "numbers").__code__.co_consts


def test_every_public_function_is_guarded():
    missing = [
        name
        for name in dr.__all__
        if isinstance(f := getattr(dr, name), types.FunctionType)
        and frames.strip_frames not in f.__code__.co_consts
        and not f.__code__.co_flags & 0x20
    ]
    assert missing == []
