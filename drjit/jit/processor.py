"""The processor that kernels are compiled for: this machine's, or the x86-64 microarchitecture
level named by `DRJIT_TARGET_CPU`, which allows fewer instructions. llvmlite is imported only where
the system does not say what is needed.
"""

import os
from functools import cache
from typing import Any

_V3 = ("sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS = {"x86-64-v3": _V3, "x86-64-v4": _V4}
"""The microarchitecture levels of the System V ABI for AMD64, section 3.1.1."""


def binding() -> Any:
    """Returns llvmlite's interface to LLVM.

    Raises:
        ImportError: there is no llvmlite.
    """
    try:
        from llvmlite import binding
    except ImportError as error:
        raise ImportError(
            "Compiled kernels need the package 'llvmlite', which cannot be imported "
            f"({error}). Install it, or select the NumPy tier with DRJIT_TIER=numpy."
        ) from None
    return binding


@cache
def target() -> tuple[str, str]:
    """Returns the processor's name and features in LLVM's spelling.

    Raises:
        RuntimeError: `DRJIT_TARGET_CPU` is not a level, or this processor does not support it.
    """
    llvm = binding()
    wish = os.environ.get("DRJIT_TARGET_CPU", "native")
    features = llvm.get_host_cpu_features()
    if wish == "native":
        return llvm.get_host_cpu_name(), features.flatten()
    if wish not in LEVELS:
        raise RuntimeError(
            f"DRJIT_TARGET_CPU: expected 'native', {', '.join(map(repr, LEVELS))}, not {wish!r}"
        )
    missing = [name for name in LEVELS[wish] if not features.get(name)]
    if missing:
        raise RuntimeError(
            f"DRJIT_TARGET_CPU={wish}: this processor has no {', '.join(missing)}, so that kernels "
            "for that level could not run"
        )
    return wish, ",".join(f"+{name}" for name in LEVELS[wish])


def identity() -> tuple[str, ...]:
    """Returns what decides about machine code that is compiled here: the version of LLVM, the
    machine, and the processor's model and features. On Linux, LLVM is not loaded for that.
    """
    version, host = version_file("llvmlite"), _linux()
    if not version or not host:
        llvm = binding()
        version = ".".join(map(str, llvm.llvm_version_info))
        return version, llvm.get_process_triple(), *target()
    wish = os.environ.get("DRJIT_TARGET_CPU", "native")
    return version, os.uname().machine, wish, *[f"{name}={value}" for name, value in host.items()]


@cache
def version_file(package: str) -> str:
    """Returns the contents of a package's `_version.py`, without importing the package; nothing if
    it is not installed or has no such file."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None or not spec.origin:
        return ""
    try:
        path = os.path.join(os.path.dirname(spec.origin), "_version.py")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def has_avx512() -> bool:
    """Returns whether kernels are compiled for registers of 64 bytes."""
    wish, host = os.environ.get("DRJIT_TARGET_CPU", "native"), _linux()
    if wish == "native" and host:
        return "avx512f" in host.get("flags", "").split()
    return "+avx512f" in target()[1].split(",")


# The lines of /proc/cpuinfo that LLVM's choice of instructions depends on.
_LINES = frozenset({
    "vendor_id", "cpu family", "model", "stepping", "flags",  # x86
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",  # ARM
})  # fmt: skip


@cache
def _linux() -> dict[str, str]:
    """Returns facts about the first processor, or nothing where the system does not list any."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read(1 << 14).partition("\n\n")[0].split("\n")
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in _LINES}
