"""From the text of a kernel to the text of an LLVM module: the packet loop around the translated body."""

import ast

from . import reduction
from .ir import Function, KernelError
from .translate import Library, Module, Translator


def module_text(
    text: str, name: str, lanes: int, contract: bool, library: Library
) -> tuple[str, bool]:
    """The LLVM module of a kernel that exports `name`, and whether it also exports `name_finish`.

    Raises KernelError where the text breaks a rule of the language.
    """
    try:
        definitions = [s for s in ast.parse(text).body if type(s) is ast.FunctionDef]
    except SyntaxError as error:
        raise KernelError(f"line {error.lineno}: {error.text}: {error.msg}") from None
    if len(definitions) != 1 or [a.arg for a in definitions[0].args.args] != ["i", "p"]:
        raise KernelError("a kernel text is one function kernel(i, p)")
    (definition,) = definitions
    module = Module(lanes, contract, library)
    f = Function(lanes)
    t = Translator(module, f, text, is_kernel=True)
    accumulators = reduction.count_reductions(definition)

    f.block = "packet"
    if accumulators or "active(" in text:
        left = f.op("sub i64 %end, %i")
        left = f.op(f"call i64 @llvm.smin.i64(i64 {left}, i64 {lanes})")
        left = f.splat("u32", f.op(f"trunc i64 {left} to i32"))
        f.do(f"%active = icmp ult {f.vector['u32']} <{f.types.iota}>, {left}")
    t.body(definition.body)
    f.do("br label %latch")
    f.start("latch")
    f.do(f"%next = add nsw i64 %i, {lanes}")
    f.branch(f.op("icmp slt i64 %next, %end"), "packet", "exit")
    f.start("exit")
    reduction.store_partials(t)
    f.do("ret void")

    phis = ["%i = phi i64 [%begin, %entry], [%next, %latch]"]
    for k, ((op, code), (*_, total)) in enumerate(zip(accumulators, t.reductions, strict=True)):
        start = f.constant(code, reduction.identity(op, code))
        phis.append(f"%acc{k} = phi {f.vector[code]} [{start}, %entry], [{total}, %latch]")
    head = "\n".join([f"{result} = {text}" for result, text in f.head.items()])
    body = "\n".join(f.lines)
    exported = [
        f'define void @"{name}"(ptr %p, i64 %begin, i64 %end, i64 %block, i64 %thread) #0 {{\n'
        f"entry:\n{head}\nbr label %packet\npacket:\n" + "\n".join(phis) + f"\n{body}\n}}"
    ]
    has_finish = bool(t.reductions or t.expansions)
    if has_finish:
        exported.append(reduction.finish(t, f"{name}_finish"))
    return module.text(exported), has_finish
