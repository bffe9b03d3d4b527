"""The compiler and the loader: llvmlite behind a few functions."""

import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from ... import locks, processor
from .. import foreign
from .ir import KernelError, Machine

binding = processor.binding()

# Modules with at least this many lines favour compile time over speed.
LONG = 10_000

# Whether modules are checked before they are compiled, as in tests: wrong ones end the process.
_VERIFIES = os.environ.get("DRJIT_VERIFY") == "1"

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


def new_machine(level: int = 2, *, jit: bool = False) -> Any:
    name, features = processor.target()
    return _machine(_target(), name, features, level, jit)


def machine_of(target: processor.Target, level: int) -> Any:
    """Returns a code generator for another processor."""
    backend = processor.backend(target.triple)
    return _machine(backend, target.name, target.switches, level, False)


def _machine(target: Any, name: str, features: str, level: int, jit: bool) -> Any:
    # Position-independent code with a small code model: valid at any address where a later process
    # loads it.
    return target.create_target_machine(
        cpu=name, features=features, opt=level, reloc="pic", codemodel="small", jit=jit
    )


class Compiler:
    """Code generators and passes, for one thread at a time. `machine` creates the code generator of
    an optimization level."""

    def __init__(self, machine: Callable[[int], Any] = new_machine) -> None:
        self.machine = cache(machine)
        self.passes = cache(self._passes)

    def _passes(
        self, uncombined: bool = False, in_memory: bool = False, plain: bool = False
    ) -> tuple[Any, Any]:
        """Returns the optimization passes. The text is in SSA form without dead or repeated code,
        so few passes are worth their time; unless variables are in memory, which then leave it
        first.

        If long blocks were split, instructions must not be combined, because that would move them
        to the block of their use, away from the loads they depend on. In a plain kernel there is
        nothing to combine or to inline.
        """
        manager = binding.create_new_module_pass_manager()
        if in_memory:
            manager.add_sroa_pass()
        if not plain:
            manager.add_always_inliner_pass()
            manager.add_global_dead_code_eliminate_pass()
            if not uncombined:
                manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
        return manager, self._builder(binding.create_pipeline_tuning_options(speed_level=2))

    def _builder(self, options: Any) -> Any:
        return binding.create_pass_builder(self.machine(2), options)

    def _vectorizing_passes(self) -> tuple[Any, Any]:
        """Returns LLVM's standard passes, for a single run; they take several times as long as
        those above."""
        options = binding.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = True
        builder = self._builder(options)
        return builder.getModulePassManager(), builder

    def module(
        self, ir: str, uncombined: bool = False, in_memory: bool = False, vectorizes: bool = False,
        plain: bool = False,
    ) -> Any:  # fmt: skip
        """Returns the optimized module of a text; see `object_code`."""
        module = _parsed(ir)
        if plain and ir.count("\nbr i1 ") == 1:  # the loop over packets is a single block
            return module
        if vectorizes:
            manager, builder = self._vectorizing_passes()
        else:
            manager, builder = self.passes(uncombined, in_memory, plain)
        with locks.native_call():
            _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)
        return module


_idle: dict[tuple, list[Compiler]] = {}


@contextmanager
def compiler(machine: Callable[..., Any] = new_machine, *options: Any) -> Iterator[Compiler]:
    """Lends a compiler to the calling thread; `machine` creates its code generators, given some
    options and the level."""
    idle = _idle.setdefault((machine, options), [])
    try:
        lent = idle.pop()
    except IndexError:
        lent = Compiler(partial(machine, *options))
    try:
        yield lent
    finally:
        idle.append(lent)


@cache
def _unlocked(name: str) -> Any:
    """Returns a function of llvmlite's library without the lock around all of its functions. LLVM
    lets threads work at the same time on what belongs to different contexts."""
    function = getattr(binding.ffi.lib, name)
    return getattr(function, "_cfn", function)


def _parsed(ir: str) -> Any:
    """Returns the module of a text, in a context of its own."""
    context = binding.create_context()
    with binding.ffi.OutputString() as message:
        parse, text = _unlocked("LLVMPY_ParseAssembly"), ir.encode()
        with locks.native_call():
            parsed = parse(context, text, message)
        module = binding.ModuleRef(parsed, context)
        if message:
            module.close()
            raise KernelError(f"LLVM rejects the translation: {message}")
    if _VERIFIES:
        try:
            module.verify()
        except RuntimeError as error:
            raise KernelError(f"LLVM rejects the translation: {error}") from None
    return module


def emit(machine: Any, module: Any, is_object: bool) -> bytes:
    """Returns the machine code of a module, as an object file or as text."""
    lib = binding.ffi.lib
    with binding.ffi.OutputString() as message:
        emit_to_memory = _unlocked("LLVMPY_TargetMachineEmitToMemory")
        with locks.native_call():
            memory = emit_to_memory(machine, module, int(is_object), message)
        if not memory:
            raise RuntimeError(f"LLVM generates no code: {message}")
    try:
        start, size = lib.LLVMPY_GetBufferStart(memory), lib.LLVMPY_GetBufferSize(memory)
        return ctypes.string_at(start, size)
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(memory)


def level_of(ir: str, plain: bool) -> int:
    """Returns the level of code generation for a module. The second one takes longer than the
    first: a tenth, or a quarter for 30 operations. Long kernels are hardly any faster with it, and
    those without calls not at all: what it changes there is the order of instructions. Fused
    products are no calls in the end.
    """
    calls = ir.count(" call ") - ir.count(" @llvm.fma.")
    return 1 if plain or calls <= 0 or ir.count("\n") > LONG else 2


def object_code(
    ir: str,
    uncombined: bool,
    in_memory: bool = False,
    vectorizes: bool = False,
    plain: bool = False,
    level: int | None = None,
    as_text: bool = False,
) -> bytes:
    """Compiles the text of a module to an object file, or to assembly `as_text`.

    `uncombined` says that instructions stay as they are, `in_memory` that variables are in memory,
    `vectorizes` that there are loops over lanes, `plain` that no pass is needed. `level` is that of
    code generation, if the text does not decide.
    """
    other = processor.chosen()
    with compiler() if other is None else compiler(machine_of, other) as c:
        module = c.module(ir, uncombined, in_memory, vectorizes, plain)
        machine = c.machine(level_of(ir, plain) if level is None else level)
        return emit(machine, module, not as_text)


@cache
def _linker() -> Any:
    """Returns the linker, which all threads share; llvmlite lets one call follow the other."""
    # Of Windows' format, the newer linker cannot make calls that reach beyond 2 GB, as those of the
    # function that extends the stack do.
    newer = sys.platform != "win32"
    return binding.create_lljit_compiler(new_machine(jit=True), use_jit_link=newer)


def link(code: bytes, symbols: list[str]) -> tuple[Any, list[int]]:
    """Loads an object file; returns the object that keeps it loaded, and the addresses of the
    symbols."""
    builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for symbol, address in list(foreign.symbols.items()):
        builder.import_symbol(symbol, address)
    library = builder.link(_linker(), f"kernel{next(_serial)}")
    return library, [library[symbol] for symbol in symbols]
