"""Matrix products: each block computes a tile of the result, from tiles of the operands in shared
memory. Either threads accumulate a few rows and columns in registers by multiply-adds (V. Volkov,
J. Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008), or warps do by the instructions
for small matrices (`mma`) of the tensor cores.

Sums over a long depth may be divided among several blocks: then, each has a result of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...simd.ir import BYTES, MEMORY
from ...simd.loops import address, choose, least, when
from ...simd.reduction import accumulator
from ..form import THREADS
from ..function import WARP, fma, halves, matrices
from ..threads import lane_of_warp, warp_of_block
from .entry import EntryFunction, row
from .product_operands import OperandForm, TileOperand, accumulated

_WIDEST = 16
# Rows of tiles of the result that neighbouring blocks share, so that they read the same operands.
_TOGETHER = 8
# Lanes of a warp in a row of threads that use multiply-adds.
_ACROSS = 8

STAGES = {True: 4, False: 2}
"""Stages of tiles in shared memory, with and without asynchronous copies."""


class ProductForm(NamedTuple):
    """What products have in common: the type; that of results; whether A is stored transposed, and
    B; the elements of a copy of each; whether there are several products; and whether the GPU has
    asynchronous copies."""

    code: str
    result: str
    a_transposed: bool
    b_transposed: bool
    a_width: int
    b_width: int
    batched: bool
    asynchronous: bool

    def operands(
        self, kept: str, rows: int, columns: int, depth: int, gap: int, kept_along: bool | None
    ) -> tuple[OperandForm, OperandForm]:
        """Returns the forms of the operands of tiles. Without `kept_along`, lines are consecutive
        in shared memory where they are in memory."""
        forms = []
        for lines, along, width in (
            (rows, not self.a_transposed, self.a_width),
            (columns, self.b_transposed, self.b_width),
        ):
            here = along if kept_along is None else kept_along
            width = width if here == along else 1
            form = OperandForm(
                self.code, kept, lines, depth, along, here, width, gap, self.asynchronous
            )
            forms.append(form)
        return forms[0], forms[1]


def starts(f: EntryFunction, code: str, a: str, b: str, batch: str) -> tuple[str, str]:
    """Returns where the operands of a product begin, as the last parameter says."""
    table, entry = f.buffer("offsets", read_only=True), f.op(f"mul i64 {batch}, 2")
    places = [address(f, "i64", table, entry, k) for k in (0, 1)]
    a_start, b_start = (f.op(f"load i64, ptr {p}, align 8, !invariant.load !0") for p in places)
    return address(f, code, a, a_start), address(f, code, b, b_start)


class ProductTile:
    """The tile of a block.

    Parameters: A, B, and the results; rows and columns of the result; the depth, and the part of it
    that a block sums up; the number of products; if there are several, a table of where the
    operands of each begin.
    """

    def __init__(self, f: EntryFunction, layout: ProductForm, rows: int, columns: int) -> None:
        self.f, self.layout = f, layout
        code = layout.code
        a, b = (f.buffer(name, read_only=True) for name in "ab")
        self.result = f.buffer("result")
        self.m, self.n, self.k, chunk, batches = (
            f.size(name) for name in ("m", "n", "k", "chunk", "batches")
        )
        down, across = (
            f.op(f"udiv i64 {f.op(f'add i64 {size}, {most - 1}')}, {most}")
            for size, most in ((self.m, rows), (self.n, columns))
        )
        area = f.op(f"mul i64 {down}, {across}")
        number = f.op(f"udiv i64 {f.block_number()}, {area}")
        tile = f.op(f"sub i64 {f.block_number()}, {f.op(f'mul i64 {number}, {area}')}")
        y, x = self._order(tile, down, across)
        self.i0, self.j0 = f.op(f"mul i64 {y}, {rows}"), f.op(f"mul i64 {x}, {columns}")
        part = f.op(f"udiv i64 {number}, {batches}")
        self.start = f.op(f"mul i64 {part}, {chunk}")
        self.end = least(f, f.op(f"add i64 {self.start}, {chunk}"), self.k)
        if layout.batched:
            batch = f.op(f"sub i64 {number}, {f.op(f'mul i64 {part}, {batches}')}")
            a, b = starts(f, code, a, b, batch)
        self.a, self.b = a, b
        size = f.op(f"mul i64 {self.m}, {self.n}")
        offset = f.op(f"mul i64 {number}, {size}")
        self.target = address(f, layout.result, self.result, offset)

    def _order(self, tile: str, down: str, across: str) -> tuple[str, str]:
        """Returns the position of a tile: first down some rows of tiles, then across."""
        f = self.f
        strip = f.op(f"mul i64 {across}, {_TOGETHER}")
        number = f.op(f"udiv i64 {tile}, {strip}")
        inside = f.op(f"sub i64 {tile}, {f.op(f'mul i64 {number}, {strip}')}")
        top = f.op(f"mul i64 {number}, {_TOGETHER}")
        height = least(f, f.op(f"sub i64 {down}, {top}"), _TOGETHER)
        x = f.op(f"udiv i64 {inside}, {height}")
        y = f.op(f"sub i64 {inside}, {f.op(f'mul i64 {x}, {height}')}")
        return f.op(f"add i64 {top}, {y}"), x

    def loaded(self, forms: tuple[OperandForm, OperandForm]) -> tuple[TileOperand, TileOperand]:
        """Returns the operands."""
        f, layout = self.f, self.layout
        a_row = self.m if layout.a_transposed else self.k
        b_row = self.k if layout.b_transposed else self.n
        return (
            TileOperand(f, forms[0], self.a, self.i0, self.m, a_row),
            TileOperand(f, forms[1], self.b, self.j0, self.n, b_row),
        )

    def store(self, rows: Sequence[str], parts: Sequence[tuple[str, list[list[str]]]]) -> None:
        """Stores sums: `parts` are columns (`i64`), counted from the first of the tile, as are
        rows, with consecutive elements from there on for each row."""
        f, acc, code = self.f, accumulator(self.layout.code), self.layout.result
        width = len(parts[0][1][0])
        kind, kept = row(acc, width), row(code, width)
        lines = []
        for y in rows:
            i = f.op(f"add i64 {self.i0}, {y}")
            line = address(f, code, self.target, f.op(f"mul i64 {i}, {self.n}"))
            lines.append((f.op(f"icmp slt i64 {i}, {self.m}"), line))
        left = f.op(f"sub i64 {self.n}, {self.j0}")

        def write(together: int) -> None:
            element = f"<{together} x {MEMORY[code]}>"
            for number, (exists, line) in enumerate(lines):
                with when(f, exists):
                    for column, sums in parts:
                        x = f.joined(kind, sums[number])
                        if kind != kept:
                            x = f.op(f"fptrunc {kind} {x} to {kept}")
                        for first in range(0, width, together):
                            here = f.op(f"add i64 {column}, {first}")
                            with when(f, f.op(f"icmp slt i64 {here}, {left}")):
                                one = f.shuffle(kept, x, "poison", range(first, first + together))
                                place = address(f, code, line, self.j0, here)
                                align = together * BYTES[code]
                                f.do(f"store {element} {one}, ptr {place}, align {align}")

        if width == 1:
            write(1)
            return
        whole = f.op(f"icmp eq i64 {f.op(f'urem i64 {self.n}, {width}')}, 0")
        choose(f, whole, lambda: write(width), lambda: write(1))


class MultiplyAdds(NamedTuple):
    """Products by multiply-adds: each thread has `y` rows and `x` columns of a tile."""

    layout: ProductForm
    rows: int
    columns: int
    depth: int
    y: int
    x: int

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        f.together = 2
        acc = accumulator(self.layout.code)
        task = ProductTile(f, self.layout, self.rows, self.columns)
        width = min(_WIDEST // BYTES[acc], self.y, self.x)
        gap = _WIDEST // BYTES[acc]
        forms = self.layout.operands(acc, self.rows, self.columns, self.depth, gap, False)
        a, b = task.loaded(forms)
        # Threads of a warp have neighbouring tiles, four down and eight across.
        lane, warp = lane_of_warp(f), warp_of_block(f)
        warps = self.columns // (self.x * _ACROSS)
        down = f.op(f"mul i32 {f.op(f'udiv i32 {warp}, {warps}')}, {WARP // _ACROSS}")
        across = f.op(f"mul i32 {f.op(f'urem i32 {warp}, {warps}')}, {_ACROSS}")
        down = f.op(f"add i32 {down}, {f.op(f'udiv i32 {lane}, {_ACROSS}')}")
        across = f.op(f"add i32 {across}, {f.op(f'urem i32 {lane}, {_ACROSS}')}")
        top, left = (f.op(f"mul i32 {x}, {width}") for x in (down, across))
        kind = MEMORY[acc]

        def multiply(first: str, second: str, sums: Sequence[str]) -> list[str]:
            found = list(sums)
            for k in range(self.depth):
                y = self._read(f, forms[0], acc, first, top, k, self.y, width)
                x = self._read(f, forms[1], acc, second, left, k, self.x, width)
                for i in range(self.y):
                    for j in range(self.x):
                        n = i * self.x + j
                        found[n] = fma(f, kind, y[i], x[j], found[n])
            return found

        zeros = [(kind, "0.0")] * (self.y * self.x)
        stages = STAGES[self.layout.asynchronous]
        sums = accumulated(f, a, b, task.start, task.end, stages, zeros, multiply)
        rows, columns = (
            self._places(f, first, size, count, width)
            for first, size, count in ((top, self.rows, self.y), (left, self.columns, self.x))
        )
        parts = []
        for g, column in enumerate(columns[::width]):
            some = [[sums[i * self.x + g * width + j] for j in range(width)] for i in range(self.y)]
            parts.append((column, some))
        task.store(rows, parts)

    def _read(
        self,
        f: EntryFunction,
        form: OperandForm,
        acc: str,
        base: str,
        first: str,
        k: int,
        count: int,
        width: int,
    ) -> list[str]:
        """Returns the elements of a thread's lines at a depth: groups of `width`, which are evenly
        spaced."""
        kind, found = row(acc, width), []
        own = f.op(f"getelementptr {MEMORY[acc]}, ptr addrspace(3) {base}, i32 {first}")
        for g in range(count // width):
            at = k * form.stride + g * (form.lines // (count // width))
            place = f.op(f"getelementptr {MEMORY[acc]}, ptr addrspace(3) {own}, i32 {at}")
            align = width * BYTES[acc]
            x = f.op(f"load {kind}, ptr addrspace(3) {place}, align {align}")
            found += f.split(kind, x, width)
        return found

    def _places(self, f: EntryFunction, first: str, size: int, count: int, width: int) -> list[str]:
        """Returns the lines of a thread."""
        found, spacing = [], size // (count // width)
        for g in range(count // width):
            for j in range(width):
                at = f.op(f"add i32 {first}, {g * spacing + j}")
                found.append(f.op(f"zext i32 {at} to i64"))
        return found


class TensorCores(NamedTuple):
    """Products by instructions for small matrices: of halves, or of single precision with operands
    rounded to 11 bits (TF32). The warps of a block form `down` rows."""

    layout: ProductForm
    rows: int
    columns: int
    down: int

    @property
    def depth(self) -> int:
        """The depth of a tile."""
        return 32 if self.layout.code == "f16" else 16

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        f.together = 2
        layout, code = self.layout, self.layout.code
        task = ProductTile(f, layout, self.rows, self.columns)
        # The gap puts rows that are read together into different banks.
        is_half = code == "f16"
        gap = 8 if is_half else 4
        forms = layout.operands(code, self.rows, self.columns, self.depth, gap, None)
        if not is_half:
            # Rows of a depth need another one.
            a, b = (o if o.kept_along else o._replace(gap=8) for o in forms)
            forms = a, b
        a, b = task.loaded(forms)
        across = THREADS // WARP // self.down
        height, width = self.rows // self.down, self.columns // across
        warp = warp_of_block(f)
        top = f.op(f"mul i32 {f.op(f'udiv i32 {warp}, {across}')}, {height}")
        left = f.op(f"mul i32 {f.op(f'urem i32 {warp}, {across}')}, {width}")
        fragments = _Halves(f, *forms) if is_half else _Singles(f, *forms)
        y, x = height // 16, width // 8

        def multiply(first: str, second: str, sums: Sequence[str]) -> list[str]:
            found = list(sums)
            for k in range(0, self.depth, fragments.depth):
                rows = fragments.of_a(first, top, k, y)
                columns = fragments.of_b(second, left, k, x)
                for i in range(y):
                    for j in range(x):
                        at = 4 * (i * x + j)
                        found[at : at + 4] = fragments.product(
                            rows[i], columns[j], found[at : at + 4]
                        )
            return found

        zeros = [("float", "0.0")] * (4 * y * x)
        stages = STAGES[True] - 1
        sums = accumulated(f, a, b, task.start, task.end, stages, zeros, multiply)
        self._store(f, task, top, left, y, x, sums)

    def _store(
        self,
        f: EntryFunction,
        task: ProductTile,
        top: str,
        left: str,
        y: int,
        x: int,
        sums: Sequence[str],
    ) -> None:
        """Stores the sums: of each small matrix, a lane has two elements in two rows."""
        lane = lane_of_warp(f)
        row_of_lane = f.op(f"add i32 {top}, {f.op(f'lshr i32 {lane}, 2')}")
        column = f.op(f"shl i32 {f.op(f'and i32 {lane}, 3')}, 1")
        column = f.op(f"add i32 {left}, {column}")
        rows = [f.op(f"add i32 {row_of_lane}, {8 * k}") for k in range(2 * y)]
        rows = [f.op(f"zext i32 {r} to i64") for r in rows]
        parts = []
        for j in range(x):
            at = f.op(f"zext i32 {f.op(f'add i32 {column}, {8 * j}')} to i64")
            some = []
            for k in range(2 * y):
                first = 4 * (k // 2 * x + j) + 2 * (k % 2)
                some.append(list(sums[first : first + 2]))
            parts.append((at, some))
        task.store(rows, parts)


class _Halves:
    """Small matrices of halves in registers: 16 rows of A or 8 columns of B, and a depth of 16."""

    depth = 16

    def __init__(self, f: EntryFunction, a: OperandForm, b: OperandForm) -> None:
        self.f, self.a, self.b = f, a, b
        lane = lane_of_warp(f)
        inner = f.op(f"and i32 {lane}, 7")
        odd = f.op(f"and i32 {lane}, 8")
        high = f.op(f"lshr i32 {f.op(f'and i32 {lane}, 16')}, 1")
        # Of four matrices of 8 by 8, each lane gives the address of a row in shared memory. They
        # follow each other along the lines of A and then the depth, and the other way round for B.
        self.places = []
        for form, line, deep in ((a, odd, high), (b, high, odd)):
            line, deep = (
                (f.op(f"or i32 {line}, {inner}"), deep)
                if form.kept_along
                else (line, f.op(f"or i32 {deep}, {inner}"))
            )
            self.places.append((line, deep))

    def _read(self, number: int, base: str, first: str, k: int) -> list[str]:
        """Returns four matrices of 8 by 8: 16 lines and a depth of 16."""
        f, form = self.f, (self.a, self.b)[number]
        line, deep = self.places[number]
        line, deep = f.op(f"add i32 {first}, {line}"), f.op(f"add i32 {deep}, {k}")
        y, x = (line, deep) if form.kept_along else (deep, line)
        at = f.op(f"add i32 {f.op(f'mul i32 {y}, {form.stride}')}, {x}")
        place = f.op(f"getelementptr half, ptr addrspace(3) {base}, i32 {at}")
        return halves(f, matrices(f, place, 4, turned=not form.kept_along))

    def of_a(self, base: str, top: str, k: int, count: int) -> list[list[str]]:
        """Returns matrices of rows from `top` on."""
        f = self.f
        return [self._read(0, base, f.op(f"add i32 {top}, {16 * i}"), k) for i in range(count)]

    def of_b(self, base: str, left: str, k: int, count: int) -> list[list[str]]:
        """Returns matrices of columns from `left` on, an even number."""
        f, found = self.f, []
        for j in range(0, count, 2):
            words = self._read(1, base, f.op(f"add i32 {left}, {8 * j}"), k)
            found += [words[:2], words[2:]]
        return found

    def product(self, a: Sequence[str], b: Sequence[str], sums: Sequence[str]) -> list[str]:
        """Returns sums with products added."""
        return self.f.multiplied("m16n8k16.row.col.f32.f32", "<2 x half>", (*a, *b), sums)


class _Singles:
    """Small matrices of single precision in registers: as above, with a depth of 8."""

    depth = 8

    def __init__(self, f: EntryFunction, a: OperandForm, b: OperandForm) -> None:
        self.f, self.a, self.b = f, a, b
        lane = lane_of_warp(f)
        self.line, self.deep = f.op(f"lshr i32 {lane}, 2"), f.op(f"and i32 {lane}, 3")

    def _read(self, form: OperandForm, base: str, first: str, more: int, k: int) -> str:
        """Returns an element per lane, rounded to TF32."""
        f = self.f
        line = f.op(f"add i32 {first}, {f.op(f'add i32 {self.line}, {more}')}")
        deep = f.op(f"add i32 {self.deep}, {k}")
        y, x = (line, deep) if form.kept_along else (deep, line)
        at = f.op(f"add i32 {f.op(f'mul i32 {y}, {form.stride}')}, {x}")
        place = f.op(f"getelementptr float, ptr addrspace(3) {base}, i32 {at}")
        x = f.op(f"load float, ptr addrspace(3) {place}, align 4")
        return f.op(f"call i32 @llvm.nvvm.f2tf32.rna(float {x})")

    def of_a(self, base: str, top: str, k: int, count: int) -> list[list[str]]:
        """Returns matrices of rows from `top` on."""
        places = [(0, 0), (8, 0), (0, 4), (8, 4)]
        return [
            [self._read(self.a, base, top, 16 * i + y, k + x) for y, x in places]
            for i in range(count)
        ]

    def of_b(self, base: str, left: str, k: int, count: int) -> list[list[str]]:
        """Returns matrices of columns from `left` on."""
        return [
            [self._read(self.b, base, left, 8 * j, k + x) for x in (0, 4)] for j in range(count)
        ]

    def product(self, a: Sequence[str], b: Sequence[str], sums: Sequence[str]) -> list[str]:
        """Returns sums with products added."""
        return self.f.multiplied("m16n8k8.row.col.tf32", "i32", (*a, *b), sums)
