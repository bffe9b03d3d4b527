"""The compiler from LLVM modules to PTX: llvmlite's target for NVIDIA GPUs."""

from functools import cache
from typing import Any

import llvmlite
from llvmlite import binding

from ...device import DeviceUnavailable
from ..simd import llvm

# The architectures that code is generated for, and the version of PTX, without which LLVM ends the
# process. A GPU runs the code for the next older one: 10.3 and 11.0 that for 10.0, 12.1 that for
# 12.0. What they have besides is not used, and takes a newer version. Compute capability 9.0 has
# reductions of several floats, of PTX 8.1.
_VERSIONS = {
    70: 80, 72: 80, 75: 80, 80: 80, 86: 80, 87: 80, 89: 80, 90: 81, 100: 86, 120: 87,
}  # fmt: skip
CAPABILITIES = sorted((*_VERSIONS, 88, 103, 110, 121))
"""Those of all GPUs, as 90 for 9.0."""
_OLDEST_LLVM = 22  # that of llvmlite 0.48

LAYOUT = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
TRIPLE = "nvptx64-nvidia-cuda"


def architecture(capability: tuple[int, int]) -> str:
    """Returns the architecture to generate code for.

    >>> architecture((9, 0)), architecture((8, 8)), architecture((12, 1))
    ('sm_90', 'sm_87', 'sm_120')
    """
    return f"sm_{_number(capability)}"


def version(capability: tuple[int, int]) -> int:
    """Returns the version of PTX, as 81 for 8.1, which whatever assembles it must know."""
    return _VERSIONS[_number(capability)]


def _number(capability: tuple[int, int]) -> int:
    number = 10 * capability[0] + capability[1]
    return max(known for known in _VERSIONS if known <= number)


def check() -> None:
    """Checks that LLVM can make PTX.

    Raises:
        DeviceUnavailable: it cannot; the text says how to get one that can.
    """
    number = binding.llvm_version_info[0]
    if number < _OLDEST_LLVM:  # which ends the process where it does not know an instruction
        raise DeviceUnavailable(
            f"llvmlite {llvmlite.__version__} has LLVM {number}, and LLVM {_OLDEST_LLVM} is "
            "required for GPUs. Install llvmlite 0.48 or later: pip install --upgrade llvmlite."
        )
    binding.initialize_all_targets()
    try:
        binding.Target.from_triple(TRIPLE)
    except RuntimeError:
        raise DeviceUnavailable(
            "llvmlite was built without the target NVPTX. Install one that has it: "
            "pip install --force-reinstall llvmlite."
        ) from None


@cache
def _target() -> Any:
    check()
    binding.set_option("drjit", "--nvptx-short-ptr")  # addresses of shared memory take a register
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(TRIPLE)


def new_machine(capability: tuple[int, int], accelerated: bool, level: int) -> Any:
    features = f"+ptx{version(capability)}"
    cpu = architecture(capability) + ("a" if accelerated else "")
    return _target().create_target_machine(cpu=cpu, features=features, opt=level)


def ptx(ir: str, capability: tuple[int, int], accelerated: bool = False) -> str:
    """Compiles the text of a module to PTX; if it is `accelerated`, with the instructions that no
    other architecture has."""
    ir = f'target datalayout = "{LAYOUT}"\ntarget triple = "{TRIPLE}"\n{ir}'
    level = 1 if ir.count("\n") > llvm.LONG else 3
    with llvm.compiler(new_machine, capability, accelerated) as c:
        return llvm.emit(c.machine(level), c.module(ir), False).decode()
