"""The processor that kernels are compiled for: this machine's, or a level of the x86-64 ABI that
`DRJIT_TARGET_CPU` asks for, with fewer instructions. Imports llvmlite when it is asked.
"""

import os
from functools import cache

_V3 = ("sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS = {"x86-64-v3": _V3, "x86-64-v4": _V4}
"""The microarchitecture levels of the System V ABI for AMD64, section 3.1.1."""


@cache
def target() -> tuple[str, str]:
    """The processor's name and features, as LLVM spells them.

    Raises:
        RuntimeError: `DRJIT_TARGET_CPU` is no level, or one that this processor does not have.
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
