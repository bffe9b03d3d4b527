"""NumPy, imported when it is first needed: importing it takes three times as long as the rest of
`import drjit`, and many programs do without it.

`np` stands for the module. Access to an attribute imports NumPy, except for the types that values
are tested for: as long as nobody has imported NumPy, nothing is an instance of them.
"""

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class _Type(type):
    """The class of stand-ins for NumPy's types, used until NumPy has been imported."""

    def __instancecheck__(cls, instance: object) -> bool:
        imported = cls._imported()
        return imported is not None and isinstance(instance, imported)

    def __subclasscheck__(cls, subclass: type) -> bool:
        imported = cls._imported()
        return imported is not None and issubclass(subclass, imported)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return getattr(numpy, cls.__name__)(*args, **kwargs)

    def _imported(cls) -> Any:
        """Returns the type, or None if NumPy has not been imported, at least so far."""
        return getattr(sys.modules.get("numpy"), cls.__name__, None)


_NAMES = ("bool_", "dtype", "floating", "generic", "inexact", "integer", "ndarray", "number")
_TYPES = {name: _Type(name, (), {"__module__": "numpy"}) for name in _NAMES}


class _NumPy:
    """Stands for the module, and keeps the attributes that have been looked up."""

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        if name in _TYPES and not hasattr(sys.modules.get("numpy"), name):
            return _TYPES[name]
        import numpy

        attribute = getattr(numpy, name)
        setattr(self, name, attribute)
        return attribute


if TYPE_CHECKING:
    import numpy as np
else:
    np = _NumPy()
