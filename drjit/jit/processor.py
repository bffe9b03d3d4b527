"""The processor that kernels are compiled for: this machine's, or the x86-64 microarchitecture
level named by `DRJIT_TARGET_CPU`, which allows fewer instructions. llvmlite is imported on first
use.
"""

import os
from functools import cache

_V3 = ("sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS = {"x86-64-v3": _V3, "x86-64-v4": _V4}
"""The microarchitecture levels of the System V ABI for AMD64, section 3.1.1."""


@cache
def target() -> tuple[str, str]:
    """Returns the processor's name and features in LLVM's spelling.

    Raises:
        RuntimeError: `DRJIT_TARGET_CPU` is not a level, or this processor does not support it.
    """
    from llvmlite import binding

    wish = os.environ.get("DRJIT_TARGET_CPU", "native")
    features = binding.get_host_cpu_features()
    if wish == "native":
        return binding.get_host_cpu_name(), features.flatten()
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
