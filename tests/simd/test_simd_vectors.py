"""Vectors in the SIMD target against the NumPy target: every statement and type, odd sizes, masks,
loops and branches, and the sums over lanes of several threads.
"""

import re

import numpy as np
import pytest
from test_simd import RECORD, call, same

from drjit.jit.ir import dtype as dt
from drjit.jit.target import library, simd
from drjit.jit.target import numpy as numpy_target

FLOATS = (dt.f16, dt.f32, dt.f64)
WIDTHS = sorted({8, 16, simd.default_lanes()})
COUNTS = (1, 3, 17, 64)
SHAPES = ((1, 1), (3, 17), (17, 3), (16, 16), (64, 64), (5, 128), (130, 33))
every_type = pytest.mark.parametrize("t", FLOATS, ids=str)
every_width = pytest.mark.parametrize("lanes", WIDTHS)


class Text:
    """A kernel text under construction and the words of its parameter block."""

    def __init__(self):
        self.lines, self.words, self.names = ["def kernel(i, p):"], [RECORD.copy()], 0
        self.indent = "    "

    def word(self, value):
        self.words.append(value)
        return f"p[{len(self.words) - 1}]"

    def do(self, line):
        self.lines.append(self.indent + line)

    def let(self, expression, name=""):
        if not name:
            name = f"v{self.names}"
            self.names += 1
        self.do(f"{name} = {expression}")
        return name

    def load(self, array):
        t = code(array)
        return self.let(f"load({t}, {self.word(array.copy())}, i)")

    def vector(self, array):
        """A vector of the rows of an array."""
        rows = ", ".join([self.load(row) for row in array])
        return self.let(f"vector({code(array)}, {rows})")

    def repeated(self, array, times, count):
        """A vector of the rows of an array, each so many times, up to some number of features."""
        rows = [name for row in array for name in [self.load(row)] * times]
        return self.let(f"vector({code(array)}, {', '.join(rows[:count])})")

    def literals(self, array):
        """A vector of literals."""
        words = [self.word(x) for x in array]
        t = code(array)
        return self.let(
            f"vector({t}, {', '.join([self.let(f'literal({t}, {w})') for w in words])})"
        )

    def store(self, name, t, n):
        result = np.zeros(n, t.numpy)
        self.do(f"store({t.code}, {self.word(result)}, i, {name})")
        return result

    def features(self, v, t, count, n, which=None):
        """Stores features of a vector; gives their arrays."""
        which = range(count) if which is None else which
        return [self.store(self.let(f"feature({v}, {k})"), t, n) for k in which]

    def sums(self, t, size, threads):
        """The words of a buffer for sums over lanes: the buffer, and the start of the call."""
        buffer = np.zeros(size, t.numpy)
        words = self.word(buffer), self.word(np.zeros(threads * size, accumulator(t))), size
        return buffer, f"{t.code}, {words[0]}, {words[1]}, {self.word(size)}"

    def run(self, n, lanes, **options):
        """Runs the text on both targets; gives, for each array among the words, both results."""
        text, want = "\n".join(self.lines), [w.copy() if _array(w) else w for w in self.words]
        call(text, self.words, n, lanes, **options)
        numpy_target.run(text, want, n)
        return [(a, b) for a, b in zip(self.words, want, strict=True) if _array(a)]

    def same(self, n, lanes, **options):
        """Runs the text and compares to the last bit."""
        for got, want in self.run(n, lanes, **options):
            same(got, want, "\n".join(self.lines))


def _array(word):
    return isinstance(word, np.ndarray)


def code(array):
    return "mask" if array.dtype == bool else f"f{8 * array.dtype.itemsize}"


def accumulator(t):
    return np.float64 if t is dt.f64 else np.float32


def numbers(t, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(t.numpy)


def whole(t, *shape, seed=0):
    """Small whole numbers: their products and sums are exact in any order."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(t.numpy)


UNARY = ["-x", "abs(x)", "sqrt(x)", "floor(x)", "ceil(x)", "trunc(x)", "round(x)"]
BINARY = ["x + y", "x - y", "x * y", "x / y", "minimum(x, y)", "maximum(x, y)"]
BINARY += ["fma(x, y, x)", "x + 0.1", "2.0 - x", "x * s", "s / x", "fma(s, x, y)", "pow(x, y)"]
BINARY += ["atan2(s, y)", "maximum(x, 0.1)"]
COMPARISONS = [f"x {c} y" for c in ("==", "!=", "<", "<=", ">", ">=")] + ["x < s", "x > 0.3"]
ARITY = {"atan2": 2, "pow": 2, "sincos": 1}


@every_width
@every_type
@pytest.mark.parametrize("count", [3, 17])
def test_element_wise_operations_feature_by_feature(t, lanes, count):
    n = 21
    text = Text()
    text.let(text.vector(numbers(t, count, n)), "x")
    text.let(text.vector(numbers(t, count, n, seed=1)), "y")
    text.let(text.load(numbers(t, n, seed=2)), "s")
    for expression in UNARY + BINARY:
        text.features(text.let(expression), t, count, n, (0, count - 1))
    for expression in COMPARISONS:
        m = text.let(expression)
        text.features(text.let(f"select({m}, x, y)"), t, count, n, (0, count - 1))
        k = text.let(f"select({m}, s, 2.5)")
        text.features(text.let(f"{t.code}({m})"), t, count, n, (1,))
        text.features(k, t, count, n, (1,))
    text.same(n, lanes)


@every_type
def test_functions_of_the_library(t):
    n, count = 9, 5
    text = Text()
    text.let(text.vector(numbers(t, count, n)), "x")
    for name in sorted(library.names - {"sincos"}):
        operands = ", ".join("x" * ARITY.get(name, 1))
        text.features(text.let(f"{name}({operands})"), t, count, n, (0, 4))
    text.do("a, b = sincos(x)")
    text.features(text.let("a + b"), t, count, n)
    text.same(n, simd.default_lanes())


@every_width
@pytest.mark.parametrize("to", FLOATS, ids=str)
@every_type
def test_conversions_between_element_types(t, to, lanes):
    n, count = 17, 5
    text = Text()
    x = text.vector(numbers(t, count, n) * t.numpy.type(1.2345))
    y = text.let(f"{to.code}({x})")
    text.features(text.let(f"{y} * {y}"), to, count, n)
    text.features(text.let(f"mask({y})"), dt.mask, count, n)
    text.same(n, lanes)


@every_width
def test_masks_as_vectors(lanes):
    n, count = 33, 6
    rng = np.random.default_rng(0)
    text = Text()
    a = text.vector(rng.random((count, n)) < 0.5)
    b = text.vector(rng.random((count, n)) < 0.5)
    s = text.load(rng.random(n) < 0.5)
    for e in (f"{a} & {b}", f"{a} | {s}", f"{a} ^ {b}", f"~{a}", f"{a} == {b}", f"{a} != {s}"):
        text.features(text.let(e), dt.mask, count, n)
    text.features(text.let(f"select({a}, {b}, {s})"), dt.mask, count, n)
    text.same(n, lanes)


@every_width
@every_type
@pytest.mark.parametrize("count", COUNTS)
def test_sums_over_features_and_splats(t, lanes, count):
    n = 19
    text = Text()
    x = text.vector(whole(t, count, n))
    s = text.load(whole(t, n, seed=1))
    v = text.let(f"splat({t.code}, {count}, {s})")
    w = text.let(f"splat({t.code}, {count}, 0.25)")
    text.store(text.let(f"total({x})"), t, n)
    text.store(text.let(f"total({v})"), t, n)
    text.store(text.let(f"total({text.let(f'{x} * {v}')})"), t, n)
    y = text.let(f"{x} + {w}")
    text.store(text.let(f"total({y})"), t, n)
    text.features(y, t, count, n, (0, count - 1))
    text.same(n, lanes)


def test_a_sum_of_halves_is_rounded_once():
    x = np.full((64, 3), 0.1, np.float16)
    x[0] = 1000
    text = Text()
    result = text.store(text.let(f"total({text.vector(x)})"), dt.f16, 3)
    text.run(3, simd.default_lanes())
    same(result, x.astype(np.float64).sum(0).astype(np.float16))


@every_type
@every_width
def test_numbers_are_rounded_to_the_element_type(t, lanes):
    n = 5
    text = Text()
    x = text.vector(numbers(t, 4, n))
    c = text.let(f"literal({t.code}, {text.word(t.numpy.type(0.3))})")
    text.features(text.let(f"{x} * {c}"), t, 4, n)
    text.features(text.let(f"{x} * 0.3"), t, 4, n)
    text.same(n, lanes)


# ---------------------------------------------------------------------------------------- products


@pytest.mark.parametrize(
    ("lanes", "rows", "columns"),
    [
        # Of the width that only other processors have by default, a shape with and one without
        # remainders.
        (lanes, *shape)
        for lanes in WIDTHS
        for shape in (SHAPES if lanes == simd.default_lanes() else ((3, 17), (16, 16)))
    ],
)
@every_type
def test_products_with_a_matrix_and_sums_of_outer_products(t, lanes, rows, columns):
    n, stride, threads = 45, columns + 2, 3
    rng = np.random.default_rng(rows)
    x = numbers(t, columns, n)
    matrix = (rng.standard_normal((rows, stride)) / columns**0.5).astype(accumulator(t))
    bias = rng.standard_normal(rows).astype(accumulator(t))
    mask = rng.random(n) < 0.7
    text = Text()
    v, m = text.vector(x), text.load(mask)
    m = text.let(f"{m} & {text.let('active(i)')}")
    p = text.word(np.concatenate([np.zeros(7, matrix.dtype), matrix.ravel()])), text.word(7)
    b = text.word(np.concatenate([np.zeros(2, matrix.dtype), bias])), text.word(2)
    shape = f"{rows}, {columns}, {stride}"
    y = text.let(f"matvec({t.code}, {p[0]}, {p[1]}, {shape}, False, {v}, {b[0]}, {b[1]})")
    z = text.let(f"matvec({t.code}, {p[0]}, {p[1]}, {shape}, True, {y})")
    text.features(y, t, rows, n)
    text.features(z, t, columns, n)
    size = rows * stride + 5
    sums, start = text.sums(t, size, threads)
    text.do(f"outer({start}, {text.word(3)}, {shape}, {y}, {v}, {m})")
    line, start = text.sums(t, rows + 4, threads)
    text.do(f"accumulate({start}, {text.word(4)}, {y}, {m})")
    tolerance = {dt.f16: 4e-3, dt.f32: 2e-5, dt.f64: 1e-13}[t]
    private = [w.size for w in text.words if _array(w)].index
    assert private(threads * size)
    for got, want in text.run(n, lanes, block=16, threads=threads):
        if got.size not in (threads * size, threads * (rows + 4)):
            scale = np.abs(want).max(initial=1)
            np.testing.assert_allclose(got / scale, want / scale, atol=tolerance)
    # The closed form, with what the kernel itself computed for y.
    exact = matrix[:, :columns].astype(np.float64) @ x + bias[:, None]
    got = sums[3 : 3 + rows * stride].reshape(rows, stride)[:, :columns]
    want = exact[:, mask] @ x[:, mask].T.astype(np.float64)
    np.testing.assert_allclose(got, want, atol=np.abs(want).max() * max(tolerance, 1e-6) * 10)
    assert not sums[:3].any() and not line[:4].any()
    np.testing.assert_allclose(
        line[4:], exact[:, mask].sum(1), atol=np.abs(exact).max() * n * tolerance
    )


@every_width
@every_type
def test_whole_numbers_add_up_exactly_in_any_order(t, lanes):
    """Also: outer products, vectors and scatter-reductions that share one buffer."""
    n, rows, columns, threads = 150, 5, 7, 2
    text = Text()
    y, x = text.vector(whole(t, rows, n)), text.vector(whole(t, columns, n, seed=1))
    m = text.let("active(i)")
    some = text.let(f"{m} & {text.load(np.arange(n) % 3 == 0)}")
    sums, start = text.sums(t, rows * columns, threads)
    zero = text.word(0)
    text.do(f"outer({start}, {zero}, {rows}, {columns}, {columns}, {y}, {x}, {m})")
    text.do(f"outer({start}, {zero}, {rows}, {columns}, {columns}, {y}, {x}, {some})")
    text.do(f"accumulate({start}, {text.word(columns)}, {x}, {some})")
    value, index = text.let(f"feature({x}, 2)"), text.let("lane(i)")
    index = text.let(f"remainder({index}, 35)")
    kind, k, w, size = start.split(", ")
    text.do(f"scatter_reduce_expand({kind}, 'add', {k}, {w}, {size}, {value}, {index}, {m})")
    copies = threads * rows * columns
    for got, want in text.run(n, lanes, block=64, threads=threads):
        if got.size != copies:
            same(got, want)
    assert sums.any()


@every_type
def test_lanes_without_the_mask_may_hold_anything(t):
    lanes = simd.default_lanes()
    n, rows, columns = 3 * lanes - 1, 18, 20
    for pattern in (np.zeros(n, bool), np.ones(n, bool), np.arange(n) % 2 == 0):
        y, x = whole(t, rows, n), whole(t, columns, n, seed=1)
        want = y[:, pattern].astype(np.float64) @ x[:, pattern].T.astype(np.float64)
        line = y[:, pattern].astype(np.float64).sum(1)
        y[:, ~pattern], x[:, ~pattern] = np.nan, np.inf
        text = Text()
        vectors = text.vector(y), text.vector(x)
        # Padding beyond the end becomes infinite.
        a, b = (text.let(f"v / {t.code}(1)".replace("v", name, 1)) for name in vectors)
        m = text.let(f"{text.load(pattern)} & {text.let('active(i)')}")
        sums, start = text.sums(t, rows * columns, 1)
        text.do(f"outer({start}, {text.word(0)}, {rows}, {columns}, {columns}, {a}, {b}, {m})")
        total, start = text.sums(t, rows, 1)
        text.do(f"accumulate({start}, {text.word(0)}, {a}, {m})")
        call("\n".join(text.lines), text.words, n, lanes)
        same(sums.reshape(rows, columns), want.astype(t.numpy))
        same(total, line.astype(t.numpy))


# --------------------------------------------------------------------------------- loops, branches


def test_loop_state_is_assigned_at_the_same_time():
    n, count = 23, 5
    x, y = numbers(dt.f32, count, n), numbers(dt.f32, count, n, seed=1)
    steps = (np.arange(n) % 4).astype(np.float32)
    text = Text()
    a, b, z = text.vector(x), text.vector(y), text.vector(x + y)
    text.let(a, "a"), text.let(b, "b"), text.let(z, "c")
    text.let(text.load(steps), "left")
    text.let("left > 0.0", "live")
    text.do("while any_lane(live):")
    text.indent *= 2
    text.do(
        "a, b, c = select(live, b, a), select(live, c, b), select(live, a, c)",
    )
    text.let("left - 1.0", "left")
    text.let("left > 0.0", "live")
    text.indent = "    "
    stored = [text.features(v, dt.f32, count, n) for v in "abc"]
    text.run(n, simd.default_lanes())
    rows = np.stack([x, y, x + y])
    for k, arrays in enumerate(stored):
        for f, got in enumerate(arrays):
            same(got, rows[(k + steps.astype(int)) % 3, f, np.arange(n)])


@pytest.mark.parametrize("order", ["ba", "bca", "cab", "bac", "aab", "ccc"])
def test_variables_that_trade_places(order):
    n, count, names = 17, 3, "abc"[: max(len(order), 2)]
    rows = numbers(dt.f32, len(names), count, n)
    text = Text()
    for name, row in zip(names, rows, strict=True):
        text.let(text.vector(row), name)
    text.let(text.load(np.full(n, 3, np.float32)), "left")
    text.let("left > 0.0", "live")
    text.do("while any_lane(live):")
    text.do(f"    {', '.join(names)} = {', '.join(order)}")
    text.do("    left = left - 1.0")
    text.do("    live = left > 0.0")
    stored = [text.features(v, dt.f32, count, n) for v in names]
    text.run(n, simd.default_lanes())
    where = list(range(len(names)))
    for _ in range(3):
        where = [where[names.index(v)] for v in order]
    for place, arrays in zip(where, stored, strict=True):
        for f, got in enumerate(arrays):
            same(got, rows[place, f])


@pytest.mark.parametrize("taken", [False, True])
def test_a_branch_that_assigns_without_reading(taken):
    n, count = 17, 3
    x, y = numbers(dt.f32, count, n), numbers(dt.f32, count, n, seed=1)
    text = Text()
    text.let(text.vector(x), "a"), text.let(text.vector(y), "b")
    text.let(text.load(np.full(n, taken)), "m")
    text.do("if any_lane(m):")
    text.do("    a = b * 2.0")
    text.let(text.vector(x + 1), "c")
    stored = text.features(text.let("a + c"), dt.f32, count, n)
    text.run(n, simd.default_lanes())
    for f, got in enumerate(stored):
        same(got, (y[f] * 2 if taken else x[f]) + (x[f] + 1))


def test_masks_outlive_what_they_were_made_of():
    n, count = 19, 9
    text = Text()
    x = text.vector(numbers(dt.f64, count, n))
    m, k = text.let(f"{x} < 0.5"), text.let(f"f32({x})")
    identity = text.word(np.eye(count, dtype=np.float32).ravel()), text.word(0)
    shape = f"{count}, {count}, {count}, False"
    y = text.let(f"matvec(f32, {identity[0]}, {identity[1]}, {shape}, {k})")
    text.features(text.let(f"select({m}, {y}, 7.0)"), dt.f32, count, n)
    text.same(n, simd.default_lanes())


class Program(Text):
    """A random kernel: element-wise statements, products, nested loops and branches."""

    def __init__(self, seed, t, count):
        super().__init__()
        self.rng, self.t, self.count = np.random.default_rng(seed), t, count
        self.m = self.let("active(i)")

    def pick(self, names):
        return names[self.rng.integers(len(names))]

    def statement(self, names, scalars):
        """One statement; gives the name of the vector that it assigns."""
        x, y, z, s = (self.pick(names) for _ in range(3)), 0, 0, self.pick(scalars)
        x, y, z = x
        rules = (
            f"{x} + {y}", f"{x} - {s}", f"{x} * {y}", f"maximum({x}, {s})", f"abs({x})", f"-{y}",
            f"fma({x}, {y}, {z})", f"minimum({s}, {y})", f"tanh({x})", f"{x} * 0.3", x,
        )  # fmt: skip
        kind = self.rng.integers(14)
        if kind < 11:
            return self.let(rules[kind])
        if kind == 11:
            m = self.let(f"{x} < {y}")
            return self.let(f"select({m}, {y}, {z})")
        if kind == 12:
            s = self.let(f"feature({x}, {self.rng.integers(self.count)})")
            return self.let(f"{y} - {s}")
        # Whole numbers, whose products are exact in any order.
        a = self.let(f"maximum({x}, -4.0)")
        a = self.let(f"round({self.let(f'minimum({a}, 4.0)')})")
        y = self.let(f"matvec({self.matrix}, {self.rng.random() < 0.5}, {a})")
        y = self.let(f"{y} * 0.125")
        if self.rng.random() < 0.5:
            self.do(f"outer({self.sum}, {a}, {a}, {self.m})")
        return y

    def block(self, names, scalars, size, depth):
        names = list(names)
        for _ in range(size):
            if depth < 2 and self.rng.random() < 0.2:
                (self.loop if self.rng.random() < 0.5 else self.branch)(names, scalars, depth)
            else:
                names.append(self.statement(names[-4:] + names[:2], scalars))
        return names

    def states(self, names):
        count = min(len(names), 1 + self.rng.integers(3))
        return [names[k] for k in self.rng.permutation(len(names))[:count]]

    def loop(self, names, scalars, depth):
        left = self.let(f"abs({self.pick(scalars)})")
        left = self.let(f"minimum({left}, 2.0)", f"left{len(self.lines)}")
        live, outer = f"live{len(self.lines)}", self.m
        self.let(f"{left} > 0.0", live)
        self.let(f"{live} & {outer}", live)
        self.do(f"while any_lane({live}):")
        self.m, indent, self.indent = live, self.indent, self.indent + "    "
        states = self.states(names)
        inner = self.block(names, scalars, 4, depth + 1)
        news = [self.pick(inner[-3:] + states) for _ in states]
        values = [f"select({live}, {new}, {s})" for s, new in zip(states, news, strict=True)]
        self.do(f"{', '.join(states)} = {', '.join(values)}")
        self.let(f"select({live}, {self.let(f'{left} - 0.75')}, {left})", left)
        self.let(f"{live} & {self.let(f'{left} > 0.0')}", live)
        self.m, self.indent = outer, indent

    def branch(self, names, scalars, depth):
        m, outer = self.let(f"{self.pick(scalars)} > 0.2"), self.m
        m = self.let(f"{m} & {outer}")
        self.do(f"if any_lane({m}):")
        self.m, indent, self.indent = m, self.indent, self.indent + "    "
        states = self.states(names)
        inner = self.block(names, scalars, 3, depth + 1)
        for s in states:
            self.let(f"select({m}, {self.pick(inner)}, {s})", s)
        self.m, self.indent = outer, indent


@every_width
@every_type
def test_operations_after_a_product(t, lanes):
    """They go on with its rows in registers, whatever memory their operands and results have."""
    n, rows, columns = 21, 19, 19
    text = Text()
    a = [text.word(whole(t, rows * columns, seed=3).astype(accumulator(t))), text.word(0)]
    shape = f"{rows}, {columns}, {columns}"
    x = text.vector(whole(t, columns, n))
    c = text.literals(whole(t, rows, seed=1))
    text.let(text.load(whole(t, n, seed=2)), "s")
    y = text.let(f"matvec({t.code}, {a[0]}, {a[1]}, {shape}, False, {x})")
    z = text.let(f"{y} * {x}")  # of the memory that the product reads
    w = text.let(f"{z} + {c}")
    u = text.let(f"matvec({t.code}, {a[0]}, {a[1]}, {shape}, True, {w})")
    v = text.let(f"matvec({t.code}, {a[0]}, {a[1]}, {shape}, False, {c})")  # of literals
    u = text.let(f"{u} - s")
    v = text.let(f"maximum({v}, {u})")
    e = text.let(f"matvec({t.code}, {a[0]}, {a[1]}, {shape}, False, {v})")
    e = text.let(f"tanh({text.let(f'{e} * 0.001')})")
    total = text.let(f"total({text.let(f'{e} * {c}')})")
    text.store(total, t, n)
    for name in (y, w, u, v, e, c):
        text.features(name, t, rows, n, (0, 7, rows - 1))
    text.same(n, lanes)


@every_width
@every_type
def test_features_that_are_repeated(t, lanes):
    """They lie in memory once, and are there as often as needed for all that reads a vector."""
    n, rows, columns = 21, 5, 24
    text = Text()
    a = [text.word(whole(t, rows * columns, seed=3).astype(accumulator(t))), text.word(0)]
    x = text.repeated(whole(t, columns // 8, n), 8, columns)
    z = text.repeated(whole(t, columns // 12, n, seed=5), 12, columns)
    y = text.vector(whole(t, columns, n, seed=4))
    text.let(text.load(whole(t, n, seed=2)), "s")
    text.features(text.let(f"{x} * {y}"), t, columns, n)
    text.features(text.let(f"{x} - {z}"), t, columns, n)
    shape = f"{rows}, {columns}, {columns}"
    u = text.let(f"matvec({t.code}, {a[0]}, {a[1]}, {shape}, False, {x})")
    text.features(u, t, rows, n)
    text.store(text.let(f"total({z})"), t, n)
    k = text.let(f"u32({text.load(np.arange(n, dtype=t.numpy) % columns)})")
    text.store(text.let(f"take({x}, {k}, {text.let('active(i)')})"), t, n)
    text.let(f"abs({text.load(whole(t, n, seed=6))})", "left")
    text.let("left > 0.0", "live")
    text.do("while any_lane(live):")
    text.indent += "    "
    text.let(f"select(live, {text.let(f'{x} + {y}')}, {x})", x)
    text.let("left - 1.0", "left")
    text.let("left > 0.0", "live")
    text.indent = text.indent[4:]
    text.features(x, t, columns, n)
    text.same(n, lanes)


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(k, marks=pytest.mark.sweep) for k in range(12, 24))]
)
def test_random_programs(seed, monkeypatch):
    if seed % 2:  # loops that are needed once are routines, too
        monkeypatch.setattr("drjit.jit.target.simd.module.INLINE_LOOP_LIMIT", -1)
    t = FLOATS[seed % 3]
    n, count, threads = 37, (1, 3, 16, 19)[seed // 3 % 4], 2
    text = Program(seed, t, count)
    names = [text.vector(numbers(t, count, n, seed=seed + k)) for k in range(2)]
    names.insert(seed % 3, text.literals(whole(t, count, seed=seed) * t.numpy.type(0.5)))
    names.insert(seed % 4, text.repeated(numbers(t, -(-count // 8), n, seed=seed + 9), 8, count))
    scalars = [text.load(numbers(t, n, seed=seed + k)) for k in range(2)]
    buffer = text.word(whole(dt.f64, count * count).astype(accumulator(t)))
    shape = f"{count}, {count}, {count}"
    text.matrix = f"{t.code}, {buffer}, {text.word(0)}, {shape}"
    text.size = count * count
    _, start = text.sums(t, text.size, threads)
    text.sum = f"{start}, {text.word(0)}, {shape}"
    copies = len(text.words) - 3
    names = text.block(names, scalars, 25, 0)
    for v in names[:3] + names[-3:]:
        text.features(v, t, count, n)
    lanes = WIDTHS[seed % len(WIDTHS)]
    pairs = text.run(n, lanes, block=16, threads=threads)
    private = text.words[copies]
    for got, want in pairs:
        if got is not private:
            same(got, want, "\n".join(text.lines))


def test_a_loop_that_no_lane_enters_leaves_its_state():
    n, count = 5, 3
    x = numbers(dt.f32, count, n)
    text = Text()
    text.let(text.vector(x), "a")
    text.let(text.load(np.zeros(n, bool)), "m")
    text.let("m & active(i)", "m")
    text.do("while any_lane(m):")
    text.do("    a = select(m, -a, a)")
    text.do("    m = m ^ m")
    text.do("if any_lane(m):")
    text.do("    a = a + 1.0")
    stored = text.features("a", dt.f32, count, n)
    text.run(n, simd.default_lanes())
    for got, want in zip(stored, x, strict=True):
        same(got, want)


def test_layers_of_the_same_shape_share_code():
    text = Text()
    v = text.vector(numbers(dt.f32, 8, 3))
    for _ in range(3):
        p = text.word(numbers(dt.f32, 64)), text.word(0)
        v = text.let(f"matvec(f32, {p[0]}, {p[1]}, 8, 8, 8, False, {v})")
    text.features(v, dt.f32, 8, 3)
    ir = simd.compile("\n".join(text.lines), "test").ir
    assert len(re.findall(r"define internal fastcc void @\"matvec", ir)) == 1
    # The memory of a vector is used again when nothing needs it any more.
    assert len(re.findall("alloca", ir)) == 2


def test_vectors_too_large_for_the_stack():
    lines = ["def kernel(i, p):", "    x = load(f32, p[1], i)"]
    lines += [f"    v{k} = splat(f32, 40000, x)" for k in range(2)]
    lines += [
        "    s = total(v0)",
        "    t = total(v1)",
        "    m = feature(v0, 0)",
        "    v2 = v0 + v1",
    ]
    lines += ["    m = feature(v2, 1)", "    store(f32, p[1], i, m)"]
    with pytest.raises(simd.KernelError, match="take 5000 KiB of stack memory, more than 4096 KiB"):
        simd.compile("\n".join(lines), "test", 16)


def test_packets_of_kernels_with_vectors():
    text = "def kernel(i, p):\n    x = load(f32, p[1], i)\n    v = vector(f32, x, x)\n"
    text += "    while any_lane(x):\n        v = exp(v)\n"
    assert simd.packet_lanes(text) == 16
