"""`python -m drjit report`: a program is run as Python would run it, and recorded from its first to
its last line, however it ends."""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .report import Report


def run(
    program: str,
    arguments: Sequence[str],
    out: Path,
    is_module: bool = False,
    lanes: Any = None,
    gradients: bool = False,
) -> int:
    """Runs a file or a module and saves the report, also if the program fails; returns the exit
    status. Its traceback is that of the program alone. `lanes` are those of `report`.

    Raises:
        SystemExit: the program did.
    """
    sys.argv = [program, *arguments]
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(program))
    recorded, process = Report(lanes, gradients=gradients), os.getpid()
    try:
        with recorded:
            if is_module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(program, run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:
        _show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1  # as shells have it
    finally:
        if os.getpid() == process:
            recorded.save(out)
            print(f"{recorded}\n{out}", file=sys.stderr)
    return 0


def _show(error: BaseException) -> None:
    """Shows an exception as Python does, without the frames that ran the program."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
