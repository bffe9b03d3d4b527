"""Small kernels, written by hand as LLVM IR, for the tests of launching."""

import functools
from typing import Any

import llvmlite.binding as llvm

from drjit.jit.cpu.launcher import JobEntry

_TEXT = """
; p[1][i] = p[0][i] + p[2]
define void @add(ptr %p, i64 %begin, i64 %end, i64 %block, i64 %thread) {
entry:
  %a = load ptr, ptr %p
  %q1 = getelementptr ptr, ptr %p, i64 1
  %b = load ptr, ptr %q1
  %q2 = getelementptr i64, ptr %p, i64 2
  %c = load i64, ptr %q2
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%n, %loop]
  %x = getelementptr i64, ptr %a, i64 %i
  %v = load i64, ptr %x
  %w = add i64 %v, %c
  %y = getelementptr i64, ptr %b, i64 %i
  store i64 %w, ptr %y
  %n = add i64 %i, 1
  %more = icmp slt i64 %n, %end
  br i1 %more, label %loop, label %out
out:
  ret void
}

; p[0][block] = end - begin; p[1][thread] += 1
define void @count(ptr %p, i64 %begin, i64 %end, i64 %block, i64 %thread) {
  %a = load ptr, ptr %p
  %q1 = getelementptr ptr, ptr %p, i64 1
  %b = load ptr, ptr %q1
  %x = getelementptr i64, ptr %a, i64 %block
  %n = sub i64 %end, %begin
  store i64 %n, ptr %x
  %y = getelementptr i64, ptr %b, i64 %thread
  %o = load i64, ptr %y
  %o1 = add i64 %o, 1
  store i64 %o1, ptr %y
  ret void
}

; p[2][0] = sum of p[0][block]; p[2][1] = n_blocks; p[2][2] = n_threads
define void @total(ptr %p, i64 %blocks, i64 %threads) {
entry:
  %a = load ptr, ptr %p
  %q2 = getelementptr ptr, ptr %p, i64 2
  %r = load ptr, ptr %q2
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %loop, label %out
loop:
  %i = phi i64 [0, %entry], [%n, %loop]
  %s = phi i64 [0, %entry], [%t, %loop]
  %x = getelementptr i64, ptr %a, i64 %i
  %v = load i64, ptr %x
  %t = add i64 %s, %v
  %n = add i64 %i, 1
  %more = icmp slt i64 %n, %blocks
  br i1 %more, label %loop, label %out
out:
  %sum = phi i64 [0, %entry], [%t, %loop]
  store i64 %sum, ptr %r
  %r1 = getelementptr i64, ptr %r, i64 1
  store i64 %blocks, ptr %r1
  %r2 = getelementptr i64, ptr %r, i64 2
  store i64 %threads, ptr %r2
  ret void
}

; Counts to p[0] in each block.
define void @spin(ptr %p, i64 %begin, i64 %end, i64 %block, i64 %thread) {
entry:
  %k = load i64, ptr %p
  %slot = alloca i64
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%n, %loop]
  store volatile i64 %i, ptr %slot
  %n = add i64 %i, 1
  %more = icmp slt i64 %n, %k
  br i1 %more, label %loop, label %out
out:
  ret void
}

; Waits in each block until the word at address p[0] is nonzero.
define void @gate(ptr %p, i64 %begin, i64 %end, i64 %block, i64 %thread) {
entry:
  %a = load ptr, ptr %p
  br label %loop
loop:
  %v = load atomic i64, ptr %a acquire, align 8
  %shut = icmp eq i64 %v, 0
  br i1 %shut, label %loop, label %out
out:
  ret void
}

; The error record at p[0]: flag, site, index, size, lane.
define void @fail(ptr %p, i64 %begin, i64 %end, i64 %block, i64 %thread) {
  %r = load ptr, ptr %p
  store i64 1, ptr %r
  %r1 = getelementptr i64, ptr %r, i64 1
  store i64 7, ptr %r1
  ret void
}
"""


@functools.cache
def _engine():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_TEXT), machine)
    engine.finalize_object()
    return engine


def address(name: str) -> int:
    """The address of one of the functions above."""
    return _engine().get_function_address(name)


def entry(name: str, finish: str = "") -> Any:
    """Returns what `runtime.launch` takes for a kernel and, if it has one, its second function."""
    made = JobEntry()
    made.kernel, made.finish = address(name), address(finish) if finish else 0
    return made
