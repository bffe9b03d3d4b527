"""A recording as a function of native code (`jit/native/language.py`): it checks sizes, allocates
memory for all intermediate values at once, launches kernels, and copies what belongs elsewhere.

Kernels read and write whole packets, but arrays of C end where they end. Where a kernel accesses an
array lane by lane, the packet beyond the last lane uses a copy of the last entries (`tails` of
`simd.kernel.module_text`). Arrays that it accesses in another way, as products of matrices do, are
copied as a whole.
"""

import re
import struct
from collections.abc import Iterable
from math import gcd
from typing import Any

from ...jit.cpu.kernel import text_of
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from ...jit.ir.location import describe
from ...jit.ir.node import LITERAL
from ...jit.ir.op import ignored
from ...jit.lazy import np
from ...jit.run.freeze import Literal, RecordedLaunch, Recording, ValueNumber
from ...jit.target.simd.translate import WORDS_IN_REGISTERS
from ..freeze.recordings import SizedNumber
from . import operations
from .interface import CannotExport
from .operations import OTHER_SIZES, pattern

_ON_GPU = "kernels that have been recorded on a GPU"
SPACE = 512  # bytes behind each array, for a packet
# Statements that access a lane's own entry, and those that access nothing but single entries.
_BY_LANE = frozenset(("load", "store", "stream"))
_EXACT = frozenset(
    ("broadcast", "gather", "scatter", "scatter_inc", "scatter_exch", "scatter_cas", "reduce")
)
_KNOWN = _BY_LANE | _EXACT
_CALL, _WORD = re.compile(r"(\w+)\("), re.compile(r"p\[(\d+)\]")


def accesses(text: str) -> dict[int, set[str]]:
    """Returns the statements in which a kernel's text uses each word of the parameter block; those
    of a text that has functions, or many words, are not known."""
    unknown = text.count("def ") > 1 or text.count("p[") > WORDS_IN_REGISTERS
    found: dict[int, set[str]] = {}
    for line in text.split("\n"):
        for word in _WORD.findall(line):
            name: Any = _CALL.search(line)
            found.setdefault(int(word), set()).add("?" if unknown else name[1])
    return found


def bits(t: DType, value: Any) -> int:
    """Returns the bits of a number of a type, as a signed word."""
    data = struct.pack("<" + dt.FORMATS[t.element], value)
    return int.from_bytes(data, "little", signed=len(data) == 8)


class Module:
    """The kernels, constants and messages of an object file. A kernel has a number for its
    text, its tails, and whether products and sums may be fused."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, tuple[tuple[int, int], ...], bool], str] = {}
        self.constants: dict[bytes, str] = {}
        self.messages: list[str] = []

    def kernel(self, text: str, tails: dict[int, int], contract: bool) -> str:
        key = text.replace("    stream(", "    store("), tuple(tails.items()), contract
        return self.kernels.setdefault(key, f"kernel.{len(self.kernels)}")

    def constant(self, data: bytes) -> str:
        return self.constants.setdefault(data, f"constant.{len(self.constants)}")

    def message(self, text: str) -> int:
        """Returns the number of a message."""
        if text not in self.messages:
            self.messages.append(text)
        return OTHER_SIZES + 1 + self.messages.index(text)


class Driver:
    """Writes the function of a recording. `f` is the C function it belongs to (`object.Function`),
    `values` the addresses of values, as expressions, `sizes` their element types and numbers of
    entries."""

    def __init__(self, f: Any, module: Module, recording: Recording, outcome: Any) -> None:
        self.f, self.module, self.recording, self.outcome = f, module, recording, outcome
        self.checks: list[str] = []  # of sizes
        self.plans: list[str] = []  # numbers of lanes, and where memory begins
        self.late_checks: list[str] = []  # of these numbers, before anything is allocated
        self.lines: list[str] = []
        self.endings: list[str] = []
        self.values: dict[int, str] = {}
        self.sizes: dict[int, tuple[DType, str]] = {}
        self._numbers: dict[str, str] = {}
        self._count = 0
        self._free: dict[str, list[str]] = {}  # memory that is no longer in use, by its size
        self._slots: dict[int, tuple[str, str]] = {}  # of values: their size and place
        self._padded = self._whole_packets()
        self._scratch: list[tuple[str, str]] = []
        self._direct: dict[int, str] = {}  # results that are computed where the caller wants them

    # ---- Names and numbers

    def name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def planned(self, expression: str) -> str:
        """Returns the name of a number that is known in advance."""
        if expression.isdecimal() or re.fullmatch(r"\w+", expression):
            return expression
        if expression not in self._numbers:
            self._numbers[expression] = name = self.name("n")
            self.plans.append(f"{name} = {expression}")
        return self._numbers[expression]

    def number(self, n: Any) -> str:
        """Returns a number of the recording, which may depend on sizes."""
        if not isinstance(n, SizedNumber):
            return str(int(n))
        found = []
        for p in n.options:
            size = self.f.size(p.which)
            parts = size if p.length == 1 else f"({size} + {p.length - 1}) // {p.length}"
            common = gcd(p.value, p.at)
            times, by = p.value // common, p.at // common
            product = parts if times == 1 else f"({parts}) * {times}"
            if by > 1:
                self.checks.append(f"if ({product}) // {by} * {by} != {product}:")
                self.checks.append(f"    return {OTHER_SIZES}")
                product = f"({product}) // {by}"
            found.append(product)
        for other in found[1:]:
            if other != found[0]:
                self.checks += [f"if {other} != {found[0]}:", f"    return {OTHER_SIZES}"]
        return self.planned(found[0])

    def literal(self, t: DType, value: Any) -> str:
        """Returns the bits of a literal, which may depend on sizes."""
        if not isinstance(value, SizedNumber):
            return str(bits(t, value))
        if t is dt.f16:
            raise CannotExport("half-precision numbers that depend on the sizes of arrays")
        n = self.number(value._replace(dtype=None))
        if not t.is_float:
            return n
        return f"number_{t.code}({n}, {int(value.inverse)})"

    # ---- Memory

    def room(self, nbytes: str) -> tuple[str, str]:
        """Returns memory, as a size and the name of its address."""
        nbytes = self.planned(nbytes)
        free = self._free.setdefault(nbytes, [])
        if free:
            return nbytes, free.pop()
        place = self.name("m")
        self.plans += [f"{place} = total", f"total = total + rounded_up({nbytes} + {SPACE}, 64)"]
        self.lines.append(f"{place} = {place} + base")
        return nbytes, place

    def scratch(self, nbytes: str) -> str:
        """Returns memory for the current step."""
        found = self.room(nbytes)
        self._scratch.append(found)
        return found[1]

    def allocate(self, value: int, t: DType, n: str) -> str:
        """Returns the address of a new value."""
        self.sizes[value] = t, n
        if value in self._direct:
            self.values[value] = self._direct[value]
        else:
            lanes = f"({n} + 63) // 64 * {64 * t.count}" if t.is_vector else n
            found = self._slots[value] = self.room(f"({lanes}) * {t.itemsize}")
            self.values[value] = found[1]
        return self.values[value]

    def copy(self, to: str, source: str, nbytes: str) -> str:
        return f"copy({to}, {source}, {nbytes})"

    # ---- The function

    def text(self, name: str) -> str:
        """Returns the function, which returns `OTHER_SIZES` if it is none for the given sizes."""
        self._inputs()
        self._results()
        last: dict[int, int] = {}
        for k, step in enumerate(self.recording.steps):
            last |= dict.fromkeys([*step.read, *step.results], k)
        kept = {value for _, value, _ in (*self.outcome.results, *self.outcome.changes)
                if type(value) is ValueNumber}  # fmt: skip
        for k, step in enumerate(self.recording.steps):
            self._scratch = []
            if isinstance(step, RecordedLaunch):
                self._launch(step)
            else:
                self._operation(step)
            ended = [v for v, at in last.items() if at == k and v not in kept]
            rooms = [self._slots.pop(v) for v in ended if v in self._slots]
            for nbytes, place in (*self._scratch, *rooms):
                self._free[nbytes].append(place)
        self._copy_results()
        self._scratch = []
        body = [
            "a: Word = given",
            "threads = min(max(word(a), 1), THREADS)",
            *self.f.size_lines,
            *self.checks,
            "total = 64",
            *self.plans,
            *self.late_checks,
            "memory = allocate(total)",
            "if memory == 0:",
            "    return 1",
            "base = (memory + 63) // 64 * 64",
            "record = room(6)",
            *[f"put(record + {8 * k}, 0)" for k in range(6)],
            "result = 0",
            "while 1:",
            *["    " + line for line in (*self.lines, *self.endings, "break")],
            "release(memory)",
            "return result",
        ]
        return "\n".join([f"def {name}(given):", *["    " + line for line in body]]) + "\n"

    def _whole_packets(self) -> set[int]:
        """Returns the values that kernels access as whole packets, without regard to where they
        end."""
        found: set[int] = set()
        for step in self.recording.steps:
            if isinstance(step, RecordedLaunch):
                used = accesses(step.kernel.text)
                changed = {v for v, *_ in step.effects}.intersection(step.inputs)
                for word, value in self._words(step):
                    if value in changed or not used.get(word, set()) <= _KNOWN:
                        found.add(value)
            else:
                found.update(step.read)
        return found

    def _words(self, step: RecordedLaunch) -> list[tuple[int, int]]:
        """Returns the words of a launch's parameter block that are addresses of values, and
        these."""
        found: list[tuple[int, int]] = [(1 + k, v) for k, v in enumerate(step.inputs)]
        word = 1 + len(step.inputs) + len(step.literals) + len(step.checks)
        for value, *_, mode in step.effects:
            found.append((word, value))
            word += 3 if mode == "expand" else 1
        for o in step.outputs:
            if o is not None:
                word += o[2]  # the partial results of a reduction
                found.append((word, o[0]))
                word += 1
        return found

    def _inputs(self) -> None:
        written = {*self.recording.written}
        read = {v for step in self.recording.steps for v in step.read}
        for number, row in enumerate(self.f.inputs.values):
            if row.is_literal:
                continue
            t, n = row.dtype, self.f.size(row.size)
            self.sizes[number] = t, n
            if number >= self.f.inputs.own_values:
                if number in written:
                    raise CannotExport("changes of arrays that are not among its arguments")
                if number in read or number in self.outcome_values:
                    self._constant(number, self.f.captured[number], t)
                continue
            address = self.values[number] = self.f.address(row.name)
            if number in self._padded and number in read:
                nbytes = self.planned(f"{n} * {t.itemsize}")
                _, place = self.room(nbytes)
                self.values[number] = place
                self.lines.append(self.copy(place, address, nbytes))
                if number in written:
                    self.endings.append(self.copy(address, place, nbytes))
        for number, node in self.recording.constants:
            self.sizes[number] = node.dtype, str(node.size)
            self._constant(number, node, node.dtype)

    @property
    def outcome_values(self) -> set[Any]:
        return {value for _, value, _ in (*self.outcome.results, *self.outcome.changes)}

    def _constant(self, number: int, node: Any, t: DType) -> None:
        if t.is_vector:
            raise CannotExport("arrays of vectors that it captures")
        if node.op is LITERAL:
            data = np.full(node.size, node.data, t.numpy).tobytes()
        else:
            node.data.device.sync()  # launches that compute it may be queued
            data = node.data.device.download(node.data, t, node.size).tobytes()
        self.values[number] = place = self.name("c")
        self.lines.append(f'{place} = external("{self.module.constant(data)}")')

    def _results(self) -> None:
        """Checks the room for results, and chooses those that kernels can write there."""
        made = {
            o[0]: o[1]
            for step in self.recording.steps if isinstance(step, RecordedLaunch)
            for o in step.outputs if o is not None
        }  # fmt: skip
        changed = {v for step in self.recording.steps if isinstance(step, RecordedLaunch)
                   for v, *_ in step.effects}  # fmt: skip
        for name, value, _ in self.outcome.results:
            if type(value) is not ValueNumber or value in self._direct or value not in made:
                continue
            if value not in self._padded | changed and not made[value].is_vector:
                self._direct[value] = self.f.address(name)

    def _copy_results(self) -> None:
        """Checks the room of results, and copies what is not there yet: results, then changes of
        arguments, of which none is read once another has been made."""
        rows = [(name, value, t, False) for name, value, t in self.outcome.results]
        rows += [(name, value, t, True) for name, value, t in self.outcome.changes]
        late: list[str] = []
        for name, value, t, changes in rows:
            n = self.number(value.size) if isinstance(value, Literal) else self.sizes[value][1]
            self.late_checks += self.f.room_for(name, n, changes)
            address = self.f.address(name)
            if isinstance(value, Literal):
                self._fill(address, t, n, self.literal(t, value.value))
            elif self._direct.get(value) != address:
                nbytes, source = self.planned(f"{n} * {t.itemsize}"), self.values[value]
                if changes and value < len(self.f.inputs.values):
                    self._scratch = []
                    place = self.scratch(nbytes)
                    self.endings.append(self.copy(place, source, nbytes))
                    source = place
                (late if changes else self.endings).append(self.copy(address, source, nbytes))
        self.endings += late

    def _fill(self, address: str, t: DType, n: str, value: str) -> None:
        text = text_of(f"c0 = literal({t.code}, p[1])", f"store({t.code}, p[2], i, c0)")
        line_count = len(self.lines)
        _, after, word = self._tail(t, n, address)
        self.run(text, 1, n, [value, address, word], tails={2: 3})
        self.lines += after
        self.endings += self.lines[line_count:]
        del self.lines[line_count:]

    # ---- Launches

    def _tail(
        self, t: DType, n: str, address: str, reads: bool = False
    ) -> tuple[list[str], list[str], str]:
        """Returns the lines before and after a launch that moves the entries of the last packet
        elsewhere, and the word of the parameter block for it."""
        place, rest = self.scratch(str(64 * t.itemsize)), self.planned(f"{n} & 63")
        whole, nbytes = self.planned(f"({n} - {rest}) * {t.itemsize}"), f"{rest} * {t.itemsize}"
        there = f"{address} + {whole}"
        copy = self.copy(place, there, nbytes) if reads else self.copy(there, place, nbytes)
        lines = [f"if {rest}:", f"    {copy}"]
        if reads:  # lanes behind the last one are numbers
            lines.insert(1, f"    fill({place}, {64 * t.itemsize}, 0)")
        return (lines, [], f"{place} - {whole}") if reads else ([], lines, f"{place} - {whole}")

    def _launch(self, step: RecordedLaunch) -> None:
        k: Any = step.kernel
        if not k.device.on_host:
            raise CannotExport(_ON_GPU)
        n = self.number(step.size)
        work = self.planned(f"{n} * {max(k.cost, 1)}")
        block = self.planned(f"block_for({work}, {n}, threads)")
        copies = "threads"
        expanded = [e for e in step.effects if e[4] == "expand"]
        if expanded:
            nbytes = " + ".join(
                f"{self.number(e[2])} * {e[1].accumulator.itemsize}" for e in expanded
            )
            block = self.planned(f"block_with_copies({block}, {n}, threads, {nbytes})")
            copies = self.planned(f"copies_for({block}, {n}, threads)")
        words = [self.values[v] for v in step.inputs]
        words += [self.literal(t, value) for t, value in step.literals]
        words += [self.number(data[4]) for data, _ in step.checks]
        for value, t, size, reduce, mode in step.effects:
            words.append(self.values[value])
            if mode == "expand":
                words += self._accumulators(t, self.number(size), reduce, copies)
        for o in step.outputs:
            if o is not None:
                number, t, reduces = o
                if reduces:
                    words.append(self.scratch(f"8 * (({n} + {block} - 1) // {block})"))
                words.append(self.allocate(number, t, "1" if reduces else n))
        tails, after = {}, []
        used = accesses(k.text)
        made = {o[0] for o in step.outputs if o is not None}
        for word, value in self._words(step):
            if self.values[value].startswith("x") and used.get(word, set()) & _BY_LANE:
                t, _ = self.sizes[value]
                before, behind, other = self._tail(t, n, self.values[value], value not in made)
                self.lines += before
                after += behind
                words.append(other)
                tails[word] = len(words)
        loops = k.loops
        self.run(
            k.text, 0, n, words, block=block, copies=copies, tails=tails,
            work=f"{work} * 8" if loops else work,
        )  # fmt: skip
        self.lines += after
        self._check(step.checks)

    def _check(self, checks: Iterable[Any]) -> None:
        numbers = []
        for (_, what, location, _, size, _), _ in checks:
            if not isinstance(what, str):
                raise CannotExport(f"functions that raise exceptions (at {describe(location)})")
            entries = "" if isinstance(size, SizedNumber) else f" with {size} entries"
            where = describe(location).rpartition("/")[2]
            text = f"{what}: an index is out of bounds for an array{entries} (at {where})"
            numbers.append(self.module.message(f"{self.f.name}: {text}"))
        if numbers:
            self.lines.append("if word(record) != 0:")
            for site, number in enumerate(numbers):
                self.lines += [f"    if word(record + 8) == {site}:", f"        result = {number}"]
            self.lines.append("    break")

    def _accumulators(self, t: DType, n: str, reduce: str, copies: str) -> list[str]:
        """Returns the words of private copies of a target."""
        a = t.accumulator
        count = f"({copies} - 1)" if a is t else copies
        nbytes = self.planned(f"{count} * {n} * {a.itemsize}")
        place = self.scratch(nbytes)
        self.lines.append(f"fill({place}, {nbytes}, {pattern(a, ignored(reduce, a))})")
        return [place, n]

    def run(
        self, text: str, cost: int, n: str, words: list[str], block: str = "", copies: str = "",
        tails: dict[int, int] | None = None, work: str = "",
    ) -> None:  # fmt: skip
        """Launches a kernel with the words of its parameter block after the first one. `cost` is
        that of a lane, or `work` that of the launch."""
        work = work or f"{n} * {cost}"
        block = block or f"block_for({work}, {n}, threads)"
        name, p = self.module.kernel(text, tails or {}, self.f.contract), self.name("p")
        self.lines += [f"{p} = room({len(words) + 1})", f"put({p}, record)"]
        self.lines += [f"put({p} + {8 * k}, {w})" for k, w in enumerate(words, 1)]
        finish = f'external("{name}_finish")'
        self.lines.append(
            f'launch(external("{name}"), {finish}, {p}, {n}, {block}, {copies or "threads"}, '
            f"threads, {work})"
        )

    # ---- Operations that launch kernels of their own

    def _operation(self, step: Any) -> None:
        name = step.function.__name__
        write = operations.WRITERS.get(name)
        if write is None or step.sizes:
            raise CannotExport(operations.TITLES.get(name, f"the operation {name}"))
        if step.device is not None and not step.device.on_host:
            raise CannotExport(_ON_GPU)
        write(self, step.arguments, step.results)

    def alias(self, result: int, source: int) -> None:
        """Makes a value a copy of another one, unless it is the same."""
        if result == source:
            return
        t, n = self.sizes[source]
        place = self.allocate(result, t, n)
        self.lines.append(self.copy(place, self.values[source], f"{n} * {t.itemsize}"))
