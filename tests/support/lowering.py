"""Machine code for processors other than this one, which is made and looked at but cannot run; and
what `--arm` does: each text that a test compiles is also assembled for ARM."""

from typing import Any

import pytest
from refusals import Refusals

from drjit.jit import processor
from drjit.jit.target import foreign, simd
from drjit.jit.target.simd import llvm
from drjit.jit.target.simd.ir import Machine
from drjit.jit.target.simd.kernel import module_text

# Triples, processors and features in LLVM's spelling, and the bytes of a vector register.
ARM = {
    "neon": ("aarch64-unknown-linux-gnu", "generic", "+neon", 16),
    "neoverse": ("aarch64-unknown-linux-gnu", "neoverse-n1", "", 16),
    "apple": ("arm64-apple-macosx", "apple-m1", "", 16),
}
MACHINES = ARM | {
    "apple-x86": ("x86_64-apple-macosx", "haswell", "", 32),
    "windows": ("x86_64-pc-windows-msvc", "haswell", "", 32),
}


def lowered(text: str, machine: str) -> str:
    """Returns the machine code of a kernel's text as assembly text; it is also assembled."""
    return both(text, machine)[1]


def both(text: str, machine: str) -> tuple[bytes, str]:
    """Returns the object file of a kernel's text, and its assembly text."""
    llvm.binding.initialize_all_targets()
    llvm.binding.initialize_all_asmprinters()
    triple, cpu, features, width = MACHINES[machine]
    target = llvm.binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processor, "register_bytes", lambda: width)
        patch.setattr(llvm, "host", lambda: Machine(width, has_gathers=False))
        made = module_text(text, "kernel", simd.packet_lanes(text), True)
    ir = f'target triple = "{triple}"\n{made.ir}'
    module = llvm.binding.parse_assembly(ir, llvm.binding.create_context())
    manager, builder = llvm.Compiler().passes(made.uncombined, False, False)
    manager.run(module, builder)
    return target.emit_object(module), target.emit_assembly(module)


class Lowering(Refusals):
    """The plugin."""

    name = "lowered"

    def __init__(self) -> None:
        super().__init__(texts=0, refused=0)
        self.known: set[str] = set()

    def install(self) -> None:
        """From now on, texts are lowered for ARM where they are compiled."""
        compiled = simd.compile

        def compile(text: str, name: str, *given: Any, **options: Any) -> Any:
            made = compiled(text, name, *given, **options)
            # The code of other compilers is for this machine.
            calls = any(f"{name}(" in text for name in foreign.functions)
            if text not in self.known and not calls and not options.get("library"):
                self.known.add(text)
                self.lower(text)
            return made

        simd.compile = compile

    def lower(self, text: str) -> None:
        for machine in ARM:
            self.totals["texts"] += 1
            try:
                lowered(text, machine)
            except Exception as error:
                self.totals["refused"] += 1
                self.refused.append(f"{machine}: {error}\n{text}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(
            f"{', '.join(ARM)}: " + "{texts} texts, {refused} refused".format(**self.totals)
        )


def register(config: pytest.Config) -> None:
    """Registers the plugin."""
    plugin = Lowering()
    plugin.install()
    config.pluginmanager.register(plugin)
