"""The process of one part of `gpu.py`. What its rows find goes to a journal, line by line, so that
it is known even if the process ends in the middle; of kernels that fail, the folder gets the text,
the PTX, and how they were launched.
"""

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import drjit as dr
from drjit.jit import device, flags
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.kernel import CudaKernel

MOST_KERNELS = 6  # of an error are written to the folder

Row = tuple[str, Callable[[], Any]]
"""A name, and what computes the row: a `Figure`, a text, or an array to compare."""


class Setting(NamedTuple):
    """How large workloads are: `large` and `medium` entries, and the seconds of a measurement."""

    emulated: bool
    large: int
    medium: int
    seconds: float


class Figure(NamedTuple):
    """A time, the `items` that were computed or moved in it, and what else there is to say."""

    seconds: float
    items: float = 0
    unit: str = ""
    more: str = ""


class Differs(AssertionError):
    """A result is not what it should be."""


class OutOfTime(BaseException):
    """`gpu.py` has ended the process."""


def gpu() -> Cuda:
    """Returns the GPU.

    Raises:
        RuntimeError: there is none.
    """
    found = device.find(dr.JitBackend.CUDA)
    if not isinstance(found, Cuda):
        raise RuntimeError(device.unavailable_reason(dr.JitBackend.CUDA))
    return found


class Process:
    """Runs rows of a part.

    `how` is "plain"; "emulated", to keep what the rows compute for comparison; "blocking", where
    the host waits for each launch, and each kernel is written to the folder before it runs; or
    "checked", the same under compute-sanitizer. `emulated` is the folder of what was kept.
    """

    def __init__(self, folder: Path, emulated: Path, how: str) -> None:
        self.how, self.folder = how, folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.journal = (self.folder / "journal").open("a", buffering=1)
        print(file=self.journal)  # the process before this one may have left half a line
        self.kernels: dict[str, CudaKernel] = {}  # by name: what was compiled or loaded
        self.counts: dict[str, int] = {}  # of launches before the row
        self.written: set[str] = set()
        self.values: dict[str, np.ndarray] = {}
        self.expected: dict[str, np.ndarray] = {}
        values = emulated / "values.npz"
        if how != "emulated" and values.exists():
            self.expected = dict(np.load(values))
        self.watch()

    def note(self, **entry: Any) -> None:
        print(json.dumps(entry), file=self.journal)
        if sys.stdout.isatty():
            print(entry)

    def run(self, rows: Iterator[Row], after: str = "", only: list[str] | None = None) -> None:
        """Runs all rows, those after one, or `only` some."""
        waiting = bool(after)
        try:
            for name, make in rows:
                if waiting or (only and name not in only):
                    waiting = waiting and name != after
                    continue
                self.attempt(name, make)
        except (Exception, OutOfTime) as error:
            self.failed("", error)
        else:
            if self.how == "emulated":
                np.savez(self.folder / "values.npz", **self.values)
            self.note(end=True)

    def attempt(self, name: str, make: Callable[[], Any]) -> None:
        """Computes a row. An error concerns this one alone."""
        self.note(begin=name)
        self.counts = {k: kernel.counted for k, kernel in self.kernels.items()}
        try:
            result = make()
            if isinstance(result, Figure):
                entry = result._asdict()
            elif isinstance(result, np.ndarray) and self.how != "emulated":
                entry = self.compared(name, result)
            elif isinstance(result, np.ndarray):
                entry, self.values[name] = {"text": "kept"}, result
            else:
                entry = {"text": str(result)}
            if self.kernels:  # errors of what was queued are those of the row
                dr.sync_thread()
            self.note(row=name, **entry)
        except (Exception, KeyboardInterrupt, OutOfTime) as error:
            self.failed(name, error)

    # ---- Values

    def compared(self, name: str, values: np.ndarray) -> dict[str, Any]:
        """Compares values with those of the emulated GPU."""
        other = self.expected.get(name)
        if not self.expected:  # the emulated run has failed
            return {"equal": None}
        if other is None:
            raise Differs("only the GPU has computed it")
        if values.dtype == other.dtype and values.shape == other.shape:
            if np.array_equal(values, other, equal_nan=values.dtype.kind == "f"):
                return {"equal": True}
            apart = np.abs(values.astype(float) - other)
            may_be_rounded = any(word in name for word in ("float", "network", "gradient"))
            if may_be_rounded and np.nanmax(apart) <= 4e-3 * (np.nanmax(np.abs(other)) or 1):
                return {"equal": False}
        np.savez(self.folder / f"values {name}.npz", here=values, emulated=other)
        if values.dtype != other.dtype or values.shape != other.shape:
            kinds = [f"{v.dtype} {v.shape}" for v in (values, other)]
            raise Differs(f"{kinds[0]} in place of {kinds[1]}")
        same = (values == other) | ((values != values) & (other != other))
        (first, *_) = np.flatnonzero(~same)
        raise Differs(
            f"{np.count_nonzero(~same)} of {values.size} values differ, first at {first}: "
            f"{values.ravel()[first]!r} in place of {other.ravel()[first]!r}"
        )

    # ---- Errors

    def failed(self, row: str, error: BaseException) -> None:
        """Notes an error, and writes the kernels that may be its cause to the folder."""
        text = "".join(traceback.format_exception(error))
        kernels = self.suspects(text)
        notes = getattr(error, "__notes__", ())
        problem = "\n".join([f"{type(error).__name__}: {error}", *notes])
        if isinstance(error, OutOfTime):
            place = traceback.extract_tb(error.__traceback__)[-2]  # the last one is `end` below
            problem = f"the time was up in {Path(place.filename).name}:{place.lineno}, {place.name}"
        self.note(problem=problem, row=row, kernels=[k.name for k in kernels])
        with (self.folder / "errors.log").open("a") as file:
            print(f"{row}\n\n{text}\n", file=file)
        for kernel in kernels:
            self.write(kernel)
        if isinstance(error, OutOfTime) or _is_final(error):
            self.journal.close()
            os._exit(0)  # every later call of the driver would fail as well

    def suspects(self, text: str) -> list[CudaKernel]:
        """Returns the kernels that the text of an error names. If there are none: those that have
        not ended, or those that were launched since the row began."""
        known, found = self.kernels, device._devices.get(dr.JitBackend.CUDA)
        names = [name for name in known if name in text]
        if not names and isinstance(found, Cuda):
            names = [name for _, name, *_ in list(found.queue._entries) if name in known]
        if not names:
            names = [k for k, kernel in known.items() if kernel.counted > self.counts.get(k, 0)]
        return [known[name] for name in dict.fromkeys(names)][-MOST_KERNELS:]

    def write(self, kernel: CudaKernel) -> None:
        """Writes a kernel's text, its PTX, and how it is launched to the folder."""
        if kernel.name in self.written:
            return
        self.written.add(kernel.name)
        (self.folder / f"{kernel.name}.txt").write_text(kernel.text)
        contract, setting = bool(flags.current & dr.JitFlag.FastMath), flags.current
        try:
            form = kernel.lowered(contract, setting & kernel.flag_mask)
        except Exception as error:
            self.say(f"{kernel.name}: no PTX: {type(error).__name__}: {error}")
            return
        (self.folder / f"{kernel.name}.ptx").write_text(form.code)
        size, _, grid, _ = kernel.launch_shape
        last = f"; the last launch: {grid} blocks, {size} lanes" if grid else ""
        self.say(f"{kernel.name}: {form._replace(code='')}{last}")

    def say(self, line: str) -> None:
        with (self.folder / "launches.log").open("a") as file:
            print(line, file=file)

    def watch(self) -> None:
        """Learns of kernels when they are compiled or loaded and, if launches block, of each
        launch before it is made."""
        compile, queue = CudaKernel.compile, CudaKernel.queue
        blocking = self.how in ("blocking", "checked")

        def compiled(kernel: CudaKernel, setting: int) -> Any:
            self.kernels[kernel.name] = kernel
            if blocking:
                self.write(kernel)
            try:
                return compile(kernel, setting)
            except Exception as error:
                error.add_note(f"This was compiled or loaded: kernel {kernel.name}.")
                raise

        def queued(kernel: Any, code: Any, block: bytes, size: int, grid: int, *more: Any) -> None:
            form = code.form
            self.say(f"launch of {kernel.name}: {grid} blocks of {form.threads} threads, {size} "
                     f"lanes, {form.shared} bytes of dynamic shared memory")  # fmt: skip
            queue(kernel, code, block, size, grid, *more)

        CudaKernel.compile = compiled
        if blocking:
            CudaKernel.queue = queued
            dr.set_flag(dr.JitFlag.LaunchBlocking, True)


def _is_final(error: BaseException | None) -> bool:
    """Returns whether an error ended the use of the GPU by this process."""
    while error is not None:
        if isinstance(error, CudaError) and error.is_of_launch:
            return True
        error = error.__cause__ or error.__context__
    return False


def run(part: Any, folder: Path, emulated: Path, options: Any) -> None:
    """Is the process of a part, with the options of `gpu.py`."""

    def end(number: int, frame: Any) -> None:
        raise OutOfTime

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have disabled
    signal.signal(signal.SIGTERM, end)
    faulthandler.enable()
    if hasattr(faulthandler, "register"):  # not on Windows
        faulthandler.register(signal.SIGTERM, chain=True)
    if options.how == "emulated":
        major, minor = options.capability.split(".")
        device.register(Cuda(EmulatedDriver((int(major), int(minor)))))
    seconds = 0.0 if options.emulated else 0.5
    at = Setting(options.emulated, 1 << options.scale, 1 << min(options.scale, 20), seconds)
    process = Process(folder, emulated, options.how)
    # Its types look for the GPU when they are imported.
    rows = getattr(import_module(part.module), part.function)
    process.run(rows(at), options.after, options.row)
