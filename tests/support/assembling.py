"""What `--assemble` does: `ptxas` assembles each PTX text that a test makes, and those it refuses
fail the test."""

import time
from typing import Any

import pytest
from ptxas_resources import ptxas, resources
from refusals import Refusals

from drjit.jit.cuda.assembler import AssemblerError, Ptxas
from drjit.jit.target.cuda import nvptx


class Assembling(Refusals):
    """The plugin."""

    name, error = "assembled", AssemblerError

    def __init__(self, tool: Ptxas) -> None:
        self.tool = tool
        self.oldest = (7, 5) if tool.version >= (13, 0) else (5, 0)
        super().__init__(texts=0, refused=0, kernels=0, spilling=0, seconds=0.0)

    def install(self) -> None:
        """From now on, texts are assembled where they are made."""
        compiled = nvptx.ptx

        def ptx(ir: str, capability: tuple[int, int], accelerated: bool = False) -> str:
            text = compiled(ir, capability, accelerated)
            self.assemble(text, capability, accelerated)
            return text

        nvptx.ptx = ptx

    def assemble(self, text: str, capability: tuple[int, int], accelerated: bool = False) -> None:
        """Assembles a text, for the oldest capability that the tool knows if that is newer."""
        start = time.perf_counter()
        self.totals["texts"] += 1
        target = nvptx.architecture(max(capability, self.oldest)) + "a" * accelerated
        try:
            kernels = resources(self.tool, text, target).values()
        except AssemblerError as error:
            self.totals["refused"] += 1
            self.refused.append(str(error))
        else:
            self.totals["kernels"] += len(kernels)
            self.totals["spilling"] += sum(k.spill_stores + k.spill_loads > 0 for k in kernels)
        self.totals["seconds"] += time.perf_counter() - start

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(
            "ptxas {}.{}: ".format(*self.tool.version)
            + "{texts} texts, {refused} refused; {kernels} kernels, {spilling} with spills; "
            "{seconds:.0f} s".format(**self.totals)
        )


def register(config: pytest.Config) -> None:
    """Registers the plugin.

    Raises:
        UsageError: there is no `ptxas`.
    """
    tool = ptxas()
    if tool is None:
        raise pytest.UsageError("--assemble: there is no ptxas")
    plugin = Assembling(tool)
    plugin.install()
    config.pluginmanager.register(plugin)
