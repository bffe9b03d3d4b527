"""Code of instructions that are more than an expression: memory, branches, calls, barriers.

`EMITTERS[kind]` is called with the writer of the function and the statement. `hidden` says what an
instruction uses besides its operands, such as the threads' places.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import UnknownInstruction
from .forms import Form, width
from .ptx_operands import PtxOperand, flatten

if TYPE_CHECKING:
    from .translate import DecodedInstruction, FunctionWriter

Emitter = Callable[["FunctionWriter", "DecodedInstruction"], None]
EMITTERS: dict[str, Emitter] = {}


def emitter(kind: str) -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        EMITTERS[kind] = function
        return function

    return register


def hidden(w: "FunctionWriter", f: Form, operands: list[str]) -> tuple[list[str], list[str]]:
    """Names that an instruction uses, and those that it defines, besides its registers."""
    kind = f.kind
    if kind in ("load", "store"):
        address = w.names.operand(operands[0 if kind == "store" else 1])
        return ([] if _space(w, f, address) == "global" else ["place"]), []
    if kind in ("atomic", "async_copy") or f.uses_place:
        return ["place"], []
    if kind == "cvta" and f.details["space"] in ("shared", "local"):
        if f.details["to"] == "cvta":
            w.layout.windows = True
        return ["place"], []
    if kind == "call":
        return [], _hidden_call(w, operands)
    return (["back"] if kind == "return" and not w.is_entry else []), []


def _hidden_call(w: "FunctionWriter", operands: list[str]) -> list[str]:
    """The register with the block to which a function returns. The arguments and results of the
    call are the parameters and results of the function, as no function is called by itself."""
    results, target, arguments = _call_parts(w, operands)
    called = w.program.functions.get(target)
    if called is None or called.code is None:
        raise UnknownInstruction(f"the function {target} has no code")
    variables = zip((*results, *arguments), (*called.results, *called.parameters), strict=False)
    w.slots |= {name: f"{target}.{v.name}" for name, v in variables}
    w.calls.append(target)
    return [f"@{target}.back"]


def _call_parts(w: "FunctionWriter", operands: list[str]) -> tuple[list[str], str, list[str]]:
    """Names of results, the function, and names of arguments of `call`."""
    parts = [w.names.operand(o) for o in operands[:3]]
    results = [p.name for p in parts.pop(0).parts] if parts[0].kind == "list" else []
    arguments = [p.name for p in parts[1].parts] if len(parts) > 1 else []
    return results, parts[0].name, arguments


# ---- addresses


def address(w: "FunctionWriter", operand: PtxOperand) -> tuple[str, int]:
    """The expression of the base of an address, and the offset."""
    base, offset = operand.parts[0], operand.value
    if base.kind == "reg":
        return w.register(base.name, f"u{w.names.widths[base.name]}"), offset
    if base.kind == "integer":
        return w.constants.name("u64", base.value), offset
    text, more = symbol(w, base)
    return text, offset + more


def symbol(w: "FunctionWriter", base: PtxOperand) -> tuple[str, int]:
    """The address of a variable or parameter: an expression and an offset."""
    name, layout = base.name, w.layout
    slot = w.slots.get(name, w.prefix + name)
    variable = w.program.variables.get(name)
    for table, key in ((layout.local, slot), (layout.shared, name)):
        if key in table:
            return w.constants.name("u64", 0), table[key] + base.value
    if variable is not None:
        return f'm.address("{name}")', base.value
    if name in w.parameter_offsets:
        return "m.parameters_address", w.parameter_offsets[name] + base.value
    raise UnknownInstruction(f"{name} is not declared")


@emitter("mov")
def _move(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    destination, source = s.destinations[0], s.sources[0]
    bits = width(s.form.results[0].replace("b", "u"))
    if destination.kind == "vector":
        small = bits // len(destination.parts)
        w.put(f"_0 = {w.read(source, f'b{bits}', f'u{bits}')}")
        for k, element in enumerate(destination.parts):
            w.assign(element, f"part(_0, u{small}, {k})", f"u{small}")
        return
    if source.kind == "vector":
        small = bits // len(source.parts)
        parts = [w.read(part, f"b{small}", f"u{small}") for part in source.parts]
        w.assign(destination, f"join(u{bits}, {', '.join(parts)})", f"u{bits}")
        return
    if source.kind == "symbol":
        text, offset = symbol(w, source)
        if offset:
            constant = w.constants.name("u64", offset)
            text = constant if text == "u64_0" else f"{text} + {constant}"
        kind = f"u{bits}"
        w.assign(destination, text if bits == 64 else f"({text}).astype({kind})", kind)
        return
    w.expression(s)


@emitter("cvta")
def _convert_address(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    kind = s.form.results[0]
    space = s.form.details["space"]
    source = s.sources[0]
    if source.kind == "symbol":
        text, offset = symbol(w, source)
        text = f"({text} + {w.constants.name('u64', offset)})" if offset else text
    else:
        text = w.read(source, kind)
    if space in ("shared", "local"):
        w.assign(s.destinations[0], f'm.{s.form.details["to"]}(place, "{space}", {text})', "u64")
    else:
        w.assign(s.destinations[0], text, kind)


# ---- memory


def _space(w: "FunctionWriter", f: Form, address: PtxOperand) -> str:
    """The space of an access, or "" if the address tells which. Parameters of functions are in
    local memory, those of the kernel are not."""
    space = f.details["space"]
    if space == "param":
        is_local = not w.is_entry or address.parts[0].name in w.function.variables
        return "local" if is_local else "global"
    return "global" if space == "const" else space


def _where(w: "FunctionWriter", f: Form, address: PtxOperand) -> str:
    """Further arguments of a call of the machine, which say to what space an access goes."""
    space = _space(w, f, address)
    if space == "global" or (space == "" and not w.layout.windows):
        return ', space="global", place=place' if f.kind == "atomic" else ""
    return f', space="{space}", place=place' + ", strong=True" * f.details.get("strong", False)


@emitter("load")
def _load(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    f, operand = s.form, s.sources[0]
    elements = flatten(s.destinations[0])
    element, count = f.results[0], len(elements)
    bits = int(element[1:])
    kind = ("u" if element[0] == "b" else element[0]) + str(bits)
    homes = {w.names.home[e.name] for e in elements if e.kind == "reg"}
    if len(homes) == 1 and width(home := next(iter(homes))) == bits:
        kind = home
    at, offset = address(w, operand)
    if at == "m.parameters_address":
        for k, e in enumerate(elements):
            w.assign(e, f"m.parameter({offset + k * bits // 8}, {kind})", kind)
        return
    text = f"m.load({at}, {offset}, {kind}" + (f", {count}" if count > 1 else "")
    w.assign_all(elements, f"{text}{_where(w, f, operand)})", [kind])


@emitter("store")
def _store(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    f, operand = s.form, s.sources[0]
    values = flatten(s.sources[1])
    kinds = {w.names.home[v.name] if v.kind == "reg" else "" for v in values}
    texts = [_stored(w, value, int(f.sources[1][1:]), len(kinds) == 1) for value in values]
    stored = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    at, offset = address(w, operand)
    if at == "m.parameters_address":
        raise UnknownInstruction("a store to parameters of the kernel")
    w.put(f"m.store({at}, {offset}, {stored}{_where(w, f, operand)})")


def _stored(w: "FunctionWriter", value: PtxOperand, bits: int, as_it_is: bool) -> str:
    """A value to be written: in its home, if it has the right size."""
    native = f"u{bits}"
    if as_it_is and value.kind == "reg" and w.names.widths[value.name] == bits:
        native = w.names.home[value.name]
    if value.kind == "float":
        native = value.name if bits == width(value.name) else f"f{bits}"
    return w.read(value, f"b{bits}", native)


@emitter("atomic")
def _atomic(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    f = s.form
    element = f.sources[1]
    native = element.replace("b", "u")
    # A compiler names a register for the old value even where nobody reads it.
    returns = any(name in w.read_somewhere for name in s.defines)
    base, offset = address(w, s.sources[0])
    where = _where(w, f, s.sources[0])
    operands = [flatten(source) for source in s.sources[1:] if source.kind != "symbol"]
    if f.details["operation"] != "cas":
        operands = operands[:1]
    for k in range(f.details["count"]):
        values = ", ".join(w.read(operand[k], element, native) for operand in operands)
        at = offset + k * width(native) // 8
        operation = f.details["operation"]
        text = f'm.atomic("{operation}", {base}, {at}, ({values},), {returns}{where})'
        if returns:
            w.assign(flatten(s.destinations[0])[k], text, native)
        else:
            w.put(text)


@emitter("nothing")
def _nothing(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    pass


@emitter("async_copy")
def _async_copy(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    to, offset = address(w, s.sources[0])
    source, more = address(w, s.sources[1])
    size = s.sources[2].value
    read_size = "None"
    if len(s.sources) > 3 and s.sources[3].kind in ("reg", "integer"):
        read_size = w.read(s.sources[3], "u32")
    w.put(f"m.async_copy(place, {to}, {offset}, {source}, {more}, {size}, {read_size})")


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
    w.finish("return m.go_to_blocks(back)")


@emitter("exit")
def _exit(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    _go_to(w, s, w.end)


@emitter("call")
def _call(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    _, target, _ = _call_parts(w, s.instruction.operands)
    w.put(f"caller = {w.constants.name('i64', _next(w, s))}")
    w.finish(f"return {w.entries[target]}")


@emitter("barrier")
def _barrier(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    """The scheduler performs the barrier; its block only says which one follows."""
    w.finish(f"return {_next(w, s)}")
