"""Makes the pictures of the tutorial on reports, `report/VIEW.png`, from the report of its program.

python docs/images/report.py [REPORT]: a report that is there already; it needs Chromium with its
driver, as tests of the page do, and Pillow
"""

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "_ext"), str(HERE.parents[1] / "tests" / "reporting")]

import reports  # noqa: E402
from browser import Browser, browser  # noqa: E402

from drjit.reporting.page import read  # noqa: E402

LARGEST = 110 * 1024
COLOURS = (256, 128, 64, 32)
# The size of each picture, and what chooses the place in the view that is shown.
VIEWS: dict[str, tuple[int, int, Callable[[dict], tuple[object, ...]]]] = {
    "timeline": (1000, 760, lambda data: ()),
    "kernels": (1000, 900, lambda data: ()),
    "kernel": (1300, 840, lambda data: statement(data)),
    "why": (1000, 900, lambda data: (compilation(data),)),
    "lanes": (1000, 1180, lambda data: (0, data["lanes"][0]["origins"][0]["step"])),
    "derivatives": (1000, 760, lambda data: ()),
}


def statement(data: dict) -> tuple[object, ...]:
    """The kernel of the first NaN, and the last of its statements of the line that made it."""
    record = data["lanes"][0]
    places = data["kernels"][record["kernel"]]["places"]
    place = places[record["steps"][record["origins"][0]["step"]][0] - 1]
    return record["kernel"], "text", len(places) - 1 - places[::-1].index(place)


def compilation(data: dict) -> int:
    """A kernel that was compiled because a number became part of the code."""
    texts = [" ".join([r["text"] for r in row["reasons"]]) for row in data["why"]]
    return next(k for k, text in enumerate(texts) if "detail" in text)


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
    width, height, where = VIEWS[view]
    window.resize(width, height)
    place = where(read(report.read_text("utf-8")))
    window.open(report, "#" + "/".join(map(str, (view, *place))))
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
