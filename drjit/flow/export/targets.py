"""What object files are compiled for, and the compiler."""

from collections.abc import Sequence
from typing import Any

from ...jit import processor
from ...jit.cpu import exported
from ...jit.native import language, objects
from ...jit.target import packet_width
from ...jit.target.simd import kernel as kernels
from ...jit.target.simd import llvm
from .driver import SPACE, Module
from .interface import CannotExport


def machine(target: str | None, what: str) -> processor.Target:
    """Returns a target: by default this machine, or one named by a processor, a system as LLVM
    spells it (`aarch64-apple-darwin`), or both (`SYSTEM:PROCESSOR`).

    Raises:
        ValueError: there is no such target.
    """
    if target is None:
        return processor.named("native")
    kinds = {name: kind for kind, names in processor._SUGGESTED.items() for name in names}
    triple, separator, cpu = target.partition(":")
    if not separator and (triple in kinds or triple.count("-") < 2):
        cpu, kind = triple, kinds.get(triple, "")
        triple = f"{kind.replace('-', '_')}-unknown-linux-gnu"
        if kind == processor.architecture():
            triple = processor.triple_of(kind)
    kind = processor.architecture(triple)
    cpu = cpu or next((name for name in kinds if kinds[name] == kind), "")
    if kinds.get(cpu) != kind:
        raise ValueError(
            f"{what}: the target {target!r} is none of the processors {', '.join(kinds)}; nor a "
            "system such as x86_64-unknown-linux-gnu, aarch64-apple-darwin or "
            "x86_64-pc-windows-msvc, or one with a processor, SYSTEM:PROCESSOR"
        )
    return processor.named(cpu)._replace(triple=triple)


def object_code(
    module: Module, texts: Sequence[str], public: Sequence[str], name: str, target: processor.Target
) -> bytes:
    """Returns the object file of a module and the functions of native code in `texts`, of which
    some are `public`."""
    ir = [_driver(module, texts, name, "windows" in target.triple)]
    parts = []
    with processor.compiling_for(target), llvm.compiler(llvm.machine_of, target) as c:
        for (text, tails, contract), symbol in module.kernels.items():
            parts.append(_kernel(c, text, dict(tails), symbol, contract))
            ir.append(parts[-1][1])
        whole = c.module("\n".join(ir), in_memory=True)
        context = llvm.binding.create_context()
        linked = llvm.binding.parse_assembly(str(whole), context)
        constants = [_bytes(name, data + bytes(SPACE)) for data, name in module.constants.items()]
        for text in (*[text for text, _ in parts], "\n".join(constants)):
            linked.link_in(llvm.binding.parse_assembly(text, context))
        linked.triple = target.triple
        _hide(linked, {*public, f"{name}_message", f"{name}_end_threads"})
        generator = c.machine(2)
        linked.data_layout = str(generator.target_data)
        return llvm.emit(generator, linked, True)


def _kernel(
    c: Any, text: str, tails: dict[int, int], symbol: str, contract: bool
) -> tuple[str, str]:
    """Returns the optimized module of a kernel, and what others declare of it."""
    lanes = packet_width.packet_lanes(text)
    made = kernels.module_text(text, symbol, lanes, contract, tails=tails)
    declared = [f"declare void @{symbol}(ptr, i64, i64, i64, i64)"]
    finish = f"@{symbol}_finish(ptr, i64, i64)"
    declared.append(
        f"declare void {finish}" if made.has_finish
        else f"define void {finish} {{ ret void }}"
    )  # fmt: skip
    return str(c.module(made.ir, *made.options)), "\n".join(declared)


def _driver(module: Module, texts: Sequence[str], name: str, on_windows: bool) -> str:
    """Returns the functions of native code, with constants and messages."""
    lines = [f"def {name}_message(code):", "    code = code & 4294967295"]
    globals_ = [
        f"@drjit_windows = constant i64 {int(on_windows)}",
        f"@drjit_pool = global [{objects.size_of(objects.Pool)} x i8] zeroinitializer, align 64",
    ]
    shown = ["out of memory", "no recording has these sizes", *module.messages]
    for k, text in enumerate(["no error", *shown]):
        globals_.append(_bytes(f"message.{k}", text.encode() + b"\0"))
        lines += [f"    if code == {k}:", f'        return external("message.{k}")']
    lines.append('    return external("message.unknown")')
    globals_.append(_bytes("message.unknown", b"an unknown error\0"))
    globals_ += [f"@{symbol} = external constant i8" for symbol in module.constants.values()]
    lines += ["def drjit_work(p):\n    work(p)", f"def {name}_end_threads():\n    end_threads()"]
    made = language.module_text([], [("\n".join([*texts, *lines]), exported)]).split("\n")
    functions = [line for line in made if " = external global " not in line]
    rows = exported.LIBRARY.items()
    declared = ["declare " + kind.replace("(", f" @{function}(") for function, kind in rows]
    return "\n".join([*globals_, *declared, *functions])


def _bytes(symbol: str, data: bytes) -> str:
    text = "\\" + data.hex("\\")
    return f'@{symbol} = constant [{len(data)} x i8] c"{text}", align 64'


def _hide(module: Any, public: set[str]) -> None:
    """Leaves nothing but the public functions visible, and refuses calls of others."""
    allowed = {*exported.LIBRARY, "memset", "memmove"}
    for f in (*module.functions, *module.global_variables):
        if not f.is_declaration:
            if f.name not in public:
                f.linkage = "internal"
        elif f.name not in allowed and not f.name.startswith("llvm."):
            raise CannotExport(f"calls of functions of another library ({f.name})")
        elif "windows" in module.triple:
            f.name = exported.WINDOWS.get(f.name, f.name)
