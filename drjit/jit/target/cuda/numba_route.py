"""Kernel texts in programs of `numba.cuda`: the second way from a text to PTX.

The statements of a text go through Numba's types and lowering (see `drjit.jit.target.packets`, here
with packets of one lane), and the body of the kernel becomes one intrinsic of `numba.cuda`, whose
compiler NVVM inlines it into the kernel that calls it. This needs the package `numba-cuda` with a
toolkit (`pip install 'drjit-numba[numba-cuda]'`), but no GPU, and is imported by whoever wants it.
"""

import hashlib
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..packet_width import VECTORS
from . import nvptx, nvvm
from .function import Compiled
from .module import BY_VALUE, translate
from .plan import Options

_ENTRY = re.compile(r'^define ptx_kernel void @"(\w+)"\((.*)\) #5 \{$', re.MULTILINE)
_POINTER = "i8 addrspace(1)*"
_VERSION = "!nvvmir.version = !{{!10}}\n!10 = !{{i32 {}, i32 {}, i32 {}, i32 {}}}"
# A kernel of the module itself: the entry that finishes sums of halves.
_FINISH = f"""!nvvm.annotations = !{{{{!11, !12}}}}
!11 = !{{{{void ({_POINTER}, i64, {_POINTER})* @"{{name}}", !"kernel", i32 1}}}}
!12 = !{{{{void ({_POINTER}, i64, {_POINTER})* @"{{name}}", !"maxntidx", i32 {{threads}}}}}}"""


def compile(
    text: str,
    name: str,
    words: int = 0,
    contract: bool = False,
    capability: tuple[int, int] = (7, 0),
    reduced: bool = False,
) -> Compiled:
    """Compiles the text of a kernel to PTX, as `drjit.jit.target.cuda.compile` does. The parameter
    block is passed by its address, whatever its number of words.

    Raises:
        ImportError: the package `numba-cuda` is not installed, or finds no CUDA toolkit.
        KernelError: the text violates the rules of the language.
        NotImplementedError: the text calls functions that another compiler made.
    """
    cuda, types = _numba(), _numba().types
    form = _translated(text, name, contract, capability, reduced)
    run = _caller(_intrinsic(form, name))
    signature = types.void(types.CPointer(types.int64), types.int64, types.CPointer(types.uint32))
    cc = divmod(int(nvptx.architecture(capability).removeprefix("sm_")), 10)
    ptx, _ = cuda.compile(
        run, signature, device=False, cc=cc, abi="numba", launch_bounds=form.threads
    )
    (entry,) = [e for e in re.findall(r"\.entry (\w+)", ptx) if e != form.finish]
    return form._replace(code=ptx, entry=entry)


def kernel(
    text: str,
    name: str = "kernel",
    *,
    contract: bool = False,
    capability: tuple[int, int] = (7, 0),
    reduced: bool = False,
    device: bool = False,
) -> tuple[Any, Compiled]:
    """Returns a kernel of `numba.cuda` that runs a kernel text, and how it is launched; with
    `device`, a function that all threads of other kernels call, launched in this way.

    Its arguments are the parameter block, an array of `int64` on the device; the number of lanes;
    and an array with one `uint32` that is zero before and afterwards. Launch it with `threads`
    threads a block, `shared` bytes of dynamic shared memory and, if it does not stride over the
    lanes, a thread for each lane.

    Raises:
        ImportError: the package `numba-cuda` is not installed, or finds no CUDA toolkit.
        KernelError: the text violates the rules of the language.
        NotImplementedError: the text calls functions that another compiler made, or takes a second
            launch, for sums of halves in memory.
    """
    form = _translated(text, name, contract, capability, reduced)
    if form.finish:
        raise NotImplementedError(
            "a kernel that adds halves in memory takes two launches, which drjit.cuda makes"
        )
    lanes = _intrinsic(form, name)
    if device:
        return lanes, form
    return _numba().jit(_caller(lanes), launch_bounds=form.threads), form


def _numba() -> Any:
    """Returns `numba.cuda` of the package `numba-cuda`; Numba itself has one with less in it."""
    if problem := nvvm.problem():
        raise ImportError(f"numba.cuda cannot compile kernels: {problem}")
    import_module("numba_cuda")
    return import_module("numba.cuda")


def _translated(
    text: str, name: str, contract: bool, capability: tuple[int, int], reduced: bool
) -> Compiled:
    """Returns a kernel whose code is the text of a module of NVVM."""
    from ..packets import body

    options = Options(capability, reduced)
    if any(name in text for name in VECTORS) and re.search(r"^ +(?:while|if) ", text, re.MULTILINE):
        body = None  # vectors that loops change stay in registers, which Numba does not know
    form = translate(text, name, BY_VALUE + 1, contract, options, body)
    return form._replace(code=nvvm.dialect(form.code))


class _CodegenModule:
    """A module that is known as text."""

    functions = ()

    def __init__(self, text: str):
        self.text = text

    def __str__(self) -> str:
        return self.text


def _linked(form: Compiled, name: str) -> str:
    """Returns the module that is linked to the kernel's: its entry is the function `name`, which is
    inlined."""

    def head(found: re.Match) -> str:
        if found[1] == form.finish:
            return f'define void @"{found[1]}"({found[2]}) nounwind {{'
        return f'define linkonce_odr void @"{name}"({found[2]}) alwaysinline nounwind {{'

    driver: Any = import_module("numba.cuda.cudadrv.nvvm").NVVM()
    layout = f'target datalayout = "{driver.data_layout}"\ntarget triple = "{nvptx.TRIPLE}"'
    more = _VERSION.format(*driver.get_ir_version())
    if form.finish:
        more += "\n" + _FINISH.format(name=form.finish, threads=form.threads)
    return "\n".join([layout, _ENTRY.sub(head, form.code), more, ""])


def _intrinsic(form: Compiled, name: str) -> Any:
    """Returns the body of a kernel as an intrinsic of `numba.cuda`."""
    codegen: Any = import_module("numba.cuda.codegen")
    extending: Any = import_module("numba.cuda.extending")
    types: Any = _numba().types
    ir: Any = import_module("llvmlite.ir")
    # Two kernels of one program may have the same name.
    name = f"{name}_{hashlib.blake2b(form.code.encode(), digest_size=8).hexdigest()}"

    class Linked(codegen.CUDACodeLibrary):
        """What Numba links to the code of a kernel."""

        modules = [_CodegenModule(_linked(form, name))]  # noqa: RUF012

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into = context.active_code_library
        made = Linked(into.codegen, name)
        made.finalize()
        into.add_linking_library(made)
        # A product and a sum are one operation only where the text allows it.
        into._nvvm_options["fma"] = 0
        generic, place = ir.IntType(8).as_pointer(), ir.IntType(8).as_pointer(1)
        kind = ir.FunctionType(ir.VoidType(), [place, ir.IntType(64), place])

        def address(which: int) -> Any:
            of, x = signature.args[which], arguments[which]
            if hasattr(of, "ndim"):
                x = context.make_array(of)(context, builder, x).data
            return builder.addrspacecast(builder.bitcast(x, generic), place)

        values = address(0), arguments[1], address(2)
        builder.call(ir.Function(builder.module, kind, name), values)
        return context.get_dummy_value()

    @extending.intrinsic
    def lanes(context: Any, block: Any, size: Any, counter: Any) -> Any:
        return types.void(block, types.int64, counter), emit

    return lanes


def _caller(lanes: Any) -> Callable:
    """Returns the function that `numba.cuda` compiles."""

    def run(block, size, counter):
        lanes(block, size, counter)

    return run
