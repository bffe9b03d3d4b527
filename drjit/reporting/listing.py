"""What became of a kernel: LLVM IR after its passes and machine code, each line with the line of
the kernel's text that it is from, and what is worth knowing about them in words.

A kernel is compiled once more, in the variant that ran, with debug locations (`debug_lines`), which
change no instruction. Instructions that LLVM adds, such as copies of registers, belong to the
statement of their neighbours.
"""

import re
import time
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from ..jit import flags, processor
from ..jit.cpu import variants
from ..jit.flags import JitFlag
from ..jit.target.simd import kernel, llvm
from . import debug_lines

MOST_KERNELS = 24
MOST_SECONDS = 10.0
MOST_BYTES = 12_000_000  # a tenth of that in a page
"""Of all listings."""

_METADATA = re.compile(r"(?:,? !(?!dbg\b)[\w.]+ !\d+)+(?=,|$| \{)| #\d+(?=$| \{|, )")
_LOCATION = re.compile(r"^!(\d+) = !DILocation\(line: (\d+)", re.M)
_DBG = re.compile(r",? !dbg !(\d+)")
_BLOCK = re.compile(r"[.$]?L_*BB\d+_\d+:|\.L_x_\d+:")
_DEPTH = re.compile(r"in Loop: .*Depth=(\d+)|=>\s*This (?:Inner )?Loop Header: Depth=(\d+)")
_CALL = re.compile(r"\s+(?:call[\w.]*|bl)\s+(?:\([^)]*\), *)?\"?([\w.$*%]+)")
_SASS = re.compile(
    r'\s+//## File ".*", line (?P<place>\d+)|\s+/\*\w{4,}\*/ +(?P<code>.*?) ;|(?P<label>[$.\w]+:)$'
)
_SPILLS = {"STL": "Spill", "LDL": "Reload"}  # to and from memory of a thread's own
_LOOP = "loop"  # the remark on a label where a loop begins


class Row(NamedTuple):
    """A line of assembly: its text, the line of the kernel's text, how many loops it is in, and
    LLVM's remark (`32-byte Spill`)."""

    text: str
    line: int
    depth: int = 0
    remark: str = ""

    @property
    def is_instruction(self) -> bool:
        return self.text[:1].isspace()


class Listing(NamedTuple):
    """LLVM IR with the line of the kernel's text of each of its lines, assembly, its kind, which
    passes LLVM ran, and what the assembly became, where that is something else."""

    ir: list[tuple[str, int]]
    rows: list[Row]
    kind: str
    passes: str = ""
    sass: Sequence[Row] = ()


def describe(entries: Sequence[dict[str, Any]], kernels: Sequence[Any], notes: list[str]) -> None:
    """Adds listings to the entries of the kernels that cost most, for at most `MOST_SECONDS`, and a
    note on what was left out."""
    start, left, room = time.perf_counter(), 0, MOST_BYTES
    order = sorted(range(len(entries)), key=lambda k: -entries[k]["seconds"])
    for rank, k in enumerate(order):
        entry, it = entries[k], kernels[k]
        found, said = Listing([], [], ""), entry.setdefault("words", [])
        is_late = time.perf_counter() - start > MOST_SECONDS
        if rank >= MOST_KERNELS or is_late or not entry["text"]:
            left += 1
        else:
            try:
                found = of_processor(it) if it.device.on_host else of_gpu(it)
            except Exception as error:  # the rest of a report is worth having
                said.append(f"There is no listing ({type(error).__name__}: {error}).")
        if found.rows:
            said += words(it, found)
            size = sum([len(row[0]) + 8 for row in (*found.ir, *found.rows, *found.sass)])
            if size > room:
                said.append("Its listing is too long for this report.")
                found, left = Listing([], [], ""), left + 1
            else:
                room -= size
        present = {row.line for row in (*found.rows, *found.sass)}
        for part, rows in (("ir", found.ir), ("asm", found.rows), ("sass", found.sass)):
            entry[part] = [text for text, *_ in rows]
            entry[f"{part}_lines"] = [line for _, line, *_ in rows]
        entry["asm_kind"] = found.kind
        entry["absorbed"] = absorbed(entry["text"], present) if present else []
    if left:
        have = "kernel has" if left == 1 else "kernels have"
        notes.append(f"{left} {have} no listing: there is room and time for those that cost most")


# ---- The processor


def variant_of(it: Any) -> tuple[variants.Variant, int]:
    """Returns the variant of a kernel that ran, or would run, and the flags that it was compiled
    with."""
    options = variants.compiler_options()
    if it.running is None:
        return variants.optimized(it, options), options
    key, lanes = it.running.key.removesuffix("-quick"), it.running.lanes
    for found in (options, 0, variants.FAST_MATH, options | variants.NUMBA):
        if variants.key_of(it.text, found, lanes) == key:
            options = found
            break
    return it.running, options


def of_processor(it: Any) -> Listing:
    """Returns the listing of a kernel of the processor."""
    variant, options = variant_of(it)
    contract = bool(options & variants.FAST_MATH)
    return compiled(it.text, it.name, variant.lanes, contract, variant.level)


def compiled(
    text: str, name: str, lanes: int, contract: bool = False, level: int | None = None
) -> Listing:
    """Returns the listing of a text, compiled as `simd.compile` does."""
    plain = kernel.module_text(text, name, lanes, contract)
    tagged = kernel.module_text(text, name, lanes, contract, debug_lines.tagging()).ir
    level = llvm.level_of(plain.ir, plain.plain) if level is None else level
    ir, code = _generated(tagged, plain.options, level, llvm.new_machine)
    if plain.vectorizes:
        passes = "all of its passes, which compute several lanes of loops at once"
    elif plain.plain:
        passes = "hardly any passes: there is nothing to inline or to combine"
    else:
        combined = "" if plain.uncombined else " and instructions combined"
        passes = f"few passes: functions were inlined{combined}"
    architecture = processor.architecture()
    rows = assembly(code, "#" if architecture == "x86-64" else "//")
    return Listing(ir, rows, architecture, passes)


def _generated(
    tagged: str, passes: tuple, level: int, machine: Any, *settings: Any
) -> tuple[list[tuple[str, int]], str]:
    """Returns the IR of a tagged text after its passes, and its assembly."""
    with llvm.compiler(_with_remarks, machine, *settings) as c:
        module = c.module(debug_lines.with_locations(tagged), *passes)
        ir = without_metadata(str(module))  # which generating code changes
        return ir, llvm.emit(c.machine(level), module, False).decode()


def _with_remarks(machine: Any, *settings: Any) -> Any:
    """Returns a code generator that tells of loops and spills in comments."""
    debug_lines.keep_merged()
    made = machine(*settings)
    made.set_asm_verbosity(True)
    return made


# ---- GPUs


def of_gpu(it: Any) -> Listing:
    """Returns the listing of a kernel of a GPU, as PTX, and as SASS where there are the tools."""
    from ..jit.cuda import assembler
    from ..jit.cuda.kernel import ONE_LANE
    from ..jit.target.cuda import module as gpu
    from ..jit.target.cuda import nvptx
    from ..jit.target.cuda.plan import Options

    capability = it.device.capability
    reduced = bool(flags.current & it.flag_mask & JitFlag.ReducedPrecision)
    contract = bool(flags.current & JitFlag.FastMath)
    # Unless the kernel has only been launched in the other form.
    packets = not it.codes or any(not setting & ONE_LANE for setting in it.codes)
    given = it.text, it.name, it.words, contract, Options(capability, reduced, packets)
    plain = gpu.translate(*given).code
    target = f'target datalayout = "{nvptx.LAYOUT}"\ntarget triple = "{nvptx.TRIPLE}"\n'
    tagged = target + gpu.translate(*given, debug_lines.tagging()).code
    level = 1 if plain.count("\n") + 3 > llvm.LONG else 3  # as `nvptx.ptx` has it
    ir, code = _generated(tagged, (), level, nvptx.new_machine, capability, False)
    made = sass(assembler.disassembled(capability, code, it.name))
    return Listing(ir, assembly(code, "//"), "PTX", sass=made)


# ---- Texts of LLVM


def without_metadata(ir: str) -> list[tuple[str, int]]:
    """Returns the functions of a module, each line with that of the kernel's text."""
    places = {number: int(line) for number, line in _LOCATION.findall(ir)}
    found, inside = [], False
    for line in ir.split("\n"):
        inside = inside or line.startswith("define ")
        if not inside:
            continue
        tag = _DBG.search(line)
        place = places.get(tag[1], 0) if tag else 0
        text = _METADATA.sub("", _DBG.sub("", line)) if "!" in line or "#" in line else line
        if text:
            found.append((text.partition("  ; preds")[0].rstrip(), place))
        inside = line != "}"
    return found


def assembly(code: str, comment: str) -> list[Row]:
    """Returns functions of an assembly text: labels and instructions, without directives."""
    rows: list[Row] = []
    place = depth = 0
    for line in code.split("\n"):
        before, _, after = line.partition(comment)
        text, remark = before.rstrip(), after.strip()
        word = text.lstrip()
        if _BLOCK.match(text) or remark.startswith("%bb."):
            depth = 0
        if found := _DEPTH.search(remark):
            depth = int(found[1] or found[2])
            if not word and rows and not rows[-1].is_instruction:
                rows[-1] = rows[-1]._replace(depth=depth, remark=_LOOP if found[2] else "")
        if not word:
            continue
        if word.startswith(".loc"):
            place = int(word.split()[2])
        elif word.startswith(".") and (" .entry " in word or ".func " in word):  # of PTX
            depth = place = 0
            rows.append(Row(word, 0))
        elif text.endswith(":"):
            if _BLOCK.match(text):
                rows.append(Row(text, 0, depth))
            elif not text.startswith((".L", "$L", "L", "l_")):
                depth = place = 0
                rows.append(Row(text, 0))
        elif not word.startswith((".", "//", "{", "}", ")")) and text[:1].isspace():
            rows.append(Row("    " + word.expandtabs(12), place, depth, remark))
    return _filled(rows)


def sass(text: str) -> list[Row]:
    """Returns the functions in a text of `nvdisasm`: labels and instructions."""
    rows: list[Row] = []
    place = 0
    for found in filter(None, map(_SASS.match, text.split("\n"))):
        if found["place"]:
            place = int(found["place"])
        elif code := found["code"]:
            rows.append(Row("    " + code, place, 0, _SPILLS.get(_instruction(code)[:3], "")))
        elif _BLOCK.match(found["label"]):
            rows.append(Row(found["label"], 0))
        elif not found["label"].startswith("."):
            place = 0
            rows.append(Row(found["label"], 0))
    return _filled(rows)


def _instruction(code: str) -> str:
    """Returns the name of an instruction in SASS, which may have a predicate before it."""
    return code.split()[code.lstrip().startswith("@")]


def absorbed(text: Sequence[str], present: Container[int]) -> list[list[int]]:
    """Returns the statements of a kernel's text without an instruction of their own, each with the
    one whose instructions do their work: a product fused into a sum, a mask that is only tested."""
    users: dict[str, list[int]] = {}
    for number, line in enumerate(text, 1):
        for name in {*re.findall(r"\b[a-z]\w*", line.partition(" = ")[2] or line)}:
            users.setdefault(name, []).append(number)
    found: dict[int, int] = {}
    for number in range(len(text), 0, -1):
        names = text[number - 1].partition(" = ")
        if number in present or not names[1]:
            continue
        for name in names[0].replace(",", "").split():
            following = [k for k in users.get(name, []) if k > number] or users.get(name, [])
            into = next(filter(None, [k if k in present else found.get(k) for k in following]), 0)
            if into:
                found[number] = into
    return [[number, found[number]] for number in sorted(found)]


def _filled(rows: list[Row]) -> list[Row]:
    """Gives instructions without a statement that of the next one in their block, or else the
    previous one."""
    for order in (range(len(rows) - 1, -1, -1), range(len(rows))):
        near = 0
        for k in order:
            row = rows[k]
            if not row.is_instruction:
                near = 0 if order.step < 0 or not _BLOCK.match(row.text) else near
            elif row.line:
                near = row.line
            else:
                rows[k] = row._replace(line=near)
    return rows


# ---- Words


def words(it: Any, found: Listing) -> list[str]:
    """Returns what is worth knowing about the code of a kernel, in short sentences."""
    said = [] if found.kind == "PTX" else _about_variant(it)
    said += [f"LLVM ran {found.passes}."] if found.passes else []
    inner = [row for row in found.rows if row.depth and row.is_instruction]
    loops = sum([row.remark == _LOOP for row in found.rows])
    if inner:
        total = sum([row.is_instruction for row in found.rows])
        said.append(f"{len(inner)} instructions in loops, of {total} in all.")
    if loops > 1:
        deepest = max([row.depth for row in inner])
        said.append(f"{loops} loops, that over packets included, up to {deepest} in each other.")
    said += _about_spills(inner)
    said += _about_sass(found.sass) if found.sass else []
    called = [m for row in inner if (m := _CALL.match(row.text))]
    if called:
        names = ", ".join(sorted({m[1] for m in called}))
        said.append(f"{_count(len(called), 'call')} of functions that are not inlined: {names}.")
    return said + _about_memory(it.text, inner)


def _about_variant(it: Any) -> list[str]:
    variant, options = variant_of(it)
    size = llvm.host().register_bytes
    several = _count(max(variant.lanes * 4 // size, 1), "register")
    of = processor.REGISTERS[size]
    said = [f"{variant.lanes} lanes a packet: 32-bit values take {several} of {of}."]
    if variant.lanes == 1:
        said = ["A packet is one lane, which has loops of its own."]
    if it.running is None:
        said.append(f"It ran as Python ({it.state}); this is what it is compiled to.")
    elif variant.level == 0:
        said.append("A baseline, compiled without optimization, ran; hot kernels are optimized.")
    elif variant.is_baseline:
        said.append("A baseline on narrow packets ran; hot kernels are compiled again.")
    if options & variants.NUMBA:
        said.append("Numba compiled it; this is the code of the compiler of this package.")
    return said


def _about_spills(
    rows: Iterable[Row], to: str = "to the stack", where: str = " in loops"
) -> list[str]:
    stores = sum(["Spill" in row.remark for row in rows])
    loads = sum(["Reload" in row.remark for row in rows])
    if not stores and not loads:
        return []
    what = f"{_count(stores, 'value')} spilled {to} and {_count(loads, 'reload')}{where}"
    return [f"{what}: more values are in use than there are registers."]


def _about_sass(rows: Sequence[Row]) -> list[str]:
    """Says what a thread of a GPU runs and takes. NOPs fill up the end of the code."""
    names = [_instruction(row.text) for row in rows if row.is_instruction]
    used = re.findall(r"\bR(\d+)", " ".join([row.text for row in rows]))
    count = _count(sum([name != "NOP" for name in names]), "instruction")
    said = [
        f"The machine code has {count}, with registers up to R{max(map(int, used), default=0)}."
    ]
    accesses = [name for name in names if name.startswith(("LDG", "STG"))]
    for width, nbytes in ((".128", 16), (".64", 8)):
        if n := sum([width in name for name in accesses]):
            of = f"{len(accesses)} loads and stores {'is' if n == 1 else 'are'}"
            said.append(f"{n} of its {of} of {nbytes} bytes.")
    return said + _about_spills(rows, "to memory", "")


def _about_memory(text: str, inner: Iterable[Row]) -> list[str]:
    """Says how gathers and scatters are carried out."""
    gathers, scatters = [len(re.findall(rf"\b{x}\w*\(", text)) for x in ("gather", "scatter")]
    by_instruction = sum([bool(re.match(r"\s+vp?gather", row.text)) for row in inner])
    said = []
    if gathers:
        how = f", by {_count(by_instruction, 'instruction')} for several lanes"
        said.append(f"{_count(gathers, 'gather')}{how if by_instruction else ', lane by lane'}.")
    if scatters:
        said.append(f"{_count(scatters, 'scatter')}, lane by lane.")
    return said


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
