"""From PTX to machine code by a tool of NVIDIA's, where one fits the GPU and its driver; otherwise,
by the compiler in the driver.

The tools are the library nvJitLink (`pip install nvidia-nvjitlink`) and the program `ptxas`
(`pip install nvidia-cuda-nvcc`, or a CUDA toolkit). The program `nvdisasm` shows what they make
(`pip install nvidia-cuda-nvdisasm`, or a toolkit).
"""

import ctypes
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, TypeAlias

from .. import log
from .driver import OLDEST_CUDA, CudaError, excerpt

_WINDOWS = sys.platform == "win32"
_PTX = 2  # NVJITLINK_INPUT_PTX


class AssemblerError(RuntimeError):
    """PTX that is not valid. The text contains the tool's message, and the lines that it names."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a tool, and returns what it printed."""
    flags = subprocess.CREATE_NO_WINDOW if _WINDOWS else 0  # type: ignore[attr-defined]
    return subprocess.run(command, capture_output=True, text=True, creationflags=flags)


class Ptxas:
    """The program `ptxas`. `version` is that of the CUDA toolkit to which it belongs."""

    name, package = "ptxas", "nvidia-cuda-nvcc"

    def __init__(self, path: str) -> None:
        self.path = path
        version = re.search(r"release (\d+)\.(\d+)", run(path, "--version").stdout)
        if version is None:
            raise OSError(f"{path} does not say its version")
        self.version = int(version[1]), int(version[2])

    def assemble(self, ptx: str, target: str, *options: str) -> bytes:
        """Returns the machine code for a target such as `sm_90`. The options are those of both
        tools.

        Raises:
            AssemblerError: the PTX is not valid, or the tool does not know the target.
        """
        with tempfile.TemporaryDirectory(prefix="drjit-") as folder:
            source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
            source.write_text(ptx)
            done = run(self.path, *options, f"-arch={target}", str(source), "-o", str(result))
            if done.returncode:
                text = (done.stderr + done.stdout).replace(f"{source}", "PTX")
                raise AssemblerError(explain(text, ptx, self.name))
            return result.read_bytes()


class NvJitLink:
    """The library nvJitLink; see `Ptxas`."""

    name, package = "nvJitLink", "nvidia-nvjitlink"

    def __init__(self, path: str) -> None:
        self.library: Any = ctypes.CDLL(path)
        for function, types in (
            ("Version", (POINTER(c_uint), POINTER(c_uint))),
            ("Create", (POINTER(c_void_p), c_uint, POINTER(c_char_p))),
            ("Destroy", (POINTER(c_void_p),)),
            ("AddData", (c_void_p, c_uint, c_char_p, c_size_t, c_char_p)),
            ("Complete", (c_void_p,)),
            ("GetLinkedCubinSize", (c_void_p, POINTER(c_size_t))),
            ("GetLinkedCubin", (c_void_p, c_void_p)),
            ("GetErrorLogSize", (c_void_p, POINTER(c_size_t))),
            ("GetErrorLog", (c_void_p, c_char_p)),
        ):
            getattr(self.library, f"nvJitLink{function}").argtypes = types
        major, minor = c_uint(), c_uint()
        self.library.nvJitLinkVersion(byref(major), byref(minor))
        self.version = major.value, minor.value

    def assemble(self, ptx: str, target: str, *options: str) -> bytes:
        library, linker = self.library, c_void_p()
        texts = [text.encode() for text in (f"-arch={target}", "-O3", *options)]
        given = (c_char_p * len(texts))(*texts)
        code = library.nvJitLinkCreate(byref(linker), len(texts), given)
        try:
            text = ptx.encode()
            code = code or library.nvJitLinkAddData(linker, _PTX, text, len(text), b"PTX")
            code = code or library.nvJitLinkComplete(linker)
            if code:
                raise AssemblerError(explain(self._log(linker, code), ptx, self.name))
            cubin = self._bytes("GetLinkedCubin", linker)
        finally:
            library.nvJitLinkDestroy(byref(linker))
        return cubin

    def _bytes(self, what: str, linker: c_void_p) -> bytes:
        size = c_size_t()
        getattr(self.library, f"nvJitLink{what}Size")(linker, byref(size))
        contents = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvJitLink{what}")(linker, contents)
        return contents.raw

    def _log(self, linker: c_void_p, code: int) -> str:
        text = self._bytes("GetErrorLog", linker) if linker else b""
        return text.rstrip(b"\0").decode(errors="replace") or f"error {code}"


Tool: TypeAlias = Ptxas | NvJitLink


class DriverCompiler:
    """The compiler in a driver; see `Ptxas`. It takes longer than the tools."""

    def __init__(self, driver: Any) -> None:
        self.driver, self.name = driver, driver.name
        self.version = driver.version() // 1000, driver.version() % 1000 // 10

    def assemble(self, ptx: str, target: str) -> bytes:
        code, report = self.driver.assemble(ptx)
        log.log(log.LogLevel.Info, "%s: %s", self.name, report)
        return code


@functools.cache
def tools() -> tuple[Tool, ...]:
    """Returns the tools of this machine, the fastest one first."""
    usable: list[Tool] = []
    for make, candidates in ((NvJitLink, _libraries()), (Ptxas, programs("ptxas"))):
        for path in candidates:
            try:
                usable.append(make(path))
                break
            except (OSError, AttributeError) as error:
                log.log(log.LogLevel.Warn, "%s cannot be used (%s)", path, error)
    return tuple(usable)


def _wheels() -> list[Path]:
    """Returns the folders of NVIDIA's Python packages, such as `nvidia/nvjitlink`."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    roots = spec.submodule_search_locations if spec else None
    return sorted((p for root in roots or () for p in Path(root).glob("*")), reverse=True)


def _libraries() -> Iterator[str]:
    pattern = "bin/**/nvJitLink_*.dll" if _WINDOWS else "lib/libnvJitLink.so.*"
    for folder in _wheels():
        yield from map(str, folder.glob(pattern))


def programs(name: str) -> Iterator[str]:
    """Returns where there are programs of NVIDIA's with a name, the one that a shell would find
    first."""
    if on_path := shutil.which(name):
        yield on_path
    name += ".exe" * _WINDOWS
    toolkits = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    for folder in (*_wheels(), *map(Path, toolkits), Path("/usr/local/cuda")):
        if (folder / "bin" / name).exists():
            yield str(folder / "bin" / name)


def assemble(device: Any, ptx: str, name: str) -> bytes:
    """Returns what a device's driver loads for PTX: machine code, or else the PTX. `name` is that
    of the kernel in messages."""
    tool = tool_of(device)
    if tool is not None:
        try:
            code = tool.assemble(ptx, _target(device.capability, ptx))
            if tool not in _proven:
                load = device.driver.load
                device.driver.unload(device.queue.call_with_room(load, code))
                _proven.add(tool)
            return code
        except (AssemblerError, CudaError, OSError) as error:
            if tool not in _proven:  # perhaps it does not know the GPU
                _useless.add(tool)
            text = "kernel %s: the driver translates the PTX, because %s failed (%s)"
            log.log(log.LogLevel.Info, text, name, tool.name, error)
    return ptx.encode() + b"\0"


def for_capability(capability: tuple[int, int], ptx: str, name: str) -> bytes:
    """Returns what drivers load for PTX on other GPUs: machine code by the first tool that can make
    it, or else the PTX."""
    for tool in tools():
        try:
            return tool.assemble(ptx, _target(capability, ptx))
        except (AssemblerError, OSError) as error:
            text = "kernel %s: %s makes no code for compute capability %d.%d (%s)"
            log.log(log.LogLevel.Info, text, name, tool.name, *capability, error)
    return ptx.encode() + b"\0"


def disassembled(capability: tuple[int, int], ptx: str, name: str) -> str:
    """Returns the machine code of PTX as a text, in which comments name the lines of its `.loc`; an
    empty text where a tool for that is missing, or fails."""
    program, tool = next(programs("nvdisasm"), None), next(iter(tools()), None)
    if program is None or tool is None:
        return ""
    ptx = re.sub(r"^(\.target .*), debug$", r"\1", ptx, flags=re.M)  # or nothing is optimized
    try:
        with tempfile.TemporaryDirectory(prefix="drjit-") as folder:
            file = Path(folder, "kernel.cubin")
            file.write_bytes(tool.assemble(ptx, _target(capability, ptx), "-lineinfo"))
            done = run(program, "-g", "-c", str(file))
        problem = done.stderr if done.returncode else ""
    except (AssemblerError, OSError) as error:
        problem = str(error)
    if problem:
        log.log(log.LogLevel.Info, "kernel %s: there is no SASS (%s)", name, problem)
    return "" if problem else done.stdout


def _target(capability: tuple[int, int], ptx: str) -> str:
    target = "sm_{}{}".format(*capability)
    return target + "a" * (f".target {target}a" in ptx)


def image_facts(device: Any) -> tuple[object, ...]:
    """Returns what images depend on besides the PTX: the tool and the compute capability."""
    tool = tool_of(device)
    made_by = (device.driver.name,) if tool is None else (tool.name, tool.version)
    return *made_by, device.capability


_proven: set[Tool | DriverCompiler] = set()  # whose machine code a driver has loaded
_useless: set[Tool | DriverCompiler] = set()  # that failed at once


def tool_of(device: Any) -> Tool | DriverCompiler | None:
    """Returns what makes machine code for a device: a tool that knows its version of PTX, and whose
    machine code its driver can load, or else the driver. Nothing does for an emulated one."""
    driver = device.driver
    if driver.emulated:
        return None
    for tool in tools():
        if tool not in _useless and not _problem(tool, driver.version(), device.capability):
            return tool
    compiler = _compiler(driver)
    return None if compiler in _useless else compiler


@functools.cache
def _compiler(driver: Any) -> DriverCompiler:
    return DriverCompiler(driver)


@functools.cache
def _problem(tool: Tool, cuda: int, capability: tuple[int, int]) -> str:
    """Returns why a tool is not used with a driver for a version of CUDA, and logs it; nothing if
    it is."""
    from ..target.cuda import nvptx

    ptx = nvptx.version(capability)
    (major, minor), oldest = tool.version, OLDEST_CUDA[ptx][0]
    if 1000 * major + 10 * minor < oldest:
        problem = f"it does not know PTX {ptx // 10}.{ptx % 10}, which the GPU needs"
    elif major > cuda // 1000:
        problem = f"the driver is one for CUDA {cuda // 1000}, and cannot load its machine code"
    else:
        return ""
    suffix = "" if cuda >= 13000 else f"-cu{cuda // 1000}"  # of packages before CUDA 13
    log.log(
        log.LogLevel.Info,
        "%s %d.%d is not used: %s. Install one that fits: pip install --upgrade %s%s",
        tool.name, major, minor, problem, tool.package, suffix,
    )  # fmt: skip
    return problem


def explain(text: str, ptx: str, tool: str) -> str:
    """Returns the message for what a tool says, with the lines of PTX that it names."""
    return f"{tool}: {text.strip()}{excerpt(text, ptx)}"
