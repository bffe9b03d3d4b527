"""`drjit.cuda` on an emulated device of tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import drjit as dr
from drjit.array import table
from drjit.jit import device
from drjit.jit.run import schedule
from drjit.random import words


def others(classes: dict[tuple[str, str], type]) -> dict[tuple[str, str], type]:
    """Returns the classes of other namespaces."""
    return {k: v for k, v in classes.items() if not k[0].startswith("cuda")}


@contextmanager
def registered(own: device.Device) -> Iterator[Any]:
    """Makes a device that of `drjit.cuda`, for which all types are built again."""
    devices, chosen = device._devices, table._auto_namespace
    classes, derived = table._classes, table._derived
    device._devices = {k: v for k, v in devices.items() if k is not own.backend}
    table._classes, table._derived = others(classes), others(derived)
    modules = [
        vars(ModuleType)["__dict__"].__get__(m) for m in (dr.cuda, dr.cuda.ad, dr.auto, dr.auto.ad)
    ]
    device.register(own)

    def forget() -> None:
        for entries in modules:
            for name in table.names("cuda"):
                entries.pop(name, None)
        words.words.cache_clear()  # has the classes

    forget()
    try:
        yield own
    finally:
        table._classes = classes | others(table._classes)
        table._derived = derived | others(table._derived)
        device._devices, table._auto_namespace = devices, chosen
        forget()
        schedule.forget_kernels()
