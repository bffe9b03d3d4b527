"""Gradient check: compares both modes of differentiation with finite differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ...ad.graph import ADFlag, ADMode, Var, live_variables, location_note
from ...array import leaf, pytree
from ...array.base import ArrayBase
from ...jit import progress
from ...jit.flags import JitFlag, scoped_set_flag
from ...jit.lazy import np
from ...jit.run import schedule
from .grad import accum_grad, clear_grad, detach, enable_grad, grad, leaves, map_arrays
from .propagate import propagate


class Mismatch(NamedTuple):
    """The entry whose derivative differs most from the finite difference."""

    mode: str
    argument: int
    entry: int
    derivative: float
    expected: float

    @property
    def error(self) -> float:
        """The difference relative to the larger of 1 and the expected value."""
        if np.isnan(self.derivative) != np.isnan(self.expected):
            return float("inf")
        if self.derivative == self.expected or np.isnan(self.derivative):
            return 0.0
        return abs(self.derivative - self.expected) / max(1.0, abs(self.expected))


# Steps and tolerances by element size in bytes: the error of central differences is of the order of
# the machine epsilon to the power of 2/3.
_STEP = {2: 2.0**-4, 4: 2.0**-7, 8: 2.0**-17}
_TOLERANCE = {2: 5e-2, 4: 5e-3, 8: 1e-6}


def check_grad(
    f: Callable[..., Any],
    *args: Any,
    eps: float | None = None,
    tol: float | None = None,
    verbose: bool = True,
) -> bool:
    """Compares the derivatives of `f` at `args` in both modes with central differences.

    `f` takes and returns arrays or PyTrees; it is called once per entry of the arguments and
    direction. Results are weighted by fixed numbers, so that every entry matters. `eps` is the step
    size, and `tol` the accepted error relative to the larger of 1 and the derivative. If an error
    is larger, the worst entry is printed, along with the last operation of the graph that
    contributed to that argument's gradient and the line that recorded it.

    Raises:
        TypeError: no argument is a differentiable floating-point array.

    >>> dr.check_grad(lambda x: dr.sin(x) * x, ad.Float64(0.5, 1, 2))
    True
    """
    inputs = list(leaves(args))
    if not inputs:
        raise TypeError("dr.check_grad(): no argument is a differentiable array")
    width = min(a._dtype.itemsize for a in inputs)
    step = _STEP[width] if eps is None else eps
    limit = _TOLERANCE[width] if tol is None else tol
    points = _entries(inputs)
    calls = 3 * sum(p.size for p in points) + 1
    with progress.Task("dr.check_grad()", calls, "calls") as task:
        f = _counted(f, task)
        expected = _differences(f, args, points, step)
        reverse, origins = _reverse(f, args)
        worst = _worst("reverse", reverse, expected)
        forward = _forward(f, args, points)
    found = max((worst, _worst("forward", forward, expected)), key=lambda m: m.error)
    if found.error <= limit:
        return True
    if verbose:
        print(
            f"dr.check_grad(): in {found.mode} mode, the derivative with respect to entry "
            f"{found.entry} of array {found.argument} is {found.derivative:.8g}, the finite "
            f"difference is {found.expected:.8g} (error {found.error:.3g}, accepted {limit:.3g}).\n"
            f"  It came from {origins[found.argument]}."
        )
    return False


def _counted(f: Callable, task: progress.Task) -> Callable:
    """Returns a function whose calls are counted when they are over."""

    def call(*args: Any) -> Any:
        result = f(*args)
        task.done += 1
        return result

    return call


def _with_entries(args: tuple, points: list[np.ndarray]) -> Any:
    """Returns the arguments with other entries."""
    values = iter(points)

    def one(a: Any, cls: Any) -> Any:
        if not isinstance(a, ArrayBase) or not (cls._diff and cls._dtype.is_float):
            return a
        return leaf.from_numpy(cls, next(values), copy=True)

    return map_arrays(one, args)


def _weights(result: Any) -> list[tuple[Any, np.ndarray]]:
    """Returns the floating point leaves of a result, each with the weights of its entries."""
    found = [a for a in pytree.leaf_arrays(result) if a._kind == "leaf" and a._dtype.is_float]
    return [(a, 1 + 0.5 * np.cos(np.arange(a._node.size) + k)) for k, a in enumerate(found)]


def _sum(weighted: list[tuple[Any, np.ndarray]]) -> float:
    """Returns the weighted sum of all entries of arrays."""
    found = _entries([a for a, _ in weighted])
    return sum(float(np.dot(a, w)) for a, (_, w) in zip(found, weighted, strict=True))


def _entries(arrays: list[Any]) -> list[np.ndarray]:
    """Returns the entries of one-dimensional arrays, computed by a single kernel."""
    schedule.evaluate([a._node for a in arrays], arrays[0]._device if arrays else None)
    return [np.array(leaf.host(a), np.float64) for a in arrays]


def _differences(f: Callable, args: tuple, points: list[np.ndarray], step: float) -> list:
    def slope(k: int, i: int) -> float:
        h = step * max(1.0, abs(points[k][i]))
        totals = []
        for sign in (1, -1):
            moved = [p.copy() for p in points]
            moved[k][i] += sign * h
            totals.append(_sum(_weights(f(*detach(_with_entries(args, moved))))))
        return (totals[0] - totals[1]) / (2 * h)

    return _by_entry(slope, points)


def _by_entry(slope: Callable[[int, int], float], points: list[np.ndarray]) -> list[np.ndarray]:
    """Evaluates a function of an array number and an entry number for all entries."""
    return [np.array([slope(k, i) for i in range(p.size)]) for k, p in enumerate(points)]


def _reverse(f: Callable, args: tuple) -> tuple[list[np.ndarray], list[str]]:
    """Returns reverse-mode gradients, and for each argument the origin of the last contribution."""
    tracked = detach(args)
    enable_grad(tracked)
    inputs = list(leaves(tracked))
    with scoped_set_flag(JitFlag.Debug):  # so that variables know their lines
        result = f(*tracked)
    for a, w in _weights(result):
        accum_grad(a, leaf.from_numpy(type(a), w, copy=True))
    origins = [_origin(a._var) for a in inputs]
    propagate(ADMode.Backward, result)
    return _entries([grad(a) for a in inputs]), origins


def _origin(v: Var) -> str:
    """Returns the operation that first used a variable, and the line that recorded it."""
    users = [u for u in live_variables() if any(d is v for d in u.deps)]
    if not users:
        return "nothing: the result does not depend on it"
    return f"'{users[0].rule.name}'{location_note(users[0])}"


def _forward(f: Callable, args: tuple, points: list[np.ndarray]) -> list[np.ndarray]:
    def slope(k: int, i: int) -> float:
        tracked = detach(args)
        enable_grad(tracked)
        a = list(leaves(tracked))[k]
        result = f(*tracked)
        clear_grad(tracked)
        unit = np.zeros(points[k].size)
        unit[i] = 1
        a._var.grad = leaf.from_numpy(type(a), unit, True)._node
        propagate(ADMode.Forward, a, ADFlag.ClearEdges)
        return _sum([(grad(r), w) for r, w in _weights(result)])

    return _by_entry(slope, points)


def _worst(mode: str, found: list[np.ndarray], expected: list[np.ndarray]) -> Mismatch:
    entries = [
        Mismatch(mode, k, i, float(a[i]), float(b[i]))
        for k, (a, b) in enumerate(zip(found, expected, strict=True))
        for i in range(len(a))
    ]
    return max(entries, key=lambda m: m.error, default=Mismatch(mode, 0, 0, 0.0, 0.0))
