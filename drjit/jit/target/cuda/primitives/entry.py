"""The entry of a kernel that is not made from a program: its parameters are addresses of buffers
and 64-bit numbers, its threads stay together in whole warps.

Tiles are consecutive elements that a block holds in registers. Each warp has a part of its own, of
rows in which every thread has 16 consecutive bytes, so that whole tiles are read and written by the
widest instructions, in whole sectors of memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...simd.ir import BYTES
from ...simd.values import Value, Word
from ..function import DYNAMIC, THREADS, WARP, Compiled, GpuFunction
from ..values import GpuCode, GpuPointer

_WIDEST = 16


class EntryCode(GpuCode):
    """The code of an entry. `globals` are shared memory, by name."""

    def __init__(self, threads: int = THREADS) -> None:
        super().__init__(GpuFunction(warps=True, threads=threads), self)
        self.parameters: list[str] = []
        self.globals: dict[str, str] = {}
        self.dynamic_bytes = 0  # bytes of dynamic shared memory
        self.together = 1  # blocks that a multiprocessor should have room for
        self.accelerated = False  # whether it has instructions of one architecture alone

    def buffer(self, name: str, code: str, *, read_only: bool = False) -> GpuPointer:
        """Adds a parameter: the address of a buffer of elements, which nothing writes to if it is
        `read_only`."""
        how = "noalias readonly " if read_only else ""
        self.parameters.append(f"ptr addrspace(1) {how}%{name}.g")
        place = self.f.once(f"%{name}", f"addrspacecast ptr addrspace(1) %{name}.g to ptr")
        return GpuPointer(self.f, code, place, constant=read_only)

    def tensor_map(self, name: str) -> GpuPointer:
        """Adds a parameter: the map of a tensor, by which the hardware copies parts of it."""
        how = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'
        self.parameters.append(f"ptr {how} %{name}")
        return GpuPointer(self.f, "u8", f"%{name}", constant=True)

    def sizes(self, *names: str) -> list[Word]:
        """Adds parameters: numbers."""
        self.parameters += [f"i64 %{name}" for name in names]
        return [self.word(f"%{name}") for name in names]

    def dynamic_shared(self, nbytes: int, align: int = 128) -> GpuPointer:
        """Returns the address of dynamic shared memory."""
        self.dynamic_bytes, kind = nbytes, "external addrspace(3) global [0 x i8]"
        self.globals[DYNAMIC] = f"{DYNAMIC} = {kind}, align {align}"
        return self.dynamic()

    def parts(self, number: Any, count: Any) -> tuple[Any, Any]:
        """Returns a number divided by another one, and the remainder."""
        quotient = number // count
        return quotient, number - quotient * count

    def module_text(self, name: str) -> str:
        """Returns the text of a module with this entry."""
        parameters, f = ", ".join(self.parameters), self.f
        return "\n".join((
            *self.globals.values(),
            f'define ptx_kernel void @"{name}"({parameters}) #0 {{\n{f.text()}\n}}',
            f'attributes #0 = {{ nounwind "nvvm.maxntid"="{f.threads}" '
            f'"nvvm.minctasm"="{self.together}" }}',
            "!0 = !{}",
            '!1 = !{!"branch_weights", i32 1, i32 1000000}',
            "",
        ))  # fmt: skip

    def compiled(self, name: str, capability: tuple[int, int]) -> Compiled:
        """Returns the PTX for a compute capability."""
        from .. import nvptx

        self.f.do("ret void")
        code = nvptx.ptx(self.module_text(name), capability, self.accelerated)
        return Compiled(code, name, True, False, "", self.f.threads, self.dynamic_bytes)


class TileShape(NamedTuple):
    """The shape of a tile: elements of a thread in a row, and rows of a warp."""

    width: int
    rows: int

    @classmethod
    def of(cls, code: str) -> "TileShape":
        """The shape for a type: 16 elements to a thread, or 8 of 64 bits."""
        width = _WIDEST // BYTES[code]
        return cls(width, max(1, (8 if BYTES[code] == 8 else 16) // width))

    @property
    def size(self) -> int:
        """The number of elements."""
        return THREADS * self.width * self.rows


class MemoryTile:
    """A tile in memory with up to `left` elements, at least one, which begins at a multiple of the
    widest access if `aligned` is not 0. `whole` is whether it is aligned and has all elements."""

    def __init__(self, c: EntryCode, code: str, left: Any, aligned: Any) -> None:
        self.c, self.shape = c, (shape := TileShape.of(code))
        count = c.least(left, shape.size)
        self.whole = (count == shape.size) & (aligned != 0)
        self.count = count.cast("u32")
        part = WARP * shape.width
        at = c.warp * (part * shape.rows) + c.lane * shape.width
        # Where the thread's elements of each row begin.
        self.places = [at + part * r for r in range(shape.rows)]

    def _each(self) -> list[Value]:
        """The number of each element, row by row."""
        return [p + j for p in self.places for j in range(self.shape.width)]

    def load(self, base: GpuPointer) -> list[Value]:
        """Returns the elements in rows, as vectors; those beyond the end are the last one."""
        width = self.shape.width

        def together() -> list[Value]:
            return [(base + p).load(width) for p in self.places]

        def one_by_one() -> list[Value]:
            last = self.count - 1
            xs = [(base + self.c.least(k, last)).load() for k in self._each()]
            return [self.c.vector(xs[k : k + width]) for k in range(0, len(xs), width)]

        return self.c.choose(self.whole, together, one_by_one)

    def store(self, base: GpuPointer, rows: Sequence[Value]) -> None:
        """Stores the elements that exist."""

        def together() -> None:
            for p, x in zip(self.places, rows, strict=True):
                (base + p).store(x)

        def one_by_one() -> None:
            xs = [x for r in rows for x in r.elements()]
            for k, x in zip(self._each(), xs, strict=True):
                for _ in self.c.when(k < self.count):
                    (base + k).store(x)

        self.c.choose(self.whole, together, one_by_one)
