"""What the vectors of a kernel need, known before it is translated: where each vector is kept, the
matrices of products, the sums over lanes, and the shared memory of a block.

    dynamic shared memory of a block
    +----------+----------+--------+----------------------+----------------------+
    | matrices | biases   | sums   | rows of the threads  | rows of the threads  |
    +----------+----------+--------+----------------------+----------------------+
      read by products    outer      to exchange features; both for outer products

A matrix that does not fit is read from the memory of the GPU, and sums that do not fit are added
there.
"""

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..language import target_names
from ..simd.ir import BYTES, SCALAR
from ..simd.reduction import accumulator
from .function import EACH, THREADS, WARP

WIDEST = 128
"""Features of the largest vector that is kept in registers."""
FEW = 16
"""Features of the largest vector that is kept there although indices select some of them."""
OUTPUTS = 8
"""Features of the largest result of a product whose features are taken by each lane at once."""

STRIP = 32
"""Features that threads exchange at a time if products are sums of their own."""

OWN, FRAGMENTS = "own", "fragments"

# Threads in a block with products, if it has no sums that all of them add up together.
FEWER = 128

# Registers of a multiprocessor.
_REGISTERS = 1 << 16
# Features beyond which vectors from one product to another take most registers of a thread.
_MANY = 128
# Bytes of shared memory that are left to reductions.
_RESERVED = 2 << 10


def shared_limit(capability: tuple[int, int]) -> int:
    """Returns the bytes of shared memory that a block may have (CUDA C++ Programming Guide, table
    of technical specifications per compute capability)."""
    if capability < (7, 5):
        return 96 << 10
    if capability < (8, 0):
        return 64 << 10
    if capability in ((8, 0), (8, 7)):
        return 163 << 10
    return 227 << 10 if (9, 0) <= capability < (12, 0) else 99 << 10


class Options(NamedTuple):
    """How products of vectors are computed: for which compute capability, and whether they are
    `reduced` in precision. Then sums of halves are halves themselves, and products in single
    precision are those of tensor cores (see `tf32`). With `packets`, threads may have several
    lanes."""

    capability: tuple[int, int] = (7, 0)
    reduced: bool = False
    packets: bool = False


DEFAULT = Options()


class MatrixOperand(NamedTuple):
    """A matrix in memory: the type of vectors that it multiplies, the words with its buffer and its
    position, and its shape."""

    code: str
    buffer: int
    offset: int
    rows: int
    columns: int
    stride: int


class Bias(NamedTuple):
    """A bias in memory: the type of vectors that it is added to, the words with its buffer and its
    position, and its length."""

    code: str
    buffer: int
    offset: int
    count: int


class Sum(NamedTuple):
    """A sum of outer products: their type, the words of the target, of its accumulators, of their
    number and of the position, and the shape of the matrix."""

    code: str
    target: int
    room: int
    size: int
    offset: int
    rows: int
    columns: int
    stride: int


class Component:
    """Vectors connected by element-wise operations, which are kept in the same way."""

    def __init__(self, name: str) -> None:
        self.names = [name]
        self.count = 0
        self.bytes = 0  # of a feature
        self.indexed = self.product = self.unpacked = False

    def join(self, other: "Component") -> None:
        self.names += other.names
        self.count = max(self.count, other.count)
        self.bytes = max(self.bytes, other.bytes)
        self.indexed |= other.indexed
        self.product |= other.product
        self.unpacked |= other.unpacked

    @property
    def in_memory(self) -> bool:
        """Whether the vectors are rows of memory."""
        most = WIDEST if self.bytes < 8 else WIDEST // 2
        return self.count > most or (self.indexed and self.count > FEW)

    @property
    def form(self) -> str:
        """How registers hold the vectors where code paths meet."""
        few = self.unpacked and self.count <= OUTPUTS
        return FRAGMENTS if self.product and not few else OWN


class _Names:
    """The components of names, joined as statements connect them."""

    def __init__(self) -> None:
        self.components: dict[str, Component] = {}

    def of(self, name: str) -> Component:
        if name not in self.components:
            self.components[name] = Component(name)
        return self.components[name]

    def join(self, a: str, b: str) -> None:
        one, other = self.of(a), self.of(b)
        if one is not other:
            one.join(other)
            self.components |= dict.fromkeys(other.names, one)


class KernelPlan:
    """What a kernel needs, from the statements of its text.

    `warps` says whether it runs in whole warps, and `threads` is their number in a block.
    `others` are the bytes of shared memory that other statements need. `matrices` and `biases` are
    the operands of products, and `sums` the sums of outer products that all threads of a block add
    up together, because each thread reaches them: with where each begins in shared memory, or -1.
    A thread's row there has `row` bytes, the rows begin at `rows`, and `shared` is the size of
    everything. `wanted` are the features taken from a vector with a name.
    """

    def __init__(
        self, statements: list[ast.stmt], names: set[str], options: Options, others: int = 0
    ) -> None:
        self.options = options
        self._limit = shared_limit(options.capability) - _RESERVED - others
        self.warps = False
        self.threads = THREADS
        self.matrices: dict[MatrixOperand, int] = {}
        self.biases: dict[Bias, int] = {}
        self.sums: dict[Sum, int] = {}
        self.wanted: dict[str, set[int]] = {}
        self.last: dict[str, int] = {}  # the number of the statement that last uses a vector
        self.row = self.rows = self.shared = 0
        self._kept_features = 0  # features of the vectors that sums of outer products need again
        self._widest = 0  # features of the largest operand of a product
        self._pairs_of_rows = False  # whether each thread has two rows
        self._vectors, self._names = names, _Names()
        self._visit(statements, 0)
        self.numbers = {id(s): n for n, s in enumerate(statements)}
        for n, s in enumerate(statements):
            self.last |= {name: n for name in _used(s) if name in names}
        if self.matrices or self.row:
            self._place()

    # ------------------------------------------------------------------------------ shared memory

    def _place(self) -> None:
        """Divides the shared memory of a block."""
        most = 2 * FEWER if self.sums else FEWER
        while True:
            self.threads = most
            own = most * self.row * (2 if self._pairs_of_rows else 1)
            self.rows, fits = 0, True
            sizes: list[tuple[dict, Any, int]] = [
                *[(self.matrices, m, self._matrix_bytes(m)) for m in self.matrices],
                *[(self.biases, b, self._bias_bytes(b)) for b in self.biases],
                *[(self.sums, s, self._sum_bytes(s)) for s in self.sums],
            ]
            for found, key, size in sizes:
                found[key] = self.rows if self.rows + size + own <= self._limit else -1
                self.rows += 0 if found[key] < 0 else size
                fits &= found[key] >= 0
            self.shared = self.rows + own
            if (fits or most <= FEWER) and (own <= self._limit or most == WARP):
                break
            most //= 2
        self.sums = {s: place for s, place in self.sums.items() if place >= 0}

    def _matrix_bytes(self, m: MatrixOperand) -> int:
        by_warp = self.by_warp(m.code)
        if by_warp and m.code == "f32":
            return padded(m.rows, 8) // 2 * tf32_rows(m)[1]
        rows = padded(m.rows, 16) if by_warp else m.rows
        return padded(rows * row_stride(by_warp, m), 16)

    def _bias_bytes(self, b: Bias) -> int:
        return padded(b.count, 16) * BYTES[accumulator(b.code)]

    @property
    def each(self) -> int:
        """How many blocks a multiprocessor should get: twice those that it has room for at once,
        given how many registers kernels take. Blocks with sums, which take long to begin and to
        end, stay for all lanes."""
        waves = 1 if self.sums else 2
        return int(min(max(waves * self._room, 1), EACH))

    @property
    def _room(self) -> float:
        """How many blocks a multiprocessor has room for."""
        registers = min(40 + (3 if self.sums else 1.7) * self._widest, 255)
        return min(_REGISTERS // (registers * self.threads), self._limit // max(self.shared, 1))

    def reserve(self, size: int) -> int:
        """Returns where some more bytes of shared memory begin, or -1 if these would leave room for
        fewer blocks."""
        place = self.shared
        if place + size > self._limit // max(self._room, 1):
            return -1
        self.shared += size
        return place

    def split(self, s: Sum) -> tuple[int, int, int, int]:
        """Returns how the warps of a block share a sum: rows and columns of warps, and for each
        warp, rows of tiles of 16 and columns of tiles of 8 elements."""
        warps = self.threads // WARP
        down, across = -(-s.rows // 16), -(-s.columns // 8)
        best = (1, warps)
        for of_rows in (1, 2, 4, 8):
            of_columns = warps // of_rows
            if of_columns and of_rows <= down:
                shape = (of_rows, of_columns)
                if _work(down, across, *shape) <= _work(down, across, *best):
                    best = shape
        return best[0], best[1], -(-down // best[0]), -(-across // best[1])

    @property
    def is_crowded(self) -> bool:
        """Whether registers will be scarce."""
        return self._kept_features > _MANY

    @property
    def kept_registers(self) -> int:
        """How many registers of vectors a thread keeps from one product to another, if shared
        memory has room for the others."""
        return 56 if self._widest <= WIDEST // 2 else 88

    def _sum_bytes(self, s: Sum) -> int:
        *_, down, across = self.split(s)
        return self.threads * down * across * 16

    # ------------------------------------------------------------------------------------ vectors

    def in_memory(self, name: str) -> bool:
        """Returns whether the vector with a name is kept in memory."""
        return bool(name) and self._names.of(name).in_memory

    def form(self, name: str) -> str:
        """Returns how registers hold the vector with a name where code paths meet."""
        return self._names.of(name).form if name else FRAGMENTS

    def by_warp(self, code: str) -> bool:
        """Returns whether products of a type use instructions of the warp."""
        capability, reduced, _ = self.options
        if code == "f32":
            return reduced and capability >= (8, 0)
        return code == "f16" and capability >= (7, 5)

    # --------------------------------------------------------------------------------- statements

    def _visit(self, statements: list[ast.stmt], depth: int) -> None:
        for s in statements:
            if isinstance(s, ast.If | ast.While):
                self._visit(s.body, depth + 1)
            elif isinstance(s, ast.Assign | ast.Expr):
                names = target_names(s) if type(s) is ast.Assign else []
                with suppress(IndexError, KeyError):  # the translation says what is wrong
                    self._statement(names, s.value, depth)

    def _statement(self, names: list[str], e: ast.expr, depth: int) -> None:
        name = e.func.id if type(e) is ast.Call and type(e.func) is ast.Name else ""
        args = e.args if type(e) is ast.Call else []
        if name in ("vector", "splat", "load_vector", "broadcast_vector") and names:
            count = len(args) - 1 if name == "vector" else _integer(args[1])
            self._source(names[0], _code(args[0]), count)
        elif name == "matvec" and names:
            self._matvec(names[0], args)
        elif name == "outer":
            self._outer(args, depth)
        elif name == "accumulate":
            self._multiplied(_name(args[5]), _code(args[0]))
            self._exchanges(_code(args[0]), STRIP)
        elif name == "feature":
            v = _name(args[0])
            self.wanted.setdefault(v, set()).add(_integer(args[1]))
            self._names.of(v).unpacked = True
        elif name in ("take", "put"):
            v = self._names.of(_name(args[0]))
            v.indexed |= type(args[1]) is not ast.Constant
            if name == "put" and names:
                self._names.join(names[0], _name(args[0]))
        else:
            self._elementwise(names, name, e)

    def _elementwise(self, names: list[str], call: str, e: ast.expr) -> None:
        used = [n for n in _used(e) if n in self._vectors]
        names = [n for n in names if n in self._vectors]
        if not used or not names:
            return
        for name in [*names[1:], *used]:
            self._names.join(names[0], name)
        if call in SCALAR:
            v = self._names.of(names[0])
            v.bytes = max(v.bytes, BYTES[call])

    def _source(self, name: str, code: str, count: int) -> None:
        v = self._names.of(name)
        v.count, v.bytes = max(v.count, count), max(v.bytes, BYTES.get(code, 0))

    def _exchanges(self, code: str, count: int) -> None:
        """Notes that threads exchange features of vectors, in their rows of shared memory."""
        self.warps = True
        size, odd = BYTES[accumulator(code)] * STRIP, 16
        if self.by_warp(code):
            size, odd = BYTES[code] * padded(count, 8), 8 * BYTES[code]
        self.row = max(self.row, odd * (-(-size // odd) | 1))

    def _multiplied(self, name: str, code: str) -> None:
        v = self._names.of(name)
        v.product |= self.by_warp(code)

    def _weight(self, code: str) -> int:
        """How many halves a feature of a product takes in registers."""
        return 2 if code == "f32" and self.by_warp(code) else 1

    def _matvec(self, name: str, args: list[ast.expr]) -> None:
        code, (rows, columns, stride) = _code(args[0]), [_integer(a) for a in args[3:6]]
        turned = type(args[6]) is ast.Constant and args[6].value is True
        self._source(name, code, columns if turned else rows)
        self._multiplied(name, code)
        self._multiplied(_name(args[7]), code)
        if max(rows, columns) > WIDEST:
            return
        if self.by_warp(code):
            self._exchanges(code, max(rows, columns))
        matrix = MatrixOperand(code, _word(args[1]), _word(args[2]), rows, columns, stride)
        self._widest = max(self._widest, self._weight(code) * max(rows, columns))
        self.matrices.setdefault(matrix, -1)
        if len(args) > 8:
            count = columns if turned else rows
            self.biases.setdefault(Bias(code, _word(args[8]), _word(args[9]), count), -1)

    def _outer(self, args: list[ast.expr], depth: int) -> None:
        code = _code(args[0])
        target, room, size, at = [_word(e) for e in args[1:5]]
        rows, columns, stride = [_integer(a) for a in args[5:8]]
        for a in args[8:10]:
            self._multiplied(_name(a), code)
        if max(rows, columns) > WIDEST:
            return
        self._exchanges(code, max(rows, columns))
        self._pairs_of_rows = True
        self._kept_features += self._weight(code) * columns if self.by_warp(code) else 0
        if not depth and self.by_warp(code):
            self.sums.setdefault(Sum(code, target, room, size, at, rows, columns, stride), -1)


def _code(e: ast.expr) -> str:
    return e.id if type(e) is ast.Name else ""


_name = _code


def _integer(e: ast.expr) -> int:
    return e.value if type(e) is ast.Constant and type(e.value) is int else 0


def _word(e: ast.expr) -> int:
    return _integer(e.slice) if type(e) is ast.Subscript else 0


def _used(e: ast.AST) -> Iterator[str]:
    for node in ast.walk(e):
        if type(node) is ast.Name:
            yield node.id


def padded(count: int, to: int) -> int:
    """Returns the next multiple of a number."""
    return -(-count // to) * to


def row_stride(by_warp: bool, m: MatrixOperand) -> int:
    """Returns the bytes from a row of a matrix in shared memory to the next. Those of halves are an
    odd multiple of 16, so that the rows that the threads of a warp read together are in different
    banks."""
    if by_warp:
        return 32 * -(-m.columns // 16) + 16
    return padded(m.columns * BYTES[accumulator(m.code)], 16)


def tf32_rows(m: MatrixOperand) -> tuple[int, int]:
    """Returns the bytes from an even row of a matrix in shared memory to the next row, and to the
    next even one, for tensor cores in single precision (see `tf32`): 64 and 32 or 96 bytes beyond a
    multiple of 128."""
    columns = padded(m.columns, 16)
    one = columns + 16 * (columns % 32 == 0)
    return 4 * one, 4 * (one + columns + 8)


def _work(down: int, across: int, of_rows: int, of_columns: int) -> tuple[int, int]:
    """Returns the tiles of a warp, and what it reads for them: rows count twice."""
    a, b = -(-down // of_rows), -(-across // of_columns)
    return a * b, 2 * a + b
