"""NumPy, imported when it is first needed: that takes three times as long as everything else that
`import drjit` does, and many programs get along without.

`np` stands for the module. Its attributes import NumPy, except for the types that values are tested
for: as long as nobody has imported NumPy, nothing is an instance of them.
"""

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class _Type(type):
    """The class of what stands for types of NumPy until it has been imported."""

    def __instancecheck__(cls, instance: object) -> bool:
        found = cls._found()
        return found is not None and isinstance(instance, found)

    def __subclasscheck__(cls, subclass: type) -> bool:
        found = cls._found()
        return found is not None and issubclass(subclass, found)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return getattr(numpy, cls.__name__)(*args, **kwargs)

    def _found(cls) -> Any:
        """Returns the type, or None if NumPy has not been imported, at least so far."""
        return getattr(sys.modules.get("numpy"), cls.__name__, None)


_NAMES = ("bool_", "dtype", "floating", "generic", "inexact", "integer", "ndarray", "number")
_TYPES = {name: _Type(name, (), {"__module__": "numpy"}) for name in _NAMES}


class _NumPy:
    """The module; what has been looked up there stays as an attribute."""

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        if name in _TYPES and not hasattr(sys.modules.get("numpy"), name):
            return _TYPES[name]
        import numpy

        found = getattr(numpy, name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import numpy as np
else:
    np = _NumPy()
