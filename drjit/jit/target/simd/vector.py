"""Vectors: values with many features per lane, in rows of stack memory.

Element-wise statements are deferred until something needs a whole vector. Then all deferred
statements become one loop over the features, in which values that nothing else needs stay in
registers. `f16` features are held as rounded `f32`.
"""

import ast
import struct
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from ...ir.op import TABLE as OPERATIONS
from ..language import assigned, target_names
from . import elementwise, feature_loop
from .conversion import convert
from .feature_loop import Operation, Register, run, spelled
from .ir import NUMBER, Function, Operand, constant
from .liveness import last_uses, vector_names
from .module import Module, library_symbol
from .translate import Translator
from .vector_memory import HELD, FeatureVector, StackSlot, Variables, row_bytes

# Maximum number of element-wise operations that continue a product: they are repeated for every row
# of its block.
_FOLLOWING = 4


class VectorTranslator(Translator):
    """Translates a kernel that contains vectors."""

    def __init__(self, module: Module, f: Function, source: str, *, is_kernel: bool):
        super().__init__(module, f, source, is_kernel=is_kernel)
        # Padding for the widest row, which nothing reads (see `put`).
        spare = 8 * f.lanes if " put(" in source and not f.machine.has_gathers else 0
        self.variables = f.variables = Variables(f, spare)
        # All names that stand for vectors, and those assigned since the last loop over features.
        self.names: set[str] = set()
        self.recent: dict[str, None] = {}
        self.over: dict[int, list[str]] = {}
        self.dying: Sequence[str] = ()
        self.target = ""
        # Deferred operations, by the number of features.
        self.waiting: dict[int, list[Operation]] = {}
        # Addresses of values that are literals: words of the parameter block.
        self.literals: dict[str, int] = {}
        # The slots of the variables that enclosing bodies assign.
        self.homes: list[dict[str, FeatureVector]] = []

    # ------------------------------------------------------------------------------ statements

    def body(self, statements: list[ast.stmt]) -> None:
        """Translates a sequence of statements."""
        if not self.depth:
            self.survey(statements)
        super().body(statements)

    def survey(self, statements: list[ast.stmt]) -> None:
        """Finds the vectors among the variables of the kernel, and their last uses."""
        self.names = vector_names(statements)
        self.over = last_uses(statements, self.names)

    def statement(self, s: ast.stmt) -> None:
        """Translates one statement."""
        self.begin(s)
        super().statement(s)
        self.end(s)

    def begin(self, s: ast.stmt) -> None:
        """Before a statement, notes what it assigns and which vectors nothing needs after it."""
        self.dying = self.over.get(id(s), ())
        assigns = target_names(s) if type(s) is ast.Assign else []
        self.target = assigns[0] if len(assigns) == 1 else ""

    def end(self, s: ast.stmt) -> None:
        """After a statement, releases vectors that are no longer needed."""
        over = self.over.get(id(s), ())
        assigns = target_names(s) if type(s) is ast.Assign else []
        for name in assigns:
            self.literals.pop(name, None)
        value: Any = s.value if len(assigns) == 1 else None  # type: ignore[attr-defined]
        if type(value) is ast.Call and ast.unparse(value.func) == "literal":
            self.literals[assigns[0]] = self.parameter(value.args[1])
        self.recent |= dict.fromkeys([name for name in assigns if name in self.names])
        for name in over:
            self.variables.pop(name)

    def enter(self, statements: list[ast.stmt]) -> list[str]:
        """Before a body, gives each vector that it assigns a slot, which holds the vector before
        and after the body.
        """
        self.flush()
        places: dict[str, FeatureVector] = {}
        names = assigned(statements)
        for name in names:
            self.literals.pop(name, None)
            v = self.variables.bound(name)
            if v is None:
                continue
            if v.slot.holders > 1 or _is_short(v):  # type: ignore[union-attr]
                v = self.copied(v, self.room(v))
            places[name] = v
            self.variables[name] = spelled(v)
        self.homes.append(places)
        return [name for name in names if name not in places]

    def leave_body(self) -> None:
        """At the end of a body, moves the vectors that it assigned to their slots."""
        self.flush()
        moves = []
        for name, home in self.homes.pop().items():
            if name not in self.variables:
                continue
            v = self.variables.bound(name)
            if v is not None and v.slot is not home.slot:
                moves.append((home.slot, v))
            self.variables[name] = spelled(home)
        self.move(moves)

    def move(self, moves: list[tuple[StackSlot, Any]]) -> None:
        """Copies vectors simultaneously, as if all were read before any is written."""
        while moves:
            sources = [v.slot for _, v in moves]
            free = [m for m in moves if m[0] not in sources]
            if free:
                self.copied(free[0][1], free[0][0])
                moves.remove(free[0])
                continue
            # Every slot still holds something that another copy needs.
            slot, v = moves.pop()
            taken = {s for s, _ in moves} | set(sources) | {slot}
            moves.append((slot, self.copied(v, self.room(v, taken))))

    # --------------------------------------------------------------------------------- memory

    def room(
        self,
        v: FeatureVector,
        taken: Collection[StackSlot | None] = (),
        wanted: Sequence[StackSlot | None] = (),
    ) -> StackSlot:
        """Returns memory for a vector: one of the preferred slots if it is free, otherwise any free
        one."""
        read = [w for operations in self.waiting.values() for o in operations for w in o.operands]
        used = {w.slot for w in read if isinstance(w, FeatureVector)}.union(taken)
        return self.variables.room(row_bytes(v.code, self.f.lanes) * v.count, used, wanted)

    def homes_of(self, name: str) -> list[StackSlot]:
        """Returns the slots that a variable will be moved to, innermost body first."""
        homes = [places[name].slot for places in reversed(self.homes) if name in places]
        return [slot for slot in homes if slot is not None]

    def fresh(
        self, code: str, count: int, taken: Sequence[StackSlot] | set[StackSlot] = ()
    ) -> FeatureVector:
        """Returns a vector in memory of its own, for the variable that is being assigned."""
        v = FeatureVector(code, count)
        v.slot = self.room(v, taken, self.homes_of(self.target))
        return v

    def copied(self, v: FeatureVector, slot: StackSlot) -> FeatureVector:
        """Returns a copy of a vector in other memory."""
        copy = FeatureVector(v.code, v.count)
        operation = Operation(lambda f, x: x, "copy", [v])
        operation.results.append(copy)
        copy.slot = slot
        run(self.module, self.f, [operation], [copy], v.count)
        return copy

    def place(self, v: FeatureVector) -> str:
        """Returns the address of a vector's rows."""
        if v.slot is None:
            self.flush([v])
        slot: Any = v.slot
        if _is_short(v):
            rows = StackSlot(f"{slot.name}.{v.count}", row_bytes(v.code, self.f.lanes) * v.count)
            self.f.once(rows.name, f"alloca [{rows.size} x i8], align 64")
            slot = self.copied(v, rows).slot
        return slot.name

    def vector(self, e: ast.expr) -> FeatureVector:
        """An argument that is a vector."""
        return self.expr(e)[1]

    # ------------------------------------------------------------------- element-wise operations

    def apply(self, name: str, values: list[Operand]) -> Operand:
        """Translates an element-wise operation with a name; deferred if on vectors."""
        if not any(type(x) is FeatureVector for _, x in values):
            return super().apply(name, values)
        code, count, operands = self.vector_operands(values)
        held = HELD[code]
        row = self.row_of(name, held, self.f.lanes, self.contract)
        emit = row.emit
        rounds = code == "f16" and row.result == held and not OPERATIONS[name].exact

        def one(f: Function, *registers: str) -> str:
            x = emit(f, held, *registers)
            return feature_loop.rounded(f, x) if rounds else x

        result = code if row.result == held else row.result
        return self.put_off(one, (name, code), operands, [result], count)

    def select(self, m: Operand, x: Operand, y: Operand) -> Operand:
        """`select(m, x, y)`."""
        if not any(type(v) is FeatureVector for _, v in (m, x, y)):
            return super().select(m, x, y)
        count = next(v.count for _, v in (m, x, y) if type(v) is FeatureVector)
        _, _, (mask,) = self.vector_operands((m,), count)
        code, _, operands = self.vector_operands((x, y), count)

        def one(f: Function, m: str, x: str, y: str) -> str:
            return f.select(HELD[code], m, x, y)

        return self.put_off(one, ("select", code), [mask, *operands], [code], count)

    def conversion(self, to: str, value: Operand) -> Operand:
        """`T(x)`."""
        v = value[1]
        if type(v) is not FeatureVector:
            return super().conversion(to, value)
        code = v.code
        if to == code:
            return value

        def one(f: Function, x: str) -> str:
            return feature_loop.to_held(f, to, convert(f, to, HELD[code], x))

        return self.put_off(one, (to, code), [v], [to], v.count)

    def library_call(self, name: str, values: list[Operand]) -> Any:
        """A function of the library."""
        if not any(type(x) is FeatureVector for _, x in values):
            return super().library_call(name, values)
        code, count, operands = self.vector_operands(values)
        held, name = HELD[code], self.module.chosen(name, code)
        _, kinds = library_symbol(self.module, name, (held,) * len(values), self.f.lanes)

        def one(f: Function, *registers: str) -> Any:
            result = self.module.call(f, name, [(held, x) for x in registers], warm=True)
            several = result if type(result[0]) is tuple else (result,)
            found = [feature_loop.rounded(f, x) if code == "f16" else x for _, x in several]
            return found if len(found) > 1 else found[0]

        codes = [code if k == held else k for k in kinds]
        return self.put_off(one, (name, code), operands, codes, count, is_call=True)

    def vector_operands(
        self, values: Sequence[Operand], count: int = 0
    ) -> tuple[str, int, list[FeatureVector | Register]]:
        """Returns operands of one element type and number of features: scalars become registers
        shared by all features.
        """
        vectors: list[Any] = [x for _, x in values if type(x) is FeatureVector]
        code = vectors[0].code if vectors else next(c for c, _ in values if c != NUMBER)
        count = vectors[0].count if vectors else count
        f, operands = self.f, []
        for kind, x in values:
            if kind == NUMBER:
                x = number(f, code, x)  # type: ignore[arg-type]
            elif kind == "f16":
                x = self.computed(lambda f, _, y: elementwise.widen(f, y), code, x)
            operands.append(x if type(x) is FeatureVector else Register(HELD[code], x))
        return code, count, operands

    def put_off(
        self,
        emit: Callable,
        kind: Hashable,
        operands: Sequence[FeatureVector | Register],
        codes: Sequence[str],
        count: int,
        *,
        is_call: bool = False,
    ) -> Any:
        """Returns the results of an operation that is emitted later."""
        operation = Operation(emit, kind, operands, is_call=is_call)
        operation.results = [FeatureVector(code, count, operation) for code in codes]
        self.waiting.setdefault(count, []).append(operation)
        values = [spelled(v) for v in operation.results]
        return tuple(values) if len(values) > 1 else values[0]

    # ------------------------------------------------------------------------- loops over features

    def flush(self, more: Sequence[FeatureVector] = (), total: FeatureVector | None = None) -> str:
        """Emits the deferred operations: afterwards, all vectors with a name, and those in `more`,
        are in memory. Returns the sum over the features of `total`, if requested.
        """
        result = ""
        if total is not None:
            self.waiting.setdefault(total.count, [])
        while self.waiting:
            count = next(iter(self.waiting))
            operations = self.waiting[count]
            # A vector needed only for its sum has no memory.
            over = self.dying if total is not None else ()
            named = [(name, self.variables.bound(name)) for name in self.recent if name not in over]
            stored = {v: name for name, v in named if v and v.op is not None and v.count == count}
            stored |= dict.fromkeys([v for v in more if v.op and v.count == count], "")
            operations = _needed(operations, [*stored, *([total] if total else ())])
            del self.waiting[count]
            summed = total if total is not None and total.count == count else None
            product = next((o for o in operations if o.pointers), None)
            if product is not None:
                others = [o for o in operations if o is not product]
                few = len(others) <= _FOLLOWING and not any(o.is_call for o in others)
                if summed is not None or not few:
                    self._multiply(product, others, stored.pop(product.results[0], ""))
                    operations, product = others, None
            places = self._places(operations, stored, product)
            for v, slot in places.items():
                v.slot = slot
            if operations or summed is not None:
                of = list(stored)
                result = run(self.module, self.f, operations, of, count, summed) or result
            for operation in operations:
                for v in operation.results:
                    v.op = None
        self.recent.clear()
        return result

    def multiply(self, product: Operation, code: str, count: int) -> Operand:
        """Returns the result of a product, which is deferred."""
        if any(o.pointers for o in self.waiting.get(count, ())):
            self.flush()
        result = FeatureVector(code, count, product)
        product.results = [result]
        self.waiting.setdefault(count, []).append(product)
        return spelled(result)

    def _multiply(self, product: Operation, others: list[Operation], name: str) -> None:
        """Stores the result of a product that others wait for."""
        (result,) = product.results
        taken = {
            v.slot
            for o in (product, *others)
            for v in o.operands
            if type(v) is FeatureVector and v.slot
        }
        result.slot = self.room(result, taken, self.homes_of(name))
        result.op = None
        run(self.module, self.f, [product], [result], result.count)

    def _places(
        self,
        operations: list[Operation],
        stored: dict[FeatureVector, str],
        product: Operation | None,
    ) -> dict:
        """Returns memory for the results of a loop; it may replace an operand whose last use is the
        loop and whose rows have the same size.
        """
        lanes = self.f.lanes
        read: dict[StackSlot, set[int]] = {}
        for operation in operations:
            for v in operation.operands:
                if type(v) is FeatureVector and v.slot is not None:
                    read.setdefault(v.slot, set()).add(row_bytes(v.code, lanes))
        places: dict[FeatureVector, StackSlot] = {}
        for v, name in stored.items():
            size = row_bytes(v.code, lanes)
            others = {slot for slot, sizes in read.items() if sizes != {size}}
            if product is not None:
                others |= {w.slot for w in product.operands if isinstance(w, FeatureVector)}
            wanted = [*self.homes_of(name), *[slot for slot in read if slot not in others]]
            places[v] = self.room(v, others | set(places.values()), wanted)
        return places


def _needed(operations: list[Operation], wanted: list[FeatureVector]) -> list[Operation]:
    """Returns the operations that some vectors depend on."""
    needed, result = set(wanted), []
    for operation in reversed(operations):
        if not needed.isdisjoint(operation.results):
            needed.update(v for v in operation.operands if type(v) is FeatureVector)
            result.append(operation)
    return result[::-1]


def number(f: Function, code: str, x: float) -> str:
    """Returns a number in all lanes, in the register representation of features."""
    if code != "f16":
        return f.constant(code, x)
    bits = int(constant("f16", x).removeprefix("0xH"), 16)
    return f.constant("f32", struct.unpack("<e", struct.pack("<H", bits))[0])


def _is_short(v: FeatureVector) -> bool:
    """Returns whether memory holds fewer numbers than the vector has."""
    return v.slot is not None and (v.slot.uniform or v.run > 1)
