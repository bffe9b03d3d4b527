"""Code of instructions that are more than an expression: memory, calls, branches, warps.

`EMITTERS[kind]` is called with the writer of the function and the statement. What an instruction
uses beside its operands (parameters in `.param` space, the threads' places) is in `hidden`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from drjit.jit.cuda.emulator.errors import UnknownInstruction
from drjit.jit.cuda.emulator.forms import Form, width
from drjit.jit.cuda.emulator.ptx_operands import PtxOperand, flatten
from drjit.jit.cuda.emulator.scope import python_name

if TYPE_CHECKING:
    from drjit.jit.cuda.emulator.translate import DecodedInstruction, FunctionWriter

Emitter = Callable[["FunctionWriter", "DecodedInstruction"], None]
EMITTERS: dict[str, Emitter] = {}


def emitter(kind: str) -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        EMITTERS[kind] = function
        return function

    return register


def hidden(w: "FunctionWriter", f: Form, operands: list[str]) -> tuple[list[str], list[str]]:
    """Names that an instruction uses and defines beside its registers."""
    kind = f.kind
    if kind in ("load", "store"):
        space = f.details["space"]
        if space == "param":
            text = operands[0 if kind == "store" else 1]
            name = _bytes_name(w, w.names.operand(text).parts[0])
            if name is not None:
                return [name], [name] if kind == "store" else []
            return [], []
        return (["place"], []) if space in ("shared", "local", "") else ([], [])
    if kind in ("atomic", "async_copy") or f.uses_place:
        return ["place"], []
    if kind == "mov":
        _spill(w, w.names.operand(operands[1]))
    elif kind == "cvta" and f.details["space"] in ("shared", "local"):
        if f.details["to"] == "cvta":
            w.layout.windows = True
        return ["place"], []
    elif kind == "call":
        return _hidden_call(w, operands)
    elif kind == "return" and not w.is_entry:
        results = w.function.results
        defines = [f"@result{k}_{v.nbytes}" for k, v in enumerate(results)]
        return ["back", *(python_name(v.name) for v in results)], defines
    return [], []


def _bytes_name(w: "FunctionWriter", base: PtxOperand) -> str | None:
    """The register that holds a parameter of a call; None for memory."""
    if base.kind != "symbol" or base.name not in w.bytes:
        return None
    return w.results.get(base.name, python_name(base.name))


def _spill(w: "FunctionWriter", operand: PtxOperand) -> None:
    """A parameter of a device function whose address is taken is copied to local memory."""
    if w.is_entry or operand.kind != "symbol" or operand.name in w.spilled:
        return
    for variable in w.function.parameters:
        if variable.name == operand.name:
            w.spilled.append(variable.name)
            w.layout.add_local(w.prefix + variable.name, variable)


def _hidden_call(w: "FunctionWriter", operands: list[str]) -> tuple[list[str], list[str]]:
    results, target, arguments = call_parts(w, operands)
    for k, name in enumerate(results):
        w.results[name] = f"@result{k}_{w.bytes[name]}"
    uses = [python_name(name) for name in arguments]
    defines = [f"@argument{k}_{w.bytes[name]}" for k, name in enumerate(arguments)]
    w.calls.append(target)
    return uses, [*defines, "@caller"]


def call_parts(w: "FunctionWriter", operands: list[str]) -> tuple[list[str], str, list[str]]:
    """Names of results, the function, and names of arguments of `call`."""
    rest = list(operands)
    results: list[str] = []
    if rest[0].startswith("("):
        results = [part.name for part in w.names.operand(rest.pop(0)).parts]
    target = rest.pop(0)
    arguments: list[str] = []
    if rest and rest[0].startswith("("):
        arguments = [part.name for part in w.names.operand(rest[0]).parts]
    return results, target, arguments


def entry_names(w: "FunctionWriter") -> list[str]:
    """Registers of a device function that its first block takes from the caller."""
    if w.is_entry:
        return []
    return ["back", *(python_name(v.name) for v in w.function.parameters)]


def enter(w: "FunctionWriter", reads: list[str]) -> list[str]:
    """The code at the beginning of a device function; what it takes from the caller."""
    if w.is_entry:
        return []
    w.put('back = R["caller"]')
    keys = ["caller"]
    for k, v in enumerate(w.function.parameters):
        key = f"argument{k}_{v.nbytes}"
        keys.append(key)
        w.put(f'{python_name(v.name)} = R["{key}"]')
    if w.spilled and "place" not in reads:
        keys.append("place")
        w.put('place = R["place"]')
    for name in w.spilled:
        offset = w.layout.local[w.prefix + name]
        w.put(f"m.store_local_rows(place, {offset}, {python_name(name)})")
    return keys


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
    name = base.name
    for table in (w.layout.local, w.layout.shared):
        key = w.prefix + name if table is w.layout.local else name
        if key in table:
            return w.constants.name("u64", 0), table[key] + base.value
    variable = w.program.variables.get(name)
    if variable is not None:
        if variable.space == "shared":
            return w.constants.name("u64", 0), w.layout.shared[name] + base.value
        return f'm.address("{name}")', base.value
    if w.is_entry and name in w.parameter_offsets:
        return "m.parameters_address", w.parameter_offsets[name] + base.value
    raise UnknownInstruction(f"{name} is not declared")


@emitter("mov")
def _move(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    destination, source = s.destinations[0], s.sources[0]
    bits = width(s.form.results[0].replace("b", "u"))
    if destination.kind == "vector":
        _unpack(w, destination, source, bits)
        return
    if source.kind == "vector":
        _pack(w, destination, source, bits)
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


def _unpack(w: "FunctionWriter", destination: PtxOperand, source: PtxOperand, bits: int) -> None:
    small = bits // len(destination.parts)
    text = w.read(source, f"b{bits}", f"u{bits}")
    w.put(f"_0 = {text}")
    for k, element in enumerate(destination.parts):
        if element.kind != "sink":
            w.assign(element, f"part(_0, u{small}, {k})", f"u{small}")


def _pack(w: "FunctionWriter", destination: PtxOperand, source: PtxOperand, bits: int) -> None:
    small = bits // len(source.parts)
    parts = [w.read(part, f"b{small}", f"u{small}") for part in source.parts]
    w.assign(destination, f"join(u{bits}, {', '.join(parts)})", f"u{bits}")


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


def _access(w: "FunctionWriter", verb: str, space: str, base: str, offset: int) -> str:
    """The beginning of a call of the machine, up to the offset."""
    if space in ("shared", "local") or (space == "" and w.layout.windows):
        return f'm.{verb}_in("{space}", place, {base}, {offset}'
    return f"m.{verb}({base}, {offset}"


@emitter("load")
def _load(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    f = s.form
    elements = flatten(s.destinations[0])
    element = f.results[0]
    bits = int(element[1:])
    kind = ("u" if element[0] == "b" else element[0]) + str(bits)
    homes = {w.names.home[e.name] for e in elements if e.kind == "reg"}
    if len(homes) == 1 and width(home := next(iter(homes))) == bits:
        kind = home
    count = len(elements)
    space = f.details["space"]
    base = s.sources[0].parts[0]
    if space == "param" and base.kind == "symbol":
        name = _bytes_name(w, base)
        for k, e in enumerate(elements):
            at = s.sources[0].value + base.value + k * bits // 8
            if name is not None:
                text = f"get_bytes({name.lstrip('@')}, {at}, {kind})"
            elif base.name in w.parameter_offsets:
                text = f"m.parameter({w.parameter_offsets[base.name] + at}, {kind})"
            else:
                raise UnknownInstruction(f"{base.name} is not declared")
            w.assign(e, text, kind)
        return
    if space == "param" and not w.is_entry:
        space = "local"  # whose address was taken: see `_spill`
    text = _access(w, "load", space, *address(w, s.sources[0])) + f", {kind}"
    if count > 1 or w.guard:
        text += f", {count}"
    if w.guard:
        text += f", {w.guard}"
    if f.details["strong"] and "_in(" in text:
        text += ", strong=True"
    text += ")"
    if count == 1:
        w.assign(elements[0], text, kind)
        return
    if all(e.kind == "reg" and w.names.home[e.name] == kind for e in elements) and not w.guard:
        w.put(", ".join(e.name for e in elements) + f" = {text}")
        return
    w.put(", ".join(f"_{k}" for k in range(count)) + f" = {text}")
    for k, e in enumerate(elements):
        w.assign(e, f"_{k}", kind)


@emitter("store")
def _store(w: "FunctionWriter", s: "DecodedInstruction") -> None:
    f = s.form
    values = flatten(s.sources[1])
    bits = int(f.sources[1][1:])
    space = f.details["space"]
    base = s.sources[0].parts[0]
    if space == "param":
        name = _bytes_name(w, base)
        if name is None:
            raise UnknownInstruction("a store to parameters of the kernel")
        size = w.bytes[base.name]
        for k, value in enumerate(values):
            at = s.sources[0].value + k * bits // 8
            text = _stored(w, value, bits)
            text = f"put_bytes({name}, {size}, {at}, {text})"
            w.put(f"{name} = where({w.guard}[:, None], {text}, {name})" if w.guard
                  else f"{name} = {text}")  # fmt: skip
        return
    kinds = {w.names.home[v.name] if v.kind == "reg" else "" for v in values}
    same = len(kinds) == 1
    texts = [_stored(w, value, bits, same) for value in values]
    text = _access(w, "store", space, *address(w, s.sources[0]))
    text += f", {texts[0]}" if len(texts) == 1 else f", ({', '.join(texts)})"
    if w.guard:
        text += f", {w.guard}"
    if f.details["strong"] and "_in(" in text:
        text += ", strong=True"
    w.put(text + ")")


def _stored(w: "FunctionWriter", value: PtxOperand, bits: int, as_it_is: bool = False) -> str:
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
    operands = [flatten(source) for source in s.sources[1:] if source.kind != "symbol"]
    if f.details["operation"] != "cas":
        operands = operands[:1]
    for k in range(f.details["count"]):
        values = ", ".join(w.read(operand[k], element, native) for operand in operands)
        at = offset + k * width(native) // 8
        text = (
            f'm.atomic(place, "{f.details["space"]}", {base}, {at}, "{f.details["operation"]}", '
            f"({values},), {returns}, {w.guard or None})"
        )
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
    given = "None"
    if len(s.sources) > 3 and s.sources[3].kind in ("reg", "integer"):
        operand = s.sources[3]
        predicate = operand.kind == "reg" and w.names.home[operand.name] == "pred"
        given = w.read(operand, "pred" if predicate else "u32")
    guard = w.guard or "None"
    w.put(f"m.async_copy(place, {to}, {offset}, {source}, {more}, {size}, {given}, {guard})")
