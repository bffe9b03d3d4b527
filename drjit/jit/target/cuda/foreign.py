"""Functions that another compiler made, on GPUs. They were compiled for processors, but to LLVM IR:
their calls of the C library become calls of the math library."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ir.op import TABLE
from ..foreign import ForeignFunction
from ..simd.ir import SCALAR, KernelError
from ..simd.module import library_symbol

if TYPE_CHECKING:
    from .module import GpuModule

_DECLARED = re.compile(r"^declare .*@([\w.$]+)\(")
_DEFINED = re.compile(r"^(define .*?)(?: alwaysinline)? \{$", re.MULTILINE)
# A function of the C library, or of LLVM where that would call the C library.
_LLVM = re.compile(r"llvm\.([a-z]+\d*)\.f(32|64)$")
_MATH = frozenset([o.name for o in TABLE.values() if o.library])


def symbol(module: "GpuModule", function: ForeignFunction, name: str) -> str:
    """Makes the functions that another one needs part of a module, and returns the latter's name.

    Raises KernelError if there is no such function on GPUs.
    """
    if (what := lacking(function)) is not None:
        raise KernelError(f"{function.title}() needs {what}, which GPUs do not have")
    text = module.foreign_functions[function.name]
    for line, needed in _declared(function):
        operation, code = _operation(needed)
        if operation in _MATH:
            del module.declarations[line]
            text = text.replace(f"@{needed}(", f'@"{_wrapper(module, operation, code)}"(')
    # Calls are expensive, and LLVM may read their parameters in ways that PTX does not allow.
    module.foreign_functions[function.name] = _DEFINED.sub(r"\1 alwaysinline {", text)
    return name


def lacking(function: ForeignFunction) -> str | None:
    """Returns what a function needs that GPUs do not have, or None if they have everything."""
    for _, needed in _declared(function):
        if needed.startswith("llvm.") or _operation(needed)[0] in _MATH:
            continue
        if "NRT" in needed:
            return "memory for arrays, lists or strings that it makes"
        if "Py" in needed or "pickle" in needed:
            return "objects of Python"
        return f"the function {needed.removeprefix('numba_')}() of the C library"
    return None


def _declared(function: ForeignFunction) -> Iterator[tuple[str, str]]:
    """Yields the lines that declare what a function calls, with the names."""
    for line in function.ir.split("\n"):
        found = _DECLARED.match(line)
        if found is not None:
            yield line, found[1]


def _operation(name: str) -> tuple[str, str]:
    """Returns the name of a mathematical function without its type, and the type."""
    found = _LLVM.match(name)
    if found is not None:
        return found[1], f"f{found[2]}"
    if name.endswith("f") and name not in ("erf",):
        return name[:-1], "f32"
    return name, "f64"


def _wrapper(module: "GpuModule", operation: str, code: str) -> str:
    """Returns the name of a function of numbers that calls a library function."""
    name, scalar = f"math.{operation}.{code}", SCALAR[code]
    if name not in module.foreign_functions:
        arity = TABLE[operation].arity
        called, _ = library_symbol(module, module.chosen(operation, code), (code,) * arity, 1)
        module.calls[called] += 1
        module.warm.add(called)
        casts = "\n".join(
            [f"%v{k} = bitcast {scalar} %a{k} to <1 x {scalar}>" for k in range(arity)]
        )
        given = ", ".join([f"{scalar} %a{k}" for k in range(arity)])
        packets = ", ".join([f"<1 x {scalar}> %v{k}" for k in range(arity)])
        module.foreign_functions[name] = (
            f'define internal {scalar} @"{name}"({given}) alwaysinline {{\n{casts}\n'
            f'%r = call fastcc <1 x {scalar}> @"{called}"({packets})\n'
            f"%x = bitcast <1 x {scalar}> %r to {scalar}\nret {scalar} %x\n}}"
        )
    return name
