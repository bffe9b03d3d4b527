"""Kernel texts inside of Numba's CUDA programs: the second way from a text to a GPU.

`kernel` returns a kernel of `numba.cuda` that runs a text. Numba compiles what surrounds it, and
links the PTX of the text, so both have the same instructions on either way. This needs the package
`numba-cuda` (`pip install 'drjit-numba[numba-cuda]'`), and is imported by whoever wants it.
"""

from importlib import import_module
from typing import Any

from .. import library
from . import nvptx
from .module import BY_VALUE, translate
from .plan import Options

_ENTRY = 'define ptx_kernel void @"{name}"('
_BODY = 'define internal void @"{name}"('
# Numba's calling convention: the address of the result comes first, and a status is returned.
_CALLED = """
define i32 @"{name}_lanes"(ptr %result, ptr %p, i64 %end, ptr %counter) {{
  %p.g = addrspacecast ptr %p to ptr addrspace(1)
  %counter.g = addrspacecast ptr %counter to ptr addrspace(1)
  call void @"{name}"(ptr addrspace(1) %p.g, i64 %end, ptr addrspace(1) %counter.g) alwaysinline
  ret i32 0
}}
"""


def device_code(
    text: str, name: str, *, contract: bool = False, capability: tuple[int, int] = (7, 0)
) -> tuple[str, Any]:
    """Returns PTX that defines the function `NAME_lanes` for a kernel text, and how to launch what
    calls it: `drjit.jit.target.cuda.Compiled`. Numba calls the function with the address of the
    parameter block in the GPU's memory, the number of lanes, and the address of a counter.

    Raises:
        KernelError: the text violates the rules of the language.
        NotImplementedError: the kernel needs a second launch, for sums of halves in memory.
    """
    form = translate(text, name, BY_VALUE + 1, contract, library, Options(capability))
    if form.finish:
        raise NotImplementedError(
            "a kernel that adds halves in memory takes two launches, which drjit.cuda makes"
        )
    names = {"name": name}
    code = form.code.replace(_ENTRY.format(**names), _BODY.format(**names))
    return nvptx.ptx(code + _CALLED.format(**names), capability), form


def kernel(
    text: str, name: str = "kernel", *, contract: bool = False, capability: tuple[int, int] = (7, 0)
) -> Any:
    """Returns a kernel of `numba.cuda` that runs a kernel text. Its arguments are the parameter
    block, an array of `int64` on the device; the number of lanes; and an array with one `uint32`
    that is zero before and afterwards.

    Launch it with `drjit.jit.target.cuda.form.THREADS` threads a block and a thread for each lane.

    Raises:
        ImportError: the package `numba-cuda` is not installed.
        KernelError: the text violates the rules of the language.
        NotImplementedError: the kernel needs shared memory, for products of vectors.
    """
    from numba.cuda.extending import intrinsic

    # Numba itself has modules of these names, with less in them.
    cuda: Any = import_module("numba.cuda")
    types: Any = cuda.types

    ptx, form = device_code(text, name, contract=contract, capability=capability)
    if form.shared:
        raise NotImplementedError(
            "a kernel with products of vectors needs shared memory, which drjit.cuda gives it"
        )

    @intrinsic
    def address(context: Any, array: Any) -> Any:  # type: ignore[misc]
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return types.CPointer(array.dtype)(array), emit

    signature = types.void(types.CPointer(types.int64), types.int64, types.CPointer(types.uint32))
    lanes = cuda.declare_device(f"{name}_lanes", signature, link=cuda.PTXSource(ptx.encode()))

    def run(block, size, counter):
        lanes(address(block), size, address(counter))  # pyright: ignore[reportCallIssue]

    return cuda.jit(run)
