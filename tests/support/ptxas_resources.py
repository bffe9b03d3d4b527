"""What kernels take, according to `ptxas -v`, and of which instructions they consist."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from drjit.jit.cuda import assembler
from drjit.jit.cuda.assembler import AssemblerError, Ptxas


class Resources(NamedTuple):
    """What a thread of a kernel takes, and in bytes of `shared`, what a block does."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int


def ptxas() -> Ptxas | None:
    """Returns the program `ptxas`, if there is one."""
    return next((t for t in assembler.tools() if isinstance(t, Ptxas)), None)


def resources(tool: Ptxas, ptx: str, target: str) -> dict[str, Resources]:
    """Returns the resources of each kernel in PTX.

    Raises:
        AssemblerError: the PTX is not valid.
    """
    with tempfile.TemporaryDirectory(prefix="drjit-") as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        done = tool._run("-v", f"-arch={target}", str(source), "-o", str(result))
    text = done.stderr + done.stdout
    if done.returncode:
        raise AssemblerError(assembler.explain(text.replace(f"{source}", "PTX"), ptx, tool.name))
    return reported(text)


def disassembled(ptx: str, target: str) -> list[str] | None:
    """Returns the names of the instructions of PTX that is assembled, or None without tools."""
    found = [str(p / "bin" / "nvdisasm") for p in assembler._wheels()]
    program = next(filter(None, map(shutil.which, ["nvdisasm", *found])), None)
    tool = ptxas()
    if tool is None or program is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(tool.assemble(ptx, target))
        file.flush()
        text = subprocess.run([program, "-c", file.name], capture_output=True, text=True).stdout
    names = re.findall(r"/\*[0-9a-f]{4}\*/ +(?:@\S+ +)?([A-Z][A-Z0-9_.]*)", text)
    return [name for name in names if name != "NOP"]


def reported(report: str) -> dict[str, Resources]:
    """Returns the resources of each kernel in the report of `ptxas -v`."""
    found = {}
    for part in report.split("Compiling entry function ")[1:]:
        name = part.split("'")[1]

        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        found[name] = Resources(
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes spill stores"),
            number(r"(\d+) bytes spill loads"),
            number(r"(\d+) bytes stack frame"),
            number(r"(\d+) bytes smem"),
        )
    return found
