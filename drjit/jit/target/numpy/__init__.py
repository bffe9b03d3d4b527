"""The NumPy target: the names of the kernel language as NumPy functions, run by CPython.

It is the reference definition of every operation, what runs new, small kernels, and the
debugger's target. Values are arrays of all lanes, or scalars if they are the same for all lanes.
"""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from . import collective, elementwise, memory, vector
from .memory import LaneRange

namespace: dict[str, Any] = {
    **{name: getattr(elementwise, name) for name in elementwise.__all__},
    **elementwise.library_functions,
}
for module in (collective, memory, vector):  # their public functions
    for name, value in vars(module).items():
        own = isinstance(value, FunctionType) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            namespace[name] = value


def run(kernel: Callable[[LaneRange, list], None] | CodeType | str, p: list, size: int) -> None:
    """Executes a kernel (a function, a code object or text) on `size` lanes.

    >>> import numpy as np
    >>> text = "def kernel(i, p):\\n    x = load(f32, p[1], i)\\n    store(f32, p[2], i, x * x)"
    >>> x, y = np.float32([1, 2, 3]), np.zeros(3, np.float32)
    >>> run(text, [np.zeros(5, np.int64), x, y], 3)
    >>> y.tolist()
    [1.0, 4.0, 9.0]
    """
    function: Any = kernel
    if isinstance(kernel, str | CodeType):
        names = dict(namespace)
        exec(kernel, names)
        function = names["kernel"]
    with np.errstate(all="ignore"):
        function(LaneRange(0, size), p)


__all__ = ["LaneRange", "namespace", "run"]
