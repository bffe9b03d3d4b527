"""Standard output and standard error may be missing or closed, as in services and programs with
windows: texts are lost then, and nothing else."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import drjit as dr
from drjit.distributed import engine
from drjit.jit import flags, log, progress
from drjit.llvm import Float, UInt


class Ascii(io.StringIO):
    """A stream that has few characters."""

    def write(self, text: str) -> int:
        return super().write(text.encode("ascii").decode())


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


GONE: dict[str, Callable[[], Any]] = {"missing": lambda: None, "closed": closed}


@pytest.mark.parametrize("mode", ["auto", "evaluate", "symbolic"])
def test_print_without_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, mode: str
) -> None:
    """As Python's function does, but for mistakes."""
    x = dr.arange(Float, 3) + 1
    monkeypatch.setattr(sys, "stdout", None)
    dr.print("x={}", x, mode=mode)
    with pytest.raises(RuntimeError, match="missing positional argument 0"):
        dr.print("x={}", mode=mode)
    out = io.StringIO()
    dr.print("x={}", x, mode=mode, file=out)
    dr.eval(x)
    assert out.getvalue() == "x=[1, 2, 3]\n" and dr.all(x == Float(1, 2, 3))
    monkeypatch.undo()
    assert capsys.readouterr() == ("", "")


def test_print_in_a_loop_without_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(k: Any, x: Any) -> tuple:
        dr.print("{}", x)
        return k + 1, x * 2

    monkeypatch.setattr(sys, "stdout", None)
    x = dr.while_loop((UInt(0, 0), Float(1, 3)), lambda k, x: k < 3, body)[1]
    assert dr.all(x == Float(8, 24))


@pytest.mark.parametrize("how", GONE)
def test_messages_without_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, how: str
) -> None:
    """They do not appear on standard output instead."""
    monkeypatch.setattr(sys, "stderr", GONE[how]())
    log.log(log.LogLevel.Warn, "a message of %s", "the compiler")
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        x = dr.arange(Float, 3) + 1
        dr.while_loop((x,), lambda x: x < 9, lambda x: (checked(x),), mode="symbolic")
        dr.eval(x)
        assert dr.all(x == Float(1, 2, 3))
    monkeypatch.undo()
    assert capsys.readouterr() == ("", "")


def checked(x: Any) -> Any:
    """An assertion that fails in a kernel is reported by a message."""
    dr.assert_true(x < 2, "a message")
    return x + 4


def test_a_message_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Ascii()
    monkeypatch.setattr(sys, "stderr", stream)
    log.log(log.LogLevel.Warn, "a folder of Jürgen's")
    log.log(log.LogLevel.Warn, "a message")
    assert stream.getvalue() == "drjit: a message\n"


@pytest.mark.parametrize("how", GONE)
@pytest.mark.parametrize("wish", ["", "1"])
def test_nobody_watches_without_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, how: str, wish: str
) -> None:
    monkeypatch.setattr(flags, "progress", wish)
    monkeypatch.setattr(sys, "stderr", GONE[how]())
    assert progress._display() is None
    task = progress.Task("work")
    task.start = 0.0
    progress._Lines().show([task])  # it may have gone in between
    monkeypatch.undo()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("how", GONE)
def test_processes_are_ended_without_standard_error(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The others would wait for ever for one that has failed."""
    ended = []
    own = SimpleNamespace(rank=0, size=2, comm=SimpleNamespace(Abort=ended.append))
    monkeypatch.setattr(sys, "stderr", GONE[how]())
    engine.MpiEngine._abort(own, ValueError, ValueError("wrong"), None)  # type: ignore[arg-type]
    assert ended == [1]


PROGRAM = """
import sys
assert sys.stdout is None and sys.stderr is None
import drjit as dr
from drjit.jit import log
from drjit.llvm import Float
x = dr.arange(Float, 100) + 1
dr.print("{}", x)
log.log(2, "a message")
with open(sys.argv[1], "w") as file:
    file.write(str(dr.sum(x)))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_program_without_streams(tmp_path: Any) -> None:
    shell = 'exec "$0" "$@" <&- >&- 2>&-'
    command = ["/bin/sh", "-c", shell, sys.executable, "-c", PROGRAM, str(tmp_path / "result")]
    assert subprocess.run(command, timeout=60).returncode == 0
    assert (tmp_path / "result").read_text() == "[5050]"
