"""The entry of a kernel that is not made from a program: its parameters are addresses of buffers
and 64-bit numbers, its threads stay together in whole warps.
"""

from typing import Any

from ...simd.values import Word
from ..form import THREADS, Compiled
from ..function import DYNAMIC, GpuFunction
from ..values import GpuCode, GpuPointer


class EntryCode(GpuCode):
    """The code of an entry. `globals` are shared memory, by name."""

    def __init__(self, threads: int = THREADS) -> None:
        super().__init__(GpuFunction(warps=True, threads=threads), self)
        self.parameters: list[str] = []
        self.globals: dict[str, str] = {}
        self.dynamic_bytes = 0  # bytes of dynamic shared memory
        self.together = 1  # blocks that a multiprocessor should have room for

    def buffer(self, name: str, code: str, *, read_only: bool = False) -> GpuPointer:
        """Adds a parameter: the address of a buffer of elements, which nothing writes to if it is
        `read_only`."""
        how = "noalias readonly " if read_only else ""
        self.parameters.append(f"ptr addrspace(1) {how}%{name}.g")
        place = self.f.once(f"%{name}", f"addrspacecast ptr addrspace(1) %{name}.g to ptr")
        return GpuPointer(self.f, code, place, constant=read_only)

    def sizes(self, *names: str) -> list[Word]:
        """Adds parameters: numbers."""
        self.parameters += [f"i64 %{name}" for name in names]
        return [self.word(f"%{name}") for name in names]

    def dynamic_shared(self, nbytes: int) -> GpuPointer:
        """Returns the address of dynamic shared memory."""
        self.dynamic_bytes = nbytes
        self.globals[DYNAMIC] = f"{DYNAMIC} = external addrspace(3) global [0 x i8], align 128"
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
        code = nvptx.ptx(self.module_text(name), capability)
        return Compiled(code, name, True, False, "", self.f.threads, self.dynamic_bytes)
