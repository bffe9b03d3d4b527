"""A small stack machine on every lane: formulas of different lengths are evaluated by one loop that
calls instructions lane by lane; and a search for a formula among many."""

from dataclasses import dataclass, field

import drjit as dr
from drjit.auto.ad import Array3f, Bool, Float, Int, UInt

DEPTH, LENGTH = 6, 9


@dataclass
class Machine:
    top: UInt = field(default_factory=lambda: UInt(0))
    faults: UInt = field(default_factory=lambda: UInt(0))


# Instructions get the two topmost values, the variable, and a constant; they give a value and say
# how many values they take away.
def push_x(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    return Float(x), UInt(0)


def push_constant(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    return Float(c), UInt(0)


def add(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    return a + b, UInt(2)


def multiply(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    return a * b, UInt(2)


def sine(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    return dr.sin(a), UInt(1)


def halve_while_large(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    value, _ = dr.while_loop(
        (a, UInt(0)),
        lambda v, i: (dr.abs(v) > 1) & (i < 20),
        lambda v, i: (v * 0.5, i + 1),
        max_iterations=20,
    )
    return value, UInt(1)


def larger(a: Float, b: Float, x: Float, c: Float) -> tuple[Float, UInt]:
    return dr.if_stmt((a, b), a > b, lambda a, b: a, lambda a, b: b), UInt(2)


TABLE = [push_x, push_constant, add, multiply, sine, halve_while_large, larger]
NAMES = ["x", "c", "+", "*", "sin", "half", "max"]


@dr.syntax
def run(
    code: UInt, constants: Float, x: Float, lanes: int, mode: str = "evaluated"
) -> tuple[Float, UInt, UInt]:
    """Every lane has LENGTH instructions; code 255 ends a formula."""
    stack = dr.alloc_local(Float, DEPTH, value=dr.zeros(Float, lanes))
    lane = dr.arange(UInt, lanes)
    m = Machine()
    pc, active = dr.zeros(UInt, lanes), dr.full(Bool, True, lanes)
    while dr.hint(active, mode=mode):
        op = dr.gather(UInt, code, lane * LENGTH + pc, active)
        c = dr.gather(Float, constants, lane * LENGTH + pc, active)
        if op < len(TABLE):
            a = stack[dr.select(m.top > 0, m.top - 1, 0)]
            b = stack[dr.select(m.top > 1, m.top - 2, 0)]
            value, taken = dr.switch(op, TABLE, a, b, x, c)
            enough = taken <= m.top
            m.faults = dr.select(enough, m.faults, m.faults + 1)
            active = Bool(enough)
            m.top = dr.select(enough, m.top - taken + 1, m.top)
            stack.write(value, dr.select(enough, m.top - 1, 0), enough)
        else:
            active = Bool(False)
        pc += 1
        active &= (pc < LENGTH) & (m.top < DEPTH)
    result = stack[0]
    return dr.select((m.faults == 0) & (m.top == 1), result, dr.nan), m.top, m.faults


def assemble(formulas: list[str]) -> tuple[UInt, Float]:
    code: list[int] = []
    constants: list[float] = []
    for words in formulas:
        for word in [*words.split(), *["end"] * LENGTH][:LENGTH]:
            if word in NAMES:
                code.append(NAMES.index(word))
                constants.append(0.0)
            elif word == "end":
                code.append(255)
                constants.append(0.0)
            else:
                code.append(1)
                constants.append(float(word))
    return UInt(code), Float(constants)


def main() -> Float:
    formulas = [
        "x",
        "x x *",
        "x 2 * sin",
        "x x * 3 x * + 1 +",
        "x 9 * half",
        "x sin x 0.5 * max",
        "+",
        "x x",
    ]
    n = len(formulas)
    code, constants = assemble(formulas)
    value, top, faults = run(code, constants, Float(1.3), n)
    print("values", value, top, faults)
    for x in (-0.5, 4.0):
        print("at", x, run(code, constants, Float(x), n)[0])

    # every lane has an argument of its own
    print("own", run(code, constants, dr.linspace(Float, 0.2, 1.6, n), n)[0])

    # random formulas, which look for a function
    rng = dr.rng(seed=77)
    size = 256
    words = rng.integers(UInt, size * LENGTH, 0, len(TABLE))
    ends = rng.random(Float, size * LENGTH) < 0.12
    words = dr.select(ends, UInt(255), words)
    numbers = rng.uniform(Float, size * LENGTH, -2, 2)
    dr.eval(words, numbers)
    error, valid = dr.zeros(Float, size), dr.full(Bool, True, size)
    for k in range(6):
        x = Float(-1 + 0.4 * k)
        value, _, _ = run(words, numbers, x, size)
        valid &= dr.isfinite(value)
        error += dr.square(value - (x * x + x))
        dr.eval(error, valid)
    error = dr.select(valid, error, dr.inf)
    print("valid", dr.count(valid), "best", dr.min(error), dr.argmin(error))
    best = dr.argmin(error)
    where = best[0] * LENGTH + dr.arange(UInt, LENGTH)
    print("code", [NAMES[k] if k < len(NAMES) else "end" for k in dr.gather(UInt, words, where)])
    histogram = dr.zeros(UInt, 8)
    dr.scatter_inc(histogram, dr.minimum(words, 7))
    print("words", histogram)
    ranking = Int(dr.argsort(error))
    print("ranking", dr.gather(Int, ranking, UInt(0, 1, 2)), Array3f(dr.min(error), 0, 1).x)
    return error


if __name__ == "__main__":
    main()
