"""Saving and loading of the state of a program: `save` and `load`."""

import math
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ...array import pytree, signatures
from ...array.base import ArrayBase, type_label
from ...jit.lazy import np
from ..ad.grad import detach, enable_grad, grad_enabled
from ..inspect.traits import shape
from . import array_file
from .array_file import Contents, FileFormatError, StoredArray, damage, short

T = TypeVar("T")

_VERSION = 1  # of the names and kinds of entries
_NUMBERS = (bool, int, float, np.ndarray, np.generic)


def save(path: str | os.PathLike[str], state: object, /, *, targets: Sequence[str] = ()) -> None:
    """Writes the state of a program to a file, from which `load` restores it exactly.

    The state is a PyTree, commonly a dictionary, of arrays and tensors of any type, numbers, text,
    networks, optimizers and gradient scalers (with all that they need to go on), random number
    generators, and textures. The suffix of the path determines the format: `.npz`, or
    `.safetensors` if that package is installed, which `load` does not need. Arrays have names such
    as `opt.net.weights.value`; NumPy can read the file as well, and nothing in it is executed by
    `load`.

    The file appears under its name only once it is complete, so an error or an interrupted program
    never damages an existing file. Derivatives are not stored, nor is the structure itself: a
    program makes its objects, and loads their contents.

    A frozen function is saved with its recordings and with the arrays that it uses besides its
    arguments, to a file with the suffix `.dr`; see docs/freezing.md. `load` makes a function of it
    that does the same, in programs that have neither its code nor a compiler. Besides machine code
    for this machine, the file has such code for each of the `targets`: processors that LLVM knows,
    such as `"x86-64-v3"` and `"neoverse-n1"`, or, for functions of GPUs, compute capabilities, such
    as `"sm_90"`.

    Raises:
        RuntimeError: a frozen function has not been recorded, or has a `state_fn`.
        ValueError: the suffix is not a known format, or not that of such a state; two entries have
            the same name, or a nested array is ragged; a target is unknown.
        TypeError: the state contains an object of another type.
        ImportError: the format needs a package that is not installed.
        OSError: the file cannot be written.

    >>> import tempfile
    >>> from drjit.llvm.ad import Float
    >>> file = tempfile.mkdtemp() + "/state.npz"
    >>> state = {"x": Float(1, 2), "rng": dr.rng(seed=1), "step": 7}
    >>> dr.save(file, state)
    >>> later = {"x": Float(0, 0), "rng": dr.rng(), "step": 0}
    >>> later = dr.load(file, later)
    >>> later["x"], later["step"]
    ([1, 2], 7)
    >>> dr.allclose(later["rng"].random(Float, 3), state["rng"].random(Float, 3))
    [True]
    """
    path = Path(path)
    what = f"dr.save({str(path)!r})"
    array_file.format_of(path, what)
    if _is_frozen(state) or path.suffix.lower() == _FUNCTION:
        _save_function(path, state, targets, what)
        return
    if targets:
        raise TypeError(f"{what}: 'targets' are for the machine code of frozen functions")
    found: dict[str, Any] = {}
    _collect(state, "", found, what)
    if not found:
        raise TypeError(f"{what}: there is nothing to save in a value of type {type_label(state)}")
    text = {key: value for key, value in found.items() if isinstance(value, str)}
    arrays = {key: stored(key, v, what) for key, v in found.items() if key not in text}
    array_file.write(path, arrays, {"version": _VERSION, "text": text}, what)


@signatures.loading
def load(
    path: str | os.PathLike[str],
    state: Any = None,
    /,
    *,
    strict: bool = True,
    trusted: bool = False,
) -> Any:
    """Restores the contents of a file written by `save`, and returns the state.

    `state` has the structure that was saved. Objects in it that can be changed, such as
    dictionaries, networks and optimizers, are changed and returned; arrays, numbers and tuples are
    replaced by new ones. Arrays whose derivatives are tracked get successors for which that holds
    as well. The file and the state must have the same entries; without `strict`, only those that
    both have are restored. If anything does not fit, nothing is changed.

    Without `state`, the result is a dictionary with the NumPy arrays and texts in the file, or the
    frozen function that it has. Its kernels are compiled; if the file is `trusted`, their machine
    code comes from it, if that is for this processor and from this version of the package.

    A file may come from anywhere. What it says of an array is compared with the state before the
    array is unpacked, and what the state does not have stays in the file.

    Raises:
        ValueError: the suffix is not a known format; the file is damaged, was not written by
            `save`, or by a version that is newer than this one; or the shape of an array differs.
        KeyError: an entry is missing in the file or in the state.
        TypeError: an array would replace one with another kind of number.
        OSError: the file cannot be read.

    >>> import tempfile
    >>> from drjit.llvm import Float
    >>> file = tempfile.mkdtemp() + "/state.npz"
    >>> dr.save(file, [Float(1, 2), {"gain": 0.5}])
    >>> dr.load(file)
    {'0': array([1., 2.], dtype=float32), '1.gain': array(0.5)}
    >>> dr.load(file, [Float(0, 0), {"gain": 1.0}])
    [[1, 2], {'gain': 0.5}]
    >>> dr.load(file, [Float(0, 0, 0), {"gain": 1.0}])
    Traceback (most recent call last):
        ...
    ValueError: dr.load('.../state.npz'): '0' has shape (3,), in the file (2,)
    """
    path = Path(path)
    what = f"dr.load({str(path)!r})"
    if path.suffix.lower() == _FUNCTION:
        return _load_function(path, state, trusted, what)
    with array_file.open_file(path, what) as contents:
        text = _text(contents, what)
        if state is None:
            return {**values(contents), **text}
        current: dict[str, Any] = {}
        _collect(state, "", current, what)
        new = {
            key: value for key, _, value in matching_entries(contents, current, strict, what, text)
        }
    try:
        return _restored(state, "", new)
    except BaseException as error:
        _restored(state, "", current)
        if isinstance(error, Exception):
            raise FileFormatError(f"{what}: the state takes no such values ({error})") from error
        raise


_FUNCTION = ".dr"


def _is_frozen(state: object) -> bool:
    return hasattr(state, "n_cached_recordings")


def _of_functions() -> Any:
    """The module of frozen functions in files, which is above this one."""
    return import_module("drjit.flow.freeze.saved")


def _save_function(path: Path, state: Any, targets: Sequence[str], what: str) -> None:
    if not _is_frozen(state) or path.suffix.lower() != _FUNCTION:
        found = type_label(type(state))
        raise ValueError(
            f"{what}: files with the suffix {_FUNCTION!r} are those of frozen functions, and no "
            f"others are; this is a {found}"
        )
    if isinstance(targets, str) or not all(isinstance(name, str) for name in targets):
        raise TypeError(f"{what}: 'targets' is a list of names, got {short(targets)}")
    arrays, facts = _of_functions().described(state, what, targets)
    array_file.write(path, {str(k): a for k, a in enumerate(arrays)}, facts, what)


def _load_function(path: Path, state: Any, trusted: bool, what: str) -> Any:
    saved = _of_functions()
    if state is not None:
        raise TypeError(f"{what}: a function is loaded without 'state'")
    with array_file.open_file(path, what) as contents:
        facts = contents.facts()
        version = facts.pop("function", None)
        if type(version) is not int:
            raise FileFormatError(f"{what}: the file has no frozen function")
        _check_version(version, saved.VERSION, what)
        arrays = []
        for k in range(len(contents.arrays)):
            if str(k) not in contents.arrays:
                raise damage(what, "numbered arrays", "others")
            arrays.append(contents.arrays[str(k)]().read())
        with array_file.expecting("a frozen function", what):
            return saved.loaded(arrays, facts, trusted, what)


def _check_version(version: int, newest: int, what: str) -> None:
    if version > newest:
        raise FileFormatError(
            f"{what}: the file was written by a newer version (its format is {short(version)}, "
            f"this version reads up to {newest})"
        )


def _text(contents: Contents, what: str) -> dict[str, str]:
    """Returns the text in a file that `save` has written."""
    facts = contents.facts()
    version = facts.get("version")
    if version is None:
        raise FileFormatError(
            f"{what}: the file was not written by dr.save (drjit.nn.load reads other files)"
        )
    where = f"{what}: its facts"
    if type(version) is not int or version < 1:
        raise damage(where, "a version from 1", short(version))
    _check_version(version, _VERSION, what)
    text = facts.get("text")
    if type(text) is not dict or not all(type(value) is str for value in text.values()):
        raise damage(where, "'text': names with texts", short(text))
    for name in text:
        if name in contents.arrays:
            raise damage(where, "different names", f"{name!r} for a text and an array")
    return text


def values(contents: Contents) -> dict[str, np.ndarray]:
    """Returns all arrays in a file."""
    return {name: described().read() for name, described in contents.arrays.items()}


def matching_entries(
    contents: Contents,
    current: Mapping[str, Any],
    strict: bool,
    what: str,
    text: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the names of arrays in a file, and of `text`, with the values as they are and
    converted to the types of the current ones of the same names, once all have been compared with
    these; see `load` for what is raised."""
    entries = {**contents.arrays, **(text or {})}
    missing = [key for key in current if key not in entries]
    surplus = [key for key in entries if key not in current]
    if strict and (missing or surplus):
        lines = [
            f"{text}: {', '.join(map(repr, keys))}"
            for text, keys in (("missing in the file", missing), ("surplus", surplus))
            if keys
        ]
        raise KeyError(f"{what}: the names differ ({'; '.join(lines)})")
    arrays: dict[str, tuple[StoredArray, np.ndarray]] = {}
    texts, problems = [], []
    for key, entry in entries.items():
        if key not in current:
            continue
        old = current[key]
        if isinstance(entry, str) or isinstance(old, str):
            if type(entry) is not type(old):
                label = "str" if isinstance(entry, str) else type_label(np.ndarray)
                raise TypeError(
                    f"{what}: {key!r} of type {type_label(old)} cannot take a value of type {label}"
                )
            texts.append((key, entry, entry))
            continue
        array, now = entry(), stored(key, old, what)
        shape = array.shape
        if now.size == math.prod(shape) == 1 and now.ndim <= 1 >= len(shape):
            shape = now.shape  # a number may have become an array, or an array one
        if now.shape != shape:
            problems.append(f"{key!r} has shape {now.shape}, in the file {shape}")
        elif not _fits(array.dtype, now.dtype):
            raise _mismatch(what, key, old, array)
        else:
            arrays[key] = array, now
    if problems:
        raise ValueError(f"{what}: {'; '.join(problems)}")
    yield from texts
    for key, (array, now) in arrays.items():
        values = array.read().reshape(now.shape)
        if array.dtype.kind == "i" and now.dtype.kind == "u" and np.any(values < 0):
            raise _mismatch(what, key, current[key], array)
        yield key, values, _like(current[key], values)


def _mismatch(what: str, key: str, old: Any, array: StoredArray) -> TypeError:
    return TypeError(
        f"{what}: {key!r} of type {type_label(old)} cannot take values of type {array.dtype}"
    )


def _fits(dtype: np.dtype, other: np.dtype) -> bool:
    """Returns whether values of a type can be converted to another, which may be less precise."""
    return (dtype.kind == "i" and other.kind == "u") or np.can_cast(dtype, other, "same_kind")


def stored(key: Any, value: Any, what: str) -> np.ndarray:
    """Returns an array or number as it is stored."""
    if not isinstance(key, str):
        raise TypeError(f"{what}: names must be strings, got {key!r}")
    if isinstance(value, ArrayBase):
        shape(value)  # raises for ragged arrays, which have no shape
        return np.asarray(detach(value).numpy())
    if isinstance(value, _NUMBERS):
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            return array
    raise TypeError(f"{what}: {key!r} is no array or number, but of type {type_label(value)}")


def _like(old: Any, array: np.ndarray) -> Any:
    """Converts a NumPy array to the type of another value."""
    if isinstance(old, np.ndarray):
        return array.astype(old.dtype)
    if not isinstance(old, ArrayBase):
        return type(old)(array.item())
    new = type(old)(array)
    if grad_enabled(old):
        enable_grad(new)
    return new


# How a state is taken apart. An object that knows its state returns it as a mapping
# (`state_dict`), a texture is its tensor, a module the mapping of its parameters. All others are
# PyTrees.


def _knows_state(value: Any) -> bool:
    """Returns whether an object returns its state as a mapping. Modules are mappings themselves;
    their `state_dict` is for PyTorch."""
    return hasattr(value, "state_dict") and not hasattr(value, "torch_names")


def _collect(value: Any, name: str, found: dict[str, Any], what: str) -> None:
    """Adds the entries of a value to `found`."""
    if isinstance(value, (ArrayBase, str, *_NUMBERS)):
        if name in found:
            raise ValueError(f"{what}: there are two entries with the name {name!r}")
        found[name] = value
        return
    for key, part in _parts(value, name, what):
        _collect(part, f"{name}.{key}" if name else str(key), found, what)


def _restored(value: Any, name: str, entries: dict[str, Any]) -> Any:
    """Returns a value with the given contents: the object itself if it can be changed."""
    if isinstance(value, (ArrayBase, str, *_NUMBERS)):
        return entries.get(name, value)
    prefix = f"{name}." if name else ""
    parts = _parts(value, name, "dr.load()")
    return _with_parts(value, {k: _restored(v, f"{prefix}{k}", entries) for k, v in parts})


def _parts(value: Any, name: str, what: str) -> Sequence[tuple[Any, Any]]:
    """Returns the names and parts of a value that is not an entry itself."""
    if _knows_state(value):
        return [*value.state_dict().items()]
    if hasattr(value, "set_tensor"):
        return [(key, value.tensor(level)) for key, level in _levels(value).items()]
    if isinstance(value, Mapping):
        keys = [key for key in value if not isinstance(key, str)]
        if keys:
            raise TypeError(f"{what}: names must be strings, got {keys[0]!r} in {name or 'state'}")
        return [*value.items()]
    if isinstance(value, (list, tuple)):
        return [*enumerate(value)]
    names = pytree.field_names(type(value))
    if names is None:
        where = f" at {name!r}" if name else ""
        raise TypeError(
            f"{what}: a value of type {type_label(value)}{where} cannot be saved. The state is "
            "made of arrays, numbers, text, networks, optimizers, generators, textures, and lists, "
            "tuples, dictionaries, data classes and classes with DRJIT_STRUCT of these."
        )
    fields = [(key, getattr(value, key, None)) for key in names]
    return [(key.lstrip("_"), part) for key, part in fields if _is_state(part)]


def _levels(texture: Any) -> dict[str, int | None]:
    """Returns the names of the tensors that a texture stores, and of what level they are."""
    if texture.mip_basis().name != "Laplacian":
        return {"texels": None}
    return {f"texels{k}": k for k in range(texture.mip_levels())}


def _is_state(part: Any) -> bool:
    """Returns whether a field belongs to the state, and not to the structure of an object, such as
    a type or None."""
    return (
        isinstance(part, (ArrayBase, str, *_NUMBERS, Mapping, list, tuple))
        or _knows_state(part)
        or hasattr(part, "set_tensor")
        or pytree.field_names(type(part)) is not None
    )


def _with_parts(value: Any, parts: dict[Any, Any]) -> Any:
    """Returns a value with other parts, by the names that `_parts` gives them."""
    if _knows_state(value):
        value.load_state_dict(parts)
    elif hasattr(value, "set_tensor"):
        for key, level in _levels(value).items():
            if level is None:
                value.set_tensor(parts[key])
            else:
                value.set_tensor(level, parts[key], rebuild=False)
        value.update_inplace()
    elif isinstance(value, MutableMapping):
        value.update(parts)
    elif isinstance(value, Mapping):
        return type(value)(parts)  # type: ignore[call-arg]
    elif isinstance(value, list):
        value[:] = parts.values()
    elif isinstance(value, tuple):
        return pytree.rebuilt(type(value), None, list(parts.values()))
    else:
        old = {key: getattr(value, key, None) for key in pytree.field_names(type(value)) or ()}
        new = {key: parts.get(key.lstrip("_"), part) for key, part in old.items()}
        try:
            for key, part in new.items():
                if part is not old[key]:
                    setattr(value, key, part)
        except AttributeError:  # a frozen data class
            return pytree.make_struct(type(value), tuple(new), list(new.values()))
    return value
