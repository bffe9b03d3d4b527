"""The CUDA target: translates kernel text to PTX, with a thread for each lane, or for
each packet of neighbouring ones where that is faster.

The front end is that of the SIMD target, mostly with packets of a single lane; statements that work
differently on a GPU have translators of their own. LLVM makes PTX of the module: no CUDA toolkit
is needed, and llvmlite is imported when something is compiled.
"""

from ... import collector
from .function import Compiled

__all__ = ["Compiled", "compile"]


def compile(
    text: str,
    name: str,
    words: int,
    contract: bool = False,
    capability: tuple[int, int] = (7, 0),
    reduced: bool = False,
    by_numba: bool = False,
    packets: bool = False,
) -> Compiled:
    """Compiles the text of a kernel, whose parameter block has a number of words, to PTX for GPUs
    of a compute capability. `contract` allows fused multiply-adds in place of products and sums;
    `reduced` lets products of halves accumulate in halves, and rounds the operands of those in
    single precision to TF32; with `by_numba`, `numba.cuda` compiles the kernel (see `numba_route`).
    With `packets`, a thread may have several lanes, and accesses whole packets.

    Raises KernelError if the text violates the rules of the language.
    """
    if by_numba:
        from . import numba_route

        return numba_route.compile(text, name, words, contract, capability, reduced)
    from . import nvptx
    from .module import translate
    from .plan import Options

    collector.defer()
    made = translate(text, name, words, contract, Options(capability, reduced, packets))
    return made._replace(code=nvptx.ptx(made.code, capability))
