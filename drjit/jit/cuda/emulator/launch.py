"""One launch: chunks of blocks that take turns, what they report, and errors with their place."""

import math
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from drjit.jit.cuda.emulator.code import translated
from drjit.jit.cuda.emulator.errors import Deadlock, EmulatorError, Fault, LaunchError, describe
from drjit.jit.cuda.emulator.machine import ThreadChunk
from drjit.jit.cuda.emulator.parse import Instruction
from drjit.jit.cuda.emulator.threads import Shape
from drjit.jit.cuda.emulator.translate import BasicBlock

if TYPE_CHECKING:
    from drjit.jit.cuda.emulator.module import Entry

# Threads that are executed at once: enough to make NumPy's overhead small, few enough for registers
# to stay in the cache.
CHUNK = 1 << 15
# Blocks executed for a chunk of threads before another chunk gets its turn, and after how many of
# these turns without any progress the threads are taken to wait forever.
TURNS = 1 << 12
PATIENCE = 1 << 12

Size = int | tuple[int, ...]


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
        self, entry: "Entry", grid: Size, block: Size, parameters: bytes, shared: int, checks: bool,
        conflicts: bool = True, single: bool = False,
    ):  # fmt: skip
        self.entry, self.checks, self.shared = entry, checks, shared
        self.conflicts = checks and conflicts
        self.code = translated(entry.program, entry.name, True) if single else entry.code
        self.grid, self.block = shape(grid, "grid"), shape(block, "block")
        self.memory = entry.memory
        self.report = LaunchReport()
        self._validate(parameters)
        size = -(-max(len(parameters), 1) // 16) * 16
        storage = np.zeros(size + 256, np.uint8)
        start = -storage.ctypes.data % 256
        self.parameters = storage[start : start + size]
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

    def run(self) -> None:
        self.memory.add(self.parameters, f"the parameters of {self.entry.name}")
        try:
            waiting: list[ThreadChunk] = []
            for machine in self.machines():
                self._turn(machine, TURNS)
                if machine.finished:
                    self._finish(machine)
                else:
                    waiting.append(machine)
            self._share(waiting)
        finally:
            self.memory.release(self.parameters.ctypes.data)

    def _share(self, waiting: list[ThreadChunk]) -> None:
        """Lets chunks that are not finished take turns: one may wait for another."""
        idle = 0
        states: list[Any] = []
        at = 1
        while waiting:
            writes = self.memory.writes, sum(m.progress for m in waiting), len(waiting)
            for machine in waiting:
                self._turn(machine, TURNS)
                if machine.finished:
                    self._finish(machine)
            waiting = [m for m in waiting if not m.finished]
            if (self.memory.writes, sum(m.progress for m in waiting), len(waiting)) != writes:
                idle, states, at = 0, [], 1
                continue
            # Nothing was written, nobody got any further: threads only spin. If their state comes
            # again, it will do so forever (R. P. Brent's way to find cycles).
            idle += 1
            now = [m.state() for m in waiting]
            if now == states or idle > PATIENCE:
                where = "; ".join(m.where_threads_are() for m in waiting[:4])
                raise Deadlock(
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

    def _turn(self, machine: ThreadChunk, turns: int) -> None:
        try:
            machine.run(turns)
        except Fault as fault:
            raise self.error(machine, fault, sys.exc_info()[2]) from None

    def trace(self, machine: ThreadChunk, warp: int) -> Iterator[Step]:
        """Steps of a warp (of this chunk)."""
        self.memory.add(self.parameters, f"the parameters of {self.entry.name}")
        try:
            for block, here in machine.steps(1 << 60):
                mine = here[machine.R["place"][here] >> 5 == warp]
                if len(mine) and block.end > block.first:
                    yield self._step(machine, block, mine)
        except Fault as fault:
            raise self.error(machine, fault, sys.exc_info()[2]) from None
        finally:
            self.memory.release(self.parameters.ctypes.data)

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

    def error(
        self, machine: ThreadChunk, fault: Fault, trace: TracebackType | None
    ) -> EmulatorError:
        """A fault with everything that is known about where it happened."""
        frame, number = None, 0
        for f, n in traceback.walk_tb(trace):
            if f.f_code.co_filename == self.code.file:
                frame, number = f, n
        instruction = self.code.origins[number - 1] if frame is not None else None
        line = instruction.line if instruction else fault.line
        text = instruction.text if instruction else self._text_of(fault.line)
        slot, lane = fault.slot, fault.lane
        if slot is None and lane is not None:
            slot = lane if machine.here is None else int(machine.here[lane])
        place = None
        if slot is not None:
            place = machine.coordinates_of(int(machine.R["place"][slot]))
        values: dict[str, str] = {}
        if frame is not None and lane is not None:
            values = self._values(frame.f_code.co_name, frame.f_locals, lane, instruction)
        return describe(fault, self.entry.name, line, text, place, self.grid, self.block, values)

    def _text_of(self, line: int | None) -> str | None:
        for instruction in self.code.origins:
            if instruction is not None and instruction.line == line:
                return instruction.text
        return None

    def _values(
        self, block: str, local: dict[str, Any], lane: int, instruction: Instruction | None
    ) -> dict[str, str]:
        """Registers of a thread at a fault: those of the instruction first, then the latest."""
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
