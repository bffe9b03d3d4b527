"""A recording as a function of native code (`jit/native/language.py`): it checks sizes, allocates
memory for all intermediate values at once, launches kernels, and copies what belongs elsewhere.

Kernels read and write whole packets, but arrays of C end where they end. Where a kernel accesses an
array lane by lane, the packet beyond the last lane uses a copy of the last entries (`tails` of
`simd.kernel.module_text`). Arrays that it accesses in another way, as products of matrices do, are
copied as a whole.
"""

import re
from typing import Any

from ...jit.cpu.kernel import text_of
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from ...jit.ir.location import describe
from ...jit.ir.node import LITERAL
from ...jit.ir.op import ignored
from ...jit.lazy import np
from ...jit.run.freeze import Literal, RecordedLaunch, ValueNumber, unused_values
from ...jit.run.launch import to_numpy
from ...jit.target.simd.translate import WORDS_IN_REGISTERS
from ..freeze.recordings import GeneralRecording, SizedNumber
from . import operations
from .file import fraction, short, traced_kernel
from .interface import CannotExport, Outcome
from .operations import OTHER_SIZES, bits, pattern, returned_if, under

SPACE = 512  # bytes behind each array, for a packet
# Statements that access a lane's own entry, and those that access nothing but single entries.
_BY_LANE = frozenset(("load", "store"))
_EXACT = frozenset(
    ("broadcast", "gather", "scatter", "scatter_inc", "scatter_exch", "scatter_cas", "reduce")
)
_KNOWN = _BY_LANE | _EXACT
_CALL, _WORD = re.compile(r"(\w+)\("), re.compile(r"p\[(\d+)\]")


def accesses(step: RecordedLaunch) -> list[tuple[int, int, set[str]]]:
    """Returns the words of a launch's parameter block that are addresses of values, these, and the
    statements in which the kernel's text uses them; those of a text that has functions, or many
    words, are not known."""
    code = traced_kernel(step.kernel)
    unknown = code.text.count("def ") > 1 or code.text.count("p[") > WORDS_IN_REGISTERS
    found: dict[int, set[str]] = {}
    for line in code.text.split("\n"):
        for word in _WORD.findall(line):
            name: Any = _CALL.search(line)
            found.setdefault(int(word), set()).add("?" if unknown else name[1])
    return [(word, value, found.get(word, set())) for word, value in code.values(step).items()]


class Module:
    """The kernels, constants and messages of an object file. A kernel has a number for its
    text, its tails, and whether products and sums may be fused."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, tuple[tuple[int, int], ...], bool], str] = {}
        self.constants: dict[bytes, str] = {}
        self.messages: dict[str, int] = {}

    def kernel(self, text: str, tails: dict[int, int], contract: bool) -> str:
        key = text.replace("    stream(", "    store("), tuple(tails.items()), contract
        return self.kernels.setdefault(key, f"kernel.{len(self.kernels)}")

    def constant(self, data: bytes) -> str:
        return self.constants.setdefault(data, f"constant.{len(self.constants)}")

    def message(self, text: str) -> int:
        """Returns the number of a message."""
        return self.messages.setdefault(text, OTHER_SIZES + 1 + len(self.messages))


class Driver:
    """Writes the function of a recording. `f` is the C function it belongs to (`object.Function`),
    `values` the addresses of values, as expressions, `sizes` their element types and numbers of
    entries."""

    def __init__(self, f: Any, general: GeneralRecording) -> None:
        self.f, self.module, self.general, self.recording = f, f.module, general, general.recording
        self.outcome = Outcome(f.inputs, self.recording.outcome)
        self.plans: list[str] = []  # numbers of lanes, checks of them, and where memory begins
        self.room_checks: list[str] = []  # of room for results, before anything is allocated
        self.lines: list[str] = []
        self.endings: list[str] = []
        self.values: dict[int, str] = {}
        self.sizes: dict[int, tuple[DType, str]] = {}
        self._numbers: dict[str, str] = {}
        self._count = 0
        self._free: dict[str, list[str]] = {}  # memory that is no longer in use, by its size
        self._slots: dict[int, tuple[str, str]] = {}  # of values: their size and place
        self._scratch: list[tuple[str, str]] = []
        self._direct: dict[int, str] = {}  # results that are computed where the caller wants them
        self._launches = [s for s in self.recording.steps if isinstance(s, RecordedLaunch)]
        self._made = {
            o[0]: (o[1], o[2] or step.size == 1)
            for step in self._launches for o in step.outputs if o is not None
        }  # fmt: skip
        self._kept: set[int] = {v for _, v, _ in self.outcome.rows if type(v) is ValueNumber}
        self._padded = self._whole_packets()

    @property
    def many(self) -> set[str]:
        """The names of results and changes that may have more than one entry."""
        single = {k: v.size == -2 for k, v in enumerate(self.f.inputs.values)}
        single |= {k: n.size == 1 for k, n in self.recording.constants}
        single |= {k: is_single for k, (_, is_single) in self._made.items()}
        return {
            name for name, v, _ in self.outcome.rows
            if not (v.size == 1 if isinstance(v, Literal) else single.get(v))
        }  # fmt: skip

    # ---- Names and numbers

    def name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def planned(self, expression: str) -> str:
        """Returns the name of a number that is known in advance."""
        if re.fullmatch(r"\w+", expression):
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
            product, by = fraction(p, self.f.sizes[p.which])
            if by > 1:
                self.plans += returned_if(f"({product}) // {by} * {by} != {product}")
                product = f"({product}) // {by}"
            found.append(product)
        for other in found[1:]:
            if other != found[0]:
                self.plans += returned_if(f"{other} != {found[0]}")
        return self.planned(found[0])

    def literal(self, t: DType, value: Any) -> str:
        """Returns the bits of a literal, which may depend on sizes."""
        if not isinstance(value, SizedNumber):
            return str(bits(t, value))
        if t is dt.f16:
            raise CannotExport("half-precision numbers that depend on the sizes of arrays")
        n = self.number(value)
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

    # ---- The function

    def text(self, name: str) -> str:
        """Returns the function, which returns `OTHER_SIZES` if it is none for the given sizes."""
        for which, n in self.general.fixed:
            self.plans += returned_if(f"{self.f.sizes[which]} != {n}")
        for n, length in self.general.even:
            number = self.number(n)
            self.plans += returned_if(f"{number} // {length} * {length} != {number}")
        self._inputs()
        self._constants()
        self._steps()
        self._copy_results()
        body = [
            "a: Word = given",
            "threads = min(max(word(a), 1), THREADS)",
            *self.f.reads,
            "total = 64",
            *self.plans,
            *self.room_checks,
            'memory = library("malloc", total)',
            *under("if memory == 0:", ["return 1"]),
            "base = (memory + 63) // 64 * 64",
            "record = room(6)",
            *[f"put(record + {8 * k}, 0)" for k in range(6)],
            "result = 0",
            *under("while 1:", [*self.lines, *self.endings, "break"]),
            'library("free", memory)',
            "return result",
        ]
        return "\n".join(under(f"def {name}(given):", body)) + "\n"

    def _whole_packets(self) -> set[int]:
        """Returns the values that kernels access as whole packets, without regard to where they
        end."""
        others = [s for s in self.recording.steps if not isinstance(s, RecordedLaunch)]
        found = {value for step in others for value in step.read}
        for step in self._launches:
            changed = {e[0] for e in step.effects}.intersection(step.inputs)
            for _, value, used in accesses(step):
                if value in changed or not used <= _KNOWN:
                    found.add(value)
        return found

    def _inputs(self) -> None:
        """Finds arguments where the caller has them, or in copies with space behind them."""
        own = self.f.inputs.own_values
        if any(number >= own for number in self.recording.written):
            raise CannotExport("changes of arrays that are not among its arguments")
        for number, row in enumerate(self.f.inputs.values[:own]):
            if row.is_literal:
                continue
            t, n = self.sizes[number] = row.dtype, self.f.sizes[row.size]
            address = self.values[number] = self.f.fields[row.name].address
            if number in self._padded:
                nbytes = self.planned(f"{n} * {t.itemsize}")
                _, place = self.room(nbytes)
                self.values[number] = place
                self.lines.append(f"copy({place}, {address}, {nbytes})")
                if number in self.recording.written:
                    self.endings.append(f"copy({address}, {place}, {nbytes})")

    def _constants(self) -> None:
        """Finds captured arrays and those that the recording has made once and for all."""
        read = self._kept.union(*[step.read for step in self.recording.steps])
        captured = [row for row in self.f.captured.items() if row[0] in read]
        for number, node in (*captured, *self.recording.constants):
            t = node.dtype
            if t.is_vector:
                raise CannotExport("arrays of vectors that it captures")
            if node.op is LITERAL:
                data = np.full(node.size, node.data, t.numpy)
            else:
                data = to_numpy(t, node.size, node.data)
            self.sizes[number] = t, str(node.size)
            self.values[number] = place = self.name("c")
            self.lines.append(f'{place} = external("{self.module.constant(data.tobytes())}")')

    def _steps(self) -> None:
        """Does what the recording does, and uses memory again once nothing needs it."""
        changed = {e[0] for step in self._launches for e in step.effects}
        for name, value, _ in self.outcome.results:
            t, _ = self._made.get(value, (None, False))
            if t and not t.is_vector and value not in self._padded | changed:
                self._direct.setdefault(value, self.f.fields[name].address)
        unused = unused_values(self.recording.steps, self._kept)
        for step, ended in zip(self.recording.steps, unused, strict=True):
            self._scratch = []
            device = step.kernel.device if isinstance(step, RecordedLaunch) else step.device
            if device is not None and not device.on_host:
                raise CannotExport("kernels that have been recorded on a GPU")
            if isinstance(step, RecordedLaunch):
                self._launch(step)
            else:
                self._operation(step)
            rooms = [self._slots.pop(v) for v in ended if v in self._slots]
            for nbytes, place in (*self._scratch, *rooms):
                self._free[nbytes].append(place)

    def _copy_results(self) -> None:
        """Checks the room of results, and copies what is not there yet: results, then changes of
        arguments, of which none is read once another has been made."""
        late: list[str] = []
        for k, (name, value, t) in enumerate(self.outcome.rows):
            changes = k >= len(self.outcome.results)
            n = self.number(value.size) if isinstance(value, Literal) else self.sizes[value][1]
            self.room_checks += self.f.room_for(name, n)
            address = self.f.fields[name].address
            moved = late if changes else self.endings
            if isinstance(value, Literal):
                moved += self._filled(address, t, n, self.literal(t, value.value))
            elif self._direct.get(value) != address:
                nbytes, source = self.planned(f"{n} * {t.itemsize}"), self.values[value]
                if changes and value < len(self.f.inputs.values):
                    place = self.scratch(nbytes)
                    self.endings.append(f"copy({place}, {source}, {nbytes})")
                    source = place
                moved.append(f"copy({address}, {source}, {nbytes})")
        self.endings += late

    def _filled(self, address: str, t: DType, n: str, value: str) -> list[str]:
        """Returns the lines that write a number to all entries of an array."""
        text = text_of(f"c0 = literal({t.code}, p[1])", f"store({t.code}, p[2], i, c0)")
        _, after, word = self._tail(t, n, address)
        return [*self.run(text, n, [value, address, word], f"{n} * 1", tails={2: 3}), *after]

    # ---- Launches

    def _tail(
        self, t: DType, n: str, address: str, reads: bool = False
    ) -> tuple[list[str], list[str], str]:
        """Returns the lines before and after a launch that moves the entries of the last packet
        elsewhere, and the word of the parameter block for it."""
        place, rest = self.scratch(str(64 * t.itemsize)), self.planned(f"{n} & 63")
        whole, nbytes = self.planned(f"({n} - {rest}) * {t.itemsize}"), f"{rest} * {t.itemsize}"
        there, word = f"{address} + {whole}", f"{place} - {whole}"
        if reads:  # lanes behind the last one are numbers
            filled = f"fill({place}, {64 * t.itemsize}, 0)"
            before = under(f"if {rest}:", [filled, f"copy({place}, {there}, {nbytes})"])
            return before, [], word
        return [], under(f"if {rest}:", [f"copy({there}, {place}, {nbytes})"]), word

    def _launch(self, step: RecordedLaunch) -> None:
        k: Any = step.kernel
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
        for word, value, used in accesses(step):
            if self.values[value].startswith("x") and used & _BY_LANE:
                t, _ = self.sizes[value]
                reads = value not in step.results
                before, behind, other = self._tail(t, n, self.values[value], reads)
                self.lines += before
                after += behind
                words.append(other)
                tails[word] = len(words)
        work = f"{work} * 8" if k.loops else work
        self.lines += [*self.run(k.text, n, words, work, block, copies, tails), *after]
        self._check(step)

    def _check(self, step: RecordedLaunch) -> None:
        """Ends the function with a message if an index was out of bounds."""
        found: list[str] = []
        for site, ((_, what, location, _, size, _), _) in enumerate(step.checks):
            if not isinstance(what, str):
                raise CannotExport(f"functions that raise exceptions (at {describe(location)})")
            entries = "" if isinstance(size, SizedNumber) else f" with {size} entries"
            text = f"{what}: an index is out of bounds for an array{entries} (at {short(location)})"
            number = self.f.message(text)
            found += under(f"if word(record + 8) == {site}:", [f"result = {number}"])
        if found:
            self.lines += under("if word(record) != 0:", [*found, "break"])

    def _accumulators(self, t: DType, n: str, reduce: str, copies: str) -> list[str]:
        """Returns the words of private copies of a target."""
        a = t.accumulator
        count = f"({copies} - 1)" if a is t else copies
        nbytes = self.planned(f"{count} * {n} * {a.itemsize}")
        place = self.scratch(nbytes)
        self.lines.append(f"fill({place}, {nbytes}, {pattern(a, ignored(reduce, a))})")
        return [place, n]

    def run(
        self, text: str, n: str, words: list[str], work: str, block: str = "",
        copies: str = "threads", tails: dict[int, int] | None = None,
    ) -> list[str]:  # fmt: skip
        """Returns the lines that launch a kernel with the words of its parameter block after the
        first one, and a certain amount of work, in lane-operations."""
        block = block or f"block_for({work}, {n}, threads)"
        name, p = self.module.kernel(text, tails or {}, self.f.contract), self.name("p")
        given = f"{p}, {n}, {block}, {copies}, threads, {work}"
        return [
            f"{p} = room({len(words) + 1})",
            f"put({p}, record)",
            *[f"put({p} + {8 * k}, {w})" for k, w in enumerate(words, 1)],
            f'launch(external("{name}"), external("{name}_finish"), {given})',
        ]

    # ---- Operations that launch kernels of their own

    def _operation(self, step: Any) -> None:
        name = step.function.__name__
        if name == "compress":
            raise CannotExport(
                "dr.compress(), whose result has a size that depends on the contents of an array"
            )
        operations.WRITERS[name](self, step.arguments, step.results)

    def alias(self, result: int, source: int) -> None:
        """Makes a value a copy of another one, unless it is the same."""
        if result == source:
            return
        t, n = self.sizes[source]
        place = self.allocate(result, t, n)
        self.lines.append(f"copy({place}, {self.values[source]}, {n} * {t.itemsize})")
