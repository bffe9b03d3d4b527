"""Saving and loading of networks and optimizers: any mapping from names to arrays.

The formats are NumPy's `.npz`, and `.safetensors` where the package of that name is installed.
"""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ..array.base import type_label
from ..function.exchange import array_file
from ..function.exchange.save import fitting, stored, values


def save(path: str | os.PathLike[str], state: Mapping[str, Any], /) -> None:
    """Writes the values of a mapping, such as a module or an optimizer, to a file. For an
    optimizer, these are only its parameters; save its `state_dict()` to continue the optimization
    later.

    The suffix of the path determines the format. Values are arrays of any type and precision,
    tensors, and numbers; the file stores them exactly, without derivatives. The file appears under
    its name only once it is complete, so an error never damages an existing file.

    Raises:
        ValueError: the suffix is not a known format, or a nested array is ragged.
        TypeError: `state` is not a mapping from strings to arrays.
        ImportError: the format needs a package that is not installed.
        OSError: the file cannot be written.

    >>> import tempfile
    >>> from drjit.llvm import TensorXf16
    >>> net = nn.Linear(2, 3).alloc(TensorXf16)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nn.save(f"{folder}/net.npz", net)
    ...     file = nn.load(f"{folder}/net.npz")
    >>> file["weights"].dtype, file["weights"].shape
    (dtype('float16'), (3, 2))
    """
    path = Path(path)
    what = f"drjit.nn.save({str(path)!r})"
    array_file.format_of(path, what)
    if not isinstance(state, Mapping):
        raise TypeError(f"{what}: expected a mapping such as a module, got {type_label(state)}")
    # The items of an optimizer are its single-precision copies.
    arrays = {key: stored(key, value, what) for key, value in state.items()}
    array_file.write(path, arrays, {}, what)


def load(
    path: str | os.PathLike[str],
    state: MutableMapping[str, Any] | None = None,
    /,
    *,
    strict: bool = True,
) -> array_file.Arrays:
    """Reads a file written by `save`, assigns its values to a mapping, and returns them as NumPy
    arrays: without a mapping, all that are in the file.

    The mapping and the file must have the same names; without `strict`, only names present in both
    are read and assigned. Values are converted to the type of those they replace. All values are
    checked before the first is assigned.

    Raises:
        ValueError: the suffix is not a known format, the file is damaged, or a shape differs.
        KeyError: a name is missing in the file or in the mapping.
        TypeError: an array would replace one with another kind of number.
        OSError: the file cannot be read.

    >>> import tempfile
    >>> from drjit.llvm import TensorXf
    >>> a, b = nn.Linear(2, 3).alloc(TensorXf), nn.Linear(2, 3).alloc(TensorXf, rng=dr.rng())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nn.save(f"{folder}/net.npz", a)
    ...     _ = nn.load(f"{folder}/net.npz", b)
    >>> dr.all(a["weights"] == b["weights"])
    True
    """
    path = Path(path)
    what = f"drjit.nn.load({str(path)!r})"
    array_file.format_of(path, what)
    if state is not None and not isinstance(state, MutableMapping):
        raise TypeError(f"{what}: expected a mapping such as a module, got {type_label(state)}")
    with array_file.opened(path, what) as contents:
        if state is None:
            return values(contents)
        fitted = [*fitting(contents, dict(state.items()), strict, what)]
    state.update({key: new for key, _, new in fitted})
    return {key: array for key, array, _ in fitted}
