"""Code of branches, calls and barriers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drjit.jit.cuda.emulator.emit import call_parts, emitter
from drjit.jit.cuda.emulator.errors import UnknownInstruction
from drjit.jit.cuda.emulator.scope import python_name

if TYPE_CHECKING:
    from drjit.jit.cuda.emulator.translate import DecodedInstruction, FunctionWriter


@dataclass(slots=True)
class Barrier:
    """A barrier of a block, for the scheduler: which one (a number or the name of a register),
    whether all threads of a warp reach it together, and the block that follows."""

    identifier: int | str
    aligned: bool
    following: int


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
    _, target, arguments = call_parts(w, s.instruction.operands)
    if target not in w.entries:
        raise UnknownInstruction(f"the function {target} has no code")
    for k, name in enumerate(arguments):
        w.put(f"argument{k}_{w.bytes[name]} = {python_name(name)}")
    w.put(f"caller = {w.constants.name('i64', _next(w, s))}")
    w.finish(f"return {w.entries[target]}")


# ---- barriers of a block


@emitter("barrier")
def _barrier(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    """The scheduler does what a barrier does; its block has no code."""
    w.finish(f"return {_next(w, s)}")


def barrier(w: "FunctionWriter", s: "DecodedInstruction") -> Barrier:
    """A barrier for the scheduler."""
    operand = s.sources[0]
    which = operand.value if operand.kind == "integer" else w.key(operand.name)
    return Barrier(which, s.form.details["aligned"], _next(w, s))
