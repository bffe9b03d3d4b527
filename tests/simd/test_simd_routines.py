"""Loops over the features of vectors as routines of a module: equal ones are one, whatever they
work on, and give the same bits as the NumPy target.
"""

import re

import numpy as np
import pytest
from test_simd import same
from test_simd_vectors import FLOATS, Text, accumulator, every_type, every_width, numbers, whole

from drjit.jit.ir import dtype as dt
from drjit.jit.target.simd import kernel

COUNTS = (1, 3, 15, 16, 17, 64)
LIMIT = "drjit.jit.target.simd.module.INLINE_LOOP_LIMIT"


@pytest.fixture(params=["inline", "called"])
def routines(request, monkeypatch):
    """Loops that are called a few times are inlined or not."""
    monkeypatch.setattr(LIMIT, 10**6 if request.param == "inline" else -1)


def defined(ir, prefix=""):
    """The symbols of the functions of a module, but for the kernel's own two."""
    return [s for s in re.findall(r'^define internal .* @"([^"]*)"', ir, re.M) if prefix in s]


def network(t, width, depth, n, threads=2):
    """Layers with biases and activations, and the sums for the gradients of their parameters."""
    text = Text()
    size = width * width + width
    weights = whole(t, depth * size, seed=1).astype(accumulator(t))
    place = text.word(weights)
    starts = [(text.word(k * size), text.word(k * size + width * width)) for k in range(depth)]
    _, sums = text.sums(t, depth * size, threads)
    zero, scale = (text.let(f"literal({t.code}, {text.word(t.numpy.type(x))})") for x in (0, 0.25))
    text.let("active(i)", "m")
    shape = f"{width}, {width}, {width}"
    inputs = [text.vector(whole(t, width, n))]
    outputs = []
    for matrix, bias in starts:
        x = inputs[-1]
        y = f"matvec({t.code}, {place}, {matrix}, {shape}, False, {x}, {place}, {bias})"
        outputs.append(text.let(y))
        # Whole numbers again, whose sums are exact in any order.
        x = text.let(f"maximum({outputs[-1]}, {zero})")
        x = text.let(f"minimum({text.let(f'{x} * {scale}')}, 3.0)")
        inputs.append(text.let(f"floor({x})"))
    g = inputs[-1]
    for k in reversed(range(depth)):
        g = text.let(f"select({text.let(f'{zero} < {outputs[k]}')}, {g}, {zero})")
        total = text.let(f"total({text.let(f'abs({g})')})")
        some = text.let(f"{text.let(f'{total} != {zero}')} & m")
        text.do(f"outer({sums}, {starts[k][0]}, {shape}, {g}, {inputs[k]}, {some})")
        text.do(f"accumulate({sums}, {starts[k][1]}, {g}, m)")
        g = text.let(f"matvec({t.code}, {place}, {starts[k][0]}, {shape}, True, {g})")
        g = text.let(f"maximum({text.let(f'minimum({g}, 2.0)')}, -2.0)")
    text.features(g, t, width, n)
    return text


def translated(text):
    return kernel.module_text("\n".join(text.lines), "test", 16, False).ir


@every_type
@pytest.mark.parametrize("width", [3, 16, 64])
def test_equal_layers_are_one_routine(t, width):
    few, many = (translated(network(t, width, depth, 3)) for depth in (4, 24))
    assert defined(many) == defined(few)
    # Two products with what follows them, and what is before the sums.
    loops = defined(many, "matvec") + defined(many, "features")
    assert 3 <= len(loops) <= 7
    # Each layer is a few calls, and the addresses of what they work on.
    per_layer = (many.count("\n") - few.count("\n")) / 20
    assert per_layer <= 45


@every_type
@pytest.mark.parametrize("width", COUNTS)
def test_layers_have_the_same_bits_as_in_numpy(t, width, routines):
    n, threads = 37, 2
    text = network(t, width, 5, n, threads)
    size = threads * 5 * width * (width + 1)
    private = next(k for k, w in enumerate(text.words) if np.size(w) == size)
    for got, want in text.run(n, 16, block=16, threads=threads):
        if got is not text.words[private]:
            same(got, want, "\n".join(text.lines))


def loops(t, expressions, n=21, count=17, **options):
    """A kernel with a loop for each of some expressions of the vectors x and y, literals c, scalars
    s and r, and its module's routines; its results are those of the NumPy target.
    """
    text = Text()
    text.let(text.vector(numbers(t, count, n)), "x")
    text.let(text.vector(numbers(t, count, n, seed=1)), "y")
    text.let(text.literals(numbers(t, count, seed=2)), "c")
    for k, name in enumerate("sr"):
        text.let(text.load(numbers(t, n, seed=3 + k)), name)
    text.let("s < r", "m")
    for expression in expressions:
        # A feature of the result, which needs it in memory, ends the loop.
        text.features(text.let(expression), t, count, n, (0, count - 1))
    text.store(text.let("feature(x, 1)"), t, n)
    text.store(text.let("feature(y, 1)"), t, n)
    ir = translated(text)
    text.same(n, 16)
    return len(defined(ir, "features"))


EQUAL = {
    "whatever the order of the operands": ("x - y", "y - x"),
    "whichever the scalar": ("x * s", "y * r", "x * r"),
    "whichever the mask": ("select(m, x, y)", "select(m, y, x)"),
    "whatever the memory": ("tanh(x)", "tanh(y)", "tanh(x)"),
}
DIFFERENT = {
    "a vector twice": ("x - y", "x - x"),
    "a scalar in its place": ("x - y", "x - s", "s - x"),
    "literals in its place": ("x * y", "x * c"),
    "another number": ("x * 2.0", "x * 3.0"),
    "another operation": ("x + y", "x - y", "minimum(x, y)", "maximum(x, y)"),
}


@every_type
@pytest.mark.parametrize("case", EQUAL)
def test_loops_are_equal(t, case, routines):
    assert loops(t, EQUAL[case]) == 1


@every_type
@pytest.mark.parametrize("case", DIFFERENT)
def test_loops_differ(t, case, routines):
    assert loops(t, DIFFERENT[case]) == len(DIFFERENT[case])


@every_type
def test_loops_differ_in_what_they_do_with_their_results(t, routines):
    n, count = 21, 17
    text = Text()
    text.let(text.vector(numbers(t, count, n)), "x")
    text.let(text.vector(numbers(t, count, n, seed=1)), "y")
    for expression in ("a - b", "b - a", "a - a"):
        text.let("x + y", "a")
        text.let("x * y", "b")
        text.let(expression, "z")
        text.features("a", t, count, n, (1,))
        text.features("b", t, count, n, (1,))
        text.features("z", t, count, n, (0, count - 1))
    assert len(defined(translated(text), "features")) == 3
    text.same(n, 16)


def test_a_number_has_the_type_of_its_vector(routines):
    """Operations of the same spelling on vectors that differ in type alone."""
    n, count = 9, 6
    text = Text()
    for t in FLOATS:
        for name in "xy":
            text.let(text.vector(numbers(t, count, n)), f"{name}{t.code}")
            text.let(f"{name}{t.code} * 0.3", f"{name}{t.code}")
            text.features(f"{name}{t.code}", t, count, n)
    assert len(defined(translated(text), "features")) == 3
    text.same(n, 16)


@every_width
@every_type
def test_loops_in_loops_and_branches(t, lanes, routines):
    """State changes places from round to round, in memory that the same routine is given."""
    n, count = 21, 17
    text = Text()
    for k, name in enumerate("xyz"):
        text.let(text.vector(whole(t, count, n, seed=k)), name)
    text.let(text.load(whole(t, n, seed=5)), "s")
    text.let(text.load((np.arange(n) % 4).astype(t.numpy)), "left")
    text.let("left > 0.0", "live")
    text.do("while any_lane(live):")
    text.indent += "    "
    for _ in range(3):
        text.let("y + x", "w")
        text.let("maximum(w, s)", "w")
        text.let("w - y", "v")
        text.do("x, y, z = select(live, y, x), select(live, v, y), select(live, w, z)")
    text.do("if any_lane(live):")
    text.do("    z = z * s")
    text.do("    x = x + z")
    text.let("left - 1.0", "left")
    text.let("left > 0.0", "live")
    text.indent = text.indent[4:]
    for name in "xyz":
        text.features(name, t, count, n)
    text.same(n, lanes)


def test_memory_is_used_again_in_deep_networks():
    """What is alive is what the gradients need: the inputs and outputs of layers."""
    sizes = [
        sum(map(int, re.findall(r"%rows\d+ = alloca \[(\d+) x i8\]", translated(text))))
        for text in (network(dt.f32, 16, depth, 3) for depth in (8, 16))
    ]
    assert sizes[1] - sizes[0] == 8 * 2 * 16 * 16 * 4
