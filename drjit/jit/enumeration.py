"""How the public enumerations show: by name, as members of the package."""


class Named:
    """Mixed into an enumeration, makes its members print as `LogLevel.Warn`.

    The classes appear as `drjit.LogLevel`, wherever they are written.
    """

    name: str

    def __init_subclass__(cls) -> None:
        cls.__module__ = "drjit"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)
