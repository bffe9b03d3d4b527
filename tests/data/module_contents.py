"""What modules and classes of the interface contain. Run by an interpreter that has Dr.Jit, this
writes tests/data/module_contents.txt, which the tests compare with.

Left out are names with an underscore in front, what a module imports from elsewhere, how classes
are bound to C++, and what `drjit.interop` and `drjit.config` have besides their interface.
"""

import enum
import importlib
import types

MODULES = [
    "drjit", "drjit.scalar", "drjit.llvm", "drjit.llvm.ad", "drjit.cuda", "drjit.cuda.ad",
    "drjit.auto", "drjit.auto.ad", "drjit.nn", "drjit.opt", "drjit.hashgrid", "drjit.detail",
    "drjit.interop", "drjit.random", "drjit.ast", "drjit.dda",
]  # fmt: skip
NO_INTERFACE = (
    "__nb_signature__", "__nb_enum__", "__orig_bases__", "__parameters__", "__weakref__",
    "__dict__", "__abstractmethods__", "__annotations__", "__slots__", "config", "MutableMapping",
    "bind", "dr_iterator", "Context",
)  # fmt: skip
FOREIGN = ("typing", "functools", "builtins", "__future__")


def is_interface(module, name):
    value = getattr(module, name)
    if name.startswith("_") or name in NO_INTERFACE:
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("drjit.") and module.__name__ != "drjit.detail"
    if getattr(value, "__module__", None) in FOREIGN or value is enum:
        return False
    if module.__name__ == "drjit.interop":
        return name == "wrap"
    return not (module.__name__ in ("drjit.dda", "drjit.ast") and name[-1:] in "T2")


def members(cls):
    found = {n for n in dir(cls) if not n.startswith("_") or n.startswith("__")}
    return sorted(found - set(dir(object)) - set(NO_INTERFACE) - set(dir(enum.Enum)))


def contents():
    """Lines: the names of each module, and the members of classes; classes of the same members
    share a line.
    """
    lines, classes = [], {}
    for path in MODULES:
        module = importlib.import_module(path)
        names = [n for n in sorted(dir(module)) if is_interface(module, n)]
        lines.append(f"{path}: {' '.join(names)}")
        for name in names:
            value = getattr(module, name)
            if isinstance(value, type) and value.__module__.startswith("drjit"):
                shown = f"{value.__module__}.{value.__qualname__}"
                classes.setdefault(" ".join(members(value)), set()).add(shown)
    shared = [f"{' '.join(sorted(found))}: {what}" for what, found in classes.items()]
    return lines + sorted(shared)


if __name__ == "__main__":
    print("# modules and the names in them, classes and their members")
    print("\n".join(contents()))
