"""How long two routes from a kernel to machine code take: LLVM IR compiled by llvmlite directly,
and the same IR as the body of a
Numba function. Prints one row a kernel size; times are the best of several kernels, in
milliseconds.

    python benchmarks/compile_routes.py
"""

import random
import re
import time

from llvmlite import binding
from llvmlite import ir as llvm_ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from drjit.jit.target import library, simd
from drjit.jit.target.simd.kernel import module_text

SIZES = (30, 300, 3000)
REPEATS = 4


def kernel_of(operations: int, seed: int) -> str:
    """A straight-line kernel on float32: sums, products, fused multiply-adds and selections of
    recent values.
    """
    choose = random.Random(f"{operations} {seed}")
    lines = ["def kernel(i, p):", "    v0 = load(f32, p[1], i)", "    v1 = load(f32, p[2], i)"]
    n = 2
    while n < operations + 2:
        a, b, c, d = (choose.randrange(max(0, n - 20), n) for _ in range(4))
        form = choose.choice(("+", "-", "*", "*", "fma", "fma", "select"))
        if form == "fma":
            lines.append(f"    v{n} = fma(v{a}, v{b}, v{c})")
        elif form == "select":
            lines.append(f"    m{n} = v{a} > v{b}")
            lines.append(f"    v{n} = select(m{n}, v{c}, v{d})")
        else:
            lines.append(f"    v{n} = v{a} {form} v{b}")
        n += 1
    lines += [f"    store(f32, p[3], i, v{n - k})" for k in range(1, 6)]
    return "\n".join(lines)


class LinkedText:
    """A parsed module in the place where Numba expects a library to link."""

    def __init__(self, module: binding.ModuleRef):
        self.module, self._reload_init = module, set()

    def _get_module_for_linking(self) -> binding.ModuleRef:
        return self.module


def through_numba(text: str, name: str):
    """The packet loop of a kernel behind one Numba intrinsic."""
    signature = types.void(types.uintp, types.int64, types.int64, types.int64, types.int64)

    @intrinsic
    def kernel_body(typingctx, p, begin, end, block, thread):
        def emit(context, builder, sig, args):
            source = module_text(text, name, simd.default_lanes(), False, library).ir
            source = re.sub(r"^define void @", "define linkonce_odr void @", source, flags=re.M)
            module = binding.parse_assembly(source)
            context.active_code_library._linking_libraries.append(LinkedText(module))
            words = [llvm_ir.IntType(8).as_pointer(), *[llvm_ir.IntType(64)] * 4]
            kind = llvm_ir.FunctionType(llvm_ir.VoidType(), words)
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            builder.call(function, [builder.inttoptr(args[0], words[0]), *args[1:]])
            return context.get_dummy_value()

        return signature, emit

    @njit(signature, nogil=True)
    def run(p, begin, end, block, thread):
        kernel_body(p, begin, end, block, thread)

    return run


def direct(text: str, name: str):
    """The direct route, loading included."""
    built = simd.compile(text, name)
    return simd.load(built.code, name, built.has_finish)


def main() -> None:
    """Prints the table."""
    direct(kernel_of(10, 0), "warm_direct")
    through_numba(kernel_of(10, 0), "warm_numba")
    print("operations    direct     numba     ratio")
    for size in SIZES:
        best = {}
        for route in (direct, through_numba):
            spent = []
            for repeat in range(REPEATS):
                text = kernel_of(size, repeat)
                start = time.perf_counter()
                route(text, f"{route.__name__}_{size}_{repeat}")
                spent.append(time.perf_counter() - start)
            best[route] = 1e3 * min(spent)
        a, b = best[direct], best[through_numba]
        print(f"{size:10d} {a:8.1f}  {b:8.1f}  {b / a:8.1f}")


if __name__ == "__main__":
    main()
