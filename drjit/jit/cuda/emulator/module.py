"""A loaded PTX text: variables in memory, and entry points that can be launched."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from drjit.jit.cuda.emulator.code import PythonCode, translated
from drjit.jit.cuda.emulator.errors import PTXSyntaxError
from drjit.jit.cuda.emulator.launch import EmulatedLaunch, LaunchReport, Size, Step
from drjit.jit.cuda.emulator.memory import Memory
from drjit.jit.cuda.emulator.parse import SIZES, PtxFunction, PtxVariable, parse
from drjit.jit.cuda.emulator.ptx_operands import offsets


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
        """The translation; made when it is first needed. Raises errors of the text."""
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
        self, grid: Size, block: Size, parameters: bytes, shared: int = 0, checks: bool = True,
        conflicts: bool = True,
    ) -> LaunchReport:  # fmt: skip
        """Executes the kernel for all threads of a grid.

        Sizes are numbers or up to three of them, `shared` the dynamic shared memory in bytes.
        Without `checks`, races in shared memory and bank conflicts are not looked for; without
        `conflicts`, the latter are not. Raises the exceptions of
        `drjit.jit.cuda.emulator.errors`.
        """
        launch = EmulatedLaunch(self, grid, block, parameters, shared, checks, conflicts)
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
        launch = EmulatedLaunch(self, grid, block, parameters, shared, True, single=True)
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
                data = np.frombuffer(self._initial(v), np.uint8)
                self.memory.view(self.addresses[v.name], v.nbytes)[: len(data)] = data

    def _initial(self, v: PtxVariable) -> bytes:
        size = SIZES[v.element]
        return b"".join(self._element(text, v.element, size) for text in v.initial)

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
            raise PTXSyntaxError(f"{text} is not known") from None
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
