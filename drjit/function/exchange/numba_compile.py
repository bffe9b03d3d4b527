"""Functions of Numba, compiled for kernels: a function of the user's, with arguments of any
structure, becomes one of scalars in LLVM IR.

Numba compiles the function itself, and a function around it that takes and returns numbers only.
Both together are made independent of Numba's run time, of names that differ between processes, and
of how it passes exceptions on.
"""

import pickle
import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from ...jit.ir import dtype as dt
from ...jit.target import foreign
from ...jit.target import numpy as numpy_target
from ...jit.target.numpy import foreign as numpy_foreign
from ...jit.target.simd.ir import MEMORY
from .bridge import map_structure

_NAMES = {t.code: "boolean" if t.is_mask else t.name for t in dt.ALL if t is not dt.f16}
_CODES = {name: code for code, name in _NAMES.items()} | {"bool": "mask"}

Structure = Any
"""The code of an element type, or a tuple: a class, and the structures of the parts. Of a complex
number the class is `complex`."""


class CompiledFunction(NamedTuple):
    """A function of scalars and the structure of its result."""

    function: foreign.ForeignFunction
    result: Structure


class UncompilableError(TypeError):
    """Numba cannot compile a function for the given arguments."""


def flat(structure: Structure) -> list[str]:
    """Returns the codes of a structure's leaves."""
    if type(structure) is str:
        return [structure]
    return [code for part in structure[1] for code in flat(part)]


def compiled(function: Any, arguments: tuple[Structure, ...], precision: str) -> CompiledFunction:
    """Compiles a function of Numba for arguments of some structure. Floating-point results are
    converted to the type `precision` unless that is ''.

    Raises UncompilableError if Numba does.
    """
    import numba
    from numba.core.errors import NumbaError
    from numba.core.registry import cpu_target

    types = [_numba_type(s) for s in arguments]
    title = getattr(function, "__name__", "function")
    try:
        context: Any = cpu_target.typing_context
        context.refresh()
        signature = context.resolve_function_type(numba.typeof(function), tuple(types), {})
        if signature is None:
            raise UncompilableError(f"dr.wrap(): {title}() has no signature for {tuple(types)}")
        result = _structure(signature.return_type, title)
        source, names = _adapter(arguments, result, precision)
        names["function"] = function
        exec(source, names)
        codes = [code for s in arguments for code in flat(s)]
        own = [getattr(numba.types, _NAMES[code]) for code in codes]
        ir, entry = _ir(names["adapter"], tuple(own))
    except NumbaError as error:
        raise UncompilableError(
            f"dr.wrap(): Numba cannot compile {title}() for ({', '.join(map(str, types))}): {error}"
        ) from None
    result = map_structure(
        result, lambda code: precision if code in ("f32", "f64") and precision else code
    )
    return CompiledFunction(_foreign(title, codes, flat(result), ir, entry), result)


def _numba_type(structure: Structure) -> Any:
    """Returns Numba's type of an argument."""
    from numba import types

    if type(structure) is str:
        return getattr(types, _NAMES[structure])
    cls, parts = structure
    inner = [_numba_type(s) for s in parts]
    if cls is complex:
        return types.complex64 if parts[0] == "f32" else types.complex128
    if cls is tuple:
        return types.Tuple(inner)
    if len(set(inner)) == 1:
        return types.NamedUniTuple(inner[0], len(inner), cls)
    return types.NamedTuple(inner, cls)


def _structure(numba_type: Any, title: str) -> Structure:
    """Returns the structure of a result."""
    from numba import types

    t: Any = types.unliteral(numba_type)
    if isinstance(t, types.Complex):
        return complex, ("f32" if t == types.complex64 else "f64",) * 2
    if isinstance(numba_type, types.BaseTuple):
        cls = getattr(t, "instance_class", tuple)
        return cls, tuple([_structure(inner, title) for inner in t.types])
    code = _CODES.get(str(t))
    if code is None:
        raise UncompilableError(
            f"dr.wrap(): {title}() returns the Numba type {t}; expected numbers, or tuples of them"
        )
    return code


def _adapter(
    arguments: tuple[Structure, ...], result: Structure, precision: str
) -> tuple[str, dict[str, Any]]:
    """Returns the text of the function between numbers and structures, and the names it uses."""
    import numpy as np

    names: dict[str, Any] = {"np": np}
    count = iter(range(1 << 20))
    taken: list[str] = []

    def build(s: Structure) -> str:
        if type(s) is str:
            taken.append(f"a{next(count)}")
            return taken[-1]
        cls, parts = s
        inner = ", ".join([build(p) for p in parts])
        if cls is complex:
            return f"np.complex{64 if parts[0] == 'f32' else 128}(complex({inner}))"
        if cls is tuple:
            return f"({inner},)" if parts else "()"
        names[f"T{len(names)}"] = cls
        return f"T{len(names) - 1}({inner})"

    def spread(s: Structure, value: str) -> list[str]:
        if type(s) is str:
            if precision and s in ("f32", "f64") and s != precision:
                return [f"np.{_NAMES[precision]}({value})"]
            return [value]
        cls, parts = s
        steps = (".real", ".imag") if cls is complex else [f"[{k}]" for k in range(len(parts))]
        return [x for part, at in zip(parts, steps, strict=True) for x in spread(part, value + at)]

    call = ", ".join([build(s) for s in arguments])
    values = ", ".join(spread(result, "r"))
    text = f"def adapter({', '.join(taken)}):\n    r = function({call})\n    return ({values},)\n"
    return text, names


def _ir(adapter: Callable, types: tuple) -> tuple[str, str]:
    """Returns the optimized LLVM IR of a function and of what it calls, without the code by which
    Python calls it, and the symbol of the function."""
    from numba.core import compiler
    from numba.core.registry import cpu_target

    flags: Any = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = True
    made = compiler.compile_extra(
        cpu_target.typing_context, cpu_target.target_context, adapter, types, None, flags, {}
    )
    return made.library.get_llvm_str(), made.fndesc.llvm_func_name


_DEFINED = re.compile(r"^(?:define .*?|)@([\w.$]+|\"[^\"]*\")(?= = |\()", re.MULTILINE)
_SYMBOL = re.compile(r"c\"[^\"]*\"|@([\w.$]+|\"[^\"]*\")")  # or data, which may look like one
_LINKAGE = re.compile(r"^define (?:linkonce_odr |internal |weak_odr |hidden |dso_local |private )*")
_NOTES = re.compile(
    r"(?:,? ![\w.]+ !\d+)+| #\d+(?= \{|,|$)| local_unnamed_addr| comdat|  +; preds.*"
)
_PICKLED = re.compile(r'^@([\w.]*pickledata\.\w+) = .*?c"(.*)"', re.MULTILINE)


def _plain(ir: str) -> str:
    """Removes from a module what only matters to Numba, and hints to the optimizer that would
    collide with those of other modules."""
    lines = []
    for line in ir.split("\n"):
        if line.startswith((";", "source_filename", "target ", "attributes ", "!")) or not line:
            continue
        if line.startswith("@"):
            line = re.sub(r" = (?:common|internal|linkonce_odr|private) ", " = internal ", line)
            line = line.replace("internal local_unnamed_addr", "internal")
        else:
            line = _NOTES.sub("", _LINKAGE.sub("define internal ", line))
        lines.append(line)
    return "\n".join(lines)


def _foreign(
    title: str, arguments: list[str], results: list[str], ir: str, entry: str
) -> foreign.ForeignFunction:
    """Returns the function of scalars whose code is a module, with names that depend on the
    contents of the module alone."""
    ir = _plain(ir)
    raised = {name: pickle.loads(_bytes(text)) for name, text in _PICKLED.findall(ir)}
    own = {name: f'"%.{k}"' for k, name in enumerate(dict.fromkeys(_DEFINED.findall(ir)))}
    nowhere = "", "an unknown file", 0
    errors = [foreign.Raised(*row, *(place or nowhere)) for *row, place in raised.values()]
    text = _entry(arguments, results, entry, list(raised))
    ir = _SYMBOL.sub(lambda m: f"@{own.get(m[1], m[1])}" if m[1] else m[0], f"{ir}\n{text}")
    digest = blake2b(ir.encode(), digest_size=5).hexdigest()
    word = re.sub(r"\W", "_", title, flags=re.ASCII)
    name = f"{word}_{digest}"
    known = foreign.functions.get(name)
    if known is not None:
        return known
    _find_symbols(ir)
    ir = ir.replace('@"%.', f'@"{name}.').replace('@"%"', f'@"{name}"')
    total = not errors and _is_total(ir)
    result = foreign.ForeignFunction(name, title, arguments, results, ir, errors, total)
    foreign.functions[name] = result
    numpy_target.namespace[name] = partial(numpy_foreign.call, result)
    return result


_DIVISION = re.compile(r" = [us](?:div|rem) ")
_LABEL = re.compile(r'^([\w.$]+|"[^"]+"):')
_TARGET = re.compile(r'label %([\w.$]+|"[^"]+")')
_CALLED = re.compile(r'call .*?@([\w.$]+|"[^"]*")\(')


def _is_total(ir: str) -> bool:
    """Returns whether functions can be called for any numbers and have no loops: branches and calls
    lead forwards only, and only the stack is read."""
    place = {}
    for m in re.finditer(r'^define .*?@("[^"]*")\(', ir, re.MULTILINE):
        place[m[1]] = len(place)
    entry, current = len(place) - 1, -1
    passed: set[str] = set()
    for line in ir.split("\n"):
        if line.startswith(("@", "declare ")):
            continue
        if line.startswith("define "):
            current += 1
            passed = set()
            continue
        label = _LABEL.match(line)
        if label:
            passed.add(label[1])
        called = _CALLED.search(line)
        if called and not called[1].startswith("llvm."):
            if current != entry and place.get(called[1], -1) <= current:
                return False
        elif "@" in line and not called:
            return False
        if _DIVISION.search(line) or not passed.isdisjoint(_TARGET.findall(line)):
            return False
    return True


def _entry(arguments: list[str], results: list[str], entry: str, raised: list[str]) -> str:
    """Returns the function that kernels call: it calls Numba's, and turns an exception into its
    number."""
    given = [f"{MEMORY[code]} %a{k}" for k, code in enumerate(arguments)]
    places = [f"ptr %r{k}" for k in range(len(results))]
    kind = f"{{{', '.join([MEMORY[code] for code in results])}}}"
    call = ", ".join(["ptr %result", "ptr %raised", *given])
    lines = [
        f'define internal i32 @"%"({", ".join([*places, *given])}) alwaysinline {{',
        "entry:",
        f"%result = alloca {kind}, align 8",
        "%raised = alloca ptr, align 8",
        "store ptr null, ptr %raised",
        f"%status = call i32 @{entry}({call})",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %error, label %good",
        "good:",
    ]
    for k, code in enumerate(results):
        lines += [
            f"%p{k} = getelementptr {kind}, ptr %result, i32 0, i32 {k}",
            f"%v{k} = load {MEMORY[code]}, ptr %p{k}",
            f"store {MEMORY[code]} %v{k}, ptr %r{k}",
        ]
    lines += ["ret i32 0", "error:", f"%n{len(raised)} = add i32 0, {max(len(raised), 1)}"]
    if raised:
        lines += ["%about = load ptr, ptr %raised", "%data = load ptr, ptr %about"]
    for k in reversed(range(len(raised))):
        lines += [
            f"%is{k} = icmp eq ptr %data, @{raised[k]}",
            f"%n{k} = select i1 %is{k}, i32 {k + 1}, i32 %n{k + 1}",
        ]
    return "\n".join([*lines, "ret i32 %n0", "}"])


def _bytes(text: str) -> bytes:
    """Returns the contents of a string in LLVM IR."""
    found = re.sub(
        r"\\(\\|[0-9A-F]{2})", lambda m: m[1] if m[1] == "\\" else chr(int(m[1], 16)), text
    )
    return found.encode("latin-1")


def _find_symbols(ir: str) -> None:
    """Records the addresses of the functions of Numba's run time that a module calls."""
    from llvmlite import binding

    for line in ir.split("\n"):
        if line.startswith("declare ") and "@llvm." not in line:
            name = _SYMBOL.search(line)[1].strip('"')  # type: ignore[index]
            address = binding.address_of_symbol(name)
            if address:
                foreign.symbols[name] = address
