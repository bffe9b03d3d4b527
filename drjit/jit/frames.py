"""Tracebacks end at the line of the program that caused the error: frames of the package are left
out, unless `JitFlag.FullTraceback` is set. JAX does the same, with `jax_traceback_filtering`.

A wrapper around each public function would slow down the tracing of operations. Instead, the code
of these functions gets one more entry in its exception table, which Python only looks at when an
exception leaves the function: it calls `strip_frames`, as a `finally` clause would. So nothing has
to know how tracebacks are displayed, be it by the interpreter, a debugger, a notebook or pytest.
"""

import sys
import warnings
from collections.abc import Iterator
from functools import cache
from opcode import opmap
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar

from . import flags

NOTE = "(frames of drjit are left out: DRJIT_TRACEBACK=full shows them)"

_PACKAGE = __name__.partition(".")[0]
# Modules through which the package calls itself, or functions of a program.
_PASSED_THROUGH = {"contextlib", "functools"}
_SUSPENDED = 0x20 | 0x80 | 0x200  # flags of generators and coroutines, which are left to others
_TABLE_IS_KNOWN = (3, 11) <= sys.version_info[:2] <= (3, 14)  # the format of the table
_NO_LINE = 0x80 | 15 << 3  # in the table of lines, for up to eight words
_WORD = 2  # bytes of code

T = TypeVar("T")


def strip_frames() -> None:
    """Removes frames of the package from the exception that leaves a public function, if the
    function was called by a program."""
    here = sys._getframe(1)
    if flags.current & flags.JitFlag.FullTraceback or (here.f_back and _is_ours(here.f_back)):
        return
    error = sys.exception()
    trace = error and error.__traceback__
    if not error or not trace or trace.tb_frame is not here:
        return
    several = trace.tb_next is not None and _is_ours(trace.tb_next.tb_frame)
    error.__traceback__ = _without_ours(trace)
    _strip_causes(error)
    if several and NOTE not in getattr(error, "__notes__", ()) and _shows_notes(here.f_back):
        error.add_note(NOTE)


def _is_ours(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE


def _shows_notes(frame: Any) -> bool:
    """Returns whether whoever calls can show a note: an example of a docstring would have to have
    it, and at its prompt, pdb shows the last line of an error alone."""
    while frame is not None and frame.f_globals.get("__name__") == "pprint":
        frame = frame.f_back
    if frame is None:
        return True
    # What is typed at the prompt is a frame of its own if it is more than a name.
    callers = (frame, frame.f_back) if frame.f_back else (frame,)
    return not frame.f_code.co_filename.startswith("<doctest ") and not any(
        caller.f_globals.get("__name__") == "pdb" for caller in callers
    )


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Keeps only frames of the program in a traceback, and returns its new beginning."""
    first: TracebackType | None = None
    last: TracebackType | None = None
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module not in _PASSED_THROUGH and module.partition(".")[0] != _PACKAGE:
            if last is None:
                first = trace
            else:
                last.tb_next = trace
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
    return first


def _strip_causes(error: BaseException) -> None:
    """Does the same to the exceptions that the package had caught when it raised this one. They are
    shown if a function of the program raised them or if they are the stated cause, unless the
    message of this one repeats theirs. They stay in `__context__` in any case."""
    while True:
        other = error.__cause__ or error.__context__
        trace = other and other.__traceback__
        if not other or not trace or not _is_ours(trace.tb_frame):  # caught by the program
            return
        other.__traceback__ = _without_ours(trace)
        if error.__cause__ is None:
            error.__suppress_context__ |= other.__traceback__ is None
        elif other is error.__context__ and str(other) in str(error):
            error.__cause__ = None
        error = other


# ---- Guarded functions


def guard(function: T) -> T:
    """Makes a public function call `strip_frames` when an exception leaves it."""
    if isinstance(function, FunctionType):
        function.__code__ = guarded(function.__code__)
    return function


def guarded(code: CodeType) -> CodeType:
    """Returns the code of a function that calls `strip_frames` when an exception leaves it."""
    if not _TABLE_IS_KNOWN or code.co_flags & _SUSPENDED or strip_frames in code.co_consts:
        return code
    instructions, constant = code.co_code, len(code.co_consts)
    if constant > 255:  # which takes a longer instruction
        return code
    handler = _handler()
    end = len(instructions) // _WORD
    body = bytearray(handler.instructions)
    body[handler.load + 1] = constant
    table = list(_open_ranges(code, end))
    table += [(s + end, n, target + end, depth) for s, n, target, depth in handler.table]
    whole = sorted([*_entries(code.co_exceptiontable), *table])
    return code.replace(
        co_code=instructions + bytes(body),
        co_consts=(*code.co_consts, strip_frames),
        co_exceptiontable=b"".join(map(_encoded, whole)),
        co_linetable=code.co_linetable + handler.lines,
        co_stacksize=max(code.co_stacksize, handler.stack),
    )


_Entry = tuple[int, int, int, int]
"""An entry of the exception table: where a range of words begins, its length, where execution goes
on after an exception, and how many values are on the stack then (twice; plus one if the place of
the exception is pushed)."""


def _open_ranges(code: CodeType, end: int) -> Iterator[_Entry]:
    """Yields entries for the words after the prologue whose exceptions leave the function."""
    start = code.co_code[::_WORD].index(opmap["RESUME"]) + 1
    for first, length, *_ in _entries(code.co_exceptiontable):
        if first > start:
            yield start, first - start, end, 0
        start = max(start, first + length)
    if start < end:
        yield start, end - start, end, 0


def _entries(table: bytes) -> list[_Entry]:
    numbers, number = [], 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    fields = iter(numbers)
    return list(zip(fields, fields, fields, fields, strict=True))


def _encoded(entry: _Entry) -> bytes:
    """Returns an entry in groups of six bits; 64 stands for more to come, 128 for the beginning."""
    data = bytearray()
    for number in entry:
        for shift in (18, 12, 6):
            if number >> shift:
                data.append(64 | number >> shift & 63)
        data.append(number & 63)
    data[0] |= 128
    return bytes(data)


class _Handler:
    """The instructions of a `finally` clause that calls a constant, as the interpreter compiles
    them, with their entries in the tables."""

    def __init__(self) -> None:
        module: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a constant that is called
            exec("def f():\n try: f()\n finally: 'constant'()", module)
        code: CodeType = module["f"].__code__
        entries = _entries(code.co_exceptiontable)
        start = min(target for _, _, target, _ in entries)
        self.instructions = code.co_code[start * _WORD :]
        self.load = self.instructions[::_WORD].index(opmap["LOAD_CONST"]) * _WORD
        self.table = [(s - start, n, t - start, d) for s, n, t, d in entries if s >= start]
        self.stack = code.co_stacksize
        words = len(self.instructions) // _WORD
        full, rest = divmod(words, 8)
        self.lines = bytes([_NO_LINE | 7] * full + [_NO_LINE | rest - 1] * (rest > 0))


_handler = cache(_Handler)


# ---- What is public

_classes: set[Any] = set()  # those that are guarded


def guard_members(cls: T) -> T:
    """Guards the methods and properties of a class, but for private ones."""
    _classes.add(cls)
    for name, member in list(vars(cls).items()):
        if name[:1] != "_" or name[-2:] == "__":
            if isinstance(member, property):
                guard(member.fget)
                guard(member.fset)
            else:
                guard(getattr(member, "__func__", member))
    return cls


def guard_module(module: Any, functions: bool) -> None:
    """Guards the methods of the public classes that a module defines, and with `functions` its
    public functions."""
    for name, value in list(vars(module).items()):
        if name[:1] == "_" or getattr(value, "__module__", "") not in (module.__name__, _PACKAGE):
            continue
        if isinstance(value, FunctionType):
            if functions:
                guard(value)
        elif isinstance(value, type) and value not in _classes:
            guard_members(value)


def guard_inner(factory: Any) -> Any:
    """Returns a function whose inner functions are guarded."""
    constants = factory.__code__.co_consts
    inner = tuple(guarded(c) if isinstance(c, CodeType) else c for c in constants)
    factory.__code__ = factory.__code__.replace(co_consts=inner)
    return factory
