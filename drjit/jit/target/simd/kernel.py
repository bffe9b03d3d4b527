"""From kernel text to the text of an LLVM module: the packet loop around the translated body."""

import ast
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module

from ...tuples import NamedTuple
from ..packet_width import VECTORS
from . import contraction, llvm, reduction
from .arguments import parameter_name
from .compensated_sum import SHORT
from .ir import Function
from .module import Module
from .parse import functions
from .translate import LANES, Translator
from .vector import VectorTranslator

# Modules that register statements with the translator.
for _name in (
    "atomic", "block_reduction", "interpolation", "matmul", "matvec", "outer",
    "radix", "row_reduction", "scan", "vector_statements",
):  # fmt: skip
    import_module(f".{_name}", __package__)

# Parts of texts whose machine code gets better if LLVM combines instructions: halves, integers of
# 64 bits, shuffles of lanes, and vectors, which then leave the stack. That of others is the same or
# has as many instructions, and is there an eighth earlier.
_COMBINED = (
    "f16", "i64", "u64", " scan", "compress(", "radix", "packet(", "'and'", "matmul(",
    "reduce_rows(", *VECTORS,
)  # fmt: skip
# The calls in kernels that are nothing but instructions of the processor: no functions to inline.
_PLAIN = frozenset({
    "kernel", "literal", "load", "store", "fma", "abs", "sqrt", "select", "active", "going",
    "any_lane",
})  # fmt: skip


_NO_TAILS: Mapping[int, int] = {}


def _gains_from_combining(text: str) -> bool:
    return any(part in text for part in _COMBINED)


def _is_plain(text: str) -> bool:
    """Returns whether there are neither instructions to combine nor functions to inline."""
    if _gains_from_combining(text):
        return False
    return _PLAIN.issuperset([before.rpartition(" ")[2] for before in text.split("(")[:-1]])


def _is_combined(text: str) -> bool:
    """Returns whether LLVM is to combine instructions: loops run long enough for small gains."""
    return _gains_from_combining(text) or ("    while " in text and not _is_plain(text))


class ModuleText(NamedTuple):
    """The text of a module, whether it has a finish function, whether instructions stay as they are
    (long blocks were split, or there is nothing to gain), whether variables are in memory, whether
    it has loops over lanes that LLVM is to vectorize, and whether all passes can be left out."""

    ir: str
    has_finish: bool
    uncombined: bool
    in_memory: bool
    vectorizes: bool
    plain: bool

    @property
    def options(self) -> tuple[bool, bool, bool, bool]:
        """How LLVM is to compile it; see `llvm.object_code`."""
        return self[2:]


def module_text(
    text: str,
    name: str,
    lanes: int,
    contract: bool,
    translate: Callable[[Translator, ast.FunctionDef], None] | None = None,
    tails: Mapping[int, int] = _NO_TAILS,
) -> ModuleText:
    """Returns the LLVM module of a kernel that exports `name`, and possibly `name_finish`.
    `translate` replaces the translation of the bodies of functions; it keeps variables in memory.
    Of the buffers in words of the parameter block that are the keys of `tails`, the last lanes
    beyond a multiple of 64 use the memory in other words, so that nothing is read or written beyond
    the end of these buffers; it is addressed by the same lanes.

    Raises KernelError if the text cannot be translated.
    """
    definition, bodies = definitions(text)
    module = Module(llvm.host(), lanes, contract)
    module.translate = translate or module.translate
    module.bodies = bodies
    f = module.new_function(lanes)
    kind = VectorTranslator if any(name in text for name in VECTORS) else Translator
    t = kind(module, f, text, is_kernel=True)
    f.block = "packet"
    f.tails = {f.pointer(k): f.pointer(tail) for k, tail in tails.items()}
    module.translate(t, definition)
    exported = [_exported(t, name)]
    has_finish = bool(t.reductions or t.expansions or t.finishers)
    if has_finish:
        exported.append(reduction.finish(t, f"{name}_finish"))
    uncombined = module.has_splits or not _is_combined(text)
    ir = module.text(exported)
    in_memory = translate is not None
    plain = _is_plain(text) and not in_memory
    return ModuleText(ir, has_finish, uncombined, in_memory, module.vectorizes, plain)


def _exported(t: Translator, name: str) -> str:
    """Ends the packet loop, whose body is translated, and returns the function around it."""
    f = t.f
    latch = f.block
    f.do(f"%next = add nsw i64 %i, {f.lanes}")
    limit, beyond = ("%stop", "pause") if t.pauses else ("%end", "exit")
    f.branch(f.op(f"icmp slt i64 %next, {limit}"), "packet", beyond)
    if t.pauses:
        f.start("pause")
        for pause in t.pauses:
            pause()
        f.do(_stop("%stop.next", "%next", f.lanes))
        f.branch(f.op("icmp slt i64 %next, %end"), "packet", "exit")
    f.start("exit")
    for ending in t.endings:
        ending()
    reduction.store_partials(t)
    f.do("ret void")
    if t.splits:
        f.start("never")
        f.do("ret void")
    start = _carried(t, latch) + (below_end(f) if t.needs_active else [])
    if f.tails:
        start += ["%last = or i64 %i, 63", "%beyond = icmp sge i64 %last, %end"]
    contraction.fuse(f)
    head = [f"{result} = {text}" for result, text in f.head.items()] + f.prologue
    if t.pauses:
        head.append(_stop("%stop.first", "%begin", f.lanes))
    opening = f'define void @"{name}"({LANES.replace("%i", "%begin")}) #0 {{'
    packet = ["br label %packet", "packet:", *start, *f.lines]
    return "\n".join([opening, "entry:", *head, *packet, "}"])


def _carried(t: Translator, latch: str) -> list[str]:
    """Returns the phis of the values that the packet loop carries, which ends in a block."""
    carried: list[tuple[str, str, str, str, str | None]] = [("%i", "i64", "%begin", "%next", None)]
    if t.pauses:
        carried.append(("%stop", "i64", "%stop.first", "%stop", "%stop.next"))
    carried += [(c.name, c.kind, c.start, c.end, c.resumed) for c in t.carried]
    phis = []
    for result, of, first, after, resumed in carried:
        again = f", [{resumed or after}, %pause]" if t.pauses else ""
        phis.append(f"{result} = phi {of} [{first}, %entry], [{after}, %{latch}]{again}")
    return phis


def definitions(text: str) -> tuple[ast.FunctionDef, dict[str, Callable]]:
    """Returns the kernel of a text, and what translates each of the other functions once."""
    kernel, *others = functions(text)
    return kernel, {d.name: cache(partial(body, d)) for d in others}


def body(definition: ast.FunctionDef, t: Translator) -> tuple[list[str], list[str]]:
    """Translates a function of the text and returns the types of its parameters and results."""
    f = t.module.new_function(t.f.lanes)
    inner = t.module.translator(t.module, f, "", is_kernel=True, depth=1)
    inner.crowded, inner.has_many_words = t.crowded, t.has_many_words
    inner.has_runs = t.has_runs
    inner.expansions, inner.finishers = t.expansions, t.finishers
    parameters = definition.args.args[2:]
    codes = [ast.unparse(a.annotation) for a in parameters]  # type: ignore[arg-type]
    kinds = f.vector | {"int": "i64"}  # the latter represents numbers of checks and words
    for a, code in zip(parameters, codes, strict=True):
        if code in f.vector:
            f.variables[a.arg] = code, parameter_name(a.arg)
    t.module.translate(inner, definition)
    values = inner.result
    kind = f.give(values)
    contraction.fuse(f)
    if inner.splits:
        f.start("never")
        f.do(f"ret {kind} poison" if values else "ret void")
    if inner.needs_active:
        f.prologue += below_end(f)
    own = [
        f"{kinds[code]} {parameter_name(a.arg)}" for a, code in zip(parameters, codes, strict=True)
    ]
    head = f'define internal fastcc {kind} @"{definition.name}"({", ".join([LANES, *own])})'
    t.module.routines[definition.name] = head, f.text()
    return codes, [code for code, _ in values]


def _stop(name: str, first: str, lanes: int) -> str:
    """Returns where the packets that begin at a lane pause."""
    return (
        f"{name}.far = add i64 {first}, {SHORT * lanes}\n"
        f"{name} = call i64 @llvm.smin.i64(i64 {name}.far, i64 %end)"
    )


def below_end(f: Function) -> list[str]:
    """Computes the mask of the lanes below the end: 32-bit comparisons of lane numbers with the
    remaining count."""
    vector = f.vector["u32"]
    zeros = f"<{f.lanes} x i32> zeroinitializer"
    return [
        "%left = sub i64 %end, %i",
        f"%left.m = call i64 @llvm.smin.i64(i64 %left, i64 {f.lanes})",
        "%left.i = trunc i64 %left.m to i32",
        f"%left.0 = insertelement {vector} poison, i32 %left.i, i32 0",
        f"%left.v = shufflevector {vector} %left.0, {vector} poison, {zeros}",
        f"%active = icmp ult {vector} <{f.types.iota}>, %left.v",
    ]
