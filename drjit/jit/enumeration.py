"""How public enumerations print: by name, as members of the package."""


class Named:
    """Mix-in that makes the members of an enumeration print as `LogLevel.Warn`.

    The classes report `drjit` as their module, wherever they are defined.
    """

    name: str

    def __init_subclass__(cls) -> None:
        cls.__module__ = "drjit"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)
