"""Calls of functions that another compiler made: one active lane after the other.

Arguments and results are in memory on the stack, from where each active lane takes its own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..foreign import ForeignFunction
from .conversion import from_memory, to_memory
from .ir import BYTES, MEMORY, Function, Operand
from .loops import during

if TYPE_CHECKING:
    from .translate import Translator


def call(t: "Translator", function: ForeignFunction, values: Sequence[Operand]) -> list[Operand]:
    """Emits the call of a function, whose last operand is the mask of the lanes, and returns the
    results, 0 in the other lanes."""
    f, module = t.f, t.module
    module.vectorizes |= function.total and f.lanes > 1
    symbol = module.routine(
        f"lanes.{function.name}",
        [f.vector[code] for code, _ in values],
        lambda g: (_all if function.total else _lanes)(g, function, module.foreign(function)),
        f.result_type(function.returned),
        function,
    )
    operands = [f"{f.vector[code]} {x}" for code, x in values]
    return f.call(symbol, operands, function.returned)


def _lanes(f: Function, function: ForeignFunction, symbol: str) -> str:
    """Writes the loop over the active lanes and returns the results."""
    arguments, returned = function.arguments, function.returned
    bits = f.bits(f"%{len(arguments)}")
    given, made = _places(f, function)
    for code, place in zip(returned, made, strict=True):
        _store(f, code, "zeroinitializer", place)
    of = f"i{f.lanes}"
    with during(f, lambda names: f.op(f"icmp ne {of} {names[0]}, 0"), [(of, bits)]) as left:
        lane = "0"
        if f.lanes > 1:
            lane = f.widened(f.op(f"call {of} @llvm.cttz.{of}({of} {left[0]}, i1 true)"))
        status = _call(f, function, symbol, given, made, lane)
        if function.errors:
            f.do(f"store i32 {status}, ptr {_of_lane(f, 'u32', made[-1], lane)}")
        lower = f.op(f"sub {of} {left[0]}, 1")
        left[0] = f.op(f"and {of} {left[0]}, {lower}") if f.lanes > 1 else "0"
    return _results(f, function, made)


def _all(f: Function, function: ForeignFunction, symbol: str) -> str:
    """Writes the loop over all lanes, which LLVM turns into operations on packets, and returns the
    results of the active ones."""
    given, made = _places(f, function)
    start, head, done = f.block, f.new_block(), f.new_block()
    f.do(f"br label %{head}")
    f.start(head)
    f.do(f"%lane = phi i64 [0, %{start}], [%next, %{head}]")
    _call(f, function, symbol, given, made, "%lane")
    f.do("%next = add nuw nsw i64 %lane, 1")
    f.branch(f.op(f"icmp ult i64 %next, {f.lanes}"), head, done)
    f.start(done)
    return _results(f, function, made, f"%{len(given)}")


def _call(
    f: Function,
    function: ForeignFunction,
    symbol: str,
    given: Sequence[str],
    made: Sequence[str],
    lane: str,
) -> str:
    """Emits the call for a lane; returns the number of an exception."""
    results = zip(function.results, made, strict=False)
    operands = [f"ptr {_of_lane(f, c, place, lane)}" for c, place in results]
    for code, place in zip(function.arguments, given, strict=True):
        x = f.op(f"load {MEMORY[code]}, ptr {_of_lane(f, code, place, lane)}")
        operands.append(f"{MEMORY[code]} {x}")
    return f.op(f"call i32 {symbol}({', '.join(operands)})")


def _places(f: Function, function: ForeignFunction) -> tuple[list[str], list[str]]:
    """Stores the arguments; returns where they and the results are."""
    given = [_place(f, code, f"arg{k}") for k, code in enumerate(function.arguments)]
    made = [_place(f, code, f"result{k}") for k, code in enumerate(function.returned)]
    for k, (code, place) in enumerate(zip(function.arguments, given, strict=True)):
        _store(f, code, to_memory(f, code, f"%{k}"), place)
    return given, made


def _results(
    f: Function, function: ForeignFunction, made: Sequence[str], mask: str | None = None
) -> str:
    """Returns the results, of the lanes of a mask if there is one."""
    values = []
    for code, place in zip(function.returned, made, strict=True):
        x = from_memory(f, code, f.op(f"load {f.types.memory[code]}, ptr {place}, align 64"))
        values.append((code, f.select(code, mask, x) if mask else x))
    return f.combined(values)


def _place(f: Any, code: str, name: str) -> str:
    return f.once(f"%{name}", f"alloca {f.types.memory[code]}, align 64")


def _store(f: Function, code: str, x: str, place: str) -> None:
    f.do(f"store {f.types.memory[code]} {x}, ptr {place}, align 64")


def _of_lane(f: Function, code: str, place: str, lane: str) -> str:
    """Returns the address of a lane's element."""
    if f.lanes == 1:
        return place
    return f.op(f"getelementptr i{8 * BYTES[code]}, ptr {place}, i64 {lane}")
