"""Statements on vectors: making them of scalars, their features, also at an index that varies
between lanes, and vectors in buffers, which are stored in blocks of lanes with one row per feature.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dtype import VECTOR_BLOCK
from . import feature_loop
from .arguments import statement
from .conversion import from_memory, to_memory
from .feature_loop import from_held, load_row, row_address, spelled, store_row, to_held
from .ir import BITS, BYTES, SCALAR, Function, Operand
from .loops import address, first_row, load_splat, loop
from .memory import gather_masked, lane_addresses, scatter_masked
from .translate import ACTIVE
from .vector import VectorTranslator
from .vector_memory import HELD, FeatureVector, StackSlot, row_code, row_type

# Minimum number of repetitions of a feature for which it is stored once.
_REPEATED = 8


@statement("type *node")
def vector(t: VectorTranslator, code: str, *features: ast.expr) -> Operand:
    """`vector(T, x0, x1, ...)`."""
    f = t.f
    words = [t.literals.get(e.id) if type(e) is ast.Name else None for e in features]
    if None not in words and BITS[HELD[code]] >= 32:
        return spelled(_uniform(t, code, words))  # type: ignore[arg-type]
    registers = [t.typed(e, code)[1] for e in features]
    run = _run(registers)
    result = FeatureVector(code, len(features))
    if run > 1:
        result.slot, result.run = t.room(FeatureVector(code, len(features) // run)), run
    else:
        result = t.fresh(code, len(features))
    place = result.slot.name  # type: ignore[union-attr]
    for k, x in enumerate(registers[::run]):
        store_row(f, code, to_held(f, code, x), row_address(f, code, place, k))
    return spelled(result)


def _run(registers: Sequence[str]) -> int:
    """Returns the number of consecutive repetitions of each feature, or 1 if it is not worth
    exploiting."""
    first = next((k for k, x in enumerate(registers) if x != registers[0]), len(registers))
    if first < _REPEATED or len(registers) % first:
        return 1
    whole = all(x == registers[k // first * first] for k, x in enumerate(registers))
    return first if whole else 1


def _uniform(t: VectorTranslator, code: str, words: list[int]) -> FeatureVector:
    """Creates a vector of literals: its features are stored contiguously once per block."""
    f, v, held = t.f, FeatureVector(code, len(words)), SCALAR[HELD[code]]
    name = f"%literals.{code}." + ".".join(map(str, words))
    v.slot = StackSlot(name, len(words) * BYTES[HELD[code]], uniform=True)
    if name in f.head:
        return v
    f.once(name, f"alloca [{len(words)} x {held}], align 64")
    for k, word in enumerate(words):
        x, place = f"%x{len(f.prologue)}", f"%x{len(f.prologue)}.p"
        f.prologue.append(
            f"{x}.l = load {SCALAR[code]}, ptr {f.word_address(word)}, align 8, !invariant.load !0"
        )
        kind = f"fpext half {x}.l to float" if code == "f16" else f"freeze {held} {x}.l"
        f.prologue.append(f"{x} = {kind}")
        f.prologue.append(f"{place} = getelementptr {held}, ptr {name}, i64 {k}")
        f.prologue.append(f"store {held} {x}, ptr {place}")
    return v


@statement("type integer operand")
def splat(t: VectorTranslator, code: str, count: int, x: str) -> Operand:
    """`splat(T, n, x)`."""
    _, _, (register,) = t.vector_operands([(code, x)], count)
    return t.put_off(lambda f, x: x, "copy", [register], [code], count)


@statement("vector integer")
def feature(t: VectorTranslator, v: FeatureVector, k: int) -> Operand:
    """`feature(v, k)`."""
    x = load_row(t.f, v.code, row_address(t.f, v.code, t.place(v), k))
    return v.code, from_held(t.f, v.code, x)


@statement("vector")
def total(t: VectorTranslator, v: FeatureVector) -> Operand:
    """`total(v)`."""
    return v.code, from_held(t.f, v.code, t.flush(total=v))


# ----------------------------------------------------------------------------------- buffers


@statement("type integer pointer lane_range")
def load_vector(t: VectorTranslator, code: str, count: int, base: str) -> Operand:
    """`load_vector(T, n, p[k], i)`."""
    f, start = t.f, first_row(t.f, code, count, base)
    how = f"align {min(64, f.lanes * BYTES[code])}"
    return _read(
        t, code, count, start, lambda p: f.op(f"load {f.types.memory[code]}, ptr {p}, {how}")
    )


@statement("type integer pointer")
def broadcast_vector(t: VectorTranslator, code: str, count: int, base: str) -> Operand:
    """`broadcast_vector(T, n, p[k])`."""
    return _read(t, code, count, base, lambda place: load_splat(t.f, code, t.f.lanes, place))


def _read(
    t: VectorTranslator, code: str, count: int, start: str, read: Callable[[str], str]
) -> Operand:
    """Returns the vector whose rows are in memory."""
    f, result = t.f, t.fresh(code, count)
    place = result.slot.name  # type: ignore[union-attr]
    with loop(f, 0, count, 1) as (k, _):
        x = from_memory(f, code, read(_memory_row(f, code, start, k)))
        store_row(f, code, to_held(f, code, x), row_address(f, code, place, k))
    return spelled(result)


@statement("type integer pointer lane_range node")
def store_vector(t: VectorTranslator, code: str, count: int, base: str, e: ast.expr) -> None:
    """`store_vector(T, n, p[k], i, v)`, where a number stands for every feature."""
    f, start, (_, v) = t.f, first_row(t.f, code, count, base), t.expr(e)
    place = t.place(v) if type(v) is FeatureVector else ""
    x = "" if place else t.typed(e, code)[1]
    how = f"align {min(64, f.lanes * BYTES[code])}"
    with loop(f, 0, count, 1) as (k, _):
        if place:
            x = from_held(f, code, load_row(f, code, row_address(f, code, place, k)))
        target = _memory_row(f, code, start, k)
        f.do(f"store {f.types.memory[code]} {to_memory(f, code, x)}, ptr {target}, {how}")


def _memory_row(f: Function, code: str, start: str, k: str) -> str:
    return address(f, code, start, f.op(f"mul i64 {k}, {VECTOR_BLOCK}"))


# ------------------------------------------------------------ features at an index of each lane


def _goes_by_rows(f: Function, v: FeatureVector) -> bool:
    """Returns whether all rows are read and written: for few features, and for somewhat more with
    the masks and the many registers of AVX-512."""
    return v.count <= (8 if f.machine.has_gathers else 4)


def _is(f: Function, index: str, k: int) -> str:
    """Returns the lanes whose index equals a number."""
    return f.op(f"icmp eq {f.vector['u32']} {index}, {f.constant('u32', k)}")


def _position(f: Function, index: str) -> Operand:
    """Returns the position of each lane's feature, in elements."""
    kind = f.vector["u32"]
    first = f.op(f"mul {kind} {index}, {f.constant('u32', f.lanes)}")
    return "u32", f.op(f"add {kind} {first}, <{f.types.iota}>")


@statement("vector node mask")
def take(t: VectorTranslator, v: FeatureVector, x: ast.expr, mask: str) -> Operand:
    """`take(v, x, m)`."""
    f, (_, index), held = t.f, t.typed(x, "u32"), HELD[v.code]
    place = t.place(v)
    if _goes_by_rows(t.f, v):
        result = load_row(f, v.code, place)
        for k in range(1, v.count):
            here = _is(f, index, k)
            row = load_row(f, v.code, row_address(f, v.code, place, k))
            result = f.select(held, here, row, result)
        if mask != ACTIVE:
            result = f.select(held, mask, result)
    else:
        result = gather_masked(f, row_code(v.code), place, _position(f, index), mask)
        result = feature_loop.from_row(f, v.code, result)
    return v.code, from_held(f, v.code, result)


@statement("node node node mask")
def put(t: VectorTranslator, e: ast.expr, x: ast.expr, y: ast.expr, mask: str) -> Operand:
    """`put(v, x, y, m)`: in place if nothing needs the previous vector."""
    f, v = t.f, t.vector(e)
    value = to_held(f, v.code, t.typed(y, v.code)[1])
    constant = t.integer(x) if type(x) is ast.Constant else None
    index = t.typed(x, "u32")[1] if constant is None else ""
    result = _own(t, e, v)
    place = t.place(result)
    if constant is not None:
        _replace(f, v, row_address(f, v.code, place, constant), value, mask)
    elif _goes_by_rows(t.f, v):
        for k in range(v.count):
            here = f.op(f"and {f.vector['mask']} {_is(f, index, k)}, {mask}")
            _replace(f, v, row_address(f, v.code, place, k), value, here)
    else:
        row = feature_loop.to_row(f, v.code, value)
        _scatter(f, v, place, row, _position(f, index), mask)
    return spelled(result)


def _scatter(
    f: Function, v: FeatureVector, place: str, row: str, index: Operand, mask: str
) -> None:
    """Stores the feature at a position. Without an instruction for that, lanes that are not in the
    mask store theirs too, to the row that follows the vector."""
    code = row_code(v.code)
    if f.machine.has_gathers:
        scatter_masked(f, code, place, row, index, mask)
        return
    spare = _position(f, f.constant("u32", v.count))
    index = "u32", f.select("u32", mask, index[1], spare[1])
    for k, to in enumerate(lane_addresses(f, SCALAR[code], place, index)):
        x = f.op(f"extractelement {row_type(code, f.lanes)} {row}, i32 {k}")
        f.do(f"store {SCALAR[code]} {x}, ptr {to}, align {BYTES[code]}")


def _own(t: VectorTranslator, e: ast.expr, v: FeatureVector) -> FeatureVector:
    """Returns a vector that can be changed, with the features of another one: in its memory, if
    nothing else needs that, or in a copy."""
    t.flush([v])
    slot: Any = v.slot
    name = e.id if type(e) is ast.Name else ""
    if name in t.dying and not slot.uniform and slot.holders <= 1:
        result = FeatureVector(v.code, v.count)
        result.slot = slot
        return result
    return t.copied(v, t.room(v, (), t.homes_of(t.target)))


def _replace(f: Function, v: FeatureVector, row: str, value: str, mask: str) -> None:
    """Replaces a feature in the lanes of a mask; the other lanes may become anything if it is the
    mask of the active lanes."""
    if mask != ACTIVE:
        held, before = HELD[v.code], load_row(f, v.code, row)
        if not f.machine.has_gathers:
            # Else LLVM would make a masked store of it, which takes processors of AMD many times
            # as long before AVX-512.
            before = f.op(f"freeze {f.vector[held]} {before}")
        value = f.select(held, mask, value, before)
    store_row(f, v.code, value, row)
