"""`Module`, the base class of layers: a mapping from dotted names to parameters; packing and files.

A module finds its parameters by walking its fields and keeps no list of them. Packing moves arrays
into one shared buffer, and each module into a buffer of its own: the fields then hold views of that
buffer, which the mapping shows as a single entry.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar, cast, overload

from ..array import pytree
from ..array.base import ArrayBase, type_label
from ..array.precomputed import precomputed
from ..array.tree import set_contents
from ..function.ad.grad import detach, enable_grad, grad_enabled
from ..function.conversion import related
from ..function.data.create import full
from ..function.data.memory import gather
from ..function.data.shape import concat
from ..function.exchange import array_file
from ..function.exchange.save import matching_entries, stored
from ..function.exchange.save import values as contents_of
from ..function.inspect.traits import is_float_v, is_tensor_v, shape
from ..jit.lazy import np
from ..random import Generator
from ..random import rng as make_rng
from .matrix import LayoutName, MatrixView, check, entries, viewed

PACKED_KEY = "weights"
_PLAIN = frozenset((bool, int, float, str, type, type(None)))
_DEFAULT_SEED = 0x100000000  # for initial weights if no generator is given


class Module(MutableMapping[str, Any]):
    """Base class of all layers and networks: a callable, and a mapping from names to parameters.

    A subclass lists its fields in `DRJIT_STRUCT`, or is a data class. It implements `__call__`, and
    also `_alloc` if it has parameters or changes the number of features. The name of a parameter is
    the path to it, with dots: `layers.0.weights`. If the module has a non-empty field `prefix`, all
    of its names start with that.

    >>> from drjit.llvm import TensorXf
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).alloc(TensorXf, 2)
    >>> list(net)
    ['layers.0.weights', 'layers.0.bias']
    >>> net["layers.0.bias"] = 1
    >>> net["layers.0.bias"]
    [1, 1, 1]
    """

    torch_names: ClassVar[dict[str, str]] = {}
    """The names that fields have in PyTorch, if they are others; of an empty one, the fields are
    those of the module itself."""

    torch_vectors: ClassVar[tuple[str, ...]] = ("bias",)
    """The fields that have one axis in PyTorch, as opposed to matrices with one column."""

    # A module is an object with state: two modules are equal only if they are identical.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, arg: Any, /) -> Any:
        """Returns the module's output for a tensor of shape (features, N) or for a cooperative
        vector."""
        raise NotImplementedError(f"{module_name(self)}: the class implements no __call__()")

    def alloc(self, dtype: type, size: int = -1, rng: Generator | None = None) -> Self:
        """Returns a copy of the network with initial parameters of a tensor type.

        `size` is the number of input features; sizes declared as -1 are inferred from it. Weights
        are drawn from `rng`; without one, every call draws the same numbers.

        Raises:
            TypeError: `dtype` is not a floating point tensor type, or `rng` is not a generator.
            RuntimeError: a layer's size is -1 and cannot be inferred from `size`.
            ValueError: the sizes of two layers, or of a layer and the input, differ.
        """
        where = f"{module_name(self)}.alloc()"
        if not (isinstance(dtype, type) and is_tensor_v(dtype) and is_float_v(dtype)):
            label = type_label(dtype) if isinstance(dtype, type) else repr(dtype)
            raise TypeError(
                f"{where}: a Linear layer requires a Tensor type of floating point numbers such as "
                f"TensorXf or TensorXf16, got {label}"
            )
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{where}: size must be an int, got {size!r}")
        if rng is None:
            rng = make_rng(seed=_DEFAULT_SEED)
        elif not isinstance(rng, Generator):
            raise TypeError(
                f"{where}: rng must be a generator as dr.rng() makes one, got {type_label(rng)}"
            )
        return self._alloc(dtype, size, rng)[0]

    def _alloc(self, dtype: type, size: int, rng: Generator) -> tuple[Self, int]:
        """Returns the module with parameters for inputs with `size` features (-1 if unknown), and
        the number of its output features. The default is for layers without parameters that
        preserve it."""
        return self, size

    def train(self, mode: bool = True) -> Self:
        """Sets the field `training` of all layers that behave differently while the network is
        trained, such as `Dropout`, and returns the network.

        >>> net = nn.Sequential(nn.Dropout(0.5))
        >>> net.train(False).layers[0].training, net.train().layers[0].training
        (False, True)
        """
        for module in _modules(self):
            if hasattr(module, "training"):
                module.training = mode
        return self

    def eval(self) -> Self:
        """Has all layers compute what they do after training: `train(False)`."""
        return self.train(False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __getitem__(self, key: str, /) -> Any:
        return self._lookup(key, self._parameters()[0])

    def __setitem__(self, key: str, value: Any, /) -> None:
        current, buffers = self._parameters()
        old = self._lookup(key, current)
        self._assign({key: _fitted(module_name(self), key, old, value)}, buffers)

    def __delitem__(self, key: str, /) -> None:
        raise TypeError(f"{module_name(self)}: the parameter {key!r} cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters()[0])

    def __len__(self) -> int:
        return len(self._parameters()[0])

    def __contains__(self, key: object, /) -> bool:
        return key in self._parameters()[0]

    def update(
        self, other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **kwargs: Any
    ) -> None:
        """Assigns the parameters in a mapping (an optimizer, another module) or in pairs of names
        and values; the others keep their values. A module with a prefix ignores names without it,
        which belong to other modules that share the optimizer. Values are converted to the type of
        the parameter. If any value does not fit, nothing is assigned.

        Raises:
            KeyError: the module has no parameter of that name, or no name begins with its prefix.
            ValueError: a shape differs from the parameter's.
            TypeError: a value cannot be converted.
        """
        given = _as_dict(other, f"{module_name(self)}.update()") | kwargs
        current, buffers = self._parameters()
        own = {key: v for key, v in given.items() if str(key).startswith(self._path())}
        unknown = [key for key in own if key not in current]
        if unknown or (given and not own):
            raise KeyError(
                f"{module_name(self)}.update(): no parameter {_listed(unknown or given)}; "
                f"there is {_listed(current)}"
            )
        where = f"{module_name(self)}.update()"
        self._assign({k: _fitted(where, k, current[k], v) for k, v in own.items()}, buffers)

    def state_dict(self, *, prefix: str = "") -> dict[str, Any]:
        """Returns the parameters under the names and in the shapes that they have in PyTorch, as
        tensors without derivatives: matrices of a `Linear` layer have the shape (outputs, inputs),
        its bias has the shape (outputs,). Packed networks have the same entries. `prefix` is put
        before all names; the field `prefix` is not.

        `torch_net.load_state_dict({k: v.torch() for k, v in net.state_dict().items()})` copies them
        to a network of PyTorch that has the same layers, activations included.

        >>> from drjit.llvm import TensorXf
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).alloc(TensorXf)
        >>> {name: value.shape for name, value in net.state_dict().items()}
        {'0.weight': (3, 2), '0.bias': (3,), '2.weight': (1, 3), '2.bias': (1,)}
        """
        found: dict[str, Any] = {}
        for name, value in self._arrays(prefix, torch=True):
            if name is not None:
                flat, dims = _flat(name, value)
                cls = related(type(flat), kind="tensor", dims=())
                found[name] = detach(cls(flat, dims))
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], /, *, strict: bool = True, prefix: str = ""
    ) -> tuple[list[str], list[str]]:
        """Assigns parameters by the names that they have in PyTorch; see `state_dict`. Values are
        arrays or tensors of any library, and are converted to the type of the parameter; if any
        does not fit, nothing is assigned. Returns the names that are missing, and those that the
        network does not have: without `strict`, they are ignored.

        Raises:
            KeyError: names differ.
            ValueError: a shape differs.
            TypeError: a value cannot be converted.

        >>> from drjit.llvm import TensorXf
        >>> net = nn.Linear(2, 1).alloc(TensorXf)
        >>> net.load_state_dict({"weight": [[1, 2]], "bias": [3]})
        ([], [])
        >>> net["weights"]
        [[1, 2]]
        """
        where = f"{module_name(self)}.load_state_dict()"
        given = _as_dict(state_dict, where)
        own = {k: v for k, v in self._arrays(prefix, torch=True) if k is not None}
        missing = [name for name in own if name not in given]
        unexpected = [str(name) for name in given if name not in own]
        if strict and (missing or unexpected):
            lists = (("missing", missing), ("unexpected", unexpected))
            text = "; ".join(f"{kind}: {_listed(names)}" for kind, names in lists if names)
            there = f"it has {_listed(own)}" if own else "it has none; see Module.alloc()"
            raise KeyError(f"{where}: the names do not fit the network's ({text}); {there}")
        values = {k: _loaded(where, k, v, given[k]) for k, v in own.items() if k in given}
        views = [(own[k], values.pop(k)) for k in [*values] if isinstance(own[k], MatrixView)]
        buffers = {id(v.buffer): v.buffer for v, _ in views}
        contents = {k: np.array(detach(buffer)) for k, buffer in buffers.items()}
        for v, value in views:
            contents[id(v.buffer)][_places(v)] = value
        for k, buffer in buffers.items():
            buffer._assign(_tracked_like(buffer, type(buffer)(contents[k])))
        values = {k: _tracked_like(own[k], value) for k, value in values.items()}
        _map(lambda name, old: values.get(name or "", old), self, prefix, torch=True)
        return missing, unexpected

    def _arrays(self, path: str, torch: bool = False) -> list[tuple[str | None, Any]]:
        """Returns the arrays and views in the module with their names; see `_map`."""
        found: list[tuple[str | None, Any]] = []

        def collect(name: str | None, value: Any) -> Any:
            found.append((name, value))
            return value

        _map(collect, self, path, torch=torch)
        return found

    def _lookup(self, key: str, parameters: dict[str, Any]) -> Any:
        if key not in parameters:
            raise KeyError(
                f"{module_name(self)}: no parameter {key!r}; there is {_listed(parameters)}"
            )
        return parameters[key]

    def _parameters(self) -> tuple[dict[str, Any], list[Any]]:
        """Returns the parameters by name, and the buffers of packed weights, each of which is one
        parameter."""
        arrays = self._arrays(self._path())
        buffers = {id(v.buffer): v.buffer for _, v in arrays if isinstance(v, MatrixView)}
        found = {k: v for k, v in arrays if k is not None and not isinstance(v, MatrixView)}
        if buffers:
            found[self._path() + PACKED_KEY] = next(iter(buffers.values()))
        return found, [*buffers.values()]

    def _path(self) -> str:
        prefix = getattr(self, "prefix", "")
        return f"{prefix}." if prefix else ""

    def _assign(self, values: dict[str, Any], buffers: list[Any]) -> None:
        """Replaces parameters by values of their type and shape."""
        packed = values.pop(self._path() + PACKED_KEY, None) if buffers else None
        if packed is not None:
            for buffer in buffers:
                # In place, because the views refer to the buffer; not by a scatter, because all of
                # it is replaced.
                buffer._assign(packed)
        if values:
            _map(lambda name, old: values.get(name or "", old), self, self._path())


def _map(
    f: Callable[[str | None, Any], Any],
    container: Any,
    path: str | None,
    kind: str = "struct",
    torch: bool = False,
) -> Any:
    """Replaces every array and view in a module by `f(name, array)`; names begin with `path`, and
    are those of PyTorch if `torch` is set. Arrays in structures other than modules have no name.
    Everything is changed in place except tuples, which are created anew."""
    if kind == "struct" and Module not in type(container).__mro__:
        path = None
    keys, found = pytree.keys_and_parts(container, kind)
    parts = [*found]
    others = type(container).torch_names if torch and isinstance(container, Module) else {}
    changed = False
    for k, v in enumerate(parts):
        cls = type(v)
        if cls in _PLAIN:  # most fields of layers are numbers
            continue
        name: Any = k if keys is None else keys[k]
        if others:
            name = others.get(str(name), name)
        if issubclass(cls, (ArrayBase, MatrixView)):
            full: Any = None if path is None else f"{path}{name}"
            if torch and full is not None:
                full = _TorchName(full)
                full.is_vector = str(keys and keys[k]) in getattr(container, "torch_vectors", ())
            new = f(full, v)
        elif (inner := _kind(cls)) in pytree.CONTAINERS:
            inside = path if path is None or name == "" else f"{path}{name}."
            new = _map(f, v, inside, inner, torch)
        else:
            continue
        if new is not v:
            parts[k], changed = new, True
    if not changed:
        return container
    if not isinstance(container, tuple):
        set_contents(container, keys, parts)
        return container
    # Not by a constructor, which may take other arguments.
    made = tuple.__new__(type(container), parts)
    if hasattr(container, "__dict__"):
        made.__dict__.update(container.__dict__)
    return made


class _TorchName(str):
    """The name of a parameter in PyTorch."""

    is_vector = False


def _modules(value: Any) -> Iterator[Any]:
    """Yields all modules that a value consists of."""
    if isinstance(value, Module):
        yield value
    kind = _kind(type(value))
    if kind in pytree.CONTAINERS:
        for part in pytree.keys_and_parts(value, kind)[1]:
            yield from _modules(part)


def _kind(cls: type) -> str:
    """Returns the role of a class's values as containers, regardless of its constructor."""
    if Module in cls.__mro__:  # quicker than to ask an abstract base class
        return "struct"
    if issubclass(cls, (list, tuple)):
        return "sequence"
    return "dict" if issubclass(cls, dict) else pytree.role(cls)


def _as_dict(other: Any, where: str) -> dict[str, Any]:
    try:
        return dict(other)
    except (TypeError, ValueError):
        raise TypeError(
            f"{where}: expected a mapping, such as an optimizer or a module, or pairs of names and "
            f"values, got {type_label(type(other))}"
        ) from None


def _fitted(where: str, key: str, target: Any, value: Any) -> Any:
    """Converts a value to the type of the parameter that it replaces."""
    kind = type(target)
    if not isinstance(value, ArrayBase):
        from numbers import Number  # a module that few programs need

        if isinstance(value, Number):
            return full(kind, cast(Any, value), shape(target))
    try:
        new = value if isinstance(value, ArrayBase) else kind(value)
        found = shape(new)
        if found == shape(target):
            # An array does not take a tensor of another shape, of which the entries fit.
            flat = is_tensor_v(new) and not is_tensor_v(kind)
            return new if type(new) is kind else kind(new.array if flat else new)
    except TypeError as error:
        raise TypeError(
            f"{where}: the parameter {key!r} of type {type_label(kind)} cannot be assigned a value "
            f"of type {type_label(type(value))} ({error})"
        ) from None
    raise ValueError(
        f"{where}: the parameter {key!r} has shape {shape(target)}, the value has shape {found}"
    )


def _flat(name: str, value: Any) -> tuple[Any, tuple[int, ...]]:
    """Returns the entries of a parameter, and its shape in PyTorch, where a bias has one axis."""
    if isinstance(value, MatrixView):
        is_vector = value.shape[1] == 1 and getattr(name, "is_vector", False)
        return entries(value), value.shape[:1] if is_vector else value.shape
    return (value.array if is_tensor_v(value) else value), shape(value)


def _places(v: MatrixView) -> np.ndarray:
    """Returns where the entries of a view are in its buffer."""
    rows, columns = v.shape
    return v.offset + v.stride * np.arange(rows)[:, None] + np.arange(columns)


def _loaded(where: str, name: str, old: Any, value: Any) -> Any:
    """Converts the value of a parameter to its type, or to a NumPy array if it was packed."""
    flat, dims = _flat(name, old)
    if not isinstance(value, ArrayBase):
        if callable(getattr(value, "detach", None)):
            value = value.detach()
            if str(value.dtype) == "torch.bfloat16":  # which NumPy does not have
                value = value.float()
        value = np.asarray(value) if isinstance(value, (list, tuple)) else value
    found = tuple(shape(value) if isinstance(value, ArrayBase) else getattr(value, "shape", ()))
    if found != dims and not (found == (*dims, 1) and isinstance(value, ArrayBase)):
        turned = len(dims) == 2 and found == dims[::-1]
        hint = ". Matrices have the shape (outputs, inputs)" if turned else ""
        raise ValueError(f"{where}: {name!r} has shape {found}, the network's {dims}{hint}")
    cls: Any = related(type(flat), kind="tensor", dims=())
    try:
        made = detach(cls(value))
    except TypeError as error:
        raise TypeError(
            f"{where}: {name!r} cannot be converted to {type_label(cls)}: {error}"
        ) from None
    if isinstance(old, MatrixView):
        return np.array(made).reshape(old.shape)
    return made if is_tensor_v(old) else made.array


def _tracked_like(old: Any, new: Any) -> Any:
    """Tracks derivatives for a value if they are for the one that it replaces."""
    if grad_enabled(old):
        enable_grad(new)
    return new


def entry(value: Any, k: int = 0) -> Any:
    """Returns a parameter that is a single number, or entry `k` of one that was packed."""
    if isinstance(value, MatrixView):
        return gather(type(value.buffer), value.buffer, value.offset + k * value.stride)
    return value


def check_sizes(layer: str, **sizes: Any) -> None:
    """Checks the numbers of features that a layer is declared with."""
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"drjit.nn.{layer}(): {name} must be an int, got {value!r}")
        if value == 0 or value < -1:
            raise ValueError(
                f"drjit.nn.{layer}(): {name} must be at least 1, or -1 for the size of the input, "
                f"got {value}"
            )


def found_size(layer: Module, declared: int, size: int, what: str) -> int:
    """Returns the number of features that a layer takes: as declared, or those that it gets."""
    n = size if declared == -1 else declared
    if n < 0:
        raise RuntimeError(
            f"drjit.nn.Module.alloc(): the number of {what} of {layer!r} is unknown. Pass the "
            "network's as 'size'."
        )
    if n == 0 or size not in (-1, n):
        needed = n or "at least 1"
        raise ValueError(
            f"drjit.nn.Module.alloc(): {layer!r} needs {needed} input features, but gets {size}"
        )
    return n


def uninitialized(layer: Module) -> RuntimeError:
    """Returns the error to raise for a layer without parameters."""
    return RuntimeError(
        f"drjit.nn.{type(layer).__name__}: uninitialized network. Call 'net = net.alloc("
        "<Tensor type>)' to initialize the weight storage first."
    )


def _listed(keys: Iterable[Any]) -> str:
    """Lists keys for a message."""
    names = [repr(key) for key in keys]
    more = f" and {len(names) - 6} more" if len(names) > 7 else ""
    return (", ".join(names[:6] if more else names) or "none") + more


def module_name(module: Module) -> str:
    cls = type(module)
    return f"{cls.__module__}.{cls.__qualname__}"


# ---- Packing


ModuleT = TypeVar("ModuleT", bound=Module)


Layout: TypeAlias = Literal["inference", "training"]
Container: TypeAlias = list[Any] | tuple[Any, ...] | dict[Any, Any]


@overload
def pack(arg: ModuleT, /, layout: Layout = "inference") -> ModuleT: ...
@overload
def pack(arg: ArrayBase | MatrixView, /, layout: Layout = "inference") -> MatrixView: ...
@overload
def pack(arg: Container, /, layout: Layout = "inference") -> Any: ...
@overload
def pack(*args: ArrayBase | MatrixView, layout: Layout = "inference") -> tuple[MatrixView, ...]: ...
@overload
def pack(
    *args: Module | Container | ArrayBase | MatrixView, layout: Layout = "inference"
) -> tuple[Any, ...]: ...
def pack(*args: Any, layout: Layout = "inference") -> Any:  # pyright: ignore[reportInconsistentOverload]
    """Replaces the arrays, tensors and views in PyTrees by views of one new buffer. Returns a tuple
    if there are several arguments. A packed module is a network for cooperative vectors.

    Each module among the arguments gets its own buffer, which becomes the only entry, `weights`, of
    the packed module's mapping. Reverse-mode derivatives with respect to matrices need the layout
    `training`. Packing is differentiable: gradients of the buffer propagate to what was packed, any
    number of times. After a single PyTree, the layout may also be the second positional argument.

    Raises:
        TypeError: arrays have different element types, or are neither tensors nor one-dimensional
            arrays.
        RuntimeError: the layout is neither `inference` nor `training`; see also `view`.

    >>> from drjit.auto.ad import TensorXf16
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1), prefix="mlp").alloc(TensorXf16)
    >>> net = nn.pack(net, layout="training")
    >>> net["mlp.weights"].shape
    (13,)
    >>> A, b = nn.pack(TensorXf16([[1, 2], [3, 4]]), TensorXf16([5, 6]), layout="training")
    >>> A.layout, b.offset, b.buffer
    ('training', 4, [1, 2, 3, 4, 5, 6])
    """
    if len(args) == 2 and isinstance(args[1], str):
        return pack(args[0], layout=cast(Any, args[1]))
    if layout not in ("inference", "training"):
        raise RuntimeError(f"{_WHAT}: 'layout' must be 'inference' or 'training', not {layout!r}")
    if len(args) == 1 and isinstance(args[0], str):
        raise TypeError(
            f"{_WHAT}: expected a module, arrays, views, or trees of them, got {args[0]!r} of type "
            "str"
        )
    rest = [k for k, arg in enumerate(args) if not isinstance(arg, Module)]
    found = list(args)
    for group in (rest, *[[k] for k in range(len(args)) if k not in rest]):
        made = _packed([args[k] for k in group], layout)
        for k, arg in zip(group, made, strict=True):
            found[k] = arg
    return found[0] if len(found) == 1 else tuple(found)


_WHAT = "drjit.nn.pack()"


def _packed(args: Sequence[Any], layout: LayoutName) -> Sequence[Any]:
    """Returns PyTrees with views of one new buffer."""
    views: list[MatrixView] = []
    for leaf in pytree.leaves(args, MatrixView):
        if isinstance(leaf, (ArrayBase, MatrixView)):
            v = leaf if isinstance(leaf, MatrixView) else viewed(leaf, _WHAT)
            check(v, _WHAT)
            views.append(v)
    if not views:
        return args
    types = {type(v.buffer) for v in views}
    if len(types) > 1:
        names = " and ".join(sorted(type_label(t) for t in types))
        raise TypeError(f"{_WHAT}: all arrays must be of the same element type, got {names}")

    def joined(*buffers: Any) -> list[Any]:
        parts = [entries(v.changed(buffer=b)) for v, b in zip(views, buffers, strict=True)]
        return [type(parts[0])(parts[0]) if len(parts) == 1 else concat(parts)]

    (buffer,) = precomputed(joined, *[v.buffer for v in views])
    placed = iter(_place_views(views, buffer, layout))

    def packed(leaf: Any) -> Any:
        return next(placed) if isinstance(leaf, (ArrayBase, MatrixView)) else leaf

    return pytree.map_tree(packed, args, stop=MatrixView)


def _place_views(views: list[MatrixView], buffer: Any, layout: LayoutName) -> list[MatrixView]:
    """Returns the views, placed one after the other in a buffer."""
    sizes = [prod(v.shape) for v in views]
    found = []
    for v, size, offset in zip(views, sizes, accumulate(sizes, initial=0), strict=False):
        stride = v.shape[1]
        own: LayoutName = "row_major" if stride == 1 else layout
        found.append(v.changed(buffer=buffer, offset=offset, stride=stride, size=size, layout=own))
    return found


# ---- Files: any mapping from names to arrays, in NumPy's format `.npz`, or in `.safetensors` where
# the package of that name is installed


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
    with array_file.open_file(path, what) as contents:
        if state is None:
            return contents_of(contents)
        fitted = [*matching_entries(contents, dict(state.items()), strict, what)]
    state.update({key: new for key, _, new in fitted})
    return {key: array for key, array, _ in fitted}
