"""Step 3, run: the text is Python, and NumPy is a machine that executes it, a block at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
from step1_trace import Array
from step2_text import Writer, kernel_source

BLOCK = 4096  # entries at a time: few enough to stay in the cache

NAMESPACE = {
    "load": lambda array, i: array[i],
    "number": lambda value: value,
    "index": lambda i: i.astype(np.float64),
    "select": np.where,
    "any_lane": np.any,
    "sin": np.sin, "cos": np.cos, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
}  # fmt: skip


def store(array: np.ndarray, i: np.ndarray, value: Any) -> None:
    array[i] = value


NAMESPACE["store"] = store


def on_numpy(text: str) -> Callable[[int, tuple], None]:
    """Returns a function that executes a kernel for all entries from 0 to n."""
    scope = dict(NAMESPACE)
    exec(compile(text, "<kernel>", "exec"), scope)

    def run(n: int, p: tuple) -> None:
        for begin in range(0, n, BLOCK):
            scope["kernel"](np.arange(begin, min(begin + BLOCK, n)), p)

    return run


class Machine:
    """Something that executes kernels. It prepares a text once, and knows it from then on: a
    program that runs again, with other data and numbers, has the same text."""

    def __init__(self, prepare: Callable[[str], Callable], writer: type[Writer] = Writer) -> None:
        self.prepare, self.writer = prepare, writer
        self.kernels: dict[str, Callable] = {}

    def evaluate(self, *arrays: Array) -> None:
        """Computes arrays. From then on, they are data."""
        size = max(a.node.size for a in arrays)
        text, parameters = kernel_source(*arrays, writer=self.writer())
        if text not in self.kernels:
            self.kernels[text] = self.prepare(text)
        results = [np.empty(size) for _ in arrays]
        taken = parameters[: len(parameters) - len(arrays)]
        self.kernels[text](size, (*taken, *results))
        for a, result in zip(arrays, results, strict=True):
            a.node = Array(result).node

    def numpy(self, array: Array) -> np.ndarray:
        """Returns the entries of an array."""
        if array.node.op != "data":
            self.evaluate(array)
        return array.node.data


numpy_machine = Machine(on_numpy)


if __name__ == "__main__":
    from step1_trace import arange, select, sin

    t = arange(8) / 8
    print(numpy_machine.numpy(select(t < 0.5, sin(6 * t), 0)))
