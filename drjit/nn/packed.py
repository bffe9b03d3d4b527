"""Packing of modules, each into a buffer of its own."""

from typing import Any, Literal

from .matrix import pack as pack_arrays
from .module import Module


def pack(*args: Any, layout: Literal["inference", "training"] = "inference") -> Any:
    """PyTrees with views of one new buffer in place of their arrays, tensors and views; a tuple if
    there are several. Of a module, this is a network for cooperative vectors.

    Modules among the arguments have a buffer each, which is the one entry `weights` of the packed
    module's mapping. Reverse-mode derivatives with respect to matrices need the layout `training`.
    Packing is differentiable: the gradient of the buffer goes on to what was packed. Next to a
    single PyTree, the layout may also be the second argument.

    Raises:
        TypeError: arrays differ in their element type, or are no tensors or one-dimensional arrays.
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
        return pack(args[0], layout=args[1])  # pyright: ignore[reportArgumentType]
    rest = [arg for arg in args if not isinstance(arg, Module)]
    packed = pack_arrays(*rest, layout=layout)
    others = iter(packed if len(rest) > 1 else (packed,))
    found = tuple(
        [pack_arrays(a, layout=layout) if isinstance(a, Module) else next(others) for a in args]
    )
    return found[0] if len(found) == 1 else found
