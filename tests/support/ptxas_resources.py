"""What kernels take, according to `ptxas -v`, and their instructions, according to `nvdisasm`."""

import re
import subprocess
import tempfile
from collections import Counter
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


def nvdisasm() -> str | None:
    """Returns the program `nvdisasm`, if there is one."""
    return next(assembler.programs("nvdisasm"), None)


def joined(texts: dict[str, str]) -> str:
    """Returns the PTX of several kernels as one text. Their names begin with those of the texts,
    and so do those of their functions and tables."""
    parts, head = [], ""
    for name, text in texts.items():
        head, mark, body = text.partition(".address_size 64")
        head += mark
        parts.append(re.sub(r"\b(\w+_\$_)", rf"{name}_\1", body))
    return head + "".join(parts)


def instructions(tool: Ptxas, disassembler: str, ptx: str, target: str) -> dict[str, Counter]:
    """Returns how often each kernel in PTX has each instruction of the machine."""
    found: dict[str, Counter] = {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(tool.assemble(ptx, target))
        file.flush()
        command = [disassembler, "-c", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for part in text.split(".text.")[1:]:
        lines = re.findall(r"^ +/\*\w{4,}\*/ +(?:@!?U?P\w+ )?([\w.]+)", part, re.M)
        name = part.split(",")[0].split(":")[0]
        found.setdefault(name, Counter()).update(lines)
    return found


def resources(tool: Ptxas, ptx: str, target: str) -> dict[str, Resources]:
    """Returns the resources of each kernel in PTX.

    Raises:
        AssemblerError: the PTX is not valid.
    """
    with tempfile.TemporaryDirectory(prefix="drjit-") as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        done = assembler.run(tool.path, "-v", f"-arch={target}", str(source), "-o", str(result))
    text = done.stderr + done.stdout
    if done.returncode:
        raise AssemblerError(assembler.explain(text.replace(f"{source}", "PTX"), ptx, tool.name))
    return reported(text)


def disassembled(ptx: str, target: str) -> list[str] | None:
    """Returns the names of the instructions of PTX that is assembled, or None without tools."""
    tool, program = ptxas(), nvdisasm()
    if tool is None or program is None:
        return None
    found = instructions(tool, program, ptx, target).values()
    return [name for some in found for name in some.elements() if name != "NOP"]


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
