"""From a PTX function to Python: basic blocks, where registers live, and the code of a block.

Each basic block becomes a function `block_3(R, m)`: registers that come from other blocks are taken
from the dictionary `R`, those that others need are put back, and the result is the number of the
block that follows (or a condition and two numbers). Inside, an instruction is one NumPy statement
for all threads; `m` is the machine, with memory and collective operations. A value that all
threads share is an array of one element.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import ptx_operands
from .emit import EMITTERS, address, hidden
from .errors import UnknownInstruction, located
from .forms import PAIRS, Form, form, width
from .parse import Instruction, PtxFunction, PtxProgram
from .ptx_operands import MemoryLayout, PtxOperand, Symbols, flatten

_TERMINATORS = {"branch", "table", "return", "exit", "call", "barrier"}
# Guarded instructions that all threads execute, and some keep the result. Others have a branch
# around them.
_MASKED = {"", "mov", "cvta", "nothing", "branch", "exit"}


@dataclass(slots=True)
class DecodedInstruction:
    """An instruction whose operands have been looked up."""

    instruction: Instruction
    form: Form
    guard: str
    destinations: list[PtxOperand]
    sources: list[PtxOperand]
    defines: list[str]
    uses: list[str]
    held: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BasicBlock:
    """A basic block: what it takes from and puts into the registers, and how it must be entered.

    With a `sync`, it begins with an instruction that waits for other threads: a "barrier", or one
    of a "warp". `members` is the number of the barrier, or the mask of the threads, or the name of
    a register that holds it. At an `aligned` barrier, all threads of a warp must be together.
    """

    number: int
    function: str
    first: int
    end: int
    label: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    sync: str = ""
    members: int | str = 0
    aligned: bool = False
    line: int = 0
    run: Any = None


class FunctionWriter:
    """Translates one function. `emit` has the code of instructions that are not expressions."""

    def __init__(
        self, program: PtxProgram, function: PtxFunction, is_entry: bool, layout: MemoryLayout
    ):
        self.program, self.function, self.layout = program, function, layout
        self.is_entry = is_entry
        self.names = Symbols(program, function)
        self.prefix = "" if is_entry else function.name + "."
        self.statements: list[DecodedInstruction] = []
        self.blocks: list[BasicBlock] = []
        self.targets: dict[str, int] = {}
        self.noncanonical: set[str] = set()
        self.calls: list[str] = []
        # Names in local memory of functions' parameters and results, by the names in calls.
        self.slots: dict[str, str] = {}
        self.parameter_offsets = ptx_operands.offsets(function.parameters)[0] if is_entry else {}
        self.read_somewhere: set[str] = set()
        self.lines: list[str] = []
        self.origins: list[Instruction | None] = []
        self.constants = ptx_operands.Constants()
        self.current: DecodedInstruction | None = None
        self.guard = ""

    # ---- first pass: what is there

    def analyse(self) -> None:
        """Looks up operands, and finds the basic blocks and the homes of registers."""
        code, labels = self._expand()
        for variable in self.function.variables.values():
            if variable.space == "local":
                self.layout.add_local(self.prefix + variable.name, variable)
            elif variable.space == "shared":
                self.layout.add_shared(variable)
        if not self.is_entry:
            for variable in (*self.function.parameters, *self.function.results):
                self.layout.add_local(self.prefix + variable.name, variable)
        for instruction in code:
            with located(self.function.name, instruction):
                self.statements.append(self._statement(instruction))
        self._find_held()
        self.read_somewhere = {name for s in self.statements for name in s.uses}
        self.names.settle()
        self._find_blocks(labels)

    def _find_held(self) -> None:
        """Finds the registers to which products add while threads go on, and what else uses them.
        Each execution of that checks that the products have ended."""
        held = {name for s in self.statements if s.form.accumulates for name in s.defines}
        for s in self.statements if held else ():
            s.held = sorted(held.intersection(s.defines + s.uses))
            if s.held and "place" not in s.uses:
                s.uses.append("place")

    def _expand(self) -> tuple[list[Instruction], dict[str, int]]:
        """The code, in which guarded accesses, calls and their like have a branch around them."""
        function = self.function
        code: list[Instruction] = []
        at = list(range(len(function.code or []) + 1))
        labels = function.labels
        extra: dict[str, int] = {}
        for k, instruction in enumerate(function.code or []):
            at[k] = len(code)
            if instruction.guard and not self._can_be_masked(instruction):
                label = f"after line {instruction.line}, {k}"
                i = instruction
                code.append(Instruction(i.line, i.text, i.guard, not i.negated, "bra", [label]))
                code.append(Instruction(i.line, i.text, "", False, i.opcode, i.operands))
                extra[label] = len(code)
            else:
                code.append(instruction)
        at[-1] = len(code)
        return code, {**{name: at[k] for name, k in labels.items()}, **extra}

    def _can_be_masked(self, instruction: Instruction) -> bool:
        with located(self.function.name, instruction):
            kind = form(instruction.opcode).kind
        return kind in _MASKED or (kind == "return" and self.is_entry)

    def _statement(self, instruction: Instruction) -> DecodedInstruction:
        opcode, operands = instruction.opcode, instruction.operands
        if len(operands) == 4 and opcode[:4] in ("min.", "max."):
            opcode = opcode[:3] + "3" + opcode[3:]
        f = form(opcode)
        # What follows the index of a jump table, or a branch, is a label.
        named = operands[: {"branch": 0, "table": 1}.get(f.kind)]
        resolved = [self.names.operand(o) for o in named]
        destinations = resolved[: f.destinations]
        sources = resolved[0 if f.accumulates else f.destinations :]
        destinations += [self.names.operand(name) for name in f.hidden_results]
        sources += [self.names.operand(name) for name in f.hidden_sources]
        defines = self._defined(f, destinations)
        uses = self._used(f, sources)
        guard = ""
        if instruction.guard:
            guard = self.names.operand(instruction.guard).name
            uses += [guard, *defines]
            if instruction.negated:
                guard = "~" + guard
        more, others = hidden(self, f, operands)
        uses += more
        defines += others
        return DecodedInstruction(instruction, f, guard, destinations, sources, defines, uses)

    def _defined(self, f: Form, destinations: list[PtxOperand]) -> list[str]:
        """Registers that an instruction writes to."""
        defines: list[str] = []
        last = len(f.results) - 1
        k = 0
        for operand in destinations:
            for element in flatten(operand):
                if element.kind == "reg":
                    defines.append(element.name)
                    self.names.vote(element, f.results[min(k, last)], 2)
                k += operand.kind != "vector"
        if f.arithmetic and f.results[0] in ("f32", "f16"):
            self.noncanonical.update(defines)
        return defines

    def _used(self, f: Form, sources: list[PtxOperand]) -> list[str]:
        """Registers that an instruction reads; shared variables that it names get their place."""
        uses: list[str] = []
        last = len(f.sources) - 1
        for k, operand in enumerate(sources):
            kind = f.sources[min(k, last)] if f.sources else ""
            if kind == "address":
                self.names.vote(operand, "u64", 1)
                self.names.vote(operand, "u32", 1)
            else:
                self.names.vote(operand, kind.rstrip("*"), 1)
            if operand.kind == "reg":
                uses.append(operand.name)
                continue
            uses += ptx_operands.registers(operand)
            for part in (operand, *operand.parts):
                variable = self.program.variables.get(part.name) if part.kind == "symbol" else None
                if variable is not None and variable.space == "shared":
                    self.layout.add_shared(variable)
        return uses

    # ---- basic blocks

    def _find_blocks(self, labels: dict[str, int]) -> None:
        leaders = {0, *labels.values()}
        for k, statement in enumerate(self.statements):
            kind = statement.form.kind
            if kind in ("warp", "barrier"):
                leaders.add(k)
            if kind in _TERMINATORS:
                leaders.add(k + 1)
        starts = sorted(k for k in leaders if k < len(self.statements))
        if not starts:
            starts = [0]
        ends = [*starts[1:], len(self.statements)]
        where: dict[int, str] = {}
        for name, k in labels.items():
            where.setdefault(k, name)
        for start, end in zip(starts, ends, strict=True):
            self.blocks.append(BasicBlock(0, self.function.name, start, end, where.get(start, "")))
        for name, k in labels.items():
            self.targets[name] = next((b for b, s in enumerate(starts) if s >= k), len(starts))

    def _members(self, statement: DecodedInstruction) -> str:
        """The operand that names the threads of a warp instruction, or a barrier: "-1", another
        number, or a register."""
        position = statement.form.details["members"]
        if position < 0:
            return "-1"
        operand = statement.sources[position]
        if operand.kind == "integer":
            value = operand.value & 0xFFFFFFFF
            return "-1" if value == 0xFFFFFFFF else str(value)
        return operand.name

    def number(self, base: int) -> int:
        """Numbers the blocks; functions are numbered one after the other."""
        for k, block in enumerate(self.blocks):
            block.number = base + k
        self.targets = {name: base + k for name, k in self.targets.items()}
        return base + len(self.blocks)

    # ---- second pass: code

    def write(self, end: int, entries: dict[str, int]) -> None:
        """Writes all blocks. `end` is the number that means that a thread is finished, `entries`
        the first block of each function."""
        self.end, self.entries = end, entries
        exposed: list[list[str]] = []
        defined: list[set[str]] = []
        for block in self.blocks:
            first: dict[str, None] = {}
            written: set[str] = set()
            for statement in self.statements[block.first : block.end]:
                for name in statement.uses:
                    if name not in written:
                        first[name] = None
                written.update(statement.defines)
            exposed.append(list(first))
            defined.append(written)
        shared = {name for names in exposed for name in names}
        if self.keep_all:
            shared |= {name for names in defined for name in names if name in self.names.widths}
        for block, reads, written in zip(self.blocks, exposed, defined, strict=True):
            crossing = sorted(shared & written) + sorted(n for n in written if n.startswith("@"))
            self._write_block(block, reads, crossing)

    keep_all = False

    def key(self, name: str) -> str:
        """The key of a register in `R`. Special registers are the same in all functions; a name
        with an @ is that of another function's register."""
        if name[0] == "@":
            return name[1:]
        return name if name in self.names.special or name == "place" else self.prefix + name

    def _write_block(self, block: BasicBlock, reads: list[str], writes: list[str]) -> None:
        block.reads = tuple(self.key(name) for name in reads)
        block.writes = tuple(self.key(name) for name in writes)
        statements = self.statements[block.first : block.end]
        block.line = statements[0].instruction.line if statements else self.function.line
        label = f"  # {block.label}" if block.label else ""
        self.current = None
        self.put(f"def block_{block.number}(R, m):{label}", indent="")
        for name in reads:
            self.put(f'{_local(name)} = R["{self.key(name)}"]')
        self.last = ""
        self.stores = [f'R["{self.key(name)}"] = {_local(name)}' for name in writes]
        for k, statement in enumerate(statements):
            self.current, self.guard = statement, statement.guard
            i = statement.instruction
            self.put(f"# {i.line}: {i.text}")
            f = statement.form
            if k == 0 and f.kind in ("warp", "barrier"):
                members, block.sync = self._members(statement), f.kind
                block.members = int(members) if members.lstrip("-").isdigit() else self.key(members)
                block.aligned = f.details.get("aligned", False)
            if statement.held:
                self.put(f"m.use_held(place, {statement.held}, {f.accumulates})")
            with located(self.function.name, i):
                if f.texts and f.kind != "mov":
                    self.expression(statement)
                else:
                    EMITTERS[f.kind](self, statement)
        if not self.last:
            self.finish(f"return {self.skip(self.following(block.end))}")

    def following(self, position: int) -> int:
        """The number of the block that begins at a statement, or that of the end."""
        for block in self.blocks:
            if block.first >= position:
                return block.number
        return self.end

    def skip(self, number: int) -> int:
        """The number of a block; that of the end if the block does nothing but end the kernel."""
        block = next((b for b in self.blocks if b.number == number), None)
        if block is None or not self.is_entry or block.end - block.first != 1 or self.keep_all:
            return number
        statement = self.statements[block.first]
        done = statement.form.kind in ("return", "exit") and not statement.guard
        return self.end if done else number

    def finish(self, text: str) -> None:
        """Writes the end of a block, which puts back registers and says what follows."""
        self.current = None
        for line in self.stores:
            self.put(line)
        self.last = text
        self.put(text)

    def put(self, text: str, indent: str = "    ") -> None:
        """Writes a line of the current block."""
        self.lines.append(indent + text)
        self.origins.append(self.current.instruction if self.current else None)

    # ---- operands

    def expression(self, statement: DecodedInstruction) -> None:
        """Writes an instruction whose form is one expression per result."""
        f = statement.form
        elements = [e for operand in statement.destinations for e in flatten(operand)]
        native = self.native(f, statement, elements)
        arguments = [
            self.read(operand, f.sources[min(k, len(f.sources) - 1)], native)
            for k, operand in enumerate(statement.sources)
        ]
        values = ", ".join(text.format(*arguments) for text in f.texts[: max(len(elements), 1)])
        if elements:
            self.assign_all(elements, values, f.results, native, f.tuple_size)
        else:
            self.put(values)

    def assign_all(
        self, elements: Sequence[PtxOperand], text: str, kinds: Sequence[str], native: str = "",
        count: int = 0,
    ) -> None:  # fmt: skip
        """Puts the values of some expressions, or of one that gives a tuple of at least `count`,
        into registers; all at once, as a destination may be an operand as well."""
        if len(elements) == 1 and not count:
            self.assign(elements[0], text, kinds[0], native)
            return
        names = [f"_{k}" for k in range(max(len(elements), count))]
        left = []
        for k, element in enumerate(elements):
            kind = kinds[min(k, len(kinds) - 1)]
            if self.guard or self.names.home.get(element.name) != _named(kind, native):
                left.append((element, names[k], kind))
            else:
                names[k] = element.name
        self.put(f"{', '.join(names)}{',' * (len(names) == 1)} = {text}")
        for element, name, kind in left:
            self.assign(element, name, kind, native)

    def native(self, f: Form, statement: DecodedInstruction, elements: list[PtxOperand]) -> str:
        """The type for operands whose form does not say it: that of the result, or of a source."""
        kind = f.results[0] if f.results else ""
        integer = kind[:1] == "x" or (kind == "pred" and f.sources[0][:1] == "x")
        if not integer and kind[:1] != "b":
            return kind
        candidates = [*elements, *statement.sources] if kind != "pred" else statement.sources
        for operand in candidates:
            if operand.kind == "reg":
                home = self.names.home[operand.name]
                if home != "pred" and (not integer or home[0] in "iu"):
                    return home
        return "u" + (f.sources[0] if kind == "pred" else kind)[1:]

    def read(self, operand: PtxOperand, kind: str, native: str = "") -> str:
        """The expression of an operand, as a type; `native` stands for types without a name."""
        if kind == "shift":
            return self._shift_amount(operand, native)
        if kind == "number":
            return str(operand.value)
        if kind == "address":
            return "{}, {}".format(*address(self, operand))
        if kind == "box":
            tensor, position = operand.parts
            return f"{self.read(tensor, 'u64')}, {self.read(position, 'i32*')}"
        if kind[-1] == "*":
            return "(" + ", ".join(self.read(o, kind[:-1]) for o in flatten(operand)) + ",)"
        moved = kind[0] == "b" and kind[1:].isdigit()
        kind = _named(kind, native)
        if operand.kind == "not":
            return "~" + self.read(operand.parts[0], kind, native)
        if ">" in kind:
            return self._widened(operand, *kind.split(">"))
        if kind in PAIRS:
            half, word = PAIRS[kind]
            return f"pairs({self.read(operand, word)}, {half})"
        if operand.kind == "reg":
            return self.register(operand.name, kind, moved)
        return self.constant(operand, kind)

    def constant(self, operand: PtxOperand, kind: str) -> str:
        if operand.kind == "integer":
            return self.constants.name(kind, operand.value)
        if operand.kind == "float":
            return self.constants.name(kind, ptx_operands.convert_float(operand, kind))
        raise UnknownInstruction("unknown kind of operand")

    def register(self, name: str, kind: str, moved: bool = False) -> str:
        """A register as a type: its lower part, if it is wider."""
        home = self.names.home[name]
        if kind == "pred" or home == "pred":
            if home != kind:
                raise UnknownInstruction(f"a predicate is mixed with other registers: {name}")
            return name
        text = name
        if name in self.noncanonical and home[0] == "f" and (moved or kind != home):
            text = f"canonical({name})"
        if home == kind:
            return text
        own = width(home)
        if width(kind) > own:
            raise UnknownInstruction(f"{name} has {own} bits, too few for this instruction")
        return _converted(text, home, kind)

    def _shift_amount(self, operand: PtxOperand, native: str) -> str:
        bits = width(native)
        if operand.kind == "integer":
            return self.constants.name(native, min(operand.value & 0xFFFFFFFF, bits))
        text = self.read(operand, "u32")
        if bits == 32:
            return text if native == "u32" else f"{text}.view({native})"
        if bits == 16:
            text = f"np.minimum({text}, u32(16))"
        return f"{text}.astype({native})"

    def _widened(self, operand: PtxOperand, narrow: str, wide: str) -> str:
        if operand.kind != "reg":
            value = operand.value & ((1 << width(narrow)) - 1)
            if narrow[0] == "i" and value >> (width(narrow) - 1):
                value -= 1 << width(narrow)
            return self.constants.name(wide, value)
        return f"{self.read(operand, narrow)}.astype({wide})"

    def assign(self, operand: PtxOperand, text: str, kind: str, native: str = "") -> None:
        """Puts the value of an expression into a register; where the guard holds, if any."""
        if operand.kind == "sink":
            if text.startswith("m."):
                self.put(text)
            return
        name = operand.name
        home = self.names.home[name]
        kind = _named(kind, native)
        if kind in PAIRS:
            half, word = PAIRS[kind]
            if half[0] == "f" and self.current and self.current.form.arithmetic:
                text = f"canonical({text})"
            text, kind = f"unpaired({text}, {word})", word
        text = self.fit(text, kind, home)
        if self.guard:
            text = f"where({self.guard}, {text}, {name})"
        self.put(f"{name} = {text}")

    def fit(self, text: str, kind: str, home: str) -> str:
        """A value of a type as one of a register's home, with its sign extended if it is wider."""
        if kind == home or kind == "pred":
            return text
        text = text if text.isidentifier() else f"({text})"
        return _converted(text, kind, home)


def _local(name: str) -> str:
    """The Python name of a register, or of that with the place to which a function returns."""
    return "caller" if name[0] == "@" else name


def _named(kind: str, native: str) -> str:
    """The type of an operand: `native` for integers of either sign, and for bits."""
    if kind[0] in "xb" and kind[1:].isdigit():
        return native if native[:1] in "iuf" else "u" + kind[1:]
    return kind


def _converted(text: str, kind: str, to: str) -> str:
    """The bits of a value as those of another type: the lower part, or extended by the sign."""
    if width(kind) == width(to):
        return f"{text}.view({to})"
    if kind[0] == "f":
        kind = f"u{width(kind)}"
        text = f"{text}.view({kind})"
    if to[0] == "f":
        return f"{text}.astype({kind[0]}{width(to)}).view({to})"
    return f"{text}.astype({to})"
