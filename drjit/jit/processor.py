"""The processor that kernels are compiled for: this machine's, or the one that `DRJIT_TARGET_CPU`
names in LLVM's spelling, if this machine has all its instructions. llvmlite is imported only where
the system does not say enough about the processor.

For files that other machines load, a thread compiles for another processor (`compiling_for`).
"""

import os
import sys
from _thread import get_ident
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from .tuples import NamedTuple

# Features that kernels need: without these, LLVM calls functions of a library that is not there.
_REQUIRED = {"x86-64": ("avx2", "fma", "f16c"), "aarch64": ("neon",)}
# Prefixes of the names of features that the code of kernels may use. Others, such as protection
# keys, are often hidden from virtual machines, and are no reason to refuse a processor.
_USED_PREFIXES = (
    "avx", "sse", "ssse", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe", "adx", "gfni", "tbm",
    "xop", "vaes", "neon", "sve", "sme", "full", "bf16", "i8mm", "dotprod", "lse", "rdm", "crc",
)  # fmt: skip
# Features of ARM processors, of which LLVM lists only those that are present.
_ARM_FEATURES = ("neon", "sve", "sve2", "fullfp16", "bf16", "i8mm", "dotprod", "lse")
# What kernels may also use of another ARM processor.
_MORE_ARM_FEATURES = ("rdm", "crc", "rcpc")
# What LLVM's generic ARM processor has, but not all others: they would seem to lack all it has.
_NOT_COMPARED = (
    "-trbe,-fuse-aes,-fuse-adrp-add,-enable-select-opt,-predictable-select-expensive,"
    "-use-postra-scheduler,"
)
# Linux's names of features, without punctuation, where LLVM has others.
_LINUX_NAMES = {
    "sse3": "pni", "bmi": "bmi1", "lzcnt": "abm", "crc32": "sse42", "neon": "asimd",
    "fullfp16": "asimdhp", "dotprod": "asimddp", "lse": "atomics", "rdm": "asimdrdm",
    "crc": "crc32", "rcpc": "lrcpc",
}  # fmt: skip
_BASIC_PROCESSOR = {"x86-64": "x86-64", "aarch64": "generic"}
# Processors that an error may suggest; LLVM knows many more.
_SUGGESTED = {
    "x86-64": (
        "x86-64-v3", "x86-64-v4", "haswell", "skylake", "alderlake", "skylake-avx512",
        "icelake-server", "sapphirerapids", "znver1", "znver2", "znver3", "znver4", "znver5",
    ),
    "aarch64": (
        "generic", "cortex-a72", "neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1",
        "apple-m2",
    ),
}  # fmt: skip


class Target(NamedTuple):
    """A processor to compile for: its architecture, its name in LLVM's spelling, and the features
    that code for it may need; and its system in LLVM's spelling."""

    architecture: str
    name: str
    features: tuple[str, ...]
    switches: str  # LLVM's list of features, which may take some from what the name says
    triple: str


_chosen: dict[int, Target] = {}  # by thread


@contextmanager
def compiling_for(target: Target) -> Iterator[None]:
    """Has this thread compile for another processor."""
    _chosen[get_ident()] = target
    try:
        yield
    finally:
        del _chosen[get_ident()]


def chosen() -> Target | None:
    """Returns the processor that this thread compiles for, None for that of this machine."""
    return _chosen.get(get_ident()) if _chosen else None


def named(name: str) -> Target:
    """Returns a processor by its name, `native` or one of LLVM's.

    Raises:
        ValueError: kernels cannot be compiled for such a processor.
    """
    own = architecture()
    if name == "native":
        name, switches = target()
        found = [f[1:] for f in switches.split(",") if f[:1] == "+"]
        used = tuple([f for f in found if f.startswith(_USED_PREFIXES)])
        return Target(own, name, used, switches, str(binding().get_process_triple()))
    kinds = sorted(_REQUIRED, key=lambda kind: (name not in _SUGGESTED[kind], kind != own))
    problem = ""
    for kind in kinds:
        triple = triple_of(kind)
        try:
            backend(triple)
        except RuntimeError:
            problem += f"; llvmlite was built without code generation for {kind}"
            continue
        names = [n for n in binding().get_host_cpu_features() if n.startswith(_USED_PREFIXES)]
        if kind == "aarch64":
            names = [*_ARM_FEATURES, *_MORE_ARM_FEATURES]
        features = _features((name,), names, kind)[0]
        if features.issuperset(_REQUIRED[kind]):
            switches = ",".join([f"+{feature}" for feature in sorted(features)])
            return Target(kind, name, tuple(sorted(features)), switches, triple)
    needed = " or ".join([f"{', '.join(_REQUIRED[kind])} ({kind})" for kind in kinds])
    raise ValueError(
        f"LLVM knows no processor {name!r} with what kernels need, {needed}{problem}. Expected "
        f"'native', or a name such as {', '.join(map(repr, _SUGGESTED[kinds[0]][:5]))}"
    )


def runs(architecture: str, features: Sequence[str]) -> bool:
    """Returns whether this processor has all of some features. On Linux, LLVM is not loaded for
    that."""
    if architecture != ("aarch64" if _is_arm() else "x86-64"):
        return False
    host = _cpu_info()
    if (os.environ.get("DRJIT_TARGET_CPU") or "native") != "native" or not host:
        return {*target()[1].split(",")}.issuperset([f"+{name}" for name in features])
    present = (host.get("flags") or host.get("Features") or "").replace("_", "").split()
    return {*present}.issuperset(
        [_LINUX_NAMES.get(name, name.replace(".", "").replace("_", "")) for name in features]
    )


def triple_of(architecture: str) -> str:
    """Returns this machine's system with an architecture, in LLVM's spelling."""
    system = str(binding().get_process_triple()).partition("-")[2]
    names = {"x86-64": "x86_64", "aarch64": "arm64" if "apple" in system else "aarch64"}
    return f"{names.get(architecture, architecture)}-{system}"


def backend(triple: str) -> Any:
    """Returns LLVM's code generation for a system.

    Raises:
        RuntimeError: llvmlite does not have it.
    """
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple)


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
        RuntimeError: `DRJIT_TARGET_CPU` names no processor that LLVM knows and kernels can be
            compiled for, or one with instructions that this machine does not have.
    """
    llvm = binding()
    wish = os.environ.get("DRJIT_TARGET_CPU") or "native"
    present = llvm.get_host_cpu_features()
    if wish == "native":
        return llvm.get_host_cpu_name(), present.flatten()
    llvm.initialize_native_target()
    kind = architecture()
    all_names = {*present, *(_ARM_FEATURES if kind == "aarch64" else ())}
    names = sorted(name for name in all_names if name.startswith(_USED_PREFIXES))
    features, *others = _features((wish, *_SUGGESTED.get(kind, ())), names, kind)
    needed = _REQUIRED.get(kind, ())

    def fault(features: set[str]) -> str:
        if not features.issuperset(needed):
            return f"LLVM knows no such processor with {', '.join(needed)}, which kernels need"
        missing = [name for name in names if name in features and not present.get(name)]
        return f"this processor has no {', '.join(missing)}" if missing else ""

    if reason := fault(features):
        suggested = zip(_SUGGESTED.get(kind, ()), others, strict=True)
        possible = [repr(name) for name, features in suggested if not fault(features)]
        raise RuntimeError(
            f"DRJIT_TARGET_CPU={wish}: {reason}. Expected 'native', or LLVM's name of a processor "
            f"whose instructions this one has, such as {', '.join(possible)}."
        )
    return wish, ",".join(f"+{name}" for name in names if name in features)


def architecture(triple: str | None = None) -> str:
    """Returns the architecture of a system, by default of this machine."""
    triple = str(binding().get_process_triple()) if triple is None else triple
    name = triple.partition("-")[0]
    return "x86-64" if name == "x86_64" else "aarch64" if name == "arm64" else name


def _features(processors: Sequence[str], names: Sequence[str], kind: str) -> list[set[str]]:
    """Returns which of the features each processor of an architecture has. LLVM tells this
    indirectly: it inlines a function that is compiled with a feature only into functions that are
    compiled with it, too.
    """
    llvm = binding()
    # Without the first feature, LLVM ends the process at the name of a 32-bit processor.
    base = "+64bit," if kind == "x86-64" else ""
    basic = _BASIC_PROCESSOR.get(kind, "")
    less = _NOT_COMPARED if kind == "aarch64" else ""
    lines = []
    for k, name in enumerate(names):
        features = f'"target-features"="{base}{less}+{name}"'
        body = f"%y = mul i64 %x, {k + 3}\nret i64 %y"
        lines.append(f"define internal i64 @part{k}(i64 %x) #{k} {{\n{body}\n}}")
        lines.append(f'attributes #{k} = {{ "target-cpu"="{basic}" {features} }}')
    for n, processor in enumerate(processors):
        number = len(names) + n
        cpu = "".join(c for c in processor if c.isalnum() or c in "-_.+")
        lines.append(
            f'attributes #{number} = {{ "target-cpu"="{cpu}" "target-features"="{base}" }}'
        )
        for k in range(len(names)):
            call = f"%y = call i64 @part{k}(i64 %x)"
            lines.append(f"define i64 @f{n}.{k}(i64 %x) #{number} {{\n{call}\nret i64 %y\n}}")
    module = llvm.parse_assembly("\n".join(lines), llvm.create_context())
    machine = llvm.Target.from_triple(triple_of(kind)).create_target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    present_features = []
    for n in range(len(processors)):
        inside = [" call " not in str(module.get_function(f"f{n}.{k}")) for k in range(len(names))]
        present_features.append(
            {name for name, copied in zip(names, inside, strict=True) if copied}
        )
    return present_features


def identity() -> tuple[str, ...]:
    """Returns what machine code compiled here depends on: the version of LLVM, the machine, and the
    processor's model and features. On Linux, LLVM is not loaded for that.
    """
    version, host = version_file("llvmlite"), _cpu_info()
    if not version or not host:
        llvm = binding()
        version = ".".join(map(str, llvm.llvm_version_info))
        return version, llvm.get_process_triple(), *target()
    wish = os.environ.get("DRJIT_TARGET_CPU") or "native"
    return version, os.uname().machine, wish, *[f"{name}={value}" for name, value in host.items()]


@cache
def version_file(package: str) -> str:
    """Returns the contents of a package's `_version.py`, without importing the package; nothing if
    it is not installed in a folder of `sys.path` or has no such file."""
    for folder in sys.path:
        try:
            with open(os.path.join(folder, package, "_version.py"), encoding="utf-8") as file:
                return file.read()
        except (OSError, TypeError):  # an import also skips entries that are no text
            continue
    return ""


@cache
def _is_arm() -> bool:
    if hasattr(os, "uname"):
        return os.uname().machine.lower() in ("aarch64", "arm64")
    import platform  # slow to import

    return platform.machine().lower() in ("aarch64", "arm64")


REGISTERS = {64: "AVX-512", 32: "AVX2", 16: "NEON"}
"""What vector registers belong to, by their bytes."""


def register_bytes() -> int:
    """Returns the size of the vector registers that kernels are compiled for: 64 bytes with
    AVX-512, 32 on other x86 processors, 16 on ARM."""
    other, host = chosen(), _cpu_info()
    if _is_arm() if other is None else other.architecture == "aarch64":
        return 16
    if other is not None:
        features: Sequence[str] = other.features
    elif host and (os.environ.get("DRJIT_TARGET_CPU") or "native") == "native":
        features = host.get("flags", "").split()
    else:
        features = target()[1].replace("+", "").split(",")
    return 64 if "avx512f" in features else 32


@cache
def second_level_cache() -> int:
    """Returns the number of bytes of a core's second-level cache; 1 MiB where the system does not
    say."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size", encoding="ascii") as file:
            size = file.read().strip()
        return int(size.rstrip("KM")) << {"K": 10, "M": 20}.get(size[-1:], 0)
    except (OSError, ValueError):
        return 1 << 20


# The lines of /proc/cpuinfo that LLVM's choice of instructions depends on.
_CPU_INFO_NAMES = frozenset({
    "vendor_id", "cpu family", "model", "stepping", "flags",  # x86
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",  # ARM
})  # fmt: skip


@cache
def _cpu_info() -> dict[str, str]:
    """Returns facts about the first processor, or nothing where the system does not list any."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read(1 << 14).partition("\n\n")[0].split("\n")
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines]
    return {
        name.strip(): value.strip() for name, _, value in pairs if name.strip() in _CPU_INFO_NAMES
    }
