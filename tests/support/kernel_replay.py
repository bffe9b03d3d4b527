"""Runs a program and, after each launch, its kernel again from its text by `dr.kernel`, on what the
launch was given: `python kernel_replay.py PROGRAM` prints how many agreed, and which differ.
"""

import runpy
import sys
from collections import Counter
from typing import Any

import numpy as np

import drjit as dr
from drjit import nn
from drjit.array import leaf, table
from drjit.jit.device import elements
from drjit.jit.ir.dtype import VECTOR_BLOCK
from drjit.jit.run import freeze, launch

EACH = 2
"""How many launches of a kernel are repeated."""


def data(dtype: Any, size: int, buffer: Any) -> np.ndarray:
    """Returns a copy of what is in memory; vectors by feature and lane."""
    values = launch.to_numpy(dtype.element, elements(dtype, size), buffer).copy()
    if dtype.is_vector:
        blocks = values.reshape(-1, dtype.count, VECTOR_BLOCK).swapaxes(0, 1)
        return blocks.reshape(dtype.count, -1)[:, :size].copy()
    return values


def array(dtype: Any, values: np.ndarray) -> Any:
    if dtype.is_vector:
        return nn.CoopVec(*[array(dtype.element, row) for row in values])
    return leaf.from_numpy(table.find("llvm", "leaf", dtype), values, copy=True)


class Replay:
    """Launches kernels, and repeats them."""

    def __init__(self) -> None:
        self.run, self.kernels = launch.run, {}
        self.counts: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.differ: list[str] = []
        self.busy = False

    def __call__(self, kernel: Any, size: int, operands: tuple) -> Any:
        text = kernel.text
        if self.busy or self.seen[text] >= EACH or freeze.active():
            return self.run(kernel, size, operands)
        inputs, literals, checks, targets = operands
        self.seen[text] += 1
        self.busy = True
        try:
            before = [data(n.dtype, n.size, n.data) for n in inputs]
            written = [launch.to_numpy(e.dtype, e.size, e.buffer).copy() for e in targets]
            numbers = [n.data for n in literals]
            sizes = [c.data[0] for c in checks]
            outputs = self.run(kernel, size, operands)
            after = [launch.to_numpy(e.dtype, e.size, e.buffer).copy() for e in targets]
            if size:
                words = [*before, *numbers, *sizes]
                made = dr.kernel(text)
                self.compare(made, kernel, size, inputs, words, targets, written, after, outputs)
        finally:
            self.busy = False
        return outputs

    def compare(
        self, made: Any, kernel: Any, size: int, inputs: list, words: list, targets: Any,
        written: list, after: list, outputs: list,
    ) -> None:  # fmt: skip
        """Calls the function of a text, and compares results and targets bit by bit; sums over
        lanes in floating point, whose order differs, within rounding."""
        text = made._read
        arguments, changed = [], []
        k = len(words) + 1
        # The target at a word. Several may be the same memory: one array then.
        place, owners = {}, {}
        for j, e in enumerate(targets):
            place[k] = j
            k += 3 if e.mode == "expand" else 1
            if id(e.buffer) not in owners:
                owners[id(e.buffer)] = array(e.dtype, written[j])
        for at in text.arguments:
            word = text.words[at]
            if word.kind == "target":
                j = place[at]
                arguments.append(owners[id(targets[j].buffer)])
                changed.append((arguments[-1], after[j], targets[j].reduce == "add"))
            elif word.kind == "array":
                arguments.append(array(inputs[at - 1].dtype, words[at - 1]))
            else:
                arguments.append(words[at - 1])
        found = made(*arguments, size=size)
        found = found if isinstance(found, tuple) else () if found is None else (found,)
        kinds = [o for o in kernel.program.outputs if o.kind != "effect"]
        buffers = [b for b in outputs if b is not None]
        pairs = [
            (f, data(o.dtype, size if o.kind == "store" else 1, b), o.kind == "reduce")
            for f, o, b in zip(found, kinds, buffers, strict=True)
        ]
        for result, expected, is_sum in [*pairs, *changed]:
            is_vector = isinstance(result, nn.CoopVec)
            values = np.stack([x.numpy() for x in result]) if is_vector else result.numpy()
            same = values.tobytes() == expected.tobytes()
            if not same and is_sum and values.dtype.kind == "f":
                same = np.allclose(values, expected, 2e-3, 1e-3 * np.abs(expected).max(initial=0))
            if not same:
                self.differ.append(f"{np.flatnonzero(values != expected)[:5]} in\n{kernel.text}")
                self.counts["different"] += 1
                return
        self.counts["equal"] += 1


def main() -> None:
    program = sys.argv[1]
    del sys.argv[1]
    replay = Replay()
    launch.run = replay
    runpy.run_path(program, run_name="__main__")
    launch.run = replay.run
    print("\n".join(replay.differ))
    print("replay:", " ".join(f"{n} {kind}," for kind, n in sorted(replay.counts.items())))


if __name__ == "__main__":
    main()
