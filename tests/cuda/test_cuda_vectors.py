"""Vectors on an emulated GPU: what the tests of the processor demand, and networks by tensor cores
against NumPy, against the processor, and with mistakes that must show.
"""

import inspect
import itertools
import re

import numpy as np
import pytest
import test_simd_vectors as processor
from cuda_call import call, made
from ptxas_resources import ptxas, resources
from test_simd import call as call_processor
from test_simd_vectors import Text, accumulator, numbers

from drjit.jit.cuda.emulator import EmulatorError
from drjit.jit.ir import dtype as dt
from drjit.jit.target.cuda import nvptx

pytest.importorskip("llvmlite")

PTXAS = ptxas()
SIZES = (1, 15, 31, 32, 33, 1000)
CAPABILITIES = ((7, 0), (7, 5), (8, 0), (9, 0))
TOLERANCE = {dt.f16: 2e-3, dt.f32: 1e-5, dt.f64: 1e-13}


def _cases():
    """The tests of the processor with their parameters, of which the width of packets is no matter
    here. Every fifth of a test always runs, so that each type and shape takes its turn."""
    for name, function in inspect.getmembers(processor, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        tables = []
        for mark in getattr(function, "pytestmark", ()):
            keys, values = mark.args
            keys = keys.split(",") if isinstance(keys, str) else keys
            rows = {}
            for v in values:
                marks = getattr(v, "marks", ())
                entries = v.values if marks else v if len(keys) > 1 else (v,)
                row = dict(zip(keys, entries, strict=True))
                row.pop("lanes", None)
                rows.setdefault(str(row), (row, marks))
            tables.append(list(rows.values()))
        for k, parts in enumerate(itertools.product(*tables)):
            given = {key: value for row, _ in parts for key, value in row.items()}
            marks = [mark for _, marks in parts for mark in marks]
            marks += [pytest.mark.sweep] * (k % 5 > 0)
            label = "-".join([name.removeprefix("test_"), *[str(v) for v in given.values()]])
            yield pytest.param(function, given, id=label.replace(" ", ""), marks=marks)


@pytest.mark.parametrize(("function", "given"), [*_cases()])
def test_as_on_the_processor(function, given, monkeypatch):
    monkeypatch.setattr(processor, "call", call)
    parameters = inspect.signature(function).parameters
    others = {"lanes": 1, "monkeypatch": monkeypatch}
    function(**given, **{k: v for k, v in others.items() if k in parameters})


@pytest.mark.parametrize("t", [*processor.FLOATS, dt.u8, dt.i64], ids=str)
def test_vectors_in_memory(t):
    n, count = dt.VECTOR_BLOCK + 5, 3
    stored = (10 + numbers(dt.f64, 2, count, dt.VECTOR_BLOCK)).astype(t.numpy)
    text, result = Text(), np.zeros_like(stored)
    place = text.word(stored.ravel())
    each = text.let(f"load_vector({t.code}, {count}, {place}, i)")
    first = text.let(f"broadcast_vector({t.code}, {count}, {place})")
    place = text.word(result.ravel())
    text.do(f"store_vector({t.code}, {count}, {place}, i, {text.let(f'{each} + {first}')})")
    call("\n".join(text.lines), text.words, n)
    got, want = result.swapaxes(0, 1).reshape(count, -1), (stored + stored[0, :, :1]).swapaxes(0, 1)
    np.testing.assert_array_equal(got[:, :n], want.reshape(count, -1)[:, :n])
    assert not got[:, n:].any()


# ---------------------------------------------------------------------------------------- networks


class Network(Text):
    """The text of a network of linear layers, and of its derivatives. Operands of products may be
    rounded to TF32."""

    def __init__(self, t, widths, n, *, bias=True, slope=0.01, seed=0, tf32=False):
        super().__init__()
        self.t, self.widths, self.n, self.slope, self.tf32 = t, widths, n, slope, tf32
        rng = np.random.default_rng(seed)
        self.x = numbers(t, widths[0], n, seed=seed)
        self.matrices = [
            (rng.standard_normal((b, a)) / a**0.5).astype(t.numpy)
            for a, b in itertools.pairwise(widths)
        ]
        self.biases = [rng.standard_normal(b).astype(t.numpy) * bias for b in widths[1:]]
        parts = [a.ravel() for pair in zip(self.matrices, self.biases, strict=True) for a in pair]
        self.starts = np.cumsum([0, *[a.size for a in parts]])
        self.total = int(self.starts[-1])
        self.bias, self.m = bias, self.let("active(i)")
        self.buffer = self.word(np.concatenate(parts).astype(accumulator(t)))
        self.places = [self.word(int(s)) for s in self.starts[:-1]]
        self.zero, self.one, self.small = [
            self.let(f"literal({t.code}, {self.word(t.numpy.type(v))})") for v in (0, 1, slope)
        ]

    def product(self, k, x, turned=False):
        rows, columns = self.matrices[k].shape
        bias = f", {self.buffer}, {self.places[2 * k + 1]}" if self.bias and not turned else ""
        shape = f"{rows}, {columns}, {columns}, {turned}"
        return f"matvec({self.t.code}, {self.buffer}, {self.places[2 * k]}, {shape}, {x}{bias})"

    def forward(self):
        """Returns the inputs of the layers, the slopes of their results, and the last result."""
        inputs, slopes = [self.vector(self.x)], []
        for k in range(len(self.matrices) - 1):
            y = self.let(self.product(k, inputs[-1]))
            m = self.let(f"{y} > {self.zero}")
            slopes.append(self.let(f"select({m}, {self.one}, {self.small})"))
            inputs.append(self.let(f"{y} * {slopes[-1]}"))
        return inputs, slopes, self.let(self.product(len(self.matrices) - 1, inputs[-1]))

    def backward(self, inputs, slopes, g, mask=""):
        """Returns the gradient with respect to the input, and the buffer of those of the
        parameters."""
        sums, start = self.sums(self.t, self.total, 1)
        for k in reversed(range(len(self.matrices))):
            rows, columns = self.matrices[k].shape
            shape, m = f"{rows}, {columns}, {columns}", mask or self.m
            self.do(f"outer({start}, {self.places[2 * k]}, {shape}, {g}, {inputs[k]}, {m})")
            if self.bias:
                self.do(f"accumulate({start}, {self.places[2 * k + 1]}, {g}, {m})")
            g = self.let(self.product(k, g, turned=True))
            if k:
                g = self.let(f"{g} * {slopes[k - 1]}")
        return g, sums

    def results(self, v, count):
        return self.features(v, self.t, count, self.n)

    # In double precision, rounded where the kernel rounds

    def rounded(self, x):
        return x.astype(self.t.numpy).astype(np.float64)

    def operand(self, x):
        """A number of a product: the last of 24 bits are rounded away, halves from zero."""
        if not self.tf32:
            return x.astype(np.float64)
        bits = x.astype(np.float32).view(np.uint32)
        return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(float)

    def exact(self, mask=True):
        """The result, and the gradients of half its square: of the input, and of parameters."""
        h, slopes, round, of = [self.x.astype(np.float64)], [], self.rounded, self.operand
        for a, b in zip(self.matrices, self.biases, strict=True):
            y = round(of(a) @ of(h[-1]) + b.astype(np.float64)[:, None])
            slopes.append(np.where(y > 0, 1, round(np.float64(self.slope))))
            h.append(round(y * slopes[-1]))
        g, parts = y, []
        for k in reversed(range(len(self.matrices))):
            some = np.where(mask, g, 0)
            parts = [(of(some) @ of(h[k]).T).ravel(), some.sum(1) * self.bias, *parts]
            g = round(of(self.matrices[k]).T @ of(g))
            if k:
                g = round(g * slopes[k - 1])
        return y, g, np.concatenate(parts)


def close(got, want, tolerance, what=""):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    scale = np.abs(want).max(initial=1e-30)
    np.testing.assert_allclose(got / scale, want / scale, atol=tolerance, rtol=0, err_msg=what)


def run(network, **options):
    options = {"reduced": network.tf32} | options
    return call("\n".join(network.lines), network.words, network.n, **options)


@pytest.mark.every(4)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("t", (dt.f16, dt.f32, dt.f64), ids=str)
def test_networks_of_all_sizes(t, n):
    network = Network(t, (17, 32, 3), n)
    inputs, slopes, y = network.forward()
    outputs = network.results(y, 3)
    g, sums = network.backward(inputs, slopes, y)
    gradient = network.results(g, 17)
    run(network)
    for got, want in zip((outputs, gradient, sums), network.exact(), strict=True):
        close(got, want, TOLERANCE[t])


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("width", "capability"),
    [
        *itertools.product((1, 3, 16, 17, 32), CAPABILITIES),
        *itertools.product((64, 128), CAPABILITIES[1::2]),
    ],
)
def test_networks_of_all_widths(width, capability):
    network = Network(dt.f16, (width, width, 3), 70 if width < 64 else 33)
    inputs, slopes, y = network.forward()
    outputs = network.results(y, 3)
    g, sums = network.backward(inputs, slopes, y)
    gradient = network.results(g, width)
    run(network, capability=capability)
    for got, want in zip((outputs, gradient, sums), network.exact(), strict=True):
        close(got, want, 3e-3)


def test_a_bad_index_is_that_of_its_thread():
    """The other threads of a whole warp have nothing to report."""
    network = Network(dt.f16, (16, 16), 70)
    record, at = np.zeros(6, np.int64), np.arange(70, dtype=np.uint32)
    at[45] = 500
    index = network.let(f"load(u32, {network.word(at)}, i)")
    site = f"{network.word(record)}, 3, {index}, {network.word(70)}, {network.m}"
    inside = network.let(f"in_bounds({site})")
    found = network.word(result := np.zeros(70, np.bool_))
    network.do(f"store(mask, {found}, i, {inside})")
    network.results(network.forward()[2], 16)
    run(network)
    assert record.tolist() == [1, 3, 500, 70, 45, 0]
    assert np.flatnonzero(~result).tolist() == [45]


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("bias", [False, True])
def test_neighbouring_sums_are_added_together(bias, capability):
    """Two by one instruction, from compute capability 9.0 on, but where an odd number of elements
    comes before them, as before the last matrix, or where a row has an odd number."""
    network = Network(dt.f16, (16, 5, 16, 32), 300, bias=bias)
    inputs, slopes, y = network.forward()
    _, sums = network.backward(inputs, slopes, y)
    assert network.starts[4] % 2
    run(network, capability=capability)
    close(sums, network.exact()[2], 3e-3)
    code = compiled(network, capability).code
    assert ("red.global.add.v2.f32" in code) == (capability >= (9, 0))


@pytest.mark.parametrize("t", (dt.f16, dt.f32), ids=str)
def test_the_processor_computes_the_same(t):
    results = []
    for target in (call_processor, call):
        network = Network(t, (30, 48, 3), 150)
        inputs, slopes, y = network.forward()
        arrays = network.results(y, 3)
        g, sums = network.backward(inputs, slopes, y)
        arrays += [*network.results(g, 30), sums]
        target("\n".join(network.lines), network.words, network.n, 8)
        results.append(arrays)
    for a, b in zip(*results, strict=True):
        close(a, b, TOLERANCE[t])


@pytest.mark.parametrize(
    ("widths", "n", "capability"),
    [
        ((16, 16, 16), 300, (9, 0)),
        ((1, 24, 8, 3), 31, (8, 0)),
        ((17, 33, 7), 65, (12, 0)),
        ((64, 64, 3), 70, (8, 0)),
        ((128, 128, 5), 33, (8, 6)),  # matrices are read from memory, and sums are added there
    ],
)
def test_single_precision_on_tensor_cores(widths, n, capability):
    network = Network(dt.f32, widths, n, tf32=True)
    inputs, slopes, y = network.forward()
    outputs = network.results(y, widths[-1])
    g, sums = network.backward(inputs, slopes, y)
    gradient = network.results(g, widths[0])
    run(network, capability=capability)
    found, exact = (outputs, gradient, sums), network.exact()
    for got, want in zip(found, exact, strict=True):
        close(got, want, 1e-3)  # where sums differ in the last bit, rounding may do so in the 11th
        differences = np.abs(np.asarray(got, np.float64) - want) / np.abs(want).max()
        assert np.quantile(differences, 0.9) < 1e-5
    network.tf32 = False
    plain = network.exact()[0]
    assert np.median(np.abs(outputs - plain)) > 20 * np.median(np.abs(outputs - exact[0]))
    close(outputs, plain, 2e-3)
    code = compiled(network, capability, reduced=True).code
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in code


def test_single_precision_is_kept_where_it_is_not_reduced():
    network = Network(dt.f32, (32, 32, 3), 40)
    network.results(network.backward(*network.forward())[0], 32)
    assert "mma" not in compiled(network, (9, 0)).code
    for capability in CAPABILITIES[:2]:  # which have no TF32
        plain = compiled(network, capability)
        assert compiled(network, capability, reduced=True).code == plain.code


def test_sums_of_halves_in_halves():
    exact, errors = Network(dt.f16, (64, 64, 3), 64).exact()[0], []
    for reduced in (False, True):
        network = Network(dt.f16, (64, 64, 3), 64)
        outputs = network.results(network.forward()[2], 3)
        run(network, reduced=reduced)
        errors.append(np.abs(np.array(outputs, np.float64) - exact).max())
        close(outputs, exact, 1e-2)
    assert errors[1] > 2 * errors[0]
    code = made("\n".join(network.lines), len(network.words), False, (9, 0), True).code
    assert "m16n8k16.row.col.f16.f16.f16.f16" in code


def test_lanes_that_do_not_count():
    network = Network(dt.f16, (20, 33, 5), 100)
    inputs, slopes, y = network.forward()
    mask = np.arange(100) % 3 > 0
    network.x[:, ~mask] = np.nan
    for word in network.words:
        if isinstance(word, np.ndarray) and word.dtype == np.float16 and word.size == 100:
            word[~mask] = np.nan
    some = network.let(f"{network.load(mask)} & {network.m}")
    sums = network.backward(inputs, slopes, y, some)[1]
    run(network)
    network.x[:, ~mask] = 0
    close(sums, network.exact(mask)[2], 2e-3)


@pytest.mark.parametrize(("t", "turned"), [(dt.f16, False), (dt.f16, True), (dt.f32, False)])
def test_what_is_beyond_the_last_feature_does_not_count(t, turned):
    """There are infinities in registers, whose products with zeros would be NaN."""
    network = Network(t, (17, 17, 17), 40, bias=False, tf32=t is dt.f32)
    h = network.let(network.product(0, network.vector(network.x)))
    h = network.let(f"{network.one} / {h}")
    outputs = network.results(network.let(network.product(1, h, turned)), 17)
    run(network)
    of = network.operand
    first, second = (of(a) for a in network.matrices)
    inner = of(network.rounded(1 / network.rounded(first @ of(network.x))))
    close(outputs, (second.T if turned else second) @ inner, 2e-2)


@pytest.mark.parametrize("capability", [*CAPABILITIES, "TF32"])
@pytest.mark.parametrize("kind", ("while", "if"))
def test_networks_in_loops_and_branches(kind, capability):
    """A layer is applied as often as each lane says; derivatives are added up there, too."""
    n, count = 75, 24
    t, tf32 = (dt.f32, True) if capability == "TF32" else (dt.f16, False)
    capability = (8, 0) if tf32 else capability
    network = Network(t, (count, count), n, bias=False, tf32=tf32)
    steps = np.arange(n) % (3 if kind == "while" else 2)
    network.let(network.vector(network.x), "h")
    network.let(network.load(steps.astype(np.float32)), "left")
    network.let("left > 0.0", "live")
    network.let(f"live & {network.m}", "live")
    sums, start = network.sums(t, network.total, 1)
    network.do(f"{kind} any_lane(live):")
    network.indent *= 2
    shape = f"{count}, {count}, {count}"
    network.do(f"outer({start}, {network.places[0]}, {shape}, h, h, live)")
    network.let(network.product(0, "h"), "y")
    network.let("select(live, y, h)", "h")
    network.let("left - 1.0", "left")
    network.let("left > 0.0", "more")
    network.let("live & more", "live")
    network.indent = "    "
    outputs = network.results("h", count)
    run(network, capability=capability)
    h, want = network.x.astype(np.float64), np.zeros((count, count))
    for step in range(steps.max()):
        some = steps > step
        of = network.operand
        want += of(h[:, some]) @ of(h[:, some]).T
        h = np.where(some, network.rounded(of(network.matrices[0]) @ of(h)), h)
    tolerance = 1e-5 if tf32 else 2e-3
    close(outputs, h, tolerance)
    close(sums[: count * count].reshape(count, count), want, tolerance)


def test_many_products_and_sums_do_not_fit_into_shared_memory():
    """Then matrices are read from memory, and sums are added there."""
    network = Network(dt.f16, (128,) * 4 + (5,), 33)
    inputs, slopes, y = network.forward()
    outputs = network.results(y, 5)
    sums = network.backward(inputs, slopes, y)[1]
    run(network, capability=(8, 6))
    assert compiled(network, (8, 6)).shared <= 99 << 10
    for got, want in zip((outputs, sums), network.exact()[::2], strict=True):
        close(got, want, 1e-2)


# ------------------------------------------------------------------------------------ instructions


def forward_and_backward(widths, n=32):
    """The texts of a network without biases, for inference and for training."""
    made = []
    for backward in (False, True):
        network = Network(dt.f16, widths, n, bias=False)
        inputs, slopes, y = network.forward()
        if not backward:
            network.results(y, widths[-1])
        else:
            g = network.results(network.backward(inputs, slopes, y)[0], widths[0])
            assert len(g) == widths[0]
        made.append(network)
    return made


def compiled(network, capability=(9, 0), reduced=False):
    return made("\n".join(network.lines), len(network.words), False, capability, reduced)


def test_instructions_of_the_tensor_cores():
    forward, backward = forward_and_backward((64, 64, 64, 3))
    code = compiled(forward).code
    # Tiles of 8 features, steps of 16 terms, and two halves of the warp.
    assert code.count("mma.sync.aligned.m16n8k16") == (8 + 8 + 1) * 4 * 2
    assert code.count("ldmatrix") == (8 + 8 + 1) * 2 + 2 * 4
    assert "bar.sync" in code and compiled(forward).strides and compiled(forward).threads == 128
    assert compiled(backward).threads == 256
    assert compiled(forward, (7, 5)).code.count("m16n8k8") == (8 + 8 + 1) * 8 * 2
    assert "mma.sync" not in compiled(forward, (7, 0)).code


def test_shared_memory_has_no_conflicts():
    for network in forward_and_backward((64, 64, 3), 70):
        assert not run(network)[0].bank_conflicts


@pytest.mark.skipif(PTXAS is None, reason="there is no assembler")
@pytest.mark.parametrize(
    ("width", "forward", "backward", "spilled"),
    [
        (16, 48, 96, 0),
        (32, 72, 150, 16),
        (64, 150, 255, 0),
        pytest.param(128, 200, 255, 500, marks=pytest.mark.sweep),
    ],
)
def test_registers(width, forward, backward, spilled):
    networks = forward_and_backward((width, width, width, 3))
    for network, most, bytes in zip(networks, (forward, backward), (0, spilled), strict=True):
        made = compiled(network)
        found = resources(PTXAS, made.code, "sm_90")[made.entry]
        assert found.registers <= most and found.spill_stores <= bytes, found


def _swapped(first, second):
    """Swaps two registers of operand A of each product in a PTX text."""

    def edit(code):
        def swap(m):
            parts = [p.strip() for p in m[2].split(",")]
            parts[first], parts[second] = parts[second], parts[first]
            return f"{m[1]}{{{', '.join(parts)}}}"

        changed = re.sub(r"(mma\.sync[^;{]*\{[^}]*\},\s*)\{([^}]*)\}", swap, code)
        assert changed != code
        return changed

    return edit


@pytest.mark.parametrize("t", (dt.f16, dt.f32), ids=str)
@pytest.mark.parametrize("edit", [_swapped(0, 1), _swapped(1, 2), _swapped(2, 3)])
def test_operands_that_are_swapped_show(edit, t):
    network = Network(t, (32, 32, 3), 40, tf32=t is dt.f32)
    outputs = network.results(network.forward()[2], 3)
    run(network)
    close(outputs, network.exact()[0], 2e-3)
    run(network, edit=edit)
    with pytest.raises(AssertionError):
        close(outputs, network.exact()[0], 2e-3)


@pytest.mark.parametrize("name", ("bar.warp.sync", "bar.sync"))
def test_barriers_that_are_missing_show(name):
    network = forward_and_backward((32, 32, 3), 300)[1]
    changed, number = re.subn(rf"\t{name}[^;]*;", "", compiled(network).code)
    assert number
    with pytest.raises(EmulatorError, match="race"):
        run(network, edit=lambda code: changed)


def test_the_modules_are_valid():
    """LLVM verifies them, which it does not do when it compiles."""
    from llvmlite import binding

    from drjit.jit.target.cuda import module
    from drjit.jit.target.cuda.plan import Options

    for network in forward_and_backward((20, 64, 3)):
        for capability in CAPABILITIES:
            text, options = "\n".join(network.lines), Options(capability)
            built = module.translate(text, "k", len(network.words), False, options)
            ir = f'target datalayout = "{nvptx.LAYOUT}"\ntarget triple = "{nvptx.TRIPLE}"\n'
            binding.parse_assembly(ir + built.code, binding.create_context()).verify()
