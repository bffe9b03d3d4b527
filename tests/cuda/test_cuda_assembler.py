"""From PTX to modules of the driver: the tools, their messages, and the cache on disk."""

import pytest
from assembling import Assembling
from cuda_library import FakeLibrary
from cuda_stub import stub
from ptxas_resources import Resources, ptxas, reported, resources

from drjit.jit import log
from drjit.jit.cuda import assembler
from drjit.jit.cuda.assembler import AssemblerError
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.libcuda import LibCuda

PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry k1(.param .u64 p)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  .shared .align 8 .b8 values[1024];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.shared.u32 [values], %r1;
  st.global.u32 [%rd3], %r1;
  ret;
}
"""
REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k1' for 'sm_90'
ptxas info    : Function properties for k1
    16 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 2.194 ms
ptxas info    : Compiling entry function 'k2' for 'sm_90'
ptxas info    : Function properties for k2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""
TOOLS = {t.name: t for t in assembler.tools()}


@pytest.fixture(params=["ptxas", "nvJitLink"])
def tool(request):
    if request.param not in TOOLS:
        pytest.skip(f"there is no {request.param}")
    return TOOLS[request.param]


class Broken:
    """A tool of which tests say what it does."""

    name, package, version = "broken", "nvidia-broken", (12, 1)
    calls = 0

    def assemble(self, ptx, target):
        self.calls += 1
        if "bad" in ptx:
            raise AssemblerError(assembler.explain("PTX, line 1; error", ptx, self.name))
        return b"\x7fELF" + target.encode()


@pytest.fixture
def library():
    return FakeLibrary()


@pytest.fixture
def broken(monkeypatch):
    made = Broken()
    monkeypatch.setattr(assembler, "tools", lambda: (made,))
    return made


def test_machine_code(tool):
    assert tool.version >= (12, 0)
    code = tool.assemble(PTX, "sm_90")
    assert code[:4] == b"\x7fELF" and b"k1" in code
    assert tool.assemble(PTX, "sm_80") != code


def test_invalid_ptx(tool):
    with pytest.raises(AssemblerError) as found:
        tool.assemble(PTX.replace("add.s64", "foo.s64"), "sm_90")
    text = str(found.value)
    assert text.startswith(f"{tool.name}: ") and "line 12" in text and "'foo'" in text
    assert "\n   12    foo.s64 %rd3, %rd1, %rd2;\n   13    st.shared" in text


def test_unknown_targets(tool):
    with pytest.raises(AssemblerError):
        tool.assemble(PTX, "sm_12")


def test_resources_of_a_kernel():
    if (found := ptxas()) is None:
        pytest.skip("there is no ptxas")
    (name, taken), *others = resources(found, PTX, "sm_90").items()
    assert (name, others) == ("k1", [])
    assert 0 < taken.registers < 32
    assert taken == Resources(taken.registers, 0, 0, 0, 1024)


def test_resources_in_a_report():
    assert reported(REPORT) == {
        "k1": Resources(24, 4, 12, 16, 1024),
        "k2": Resources(8, 0, 0, 0, 0),
    }


def test_what_the_driver_loads(library, broken):
    gpu = Cuda(LibCuda(library))
    before = assembler.image_facts(gpu)
    assert assembler.assemble(gpu, PTX, "k1") == b"\x7fELFsm_90"
    library.capability = (8, 6)
    other = Cuda(LibCuda(library))
    assert assembler.assemble(other, PTX, "k1") == b"\x7fELFsm_86"
    only_here = PTX.replace("sm_70", "sm_90a")  # instructions of this architecture alone
    assert assembler.assemble(gpu, only_here, "k1") == b"\x7fELFsm_90a"
    broken.version = (11, 8)
    assert len({before, assembler.image_facts(other), assembler.image_facts(gpu)}) == 3


def test_the_driver_makes_machine_code_where_there_is_no_tool(library, monkeypatch, capfd):
    """Which the disk cache keeps; the log says what kernels take."""
    monkeypatch.setattr(assembler, "tools", tuple)
    gpu = Cuda(LibCuda(library))
    assert assembler.image_facts(gpu) == ("CUDA driver", (12, 4), (9, 0))
    monkeypatch.setattr(log, "level", 3)
    assert assembler.assemble(gpu, PTX, "k1") == b"\x7fELF" + PTX.encode()
    assert "CUDA driver: ptxas info    : Used 24 registers" in capfd.readouterr().err


def test_the_driver_takes_ptx_where_its_compiler_fails(library, monkeypatch):
    """Loading it gives the error, with the lines."""
    monkeypatch.setattr(assembler, "tools", tuple)
    library.fails = {"cuLinkAddData_v2": 218}
    assert assembler.assemble(Cuda(LibCuda(library)), PTX, "k1") == PTX.encode() + b"\0"


def test_a_tool_that_fails_at_once_is_not_asked_again(library, broken):
    gpu = Cuda(LibCuda(library))
    assert assembler.assemble(gpu, "bad", "k1") == b"bad\0"
    assert assembler.assemble(gpu, PTX, "k1") == b"\x7fELF" + PTX.encode()
    assert broken.calls == 1 and assembler.image_facts(gpu)[0] == "CUDA driver"


def test_a_tool_that_has_worked_is(library, broken):
    gpu = Cuda(LibCuda(library))
    for text, code in (PTX, b"\x7fELFsm_90"), ("bad", b"bad\0"), (PTX, b"\x7fELFsm_90"):
        assert assembler.assemble(gpu, text, "k1") == code


def test_the_driver_takes_ptx_where_it_cannot_load_the_code(library, broken):
    library.log = b"no kernel image is available"
    assert assembler.assemble(Cuda(LibCuda(library)), PTX, "k1") == PTX.encode() + b"\0"


@pytest.mark.parametrize(
    ("tool", "cuda", "capability", "problem", "package"),
    [
        ((13, 0), 12040, (9, 0), "the driver is one for CUDA 12, and cannot load", "-cu12"),
        ((12, 0), 12040, (9, 0), "it does not know PTX 8.1, which the GPU needs", "-cu12"),
        ((12, 6), 13000, (12, 0), "it does not know PTX 8.7, which the GPU needs", ""),
    ],
)
def test_a_tool_that_does_not_fit(
    library, broken, monkeypatch, capfd, tool, cuda, capability, problem, package
):
    library.version, library.capability, broken.version = cuda, capability, tool
    gpu = Cuda(LibCuda(library))
    monkeypatch.setattr(log, "level", 3)
    for _ in range(2):
        assert assembler.assemble(gpu, PTX, "k1") == b"\x7fELF" + PTX.encode()
    assert broken.calls == 0 and assembler.image_facts(gpu)[0] == "CUDA driver"
    said = capfd.readouterr().err
    assert said.count(problem) == 1
    assert said.count(f"pip install --upgrade nvidia-broken{package}\n") == 1


def test_the_emulator_takes_ptx(broken):
    gpu = Cuda(EmulatedDriver(emulator=stub))
    assert assembler.assemble(gpu, PTX, "k1") == PTX.encode() + b"\0"
    assert broken.calls == 0


def test_code_for_other_gpus(broken, monkeypatch):
    made = assembler.for_capability((8, 0), "good", "k"), broken.calls
    assert made == (b"\x7fELFsm_80", 1)
    assert assembler.for_capability((9, 0), ".target sm_90a\n", "k") == b"\x7fELFsm_90a"
    assert assembler.for_capability((8, 0), "bad", "k") == b"bad\0"
    monkeypatch.setattr(assembler, "tools", tuple)
    assert assembler.for_capability((12, 0), "good", "k") == b"good\0"


def test_an_error_of_the_driver_shows_the_ptx(library):
    library.log = b"ptxas, line 3: error"
    with pytest.raises(CudaError) as found:
        LibCuda(library).load(b"a\nb\nbad\nc\n\0")
    assert str(found.value) == (
        "CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed\nptxas, line 3: error\n    1  a\n"
        "    2  b\n    3  bad\n    4  c (cuModuleLoadDataEx)"
    )


def test_tools_that_do_not_work_are_passed_over(monkeypatch, tmp_path, capfd):
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho nothing\n")
    program.chmod(0o755)
    library = tmp_path / "lib" / "libnvJitLink.so.12"
    library.parent.mkdir()
    library.write_text("no library")
    monkeypatch.setattr(assembler, "_wheels", lambda: [tmp_path])
    monkeypatch.setattr(assembler.shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", "")
    monkeypatch.setenv("CUDA_PATH", "")
    assert str(program) in [*assembler.programs("ptxas")]
    found = assembler.tools.__wrapped__()
    assert not any(getattr(t, "path", "") == str(program) for t in found)
    assert "ptxas does not say its version" in capfd.readouterr().err


def test_tools_of_wheels_are_found(monkeypatch, tmp_path):
    (tmp_path / "nvidia" / "cu13" / "bin").mkdir(parents=True)
    (tmp_path / "nvidia" / "cu13" / "bin" / "ptxas").touch()
    (tmp_path / "nvidia" / "nvjitlink" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "nvjitlink" / "lib" / "libnvJitLink.so.12").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert {"nvjitlink", "cu13"} <= {p.name for p in assembler._wheels()}
    library = tmp_path / "nvidia" / "nvjitlink" / "lib" / "libnvJitLink.so.12"
    assert str(library) in [*assembler._libraries()]
    assert str(tmp_path / "nvidia/cu13/bin/ptxas") in [*assembler.programs("ptxas")]


@pytest.mark.parametrize("tool", ["ptxas"], indirect=True)
def test_with_assemble_a_text_that_is_refused_fails_the_test(tool):
    plugin = Assembling(tool)
    for text, ends in ((PTX, StopIteration), (PTX.replace("add.s64", "add.x64"), AssemblerError)):
        test = plugin.pytest_runtest_call()
        next(test)
        plugin.assemble(text, (7, 0))
        with pytest.raises(ends) as caught:
            test.send(None)
    assert "add.x64 %rd3, %rd1, %rd2;" in str(caught.value)
    assert not plugin.refused
    del plugin.totals["seconds"]
    assert plugin.totals == {"texts": 2, "refused": 1, "kernels": 1, "spilling": 0}
