"""Forms of integer and bit operations, predicates and moves between registers."""

from drjit.jit.cuda.emulator.forms import PAIRS, Form, code, free, half_of, is_float, rule, width
from drjit.jit.cuda.emulator.forms_float import float_form

_SYMBOLS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}


@rule("add", "sub")
def _add(q: list[str]) -> Form:
    kind = code(q[-1])
    if is_float(kind):
        return float_form(q, 2)
    if "cc" in q:
        return _carrying(q, False)
    if "sat" in q:
        text = f"saturated({{0}}.astype(i64) {_SYMBOLS[q[0]]} {{1}}, {half_of(kind)})"
        return Form((kind,), (kind, kind), (text,))
    kind = free(q[-1])
    return Form((kind,), (kind, kind), (f"{{0}} {_SYMBOLS[q[0]]} {{1}}",))


@rule("addc", "subc")
def _carrying(q: list[str], reads: bool = True) -> Form:
    """add.cc, addc, addc.cc and their like: the carry flag is a predicate register `%CC`."""
    kind = "u" + code(q[-1])[1:]
    adds = q[0].startswith("add")
    symbol, out = ("+", "carry_out") if adds else ("-", "borrow_out")
    carry = "{2}" if reads else "false"
    text = f"{{0}} {symbol} {{1}}" + (f" {symbol} {{2}}.astype({kind})" if reads else "")
    writes = "cc" in q
    return Form(
        (kind, "pred") if writes else (kind,),
        (kind, kind, "pred") if reads else (kind, kind),
        (text, f"{out}({{0}}, {{1}}, {carry})") if writes else (text,),
        hidden_results=("%CC",) if writes else (),
        hidden_sources=("%CC",) if reads else (),
    )


@rule("mul")
def _multiply(q: list[str]) -> Form:
    kind = code(q[-1])
    if is_float(kind):
        return float_form(q, 2)
    if "wide" in q:
        wide = _double(kind)
        return Form((wide,), (f"{kind}>{wide}",) * 2, ("{0} * {1}",))
    if "hi" in q:
        return Form((kind,), (kind, kind), (_high_product(kind),))
    kind = free(q[-1])
    return Form((kind,), (kind, kind), ("{0} * {1}",))


def _double(kind: str) -> str:
    return f"{kind[0]}{int(kind[1:]) * 2}"


def _product(wide: str) -> str:
    return f"{{0}}.astype({wide}) * {{1}}.astype({wide})"


def _high_product(kind: str) -> str:
    if kind[1:] == "64":
        return "multiply_high({0}, {1})"
    wide = _double(kind)
    return f"({_product(wide)} >> {wide}({kind[1:]})).astype({kind})"


@rule("mad")
def _multiply_add(q: list[str]) -> Form:
    kind = code(q[-1])
    if is_float(kind):
        return float_form(["fma", *q[1:]], 3)
    if "cc" in q:
        return _mad_carry(q, False)
    if "wide" in q:
        wide = _double(kind)
        sources = f"{kind}>{wide}", f"{kind}>{wide}", wide
        return Form((wide,), sources, ("{0} * {1} + {2}",))
    if "hi" in q:
        total = _high_product(kind) + " + {2}"
        if "sat" in q:
            total = f"saturated(({_high_product(kind)}).astype(i64) + {{2}}, i32)"
        return Form((kind,), (kind, kind, kind), (total,))
    kind = free(q[-1])
    return Form((kind,), (kind, kind, kind), ("{0} * {1} + {2}",))


@rule("madc")
def _mad_carry(q: list[str], reads: bool = True) -> Form:
    kind = code(q[-1])
    word = "u" + kind[1:]
    product = _high_product(kind) if "hi" in q else "({0} * {1})"
    if kind != word:
        product = f"({product}).view({word})"
    carry = "{3}" if reads else "false"
    total = f"{product} + {{2}}" + (f" + {{3}}.astype({word})" if reads else "")
    texts = (total,)
    if "cc" in q:
        texts = (total, f"carry_out({product}, {{2}}, {carry})")
    return Form(
        (word, "pred")[: len(texts)],
        (kind, kind, word, "pred") if reads else (kind, kind, word),
        texts,
        hidden_results=("%CC",) if "cc" in q else (),
        hidden_sources=("%CC",) if reads else (),
    )


@rule("mul24", "mad24")
def _multiply24(q: list[str]) -> Form:
    kind = code(q[-1])
    product = f"{'high' if 'hi' in q else 'low'}24({{0}}, {{1}})"
    if q[0] == "mul24":
        return Form((kind,), (kind, kind), (product,))
    total = f"{product} + {{2}}"
    if "sat" in q:
        total = f"saturated({product}.astype(i64) + {{2}}, i32)"
    return Form((kind,), (kind, kind, kind), (total,))


@rule("shf")
def _funnel_shift(q: list[str]) -> Form:
    amount = "{2} & u32(31)" if "wrap" in q else "np.minimum({2}, u32(32))"
    name = "funnel_left" if "l" in q else "funnel_right"
    return Form(("u32",), ("u32", "u32", "u32"), (f"{name}({{0}}, {{1}}, {amount})",))


@rule("prmt")
def _permute(q: list[str]) -> Form:
    mode = q[2] if len(q) > 2 else ""
    text = f'permute({{0}}, {{1}}, {{2}}, "{mode}")' if mode else "permute({0}, {1}, {2})"
    return Form(("u32",), ("u32", "u32", "u32"), (text,))


@rule("lop3")
def _logic3(q: list[str]) -> Form:
    if len(q) > 2:  # lop3.and.b32 d|p, a, b, c, table, q: p combines whether d is not 0
        symbol = _SYMBOLS[q[1]]
        value = "logic3({0}, {1}, {2}, {3})"
        return Form(
            ("u32", "pred"),
            ("u32", "u32", "u32", "number", "pred"),
            (value, f"({value} != u32(0)) {symbol} {{4}}"),
        )
    return Form(("u32",), ("u32", "u32", "u32", "number"), ("logic3({0}, {1}, {2}, {3})",))


@rule("dp4a")
def _dot4(q: list[str]) -> Form:
    a, b = (code(t)[0] == "i" for t in q[1:3])
    kind = "i32" if a or b else "u32"
    return Form((kind,), ("u32", "u32", kind), (f"dot_bytes({{0}}, {{1}}, {{2}}, {a}, {b})",))


@rule("dp2a")
def _dot2(q: list[str]) -> Form:
    a, b = (code(t)[0] == "i" for t in q[2:4])
    kind = "i32" if a or b else "u32"
    text = f"dot_halves({{0}}, {{1}}, {{2}}, {a}, {b}, {q[1] == 'hi'})"
    return Form((kind,), ("u32", "u32", kind), (text,))


# ---- predicates and selections

_COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_COMBINATIONS = ("and", "or", "xor")


def comparison(name: str, kind: str, a: str, b: str) -> str:
    """The expression of a comparison: equ, neu, ... hold if an operand is NaN, eq, ne, ... not."""
    if not is_float(kind):
        return f"({a} {_COMPARISONS[name]} {b})"
    if name == "num":
        return f"(({a} == {a}) & ({b} == {b}))"
    if name == "nan":
        return f"(({a} != {a}) | ({b} != {b}))"
    inverse = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
    if name in inverse:
        if name == "equ":
            return f"(~(({a} < {b}) | ({a} > {b})))"
        return f"(~({a} {_COMPARISONS[inverse[name]]} {b}))"
    if name == "ne":
        return f"(({a} < {b}) | ({a} > {b}))"
    return f"({a} {_COMPARISONS['ne' if name == 'neu' else name]} {b})"


def _compared(q: list[str], kind: str) -> tuple[str, str, tuple[str, ...]]:
    """The comparison of two operands, what it is combined with, and the types of operands."""
    a, b = ("flush({0})", "flush({1})") if "ftz" in q else ("{0}", "{1}")
    combination = next((f" {_SYMBOLS[name]} {{2}}" for name in q[2:] if name in _COMBINATIONS), "")
    sources = (kind, kind, "pred") if combination else (kind, kind)
    return comparison(q[1], kind, a, b), combination, sources


@rule("setp")
def _set_predicate(q: list[str]) -> Form:
    kind = free(q[-1]) if q[1] in ("eq", "ne") else code(q[-1])
    text, combination, sources = _compared(q, kind)
    texts = (f"{text}[:, 0]", f"{text}[:, 1]") if kind in PAIRS else (text, f"~{text}")
    return Form(("pred", "pred"), sources, tuple([t + combination for t in texts]))


@rule("set")
def _set(q: list[str]) -> Form:
    result, kind = code(q[-2]), code(q[-1])
    text, combination, sources = _compared(q, kind)
    if combination:
        text = f"({text}{combination})"
    if is_float(result):
        number = "f32" if "bf16" in result else half_of(result)
        return Form((result,), sources, (f"{text}.astype({number})",))
    word, bits = ("u16x2", "u16") if kind in PAIRS else ("u" + result[1:],) * 2
    return Form((word,), sources, (f"-{text}.astype({bits})",))


@rule("selp")
def _select(q: list[str]) -> Form:
    kind = "b" + str(width(code(q[-1])))
    return Form((kind,), (kind, kind, "pred"), ("where({2}, {0}, {1})",))


@rule("slct")
def _select_sign(q: list[str]) -> Form:
    kind = "b" + str(width(code(q[-2])))
    condition = "flush({2})" if "ftz" in q else "{2}"
    return Form((kind,), (kind, kind, code(q[-1])), (f"where({condition} >= 0, {{0}}, {{1}})",))


@rule("mov")
def _move(q: list[str]) -> Form:
    if q[-1] == "pred":
        return Form(("pred",), ("pred",), ("{0}",))
    kind = "b" + str(width(code(q[-1])))
    return Form((kind,), (kind,), ("{0}",), kind="mov")


@rule("cvta")
def _convert_address(q: list[str]) -> Form:
    space = q[2] if q[1] == "to" else q[1]
    space = space.partition(":")[0]
    name = "cvta_to" if q[1] == "to" else "cvta"
    size = q[-1][1:]
    return Form((f"u{size}",), (f"u{size}",), kind="cvta", details={"to": name, "space": space})


@rule("isspacep")
def _is_space(q: list[str]) -> Form:
    space = q[1].partition(":")[0]
    return Form(("pred",), ("u64",), (f'm.is_space(place, "{space}", {{0}})',))
