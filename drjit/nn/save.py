"""Saving and loading of networks and optimizers: any mapping from names to arrays.

The formats are NumPy's `.npz`, and `.safetensors` where the package of that name is installed.
"""

import os
import secrets
import zipfile
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..array.base import ArrayBase, type_label
from ..function.ad.grad import detach
from ..function.inspect.traits import shape

Arrays = dict[str, np.ndarray]


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
    form = _format(path, what)
    if not isinstance(state, Mapping):
        raise TypeError(f"{what}: expected a mapping such as a module, got {type_label(state)}")
    # The items of an optimizer are its single-precision copies.
    arrays = {key: _to_numpy(key, value, what) for key, value in state.items()}
    # In the same folder, because renaming is atomic only within one file system.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with open(scratch, "xb") as file:
                form.write(file, arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, f"{what}: the file cannot be written: {reason}") from None


def load(
    path: str | os.PathLike[str],
    state: MutableMapping[str, Any] | None = None,
    /,
    *,
    strict: bool = True,
) -> Arrays:
    """Reads a file written by `save`, assigns its values to a mapping, and returns them as NumPy
    arrays.

    The mapping and the file must have the same names; without `strict`, only names present in both
    are assigned. Values are converted to the type of those they replace. All values are checked
    before the first is assigned.

    Raises:
        ValueError: the suffix is not a known format, the file is damaged, or a shape differs.
        KeyError: a name is missing in the file or in the mapping.
        TypeError: an array would replace one with another kind of number.
        ImportError: the format needs a package that is not installed.
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
    form = _format(path, what)
    if state is not None and not isinstance(state, MutableMapping):
        raise TypeError(f"{what}: expected a mapping such as a module, got {type_label(state)}")
    with open(path, "rb") as file:
        try:
            arrays = form.read(file)
        except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
            raise ValueError(
                f"{what}: the file is damaged or of another format ({error})"
            ) from None
    if state is not None:
        _assign(arrays, state, strict, what)
    return arrays


def _assign(arrays: Arrays, state: MutableMapping[str, Any], strict: bool, what: str) -> None:
    current = dict(state.items())
    missing = [key for key in current if key not in arrays]
    surplus = [key for key in arrays if key not in current]
    if strict and (missing or surplus):
        lines = [
            f"{text}: {', '.join(map(repr, keys))}"
            for text, keys in (("missing in the file", missing), ("surplus", surplus))
            if keys
        ]
        raise KeyError(f"{what}: the names differ ({'; '.join(lines)})")
    values = {}
    problems = []
    for key, array in arrays.items():
        if key not in current:
            continue
        old = current[key]
        now = _to_numpy(key, old, what)
        if now.shape != array.shape:
            problems.append(f"{key!r} has shape {now.shape}, in the file {array.shape}")
        elif not np.can_cast(array.dtype, now.dtype, "same_kind"):
            raise TypeError(
                f"{what}: {key!r} of type {type_label(old)} cannot take values of type "
                f"{array.dtype}"
            )
        else:
            values[key] = _like(old, array)
    if problems:
        raise ValueError(f"{what}: {'; '.join(problems)}")
    state.update(values)


def _like(old: Any, array: np.ndarray) -> Any:
    """Converts a NumPy array to the type of another value."""
    if isinstance(old, np.ndarray):
        return array.astype(old.dtype)
    if isinstance(old, ArrayBase):
        return type(old)(array)
    return type(old)(array.item())


def _to_numpy(key: Any, value: Any, what: str) -> np.ndarray:
    if not isinstance(key, str):
        raise TypeError(f"{what}: names must be strings, got {key!r}")
    if isinstance(value, ArrayBase):
        shape(value)  # raises for ragged arrays, which have no shape
        return np.asarray(detach(value).numpy())
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            return array
    raise TypeError(f"{what}: {key!r} is no array or number, but of type {type_label(value)}")


def _write_npz(file: IO[bytes], arrays: Arrays) -> None:
    # Not numpy.savez: it takes names as keyword arguments, some of which it uses itself.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _read_npz(file: IO[bytes]) -> Arrays:
    with zipfile.ZipFile(file) as archive:
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                array = np.lib.format.read_array(member, allow_pickle=False)
            arrays[name.removesuffix(".npy")] = array
    return arrays


def _write_safetensors(file: IO[bytes], arrays: Arrays) -> None:
    contiguous = {key: np.ascontiguousarray(a).reshape(a.shape) for key, a in arrays.items()}
    file.write(_safetensors().save(contiguous))


def _read_safetensors(file: IO[bytes]) -> Arrays:
    package = _safetensors()
    try:
        return package.load(file.read())
    except Exception as error:  # the package's own class has no public base
        raise ValueError(str(error)) from None


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "drjit.nn: files of the format .safetensors need the package 'safetensors', which is "
            "not installed. The format .npz needs none."
        ) from None
    return safetensors.numpy


class _Format(NamedTuple):
    write: Callable[[IO[bytes], Arrays], None]
    read: Callable[[IO[bytes]], Arrays]


_FORMATS = {
    ".npz": _Format(_write_npz, _read_npz),
    ".safetensors": _Format(_write_safetensors, _read_safetensors),
}


def _format(path: Path, what: str) -> _Format:
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise ValueError(
            f"{what}: unknown format {path.suffix!r}, expected one of {', '.join(_FORMATS)}"
        )
    return found
