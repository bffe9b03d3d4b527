"""The dialect of LLVM IR that NVVM reads, the compiler of NVIDIA's toolkit and of `numba.cuda`:
that of LLVM 7. There, pointers have the type of what they point to, and some newer instructions and
intrinsics do not exist: they are written by means of those that do, or as PTX.
"""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

from ..simd.ir import KernelError
from .function import GpuFunction

_BYTES = re.compile(r"i8(?: addrspace\((\d)\))?\*")
_PATTERN = re.compile(
    r"ptr addrspace\((?P<space>\d)\)|\bptr\b|\bpoison\b"
    r"|splat \((?P<constant>[^)]*)\)|(?P<name>@(?:\"[^\"]*\"|[\w.$]+))"
)
_ASSIGNED = re.compile(r"^(%[\w.]+) = (.*)$")
_CALL = re.compile(r"^call (?P<how>fastcc )?(?P<result>.*?) @(?P<name>[^(]*)\((?P<operands>.*)\)$")
_ASSEMBLY = re.compile(
    r"^call (?P<result>.*?) asm (?P<how>sideeffect )?(?P<text>\".*\"), \"(?P<constraints>[^\"]*)\""
    r"\((?P<operands>.*)\)(?P<more> convergent)?$"
)
_CLOSING = {"<": ">", "[": "]", "{": "}", "(": ")"}
# Constraints of operands of PTX, by their type.
_CONSTRAINTS = {
    "i16": "h", "i32": "r", "i64": "l", "half": "h", "float": "f", "double": "d", "<2 x half>": "r",
}  # fmt: skip
# Integers as which halves go in and out of PTX.
_WORDS = {"half": "i16", "<2 x half>": "i32"}
_ORDERS = {"umin": "ult", "umax": "ugt", "smin": "slt", "smax": "sgt"}

Operand: TypeAlias = tuple[str, str]
"""The type of an operand and the operand, perhaps with attributes before it."""
Operands: TypeAlias = list[Operand]
Rule: TypeAlias = Callable[["Dialect", str, str, list[str], Operands], None]
"""Writes a call of an intrinsic, given the result's name and type, the parts of the intrinsic's
name, and the operands."""


def _split(text: str) -> list[str]:
    """Returns the parts between the commas that are not within brackets or quotes."""
    parts, depth, begin, quoted = [], 0, 0, False
    for k, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "<[{(":
            depth += 1
        elif c in ">]})":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[begin:k].strip())
            begin = k + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def _typed(text: str) -> tuple[str, str]:
    """Returns the type with which a text begins, and the rest.

    >>> _typed("<1 x i32> %2"), _typed("i8 addrspace(3)* %p")
    (('<1 x i32>', '%2'), ('i8 addrspace(3)*', '%p'))
    """
    pointer = _BYTES.match(text)
    if pointer:
        end = pointer.end()
    elif text[0] in _CLOSING:
        depth = end = 0
        while not end or depth:
            depth += (text[end] in "<[{(") - (text[end] in ">]})")
            end += 1
    else:
        end = len(text.partition(" ")[0])
    return text[:end], text[end:].strip()


def _splat(kind: str, constant: str) -> str:
    """Returns a constant of a type with the same number in each lane."""
    lanes, element = _lanes(kind)
    return f"<{', '.join([f'{element} {constant}'] * lanes)}>" if lanes else constant


# What atomic operations have in this dialect if they name no other.
_SCOPE = GpuFunction.scope
_NARROW = ("i8", "i16")
_NARROW_UPDATE = """define internal {kind} {name}(i8* %p, {expected}{kind} %x) {{
entry:
%a = ptrtoint i8* %p to i64
%b = and i64 %a, -4
%w = inttoptr i64 %b to i32*
%c = trunc i64 %a to i32
%d = and i32 %c, 3
%s = shl i32 %d, 3
%m = shl i32 {ones}, %s
%k = xor i32 %m, -1
%first = load volatile i32, i32* %w
br label %again
again:
%old = phi i32 [%first, %entry], [%found, %again]
%t = lshr i32 %old, %s
%y = trunc i32 %t to {kind}
{lines}
%u = zext {kind} %z to i32
%v = shl i32 %u, %s
%o = and i32 %old, %k
%new = or i32 %o, %v
%pair = cmpxchg i32* %w, i32 %old, i32 %new monotonic monotonic
%found = extractvalue {{i32, i1}} %pair, 0
%done = extractvalue {{i32, i1}} %pair, 1
br i1 %done, label %exit, label %again
exit:
ret {kind} %y
}}"""


class Dialect:
    """A module in the dialect of NVVM, while it is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.functions: dict[str, str] = {}  # which the module needs, by name
        self.globals: dict[str, str] = {}  # the types of variables and constants
        self.made = 0

    def op(self, text: str) -> str:
        """Appends an instruction between those of the module; returns its result."""
        name = self.named()
        self.lines.append(f"{name} = {text}")
        return name

    def named(self) -> str:
        """Returns the name of another result."""
        self.made += 1
        return f"%.{self.made}"

    def end(self, result: str, text: str) -> None:
        """Appends the instruction that gives a result of the module, if it has a name."""
        self.lines.append(f"{result} = {text}" if result else text)

    def pointer(self, kind: str, place: str) -> str:
        """Returns an address, given with its type, as a typed operand that points to another
        type."""
        of, x = _typed(place)
        found = _BYTES.fullmatch(of)
        if found is None:
            raise KernelError(f"NVVM: {place} is no address")
        space = f" addrspace({found[1]})" if found[1] else ""
        if kind == "i8":
            return place
        return f"{kind}{space}* {self.op(f'bitcast {of} {x} to {kind}{space}*')}"

    # ---------------------------------------------------------------------------------- the module

    def line(self, line: str) -> None:
        """Appends a line of a module."""
        line = line.replace(_SCOPE, "")
        if line.startswith("@"):
            name, _, rest = line.partition(" = ")
            words = re.search(r"(addrspace\(\d\)) (?:global|constant) (.*)", rest)
            if words is None:
                raise KernelError(f"NVVM: {line}")
            self.globals[name] = f"{_typed(words[2])[0]} {words[1]}*"
            self.lines.append(line)
            return
        if line.startswith("attributes"):
            self.lines.append(re.sub(r' "[^"]*"="[^"]*"', "", line))
            return
        if not line or line[0] in "!}" or line.endswith(":"):
            self.lines.append(line)
            return
        if "ptr" in line or "splat" in line or "@" in line or "poison" in line:
            line = _PATTERN.sub(self.replaced, line)
        if line.startswith("define"):
            self.lines.append(line)
            return
        found = _ASSIGNED.match(line)
        result, text = found.groups() if found else ("", line)
        rule = _INSTRUCTIONS.get(text.partition(" ")[0])
        if rule is None:
            self.lines.append(line)
        else:
            rule(self, result, text)

    def replaced(self, found: re.Match) -> str:
        """Returns a type or constant in the dialect."""
        text = found[0]
        if text == "ptr":
            return "i8*"
        if text == "poison":
            return "undef"
        if found["space"]:
            return f"i8 addrspace({found['space']})*"
        if found["name"]:
            kind = self.globals.get(text)
            if kind is None:
                return text
            space = kind[kind.rindex(" addrspace") : -1]
            return f"bitcast ({kind} {text} to i8{space}*)"
        before = found.string[: found.start()]
        count = before[before.rindex("<") + 1 :].partition(" ")[0]
        return f"<{', '.join([found['constant']] * int(count))}>"

    # ------------------------------------------------------------------------------------- memory

    def load(self, result: str, text: str) -> None:
        """Loads; atomic ones are volatile, which is as much for one word."""
        kind, place, *rest = _split(re.sub(r"^load (atomic |volatile )?", "", text))
        volatile = "volatile " if text.startswith(("load atomic", "load volatile")) else ""
        place = self.pointer(kind, place.removesuffix(" monotonic"))
        self.end(result, ", ".join([f"load {volatile}{kind}", place, *rest]))

    def store(self, result: str, text: str) -> None:
        value, place, *rest = _split(text.removeprefix("store "))
        place = self.pointer(_typed(value)[0], place)
        self.end(result, ", ".join([f"store {value}", place, *rest]))

    def element(self, result: str, text: str) -> None:
        """`getelementptr`, with one index."""
        kind, place, index = _split(re.sub(r"^getelementptr (inbounds )?", "", text))
        of = _typed(place)[0]
        if kind == "i8":
            self.end(result, f"getelementptr i8, {place}, {index}")
            return
        place = self.pointer(kind, place)
        x = self.op(f"getelementptr {kind}, {place}, {index}")
        self.end(result, f"bitcast {place.rpartition(' ')[0]} {x} to {of}")

    def slot(self, result: str, text: str) -> None:
        kind = _split(text.removeprefix("alloca "))[0]
        x = self.op(text)
        self.end(result, f"bitcast {kind}* {x} to i8*")

    def update(self, result: str, text: str) -> None:
        """`atomicrmw`; PTX adds floats."""
        place, value = _split(text.removeprefix("atomicrmw "))[:2]
        op, _, place = place.partition(" ")
        kind, x = _typed(value.removesuffix(" monotonic"))
        if op == "fadd":
            how = {"half": "noftz.f16", "float": "f32", "double": "f64"}[kind]
            operands = [_typed(place), (kind, x)]
            self.written(result, kind, f"atom.add.{how} $0, [$1], $2;", operands)
        elif kind in _NARROW:
            self.end(result, f"call {kind} {self.narrow(op, kind)}({place}, {kind} {x})")
        else:
            self.end(result, f"atomicrmw {op} {self.pointer(kind, place)}, {kind} {x} monotonic")

    def swap(self, result: str, text: str) -> None:
        """`cmpxchg`."""
        place, expected, value = _split(re.sub(r"^cmpxchg (weak )?", "", text))[:3]
        (kind, x), value = _typed(expected), value.replace(" monotonic", "")
        if kind not in _NARROW:
            place = self.pointer(kind, place)
            self.end(result, f"cmpxchg {place}, {expected}, {value} monotonic monotonic")
            return
        both = f"{{{kind}, i1}}"
        old = self.op(f"call {kind} {self.narrow('cas', kind)}({place}, {expected}, {value})")
        equal = self.op(f"icmp eq {kind} {old}, {x}")
        pair = self.op(f"insertvalue {both} undef, {kind} {old}, 0")
        self.end(result, f"insertvalue {both} {pair}, i1 {equal}, 1")

    def fence(self, result: str, text: str) -> None:
        self.called(result, "void", "llvm.nvvm.membar.gl", [])

    def narrow(self, op: str, kind: str) -> str:
        """Returns the name of a function that changes 8 or 16 bits of memory atomically, with the
        word that they belong to, and returns what they were."""
        name = f'@"{op}.{kind}"'
        expected = f"{kind} %e, " if op == "cas" else ""
        if op == "cas":
            lines = f"%same = icmp eq {kind} %y, %e\n%z = select i1 %same, {kind} %x, {kind} %y"
        elif op in _ORDERS or op in ("min", "max"):
            order = _ORDERS.get(op) or _ORDERS[f"s{op}"]
            lines = (
                f"%less = icmp {order} {kind} %y, %x\n%z = select i1 %less, {kind} %y, {kind} %x"
            )
        else:
            lines = f"%z = add {kind} %x, 0" if op == "xchg" else f"%z = {op} {kind} %y, %x"
        self.functions[name] = _NARROW_UPDATE.format(
            name=name, kind=kind, ones=(1 << int(kind[1:])) - 1, expected=expected, lines=lines
        )
        return name

    # ----------------------------------------------------------------------------------- arithmetic

    def frozen(self, result: str, text: str) -> None:
        """`freeze`, which the values of this dialect do not need."""
        operand = text.removeprefix("freeze ")
        self.end(result, f"select i1 true, {operand}, {operand}")

    def negated(self, result: str, text: str) -> None:
        kind, x = _typed(text.removeprefix("fneg "))
        self.end(result, f"fsub {kind} {_splat(kind, '-0.0')}, {x}")

    def call(self, result: str, text: str) -> None:
        """Calls of functions, which are declared if they are LLVM's."""
        found = _CALL.match(text)
        if found is None:
            self.assembly(result, text)
            return
        name = found["name"]
        if not name.startswith("llvm."):
            self.end(result, text)
            return
        operands = [_typed(o) for o in _split(found["operands"])]
        parts = name.split(".")
        rule = _INTRINSICS.get(parts[1] if parts[1] != "nvvm" else parts[2])
        if rule is not None:
            rule(self, result, found["result"], parts, operands)
            return
        self.called(result, found["result"], name, operands)

    def called(self, result: str, kind: str, name: str, operands: list[tuple[str, str]]) -> None:
        """Calls a function of LLVM and declares it."""
        self.declared[f"declare {kind} @{name}({', '.join([of for of, _ in operands])})"] = None
        self.end(result, f"call {kind} @{name}({', '.join([' '.join(o) for o in operands])})")

    def assembly(self, result: str, text: str) -> None:
        """Calls of inline PTX. Halves and pairs of them go in and out as integers."""
        found = _ASSEMBLY.match(text)
        if found is None:
            raise KernelError(f"NVVM: {text}")
        operands = []
        for kind, x in map(_typed, _split(found["operands"])):
            if kind in _WORDS:
                kind, x = _WORDS[kind], self.op(f"bitcast {kind} {x} to {_WORDS[kind]}")
            operands.append(f"{kind} {x}")
        kind = found["result"]
        parts = _split(kind[1:-1]) if kind.startswith("{") else [kind]
        words = [_WORDS.get(of, of) for of in parts]
        of = kind.replace(parts[0], words[0])
        how = f'{found["how"] or ""}{found["text"]}, "{found["constraints"]}"'
        call = f"call {of} asm {how}({', '.join(operands)}){found['more'] or ''}"
        if kind == of:
            self.end(result, call)
        elif len(parts) == 1:
            self.end(result, f"bitcast {of} {self.op(call)} to {kind}")
        else:
            given, made = self.op(call), "undef"
            for k, (word, part) in enumerate(zip(words, parts, strict=True)):
                x = self.op(f"extractvalue {of} {given}, {k}")
                x = self.op(f"bitcast {word} {x} to {part}")
                into = f"insertvalue {kind} {made}, {part} {x}, {k}"
                if k < len(parts) - 1:
                    made = self.op(into)
                else:
                    self.end(result, into)

    def written(self, result: str, kind: str, text: str, operands: Sequence[Operand]) -> None:
        """An instruction of PTX on memory or of a whole warp."""
        results = _split(kind[1:-1]) if kind.startswith("{") else [kind]
        constraints = [f"={_CONSTRAINTS[of]}" for of in results]
        constraints += [_CONSTRAINTS.get(of, "l") for of, _ in operands]
        listed = ", ".join([f"{of} {x}" for of, x in operands])
        every = ",".join([*constraints, "~{memory}"])
        more = " convergent" if ".sync" in text else ""
        self.assembly(result, f'call {kind} asm sideeffect "{text}", "{every}"({listed}){more}')


# --------------------------------------------------------------------------------------- intrinsics


def _order(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    """Minima and maxima of integers."""
    (_, x), (_, y) = operands
    condition = d.op(f"icmp {_ORDERS[parts[1]]} {kind} {x}, {y}")
    d.end(result, f"select {_mask(kind)} {condition}, {kind} {x}, {kind} {y}")


def _absolute(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    x = operands[0][1]
    minus = d.op(f"sub {kind} {_splat(kind, '0')}, {x}")
    condition = d.op(f"icmp slt {kind} {x}, {_splat(kind, '0')}")
    d.end(result, f"select {_mask(kind)} {condition}, {kind} {minus}, {kind} {x}")


def _lanes(kind: str) -> tuple[int, str]:
    """Returns the number of lanes of a type, 0 for a number, and the type of one."""
    count, cross, element = kind.partition(" x ")
    return (int(count[1:]), element[:-1]) if cross else (0, kind)


def _mask(kind: str) -> str:
    lanes, _ = _lanes(kind)
    return f"<{lanes} x i1>" if lanes else "i1"


def _each(name: str) -> Rule:
    """A function of NVVM on each lane."""

    def rule(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
        lanes, element = _lanes(kind)
        full = f"llvm.nvvm.{name}.{element[0]}"
        if not lanes:
            d.called(result, kind, full, operands)
            return
        found = "undef"
        for k in range(lanes):
            each = [(element, d.op(f"extractelement {of} {x}, i32 {k}")) for of, x in operands]
            one = d.named()
            d.called(one, element, full, each)
            into = f"insertelement {kind} {found}, {element} {one}, i32 {k}"
            if k == lanes - 1:
                d.end(result, into)
            else:
                found = d.op(into)

    return rule


def _copysign(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    lanes, element = _lanes(kind)
    bits = {"half": 16, "float": 32, "double": 64}[element]
    word = f"<{lanes} x i{bits}>" if lanes else f"i{bits}"
    sign, others = str(-1 << bits - 1), str((1 << bits - 1) - 1)
    made = []
    for (_, x), mask in zip(operands, (others, sign), strict=True):
        x = d.op(f"bitcast {kind} {x} to {word}")
        made.append(d.op(f"and {word} {x}, {_splat(word, mask)}"))
    d.end(result, f"bitcast {word} {d.op(f'or {word} {made[0]}, {made[1]}')} to {kind}")


def _trailing(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    """`cttz`, also of a single bit."""
    if kind == "i1":
        d.end(result, f"xor i1 {operands[0][1]}, true")
    else:
        d.called(result, kind, ".".join(parts), operands)


def _barrier(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    d.called(result, kind, "llvm.nvvm.barrier0", [])


def _masked(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    """Masked loads and stores, whose alignment is an operand in this dialect."""
    loads = parts[2] == "load"
    at = 0 if loads else 1
    of, rest = operands[at]
    align, _, x = rest.removeprefix("align ").partition(" ")
    vector = kind if loads else operands[0][0]
    place = _typed(d.pointer(vector, f"{of} {x}"))
    # The type of memory is the one to which the address points.
    place = f"{vector}*", place[1].rpartition(" ")[2]
    given = [*operands[:at], place, ("i32", align), *operands[at + 1 :]]
    d.called(result, kind, f"llvm.masked.{parts[2]}.{parts[3]}.p0{parts[3]}", given)


def _product(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    """`mma`, of halves or of numbers in TF32."""
    shape, accumulators = parts[3], kind.count(",") + 1
    of = "f32.tf32.tf32.f32" if parts[-1] == "tf32" else f"{parts[-1]}.f16.f16.{parts[-1]}"
    left = (len(operands) - accumulators) * 2 // 3
    groups, first = [], 0
    for count in (accumulators, left, left // 2, accumulators):
        groups.append(f"{{{', '.join([f'${first + k}' for k in range(count)])}}}")
        first += count
    text = f"mma.sync.aligned.{shape}.row.col.{of} {', '.join(groups)};"
    given, made = d.named(), "undef"
    d.written(given, kind, text, operands)
    # Where a loop carries the sums of several products, this version of LLVM follows them from one
    # to the next, through all ways that there are. It does not look through moves.
    for k, part in enumerate(_split(kind[1:-1])):
        x, moved = d.op(f"extractvalue {kind} {given}, {k}"), d.named()
        letter = _CONSTRAINTS[part]
        d.assembly(moved, f'call {part} asm "mov.b32 $0, $1;", "={letter},{letter}"({part} {x})')
        into = f"insertvalue {kind} {made}, {part} {moved}, {k}"
        if k < accumulators - 1:
            made = d.op(into)
        else:
            d.end(result, into)


def _matrices(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    """`ldmatrix`."""
    count = kind.count(",") + 1
    turned = ".trans" if "trans" in parts else ""
    found = ", ".join([f"${k}" for k in range(count)])
    how = f"ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16"
    (of, x) = operands[0]
    place = d.op(f"ptrtoint {of} {x} to i32")
    d.written(result, kind, f"{how} {{{found}}}, [${count}];", [("i32", place)])


def _tf32(d: Dialect, result: str, kind: str, parts: list[str], operands: Operands) -> None:
    d.written(result, kind, "cvt.rna.tf32.f32 $0, $1;", operands)


_INTRINSICS: dict[str, Rule] = {
    "umin": _order, "umax": _order, "smin": _order, "smax": _order, "abs": _absolute,
    "roundeven": _each("round"), "floor": _each("floor"), "ceil": _each("ceil"),
    "trunc": _each("trunc"), "fabs": _each("fabs"), "sqrt": _each("sqrt.rn"),
    "copysign": _copysign, "cttz": _trailing, "masked": _masked,
    "barrier": _barrier, "mma": _product, "ldmatrix": _matrices, "f2tf32": _tf32,
}  # fmt: skip
_INSTRUCTIONS: dict[str, Callable[[Dialect, str, str], None]] = {
    "load": Dialect.load, "store": Dialect.store, "getelementptr": Dialect.element,
    "alloca": Dialect.slot, "atomicrmw": Dialect.update, "cmpxchg": Dialect.swap,
    "fence": Dialect.fence, "fneg": Dialect.negated, "freeze": Dialect.frozen, "call": Dialect.call,
}  # fmt: skip


def dialect(ir: str) -> str:
    """Returns the text of a module for GPUs in the dialect of NVVM."""
    d = Dialect()
    for line in ir.split("\n"):
        d.line(line)
    return "\n".join([*d.declared, *d.functions.values(), *d.lines])


def problem() -> str:
    """Returns what the compiler of `numba.cuda` lacks, and how to get it, or nothing; imports
    neither Numba nor that."""
    missing = _missing()
    return missing and f"{missing} is missing: pip install 'drjit-numba[numba-cuda]'"


def _missing() -> str:
    if find_spec("numba_cuda") is None:
        return "the package numba-cuda"
    try:
        load = import_module("cuda.pathfinder").load_nvidia_dynamic_lib
    except ImportError:  # old versions look for a toolkit in other ways
        return ""
    for name in ("nvvm", "nvrtc"):
        try:
            load(name)
        except RuntimeError:
            return f"the library {name} of a CUDA toolkit"
    return ""
