"""Numbers, vectors and addresses of code under construction, with Python's operators: statements
with loops of their own are ordinary Python functions of these.

Such a function takes a `Code`, which makes its constants, loops and branches. With this one, it is
traced: the body of a loop runs once, and its operations become LLVM IR. With that of `stepping`,
the same function runs on NumPy, where one can step through it and print every value.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partialmethod
from typing import Any, TypeAlias

from . import loops
from .atomic import combine
from .compensated_sum import add_long
from .ir import BITS, BYTES, FLOATS, MEMORY, SCALAR, SIGNED, Function, constant


class Value:
    """A number of a type or, with `lanes`, a vector of such numbers, as wide as one likes. Masks
    are bits. `//` and `%` are those of unsigned numbers, `>>` fills with zeros."""

    __slots__ = ("code", "f", "lanes", "name")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, f: Function, code: str, lanes: int, name: str):
        self.f, self.code, self.lanes, self.name = f, code, lanes, name

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return self.lanes

    def __bool__(self) -> bool:
        raise TypeError("a value of generated code is not known here: use `when` or `select`")

    @property
    def kind(self) -> str:
        """The type in IR."""
        scalar = SCALAR[self.code]
        return f"<{self.lanes} x {scalar}>" if self.lanes else scalar

    def like(self, name: str) -> "Value":
        """Returns another value of this type."""
        return Value(self.f, self.code, self.lanes, name)

    def computed(self, text: str, code: str, lanes: int, *operands: Any) -> "Value":
        """Returns the result of an instruction with these operands besides the value itself."""
        return Value(self.f, code, lanes, self.f.op(text))

    def spelled(self, x: Any) -> str:
        """Returns another operand of this type."""
        if isinstance(x, Value):
            return x.name
        number = constant(self.code, x)
        return f"splat ({SCALAR[self.code]} {number})" if self.lanes else number

    def _op(self, name: str, other: Any, code: str = "") -> "Value":
        text = f"{name} {self.kind} {self}, {self.spelled(other)}"
        return self.computed(text, code or self.code, self.lanes, other)

    def _arithmetic(self, name: str, other: Any) -> "Value":
        return self._op(f"f{name}" if self.code in FLOATS else name, other)

    def __add__(self, other: Any) -> "Value":
        return self if type(other) is int and not other else self._arithmetic("add", other)

    def __mul__(self, other: Any) -> "Value":
        if type(other) is int and other == 1:
            return self
        return self._arithmetic("mul nsw" if self.code == "i64" else "mul", other)

    __sub__ = partialmethod(_arithmetic, "sub")
    __floordiv__ = partialmethod(_op, "udiv")
    __mod__ = partialmethod(_op, "urem")
    __and__ = partialmethod(_op, "and")
    __or__ = partialmethod(_op, "or")
    __xor__ = partialmethod(_op, "xor")
    __lshift__ = partialmethod(_op, "shl")

    def __invert__(self) -> "Value":
        return self ^ (1 if self.code == "mask" else -1)

    def __rshift__(self, count: Any) -> "Value":
        if isinstance(count, Value) and self.lanes and not count.lanes:
            x = count.cast(self.code)
            count = self.like(loops.splat(self.f, SCALAR[self.code], self.lanes, x.name))
        return self._op("lshr", count)

    def _compared(self, relation: str, other: Any) -> "Value":
        if self.code in FLOATS:
            return self._op(f"fcmp o{relation}", other, "mask")
        sign = "" if relation in ("eq", "ne") else "s" if self.code in SIGNED else "u"
        return self._op(f"icmp {sign}{relation}", other, "mask")

    def __eq__(self, other: Any) -> "Value":  # type: ignore[override]
        return self._compared("eq", other)

    def __ne__(self, other: Any) -> "Value":  # type: ignore[override]
        return self._compared("ne", other)

    __lt__ = partialmethod(_compared, "lt")
    __le__ = partialmethod(_compared, "le")
    __gt__ = partialmethod(_compared, "gt")
    __ge__ = partialmethod(_compared, "ge")

    def cast(self, code: str) -> "Value":
        """Converts floats to another floating-point type, rounding if that is narrower, and
        integers to another integer type: bits that do not fit are cut off."""
        before, after = BITS[self.code], BITS[code]
        result = Value(self.f, code, self.lanes, self.name)
        if SCALAR[code] == SCALAR[self.code]:
            return result
        if self.code in FLOATS:
            how = "fpext" if before < after else "fptrunc"
        else:
            how = "trunc" if before > after else "sext" if self.code in SIGNED else "zext"
        return self.computed(f"{how} {self.kind} {self} to {result.kind}", code, self.lanes)

    def lane(self, number: int) -> "Value":
        """Returns one lane."""
        text = f"extractelement {self.kind} {self}, i32 {number}"
        return self.computed(text, self.code, 0)

    def elements(self) -> list["Value"]:
        """Returns all lanes."""
        return [self.lane(k) for k in range(self.lanes)]

    def words(self) -> list["Value"]:
        """Returns the lanes of unsigned integers of 32 bits as numbers."""
        return [x.cast("i64") for x in self.elements()]

    def bits(self, code: str, lanes: int = 0) -> "Value":
        """Returns the same bits as another type."""
        result = Value(self.f, code, lanes, self.name)
        if result.kind == self.kind:
            return result
        return self.computed(f"bitcast {self.kind} {self} to {result.kind}", code, lanes)

    def times_plus(self, factor: "Value", term: "Value") -> "Value":
        """`self * factor + term`, rounded once."""
        suffix = loops.suffix(self.code, self.lanes).removeprefix("v0")
        operands = ", ".join([f"{self.kind} {x}" for x in (self, factor, term)])
        return self.like(self.f.op(f"call {self.kind} @llvm.fma.{suffix}({operands})"))


Word: TypeAlias = Value
"""A number of 64 bits."""
Flag: TypeAlias = Value
"""A condition."""
Mask: TypeAlias = Value
"""A vector of conditions."""
Vector: TypeAlias = Value
"""A vector of elements."""


class Pointer:
    """The address of an element; `+` counts elements."""

    __slots__ = ("code", "f", "name")
    kind = "ptr"

    def __init__(self, f: Function, code: str, name: str):
        self.f, self.code, self.name = f, code, name

    def __str__(self) -> str:
        return self.name

    def like(self, name: str) -> "Pointer":
        """Returns another address of such elements."""
        return Pointer(self.f, self.code, name)

    def __add__(self, offset: object) -> "Pointer":
        return Pointer(self.f, self.code, loops.address(self.f, self.code, self.name, offset))

    def load(self, lanes: int, mask: Mask | None = None) -> Vector:
        """Loads consecutive elements; 0 where a mask is false."""
        name = loops.load(self.f, self.code, lanes, self.name, "" if mask is None else mask.name)
        return Vector(self.f, self.code, lanes, name)

    def splat(self, lanes: int) -> Vector:
        """Loads one element into all lanes."""
        name = loops.load_splat(self.f, self.code, lanes, self.name)
        return Vector(self.f, self.code, lanes, name)

    def word(self) -> Word:
        """Loads a 64-bit integer."""
        return Word(self.f, "i64", 0, self.f.op(f"load i64, ptr {self}"))

    def count(self) -> Word:
        """Loads a counter of 32 bits."""
        return Word(self.f, "u32", 0, self.f.op(f"load i32, ptr {self}")).cast("i64")

    def set_count(self, number: Word) -> None:
        """Stores a counter of 32 bits."""
        self.f.do(f"store i32 {number.cast('u32')}, ptr {self}")

    def counted(self) -> Word:
        """Increments a counter of 32 bits; returns what it was before."""
        before = Word(self.f, "u32", 0, self.f.op(f"load i32, ptr {self}"))
        self.f.do(f"store i32 {before + 1}, ptr {self}")
        return before.cast("i64")

    def store_lane(self, x: Vector, lane: int) -> None:
        """Stores one lane of a vector."""
        self.f.do(f"store {MEMORY[self.code]} {x.lane(lane)}, ptr {self}")

    def store(self, x: Vector, mask: Mask | None = None) -> None:
        """Stores consecutive elements, where a mask is true."""
        loops.store(
            self.f, self.code, x.lanes, x.name, self.name, "" if mask is None else mask.name
        )

    def prefetch(self, how: str) -> None:
        """Fetches the cache line ahead of its use."""
        self.f.do(f"call void @llvm.prefetch.p0(ptr {self}, {how}, i32 1)")


Carried = Any  # a value or pointer


class Code:
    """Makes constants, loops and branches in a function under construction."""

    def __init__(self, f: Function):
        self.f, self.machine = f, f.machine

    def task(self) -> Word:
        """Returns the number of the task: that of the packet's first lane."""
        return self.word("%i")

    def thread(self) -> Word:
        """Returns the number of the thread that runs the code."""
        return self.word("%thread")

    def pointer(self, code: str, name: str) -> Pointer:
        return Pointer(self.f, code, name)

    def numbers(self, name: str, table: str, names: Sequence[str]) -> dict[str, Word]:
        """Returns the first numbers of a table; `name` distinguishes it from others."""
        f, found = self.f, {}
        for position, entry in enumerate(names):
            place = f.once(f"%{name}.{entry}.p", f"getelementptr i64, ptr {table}, i64 {position}")
            found[entry] = self.word(f.once(f"%{name}.{entry}", f"load i64, ptr {place}"))
        return found

    def width(self, code: str) -> int:
        """Returns the number of elements of a type in one register."""
        return self.machine.register_bytes // BYTES[code]

    def least(self, x: Value, y: Any) -> Value:
        """Returns the smaller of two integers."""
        how = f"{'s' if x.code in SIGNED else 'u'}min.{x.kind}"
        text = f"call {x.kind} @llvm.{how}({x.kind} {x}, {x.kind} {x.spelled(y)})"
        return x.computed(text, x.code, 0, y)

    def zeros(self, code: str, lanes: int) -> Vector:
        return Vector(self.f, code, lanes, "zeroinitializer")

    def full(self, code: str, lanes: int, number: float) -> Vector:
        """Returns a number in all lanes."""
        return Vector(self.f, code, lanes, f"splat ({SCALAR[code]} {constant(code, number)})")

    def word(self, number: object) -> Word:
        return Word(self.f, "i64", 0, str(number))

    def lane_numbers(self, lanes: int) -> Vector:
        """Returns 0, 1, 2, ..."""
        return Vector(self.f, "u32", lanes, f"<{', '.join([f'i32 {k}' for k in range(lanes)])}>")

    def select(self, mask: Value, x: Any, y: Any) -> Any:
        """Returns one of two numbers of 64 bits or other values, or their lanes."""
        like = next((v for v in (x, y) if not isinstance(v, int)), self.word(0))
        x, y = (v if isinstance(v, Pointer) else like.spelled(v) for v in (x, y))
        return like.like(self.f.op(f"select {mask.kind} {mask}, {like.kind} {x}, {like.kind} {y}"))

    def shifted(self, x: Any, by: int, fill: Any = None) -> Any:
        """Moves lanes up: lane `k` gets what lane `k - by` had. The first lanes get the last ones
        of `fill`, or values that nothing uses."""
        places = range(x.lanes - by, 2 * x.lanes - by)
        first = "poison" if fill is None else fill.name
        return x.like(self.f.shuffle(x.kind, first, x.name, places))

    def last_everywhere(self, x: Any) -> Any:
        """Returns the last lane in all lanes."""
        return x.like(self.f.shuffle(x.kind, x.name, "poison", [x.lanes - 1] * x.lanes))

    def part(self, x: Any, first: int, lanes: int) -> Any:
        """Returns some lanes of a vector or mask."""
        if lanes == x.lanes:
            return x
        name = self.f.shuffle(x.kind, x.name, "poison", range(first, first + lanes))
        return Value(self.f, x.code, lanes, name)

    def chosen(self, x: Vector, mask: Mask) -> tuple[Vector, Word]:
        """Returns the lanes of 32-bit integers where a mask is true, moved together at the
        beginning, and their number."""
        f, n = self.f, x.lanes
        operands = f"{x.kind} {x}, {mask.kind} {mask}, {x.kind} poison"
        name = f.op(f"call {x.kind} @llvm.experimental.vector.compress.v{n}i32({operands})")
        return x.like(name), self._number_of_bits(f.op(f"bitcast {mask.kind} {mask} to i{n}"), n)

    def counted(self, x: Vector, mask: Mask, table: Pointer) -> tuple[Vector, Word]:
        """The same for lanes that count up, by means of a table with a row of positions for every
        mask."""
        f, n = self.f, x.lanes
        bits = f.op(f"bitcast {mask.kind} {mask} to i{n}")
        row = f.op(f"mul i64 {f.op(f'zext i{n} {bits} to i64')}, {n}")
        places = f.op(f"zext <{n} x i8> {(table + row).load(n)} to {x.kind}")
        base = loops.splat(f, "i32", n, f.op(f"extractelement {x.kind} {x}, i32 0"))
        return x.like(f.op(f"add {x.kind} {places}, {base}")), self._number_of_bits(bits, n)

    def _number_of_bits(self, bits: str, n: int) -> Word:
        count = self.f.op(f"call i{n} @llvm.ctpop.i{n}(i{n} {bits})")
        return self.word(self.f.op(f"zext i{n} {count} to i64"))

    def below(self, count: Word, lanes: int) -> Mask:
        """Returns the lanes whose number is below a count, which may be negative or large."""
        limit = self.least(count, lanes).cast("i32")
        splat = loops.splat(self.f, "i32", lanes, limit.name)
        return self.lane_numbers(lanes).bits("i32", lanes) < Vector(self.f, "i32", lanes, splat)

    def everywhere(self, flag: Flag, lanes: int) -> Mask:
        """Returns a condition in all lanes."""
        return Mask(self.f, "mask", lanes, loops.splat(self.f, "i1", lanes, flag.name))

    def first(self, count: int, lanes: int) -> Mask | None:
        """Returns the mask of the first lanes, or none if these are all."""
        if count == lanes:
            return None
        lane = [f"i1 {str(k < count).lower()}" for k in range(lanes)]
        return Mask(self.f, "mask", lanes, f"<{', '.join(lane)}>")

    def lane_masks(self, bits: str, lanes: int) -> list[Mask]:
        """Returns the lanes of a packet, given as bits, as masks of `lanes` lanes each."""
        f, kind = self.f, self.f.vector["mask"]
        whole = f.op(f"bitcast i{f.lanes} {bits} to {kind}")
        firsts = range(0, f.lanes, lanes)
        parts = [f.shuffle(kind, whole, "poison", range(k, k + lanes)) for k in firsts]
        return [Mask(f, "mask", lanes, part) for part in parts]

    def some_inactive(self, bits: str) -> Flag:
        """Returns whether not all lanes of a packet, given as bits, are active."""
        return Flag(self.f, "mask", 0, self.f.op(f"icmp ne i{self.f.lanes} {bits}, -1"))

    def room(self, name: str, code: str, count: int) -> Pointer:
        """Returns memory on the stack for some elements."""
        text = f"alloca [{count} x {MEMORY[code]}], align 64"
        return Pointer(self.f, code, self.f.once(f"%{name}", text))

    def combine(self, op: str, x: Any, y: Any) -> Any:
        """Combines two partial results of a reduction, vectors or masks."""
        return x.like(combine(self.f, op, x.code, x.name, y.name, x.kind))

    def total(self, op: str, before: Sequence[Any], x: Any) -> list[Any]:
        """Returns the total of a reduction with another term. The total of a compensated sum comes
        with its rounding error."""
        if len(before) == 1:
            return [self.combine(op, x, before[0])]
        names = add_long(self.f, x.kind, [v.name for v in before], x.name)
        return [x.like(name) for name in names]

    def transposed(self, rows: Sequence[Vector]) -> list[Vector]:
        """Transposes a square of elements."""
        found, step = list(rows), 1
        while step < len(rows):
            found = [
                self.alternated(found[k & ~step], found[k | step], step, bool(k & step))
                for k in range(len(rows))
            ]
            step *= 2
        return found

    def alternated(self, x: Vector, y: Vector, step: int, odd: bool) -> Vector:
        """Returns the even or odd groups of `step` elements of two vectors, alternating."""
        places = []
        for k in range(x.lanes):
            source = k | step if odd else k & ~step
            places.append((x.lanes if k & step else 0) + source)
        return x.like(self.f.shuffle(x.kind, x.name, y.name, places))

    def joined(self, parts: Sequence[Vector]) -> Vector:
        """Concatenates vectors, whose number is a power of two."""
        code, lanes = parts[0].code, parts[0].lanes
        name = loops.concatenated(self.f, MEMORY[code], lanes, [x.name for x in parts])
        return Vector(self.f, code, lanes * len(parts), name)

    def totals(self, rows: Sequence[Vector]) -> Vector:
        """Returns a vector of the sums of the lanes of each vector."""
        f, code, lanes = self.f, rows[0].code, rows[0].lanes
        scalar, kind = SCALAR[code], loops.vector(code, len(rows))
        reduction = f"call reassoc {scalar} @llvm.vector.reduce.fadd.{loops.suffix(code, lanes)}"
        result = "poison"
        for number, x in enumerate(rows):
            total = f.op(f"{reduction}({scalar} -0.0, {x.kind} {x})")
            result = f.op(f"insertelement {kind} {result}, {scalar} {total}, i32 {number}")
        return Vector(f, code, len(rows), result)

    def range(
        self, start: object, end: object, step: object = 1, carried: list[Carried] | None = None
    ) -> Iterator[Word]:
        """Loops over `start, start + step, ...` below `end`. The body replaces entries of the list
        `carried` by values for the next iteration; afterwards, the list has the last ones."""
        values = [] if carried is None else carried
        before = [(x.kind, x.name) for x in values]
        with loops.loop(self.f, start, end, step, before) as (position, names):
            values[:] = [x.like(name) for x, name in zip(values, names, strict=True)]
            yield self.word(position)
            names[:] = [x.name for x in values]
        values[:] = [x.like(name) for x, name in zip(values, names, strict=True)]

    def when(self, flag: Flag, carried: list[Carried] | None = None) -> Iterator[None]:
        """Runs a body if a condition is true: `for _ in code.when(flag)`. `carried` is like that of
        `range`."""
        values = [] if carried is None else carried
        with loops.when(self.f, flag.name, [(x.kind, x.name) for x in values]) as names:
            yield
            names[:] = [x.name for x in values]
        values[:] = [x.like(name) for x, name in zip(values, names, strict=True)]

    def choose(
        self,
        flag: Flag,
        yes: Callable[[], Sequence[Vector] | None],
        no: Callable[[], Sequence[Vector] | None],
    ) -> list[Vector]:
        """Runs one of two functions, and returns its results, which have the same types."""
        found: list[Vector] = []
        kinds: list[str] = []

        def names(piece: Callable[[], Sequence[Vector] | None]) -> list[str]:
            found[:] = piece() or ()
            kinds[:] = [x.kind for x in found]
            return [x.name for x in found]

        chosen = loops.choose(self.f, flag.name, lambda: names(yes), lambda: names(no), kinds)
        return [x.like(name) for x, name in zip(found, chosen, strict=True)]
