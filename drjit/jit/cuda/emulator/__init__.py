"""A GPU without a GPU: an interpreter for NVIDIA's PTX on NumPy.

Kernels for NVIDIA GPUs are generated as PTX, a text that the driver translates to machine code.
Here the same text is executed by NumPy: one statement per instruction, for all threads of a grid
at once. That makes kernels testable on any machine, and mistakes visible that a device does not
report: an access beyond an allocation, a shuffle that not all threads of a warp reach, a missing
barrier. `Entry.source` is the kernel as Python, `Entry.trace` executes single instructions. The
emulator knows the instructions that LLVM and NVVM generate for this package's kernels; any
other is an `UnknownInstruction`.

Read in this order: `parse` (text to data), `forms` (instructions as rows of data), `translate`
(blocks to Python), `machine` (which threads run next), `memory` and `access`, `race` (in shared
memory), `warp` and `warpgroup` (instructions of warps), `module` (launches).
"""

from .errors import EmulatorError
from .memory import Memory
from .module import Entry, LaunchReport, Module, Step
from .warpgroup import tensor_map

__all__ = ["EmulatorError", "Entry", "LaunchReport", "Memory", "Module", "Step", "tensor_map"]
