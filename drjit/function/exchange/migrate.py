"""PyTrees on another backend: `migrate`."""

from typing import Any

from ...array import pytree, signatures, table
from ...array.base import ArrayBase, KernelValue, type_label
from ...jit.backend import JitBackend
from ...jit.device import find
from ..ad.grad import grad_enabled
from ..evaluation import eval as evaluate
from ..signature import explains_misuse

_WHAT = "dr.migrate()"


@signatures.migration
@explains_misuse
def migrate(value: Any, backend: JitBackend) -> Any:
    """Returns a PyTree whose arrays are on the given backend: copies of those on the other one,
    whose types are the counterparts there, such as `drjit.cuda.ad.Array3f` for
    `drjit.llvm.ad.Array3f`.

    Array types in the tree, such as that of an `nn.Cast`, are replaced as well. An array that is in
    several places is copied once. Arrays that are on the backend already, arrays of `drjit.scalar`,
    and other objects stay as they are. Derivatives do not pass from one backend to the other:
    migrate `dr.detach(value)`, and track derivatives of the result.

    Raises:
        RuntimeError: the backend is not available on this machine.
        TypeError: `backend` is neither `dr.JitBackend.LLVM` nor `dr.JitBackend.CUDA`; derivatives
            of an array are tracked; or an object cannot leave its backend (a texture, a cooperative
            vector, an array of instances).

    >>> from drjit.llvm import Array3f, Float
    >>> ray = {"origin": Array3f(0, 1, 2), "time": Float(0.5)}
    >>> gpu = dr.migrate(ray, dr.JitBackend.CUDA)  # doctest: +SKIP
    >>> type(gpu["origin"])  # doctest: +SKIP
    <class 'drjit.cuda.Array3f'>
    >>> dr.migrate(ray, dr.backend_v(Float))["origin"] is ray["origin"]
    True
    """
    if backend not in (JitBackend.LLVM, JitBackend.CUDA):
        raise TypeError(
            f"{_WHAT}: expected dr.JitBackend.LLVM or dr.JitBackend.CUDA, got {backend!r}"
        )
    if find(backend) is None:
        table.missing_cuda(_WHAT)
    leaves = list(pytree.walk(value))
    for path, leaf in leaves:
        _check(leaf, backend, path and f" at {path}")
    evaluate([leaf for _, leaf in leaves if _counterpart(type(leaf), backend) is not type(leaf)])
    return _moved(value, backend, {})


def _counterpart(cls: Any, backend: JitBackend) -> Any:
    """Returns the counterpart of a class on a backend; the class itself if it belongs to none."""
    if issubclass(cls, ArrayBase) and cls is not ArrayBase:
        meta = cls.__meta__
        if not meta.is_jit or meta.backend is backend:
            return cls
        return table.related(cls, namespace=backend.name.lower() + ".ad" * meta.is_diff)
    match cls.__module__.split("."):
        case ["drjit", "llvm" | "cuda", *rest]:
            return table.attribute(".".join((backend.name.lower(), *rest)), cls.__name__)
    return cls


def _check(leaf: Any, backend: JitBackend, place: str) -> None:
    """Raises if a leaf of a PyTree cannot go to a backend."""
    cls = type(leaf)
    if isinstance(leaf, KernelValue) and leaf._type._backend is not backend:
        raise TypeError(
            f"{_WHAT}: the {cls.__name__}{place} exists within kernels only; unpack it first."
        )
    if _counterpart(cls, backend) is cls:
        return
    if not isinstance(leaf, ArrayBase):
        raise TypeError(
            f"{_WHAT}: the object{place} of type {type_label(cls)} stays on its backend; migrate "
            "its arrays, such as those of a texture.tensor(), and make another one of them."
        )
    if grad_enabled(leaf):
        raise TypeError(
            f"{_WHAT}: the array{place} of type {type_label(cls)} has derivatives, which stay on "
            "their backend; migrate dr.detach(value) instead."
        )


def _moved(value: Any, backend: JitBackend, copies: dict[int, tuple[Any, Any]]) -> Any:
    """Returns a checked PyTree on a backend. `copies` has arrays and their copies, by the `id` of
    the former."""
    cls = type(value)
    kind = pytree.role(cls)
    if kind in pytree.CONTAINERS:
        if getattr(cls, "_backend", backend) is not backend:
            raise TypeError(
                f"{_WHAT}: {cls.__name__} has references that belong to their backend; create "
                "an array of the objects by the type that dr.instance_t() gives for the other one."
            )
        keys, parts = pytree.keys_and_parts(value, kind)
        parts = [_moved(part, backend, copies) for part in parts]
        return pytree.rebuilt(_counterpart(cls, backend), keys, parts)
    if isinstance(value, type):
        return _counterpart(value, backend)
    there = _counterpart(cls, backend)
    if there is cls:
        return value
    if id(value) not in copies:
        copies[id(value)] = value, there(value)  # the first so that its number stays its own
    return copies[id(value)][1]
