"""What object files are compiled for, and the compiler."""

from collections.abc import Sequence
from typing import Any

from ...jit import processor
from ...jit.cpu import variants
from ...jit.native import exported, language
from ...jit.target import packet_width
from ...jit.target.simd import kernel as kernels
from ...jit.target.simd import llvm
from ...jit.target.simd.ir import Machine
from ...jit.tuples import NamedTuple
from .driver import Module
from .interface import CannotExport

# Processors with registers of 64 bytes.
_WIDE = ("x86-64-v4", "skylake-avx512", "icelake-server", "sapphirerapids", "znver4", "znver5")
_DEFAULT = {"x86-64": "x86-64-v3", "aarch64": "generic"}
_TRIPLES = {"x86-64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
# What an object file may call, by the ends of names.
_LIBRARY = frozenset({
    "malloc", "free", "memcpy", "memset", "memmove", "pthread_create", "pthread_join",
    "pthread_attr_init", "pthread_attr_setstacksize", "pthread_attr_destroy",
    "CreateThread", "WaitForSingleObject", "CloseHandle",
})  # fmt: skip


class Target(NamedTuple):
    """A system, a processor with its features, and the size of its registers."""

    triple: str
    cpu: str
    features: str
    register_bytes: int

    @property
    def title(self) -> str:
        return f"{self.triple}, {self.cpu}"


def machine(target: str | None, what: str) -> Target:
    """Returns a target: by default this machine, or one named by a processor, a system as LLVM
    spells it (`aarch64-apple-darwin`), or both (`SYSTEM:PROCESSOR`).

    Raises:
        ValueError: there is no such target.
    """
    here = str(llvm.binding.get_process_triple())
    if target is None:
        name, features = processor.target()
        return Target(here, name, features, processor.register_bytes())
    triple, _, cpu = target.partition(":")
    kinds = processor._SUGGESTED
    if (not cpu and triple.count("-") < 2) or any(triple in names for names in kinds.values()):
        triple, cpu = "", triple
        kind = next((k for k, names in kinds.items() if cpu in names), "")
        if kind:
            triple = here if kind == processor.architecture() else _TRIPLES[kind]
    kind = {"x86_64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
        triple.partition("-")[0], ""
    )
    cpu = cpu or _DEFAULT.get(kind, "")
    if not kind or cpu not in kinds[kind]:
        names = ", ".join([*kinds["x86-64"], *kinds["aarch64"]])
        raise ValueError(
            f"{what}: the target {target!r} is none of the processors {names}; nor a system such "
            "as x86_64-unknown-linux-gnu, aarch64-apple-darwin or x86_64-pc-windows-msvc, or one "
            "with a processor, SYSTEM:PROCESSOR"
        )
    width = 16 if kind == "aarch64" else 64 if cpu in _WIDE else 32
    return Target(triple, cpu, "", width)


def _code_generator(target: Target, level: int) -> Any:
    binding = llvm.binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


def object_code(
    module: Module, texts: Sequence[str], public: Sequence[str], name: str, target: Target,
    what: str,
) -> bytes:  # fmt: skip
    """Returns the object file of a module and the functions of native code in `texts`, of which
    some are `public`."""
    message = f"{name}_message"
    ir = [_driver(module, texts, message), _helpers(target)]
    parts = []
    contract = bool(variants.compiler_options() & variants.FAST_MATH)
    with llvm.compiler(_code_generator, target) as c:
        for (text, tails), symbol in module.kernels.items():
            parts.append(_kernel(c, text, dict(tails), symbol, target, contract))
            ir.append(parts[-1][1])
        whole = c.module("\n".join(ir), in_memory=True)
        context = llvm.binding.create_context()
        linked = llvm.binding.parse_assembly(str(whole), context)
        for text, _ in parts:
            linked.link_in(llvm.binding.parse_assembly(text, context))
        _hide(linked, {*public, message})
        linked.triple = target.triple
        generator = c.machine(2)
        linked.data_layout = str(generator.target_data)
        return llvm.emit(generator, linked, True)


def _kernel(
    c: Any, text: str, tails: dict[int, int], symbol: str, target: Target, contract: bool
) -> tuple[str, str]:
    """Returns the optimized module of a kernel, and what others declare of it."""
    width = target.register_bytes
    processor.assumed.register_bytes = width
    try:
        lanes = packet_width.packet_lanes(text)
        made = kernels.module_text(
            text, symbol, lanes, contract, machine=Machine(width, width == 64), tails=tails
        )
    finally:
        processor.assumed.register_bytes = 0
    declared = [f"declare void @{symbol}(ptr, i64, i64, i64, i64)"]
    finish = f"@{symbol}_finish(ptr, i64, i64)"
    declared.append(
        f"declare void {finish}" if made.has_finish
        else f"define void {finish} {{ ret void }}"
    )  # fmt: skip
    return str(c.module(made.ir, *made.options)), "\n".join(declared)


def _driver(module: Module, texts: Sequence[str], message: str) -> str:
    """Returns the functions of native code, with constants and messages."""
    lines = [f"def {message}(code):", "    code = code & 4294967295"]
    globals_ = []
    shown = ["out of memory", "no recording has these sizes", *module.messages]
    for k, text in enumerate(["no error", *shown]):
        globals_.append(_bytes(f"message{k}", text.encode() + b"\0"))
        lines += [f"    if code == {k}:", f'        return external("message{k}")']
    lines.append('    return external("unknown")')
    globals_.append(_bytes("unknown", b"an unknown error\0"))
    globals_ += [_bytes(symbol, data + bytes(512)) for data, symbol in module.constants.items()]
    home = exported
    made = language.module_text(
        [exported.share], [(text, home) for text in ("\n".join(texts), "\n".join(lines))]
    )
    functions = [line for line in made.split("\n") if " = external global " not in line]
    return "\n".join([*globals_, *functions])


def _bytes(symbol: str, data: bytes) -> str:
    text = "".join([chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02x}" for b in data])
    return f'@{symbol} = internal constant [{len(data)} x i8] c"{text}", align 64'


# Threads have stacks of 8 MiB, as kernels with vectors need up to half of that.
_POSIX = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
define i64 @begin_thread(i64 %place, i64 %shared) {
  %p = inttoptr i64 %place to ptr
  %s = inttoptr i64 %shared to ptr
  %attributes = alloca [16 x i64]
  %i = call i32 @pthread_attr_init(ptr %attributes)
  %n = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 8388608)
  %r = call i32 @pthread_create(ptr %p, ptr %attributes, ptr @share, ptr %s)
  %d = call i32 @pthread_attr_destroy(ptr %attributes)
  %ok = icmp eq i32 %r, 0
  %x = zext i1 %ok to i64
  ret i64 %x
}
define i64 @end_thread(i64 %thread) {
  %r = call i32 @pthread_join(i64 %thread, ptr null)
  ret i64 0
}
"""
_WINDOWS = """
declare i64 @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @WaitForSingleObject(i64, i32)
declare i32 @CloseHandle(i64)
define i64 @begin_thread(i64 %place, i64 %shared) {
  %p = inttoptr i64 %place to ptr
  %s = inttoptr i64 %shared to ptr
  %h = call i64 @CreateThread(ptr null, i64 8388608, ptr @share, ptr %s, i32 65536, ptr null)
  store i64 %h, ptr %p
  ret i64 %h
}
define i64 @end_thread(i64 %thread) {
  %r = call i32 @WaitForSingleObject(i64 %thread, i32 -1)
  %c = call i32 @CloseHandle(i64 %thread)
  ret i64 0
}
"""
_MEMORY = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i64 @allocate(i64 %n) {
  %p = call ptr @malloc(i64 %n)
  %x = ptrtoint ptr %p to i64
  ret i64 %x
}
define i64 @release(i64 %x) {
  %p = inttoptr i64 %x to ptr
  call void @free(ptr %p)
  ret i64 0
}
define i64 @copy(i64 %to, i64 %from, i64 %n) {
  %p = inttoptr i64 %to to ptr
  %q = inttoptr i64 %from to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 false)
  ret i64 0
}
define i64 @number_f64(i64 %n, i64 %inverse) {
  %x = sitofp i64 %n to double
  %y = fdiv double 1.0, %x
  %i = icmp ne i64 %inverse, 0
  %z = select i1 %i, double %y, double %x
  %b = bitcast double %z to i64
  ret i64 %b
}
define i64 @number_f32(i64 %n, i64 %inverse) {
  %b = call i64 @number_f64(i64 %n, i64 %inverse)
  %x = bitcast i64 %b to double
  %y = fptrunc double %x to float
  %c = bitcast float %y to i32
  %z = zext i32 %c to i64
  ret i64 %z
}
"""


def _helpers(target: Target) -> str:
    return _MEMORY + (_WINDOWS if "windows" in target.triple else _POSIX)


def _hide(module: Any, public: set[str]) -> None:
    """Leaves nothing but the public functions visible, and refuses calls of others."""
    for f in module.functions:
        if not f.is_declaration:
            if f.name not in public:
                f.linkage = "internal"
        elif f.name not in _LIBRARY and not f.name.startswith("llvm."):
            raise CannotExport(f"calls of functions of another library ({f.name})")
