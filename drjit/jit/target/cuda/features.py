"""Vectors in registers, which hold two features each, and their element-wise operations.

There are two forms. In the *own* form, a thread has the features of its lane, in order. In the form
of *fragments*, the features of the 32 lanes of a warp are spread over its threads, as instructions
for products need and return them (see `fragments`). Element-wise operations work on any form, one
register after the other. They are emitted where a register is first needed.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..simd.feature_loop import from_held, load_row, row_address, spelled, store_row, to_held
from ..simd.ir import NUMBER, Operand
from ..simd.vector import VectorTranslator
from ..simd.vector_memory import FeatureVector
from . import fragments, pairs, shelf
from .plan import OWN, KernelPlan
from .translate import OneThread

# Operations that are put off after each other: then they are emitted.
_DEEPEST = 64

# Operations of an instruction or two, which are rather repeated than kept.
_SHORT = frozenset(
    ("abs", "add", "and_", "eq", "fma", "ge", "gt", "le", "lt", "maximum", "minimum", "mul", "ne",
     "neg", "not_", "or_", "sub", "xor")
)  # fmt: skip


class Scalar(NamedTuple):
    """An operand that stands for all features of a lane."""

    code: str
    name: str


class Pending:
    """An operation that is emitted register by register, and `short` if it may be repeated."""

    __slots__ = ("emit", "operands", "results", "short")

    def __init__(
        self,
        emit: Callable[..., Any],
        operands: Sequence["GpuVector | Scalar"],
        short: bool = False,
    ):
        self.emit, self.operands, self.short = emit, operands, short
        self.results: list[GpuVector] = []

    @property
    def is_splat(self) -> bool:
        """Whether the results are the same for all features: then any form is equally good."""
        return all(type(v) is Scalar for v in self.operands)


class GpuVector:
    """A vector in registers: element type, number of features, and its registers in one or both
    forms. Names of registers that are not there yet are empty. `form` is the form in which the
    vector is computed, `op` the operation that computes it, and `depth` the length of the chain of
    operations that wait for each other. `shelf` says where shared memory holds registers of this
    form, by fours.
    """

    __slots__ = ("code", "count", "depth", "form", "forms", "op", "shelf")

    def __init__(self, code: str, count: int, form: str, registers: Sequence[str] = ()):
        self.code, self.count, self.form = code, count, form
        self.forms: dict[str, list[str]] = {form: list(registers)}
        self.op: Pending | None = None
        self.depth = 0
        self.shelf: dict[int, int] = {}

    @property
    def value(self) -> Operand:
        """The vector as an operand."""
        return f"{self.code}x{self.count}", self  # type: ignore[return-value]


def size(count: int, form: str) -> int:
    """Returns the number of registers for some features."""
    return -(-count // 2) if form == OWN else 4 * -(-count // 8)


class _Scope:
    """What is known within a body: the vectors that it assigns, scalars as registers of vectors,
    and registers that were computed there."""

    __slots__ = ("assigned", "filled", "twice")

    def __init__(self, assigned: list[str]):
        self.assigned = assigned
        self.twice: dict[tuple, list[str]] = {}
        self.filled: list[tuple[list[str], int]] = []


class FeatureTranslator(OneThread, VectorTranslator):
    """The part of a translator that keeps vectors in registers."""

    def __init__(self, plan: KernelPlan, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.plan = plan
        # What adds up sums over lanes after the lanes of a thread.
        self.flushes: list[Callable[[], None]] = []
        self.scopes = [_Scope([])]
        self.uniform: set[str] = set()  # values that are the same for all lanes, besides the head
        self.reached = 0  # of the statement at the top level

    # -------------------------------------------------------------------------------- registers

    def register(self, v: GpuVector, form: str, k: int) -> str:
        """Returns a register of a vector."""
        found = v.forms.setdefault(form, [""] * size(v.count, form))
        if not found[k]:
            if form == v.form and k // 4 in v.shelf:
                shelf.fetch(self, v, k // 4)
            elif v.op is not None and (form == v.form or v.op.is_splat):
                self._emit(v.op, form, k)
            elif form == OWN:
                fragments.unpack(self, v, range(-(-v.count // 8)))
            else:
                for j, x in enumerate(fragments.spread(self, v)):
                    self.fill(v, form, j, x)
        return found[k]

    def fill(self, v: GpuVector, form: str, k: int, x: str) -> None:
        """Sets a register of a vector for the current body."""
        found = v.forms.setdefault(form, [""] * size(v.count, form))
        found[k] = x
        self.scopes[-1].filled.append((found, k))

    def all_registers(self, v: GpuVector, form: str) -> list[str]:
        """Returns all registers of a vector."""
        return [self.register(v, form, k) for k in range(size(v.count, form))]

    def _emit(self, op: Pending, form: str, k: int) -> None:
        """Emits an operation for one register."""
        operands = []
        for v in op.operands:
            if type(v) is Scalar:
                operands.append(self.twice(v, form, k, op.results[0].count))
            else:
                operands.append(self.register(v, form, k))  # type: ignore[arg-type]
        found = op.emit(self.f, *operands)
        several = found if len(op.results) > 1 else [found]
        for v, x in zip(op.results, several, strict=True):
            self.fill(v, form, k, x)

    def twice(self, s: Scalar, form: str, k: int, count: int) -> str:
        """Returns a scalar as a pair, for a register of a vector."""
        f, (code, x) = self.f, s
        is_uniform = x in f.head or x in self.uniform or x[0] != "%"
        key = code, x, is_uniform or form == OWN
        found = next((s.twice[key] for s in self.scopes if key in s.twice), None)
        if found is None:
            found = [pairs.twice(f, code, x)] * 4 if key[2] else fragments.rows_of(self.c, code, x)
            self.scopes[-1].twice[key] = found
        return found[0 if form == OWN else fragments.row(k, count)]

    def force(self, v: GpuVector) -> None:
        """Emits what a vector needs, in the form in which it was made."""
        self.all_registers(v, v.form)
        if v.op is not None and not v.op.is_splat:
            v.op = None
        v.depth = 0
        v.shelf = {}

    def forget(self, *kept: GpuVector) -> None:
        """Before an operation of the warp or the block: drops element-wise results other than its
        operands, if registers are scarce. They are computed again where they are needed next, from
        vectors that LLVM does not recognize as the same."""
        if not self.plan.is_crowded or len(self.scopes) > 1:
            return
        shelf.fill(self, kept)
        sources: dict[GpuVector, None] = {}
        for _, v in self.f.variables.values():
            if type(v) is GpuVector:
                self._forget(v, kept, sources)
        for v in sources:
            for registers in v.forms.values():
                registers[:] = [x and pairs.disguised(self.f, v.code, x) for x in registers]

    def _forget(
        self, v: GpuVector, kept: Sequence[GpuVector], sources: dict[GpuVector, None]
    ) -> None:
        """Drops a result and those that it is computed from, and collects the others of these."""
        if v.op is None or not v.op.short or v in kept or not any(v.forms[v.form]):
            return
        v.forms[v.form] = [""] * size(v.count, v.form)
        for x in v.op.operands:
            if type(x) is GpuVector:
                self._forget(x, kept, sources)
                if any(x.forms[x.form]) and pairs.SIZE[x.code] in (2, 4):
                    sources[x] = None

    def in_form(self, v: GpuVector, form: str) -> GpuVector:
        """Returns a vector with registers of one form only."""
        return GpuVector(v.code, v.count, form, self.all_registers(v, form))

    # ----------------------------------------------------------------------------------- bodies

    def statement(self, s: ast.stmt) -> None:
        """Translates a statement."""
        self.reached = self.plan.numbers.get(id(s), self.reached)
        super().statement(s)

    def registers(self, value: Operand) -> list[tuple[str, str]]:
        """Returns the registers of a value, each with its type."""
        v: Any = value[1]
        if type(v) is not GpuVector:
            return super().registers(value)
        return [(pairs.kind(v.code), x) for x in self.all_registers(v, v.form)]

    def of_registers(self, like: Operand, registers: list[str]) -> Operand:
        """Returns the value in other registers."""
        v: Any = like[1]
        if type(v) is not GpuVector:
            return super().of_registers(like, registers)
        return GpuVector(v.code, v.count, v.form, registers).value

    def enter(self, statements: list[ast.stmt]) -> list[str]:
        """Before a body: emits what has been put off, and brings vectors that the body assigns into
        the form in which code paths merge them."""
        names = super().enter(statements)
        for _, v in list(self.variables.values()):
            if type(v) is GpuVector:
                self.force(v)
        names_before = [name for name in names if name in self.variables]
        for name in names_before:
            self._merged(name)
        self.scopes.append(_Scope(names_before))
        return names

    def leave_body(self) -> None:
        """At the end of a body: brings the vectors that it assigned into the form for merging."""
        super().leave_body()
        for name in self.scopes[-1].assigned:
            self._merged(name)
        for found, k in self.scopes.pop().filled:
            found[k] = ""

    def _merged(self, name: str) -> None:
        _, v = self.variables.get(name, (None, None))
        if type(v) is GpuVector:
            self.variables[name] = self.in_form(v, self.plan.form(name)).value

    # ------------------------------------------------------------- vectors in memory and registers

    def features(self, e: ast.expr) -> GpuVector:
        """An argument that is a vector, in registers."""
        v = self.expr(e)[1]
        return v if type(v) is GpuVector else self.reloaded(v)

    def vector(self, e: ast.expr) -> FeatureVector:
        """An argument that is a vector, in memory."""
        v = self.expr(e)[1]
        return self.spilled(v) if type(v) is GpuVector else v

    def reloaded(self, v: FeatureVector) -> GpuVector:
        """Returns a vector in memory as one of registers."""
        f, place, parts = self.f, self.place(v), []
        for k in range(v.count):
            x = load_row(f, v.code, row_address(f, v.code, place, k))
            parts.append(from_held(f, v.code, x))
        return self.of_scalars(v.code, parts)

    def spilled(self, v: GpuVector) -> FeatureVector:
        """Returns a vector of registers as one in memory."""
        f, result = self.f, self.fresh(v.code, v.count)
        place = result.slot.name  # type: ignore[union-attr]
        for k in range(v.count):
            x = to_held(f, v.code, self.feature_of(v, k))
            store_row(f, v.code, x, row_address(f, v.code, place, k))
        return result

    def of_scalars(self, code: str, parts: Sequence[str]) -> GpuVector:
        """Returns the vector of some scalars."""
        f, registers = self.f, []
        for k in range(0, len(parts), 2):
            if k + 1 < len(parts) and parts[k] != parts[k + 1]:
                registers.append(pairs.pair(f, code, parts[k], parts[k + 1]))
            else:
                registers.append(pairs.twice(f, code, parts[k]))
        return GpuVector(code, len(parts), OWN, registers)

    def feature_of(self, v: GpuVector, k: int) -> str:
        """Returns a feature as a scalar."""
        return pairs.part(self.f, v.code, self.register(v, OWN, k // 2), k % 2)

    # -------------------------------------------------------------------------- element-wise

    def _is_here(self, values: Sequence[Operand]) -> bool:
        """Whether an operation on vectors is one on registers."""
        return any(type(x) is GpuVector for _, x in values) and not self.plan.in_memory(self.target)

    def _in_memory(self, values: Sequence[Operand]) -> list[Operand]:
        """Returns operands of an operation on memory."""
        return [spelled(self.spilled(x)) if type(x) is GpuVector else (c, x) for c, x in values]

    def apply(self, name: str, values: list[Operand]) -> Operand:
        """Translates an element-wise operation with a name."""
        if not self._is_here(values):
            return super().apply(name, self._in_memory(values))
        code, operands = self._operands(values)
        result, emit = pairs.row(name, code, self.contract)
        return self._put_off(emit, operands, [result], name in _SHORT)

    def select(self, m: Operand, x: Operand, y: Operand) -> Operand:
        """`select(m, x, y)`."""
        if not self._is_here((m, x, y)):
            return super().select(*self._in_memory((m, x, y)))
        _, mask = self._operands([m])
        code, chosen = self._operands([x, y])

        def one(f: Any, m: str, x: str, y: str) -> str:
            return pairs.select(f, code, m, x, y)

        return self._put_off(one, [*mask, *chosen], [code], True)

    def conversion(self, to: str, value: Operand) -> Operand:
        """`T(x)`."""
        if not self._is_here([value]):
            return super().conversion(to, *self._in_memory([value]))
        v: Any = value[1]
        if to == v.code:
            return value
        return self._put_off(lambda f, x: pairs.converted(f, to, v.code, x), [v], [to])

    def library_call(self, name: str, values: list[Operand]) -> Any:
        """A function of the library, called for one feature after the other."""
        if not self._is_here(values):
            return super().library_call(name, self._in_memory(values))
        code, operands = self._operands(values)
        several = self.results_of_call(name, code, len(values))

        def one(f: Any, *registers: str) -> Any:
            found = []
            for k in range(2):
                arguments = [(code, pairs.part(f, code, x, k)) for x in registers]
                result = self.module.call(f, name, arguments, warm=True)
                found.append([result] if type(result[0]) is str else result)
            joined = [pairs.pair(f, kind, x, y) for (kind, x), (_, y) in zip(*found, strict=True)]
            return joined if len(joined) > 1 else joined[0]

        return self._put_off(one, operands, several)

    def results_of_call(self, name: str, code: str, arity: int) -> list[str]:
        """Returns the types of the results of a function of the library."""
        from ..simd.module import library_symbol

        held = "f32" if code == "f16" else code
        name = self.module.chosen(name, code)
        _, kinds = library_symbol(self.module, name, (held,) * arity, 1)
        return [code if k == held else k for k in kinds]

    def _operands(self, values: Sequence[Operand]) -> tuple[str, list[GpuVector | Scalar]]:
        """Returns operands and their element type, which numbers take."""
        code = next(getattr(x, "code", c) for c, x in values if c != NUMBER)
        operands: list[GpuVector | Scalar] = []
        for kind, x in values:
            if type(x) is FeatureVector:
                operands.append(self.reloaded(x))
            elif type(x) is GpuVector:
                operands.append(x)
            else:
                x = self.f.constant(code, x) if kind == NUMBER else x  # type: ignore[arg-type]
                operands.append(Scalar(code, x))
        return code, operands

    def _put_off(
        self, emit: Callable[..., Any], operands: Sequence[GpuVector | Scalar],
        codes: Sequence[str], short: bool = False,
    ) -> Any:  # fmt: skip
        """Returns the results of an operation that is emitted later."""
        vectors = [v for v in operands if type(v) is GpuVector]
        depth = 1 + max(v.depth for v in vectors)
        if depth > _DEEPEST:
            for v in vectors:
                self.force(v)
            depth = 1
        forms = {v.form for v in vectors}
        form = forms.pop() if len(forms) == 1 else self.plan.form(self.target)
        operation = Pending(emit, operands, short)
        count = vectors[0].count
        for code in codes:
            v = GpuVector(code, count, form, [""] * size(count, form))
            v.op, v.depth = operation, depth
            operation.results.append(v)
        found = [v.value for v in operation.results]
        return tuple(found) if len(found) > 1 else found[0]
