"""From kernel text to an LLVM module for a GPU: the entry that gives each thread its lanes."""

import ast
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from .. import library
from ..foreign import ForeignFunction
from ..packet_width import VECTORS
from ..simd.ir import BYTES, Function
from ..simd.kernel import below_end, definitions
from ..simd.liveness import most_alive, vector_names
from ..simd.module import Module
from ..simd.reduction import accumulator
from ..simd.translate import CALLABLE, Translator
from . import approximate, atomic, foreign, memory, products, sums, threads
from .function import DYNAMIC, GPU, PRIVATE_BYTES, THREADS, Compiled, GpuFunction
from .memory import WIDEST
from .plan import DEFAULT, KernelPlan, Options
from .translate import GpuTranslator
from .vectors import GpuVectorTranslator

# Imported because it registers statements.
assert memory

# Lines that inlined library functions may add. A call takes a GPU longer than a processor, and
# fixes the registers of its operands.
INLINE_LIMIT = 12_000

_NEIGHBOURS = ("load", "store", "stream")
# Statements after which a thread goes on to the next of its packets.
_STRIDING = ("reduce", "scatter_reduce_expand")
_OF_PACKETS = {
    *_NEIGHBOURS, *_STRIDING, *CALLABLE, *library.names, *BYTES, "broadcast", "literal", "lane",
    "active", "select", "bitcast", "in_bounds", "gather",
}  # fmt: skip
_MOST_LANES = 8
_LONGEST = 120  # statements: beyond, arithmetic takes the time
_MOST_REGISTERS = 128

PACKET_THREADS = 128
"""Threads in a block if each has a packet, so that small launches have blocks for all
multiprocessors."""

BY_VALUE = 500
"""Words of the largest parameter block that is passed by value; a larger one is in memory."""


class GpuModule(Module):
    """A module of functions for one thread."""

    translator = GpuTranslator
    inline_limit = INLINE_LIMIT
    warps = False
    threads = THREADS
    options = DEFAULT

    def new_function(self, lanes: int, first_number: int = 0) -> Function:
        return GpuFunction(first_number, lanes=lanes, warps=self.warps, threads=self.threads)

    def chosen(self, name: str, code: str) -> str:
        if not self.contract:
            return name
        return approximate.function(name, code, self.options.capability)

    def foreign(self, function: ForeignFunction) -> str:
        return foreign.symbol(self, function, super().foreign(function))

    def text(self, exported: list[str]) -> str:
        entry = f'attributes #5 = {{ nounwind "nvvm.maxntid"="{self.threads}" }}\n'
        return super().text(exported) + entry


def packet_lanes(kernel: ast.FunctionDef) -> int:
    """Returns how many neighbouring lanes a thread takes: as many as it loads or stores with one
    instruction, in kernels that do little else. A single one where there is control flow; where
    half of the accesses are gathers, which are faster if neighbouring threads read neighbouring
    elements; and where the lanes would take too many registers. Scatter-reductions are expected to
    go to the memory of the block."""
    accesses, widest, targets = Counter[str](), 1, set[str]()
    for node in ast.walk(kernel):
        if type(node) in (ast.If, ast.While):
            return 1
        if type(node) is ast.Call:
            name = cast("ast.Name", node.func).id
            if name not in _OF_PACKETS:
                return 1
            accesses[name] += 1
            if name == "scatter_reduce_expand":
                targets.add(ast.unparse(node.args[2]))
                if BYTES[accumulator(cast("ast.Name", node.args[0]).id)] < 4:
                    return 1
            if name in _NEIGHBOURS:
                widest = max(widest, BYTES[cast("ast.Name", node.args[0]).id])
    dense = sum([accesses[name] for name in _NEIGHBOURS])
    if (
        dense <= accesses["gather"]
        or len(kernel.body) > _LONGEST
        or len(targets) > atomic.PRIVATE_TARGETS
    ):
        return 1
    lanes = min(WIDEST // widest, _MOST_LANES)
    taken = lanes * -(-widest // 4) * most_alive(kernel.body)
    return lanes if taken <= _MOST_REGISTERS else 1


def translate(
    text: str,
    name: str,
    words: int,
    contract: bool,
    options: Options = DEFAULT,
    translate: Callable[[Translator, ast.FunctionDef], None] | None = None,
) -> Compiled:
    """Returns a kernel whose code is the text of an LLVM module. `translate` replaces the
    translation of the bodies of functions.

    Raises KernelError if the text violates the rules of the language.
    """
    definition, bodies = definitions(text)
    vectors = any(name in text for name in VECTORS)
    lanes = packet_lanes(definition) if options.packets and not vectors else 1
    module = GpuModule(GPU, lanes, contract)
    module.options, module.bodies = options, bodies
    module.translate = translate or module.translate
    by_value = words <= BY_VALUE
    plan = None
    if vectors:
        more = PRIVATE_BYTES * atomic.PRIVATE_TARGETS if "scatter_reduce_" in text else 0
        plan = KernelPlan(definition.body, vector_names(definition.body), options, more)
        module.warps, module.threads = plan.warps, plan.threads
        if plan.shared:
            module.globals[DYNAMIC] = f"{DYNAMIC} = external addrspace(3) global [0 x i8], align 16"
    elif lanes > 1 and not any(f"    {name}(" in text for name in _STRIDING):
        module.threads = PACKET_THREADS
    f: Any = module.new_function(lanes)
    before, origin = [], "entry"
    if plan is None:
        t: Any = GpuTranslator(module, f, text, is_kernel=True)
    else:
        t = GpuVectorTranslator(plan, module, f, text, is_kernel=True)
        sums.prepare(t)
        products.prepare(t)
        before, f.lines, origin = f.lines, [], f.block
    f.block = "packet"
    module.translate(t, definition)
    # Whether a thread has several packets, one after the other.
    strides = bool(t.carried or t.private) or (plan is not None and plan.shared > 0)
    _end(t, plan, strides)
    start, origin = atomic.prepare(t, origin)
    start = [*before, *start, *_lanes(t, plan, origin, strides)]
    exported = [_entry(name, f, words, by_value, "\n".join(start))]
    finish = f"{name}_finish" if t.expansions else ""
    if finish:
        g: Any = module.new_function(1)
        for expansion in t.expansions:
            atomic.finish_sums(g, expansion)
        g.do("ret void")
        exported.append(_entry(finish, g, words, by_value, ""))
    form = Compiled(module.text(exported), name, by_value, strides, finish, module.threads)
    form = form._replace(lanes=lanes)
    return form if plan is None else form._replace(shared=plan.shared, each=plan.each)


def _end(t: Any, plan: KernelPlan | None, strides: bool) -> None:
    """Writes what comes after the code of a packet."""
    f = t.f
    f.do("br label %latch")
    f.start("latch")
    if strides:
        f.do("%next = add nsw i64 %i, %stride")
    f.do("br label %lanes" if strides else "br label %exit")
    f.start("exit")
    if plan is not None:
        sums.finish(t)
    atomic.combine(t)
    threads.store_totals(t)
    f.do("ret void")
    if t.splits:
        f.start("never")
        f.do("ret void")


def _lanes(t: Any, plan: KernelPlan | None, origin: str, strides: bool) -> list[str]:
    """Returns what comes before the code of a packet, from the end of the block `origin`: which
    lanes it has, and whether there are any."""
    start = ["br label %lanes", "lanes:"]
    if strides:
        start.append(f"%i = phi i64 [%begin, %{origin}], [%next, %latch]")
        for c in t.carried:
            start.append(f"{c.name} = phi {c.kind} [{c.start}, %{origin}], [{c.end}, %latch]")
    else:
        start.append("%i = add i64 %begin, 0")
    bound = "%i"
    if t.f.warps:
        start.append("%warp.first = and i64 %i, -32")
        bound = "%warp.first"
    if plan is not None and plan.sums:  # for which all threads of a block meet
        start.append("%block.first = sub i64 %i, %thread")
        bound = "%block.first"
    start.append(f"%inside = icmp slt i64 {bound}, %end")
    start.append("br i1 %inside, label %packet, label %exit")
    start.append("packet:")
    if t.needs_active:
        start += below_end(t.f)
    if t.f.warps:
        start += ["%active.i = icmp slt i64 %i, %end", "%active = bitcast i1 %active.i to <1 x i1>"]
    return start


def _entry(name: str, f: Any, words: int, by_value: bool, start: str) -> str:
    """Returns the text of an entry, whose lines begin after `start`."""
    head = "\n".join([f"{result} = {text}" for result, text in _numbered(f).items()])
    block = f'ptr byval([{words} x i64]) align 8 "nvvm.grid_constant" %p'
    if not by_value:
        block = "ptr addrspace(1) %p.g"
        head = f"%p = addrspacecast ptr addrspace(1) %p.g to ptr\n{head}"
    lines = "\n".join([*f.prologue, start, *f.lines])
    return (
        f'define ptx_kernel void @"{name}"({block}, i64 %end, ptr addrspace(1) %counter) #5 {{\n'
        f"entry:\n{head}\n{lines}\n}}"
    )


def _numbered(f: GpuFunction) -> dict[str, str]:
    """Returns the contents of the entry block, with the number of the thread and of its lane."""
    head, f.head = f.head, {}
    for name in ("tid.x", "ctaid.x", "nctaid.x"):
        f.special(name)
    f.once("%thread", "zext i32 %tid.x to i64")
    f.once("%block", "zext i32 %ctaid.x to i64")
    f.once("%blocks", "zext i32 %nctaid.x to i64")
    f.once("%before", f"mul nuw nsw i64 %block, {f.threads}")
    f.once("%first", "add nuw nsw i64 %before, %thread")
    f.once("%step", f"mul nuw nsw i64 %blocks, {f.threads}")
    f.once("%begin", f"mul nuw nsw i64 %first, {f.lanes}")
    f.once("%stride", f"mul nuw nsw i64 %step, {f.lanes}")
    f.head |= head
    return f.head
