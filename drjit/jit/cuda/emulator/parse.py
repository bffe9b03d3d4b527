"""PTX text as data: variables, functions, and their instructions with line numbers.

Nothing is interpreted here; operands remain text. Names that are declared in an inner scope (the
braces around inline assembly and around calls) become unique, so that the rest of the emulator
knows no scopes. The grammar is that of NVIDIA's "Parallel Thread Execution ISA", sections 4 and 5.
"""

import bisect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .errors import PTXSyntaxError

# The size of a value of a type in bytes; predicates do not exist in memory.
SIZES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "tf32": 4,
    "u16x2": 4, "s16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16,
}  # fmt: skip


@dataclass(slots=True)
class PtxVariable:
    """A variable of a state space: `.shared .align 4 .b8 name[16] = {...}`."""

    space: str
    name: str
    element: str  # type of an element
    nbytes: int
    alignment: int
    initial: list[str] = field(default_factory=list)
    external: bool = False


@dataclass(slots=True)
class Instruction:
    """One statement. `guard` is the name of a predicate register, or empty."""

    line: int
    text: str
    guard: str
    negated: bool
    opcode: str
    operands: list[str]


@dataclass(slots=True)
class PtxFunction:
    """An entry point or a device function; `code` is None if it is only declared."""

    name: str
    is_entry: bool
    parameters: list[PtxVariable]
    results: list[PtxVariable]
    line: int
    most_threads: int | None = None  # .maxntid
    threads: tuple[int, int, int] | None = None  # .reqntid
    code: list[Instruction] | None = None
    labels: dict[str, int] = field(default_factory=dict)
    # Types of registers by name, and by prefix for `%r<10>`.
    registers: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    variables: dict[str, PtxVariable] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # .branchtargets


@dataclass(slots=True)
class PtxProgram:
    """A PTX text."""

    functions: dict[str, PtxFunction]
    variables: dict[str, PtxVariable]
    # The translations of entry points, kept with the text.
    translations: dict[tuple[str, bool], Any] = field(default_factory=dict)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(
    r"""\s*+(?:
    (?P<brace>[{}])
    | (?P<skipped>\.(?:loc|file)\b[^\n]*)
    | (?P<label>[\w$%]++)\s*:(?!:)
    | (?P<directive>\.[^;]*);
    | (?:@(?P<negated>!?)\s*(?P<guard>[\w$%]+)\s+)?
      (?P<opcode>[a-z][\w.:]*+)\s*(?P<operands>[^;{}]*(?:\{[^{};]*\}[^;{}]*)*);
    )""",
    re.VERBOSE,
)
_TOP = re.compile(
    r"""\s*+(?:
    \.(?:version|target|address_size|file|loc)\b[^\n]*
    | \.section\b[^{]*\{[^}]*\}
    | (?P<function>(?:\.(?:visible|extern|weak)\s+)*\.(?P<kind>entry|func)\b
        (?:\s*\.(?:noreturn|attribute\([^)]*\)))*
        \s*(?:\((?P<results>[^)]*)\))?\s*(?P<name>[\w$%]+)\s*
        (?:\((?P<parameters>[^)]*)\))?(?P<directives>[^{};]*)(?P<end>[{;]))
    | (?P<variable>\.[^;]*);
    )""",
    re.VERBOSE,
)
_VARIABLE = re.compile(
    r"""(?P<linkage>(?:\.(?:visible|extern|weak|common)\s+)*)
    \.(?P<space>global|const|shared|local|param)\s+
    (?P<attributes>(?:\.(?:align\s+\d+|attribute\([^)]*\))\s+)*)
    (?:\.v(?P<vector>[248])\s+)?\.(?P<type>\w+)\s+
    (?P<pointer>(?:\.ptr\s+(?:\.(?:global|shared|const|local|param)\s+)?(?:\.align\s+\d+\s+)?)?)
    (?P<name>[\w$%]+)\s*(?P<sizes>(?:\[\s*\d*\s*\]\s*)*)
    (?:=\s*(?P<initial>.*))?$""",
    re.VERBOSE | re.DOTALL,
)
_OPERAND = re.compile(r"\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|[^,\s{(\[][^,]*")
_NAME = re.compile(r"(?<!\w)[%$A-Za-z_][\w$.]*")
_INITIAL = re.compile(r"generic\s*\(\s*[\w$]+\s*\)(?:\s*\+\s*\d+)?|[^\s{},]+(?:\s*\+\s*\d+)?")


def split_operands(text: str) -> list[str]:
    """Operands as written; those in braces, brackets or parentheses are one each."""
    if "{" in text or "(" in text:
        return [operand.strip() for operand in _OPERAND.findall(text)]
    return [operand.strip() for operand in text.split(",")] if text else []


def variable(text: str) -> PtxVariable | None:
    """A declaration, without its semicolon; None for other text."""
    m = _VARIABLE.match(text.strip())
    if m is None or m["type"] not in SIZES:
        return None
    width = SIZES[m["type"]] * int(m["vector"] or 1)
    aligned = re.search(r"\.align\s+(\d+)", m["attributes"])
    alignment = int(aligned[1]) if aligned else width
    nbytes = width
    for size in re.findall(r"\[\s*(\d*)\s*\]", m["sizes"]):
        nbytes *= int(size or 0)
    initial = _INITIAL.findall(m["initial"]) if m["initial"] else []
    if initial and not nbytes:
        nbytes = width * len(initial)
    external = "extern" in m["linkage"]
    return PtxVariable(m["space"], m["name"], m["type"], nbytes, alignment, initial, external)


LineNumber = Callable[[int], int]
"""Returns the number of the line of a position."""


@lru_cache(maxsize=64)
def parse(text: str) -> PtxProgram:
    """Reads a PTX text. Raises `PTXSyntaxError` with the line that is not understood."""
    text = _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text).rstrip().rstrip("\0")
    starts = [m.end() for m in re.finditer("\n", text)]

    def line(position: int) -> int:
        return bisect.bisect_right(starts, position) + 1

    program = PtxProgram({}, {})
    position = 0
    while position < len(text):
        m = _TOP.match(text, position)
        if m is None:
            if text[position:].strip():
                raise _error(text, position, line)
            break
        position = m.end()
        if m["function"]:
            function = _head(m, line(m.start("name")))
            if m["end"] == "{":
                position = _body(function, text, position, line)
            previous = program.functions.get(function.name)
            if previous is None or previous.code is None:
                program.functions[function.name] = function
        elif m["variable"] and (declared := variable(m["variable"])):
            previous = program.variables.get(declared.name)
            if previous is None or previous.external:
                program.variables[declared.name] = declared
    return program


def _error(text: str, position: int, line: LineNumber) -> PTXSyntaxError:
    rest = text[position:].lstrip()
    number = line(len(text) - len(rest))
    shown = rest.split("\n")[0]
    return PTXSyntaxError(f"line {number} is not understood: {shown}", line=number)


def _head(m: re.Match[str], line: int) -> PtxFunction:
    def variables(text: str | None) -> list[PtxVariable]:
        declared = [variable(part) for part in (text or "").split(",") if part.strip()]
        return [v for v in declared if v is not None]

    function = PtxFunction(
        m["name"], m["kind"] == "entry", variables(m["parameters"]), variables(m["results"]), line
    )
    for name, sizes in re.findall(r"\.(maxntid|reqntid)\s+([\d\s,]+)", m["directives"]):
        x, y, z = ([int(s) for s in sizes.split(",")] + [1, 1])[:3]
        if name == "maxntid":
            function.most_threads = x * y * z
        else:
            function.threads = (x, y, z)
    return function


def _body(function: PtxFunction, text: str, position: int, line: LineNumber) -> int:
    """Reads statements up to the closing brace; the position after it."""
    code: list[Instruction] = []
    function.code = code
    # Of each open scope: its first instruction, and names that are declared in it.
    scopes: list[tuple[int, dict[str, str]]] = [(0, {})]
    count = 0

    def unique(name: str) -> str:
        """The unique name for something that the innermost scope declares."""
        nonlocal count
        if len(scopes) == 1:
            return name
        count += 1
        scopes[-1][1][name] = f"{name}__{count}"
        return f"{name}__{count}"

    match = _STATEMENT.match
    while True:
        m = match(text, position)
        if m is None:
            raise _error(text, position, line)
        position = m.end()
        opcode = m["opcode"]
        if opcode is not None:
            operands = m["operands"]
            code.append(
                Instruction(
                    line(m.start("opcode")),
                    " ".join(m[0].split()),
                    m["guard"] or "",
                    m["negated"] == "!",
                    opcode,
                    split_operands(operands.strip()),
                )
            )
        elif m["label"] is not None:
            name = unique(m["label"])
            following = _STATEMENT.match(text, position)
            directive = (following["directive"] if following else None) or ""
            if directive.startswith(".branchtargets"):
                function.tables[name] = split_operands(directive.partition("targets")[2].strip())
            else:
                function.labels[name] = len(code)
        elif m["directive"] is not None:
            _declare(function, m["directive"], unique, len(scopes) == 1)
        elif m["brace"] == "{":
            scopes.append((len(code), {}))
        elif m["brace"] == "}":
            first, names = scopes.pop()
            if not scopes:
                return position
            if names:
                _rename(code, first, names)


def _declare(
    function: PtxFunction, directive: str, unique: Callable[[str], str], outermost: bool
) -> None:
    """Registers and variables of a function, with their unique names."""
    if directive.startswith(".reg"):
        kind, names = directive[4:].split(None, 1)
        kind = kind.lstrip(".")
        for name in map(str.strip, names.split(",")):
            prefix, _, size = name.rstrip(">").partition("<")
            if not size:
                function.registers[unique(name)] = kind
            elif outermost:
                function.prefixes[prefix] = kind
            else:
                for k in range(int(size)):
                    function.registers[unique(f"{prefix}{k}")] = kind
    elif declared := variable(directive):
        declared.name = unique(declared.name)
        function.variables[declared.name] = declared


def _rename(code: list[Instruction], first: int, names: dict[str, str]) -> None:
    def new(m: re.Match[str]) -> str:
        return names.get(m[0], m[0])

    for instruction in code[first:]:
        instruction.guard = names.get(instruction.guard, instruction.guard)
        instruction.operands = [_NAME.sub(new, operand) for operand in instruction.operands]
