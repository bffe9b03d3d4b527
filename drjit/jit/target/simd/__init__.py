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
from .. import library as _library
from ..packet_width import default_lanes, packet_lanes
from .ir import KernelError

if TYPE_CHECKING:
    from .kernel import Text
    from .module import Library

__all__ = [
    "KernelError",
    "Object",
    "assembly",
    "compile",
    "default_lanes",
    "llvm_version",
    "packet_lanes",
]


class Object(NamedTuple):
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
    library: Library = _library,
    by_numba: bool | None = None,
    level: int | None = None,
) -> Object:
    """Compiles the text of a kernel to machine code that exports `name` and, for reductions,
    `name_finish`.

    `contract` allows fused multiply-adds in place of products and sums; with `by_numba`, by default
    as the flag says, Numba compiles the functions of the text (see `packets`). `level` is that of
    LLVM's code generation, if the text does not decide: code of level 0 is there sooner and has
    the same results. Raises KernelError if the text violates the rules of the language.
    """
    from . import llvm

    collector.defer()
    by_numba = _by_numba() if by_numba is None else by_numba
    module = _module_text(text, name, lanes or packet_lanes(text), contract, library, by_numba)
    code = llvm.object_code(
        module.ir,
        module.uncombined,
        by_numba,
        module.vectorizes,
        module.plain and not by_numba,
        level,
    )
    return Object(
        image.linked(code, image.exports(name, module.has_finish)), module.has_finish, module.ir
    )


def _module_text(
    text: str, name: str, lanes: int, contract: bool, library: Library, by_numba: bool
) -> Text:
    from .kernel import module_text

    if not by_numba:
        return module_text(text, name, lanes, contract, library)
    from numba.core.compiler_lock import global_compiler_lock

    from ..packets import body

    with global_compiler_lock:  # of which each thread of the program takes its turn
        return module_text(text, name, lanes, contract, library, body)


def _by_numba() -> bool:
    return bool(flags.current & JitFlag.NumbaCompiler)


def assembly(
    text: str,
    lanes: int | None = None,
    contract: bool = False,
    library: Library = _library,
    by_numba: bool | None = None,
) -> str:
    """Returns the machine code of a kernel's text, as assembly text."""
    from . import llvm

    lanes = lanes or packet_lanes(text)
    by_numba = _by_numba() if by_numba is None else by_numba
    module = _module_text(text, "kernel", lanes, contract, library, by_numba)
    return llvm.assembly(module.ir, module.uncombined, by_numba, module.plain and not by_numba)


def llvm_version() -> str:
    """Returns the version of LLVM in llvmlite."""
    from . import llvm

    return llvm.version()
