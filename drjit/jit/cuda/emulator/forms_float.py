"""Forms of floating-point arithmetic and of conversions."""

from drjit.jit.cuda.emulator.forms import Form, code, half_of, is_float, rule

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_UNKNOWN = frozenset(("rz", "rm", "rp", "xorsign", "satfinite"))


def _check(q: list[str]) -> None:
    """Refuses modifiers that compilers of kernels do not use."""
    if not _UNKNOWN.isdisjoint(q):
        raise KeyError


def _modifiers(q: list[str], kind: str, text: str) -> str:
    """`.ftz`, `.sat` and `.relu` around an expression."""
    if "ftz" in q and "f64" not in kind:
        for k in range(3):
            text = text.replace(f"{{{k}}}", f"flush({{{k}}})")
        text = f"flush({text})"
    if "sat" in q:
        text = f"saturate({text})"
    if "relu" in q:
        text = f"relu({text})"
    return text


def float_form(q: list[str], operands: int) -> Form:
    """add, sub, mul, div, fma and sqrt of all floating-point types, rounded to nearest."""
    _check(q)
    name, kind = q[0], code(q[-1])
    if q[-2:] == ["f32", "f16"]:  # halves and a float, from compute capability 10.0 on
        wide = [f"{{{k}}}.astype(f32)" for k in range(operands - 1)]
        text = float_form(q[:-1], operands).texts[0].format(*wide, f"{{{operands - 1}}}")
        sources = (*["f16"] * (operands - 1), "f32")
        return Form(("f32",), sources, (text,), arithmetic=True)
    if name == "fma":
        text = f"fma_{half_of(kind)}({{0}}, {{1}}, {{2}})"
    elif name == "sqrt":
        text = "np.sqrt({0})"
    else:
        text = f"{{0}} {_SYMBOLS[name]} {{1}}"
    return Form((kind,), (kind,) * operands, (_modifiers(q, kind, text),), arithmetic=True)


@rule("fma")
def _fma(q: list[str]) -> Form:
    return float_form(q, 3)


@rule("div")
def _divide(q: list[str]) -> Form:
    kind = code(q[-1])
    if not is_float(kind):
        return Form((kind,), (kind, kind), ("quotient({0}, {1})",))
    if "approx" in q:
        text = _modifiers(q, kind, "divide_approximate({0}, {1})")
        return Form((kind,), (kind, kind), (text,), arithmetic=True)
    return float_form(q, 2)


@rule("sqrt")
def _square_root(q: list[str]) -> Form:
    return float_form(q, 1)


@rule("rcp", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh")
def _function(q: list[str]) -> Form:
    _check(q)
    name, kind = q[0], code(q[-1])
    text = f"{kind}(1) / {{0}}" if name == "rcp" else f'approximate("{name}", {{0}})'
    return Form((kind,), (kind,), (_modifiers(q, kind, text),), arithmetic=True)


@rule("neg", "abs")
def _sign(q: list[str]) -> Form:
    kind = code(q[-1])
    text = "-{0}" if q[0] == "neg" else "np.abs({0})"
    if not is_float(kind):
        return Form((kind,), (kind,), (text,))
    return Form((kind,), (kind,), (_modifiers(q, kind, text),), arithmetic=True)


@rule("min", "max", "min3", "max3")
def _extreme(q: list[str]) -> Form:
    """`min` and `max`, which the translator calls min3 and max3 if they have three operands."""
    _check(q)
    kind = code(q[-1])
    sources = (kind, kind)
    if not is_float(kind):
        name = "np.minimum" if q[0] == "min" else "np.maximum"
        text = f"{name}({{0}}, {{1}})"
        return Form((kind,), sources, (f"relu({text})" if "relu" in q else text,))
    name = "minimum" if q[0][:3] == "min" else "maximum"
    text = f"{name}({{0}}, {{1}})"
    operands = "{0}, {1}"
    if q[0][3:]:
        text, sources, operands = f"{name}({text}, {{2}})", (kind,) * 3, "{0}, {1}, {2}"
    if "NaN" in q:
        text = f"nan_if_any({text}, {operands})"
    return Form((kind,), sources, (_modifiers(q, kind, text),), arithmetic=True)


@rule("testp")
def _test(q: list[str]) -> Form:
    if q[1] != "infinite":
        raise KeyError
    return Form(("pred",), (code(q[-1]),), ("np.isinf({0})",))


# ---- conversions

_INTEGRAL = {"rni", "rzi", "rmi", "rpi"}


@rule("cvt")
def _convert(q: list[str]) -> Form:
    _check(q)
    if q[-2] == "f16x2":  # the first operand is the upper half
        text = "np.stack(np.broadcast_arrays({1}, {0}), 1).astype(f16)"
        return Form(("f16x2",), ("f32", "f32"), (_relu(q, text),), arithmetic=True)
    if "tf32" in q:
        if "rna" not in q:
            raise KeyError
        return Form(("f32",), ("f32",), (_relu(q, "to_tf32({0})"),))
    result, source = code(q[-2]), code(q[-1])
    integral = next((m for m in q if m in _INTEGRAL), "")
    x = "flush({0})" if "ftz" in q and source == "f32" else "{0}"
    if not is_float(source) and not is_float(result):
        return _convert_integer(q, result, source)
    if not is_float(source):
        text = f"{{0}}.astype({result})"
    elif not is_float(result):
        text = f'to_integer({x}, {result}, "{integral or "rzi"}")'
        return Form((result,), (source,), (text,))
    elif integral:
        text = f'integral({x}, "{integral}")'
        if result != source:
            text = f"{text}.astype({result})"
    else:
        text = f"{x}.astype({result})"
    if "sat" in q:
        text = f"saturate({text})"
    if "ftz" in q and result == "f32":
        text = f"flush({text})"
    return Form((result,), (source,), (_relu(q, text),), arithmetic=True)


def _relu(q: list[str], text: str) -> str:
    return f"relu({text})" if "relu" in q else text


def _convert_integer(q: list[str], result: str, source: str) -> Form:
    if "sat" in q:
        return Form((result,), (source,), (f"saturated({{0}}, {result})",))
    if result == source:
        return Form((result,), (source,), ("{0}",))
    return Form((result,), (source,), (f"{{0}}.astype({result})",))
