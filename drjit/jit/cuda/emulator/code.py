"""An entry point as Python: the functions it consists of, their blocks, and the source."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from .errors import UnknownInstruction
from .forms import width
from .parse import PtxProgram
from .ptx_operands import SCOPE, MemoryLayout
from .translate import FunctionWriter


class PythonCode:
    """An entry point as Python: the functions it consists of, their blocks, and the source."""

    def __init__(self, program: PtxProgram, name: str, single: bool = False):
        self.name, self.layout = name, MemoryLayout()
        self.writers: dict[str, FunctionWriter] = {}
        self._visit(program, name, [])
        writers = self.writers.values()
        end = 0
        for writer in writers:
            end = writer.number(end)
        self.layout.finish()
        first = {n: w.blocks[0].number for n, w in self.writers.items()}
        self.first = first[name]
        self.grain = min([4, *(self._widths())])
        for writer in writers:
            writer.keep_all = single
            writer.write(end, first)
        self.special = {p: t for w in writers for p, t in w.names.special.items()}
        self.blocks = [block for w in writers for block in w.blocks]
        about = f'"""{name}: see drjit.jit.cuda.emulator.translate."""'
        self.source = "\n".join([about, "", *(line for w in writers for line in w.lines), ""])
        self.origins = [None, None, *(origin for w in writers for origin in w.origins)]
        scope = dict(SCOPE)
        for writer in writers:
            scope |= writer.constants.values
        self.file = f"<{name}>"
        exec(compile(self.source, self.file, "exec"), scope)
        for block in self.blocks:
            block.run = scope[f"block_{block.number}"]

    def _visit(self, program: PtxProgram, name: str, path: list[str]) -> None:
        """Analyses a function, after those that it calls."""
        if name in path:
            raise UnknownInstruction(f"{name} calls itself, which is not supported")
        if name in self.writers:
            return
        function = program.functions.get(name)
        if function is None or function.code is None:
            return
        writer = FunctionWriter(program, function, not path, self.layout)
        writer.analyse()
        for called in dict.fromkeys(writer.calls):
            self._visit(program, called, [*path, name])
        self.writers[name] = writer

    def _widths(self) -> Iterator[int]:
        """Sizes of accesses that may be to shared memory."""
        for writer in self.writers.values():
            for s in writer.statements:
                f = s.form
                if f.kind in ("load", "store") and f.details["space"] in ("shared", ""):
                    element = f.results[0] if f.kind == "load" else f.sources[1]
                    yield int(element[1:]) // 8
                elif f.kind == "atomic":
                    yield width(f.sources[1].replace("b", "u")) // 8

    @cached_property
    def initial(self) -> dict[str, np.ndarray]:
        """The registers between blocks, before anything has been executed."""
        found: dict[str, np.ndarray] = {}
        crossing = {name for block in self.blocks for name in (*block.reads, *block.writes)}
        for writer in self.writers.values():
            for name, home in writer.names.home.items():
                if writer.key(name) in crossing:
                    dtype: Any = bool if home == "pred" else f"{home[0]}{int(home[1:]) // 8}"
                    found[writer.key(name)] = np.zeros(1, dtype)
            found[writer.key("back")] = np.zeros(1, np.int64)
        return found


def translated(program: PtxProgram, name: str, single: bool = False) -> PythonCode:
    cache = program.translations
    if (name, single) not in cache:
        cache[name, single] = PythonCode(
            _single_steps(program) if single else program, name, single
        )
    return cache[name, single]


def _single_steps(program: PtxProgram) -> PtxProgram:
    """The program with a label at every instruction, so that each one becomes a basic block."""
    functions = {}
    for name, f in program.functions.items():
        labels = {**f.labels, **{f"line {k}": k for k in range(len(f.code or []))}}
        functions[name] = replace(f, labels=labels)
    return PtxProgram(functions, program.variables)
