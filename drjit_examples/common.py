"""What the examples share, so that each can be about its subject: options whose values are checked,
progress that Ctrl-C ends early, and pictures.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

PORTRAIT = Path(__file__).parent / "portrait.jpg"
"""Grace Hopper, photographed by the U.S. Navy, in the public domain."""


PICTURES, ANIMATIONS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"), (".gif", ".webp")


def at_least(low: int) -> Callable[[str], int]:
    """The type of an option for whole numbers that are not below a limit."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if value < low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, not {value}")
        return value

    return number


class Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the paragraphs of the docstring, and adds what is preset to each option."""


class Options(argparse.ArgumentParser):
    """The options of an example, described by its docstring, and the file that it writes."""

    def __init__(self, description: str | None, output: str | None = None) -> None:
        super().__init__(sys.argv[0], description=description, formatter_class=Help)
        if output is not None:
            self.add_argument("--output", default=output, help="file to write")

    def number(self, name: str, preset: int, help: str, low: int = 1) -> None:
        """Adds an option for a whole number."""
        self.add_argument(name, type=at_least(low), default=preset, metavar="N", help=help)

    def parse(self) -> argparse.Namespace:
        """The values of the options. That the file can be written is found out here, not in the
        end."""
        values = self.parse_args()
        output: str | None = getattr(values, "output", None)
        if output is not None:
            formats = ANIMATIONS if self.get_default("output").endswith(".gif") else PICTURES
            if Path(output).suffix.lower() not in formats:
                known = ", ".join(formats)
                self.error(f"{output} cannot be written: its name ends in none of {known}")
            new = not Path(output).exists()
            try:
                open(output, "ab").close()
            except OSError as error:
                self.error(f"{output} cannot be written: {error.strerror}")
            if new:
                Path(output).unlink()
        return values


class Progress:
    """Counts steps, with a bar, until there are enough or Ctrl-C is pressed: the step is finished
    then, and what there is by then is the result. Pressed once more, Ctrl-C ends the program."""

    def __init__(self, count: int, unit: str = "step", first: int = 0) -> None:
        self.count, self.unit, self.first = count, unit, first
        self.done = first
        self.seconds = 0.0
        self._bar: Any = None

    def __iter__(self) -> Iterator[int]:
        from tqdm.auto import tqdm

        stopped = False

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal stopped
            if stopped:
                raise KeyboardInterrupt
            stopped = True

        before = signal.signal(signal.SIGINT, stop)
        start = time.perf_counter()
        steps = range(self.first, self.count)
        try:
            with tqdm(total=self.count, initial=self.first, unit=self.unit) as self._bar:
                for step in steps:
                    yield step
                    self.done = step + 1
                    self._bar.update()
                    if stopped:
                        message = "Interrupted: what was computed so far is the result."
                        self._bar.write(message, file=sys.stderr)
                        break
        finally:
            self.seconds = time.perf_counter() - start
            signal.signal(signal.SIGINT, before)

    def show(self, **figures: str) -> None:
        """Shows figures behind the bar."""
        self._bar.set_postfix(figures)


def start(main: Callable[[], None]) -> None:
    """Runs a program. Ctrl-C ends it without a traceback if there is nothing to show yet."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Interrupted before there was a result.")


def write(output: str, pixels: Any, **options: Any) -> None:
    """Writes a picture of shape (height, width) or (height, width, 3) with values from 0 to 1, or
    several of them as an animation."""
    import imageio.v3 as iio

    values = np.clip(np.nan_to_num(np.asarray(pixels, np.float32)), 0, 1)
    iio.imwrite(output, (values * 255 + 0.5).astype(np.uint8), **options)


@dataclass
class Panel:
    """A picture with a title: values from `low` to `high` in shades of a colour map of Matplotlib,
    which a scale beside it explains, or pixels of three colours."""

    title: str
    pixels: NDArray[Any]
    colours: str = "gray"
    low: float = 0.0
    high: float = 1.0
    scale: str | None = None


def write_panels(output: str, panels: Sequence[Panel], columns: int, size: int = 480) -> None:
    """Writes pictures side by side, each `size` pixels wide, with titles above."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    aspect = max(panel.pixels.shape[0] / panel.pixels.shape[1] for panel in panels)
    inches = size / 100
    figure = Figure((columns * inches, rows * (inches * aspect + 0.35)), 100, layout="constrained")
    FigureCanvasAgg(figure)
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, k + 1)
        pixels = np.clip(panel.pixels, 0, 1) if panel.pixels.ndim == 3 else panel.pixels
        image = axes.imshow(pixels, cmap=panel.colours, vmin=panel.low, vmax=panel.high)
        axes.set_title(panel.title, fontsize=11)
        axes.set_axis_off()
        if panel.scale is not None:
            figure.colorbar(image, ax=axes, shrink=0.85, label=panel.scale)
    figure.savefig(output)
