"""Code of branches, calls and barriers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drjit.jit.cuda.emulator.emit import EXTERNAL, call_parts, emitter
from drjit.jit.cuda.emulator.errors import UnknownInstruction
from drjit.jit.cuda.emulator.ptx_operands import PtxOperand
from drjit.jit.cuda.emulator.scope import python_name

if TYPE_CHECKING:
    from drjit.jit.cuda.emulator.translate import DecodedInstruction, FunctionWriter


@dataclass(slots=True)
class Barrier:
    """A barrier of a block, for the scheduler. Operands are numbers or names of registers."""

    identifier: int | str
    count: int | str | None
    action: str
    aligned: bool
    operation: str = ""
    predicate: int | str = 1
    negated: bool = False
    result: str = ""
    following: int = 0


# ---- control flow


def _target(w: "FunctionWriter", label: str) -> int:
    if label not in w.targets:
        raise UnknownInstruction(f"the label {label} does not exist")
    return w.skip(w.targets[label])


def _next(w: "FunctionWriter", s: "DecodedInstruction") -> int:
    position = next(k for k, other in enumerate(w.statements) if other is s)
    return w.skip(w.following(position + 1))


@emitter("branch")
def _branch(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    _go_to(w, s, _target(w, s.instruction.operands[0]))


def _go_to(w: "FunctionWriter", s: "DecodedInstruction", target: object) -> None:
    """Continues at a position, in the threads of the guard if there is one."""
    if w.guard:
        w.finish(f"return {w.guard}, {target}, {_next(w, s)}")
    else:
        w.finish(f"return {target}")


@emitter("table")
def _table(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    labels = w.function.tables.get(s.instruction.operands[1])
    if labels is None:
        raise UnknownInstruction("the list of targets does not exist")
    targets = ", ".join(str(_target(w, label)) for label in labels)
    index = w.read(s.sources[0], "u32")
    w.put(f"_0 = m.jump({index}, ({targets},))")
    w.finish("return _0")


@emitter("return")
def _return(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    if w.is_entry:
        _exit(w, s)
        return
    for k, v in enumerate(w.function.results):
        w.put(f"result{k}_{v.nbytes} = {python_name(v.name)}")
    w.put("_0 = m.go_back(back)")
    w.finish("return _0")


@emitter("exit")
def _exit(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    _go_to(w, s, w.end)


@emitter("call")
def _call(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    results, target, arguments = call_parts(w, s.instruction.operands)
    following = _next(w, s)
    names = [python_name(name) for name in arguments]
    if target.name in EXTERNAL and target.kind == "symbol":
        call = f'm.external("{target.name}", place, [{", ".join(names)}])'
        w.put(f"result0_{w.bytes[results[0]]} = {call}" if results else call)
        w.finish(f"return {following}")
        return
    for k, name in enumerate(arguments):
        w.put(f"argument{k}_{w.bytes[name]} = {python_name(name)}")
    w.put(f"caller = {w.constants.name('i64', following)}")
    if target.kind == "reg":
        w.put(f"_0 = m.function({w.read(target, 'u64')})")
        w.finish("return _0")
    elif target.name in w.entries:
        w.finish(f"return {w.entries[target.name]}")
    else:
        raise UnknownInstruction(f"the function {target.name} has no code")


# ---- barriers of a block


@emitter("barrier")
def _barrier(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    """The scheduler does what a barrier does; its block has no code."""
    w.finish(f"return {_next(w, s)}")


def barrier(w: "FunctionWriter", s: "DecodedInstruction") -> Barrier:
    """A barrier for the scheduler."""
    details = s.form.details
    sources = list(s.sources)

    def operand(o: PtxOperand) -> int | str:
        return o.value if o.kind == "integer" else w.key(o.name)

    result = Barrier(operand(sources[0]), None, details["action"], details["aligned"])
    result.following = _next(w, s)
    if details["action"] == "red":
        last = sources.pop()
        result.negated = last.kind == "not"
        result.predicate = operand(last.parts[0] if result.negated else last)
        result.operation = details["operation"]
        result.result = w.key(s.destinations[0].name)
    if len(sources) > 1:
        result.count = operand(sources[1])
    return result
