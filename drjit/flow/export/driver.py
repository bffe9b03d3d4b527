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

from ...jit.cpu import primitives
from ...jit.cpu.kernel import text_of
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from ...jit.ir.location import describe
from ...jit.ir.op import ignored, starting_value
from ...jit.run.freeze import Literal, RecordedLaunch, Recording, ValueNumber
from ...jit.target.simd.translate import WORDS_IN_REGISTERS
from ..freeze.recordings import SizedNumber
from .interface import CannotExport

OTHER_SIZES = 2  # the result of a recording that is none for some sizes
_ON_GPU = "kernels that have been recorded on a GPU"
_SPACE = 512  # bytes behind each array, for a packet
# Statements that access a lane's own entry, and those that access nothing but single entries.
_BY_LANE = frozenset(("load", "store"))
_EXACT = frozenset(
    ("broadcast", "gather", "scatter", "scatter_inc", "scatter_exch", "scatter_cas", "reduce")
)
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


def pattern(t: DType, value: Any) -> int:
    """Returns a number, repeated to fill a word."""
    data = struct.pack("<" + dt.FORMATS[t.element], value) * (8 // t.itemsize)
    return int.from_bytes(data, "little", signed=True)


class Module:
    """The kernels, constants and messages of an object file. A kernel has a number for its text and
    its tails."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, tuple[tuple[int, int], ...]], str] = {}
        self.constants: dict[bytes, str] = {}
        self.messages: list[str] = []

    def kernel(self, text: str, tails: dict[int, int] | None = None) -> str:
        key = text.replace("    stream(", "    store("), tuple((tails or {}).items())
        return self.kernels.setdefault(key, f"kernel{len(self.kernels)}")

    def constant(self, data: bytes) -> str:
        return self.constants.setdefault(data, f"constant{len(self.constants)}")

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
        return f'call("i64(i64, i64)", external("number_{t.code}"), {n}, {int(value.inverse)})'

    # ---- Memory

    def room(self, nbytes: str) -> tuple[str, str]:
        """Returns memory, as a size and the name of its address."""
        nbytes = self.planned(nbytes)
        free = self._free.setdefault(nbytes, [])
        if free:
            return nbytes, free.pop()
        place = self.name("m")
        self.plans += [f"{place} = total", f"total = total + rounded_up({nbytes} + {_SPACE}, 64)"]
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
        return f'call("i64(i64, i64, i64)", external("copy"), {to}, {source}, {nbytes})'

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
            'memory = call("i64(i64)", external("allocate"), total)',
            "if memory == 0:",
            "    return 1",
            "base = (memory + 63) // 64 * 64",
            "record = room(6)",
            *[f"put(record + {8 * k}, 0)" for k in range(6)],
            "result = 0",
            "while 1:",
            *["    " + line for line in (*self.lines, *self.endings, "break")],
            'call("i64(i64)", external("release"), memory)',
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
                for word, value in self._words(step):
                    if not used.get(word, set()) <= _BY_LANE | _EXACT | {"stream"}:
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
        self._run(text, 1, n, [value, address, word], tails={2: 3})
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
            if self.values[value].startswith("x") and used.get(word, set()) & {
                "load", "store", "stream",
            }:  # fmt: skip
                t, _ = self.sizes[value]
                before, behind, other = self._tail(t, n, self.values[value], value not in made)
                self.lines += before
                after += behind
                words.append(other)
                tails[word] = len(words)
        loops = k.loops
        self._run(
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

    def _run(
        self, text: str, cost: int, n: str, words: list[str], block: str = "", copies: str = "",
        tails: dict[int, int] | None = None, work: str = "",
    ) -> None:  # fmt: skip
        """Launches a kernel with the words of its parameter block after the first one. `cost` is
        that of a lane, or `work` that of the launch."""
        work = work or f"{n} * {cost}"
        block = block or f"block_for({work}, {n}, threads)"
        name, p = self.module.kernel(text, tails), self.name("p")
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
        write = _OPERATIONS.get(name)
        if write is None or step.sizes is not None:
            raise CannotExport(_TITLES.get(name, f"the operation {name}"))
        if step.device is not None and not step.device.on_host:
            raise CannotExport(_ON_GPU)
        write(self, step.arguments, step.results)

    def _alias(self, result: int, source: int) -> None:
        t, n = self.sizes[source]
        place = self.allocate(result, t, n)
        self.lines.append(self.copy(place, self.values[source], f"{n} * {t.itemsize}"))

    def allocated(self, given: Any, results: Any) -> None:
        size, t, _ = given
        self.allocate(results[0], t, self.number(size))

    def duplicate(self, given: Any, results: Any) -> None:
        self._alias(results[0], given[0])

    def check_bound(self, given: Any, results: Any) -> None:
        source, bound = given
        t, n = self.sizes[source]
        largest = self.scratch("8")
        partial = self.scratch(f"8 * (({n} + 63) // 64)")
        text = text_of(
            f"x0 = load({t.code}, p[1], i)", f"reduce({t.code}, 'max', p[2], p[3], i, x0)"
        )
        self.lines.append(f"put({largest}, 0)")
        self._run(text, 2, n, [self.values[source], partial, largest])
        text = f"{self.f.name}: more is needed than in the recording (memory for a loop, say)"
        self.lines += [f"if word({largest}) > {self.number(bound)}:"]
        self.lines += [f"    result = {self.module.message(text)}", "    break"]

    def prefix(self, given: Any, results: Any) -> None:
        reduce, source, exclusive, run = given
        t, n = self.sizes[source]
        run = self.number(run) if run else "0"
        if run == "1" or n == "1":
            raise CannotExport("prefix reductions of single entries")
        result = self.allocate(results[0], t, n)
        names = {"t": t.code, "op": reduce, "inclusive": not exclusive}
        x = self.values[source]
        if run not in ("0", n):
            block = self.planned(f"lanes_of_block({n}, {_multiple(run)}, threads)")
            scan = primitives._SCAN_BLOCKS.format(**names)
            self._run(scan, 8, n, [x, run, result], block=block)
            return
        block = self.planned(f"lanes_of_block({n}, 64, threads)")
        count = self.planned(f"({n} + {block} - 1) // {block}")
        totals = self.scratch(f"8 * {count}")
        start = pattern(t.accumulator, starting_value(reduce, t.accumulator))
        kept, self.lines = self.lines, []
        self._run(primitives._TOTALS.format(**names), 3, n, [x, totals], block=block)
        inner, self.lines = self.lines, kept
        self.lines += [f"if {count} == 1:", f"    put({totals}, {start})", "else:"]
        self.lines += ["    " + line for line in inner]
        self._run(primitives._SCAN.format(**names), 8, n, [x, totals, result], block=block)

    def block_reduce(self, given: Any, results: Any) -> None:
        reduce, source, run, count = given
        t, n = self.sizes[source]
        run, count = self.number(run), self.number(count)
        if run == "1" or n == "0":
            self._alias(results[0], source)
            return
        self.late_checks += [f"if {count} * {run} != {n}:", f"    return {OTHER_SIZES}"]
        result = self.allocate(results[0], t, count)
        divided = not (t is dt.f16 and reduce in ("add", "mul"))
        k = self.planned(f"pieces({run}, {n}, threads)" if divided else "1 + 0")
        part = self.planned(f"{run} // {k}")
        parts = self.scratch(f"{n} // {part} * {t.itemsize}")
        text = primitives._BLOCK_REDUCE.format(t=t.code, op=reduce)
        for test, source_at, size, of, to in (
            (f"if {k} > 1:", self.values[source], n, part, parts),
            ("", f"choose({k} > 1, {parts}, {self.values[source]})",
             f"choose({k} > 1, {n} // {part}, {n})", f"choose({k} > 1, {k}, {run})", result),
        ):  # fmt: skip
            size, of = self.planned(size), self.planned(of)
            lanes = self.planned(f"{size} // {of}")
            kept, self.lines = self.lines, []
            self._run(text, 0, lanes, [source_at, of, to], work=f"{lanes} * max(64, 2 * {of})")
            inner, self.lines = self.lines, kept
            self.lines += [test, *["    " + line for line in inner]] if test else inner

    def reduce_rows(self, given: Any, results: Any) -> None:
        reduce, source, rows, columns = given
        t, n = self.sizes[source]
        rows, columns = self.number(rows), self.number(columns)
        if rows == "1":
            self._alias(results[0], source)
            return
        matrices = self.planned(f"{n} // ({rows} * {columns})")
        a, table = t.accumulator, self.name("t")
        self.plans.append(f"{table} = room(7)")
        tasks = self.planned(
            f"row_plan({table}, {matrices}, {rows}, {columns}, threads, {a.itemsize})"
        )
        result = self.allocate(results[0], t, self.planned(f"{matrices} * {columns}"))
        scratch = self.scratch(f"2 * threads * word({table} + 40) * {a.itemsize}")
        partial = self.scratch(f"{matrices} * word({table} + 32) * {columns} * {a.itemsize}")
        text = primitives._REDUCE_ROWS.format(t=t.code, op=reduce)
        words = [self.values[source], result, table, scratch, partial]
        self._run(text, 1, tasks, words, block="1", work=f"max({n} // 4, {tasks})")

    def sort(self, given: Any, results: Any) -> None:
        key, payload, digits = given
        t, n = self.sizes[key]
        least = primitives._SORTED_BLOCK
        blocks = self.planned(f"min(2 * threads, ({n} + {least - 1}) // {least})")
        block = self.planned(f"rounded_up({n}, {blocks} * 64) // {blocks}")
        entries = self.planned(f"({n} + {block} - 1) // {block} * {primitives._ENTRIES * 4}")
        table = self.scratch(entries)
        columns = [self.values[key]] + ([] if payload is None else [self.values[payload]])
        passes = [*primitives._passes(t, payload is not None, digits)]
        for k, (text, of, shift, kinds) in enumerate(passes):
            self.lines.append(f"fill({table}, {entries}, 0)")
            counted = [columns[0], table, str(shift)]
            self._run(primitives._COUNT.format(t=of.code), 8, n, counted, block=block)
            if k == len(passes) - 1:
                moved = [self.allocate(results[0], kinds[0], n)]
            else:
                moved = [self.scratch(f"{n} * {r.itemsize}") for r in kinds]
            words = [*counted, moved[0]]
            if "p[5]" in text:
                words += [columns[1], *moved[1:]]
            self._run(text.format(t=of.code), 16, n, words, block=block)
            columns = moved

    def matmul(self, given: Any, results: Any) -> None:
        left, right, layout = given
        (m, n, k), (t, _) = layout.sizes, self.sizes[left]
        if n == 1 and m > 1:
            self.matmul((right, left, layout.flipped()), results)
            return
        if m * n * k * len(layout.offsets) == 0:
            raise CannotExport("products of empty matrices")
        at, bt = layout.transposed
        a, count = t.accumulator, len(layout.offsets)
        column = primitives._DEPTH_PACKED if at or t is not a else primitives._DEPTH
        depth = column // a.itemsize
        text = primitives._MATMUL.format(
            t=t.code, rows=1 if m == 1 else 4 if m <= 4 else 8, depth=depth, at=at, bt=bt,
            columns=8 if n <= 8 else 16 if n <= 16 else 64,
        )  # fmt: skip
        table, plan = self.name("t"), self.name("t")
        _, widest = primitives._largest_tile(column)
        self.plans += [
            f"{table} = room({8 + 2 * count})",
            f"{plan} = tile_plan({table}, {m}, {n}, {k}, {count}, threads, {depth}, {widest})",
        ]
        offsets = self.module.constant(layout.offsets.astype("<i8").tobytes())
        self.lines.append(self.copy(f"{table} + 64", f'external("{offsets}")', str(16 * count)))
        scratch = self.scratch(f"threads * word({table} + 56) * {a.itemsize}")
        result = self.allocate(results[0], t, str(m * n * count))
        words = [self.values[left], self.values[right], result, table, scratch]
        cost = f"max(word({table} + 24) * word({table} + 32) * {k} // 8, 1)"
        self._run(text, 1, plan, words, block="1", work=f"{plan} * {cost}")


def _multiple(run: str) -> str:
    """Returns lanes of which blocks are multiples: whole packets and whole runs."""
    if run.isdecimal():
        return str(int(run) * 64 // gcd(int(run), 64))
    return f"{run} * 64"


_OPERATIONS: dict[str, Any] = {
    "_allocated": Driver.allocated, "_duplicate": Driver.duplicate,
    "_check_bound": Driver.check_bound, "prefix": Driver.prefix,
    "_block_reduce": Driver.block_reduce, "reduce_rows": Driver.reduce_rows,
    "_sorted": Driver.sort, "matmul": Driver.matmul,
}  # fmt: skip
_TITLES = {
    "compress": "dr.compress(), whose result has a size that depends on the contents of an array"
}
