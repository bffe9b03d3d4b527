"""The compiler and the loader: llvmlite behind four functions."""

import itertools
import sys
import threading
from functools import cache
from typing import Any

from ... import processor
from .. import foreign
from .ir import KernelError, Machine

binding = processor.binding()

# Modules with at least this many lines favour compile time over speed.
LONG = 10_000

# LLVM's objects here are shared by all threads of the process.
lock = threading.Lock()
_serial = itertools.count()


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())


def host() -> Machine:
    """Returns what the processor has. The gathers of AVX2 are slower than loads, so they are not
    used."""
    width = processor.register_bytes()
    return Machine(width, width == 64)


def _new_machine(*, jit: bool, level: int = 2) -> Any:
    name, features = processor.target()
    # Position-independent code with a small code model: valid at any address where a later process
    # loads it.
    return _target().create_target_machine(
        cpu=name, features=features, opt=level, reloc="pic", codemodel="small", jit=jit
    )


@cache
def _machine(level: int) -> Any:
    return _new_machine(jit=False, level=level)


def _machine_for(ir: str, plain: bool = False) -> Any:
    """Returns the machine code generator for a module. The second optimization level takes longer
    than the first: a tenth, or a quarter for 30 operations. Long kernels are hardly any faster with
    it, and those without calls not at all: what it changes there is the order of instructions.
    """
    quick = plain or " call " not in ir or ir.count("\n") > LONG
    return _machine(1 if quick else 2)


@cache
def _passes(parted: bool, in_memory: bool, plain: bool = False) -> tuple[Any, Any]:
    """Returns the optimization passes. The text is in SSA form without dead or repeated code, so
    few passes are worth their time; unless variables are in memory, which then leave it first.

    If long blocks were split, instructions are not combined, because that would move them to the
    block of their use, away from the loads they depend on. In a plain kernel there is nothing to
    combine or to inline.
    """
    options = binding.create_pipeline_tuning_options(speed_level=2)
    builder = binding.create_pass_builder(_machine(2), options)
    manager = binding.create_new_module_pass_manager()
    if in_memory:
        manager.add_sroa_pass()
    if not plain:
        manager.add_always_inliner_pass()
        manager.add_global_dead_code_eliminate_pass()
        if not parted:
            manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager, builder


def _vectorizing_passes() -> tuple[Any, Any]:
    """Returns LLVM's standard passes, for a single run; they take several times as long as those
    above."""
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = True
    builder = binding.create_pass_builder(_machine(2), options)
    return builder.getModulePassManager(), builder


def _optimized(
    ir: str,
    parted: bool,
    in_memory: bool = False,
    vectorizes: bool = False,
    plain: bool = False,
) -> Any:
    context = binding.create_context()
    try:
        module = binding.parse_assembly(ir, context)
    except RuntimeError as error:
        raise KernelError(f"LLVM rejects the translation: {error}") from None
    if plain and ir.count("\nbr i1 ") == 1:  # the loop over packets is a single block
        return module
    if vectorizes:
        manager, builder = _vectorizing_passes()
    else:
        manager, builder = _passes(parted, in_memory, plain)
    manager.run(module, builder)
    return module


def object_code(
    ir: str,
    parted: bool,
    in_memory: bool = False,
    vectorizes: bool = False,
    plain: bool = False,
    level: int | None = None,
) -> bytes:
    """Compiles the text of a module to an object file; `parted` says that long blocks were
    split, `in_memory` that variables are in memory, `vectorizes` that there are loops over lanes,
    `plain` that instructions need not be combined. `level` is that of code generation, if the text
    does not decide.
    """
    with lock:
        module = _optimized(ir, parted, in_memory, vectorizes, plain)
        machine = _machine_for(ir, plain) if level is None else _machine(level)
        return machine.emit_object(module)


def assembly(ir: str, parted: bool, in_memory: bool = False, plain: bool = False) -> str:
    """Returns the machine code of a module as assembly text."""
    with lock:
        module = _optimized(ir, parted, in_memory, plain=plain)
        return _machine_for(ir, plain).emit_assembly(module)


@cache
def _linker() -> Any:
    # Of Windows' format, the newer linker cannot make calls that reach beyond 2 GB, as those of the
    # function that extends the stack do.
    newer = sys.platform != "win32"
    return binding.create_lljit_compiler(_new_machine(jit=True), use_jit_link=newer)


def link(code: bytes, symbols: list[str]) -> tuple[Any, list[int]]:
    """Loads an object file; returns the object that keeps it loaded, and the addresses of the
    symbols."""
    with lock:
        builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        for symbol, address in foreign.symbols.items():
            builder.import_symbol(symbol, address)
        library = builder.link(_linker(), f"kernel{next(_serial)}")
        return library, [library[symbol] for symbol in symbols]


def version() -> str:
    """Returns LLVM's version."""
    return ".".join(map(str, binding.llvm_version_info))
