"""The page of a report, opened from a disk by Chromium: each view by mouse and by keys."""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest
from browser import Browser, browser, found
from example_report import MARCH, example

from drjit.reporting import page as page_module
from drjit.reporting.page import embedded, html, read

VIEWS = ("timeline", "kernels", "kernel", "why", "lanes", "derivatives")
needs_browser = pytest.mark.skipif(found() is None, reason="needs chromium and chromedriver")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "run.html"
    path.write_text(html(example()), "utf-8")
    return path


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def opened(window: Browser, report: Path) -> Iterator[Browser]:
    """A window that shows the report; the console must have stayed empty in the end."""
    window.resize(1300)
    window.scheme("light")
    window.open(report)
    yield window
    assert window.complaints() == []


def text(window: Browser, selector: str) -> str:
    return window.run("return document.querySelector(arguments[0]).innerText", selector)


def texts(window: Browser, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(node => node.innerText)"
    return window.run(script, selector)


def shown(window: Browser) -> list[str]:
    """The views that are visible: one."""
    script = """return [...document.querySelectorAll("[role=tabpanel]")]
        .filter(node => node.checkVisibility()).map(node => node.id.slice(5))"""
    return window.run(script)


def address(window: Browser) -> str:
    return window.run("return location.hash")


# Without a browser


def test_data_cannot_end_the_script_that_holds_it():
    data = {"text": "</script><script>alert(1)</script><!--", "values": [float("nan"), 1.5]}
    assert "<" not in embedded(data)
    expected = {"text": data["text"], "values": ["nan", 1.5]}
    assert read(f'<script id="data">{embedded(data)}</script>') == expected


def test_page_is_one_file_that_needs_no_network():
    whole = html(example())
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//|\w+\.(js|css))""", whole)
    assert "{{" not in whole
    assert len(whole) < 1_000_000


def test_code_is_highlighted_without_pygments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "pygments.lexers.python", None)
    highlight = page_module._highlighter()
    assert highlight(["if x < 1:", ""]) == [
        '<span class="k">if</span> x &lt; <span class="d">1</span>:',
        "",
    ]


def test_code_is_highlighted_line_by_line():
    pytest.importorskip("pygments")
    lines = page_module._highlighter()(['"""one', 'two"""', "", "if x < 1:  # <b>"])
    assert lines[:3] == ['<span class="s">"""one</span>', '<span class="s">two"""</span>', ""]
    assert lines[3] == (
        '<span class="k">if</span> x &lt; <span class="d">1</span>:  '
        '<span class="f"># &lt;b&gt;</span>'
    )


def test_data_may_be_empty():
    assert "<title>Report</title>" in html({})


# In a browser


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1300])
def test_views_fit_and_can_be_read(opened: Browser, width: int, scheme: str):
    opened.resize(width)
    opened.scheme(scheme)
    for number, view in enumerate(VIEWS, 1):
        opened.press(str(number))
        assert shown(opened) == [view]
        assert address(opened) == f"#{view}"
        assert opened.run("return document.documentElement.scrollWidth") <= width
        assert opened.run(CONTRAST) == []


# Texts whose contrast to what is behind them is below 4.5 (WCAG 2.2, 1.4.3).
CONTRAST = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
function rgb(color) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
const luminance = color => rgb(color).slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
function behind(node) {
  for (; node; node = node.parentElement) {
    const color = getComputedStyle(node).backgroundColor;
    if (rgb(color)[3] > 0) return color;
  }
  return "white";
}
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = new Map();
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
  if (node.closest("svg, script")) continue;
  const pair = [getComputedStyle(node).color, behind(node)];
  seen.set(pair.join(), [pair, walker.currentNode.data]);
}
return [...seen.values()].filter(([[front, back]]) => {
  const [a, b] = [luminance(front), luminance(back)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05) < 4.5;
}).map(String);
"""


@needs_browser
def test_header_says_what_ran_and_how_it_ended(opened: Browser):
    header = text(opened, "header")
    assert "train.py --steps 200" in header and "interrupted" in header
    assert "KeyboardInterrupt" in header and "LLVM (2 threads, AVX2)" in header
    assert "2 notes on what this report holds" in header


@needs_browser
def test_tabs_by_mouse_by_arrows_and_back(opened: Browser):
    opened.click(*opened.center("#tab-why"))
    assert shown(opened) == ["why"]
    assert opened.run("return document.activeElement.id") == "tab-why"
    opened.press("Right")
    assert shown(opened) == ["lanes"]
    opened.press("End", "Right")
    assert shown(opened) == ["timeline"]
    selected = texts(opened, "[role=tab][aria-selected=true]")
    assert [name.lstrip("1") for name in selected] == ["Timeline"]
    opened.run("history.go(-2)")
    opened.run("return new Promise(done => setTimeout(done, 200))")
    assert shown(opened) == ["lanes"]


@needs_browser
def test_theme_and_list_of_keys(opened: Browser):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = opened.run(ground)
    opened.press("t")
    dark = opened.run(ground)
    opened.click(*opened.center("#theme"))
    assert opened.run(ground) == light != dark
    opened.press("?")
    assert "next NaN or infinity" in text(opened, "#keys")
    opened.press("3", "Escape")
    assert shown(opened) == ["timeline"]
    assert not opened.run("return document.getElementById('keys').open")


@needs_browser
def test_timeline_zooms_moves_and_names_lines(opened: Browser):
    idle = re.fullmatch(r"All ([\d.]+) s: workers idle (\d+)% of the time\.", text(opened, "#idle"))
    assert idle and abs(int(idle[2]) - 100 * idle_share(example())) < 1
    x, y = opened.center("canvas")
    opened.wheel(x, y, -3000)
    zoomed = text(opened, "#idle")
    assert " to " in zoomed
    opened.drag(x, y, x + 150)
    assert text(opened, "#idle") != zoomed
    opened.press("0")
    assert text(opened, "#idle") == idle[0]
    opened.press("n", "n", "+", *["Left"] * 8)
    event = text(opened, "[aria-live=polite]")
    assert "train.py:41 main" in event and "image = shade(t, light=step * 0.01)" in event
    opened.run("return new Promise(done => setTimeout(done, 400))")
    assert re.fullmatch(r"#timeline/0\.0/\d+\.\d", address(opened))
    assert "image = shade" in text(opened, "#view-timeline table")


def idle_share(data: dict) -> float:
    busy = sum(e[3] - e[2] for e in data["events"] if e[1] in (2, 3))
    return 1 - busy / (2 * data["program"]["seconds"] * 1e6)


@needs_browser
def test_click_on_a_kernel_of_the_timeline_opens_it(opened: Browser, report: Path):
    data = example()
    first = next(e for e in data["events"] if e[0] == "kernel")
    opened.open(report, "#timeline/0/40000")
    left, top, width = (
        opened.run("""const box = document.querySelector("canvas").getBoundingClientRect();
        return [box.x, box.y, box.width]""")
    )
    x = left + 96 + (width - 96) * (first[2] + first[3]) / 2 / 40_000
    y = top + 26 + 2 * 32 + 12
    opened.hover(x, y)
    assert data["kernels"][first[5]]["title"] in text(opened, "#tip")
    opened.click(x, y)
    assert address(opened) == f"#kernel/{first[5]}"


@needs_browser
def test_kernels_are_sorted_and_open(opened: Browser):
    kernels = example()["kernels"]
    opened.press("2")
    by_gain = sorted(kernels, key=lambda k: -k["gain"])
    names = "#view-kernels td:first-child"
    assert texts(opened, names) == [k["title"] for k in by_gain]
    assert by_gain[0]["title"] in text(opened, "#view-kernels p")
    opened.click(*opened.center("#view-kernels th:nth-child(6) button"))  # launches
    assert address(opened) == "#kernels/5/1"
    opened.click(*opened.center("#view-kernels th:nth-child(3) button"))  # time
    by_time = sorted(kernels, key=lambda k: -k["seconds"])
    assert texts(opened, names) == [k["title"] for k in by_time]
    assert address(opened) == "#kernels/2/1"
    opened.press("Escape", "Down")
    opened.run("document.activeElement.blur()")
    opened.press("Enter")
    assert address(opened) == f"#kernel/{kernels.index(by_time[1])}"


@needs_browser
def test_roofline_has_a_point_for_each_kernel(opened: Browser):
    opened.press("2")
    assert opened.run("return document.querySelectorAll('circle').length") == 12
    plot = opened.run("return document.querySelector('#view-kernels svg').textContent")
    assert "memory: 21 GB/s" in plot and "f32, f16: 190 G operations/s" in plot
    opened.run("document.querySelector('circle').focus()")
    assert "of the limit, bound by" in text(opened, "#tip")
    opened.press("Enter")
    assert shown(opened) == ["kernel"]


LIT = """const lit = {};
for (const row of document.querySelectorAll(".columns .lit")) {
  (lit[row.closest(".code").dataset.column] ||= []).push(Number(row.dataset.n));
}
return lit"""


@needs_browser
def test_a_line_lights_up_what_belongs_to_it(opened: Browser, report: Path):
    kernel = example()["kernels"][0]
    opened.open(report, "#kernel/0")
    line = MARCH.index("        v12 = v11 - v3") + 1
    opened.hover(*opened.center(f"[data-column=text] > :nth-child({line})"))
    lit = opened.run(LIT)
    assert lit["text"] == [line] and lit["program"] == [15]
    assert lit["ir"] == [k for k, t in enumerate(kernel["ir_lines"], 1) if t == line]
    assert lit["asm"] == [k for k, t in enumerate(kernel["asm_lines"], 1) if t == line]
    program = "document.querySelectorAll('[data-column=program] > div')"
    at = opened.run(f"return [...{program}].findIndex(row => row.dataset.n == 15)")
    opened.hover(*opened.center(f"[data-column=program] > :nth-child({at + 1})"))
    lit = opened.run(LIT)
    assert lit["text"] == [8, 9, 16, 17, 18] and lit["program"] == [15]
    opened.click(*opened.center(f"[data-column=program] > :nth-child({at + 1})"))
    assert address(opened) == f"#kernel/0/program/{at}"
    opened.hover(*opened.center("[data-column=asm] > :nth-child(4)"))
    assert opened.run(LIT) == lit  # it is held
    opened.press("Right", "Down")
    assert opened.run(LIT)["text"] == [9]


@needs_browser
def test_machine_code_of_gpus_has_a_column(opened: Browser, tmp_path: Path):
    data = example()
    kernel = data["kernels"][0]
    kernel |= {"asm_kind": "PTX", "sass": ["k:", "    MUFU.RCP R2, R3"], "sass_lines": [0, 5]}
    path = tmp_path / "gpu.html"
    path.write_text(html(data), "utf-8")
    opened.open(path, "#kernel/0")
    titles = "return [...document.querySelectorAll('.columns h2')].map(h => h.textContent)"
    assert [t.split(" ")[0] for t in opened.run(titles)[3:]] == ["PTX", "SASS"]
    opened.hover(*opened.center("[data-column=sass] > :nth-child(2)"))
    lit = opened.run(LIT)
    assert lit["text"] == [5] and lit["sass"] == [2]
    opened.open(path, "#kernel/1")
    assert "does not hold it" in text(opened, "[data-column=sass]")


@needs_browser
def test_a_kernel_in_words_and_names(opened: Browser):
    opened.press("3")
    about = text(opened, "#view-kernel .panel")
    assert "200 launches" in about and "3 values do not fit into registers" in about
    code = texts(opened, "[data-column=text] div")
    assert code[17].strip() == "distance = v11 - radius"
    opened.click(*opened.center("#view-kernel [title^=Names]"))
    assert texts(opened, "[data-column=text] div")[17].strip() == "v12 = v11 - v3"
    opened.press(*["]"] * 9)
    assert "It ran on numpy: there is no machine code." in text(opened, "#view-kernel")


@needs_browser
def test_why_names_the_reason_the_fix_and_the_change(opened: Browser):
    opened.press("4")
    assert "No kernel resembled it." in text(opened, "#view-why")
    opened.press("Down")
    assert address(opened) == "#why/1"
    said = text(opened, "#view-why")
    assert "light is a Python number that became part of the code: 0.02 was 0.01" in said
    assert "dr.opaque(Float, light) makes it an input of the kernel." in said
    changed = texts(opened, "#view-why .plus, #view-why .minus")
    assert [line.split() for line in changed] == [["+", "v99", "=", "exp(v7)"]]
    opened.press("Enter")
    assert address(opened) == "#kernel/11"


@needs_browser
def test_lanes_go_forward_and_back_in_time(opened: Browser):
    steps = example()["lanes"][0]["steps"]
    opened.press("5", "Right", "Right", "Right", "Right", "Right")
    assert address(opened) == "#lanes/0/5"
    now = texts(opened, ".lanes tr.now > *")
    assert now[0].split() == ["16", "v10", "=", "fma(t,", "t,", "v5)"] and now[1] == "1"
    assert [float(v) for v in now[2:]] == pytest.approx(steps[5][3], rel=1e-4)
    opened.press("Left")
    assert "step 5 (" in text(opened, "#view-lanes .step")
    opened.press("Shift+Right", "Shift+Right")
    assert ", round 2" in text(opened, "#view-lanes .step")
    opened.press("Shift+Left")
    assert address(opened) == "#lanes/0/5"
    opened.press("End")
    assert address(opened) == f"#lanes/0/{len(steps) - 1}"
    opened.click(*opened.center("#view-lanes button[title^='Step back']"))
    assert address(opened) == f"#lanes/0/{len(steps) - 2}"
    opened.click(*opened.center("#view-lanes canvas"))  # the middle of the strip
    assert ", round 13" in text(opened, "#view-lanes .step")


@needs_browser
def test_the_next_nan_and_the_way_back_to_its_input(opened: Browser):
    record = example()["lanes"][0]
    origin = record["origins"][0]
    opened.press("5", "n")
    assert address(opened) == f"#lanes/0/{origin['step']}"
    assert texts(opened, ".lanes tr.now td.bad") == ["-inf"]
    chain = texts(opened, "ol.chain li")
    assert len(chain) == len(origin["chain"])
    assert "log(v18)" in chain[-1] and "t -= dr.log(dr.abs(distance))" in chain[-1]
    opened.click(*opened.center("ol.chain li:first-child button"))
    assert address(opened) == f"#lanes/0/{origin['chain'][0]}"


@needs_browser
def test_derivatives_are_played_in_their_order(opened: Browser):
    graph = example()["derivatives"][0]
    visited = sum(e[2] >= 0 for e in graph["edges"])
    opened.press("6", "Home")
    count = "return document.querySelectorAll('.graph path:is(.visited, .now)').length"
    assert opened.run(count) == 0
    opened.press("Right", "Right")
    assert opened.run(count) == 2
    assert f"2 of {visited}: " in text(opened, "#view-derivatives .step")
    opened.press("End")
    assert opened.run(count) == visited
    lost = texts(opened, "#view-derivatives .words li")
    assert "detach (200 times)" in lost[0] and "error = dr.detach(image) - target" in lost[0]
    opened.run("document.querySelectorAll('.graph g')[0].focus()")
    assert "radius: f32 × 3" in text(opened, "#view-derivatives .side")
    opened.run("""const select = document.querySelector("#view-derivatives select");
        select.value = 1; select.dispatchEvent(new Event("change"))""")
    assert address(opened) == "#derivatives/1"
    opened.press("Home", " ")
    opened.run("return new Promise(done => setTimeout(done, 1000))")
    assert opened.run(count) >= 1
    opened.press(" ")


@needs_browser
@pytest.mark.parametrize(
    ("place", "view", "shows"),
    [
        ("#timeline/100000/200000", "timeline", "100 ms to 200 ms"),
        ("#kernel/3/text/5", "kernel", "backward"),
        ("#why/2", "why", "one operation more"),
        ("#lanes/0/20", "lanes", "step 21, round 2 ("),
        ("#derivatives/1/3", "derivatives", "3 of"),
        ("#nowhere/<b>", "timeline", "All "),
    ],
)
def test_addresses_open_the_same_place(opened: Browser, report: Path, place, view, shows):
    opened.open(report, place)
    assert shown(opened) == [view]
    assert shows in text(opened, f"#view-{view}")


@needs_browser
def test_empty_views_say_why(window: Browser, tmp_path: Path):
    path = tmp_path / "empty.html"
    path.write_text(html({"program": {"command": "<b>.py"}}), "utf-8")
    window.open(path)
    assert text(window, "h1") == "<b>.py"
    for number, said in enumerate(("No events", "No kernels", "No kernels", "Nothing was compiled",
                                   "No lanes recorded", "No derivatives"), 1):  # fmt: skip
        window.press(str(number), "Right", "Enter", "n")
        assert said in text(window, "#main section:not([hidden])")
    assert window.complaints() == []


@needs_browser
def test_a_kernel_of_which_little_is_known(window: Browser, tmp_path: Path):
    path = tmp_path / "sparse.html"
    path.write_text(html({"kernels": [{"title": "one", "state": "python"}]}), "utf-8")
    window.open(path, "#kernel/0")
    assert "The report keeps the code of the kernels that cost most." in text(window, ".columns")
    window.press("Down", "Right", "Enter", "Escape", "]", "2", "Down", "Enter")
    assert shown(window) == ["kernel"]
    assert window.complaints() == []


@needs_browser
def test_a_notebook_shows_the_page_in_a_frame(window: Browser, report: Path, tmp_path: Path):
    path = tmp_path / "notebook.html"
    inner = escape(report.read_text("utf-8"))
    path.write_text(f'<iframe srcdoc="{inner}" width="900" height="700"></iframe>', "utf-8")
    window.open(path)
    script = """const frame = document.querySelector("iframe").contentDocument;
        frame.getElementById("tab-lanes").click();
        return frame.querySelector("[role=tabpanel]:not([hidden])").id"""
    assert window.run(script) == "view-lanes"
    assert window.complaints() == []


@needs_browser
def test_views_have_bounds_for_large_reports(window: Browser, tmp_path: Path):
    path = tmp_path / "large.html"
    path.write_text(html(example(events=20_000, variables=500)), "utf-8")
    window.open(path)
    window.press("+", "+", "n")
    assert " to " in text(window, "#idle")
    window.press("6")
    assert window.run("return document.querySelectorAll('.graph g').length") == 400
    assert "100 variables not drawn" in text(window, "#view-derivatives .legend")
    window.press("Home", "Right", "End")
    assert window.complaints() == []
