"""A loaded PTX text: variables in memory, and entry points as Python. A launch of one consists of
chunks of blocks that take turns; it has a report, and errors with their place.
"""

import math
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from . import errors
from .access import Shape
from .errors import EmulatorError, Fault, LaunchError, coordinates
from .forms import width
from .machine import ThreadChunk
from .memory import Memory, new_bytes
from .parse import SIZES, Instruction, PtxFunction, PtxProgram, parse
from .ptx_operands import SCOPE, MemoryLayout, offsets
from .translate import BasicBlock, FunctionWriter

# Threads that are executed at once: enough to make NumPy's overhead small, few enough for registers
# to stay in the cache.
CHUNK = 1 << 15
# Basic blocks executed for a chunk of threads before another chunk gets its turn, and the number of
# these turns without any progress after which the threads are taken to wait forever.
TURNS = 1 << 12
PATIENCE = 1 << 12

Size = int | tuple[int, ...]


class PythonCode:
    """An entry point as Python: the functions that it consists of, their blocks, and the source."""

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
            raise errors.UnknownInstruction(f"{name} calls itself, which is not supported")
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
        registers: dict[str, np.ndarray] = {}
        crossing = {name for block in self.blocks for name in (*block.reads, *block.writes)}
        for writer in self.writers.values():
            for name, home in writer.names.home.items():
                if writer.key(name) in crossing:
                    dtype: Any = bool if home == "pred" else f"{home[0]}{int(home[1:]) // 8}"
                    registers[writer.key(name)] = np.zeros(1, dtype)
            registers[writer.key("back")] = np.zeros(1, np.int64)
        return registers


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


@dataclass
class LaunchReport:
    """What a launch has done: `instructions` that warps have executed, `divergent_branches` at
    which the threads of a warp did not agree, and for each line of the PTX text with bank
    conflicts, how many times the hardware would have repeated an access to shared memory."""

    instructions: int = 0
    divergent_branches: int = 0
    bank_conflicts: dict[int, int] = field(default_factory=dict)


@dataclass
class Step:
    """One instruction that was executed: see `Entry.trace`."""

    line: int
    text: str
    lanes: list[int]
    registers: dict[str, np.ndarray]

    def __str__(self) -> str:
        lines = [f"{self.line}: {self.text}  ({len(self.lanes)} lanes)"]
        for name, values in self.registers.items():
            lines.append(f"    {name} = {np.array2string(values, threshold=64)}")
        return "\n".join(lines)


def shape(size: Size, name: str) -> Shape:
    """Three positive numbers."""
    values = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (int(v) for v in (*values, 1, 1, 1)[:3])
    if len(values) > 3 or min(x, y, z) < 1:
        raise LaunchError(f"the {name} has an impossible size: {size}")
    return x, y, z


class EmulatedLaunch:
    """One launch: chunks of blocks take turns until all are finished."""

    def __init__(
        self, entry: "Entry", grid: Size, block: Size, parameters: bytes, shared: int,
        conflicts: bool, single: bool = False,
    ):  # fmt: skip
        self.entry, self.shared, self.conflicts = entry, shared, conflicts
        self.code = translated(entry.program, entry.name, True) if single else entry.code
        self.grid, self.block = shape(grid, "grid"), shape(block, "block")
        self.memory = entry.memory
        self.report = LaunchReport()
        self._validate(parameters)
        size = -(-max(len(parameters), 1) // 16) * 16
        self.parameters = new_bytes(size, 0)[:size]
        self.parameters[: len(parameters)] = np.frombuffer(parameters, np.uint8)

    def _validate(self, parameters: bytes) -> None:
        entry, function = self.entry, self.entry.function
        if len(parameters) != entry.parameter_bytes:
            raise LaunchError(
                f"{entry.name} has {entry.parameter_bytes} bytes of parameters, but "
                f"{len(parameters)} are given"
            )
        most = function.most_threads or 1024
        if math.prod(self.block) > most or self.block[2] > 64:
            raise LaunchError(f"{entry.name} cannot have {self.block} threads: at most {most}")
        if function.threads is not None and function.threads != self.block:
            raise LaunchError(f"{entry.name} needs blocks of {function.threads}, not {self.block}")
        if self.shared < 0 or self.shared + self.code.layout.shared_bytes > 227 * 1024:
            raise LaunchError(
                f"{entry.name} cannot have {self.code.layout.shared_bytes} + {self.shared} bytes "
                "of shared memory"
            )
        if self.grid[0] >= 1 << 31 or max(self.grid[1:]) >= 1 << 16:
            raise LaunchError(f"the grid has an impossible size: {self.grid}")

    def machines(self) -> Iterator[ThreadChunk]:
        """The chunks of the grid, each ready to run."""
        threads, blocks = math.prod(self.block), math.prod(self.grid)
        each = max(CHUNK // threads, 1)
        for first in range(0, blocks, each):
            yield ThreadChunk(self, first, min(each, blocks - first))

    @contextmanager
    def _readable_parameters(self) -> Iterator[None]:
        """Lets threads read the parameters by their addresses."""
        start, name = self.parameters.ctypes.data, f"the parameters of {self.entry.name}"
        self.memory.adopt(start, self.parameters.nbytes, self.parameters, name)
        try:
            yield
        finally:
            self.memory.release(start)

    def run(self) -> None:
        with self._readable_parameters():
            self._take_turns([m for m in self.machines() if not self._turn(m)])

    def _take_turns(self, waiting: list[ThreadChunk]) -> None:
        """Lets chunks that are not finished take turns: one may wait for another."""
        idle = 0
        states: list[Any] = []
        at = 1
        while waiting:
            writes = self.memory.writes, sum(m.progress for m in waiting), len(waiting)
            waiting = [m for m in waiting if not self._turn(m)]
            if (self.memory.writes, sum(m.progress for m in waiting), len(waiting)) != writes:
                idle, states, at = 0, [], 1
                continue
            # Nothing was written, and no thread got any further: they only spin. If their state
            # recurs, it will do so forever (R. P. Brent's algorithm finds cycles).
            idle += 1
            now = [m.state() for m in waiting]
            if now == states or idle > PATIENCE:
                where = "; ".join(m.where_threads_are() for m in waiting[:4])
                raise errors.Deadlock(
                    f"deadlock: threads wait in loops for something that does not happen: {where}"
                    f"\n  kernel {self.entry.name}",
                    kernel=self.entry.name,
                )
            if idle == at:
                at *= 2
                states = now

    def _finish(self, machine: ThreadChunk) -> None:
        report = self.report
        report.instructions += machine.executed
        report.divergent_branches += machine.divergent
        for line, count in machine.conflicts.items():
            instruction = self.code.origins[line - 1]
            if instruction is not None:
                total = report.bank_conflicts.get(instruction.line, 0)
                report.bank_conflicts[instruction.line] = total + count

    def _turn(self, machine: ThreadChunk) -> bool:
        """Executes some blocks for a chunk; returns whether it is finished."""
        with self._located(machine):
            for _ in machine.steps(TURNS):
                pass
        if machine.finished:
            self._finish(machine)
        return machine.finished

    def trace(self, machine: ThreadChunk, warp: int) -> Iterator[Step]:
        """Steps of a warp (of this chunk)."""
        with self._readable_parameters(), self._located(machine):
            for block, here in machine.steps(1 << 60):
                mine = here[machine.R["place"][here] >> 5 == warp]
                if len(mine) and block.end > block.first:
                    yield self._step(machine, block, mine)

    def _step(self, machine: ThreadChunk, block: BasicBlock, mine: np.ndarray) -> Step:
        writer = self.code.writers[block.function]
        statement = writer.statements[block.first]
        registers: dict[str, np.ndarray] = {}
        for name in dict.fromkeys((*statement.defines, *statement.uses)):
            if name in writer.names.shown:
                value = machine.R[writer.key(name)]
                registers[writer.names.shown[name]] = (
                    np.repeat(value, len(mine)) if len(value) == 1 else value[mine]
                )
        lanes = (machine.R["place"][mine] & 31).tolist()
        return Step(statement.instruction.line, statement.instruction.text, lanes, registers)

    # ---- errors

    def line_text(self, line: int) -> str:
        instruction = self.code.origins[line - 1] if 0 < line <= len(self.code.origins) else None
        return f"{instruction.line} ({instruction.text})" if instruction else "?"

    @contextmanager
    def _located(self, machine: ThreadChunk) -> Iterator[None]:
        """Turns faults into exceptions with everything that is known about their place."""
        try:
            yield
        except Fault as fault:
            raise self._error(machine, fault) from None

    def _error(self, machine: ThreadChunk, fault: Fault) -> EmulatorError:
        frame, number = None, 0
        for f, n in traceback.walk_tb(fault.__traceback__):
            if f.f_code.co_filename == self.code.file:
                frame, number = f, n
        instruction = self.code.origins[number - 1]
        if frame is None:  # the scheduler has noticed it, and knows where threads wait
            here = (i for i in self.code.origins if i is not None and i.line == fault.line)
            instruction = next(here, None)
        line = instruction.line if instruction else None
        text = instruction.text if instruction else None
        where: dict[str, Any] = {"kernel": self.entry.name, "line": line, "instruction": text}
        lines = [fault.message, f"  kernel {self.entry.name}"]
        if line is not None:
            lines[-1] += f", line {line}: {text}"
        slot, lane = fault.slot, fault.lane
        if slot is None and lane is not None:
            slot = lane if machine.here is None else int(machine.here[lane])
        if slot is not None:
            block, thread = machine.coordinates_of(int(machine.R["place"][slot]))
            where["block"] = coordinates(block, self.grid)
            where["thread"] = coordinates(thread, self.block)
            where["lane"] = thread % 32
            lines.append(
                f"  block {where['block']}, thread {where['thread']}, "
                f"warp {thread // 32}, lane {thread % 32}"
            )
        if frame is not None and lane is not None:
            block_name, local = frame.f_code.co_name, frame.f_locals
            where["registers"] = values = self._values(block_name, local, lane, instruction)
            if values:
                lines.append("  " + ", ".join(f"{name} = {x}" for name, x in values.items()))
        return fault.kind("\n".join(lines), **where)

    def _values(
        self, block: str, local: dict[str, Any], lane: int, instruction: Instruction | None
    ) -> dict[str, str]:
        """The registers of a thread at a fault: first those of the instruction, then the latest."""
        number = int(block.rpartition("_")[2])
        shown = self.code.writers[self.code.blocks[number].function].names.shown
        words = set(re.findall(r"[%\w$]+", instruction.text)) if instruction else set()
        named = [name for name in shown if shown[name] in words]
        others = [n for n in local if n in shown and n not in named]
        result: dict[str, str] = {}
        for name in [*named, *others[-8:]]:
            value = local.get(name)
            if isinstance(value, np.ndarray) and value.ndim == 1 and len(value):
                element = value[min(lane, len(value) - 1)]
                result[shown[name]] = _show(element)
        return result


def _show(element: Any) -> str:
    if element.dtype.kind in "iu" and element.dtype.itemsize == 8 and abs(int(element)) > 1 << 20:
        return hex(int(element))
    return str(element.item())


class Entry:
    """An entry point of a module.

    `parameter_bytes` is the size of the buffer of parameters that `launch` expects.
    """

    def __init__(self, module: "Module", function: PtxFunction):
        self.program, self.memory = module.program, module.memory
        self.addresses = module.addresses
        self.function = function
        self.name = function.name
        self.parameter_bytes = offsets(function.parameters)[1]

    @cached_property
    def code(self) -> PythonCode:
        """The translation, created on first use. Raises errors of the text."""
        return translated(self.program, self.name)

    @property
    def source(self) -> str:
        """The generated Python."""
        return self.code.source

    @property
    def shared_bytes(self) -> int:
        """Shared memory that the kernel declares, in bytes per block."""
        return self.code.layout.shared_bytes

    def launch(
        self, grid: Size, block: Size, parameters: bytes, shared: int = 0, conflicts: bool = True
    ) -> LaunchReport:  # fmt: skip
        """Executes the kernel for all threads of a grid.

        Sizes are numbers or up to three of them, `shared` the dynamic shared memory in bytes.
        Without `conflicts`, bank conflicts are not counted. Raises the exceptions of
        `drjit.jit.cuda.emulator.errors`.
        """
        launch = EmulatedLaunch(self, grid, block, parameters, shared, conflicts)
        with np.errstate(all="ignore"):
            launch.run()
        return launch.report

    def trace(
        self, grid: Size, block: Size, parameters: bytes, warp: int = 0, shared: int = 0
    ) -> Iterator[Step]:
        """Executes the kernel one instruction at a time, and yields those of a warp (counted
        through the grid): the line, the lanes that took part, and the registers it names after it.

        >>> for step in entry.trace(1, 32, parameters):  # doctest: +SKIP
        ...     print(step)
        """
        launch = EmulatedLaunch(self, grid, block, parameters, shared, True, True)
        for machine in launch.machines():
            relative = warp - machine.first * machine.warps_per_block
            with np.errstate(all="ignore"):
                yield from launch.trace(machine, relative)


class Module:
    """A PTX text that is loaded into a memory.

    >>> module = Module(text, memory)  # doctest: +SKIP
    >>> module.entries["kernel"].launch(1, 32, parameters)  # doctest: +SKIP

    `entries` are the entry points, by name. Raises `PTXSyntaxError`; unknown instructions are
    noticed when an entry point is first used.
    """

    def __init__(self, ptx: str | bytes, memory: Memory):
        text = ptx.decode() if isinstance(ptx, bytes) else ptx
        self.memory = memory
        self.program = parse(text)
        self.addresses: dict[str, int] = {}
        self._place_variables()
        self.entries = {
            f.name: Entry(self, f) for f in self.program.functions.values() if f.is_entry
        }

    def _place_variables(self) -> None:
        program = self.program
        inner = [v for f in program.functions.values() for v in f.variables.values()]
        variables = [v for v in (*program.variables.values(), *inner)
                     if v.space in ("global", "const")]  # fmt: skip
        for v in variables:
            self.addresses[v.name] = address = self.memory.allocate(v.nbytes, v.name)
            self.memory.view(address, v.nbytes)[:] = 0
        for v in variables:
            if v.initial:
                size = SIZES[v.element]
                elements = [self._element(text, v.element, size) for text in v.initial]
                data = np.frombuffer(b"".join(elements), np.uint8)
                self.memory.view(self.addresses[v.name], v.nbytes)[: len(data)] = data

    def _element(self, text: str, kind: str, size: int) -> bytes:
        if text[:2] in ("0f", "0F", "0d", "0D"):
            return int(text[2:], 16).to_bytes(size, "little")
        if kind in ("f32", "f64"):
            return np.array([float(text)], f"f{size}").tobytes()
        name, _, offset = text.removeprefix("generic(").replace(")", "").partition("+")
        name = name.strip()
        if name in self.addresses:
            return (self.addresses[name] + int(offset or 0)).to_bytes(size, "little")
        try:
            value = int(text.rstrip("U"), 0)
        except ValueError:
            raise errors.PTXSyntaxError(f"{text} is not known") from None
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
