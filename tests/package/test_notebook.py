"""What notebooks show of kernels, graphs and pixels, and what terminals print instead."""

import re
import xml.etree.ElementTree as ElementTree
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import drjit as dr
from drjit.function.inspect import layered
from drjit.llvm import Array3f, Array4f, Float, TensorXf, TensorXu, UInt, ad


class Balanced(HTMLParser):
    """Checks that elements end where they should; collects the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shown = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.shown += data


def circle(x):
    y = dr.sqrt(1 - x * x)
    return dr.select(y < 0.5, y, 0.5)


# ---- Kernels


def test_the_text_of_a_kernel_is_a_string():
    text = dr.kernel_source(circle(dr.opaque(Float, 0.1, 100)))
    assert isinstance(text, str) and "sqrt" in text and "#" not in text
    assert f"{text}" == text == "".join(text.splitlines(keepends=True))
    shown = Balanced(text._repr_html_()).shown
    assert shown.strip() == text.strip()


def test_kernels_stand_beside_the_lines_of_the_function_that_is_traced():
    text = dr.kernel_source(circle, dr.opaque(Float, 0.1, 100))
    noted = [line for line in text.splitlines() if "test_notebook.py:" in line]
    assert any("sqrt(" in line and "y = dr.sqrt(1 - x * x)" in line for line in noted)
    page = text._repr_html_()
    rows = re.findall(r"<tr.*?</tr>", page)
    assert len(rows) == len(text.splitlines())
    # Each line of the function once, beside the first statement that comes from it.
    beside = [Balanced(row).shown for row in rows if 'class="u"' in row]
    assert sum("y = dr.sqrt(1 - x * x)" in row for row in beside) == 1
    assert sum("select(y < 0.5, y, 0.5)" in row for row in beside) == 1
    assert not any("test_notebook.py" in row for row in beside if "load(" in row)
    assert not dr.flag(dr.JitFlag.Debug)


def test_a_function_that_raises_leaves_debug_mode():
    def fails(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dr.kernel_source(fails, Float(1))
    assert not dr.flag(dr.JitFlag.Debug)


def test_methods_and_functions_in_wrappers_are_called():
    class Shape:
        def inside(self, x):
            return circle(x)

    x = dr.opaque(Float, 0.1, 100)
    for function in (Shape().inside, dr.syntax(circle), dr.freeze(circle)):
        assert "test_notebook.py" in dr.kernel_source(function, x), function


def test_texts_are_escaped():
    x = dr.opaque(Float, 1, 100)
    y = x + 1
    dr.set_label(y, "<b>&")
    page = dr.kernel_source(y)._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;&amp;" in page


def test_the_table_of_kernels():
    dr.flush_kernel_cache()  # the shares of hundreds would round to nothing
    dr.eval(circle(dr.arange(Float, 1000)))
    table = dr.kernels()
    lines = repr(table).splitlines()
    assert len(lines) == len(table) + 1 and lines[0].split()[:3] == ["kernel", "tier", "launches"]
    for row, line in zip(table, lines[1:], strict=True):
        assert line.startswith(row.name) and f"{row.launches:,}" in line
    share = [line.count("█") + line.count("▌") / 2 for line in lines[1:]]
    assert share == sorted(share, reverse=True) and 14 <= sum(share) <= 16 + len(table) / 2
    page = table._repr_html_()
    shown = Balanced(page).shown
    assert all(row.name in shown for row in table) and "store(f32" in shown
    assert page.count("width:") >= 2 * len(table)
    empty = type(table)()
    assert len(repr(empty).splitlines()) == 1 and "kernel" in Balanced(empty._repr_html_()).shown


# ---- Graphs


def svg_boxes(text: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(text)
    found = [
        tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height"))
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
        if r.attrib["rx"] == "4"
    ]
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for x, y, w, h in found:
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 40, 300])
def test_nodes_of_a_drawing_neither_overlap_nor_lie_outside(count):
    random = np.random.default_rng(count)
    boxes = {k: layered.Box([[f"node {k}"], ["a", "b" * (k % 17)]], "#fff") for k in range(count)}
    edges = [(int(random.integers(k)), k, "1") for k in range(1, count) for _ in range(k % 3)]
    found = svg_boxes(layered.svg(boxes, edges, [("kind", "red")]))
    assert len(found) == count
    for k, (x, y, w, h) in enumerate(found):
        for x1, y1, w1, h1 in found[:k]:
            assert x + w <= x1 or x1 + w1 <= x or y + h <= y1 or y1 + h1 <= y
    level = layered.layers(list(boxes), edges)
    assert all(level[a] < level[b] for a, b, _ in edges)


def test_graphs_are_drawn(tmp_path, monkeypatch):
    a = dr.arange(Float, 4321)
    dr.set_label(a, "a <b> & {c}")
    b = dr.fma(a, 2, 3)
    drawing = dr.graphviz()
    assert str(drawing) == drawing.source == dr.graphviz(as_string=True)
    text = drawing._repr_svg_()
    assert "a &lt;b&gt; &amp; {c}" in text and ">fma<" in text
    count = len(re.findall(r"^ {4}\d+ \[", drawing.source, re.M))  # those of other tests as well
    assert len(svg_boxes(text)) == min(count, 1000)
    assert drawing.save(tmp_path / "x.svg").read_text(encoding="utf-8") == text
    assert drawing.save(tmp_path / "x.gv").read_text(encoding="utf-8") == drawing.source
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = drawing.view()
    assert opened == [f"file://{path}"] and path.endswith(".svg")
    assert b.state is dr.VarState.Unevaluated


def test_graphs_of_derivatives_are_drawn():
    x = ad.Float(1)
    dr.enable_grad(x)
    x.label = "input"
    y = dr.sin(x) * x
    drawing = dr.graphviz_ad()
    text = drawing.svg
    assert 'Label: "input"' in text.replace("&quot;", '"') and ">sin<" in text
    assert "marker-start" in text and "marker-end" not in text
    del y


def test_the_package_graphviz_does_what_else_it_can(monkeypatch):
    class Source:
        def __init__(self, text):
            self.text = text

        def pipe(self, format):
            return f"{format}: {self.text[:7]}"

    package = type("graphviz", (), {"Source": Source})
    monkeypatch.setitem(__import__("sys").modules, "graphviz", package)
    assert dr.graphviz().pipe("pdf") == "pdf: digraph"


# ---- Pictures


def decoded(png: bytes) -> np.ndarray:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    channels = {0: 1, 2: 3, 6: 4}[png[25]]
    start = png.index(b"IDAT")
    length = int.from_bytes(png[start - 4 : start])
    data = np.frombuffer(zlib.decompress(png[start + 4 : start + 4 + length]), np.uint8)
    return data.reshape(height, 1 + width * channels)[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("channels", [None, 1, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (17, 2)])
def test_tensors_as_pictures(channels, size):
    shape = size if channels is None else (*size, channels)
    values = np.random.default_rng(0).random(shape).astype(np.float32)
    expected = values.reshape(*size, -1) * 255
    for pixels in (TensorXf(values), values, values.astype(np.float64)):
        found = dr.picture(pixels, srgb=False)
        assert found._repr_png_() == found.png
        assert np.abs(decoded(found.png) - expected).max() <= 0.51
    assert np.array_equal(decoded(dr.picture(values).png), dr.picture(values).numpy())


def test_the_curve_of_srgb_is_that_of_the_library():
    x = dr.linspace(Float, 0, 1, 256)
    found = dr.picture(x, (16, 16)).numpy().ravel()
    assert np.abs(found - dr.linear_to_srgb(x).numpy() * 255).max() <= 0.51
    opaque = dr.picture(Array4f(x, x, x, x), (16, 16)).numpy()
    assert np.array_equal(opaque[..., 0].ravel(), found)
    assert np.abs(opaque[..., 3].ravel() - x.numpy() * 255).max() <= 0.51  # opacity is not light


def test_lanes_as_pixels():
    x, y = dr.meshgrid(dr.arange(Float, 3), dr.arange(Float, 2), indexing="xy")
    found = dr.picture(Array3f(x, y, 0), (2, 3), high=2, srgb=False).numpy()
    assert found.shape == (2, 3, 3)
    assert found[1, 2].tolist() == [255, 128, 0] and found[0, 1].tolist() == [128, 0, 0]
    tracked = ad.Float(x)
    dr.enable_grad(tracked)
    assert dr.picture(tracked, (2, 3)).shape == (2, 3, 1)


def test_pixels_of_other_kinds():
    assert dr.picture(x := Float(1, 2, 3, 4) > 2, (2, 2)).numpy().ravel().tolist() == [
        0,
        0,
        255,
        255,
    ]
    assert x is not None
    integers = dr.picture(TensorXu([[0, 5], [10, 20]]), high=10).numpy()
    assert integers.ravel().tolist() == [0, 128, 255, 255]
    as_they_are = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert np.array_equal(dr.picture(as_they_are).numpy()[:, :, 0], as_they_are)
    odd = dr.picture(Float(0, np.nan, np.inf, -np.inf), (2, 2)).numpy()
    assert odd.reshape(4, 3).tolist() == [[0] * 3, [255, 0, 255], [255] * 3, [0] * 3]
    large = dr.picture(np.eye(2), zoom=3).numpy()[:, :, 0]
    assert np.array_equal(large, np.kron(np.eye(2), np.full((3, 3), 255)))


def test_pictures_are_saved(tmp_path):
    found = dr.picture(np.eye(2))
    assert found.save(tmp_path / "a").name == "a.png"
    assert found.save(tmp_path / "b.PNG").read_bytes() == found.png
    with pytest.raises(ValueError, match=r"ends with \.png, not \.jpg"):
        found.save(tmp_path / "c.jpg")
    assert repr(found).startswith("<picture of 2 × 2 pixels, grey")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((Float(1, 2),), {}, ValueError, r"not \(2,\); the height and width .* 'shape'"),
        ((Array3f(1, 2, 3),), {}, ValueError, "'shape'"),
        ((np.zeros((2, 2, 2)),), {}, ValueError, r"1, 3 or 4 channels, not \(2, 2, 2\)"),
        ((Float(1, 2), (2, 2)), {}, ValueError, "2 × 2 pixels do not fit an array of 2 values"),
        ((np.zeros((0, 2)),), {}, ValueError, r"channels, not \(0, 2\)"),
        ((3,), {}, TypeError, "expected an array of pixels, got int"),
        ((np.eye(2) * 1j,), {}, TypeError, "complex128 values"),
        ((np.eye(2),), {"low": 1}, ValueError, "greater than 'low'"),
        ((np.eye(2),), {"high": np.nan}, ValueError, "greater than 'low'"),
        ((np.eye(2),), {"zoom": 0}, ValueError, "'zoom' must be a positive integer, not 0"),
    ],
)
def test_what_is_no_picture(arguments, options, error, text):
    with pytest.raises(error, match=text):
        dr.picture(*arguments, **options)


def test_nothing_is_evaluated_for_a_text_or_a_graph():
    x = dr.arange(UInt, 100) + 7
    dr.kernel_source(x)._repr_html_()
    dr.graphviz()._repr_svg_()
    assert x.state is dr.VarState.Unevaluated


# ---- Arrays


def cells(array) -> list[list[str]]:
    """The rows of the table that notebooks show for an array."""
    rows = re.findall(r"<tr.*?</tr>", array._repr_html_())
    assert "<table" in array._repr_html_() or not rows
    return [[Balanced(cell).shown for cell in re.findall(r"<t[hd].*?</t[hd]>", r)] for r in rows]


@pytest.mark.processor
def test_arrays_are_tables():
    x = Array3f(dr.arange(Float, 1000), 1, dr.nan)
    rows = cells(x)
    assert rows[:2] == [["", "x", "y", "z"], ["0", "0", "1", "nan"]] and len(rows) == 10
    assert rows[5][0] == "⋮" and rows[-1] == ["999", "999", "1", "nan"]
    assert Balanced(x._repr_html_()).shown.startswith("drjit.llvm.Array3f, 3 × 1,000")
    assert cells(dr.arange(UInt, 3)) == [["0", "0"], ["1", "1"], ["2", "2"]]
    assert cells(Float(0.1)) == [["0", "0.1"]] and cells(Float()) == []
    assert cells(dr.scalar.Array3f(1, 2, 3))[1] == ["1", "2"]
    assert cells(dr.scalar.Matrix2f(1, 2, 3, 4)) == [
        ["", "0", "1"],
        ["0", "1", "2"],
        ["1", "3", "4"],
    ]
    assert cells(ad.Complex2f(1, 2)) == [["", "real", "imag"], ["0", "1", "2"]]
    assert cells(ad.Matrix2f(1, 2, 3, 4)) == [
        ["", "0, 0", "0, 1", "1, 0", "1, 1"],
        ["0", "1", "2", "3", "4"],
    ]


def test_tensors_are_tables():
    rows = cells(TensorXu(dr.arange(UInt, 3000), (10, 10, 30)))
    assert len(rows) == 10 and len(rows[0]) == 10
    assert rows[0] == ["", "0", "1", "2", "3", "…", "26", "27", "28", "29"]
    assert rows[-1] == ["99", "2970", "2971", "2972", "2973", "…", "2996", "2997", "2998", "2999"]
    assert cells(TensorXf(dr.arange(Float, 2), (2,))) == [["0", "0"], ["1", "1"]]
    assert cells(TensorXf(7)) == [["0", "7"]]
    assert cells(TensorXf(Float(), (0, 3))) == []


def test_differentiable_arrays_stay_so():
    x = ad.Float(1, 2)
    dr.enable_grad(x)
    y = x * x
    assert "with derivatives" in y._repr_html_() and cells(y) == [["0", "1"], ["1", "4"]]
    dr.backward(y)
    assert dr.all(x.grad == [2, 4])
    assert "with derivatives" not in dr.detach(y)._repr_html_()


def test_what_has_no_table_stays_text():
    assert ad.ArrayXf([Float(1, 2), Float(1, 2, 3)])._repr_html_() is None

    seen = []

    def body(x):
        seen.append(x._repr_html_())
        return (x + 1,)

    dr.while_loop((Float(0),), lambda x: x < 3, body)
    assert seen == [None]
