"""The compiler from LLVM modules to PTX: llvmlite's target for NVIDIA GPUs."""

from functools import cache
from typing import Any

from llvmlite import binding

from ..simd import llvm

# The version of PTX for a compute capability, which the driver must know: see `OLDEST_DRIVERS` in
# drjit/jit/cuda/driver.py. Compute capability 9.0 has reductions of several floats, of PTX 8.1.
_VERSIONS = {(9, 0): 81, (10, 0): 86, (12, 0): 87}
_OLDEST_VERSION = 80
# The architectures that LLVM knows, of which a GPU runs the code for the next older one.
_ARCHITECTURES = (70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)

LAYOUT = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
TRIPLE = "nvptx64-nvidia-cuda"


def architecture(capability: tuple[int, int]) -> str:
    """Returns the architecture to generate code for.

    >>> architecture((9, 0)), architecture((8, 8))
    ('sm_90', 'sm_87')
    """
    number = 10 * capability[0] + capability[1]
    return f"sm_{max(known for known in _ARCHITECTURES if known <= number)}"


@cache
def _target() -> Any:
    binding.set_option("drjit", "--nvptx-short-ptr")  # addresses of shared memory take a register
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(TRIPLE)


def new_machine(capability: tuple[int, int], level: int) -> Any:
    newer = [version for first, version in _VERSIONS.items() if capability >= first]
    features = f"+ptx{max(newer, default=_OLDEST_VERSION)}"
    return _target().create_target_machine(
        cpu=architecture(capability), features=features, opt=level
    )


def ptx(ir: str, capability: tuple[int, int]) -> str:
    """Compiles the text of a module to PTX."""
    ir = f'target datalayout = "{LAYOUT}"\ntarget triple = "{TRIPLE}"\n{ir}'
    level = 1 if ir.count("\n") > llvm.LONG else 3
    with llvm.compiler(new_machine, capability) as c:
        return llvm.emit(c.machine(level), c.module(ir), False).decode()
