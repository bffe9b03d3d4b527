"""Forms of integer and bit operations, predicates and moves between registers."""

from drjit.jit.cuda.emulator.forms import PAIRS, Form, code, free, half_of, is_float, rule, width
from drjit.jit.cuda.emulator.forms_float import float_form

_SYMBOLS = {"add": "+", "sub": "-"}


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
        return Form((kind,), (kind, kind), ("mul_hi({0}, {1})",))
    kind = free(q[-1])
    return Form((kind,), (kind, kind), ("{0} * {1}",))


def _double(kind: str) -> str:
    return f"{kind[0]}{int(kind[1:]) * 2}"


@rule("mad")
def _multiply_add(q: list[str]) -> Form:
    kind = code(q[-1])
    if is_float(kind):
        return float_form(["fma", *q[1:]], 3)
    if "cc" in q or "sat" in q:
        raise KeyError
    if "wide" in q:
        wide = _double(kind)
        sources = f"{kind}>{wide}", f"{kind}>{wide}", wide
        return Form((wide,), sources, ("{0} * {1} + {2}",))
    if "hi" in q:
        return Form((kind,), (kind, kind, kind), ("mul_hi({0}, {1}) + {2}",))
    kind = free(q[-1])
    return Form((kind,), (kind, kind, kind), ("{0} * {1} + {2}",))


@rule("shf")
def _funnel_shift(q: list[str]) -> Form:
    amount = "{2} & u32(31)" if "wrap" in q else "np.minimum({2}, u32(32))"
    name = "funnel_left" if "l" in q else "funnel_right"
    return Form(("u32",), ("u32", "u32", "u32"), (f"{name}({{0}}, {{1}}, {amount})",))


# ---- predicates and selections

_COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip


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


def _compared(q: list[str], kind: str) -> str:
    """The comparison of two operands."""
    if {"and", "or", "xor"} & {*q}:  # with a predicate
        raise KeyError
    a, b = ("flush({0})", "flush({1})") if "ftz" in q else ("{0}", "{1}")
    return comparison(q[1], kind, a, b)


@rule("setp")
def _set_predicate(q: list[str]) -> Form:
    kind = free(q[-1]) if q[1] in ("eq", "ne") else code(q[-1])
    text = _compared(q, kind)
    texts = (f"{text}[:, 0]", f"{text}[:, 1]") if kind in PAIRS else (text, f"~{text}")
    return Form(("pred", "pred"), (kind, kind), texts)


@rule("set")
def _set(q: list[str]) -> Form:
    result, kind = code(q[-2]), code(q[-1])
    if is_float(result):
        raise KeyError
    word, bits = ("u16x2", "u16") if kind in PAIRS else ("u" + result[1:],) * 2
    return Form((word,), (kind, kind), (f"-{_compared(q, kind)}.astype({bits})",))


@rule("selp")
def _select(q: list[str]) -> Form:
    kind = "b" + str(width(code(q[-1])))
    return Form((kind,), (kind, kind, "pred"), ("where({2}, {0}, {1})",))


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
