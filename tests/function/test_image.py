"""Machine code in memory without LLVM: images of object files."""

import ctypes
import os
import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

from drjit.jit.target import image
from drjit.jit.target.simd import linker, llvm

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="images are for ELF on AMD64"
)

# A table, constants of several sizes, a jump table, and calls of functions of this module and of
# the C library.
MODULE = """
@table = private unnamed_addr constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
declare i64 @labs(i64)
declare double @llvm.floor.f64(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @choose(i64 %k) noinline {
entry:
  switch i64 %k, label %other [i64 0, label %a
                               i64 1, label %b
                               i64 2, label %c
                               i64 3, label %d
                               i64 4, label %e]
a:
  ret i64 100
b:
  %b1 = call i64 @labs(i64 -200)
  ret i64 %b1
c:
  %c1 = getelementptr i64, ptr @table, i64 %k
  %c2 = load i64, ptr %c1
  ret i64 %c2
d:
  %d1 = call i64 @labs(i64 %k)
  ret i64 %d1
e:
  %e1 = mul i64 %k, 1234567890123
  ret i64 %e1
other:
  ret i64 -1
}

define i64 @first(i64 %k) {
  %r = call i64 @choose(i64 %k)
  ret i64 %r
}

define double @second(ptr %from, ptr %to, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  %x = load double, ptr %to
  %y = fmul double %x, 0x3FF3C0CA428C59FB
  ret double %y
}
"""
ABSOLUTE = "@a = constant i64 1\n@b = constant ptr @a\ndefine ptr @f() {\nret ptr @b\n}\n"
MISSING = """declare void @no_such_function()
define void @f() {
  call void @no_such_function()
  ret void
}
"""
WRITTEN = "@a = global i64 1\ndefine void @f() {\nstore i64 2, ptr @a\nret void\n}\n"


def check(code: bytes):
    keeper, (first, second) = image.load(code, ["first", "second"])
    f = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(first)
    assert [f(k) for k in range(-1, 6)] == [-1, 100, 200, 7, 3, 4 * 1234567890123, -1]
    g = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(second)
    source, target = (ctypes.c_double * 3)(2, 3, 4), (ctypes.c_double * 3)()
    assert g(source, target, 24) == 2 * float.fromhex("0x1.3c0ca428c59fbp+0")
    assert list(target) == [2, 3, 4]
    del keeper


def test_an_image_does_what_the_object_file_does():
    code = llvm.object_code(MODULE, False)
    made = linker.build(code, ["first", "second"])
    assert image.is_image(made) and not image.is_image(code)
    check(made)
    check(code)


@pytest.mark.parametrize("module", [ABSOLUTE, WRITTEN])
def test_llvm_links_what_no_image_can_contain(module):
    code = llvm.object_code(module, False)
    assert linker.build(code, ["f"]) is code
    _, (address,) = image.load(code, ["f"])
    assert address


def test_damaged_object_files_and_unknown_functions():
    code = llvm.object_code(MODULE, False)
    assert linker.build(code[:300], ["first"]) == code[:300]
    made = linker.build(llvm.object_code(MISSING, False), ["f"])
    with pytest.raises(OSError, match="this process has no function 'no_such_function'"):
        image.load(made, ["f"])


PROGRAM = """
import sys
import drjit as dr
from drjit.llvm import Float, UInt32

x = dr.linspace(Float, 0, 1, 10000)
y = dr.zeros(Float, 8)
dr.scatter_add(y, dr.sin(x) * x, UInt32(x * 7.9))
print(dr.sum(x * x), y, dr.sort(Float(3, 1, 2)), "llvmlite" in sys.modules)
"""


def test_kernels_of_the_disk_cache_run_without_llvm(tmp_path):
    environment = dict(
        os.environ,
        DRJIT_CACHE_DIR=str(tmp_path),
        DRJIT_TIER="compiled",
        DRJIT_NUM_THREADS="1",  # how threads share the lanes decides about the last digit of sums
        PYTHONPATH=os.pathsep.join(sys.path),
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for _ in range(2)
    )
    assert (first.stderr, second.stderr) == ("", "")
    assert first.stdout.endswith(" True\n") and second.stdout.endswith(" False\n")
    assert first.stdout[:-6] == second.stdout[:-7]
