"""The compiler from LLVM modules to PTX: llvmlite's target for NVIDIA GPUs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import binding

from ..simd.ir import KernelError

# The version of PTX for a compute capability, which the driver must know: see `OLDEST_DRIVERS` in
# drjit/jit/cuda/driver.py. Compute capability 9.0 has reductions of several floats, of PTX 8.1.
_VERSIONS = {(9, 0): 81, (10, 0): 86, (12, 0): 87}
_OLDEST_VERSION = 80
# The architectures that LLVM knows, of which a GPU runs the code for the next older one.
_ARCHITECTURES = (70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)

LAYOUT = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
TRIPLE = "nvptx64-nvidia-cuda"

# Whether modules are checked before they are compiled, as in tests: wrong ones end the process.
_VERIFIES = os.environ.get("DRJIT_VERIFY") == "1"

# Modules with at least this many lines favour compile time over speed.
_LONG = 10_000


def architecture(capability: tuple[int, int]) -> str:
    """Returns the architecture to generate code for.

    >>> architecture((9, 0)), architecture((8, 8))
    ('sm_90', 'sm_87')
    """
    number = 10 * capability[0] + capability[1]
    return f"sm_{max(known for known in _ARCHITECTURES if known <= number)}"


@cache
def _target() -> Any:
    binding.set_option("drjit", "--nvptx-short-ptr")  # addresses of shared memory take a register
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(TRIPLE)


def _machine(capability: tuple[int, int], level: int) -> Any:
    newer = [version for first, version in _VERSIONS.items() if capability >= first]
    features = f"+ptx{max(newer, default=_OLDEST_VERSION)}"
    return _target().create_target_machine(
        cpu=architecture(capability), features=features, opt=level
    )


class _Compiler:
    """Code generators and passes for a compute capability, for one thread at a time."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.machine = cache(lambda level: _machine(capability, level))
        self.passes = cache(lambda: _passes(self.machine(2)))


_idle: dict[tuple[int, int], list[_Compiler]] = {}


@contextmanager
def _compiler(capability: tuple[int, int]) -> Iterator[_Compiler]:
    """Lends a compiler to the calling thread."""
    idle = _idle.setdefault(capability, [])
    try:
        found = idle.pop()
    except IndexError:
        found = _Compiler(capability)
    try:
        yield found
    finally:
        idle.append(found)


def _passes(machine: Any) -> tuple[Any, Any]:
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(machine, options)
    manager = binding.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_global_dead_code_eliminate_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager, builder


def ptx(ir: str, capability: tuple[int, int]) -> str:
    """Compiles the text of a module to PTX."""
    ir = f'target datalayout = "{LAYOUT}"\ntarget triple = "{TRIPLE}"\n{ir}'
    with _compiler(capability) as c:
        machine = c.machine(1 if ir.count("\n") > _LONG else 3)
        try:
            module = binding.parse_assembly(ir, binding.create_context())
            if _VERIFIES:
                module.verify()
        except RuntimeError as error:
            raise KernelError(f"LLVM rejects the translation: {error}") from None
        manager, builder = c.passes()
        manager.run(module, builder)
        return machine.emit_assembly(module)
