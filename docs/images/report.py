"""Makes the pictures of the tutorial on reports, `report/VIEW.png`, from the report of its program.

python docs/images/report.py [REPORT]: a report that is there already; it needs Chromium with its
driver, as tests of the page do, and Pillow
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "_ext"), str(HERE.parents[1] / "tests" / "reporting")]

import reports  # noqa: E402
from browser import Browser, browser  # noqa: E402

LARGEST = 110 * 1024
COLOURS = (256, 128, 64, 32)
# The size of each picture, and what chooses the place in the view that is shown.
FIND = """
    const data = JSON.parse(document.getElementById("data").textContent);
    const line = text => data.places.findIndex(([path, n]) =>
        data.files[path]?.[0][1][n - 1]?.replace(/<[^>]*>/g, "").includes(text));
    const log = line("dr.log(1"), loops = data.kernels.map((k, i) => i)
        .filter(i => data.kernels[i].places.includes(log));
"""
VIEWS = {
    "timeline": (1000, 760, 'return ["timeline"]'),
    "kernels": (1000, 900, 'return ["kernels"]'),
    "kernel": (1300, 840, """
        const k = loops[0], {places} = data.kernels[k];
        return ["kernel", k, "text", places.lastIndexOf(log)]"""),
    "why": (1000, 900, """
        const k = data.why.findIndex(w => w.reasons.some(r => r.text.includes("detail")));
        return ["why", k]"""),
    "lanes": (1000, 1180, 'return ["lanes", 0, data.lanes[0].origins[0].step]'),
    "derivatives": (1000, 760, 'return ["derivatives"]'),
}  # fmt: skip


def save(shot: Path, file: Path) -> None:
    """Writes a picture with as many colours as are small enough."""
    picture = Image.open(shot).convert("RGB")
    for colours in COLOURS:
        data = io.BytesIO()
        reduced = picture.quantize(colours, dither=Image.Dither.NONE)
        reduced.save(data, "PNG", optimize=True)
        if data.tell() <= LARGEST:
            break
    file.write_bytes(data.getvalue())
    print(f"{file.name}: {picture.size[0]} x {picture.size[1]}, {data.tell() >> 10} KiB, {colours}")


def take(window: Browser, report: Path, view: str, shot: Path) -> None:
    """Takes a picture of a view."""
    width, height, script = VIEWS[view]
    window.resize(width, height)
    window.open(report)
    window.open(report, "#" + "/".join(map(str, window.run(FIND + script))))
    window.run("scrollTo(0, 0)")
    window.picture(shot, whole=False)


def main() -> None:
    (HERE / "report").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report = Path(sys.argv[1] if len(sys.argv) > 1 else folder / "cloud.html")
        if not report.exists() and (wrong := reports.make("cloud", report)):
            sys.exit(wrong)
        with browser(folder / "browser") as window:
            window.scheme("light")
            for view in VIEWS:
                take(window, report, view, folder / "shot.png")
                save(folder / "shot.png", HERE / "report" / f"{view}.png")


if __name__ == "__main__":
    main()
