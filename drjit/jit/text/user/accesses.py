"""Calls in a user's kernel text: their arguments one by one, which tell what words are for, and the
bounds checks that accesses to memory need.
"""

import ast
from typing import TYPE_CHECKING, Any

from ...ir import dtype as dt
from ...ir import op
from ...ir.dtype import BY_CODE, DType
from ...target.language import Statement, result_types
from ..program import Instr
from .reading import ACTIVE, BoundedIndex, Expression
from .words import Check, Range

if TYPE_CHECKING:
    from .expressions import ExpressionReader


class CallText:
    """A call while it is read: the texts of its arguments so far, and what it accesses."""

    def __init__(self, reader: "ExpressionReader", statement: Statement, e: ast.Call) -> None:
        self.reader, self.statement, self.e = reader, statement, e
        self.nodes = [*e.args]
        self.texts: list[str] = []
        self.arguments: list[Any] = []  # what the types of results depend on
        self.dtype: DType = dt.f32  # named by the first argument
        self.vector: Any = None  # the type of the first vector
        self.reduction, self.mode = "", "direct"
        self.word = 0  # the word whose memory is accessed
        self.indices: list[Expression] = []
        self.mask: Any = None
        self.mask_at = 0
        self.integers: list[int] = []
        self.values: list[Expression] = []  # one for each further argument
        self.taps: list[Expression] = []
        self.offset = 0
        self.flag = False
        self.literal = 0
        self.check: Any = None
        self.implies: frozenset = frozenset()

    def error(self, message: str, node: ast.AST | None = None) -> SyntaxError:
        return self.reader.error(message, node or self.e)

    def next(self) -> ast.expr:
        """Returns the next argument."""
        if not self.nodes:
            wanted = ", ".join(self.statement.arguments)
            raise self.error(f"{self.statement.name} takes more arguments: {wanted}")
        return self.nodes.pop(0)

    def value(self) -> Expression:
        """Reads the call."""
        s, reader = self.statement, self.reader
        if s.outside and (reader.depth > 1 or not reader.is_kernel):
            raise self.error(f"{s.name} belongs outside of loops, branches and functions")
        for kind in s.arguments:
            if kind[0] == "*":
                while self.nodes:
                    self.read(kind[1:])
            else:
                self.read(kind)
        if self.nodes:
            raise self.error(
                f"{s.name} takes {len(s.arguments)} arguments: {', '.join(s.arguments)}"
            )
        getattr(self, f"check_{s.name}", lambda: None)()
        if self.indices and s.name != "in_bounds":
            self.bound_indices()
        types = result_types(s.name, self.arguments)
        data = self.data()
        result = types[0] if types else self.dtype
        reader.instrs.append(Instr(s.op, result, (), data, 0, "", reader.rounds))
        if result.is_vector or self.vector is not None:
            reader.reading.has_vectors = True
            if not reader.is_kernel:
                raise self.error("functions contain no vectors")
        text = f"{s.name}({', '.join(self.texts)})"
        return Expression(
            text, types, signed=self.is_signed(), implies=self.implies, literal=self.literal
        )

    def read(self, kind: str) -> None:
        """Reads the next argument."""
        self.arguments.append(getattr(self, f"read_{kind}")(self.next()))

    def data(self) -> Any:
        """Returns what the cost of the instruction depends on; see `program.elements`."""
        if self.statement.op is op.matvec:
            return (*self.integers, self.flag)
        if self.statement.op is op.outer:
            return (0, 0, 0, *self.integers)
        return None

    def is_signed(self) -> bool:
        """Whether the result is a signed integer reinterpreted as unsigned."""
        return self.statement.name == "bitcast" and self.values[0].types[0].is_signed

    # ---- Arguments

    def read_type(self, e: ast.expr) -> DType:
        if type(e) is not ast.Name or e.id not in BY_CODE:
            raise self.error(f"{ast.unparse(e)} is not an element type", e)
        self.dtype = BY_CODE[e.id]
        self.texts.append(e.id)
        return self.dtype

    def read_i(self, e: ast.expr) -> None:
        if type(e) is not ast.Name or e.id != "i":
            raise self.error(f"{ast.unparse(e)} is not the lanes of the packet, i", e)
        self.texts.append("i")

    def parameter(self, e: ast.expr) -> int:
        """Returns the number of a word."""
        named = self.reader.reading.named
        if named:
            if type(e) is ast.Name and e.id in named:
                return named[e.id]
            raise self.error(f"{ast.unparse(e)} is not a parameter", e)
        if type(e) is ast.Subscript and type(e.value) is ast.Name and e.value.id == "p":
            return self.reader.integer(e.slice, e)
        raise self.error(f"{ast.unparse(e)} is not a word of the parameter block, p[k]", e)

    def claim(self, e: ast.expr, kind: str, dtype: DType) -> Any:
        """Reads an argument that is a word, and returns that."""
        k = self.parameter(e)
        word = self.reader.reading.claim(self.e, k, kind, dtype, self.reader.where)
        self.texts.append(f"p[{k}]")
        self.word = k
        return word

    def read_load(self, e: ast.expr) -> None:
        self.claim(e, "array", self.dtype).lanes = True
        self.literal = self.word

    def read_broadcast(self, e: ast.expr) -> None:
        self.claim(e, "array", self.dtype).single = True
        self.literal = self.word

    def read_source(self, e: ast.expr) -> None:
        self.claim(e, "array", self.dtype).anywhere = True

    def read_matrix(self, e: ast.expr) -> None:
        self.claim(e, "array", self.dtype.accumulator).anywhere = True

    def read_number(self, e: ast.expr) -> None:
        self.claim(e, "number", self.dtype)
        self.literal = self.word

    def read_offset(self, e: ast.expr) -> None:
        before = self.word
        self.claim(e, "number", dt.i64)
        self.offset, self.word = self.word, before

    def read_store(self, e: ast.expr) -> None:
        self.claim(e, "store", self.dtype)

    def read_reduced(self, e: ast.expr) -> None:
        """`p[a], p[k]`, or only `p[k]`."""
        reading, (a, k) = self.reader.reading, (None, e)
        if self.nodes and not (type(self.nodes[0]) is ast.Name and self.nodes[0].id == "i"):
            a, k = e, self.next()
        if a is None:
            reading.next_word += 1
            self.hide(reading.next_word, self.e)
        else:
            self.hide(self.parameter(a), a)
        scratch = self.word
        word = self.claim(k, "reduced", self.dtype)
        word.before, word.reduce = (scratch,), self.reduction

    def hide(self, k: int, e: ast.expr) -> None:
        """Reads a word that the launcher provides."""
        self.reader.reading.claim(e, k, "hidden", dt.u64, self.reader.where)
        self.texts.append(f"p[{k}]")
        self.word = k

    def read_target(self, e: ast.expr) -> None:
        self.note_update(self.claim(e, "target", self.dtype))

    def read_expanded(self, e: ast.expr) -> None:
        """`p[k], p[a], p[n]`."""
        self.mode = "expand"
        self.reduction = self.reduction or "add"
        a, n = self.next(), self.next()
        word = self.claim(e, "target", self.dtype)
        k = self.word
        is_new = not word.mode
        if is_new:
            word.after = (self.parameter(a), self.parameter(n))
        for one in (a, n):
            j = self.parameter(one)
            if j not in word.after:
                raise self.error(f"p[{k}] has the private copies p[{word.after[0]}]", one)
            if is_new:
                self.hide(j, one)
            else:
                self.texts.append(f"p[{j}]")
        self.word = k
        self.note_update(word)

    def note_update(self, word: Any) -> None:
        """Notes how an array is written to."""
        has_copies = word.mode and "expand" in (word.mode, self.mode)
        if has_copies and (word.mode, word.reduce) != (self.mode, self.reduction):
            raise self.error(
                f"{word.name} has private copies for {(word.reduce or self.reduction)!r}, in "
                f"{word.where}: all its updates have to be of that kind"
            )
        if not word.mode:
            word.mode, word.reduce = self.mode, self.reduction

    def read_reduction(self, e: ast.expr) -> None:
        name = e.value if type(e) is ast.Constant else None
        row = op.REDUCTIONS.get(name) if type(name) is str else None
        if row is None or not row.accepts(self.dtype):
            raise self.error(f"there is no reduction {ast.unparse(e)} of {self.dtype.code}", e)
        self.reduction = str(name)
        self.texts.append(repr(name))

    def read_mode(self, e: ast.expr) -> None:
        name = e.value if type(e) is ast.Constant else None
        if name not in ("direct", "no_conflicts"):
            raise self.error(f"the mode is 'direct' or 'no_conflicts', not {ast.unparse(e)}", e)
        self.mode = str(name)
        self.texts.append(repr(name))

    def read_value(self, e: ast.expr) -> None:
        if self.vector is not None and self.statement.op is op.put:
            self.dtype = self.vector.element
        value = self.reader.typed(self.reader.operand(e), self.dtype, e)
        if value.number is not None and not self.dtype.is_mask:
            value = value._replace(text=f"{self.dtype.code}({value.text})")
        self.values.append(value)
        self.texts.append(value.text)

    def read_operand(self, e: ast.expr) -> None:
        value = self.reader.operand(e, named=True)
        self.values.append(value)
        self.texts.append(value.text)

    def read_index(self, e: ast.expr) -> None:
        value = self.reader.operand(e)
        if value.types not in ((dt.u32,), (dt.u64,)):
            found = value.types[0].code if value.types else "a number"
            hint = ": u32(...)" if not value.types else ": bitcast(u32, x) of an i32"
            raise self.error(f"{value.text} is {found}, not an index (u32 or u64){hint}", e)
        self.indices.append(value)
        self.texts.append(value.text)

    def read_mask(self, e: ast.expr) -> None:
        mask = self.reader.typed(self.reader.operand(e), dt.mask, e)
        self.mask = mask if self.statement.name == "going" else self.reader.restricted(mask)
        self.mask_at = len(self.texts)
        self.texts.append(self.mask.text)

    def read_tap(self, e: ast.expr) -> None:
        if len(self.taps) % 2:
            weight = self.reader.typed(self.reader.operand(e, named=True), self.dtype, e)
            self.taps.append(weight)
            self.texts.append(weight.text)
        else:
            self.read_index(e)
            self.taps.append(self.indices[-1])

    def read_count(self, e: ast.expr) -> int:
        count = self.read_integer(e)
        if not 2 <= count <= 16:
            raise self.error("a record has 2 to 16 entries", e)
        return count

    def read_integer(self, e: ast.expr) -> int:
        self.integers.append(self.reader.integer(e, e))
        self.texts.append(str(self.integers[-1]))
        return self.integers[-1]

    def read_flag(self, e: ast.expr) -> bool:
        if type(e) is not ast.Constant or type(e.value) is not bool:
            raise self.error(f"{ast.unparse(e)} is neither True nor False", e)
        self.flag = e.value
        self.texts.append(str(e.value))
        return e.value

    # ---- Vectors

    def in_memory(self, e: ast.expr, kind: str) -> Any:
        """Reads the word of vectors in memory."""
        if self.integers[0] < 1:
            raise self.error("a vector has at least 1 feature", e)
        self.vector = dt.vector(self.dtype, self.integers[0])
        return self.claim(e, kind, self.vector)

    def read_vectors(self, e: ast.expr) -> None:
        self.in_memory(e, "array").lanes = True

    def read_one_vector(self, e: ast.expr) -> None:
        self.in_memory(e, "array").single = True

    def read_stored_vectors(self, e: ast.expr) -> None:
        self.in_memory(e, "store")

    def read_features(self, e: ast.expr) -> None:
        """A vector of the type that is stored."""
        value = self.reader.operand(e)
        if value.types != (self.vector,):
            found = value.types[0].code if value.types else "a number"
            t, n = self.vector.element.code, self.vector.count
            raise self.error(
                f"{value.text} is {found}, not a vector of {n} features of type {t}: vector({t}, "
                f"x, ...), or splat({t}, {n}, x)",
                e,
            )
        self.texts.append(value.text)

    def read_vector(self, e: ast.expr) -> DType:
        value = self.reader.operand(e)
        if not value.types or not value.types[0].is_vector:
            raise self.error(f"{value.text} is not a vector", e)
        self.vector = self.vector or value.types[0]
        self.values.append(value)
        self.texts.append(value.text)
        return value.types[0]

    def read_feature(self, e: ast.expr) -> None:
        """A feature: a constant, or an index that may differ between lanes."""
        if type(e) is ast.Constant or self.statement.op is op.feature:
            if self.read_integer(e) >= self.vector.count:
                raise self.error(f"the vector has {self.vector.count} features", e)
        else:
            value = self.reader.typed(self.reader.operand(e), dt.u32, e)
            self.indices.append(value)
            self.texts.append(value.text)

    def read_bias(self, e: ast.expr) -> None:
        product, offset = self.word, self.offset
        if len(self.values) > 1:
            raise self.error("matvec takes one bias: p[b], p[ob]", e)
        self.values.append(self.values[0])
        bias = self.claim(e, "array", self.dtype.accumulator)
        bias.anywhere = True
        self.read_offset(self.next())
        rows, columns, _ = self.integers
        count = columns if self.flag else rows
        bias.ranges.append(Range(self.offset, count, self.reader.where))
        self.word, self.offset = product, offset

    # ---- What calls must satisfy beyond the kinds of their arguments, by name

    def check_in_bounds(self) -> None:
        """The mask implies that the index is within bounds."""
        (index,), mask = self.indices, self.mask
        variable = self.reader.scope.get(index.text)
        if variable is not None:
            self.implies = mask.implies | {BoundedIndex(index.text, variable.version, self.check)}

    def check_bitcast(self) -> None:
        (value,) = self.values
        if value.types[0].is_vector or value.types[0].itemsize != self.dtype.itemsize:
            raise self.error(f"{value.types[0].code} and {self.dtype.code} differ in size")
        if value.types[0].is_mask is not self.dtype.is_mask:
            raise self.error("a mask has no bits: mask(x) and u32(m) convert")

    def check_scatter_inc(self) -> None:
        if not self.dtype.is_int:
            raise self.error(f"scatter_inc counts in integers, not in {self.dtype.code}")

    def check_gather_weighted(self) -> None:
        if len(self.taps) < 2 or len(self.taps) % 2 or not self.dtype.is_float:
            raise self.error("gather_weighted takes indices, each with a weight, and sums floats")
        if len({v.types for v in self.indices}) > 1:
            raise self.error("the indices have different types")

    def check_going(self) -> None:
        self.implies = self.mask.implies

    def check_active(self) -> None:
        self.implies = frozenset((ACTIVE,))

    def check_vector(self) -> None:
        if (self.integers[0] if self.integers else len(self.values)) < 1:
            raise self.error("a vector has at least 1 feature")

    check_splat = check_vector

    def check_total(self) -> None:
        if not self.vector.is_float:
            raise self.error(f"total sums floats, not {self.vector.code}")

    def check_matvec(self) -> None:
        reader, t = self.reader, self.dtype
        rows, columns, stride = self.integers
        factor = dt.vector(t, rows if self.flag else columns)
        if not t.is_float:
            raise self.error(f"there are no products of {t.code}")
        if self.vector is not factor:
            code = self.vector.code if self.vector is not None else "no vector"
            raise self.error(f"the factor is {code}, not {factor.code}")
        if stride < columns:
            raise self.error("the stride is smaller than a row")
        last = (rows - 1) * stride + columns
        reader.reading.words[self.word].ranges.append(Range(self.offset, last, reader.where))

    def check_outer(self) -> None:
        y, x = [v.types[0] for v in self.values]
        rows, columns, stride = self.integers
        if (y, x) != (dt.vector(self.dtype, rows), dt.vector(self.dtype, columns)):
            raise self.error(
                f"the factors are {y.code} and {x.code}, not vectors of {self.dtype.code} with "
                f"{rows} and {columns} features"
            )
        self.add_sum_range((rows - 1) * stride + columns)

    def check_accumulate(self) -> None:
        if self.vector.element is not self.dtype:
            raise self.error(f"the vector is {self.vector.code}, not of {self.dtype.code}")
        self.add_sum_range(self.vector.count)

    def add_sum_range(self, count: int) -> None:
        """Notes the entries that a sum over lanes accesses."""
        if not self.dtype.is_float:
            raise self.error(f"there are no such sums of {self.dtype.code}")
        where = self.reader.where
        self.reader.reading.words[self.word].ranges.append(Range(self.offset, count, where))

    # ---- Bounds

    def read_record(self, e: ast.expr) -> None:
        if ast.unparse(e) != "p[0]":
            raise self.error(f"{ast.unparse(e)} is not the error record, p[0]", e)
        self.texts.append("p[0]")

    def read_site(self, e: ast.expr) -> None:
        if not self.reader.is_kernel and type(e) is ast.BinOp:
            self.reader.distance(e, 0, e)  # type: ignore[attr-defined]
        else:
            self.reader.integer(e, e)
        self.texts.append("")

    def read_size(self, e: ast.expr) -> None:
        """`p[k]`, or `p[n + 1]` in a function; the number of the check becomes that of the word."""
        reader, index = self.reader, self.indices[0]
        reading = reader.reading
        check = Check(index.types[0], "dr.kernel: in_bounds()", self.location(), index.signed)
        if index.raised is not None:
            check.what, check.constant = index.raised, 1
        self.check = check
        inside = e.slice if type(e) is ast.Subscript else None
        if not reader.is_kernel and type(inside) is ast.BinOp:
            j = reader.distance(inside, 1, e)  # type: ignore[attr-defined]
            reader.checks.append((j, check))  # type: ignore[attr-defined]
            first, second = reader.numbers  # type: ignore[attr-defined]
            self.texts[1] = f"{first} + {j}"
            self.texts.append(f"p[{second} + {j}]")
            return
        k = self.parameter(e)
        check.word = k
        if not check.is_known:
            reading.claim(self.e, k, "count", dt.u64, reader.where)
        if k in reading.checks:
            k = reading.new_check(check)
        else:
            reading.checks[k] = check
        self.texts[1] = f"<site:{k}>"
        self.texts.append(f"p[{k}]")

    def location(self) -> tuple:
        source = self.reader.source
        return (source.code, None, source.above + self.reader.statement.lineno)

    def bound_indices(self) -> None:
        """Makes sure that the indices are within bounds where the mask holds: by a check in the
        text, or by a new one."""
        count = 1
        if self.statement.result == "T*":
            count = self.integers[0]
        elif self.statement.name in ("scatter_packet", "scatter_reduce_packet"):
            count = len(self.values)
            if not 2 <= count <= 16:
                raise self.error("a record has 2 to 16 entries")
        for index in self.indices:
            if not self.is_checked(index, count):
                self.insert_check(index, count)
        self.texts[self.mask_at] = self.mask.text

    def is_checked(self, index: Expression, count: int) -> bool:
        """Whether the mask implies that an index is within bounds: then the check in the text is
        also one of this access."""
        variable = self.reader.scope.get(index.text)
        if variable is None:
            return False
        for bounded in self.mask.implies:
            if (bounded.index, bounded.version) != (index.text, variable.version):
                continue
            check = bounded.check
            if self.vector is not None:
                if check.arrays or check.constant not in (None, self.vector.count):
                    continue
                check.constant = self.vector.count
                return True
            if check.constant is None:
                if (self.word, count) not in check.arrays:
                    check.arrays.append((self.word, count))
                if check.what == "dr.kernel: in_bounds()":
                    check.what = f"dr.kernel: {self.statement.name}()"
                return True
        return False

    def insert_check(self, index: Expression, count: int) -> None:
        """Writes a check of an index before the access."""
        reader, reading = self.reader, self.reader.reading
        what = f"dr.kernel: {self.statement.name}()"
        check = Check(index.types[0], what, self.location(), index.signed)
        if self.vector is not None:
            check.constant = self.vector.count
        else:
            check.arrays.append((self.word, count))
        k = reading.new_check(check)
        text = f"in_bounds(p[0], <site:{k}>, {index.text}, p[{k}], {self.mask.text})"
        variable = reader.scope.get(index.text)
        implies = self.mask.implies
        if variable is not None:
            implies |= {BoundedIndex(index.text, variable.version, check)}
        reader.instrs.append(Instr(op.in_bounds, dt.mask, (), None, 0, "", reader.rounds))
        self.mask = reader.assigned_operand(Expression(text, (dt.mask,), implies=implies))
