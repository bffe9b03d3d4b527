"""Where the variables of an entry point are in shared and local memory, and its parameters."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from drjit.jit.cuda.emulator.parse import PtxVariable


@dataclass(slots=True)
class MemoryLayout:
    """What an entry point needs beside code: offsets in shared and local memory."""

    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    windows: bool = False  # are there addresses of shared or local memory without a space?

    def add_local(self, name: str, variable: PtxVariable) -> None:
        """Gives a local variable of a function its offset, under a name."""
        self.local[name] = at = aligned(self.local_bytes, variable.alignment)
        self.local_bytes = at + variable.nbytes

    def add_shared(self, variable: PtxVariable) -> None:
        """Gives a shared variable its offset; the one without a size comes after all others."""
        if variable.name in self.shared:
            return
        if variable.external and not variable.nbytes:
            self.shared[variable.name] = -variable.alignment
            return
        self.shared[variable.name] = at = aligned(self.shared_bytes, variable.alignment)
        self.shared_bytes = at + variable.nbytes

    def finish(self) -> None:
        """Dynamic shared memory begins after all of the static one."""
        dynamic = [-offset for offset in self.shared.values() if offset < 0]
        self.shared_bytes = aligned(self.shared_bytes, max([16, *dynamic]) if dynamic else 1)
        for name, offset in self.shared.items():
            if offset < 0:
                self.shared[name] = self.shared_bytes


def offsets(variables: Iterable[PtxVariable]) -> tuple[dict[str, int], int]:
    """Offsets of parameters of an entry point by name, and the number of bytes of all."""
    at = 0
    found: dict[str, int] = {}
    for variable in variables:
        found[variable.name] = at = aligned(at, variable.alignment)
        at += variable.nbytes
    return found, at


def aligned(at: int, alignment: int) -> int:
    """The next multiple of an alignment."""
    return -(-at // alignment) * alignment
