"""How many files of the package a value passes through: whoever follows one with a debugger has to
read all of these. The numbers may only go down."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import drjit as dr
from drjit.jit import collector, substitutes
from drjit.jit.cpu import background, warm_up

PACKAGE = Path(dr.__file__).parent
# The most files that one more call goes through, after many.
WAYS = {
    "evaluation": 5,
    "loop": 15,
    "loop of differentiable arrays": 15,
    "backward": 19,
    "traversal": 12,
}


def files(run: Callable[[], Any]) -> set[str]:
    """The files of the package with a function in Python that is called."""
    found: set[str] = set()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return {name for name in found if Path(name).is_relative_to(PACKAGE)}


@dr.syntax
def halved(x, index):
    i = index(0)
    while i < 10:
        x = x * 0.5 + 1
        i += 1
    return x


def loop(cls: Any) -> Iterator[Callable[[], Any]]:
    x, index = dr.arange(cls, 1000), dr.uint32_array_t(cls)
    dr.eval(x)
    while True:
        yield lambda: dr.eval(halved(x, index))


def evaluation() -> Iterator[Callable[[], Any]]:
    x, y = dr.arange(dr.llvm.Float, 1 << 20), dr.arange(dr.llvm.Float, 1 << 20) + 1
    dr.eval(x, y)
    while True:
        z = x * y + dr.sin(x)
        yield lambda z=z: dr.eval(z)


def backward() -> Iterator[Callable[[], Any]]:
    while True:
        x, y = dr.arange(dr.llvm.ad.Float, 1000), dr.arange(dr.llvm.ad.Float, 1000) + 1
        dr.eval(x, y)
        dr.enable_grad(x, y)
        yield lambda x=x, y=y: dr.backward(dr.sum(x * y))


def traversal() -> Iterator[Callable[[], Any]]:
    for call in backward():
        x, y = call.__defaults__
        z = dr.sum(x * y)
        yield lambda z=z: dr.backward(z)


def measured() -> dict[str, list[str]]:
    """The files of each way in a process that has native code, as one has that launches much. Where
    calls differ, because other work was due, the shortest one counts."""
    for name in substitutes.modules:
        room = import_module(name)
        room.install(warm_up.places(room))
    substitutes.milestone = math.inf
    ways = {
        "evaluation": evaluation(),
        "loop": loop(dr.llvm.Float),
        "loop of differentiable arrays": loop(dr.llvm.ad.Float),
        "backward": backward(),
        "traversal": traversal(),
    }
    found = {}
    for name, calls in ways.items():
        for _ in range(30):
            next(calls)()
            dr.sync_thread()
        background.finish()
        while collector.pauses:  # by threads that are about to leave
            time.sleep(1e-3)
        found[name] = min([sorted(files(next(calls))) for _ in range(5)], key=len)
    return found


@pytest.fixture(scope="module")
def ways():
    """The files of each way in a process of its own, so that it has traced little before."""
    # Compiling in the background, or none, would make calls differ.
    settings = {"DRJIT_TIER": "compiled", "PYTHONPATH": str(PACKAGE.parent)}
    environment = {k: v for k, v in os.environ.items() if k != "DRJIT_CHECK_LOCKS"} | settings
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", WAYS)
def test_a_value_passes_through_few_files(ways, name):
    passed = [str(Path(f).relative_to(PACKAGE)) for f in ways[name]]
    assert 0 < len(passed) <= WAYS[name], passed


if __name__ == "__main__":
    print(json.dumps(measured()))
