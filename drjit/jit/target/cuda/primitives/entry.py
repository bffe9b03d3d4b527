"""The entry of a kernel that is not made from a program: its parameters are addresses of buffers
and 64-bit numbers, its threads stay together in whole warps.
"""

from ...simd.ir import MEMORY
from ..form import THREADS, Compiled
from ..function import DYNAMIC, GpuFunction


class EntryFunction(GpuFunction):
    """An entry under construction. `globals` are shared memory, by name."""

    def __init__(self, threads: int = THREADS) -> None:
        super().__init__(warps=True, threads=threads)
        self.parameters: list[str] = []
        self.globals: dict[str, str] = {}
        self.dynamic = 0  # bytes of dynamic shared memory
        self.together = 1  # blocks that a multiprocessor should have room for

    def buffer(self, name: str, *, read_only: bool = False) -> str:
        """Adds a parameter: the address of a buffer, which nothing writes to if it is
        `read_only`."""
        how = "noalias readonly " if read_only else ""
        self.parameters.append(f"ptr addrspace(1) {how}%{name}.g")
        return self.once(f"%{name}", f"addrspacecast ptr addrspace(1) %{name}.g to ptr")

    def size(self, name: str) -> str:
        """Adds a parameter: a number as `i64`."""
        self.parameters.append(f"i64 %{name}")
        return f"%{name}"

    def dynamic_shared(self, nbytes: int) -> str:
        """Returns the address of dynamic shared memory."""
        self.dynamic = nbytes
        self.globals[DYNAMIC] = f"{DYNAMIC} = external addrspace(3) global [0 x i8], align 128"
        return DYNAMIC

    def thread(self) -> str:
        """Returns the number of the thread in its block as `i64`."""
        return self.once("%thread", f"zext i32 {self.special('tid.x')} to i64")

    def block_number(self) -> str:
        """Returns the number of the block as `i64`."""
        return self.once("%block", f"zext i32 {self.special('ctaid.x')} to i64")

    def module_text(self, name: str) -> str:
        """Returns the text of a module with this entry."""
        parameters = ", ".join(self.parameters)
        return "\n".join((
            *self.globals.values(),
            f'define ptx_kernel void @"{name}"({parameters}) #0 {{\n{self.text()}\n}}',
            f'attributes #0 = {{ nounwind "nvvm.maxntid"="{self.threads}" '
            f'"nvvm.minctasm"="{self.together}" }}',
            "!0 = !{}",
            '!1 = !{!"branch_weights", i32 1, i32 1000000}',
            "",
        ))  # fmt: skip

    def compiled(self, name: str, capability: tuple[int, int]) -> Compiled:
        """Returns the PTX for a compute capability."""
        from .. import nvptx

        self.do("ret void")
        code = nvptx.ptx(self.module_text(name), capability)
        return Compiled(code, name, True, False, "", self.threads, self.dynamic)


def row(code: str, width: int) -> str:
    """Returns the type of consecutive elements in memory.

    >>> row("f16", 8), row("mask", 1)
    ('<8 x half>', '<1 x i8>')
    """
    return f"<{width} x {MEMORY[code]}>"
