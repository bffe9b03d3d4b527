"""A conflict with the other distribution that has a package `drjit`: Dr.Jit itself, which Mitsuba
needs. If both are installed in one environment, their files end up in the same folder, and neither
the last one installed nor the one that remains after the other is uninstalled works fully. This
module detects that, whichever of the two `import drjit` gives.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

FOLDER = os.path.dirname(__file__)
_EXTENSION = "_drjit_ext"
_REMEDY = (
    "Both cannot share an environment. Remove both, `pip uninstall drjit drjit-numba`, then "
    "install the one that is to be used, and the other in an environment of its own."
)


def is_mixed() -> bool:
    """Returns whether the folder of the package contains the compiled part of the other one."""
    return any(os.path.exists(os.path.join(FOLDER, _EXTENSION + s)) for s in EXTENSION_SUFFIXES)


def warn() -> None:
    """Warns that files of both are in the folder.

    Warns:
        RuntimeWarning: they are.
    """
    if is_mixed():
        import warnings

        warnings.warn(
            "the distribution 'drjit' (Dr.Jit itself) is installed in the same environment as "
            f"'drjit-numba', and both have a package 'drjit': files are mixed in {FOLDER}. "
            f"{_REMEDY}",
            RuntimeWarning,
            stacklevel=3,
        )


def is_intact(package: Any) -> bool:
    """Returns whether the package that `import drjit` gives is this one."""
    return hasattr(package, "_names")  # a module that nothing else imports


def problem(package: Any) -> str:
    """Returns what is wrong with the package that `import drjit` gives, or an empty text if it is
    this one, alone."""
    if getattr(package, "__file__", None) is None:
        return (
            f"{FOLDER} has no __init__.py: uninstalling the distribution 'drjit' (Dr.Jit itself), "
            "which has a package of the same name, has taken it along. Install this one again: "
            "`pip uninstall drjit-numba`, then as before."
        )
    if not is_intact(package):
        return (
            "`import drjit` gives the distribution 'drjit' (Dr.Jit itself), version "
            f"{getattr(package, '__version__', 'unknown')}, whose files have replaced those of "
            f"'drjit-numba' in {FOLDER}. {_REMEDY}"
        )
    if is_mixed():
        return f"files of the distribution 'drjit' (Dr.Jit itself) are mixed in. {_REMEDY}"
    return ""
