"""The SIMD target: translates kernel text to LLVM IR with explicit vectors and compiles it for this
machine's processor.

llvmlite and the translator are imported on the first compilation: neither is needed to run kernels
from the disk cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import collector, flags
from ...flags import JitFlag
from ...tuples import NamedTuple
from .. import image
from ..packet_width import default_lanes, packet_lanes
from . import linker
from .ir import KernelError

if TYPE_CHECKING:
    from .kernel import ModuleText

__all__ = [
    "CompiledKernel",
    "KernelError",
    "assembly",
    "compile",
    "default_lanes",
    "packet_lanes",
]


class CompiledKernel(NamedTuple):
    """A compiled kernel: an image or an object file, whether it has a finish function, and the IR
    that it was compiled from.
    """

    code: bytes
    has_finish: bool
    ir: str


def compile(
    text: str,
    name: str,
    lanes: int | None = None,
    contract: bool = False,
    by_numba: bool | None = None,
    level: int | None = None,
) -> CompiledKernel:
    """Compiles the text of a kernel to machine code that exports `name` and, for reductions,
    `name_finish`.

    `contract` allows fused multiply-adds in place of products and sums; with `by_numba`, whose
    default is the flag, Numba compiles the functions of the text (see `packets`). `level` is that
    of LLVM's code generation, if the text does not decide: code of level 0 is there sooner and has
    the same results. Raises KernelError if the text cannot be translated; what users write is
    checked before."""
    from . import llvm

    collector.defer()
    module = _module_text(text, name, lanes, contract, by_numba)
    code = linker.build(
        llvm.object_code(module.ir, *module.options, level), image.exports(name, module.has_finish)
    )
    return CompiledKernel(code, module.has_finish, module.ir)


def _module_text(
    text: str, name: str, lanes: int | None, contract: bool, by_numba: bool | None
) -> ModuleText:
    from .kernel import module_text

    lanes = lanes or packet_lanes(text)
    if by_numba is None:
        by_numba = bool(flags.current & JitFlag.NumbaCompiler)
    if not by_numba:
        return module_text(text, name, lanes, contract)
    from numba.core.compiler_lock import global_compiler_lock

    from ..packets import body

    with global_compiler_lock:  # of which each thread of the program takes its turn
        return module_text(text, name, lanes, contract, body)


def assembly(
    text: str, lanes: int | None = None, contract: bool = False, by_numba: bool | None = None
) -> str:
    """Returns the machine code of a kernel's text, as assembly text."""
    from . import llvm

    module = _module_text(text, "kernel", lanes, contract, by_numba)
    return llvm.object_code(module.ir, *module.options, as_text=True).decode()
