"""Numbers, vectors and addresses of code under construction, with Python's operators: statements
with loops of their own are ordinary Python functions of these.

Such a function takes a `Code`, which makes its constants, loops and branches. With this one, it is
traced: the body of a loop runs once, and its operations become LLVM IR. With that of `stepping`,
the same function runs on NumPy, where one can step through it and print every value.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import loops
from .atomic import combine
from .compensated_sum import add_long
from .ir import MEMORY, SCALAR, Function, constant


class Word:
    """A 64-bit integer. `//` and `%` are those of unsigned numbers."""

    __slots__ = ("f", "name")

    def __init__(self, f: Function, name: str):
        self.f, self.name = f, name

    def __str__(self) -> str:
        return self.name

    def _op(self, name: str, other: object) -> "Word":
        return Word(self.f, self.f.op(f"{name} i64 {self}, {other}"))

    def __add__(self, other: object) -> "Word":
        return self._op("add", other)

    def __sub__(self, other: object) -> "Word":
        return self._op("sub", other)

    def __mul__(self, other: object) -> "Word":
        return self if other == 1 else self._op("mul nsw", other)

    def __floordiv__(self, other: object) -> "Word":
        return self._op("udiv", other)

    def __mod__(self, other: object) -> "Word":
        return self._op("urem", other)

    def __gt__(self, other: object) -> "Flag":
        return Flag(self.f, self.f.op(f"icmp sgt i64 {self}, {other}"))

    def __ge__(self, other: object) -> "Flag":
        return Flag(self.f, self.f.op(f"icmp sge i64 {self}, {other}"))


class Flag:
    """A condition."""

    __slots__ = ("f", "name")

    def __init__(self, f: Function, name: str):
        self.f, self.name = f, name

    def __str__(self) -> str:
        return self.name

    def __and__(self, other: "Flag") -> "Flag":
        return Flag(self.f, self.f.op(f"and i1 {self}, {other}"))


class Mask:
    """A vector of conditions."""

    __slots__ = ("f", "lanes", "name")

    def __init__(self, f: Function, lanes: int, name: str):
        self.f, self.lanes, self.name = f, lanes, name

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return self.lanes

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(self.f, self.lanes, self.f.op(f"and <{self.lanes} x i1> {self}, {other}"))


class Vector:
    """A vector of elements in their memory representation, as wide as one likes."""

    __slots__ = ("code", "f", "lanes", "name")

    def __init__(self, f: Function, code: str, lanes: int, name: str):
        self.f, self.code, self.lanes, self.name = f, code, lanes, name

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        """The type in IR."""
        return loops.vector(self.code, self.lanes)

    def like(self, name: str) -> "Vector":
        """Returns another vector of this type."""
        return Vector(self.f, self.code, self.lanes, name)

    def __add__(self, other: "Vector") -> "Vector":
        """The sum of two vectors of floats."""
        return self.like(self.f.op(f"fadd {self.kind} {self}, {other}"))

    def cast(self, code: str) -> "Vector":
        """Converts floats to another type, rounding if that is narrower."""
        name = loops.cast(self.f, self.lanes, self.name, self.code, code)
        return Vector(self.f, code, self.lanes, name)

    def times_plus(self, factor: "Vector", term: "Vector") -> "Vector":
        """`self * factor + term`, rounded once."""
        operands = self.name, factor.name, term.name
        return self.like(loops.fma(self.f, self.code, self.lanes, *operands))


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
        return Word(self.f, self.f.op(f"load i64, ptr {self}"))

    def store(self, x: Vector, mask: Mask | None = None) -> None:
        """Stores consecutive elements, where a mask is true."""
        loops.store(
            self.f, self.code, x.lanes, x.name, self.name, "" if mask is None else mask.name
        )

    def prefetch(self, how: str) -> None:
        """Fetches the cache line ahead of its use."""
        self.f.do(f"call void @llvm.prefetch.p0(ptr {self}, {how}, i32 1)")


Value = Any  # a word, flag, mask, vector or pointer


class Code:
    """Makes constants, loops and branches in a function under construction."""

    def __init__(self, f: Function):
        self.f, self.machine = f, f.machine

    def task(self) -> Word:
        """Returns the number of the task: that of the packet's first lane."""
        return Word(self.f, "%i")

    def thread(self) -> Word:
        """Returns the number of the thread that runs the code."""
        return Word(self.f, "%thread")

    def pointer(self, code: str, name: str) -> Pointer:
        return Pointer(self.f, code, name)

    def numbers(self, name: str, table: str, names: Sequence[str]) -> dict[str, Word]:
        """Returns the first numbers of a table; `name` distinguishes it from others."""
        found = loops.numbers(self.f, name, table, names)
        return {entry: Word(self.f, word) for entry, word in found.items()}

    def width(self, code: str) -> int:
        """Returns the number of elements of a type in one register."""
        return loops.width(self.f, code)

    def least(self, x: Word, y: object) -> Word:
        """Returns the smaller of two numbers."""
        return Word(self.f, loops.least(self.f, x.name, y))

    def equal(self, x: Word, y: object) -> Flag:
        return Flag(self.f, self.f.op(f"icmp eq i64 {x}, {y}"))

    def differ(self, x: Word, y: object) -> Flag:
        return Flag(self.f, self.f.op(f"icmp ne i64 {x}, {y}"))

    def pick(self, flag: Flag, x: object, y: object) -> Word:
        """Returns one of two numbers."""
        return Word(self.f, self.f.op(f"select i1 {flag}, i64 {x}, i64 {y}"))

    def zeros(self, code: str, lanes: int) -> Vector:
        return Vector(self.f, code, lanes, "zeroinitializer")

    def full(self, code: str, lanes: int, number: float) -> Vector:
        """Returns a number in all lanes."""
        return Vector(self.f, code, lanes, f"splat ({SCALAR[code]} {constant(code, number)})")

    def below(self, count: Word, lanes: int) -> Mask:
        """Returns the lanes whose number is below a count, which may be negative or large."""
        return Mask(self.f, lanes, loops.below(self.f, count.name, lanes))

    def everywhere(self, flag: Flag, lanes: int) -> Mask:
        """Returns a condition in all lanes."""
        return Mask(self.f, lanes, loops.splat(self.f, "i1", lanes, flag.name))

    def first(self, count: int, lanes: int) -> Mask | None:
        """Returns the mask of the first lanes, or none if these are all."""
        if count == lanes:
            return None
        lane = [f"i1 {str(k < count).lower()}" for k in range(lanes)]
        return Mask(self.f, lanes, f"<{', '.join(lane)}>")

    def lane_masks(self, bits: str, lanes: int) -> list[Mask]:
        """Returns the lanes of a packet, given as bits, as masks of so many lanes each."""
        f, kind = self.f, self.f.vector["mask"]
        whole = f.op(f"bitcast i{f.lanes} {bits} to {kind}")
        firsts = range(0, f.lanes, lanes)
        parts = [f.shuffle(kind, whole, "poison", range(k, k + lanes)) for k in firsts]
        return [Mask(f, lanes, part) for part in parts]

    def some_inactive(self, bits: str) -> Flag:
        """Returns whether not all lanes of a packet, given as bits, are active."""
        return Flag(self.f, self.f.op(f"icmp ne i{self.f.lanes} {bits}, -1"))

    def room(self, name: str, code: str, count: int) -> Pointer:
        """Returns memory on the stack for some elements."""
        text = f"alloca [{count} x {MEMORY[code]}], align 64"
        return Pointer(self.f, code, self.f.once(f"%{name}", text))

    def combine(self, op: str, x: Vector, y: Vector) -> Vector:
        """Combines two partial results of a reduction."""
        return x.like(combine(self.f, op, x.code, x.name, y.name, x.kind))

    def add_long(self, before: Sequence[Vector], x: Vector) -> list[Vector]:
        """Adds a term to a compensated sum and its rounding error."""
        names = add_long(self.f, x.kind, [v.name for v in before], x.name)
        return [x.like(name) for name in names]

    def transposed(self, rows: Sequence[Vector]) -> list[Vector]:
        """Transposes a square of elements."""
        names = loops.transposed(self.f, rows[0].kind, [x.name for x in rows])
        return [rows[0].like(name) for name in names]

    def alternated(self, x: Vector, y: Vector, step: int, odd: bool) -> Vector:
        """Returns the even or odd groups of `step` elements of two vectors, alternating."""
        return x.like(loops.alternated(self.f, x.kind, x.lanes, x.name, y.name, step, odd))

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
        self, start: object, end: object, step: object = 1, carried: list[Value] | None = None
    ) -> Iterator[Word]:
        """Loops over `start, start + step, ...` below `end`. The body replaces entries of the list
        `carried` by values for the next iteration; afterwards, it has the last ones."""
        kept = [] if carried is None else carried
        before = [(x.kind, x.name) for x in kept]
        with loops.loop(self.f, start, end, step, before) as (position, names):
            kept[:] = [x.like(name) for x, name in zip(kept, names, strict=True)]
            yield Word(self.f, position)
            names[:] = [x.name for x in kept]
        kept[:] = [x.like(name) for x, name in zip(kept, names, strict=True)]

    def when(self, flag: Flag, carried: list[Value] | None = None) -> Iterator[None]:
        """Runs a body if a condition is true: `for _ in code.when(flag)`. `carried` is like that of
        `range`."""
        kept = [] if carried is None else carried
        with loops.when(self.f, flag.name, [(x.kind, x.name) for x in kept]) as names:
            yield
            names[:] = [x.name for x in kept]
        kept[:] = [x.like(name) for x, name in zip(kept, names, strict=True)]

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
