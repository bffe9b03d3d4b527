"""Tools: the kernel history, kernel texts, the table of kernels, labels, lists and graphs of
values, logs, and facts for libraries.
"""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from helpers import named

import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.jit.run import cache
from drjit.llvm import Array3f, Bool, Complex2f, Float, Float16, Int, Matrix2f, TensorXf, UInt


@pytest.fixture
def history():
    """The kernel history is on, and empty."""
    dr.eval()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        yield
        dr.kernel_history_clear()


@pytest.fixture
def log_level():
    before = dr.log_level()
    yield
    dr.set_log_level(before)


# ---- Kernels


def test_the_history_says_what_ran(history, tier):
    x = dr.arange(Float, 1000)
    dr.eval(dr.sin(x) * 3)
    (entry,) = dr.kernel_history()
    assert entry["type"] is dr.KernelType.JIT
    assert entry["backend"] is Float._backend
    assert (entry["size"], entry["tier"]) == (1000, tier)
    assert (entry["input_count"], entry["output_count"]) == (0, 1)
    assert "sin(" in entry["source"] and entry["ir"].read() == entry["source"]
    assert entry["execution_time"] > 0
    assert dr.kernel_history() == []


def test_the_history_tells_hits_from_misses(history, monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    dr.flush_kernel_cache()
    for _ in range(2):
        dr.eval(dr.sqrt(dr.arange(Float, 1000)) * 17)
    dr.kernel_history_clear()
    dr.flush_kernel_cache()
    cache.flush()
    for _ in range(2):
        dr.eval(dr.sqrt(dr.arange(Float, 1000)) * 17)
    miss, hit = dr.kernel_history()
    assert (miss["cache_hit"], miss["cache_disk"]) == (0, 0) and miss["backend_time"] > 0
    assert (hit["cache_hit"], hit["backend_time"]) == (1, 0)
    assert miss["hash"] == hit["hash"]
    # In memory only: the next launch finds the code on the disk.
    dr.flush_kernel_cache()
    dr.eval(dr.sqrt(dr.arange(Float, 1000)) * 17)
    (load,) = dr.kernel_history()
    assert (load["cache_hit"], load["cache_disk"]) == (1, 1)


def test_the_history_can_be_restricted(history):
    dr.eval(dr.prefix_sum(dr.arange(Float, 1000)))
    dr.eval(dr.arange(Float, 1000) + 1)
    scans = dr.kernel_history([dr.KernelType.BlockPrefixReduce])
    assert scans and all(e["type"] is dr.KernelType.BlockPrefixReduce for e in scans)
    with pytest.raises(TypeError, match="sequence of KernelType"):
        dr.kernel_history(dr.KernelType.JIT)


def test_nothing_is_recorded_unless_asked():
    dr.kernel_history_clear()
    dr.eval(dr.arange(Float, 1000) + 5)
    assert dr.kernel_history() == []


def test_kernel_source_shows_what_would_run():
    x = dr.arange(Float, 100)
    y = dr.sin(x) + 2
    before = kernel.kernels()
    launches = sum(k.launches for k in before)
    text = dr.kernel_source([y, {"a": Array3f(1, 2, 3)}])
    assert text.count("def kernel(i, p):") == 1
    assert re.search(r"v\d = sin\(v\d\)", text) and "the constant" in text
    assert sum(k.launches for k in kernel.kernels()) == launches
    assert y.state is dr.VarState.Unevaluated
    dr.eval(y)
    assert "already evaluated" in dr.kernel_source(y)
    names: dict = {}
    exec(compile(text.partition("def")[1] + text.partition("def")[2], "text", "exec"), names)
    assert callable(names["kernel"])


def test_kernel_source_includes_pending_side_effects():
    target = dr.opaque(Float, 0, 10)
    dr.scatter(target, Float(1), UInt(3))
    assert "scatter(" in dr.kernel_source()
    assert target[3] == 1


def test_the_table_of_kernels(tier):
    dr.flush_kernel_cache()  # other tests have kernels with cube roots
    marker = dr.arange(Float, 4000)
    for _ in range(3):
        dr.eval(dr.cbrt(marker) - 11)
    table = dr.kernels()
    (row,) = [r for r in table if "cbrt" in r.source and r.statements == 6]
    assert row.launches >= 3 and row.time > 0
    assert row.bytes == len(row.source)
    assert row.name in str(table) and "launches" in str(table).splitlines()[0]
    assert len(str(table).splitlines()) == len(table) + 1
    assert [r.time for r in table] == sorted([r.time for r in table], reverse=True)


def test_flushing_the_kernel_cache_forgets_kernels():
    dr.eval(dr.arange(Float, 1000) + 3)
    dr.flush_kernel_cache()
    assert len(dr.kernels()) == 0
    a = dr.arange(Float, 1000) + 3
    assert a[1] == 4


def test_flushing_the_kernel_cache_leaves_what_is_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    dr.eval(dr.arange(Float, 1000) * 19.5 - 3)
    dr.sync_thread()
    cache.write_pending()
    before = cache.info()["entries"]
    dr.flush_kernel_cache()
    assert cache.info()["entries"] == before > 0


# ---- Labels, lists, graphs


def test_labels():
    a, b = dr.arange(Float, 3), dr.arange(Float, 4)
    dr.set_label(a, "first")
    dr.set_label(first=b)
    assert (a.label, b.label) == ("first", "first")
    nested, matrix = Array3f(1, 2, 3), Matrix2f(1, 2, 3, 4)
    dr.set_label(nested, "n")
    dr.set_label(matrix, "m")
    assert (nested.x.label, nested.z.label, matrix[0, 1].label) == ("n_0", "n_2", "m_0_1")
    tree = [Float(1), {"u": Float(2)}, Complex2f(3, 4)]
    dr.set_label(tree, "t")
    assert (tree[0].label, tree[1]["u"].label, tree[2].imag.label) == ("t_0", "t_1_u", "t_2_1")
    tensor = TensorXf([1, 2])
    dr.set_label(tensor, "x")
    assert tensor.array.label == "x"
    dr.set_label(1, "nothing to name")
    with pytest.raises(TypeError, match=r"dr\.set_label\(\)"):
        dr.set_label(a)


def test_a_label_shows_in_the_kernel():
    a = dr.arange(Float, 10) * 3
    dr.set_label(a, "tripled")
    assert "[tripled]" in dr.kernel_source(a)


def test_a_label_shows_in_the_kernel_of_a_program_that_ran_without():
    x = dr.opaque(Float, 2, 10)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for label in ("", "", "squared", ""):
            y = x * x
            if label:
                dr.set_label(y, label)
            dr.kernel_history_clear()
            dr.eval(y + 0.625)
            (entry,) = dr.kernel_history()
            assert ("[squared]" in entry["ir"].getvalue()) == bool(label)


def test_whos_lists_values(capsys):
    a = dr.arange(Float, 1234)
    b = dr.opaque(Int, 5, 4321)
    dr.set_label(a, "pending one")
    dr.set_label(b, "evaluated one")
    text = dr.whos(as_string=True)
    (pending,) = [line for line in text.splitlines() if "pending one" in line]
    (evaluated,) = [line for line in text.splitlines() if "evaluated one" in line]
    assert re.search(named(r"LLVM f32\s+pending\s+1\s+1234\s+pending one"), pending)
    pattern = named(r"LLVM i32\s+evaluated\s+1\s+4321\s+16.88 KiB\s+evaluated one")
    assert re.search(pattern, evaluated)
    c = a + 1
    assert re.search(r"pending\s+2\s+1234\s+pending one", dr.whos(as_string=True))
    dr.whos()
    assert "pending one" in capsys.readouterr().out
    del a, b, c, pending, evaluated
    assert "pending one" not in dr.whos(as_string=True)


def test_graphviz_draws_live_values():
    a = dr.arange(Float, 1234)
    dr.set_label(a, 'a "quoted" {name}')
    b = dr.fma(a, 2, 3)
    text = dr.graphviz(as_string=True)
    assert text.startswith("digraph {") and text.rstrip().endswith("}")
    node = named(r"\d+ \[label=\"\{fma\|\{Type: LLVM f32\|Size: 1234\}\|r\d+\}\"\];")
    assert re.search(node, text)
    assert re.search(r'\d+ -> \d+ \[label=" 3"\];', text)
    assert r"a \"quoted\" \{name\}" in text
    assert b.state is dr.VarState.Unevaluated
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, check=True, capture_output=True)


def test_graphs_without_the_package_have_a_picture(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    a = dr.arange(Float, 1234)
    drawing = dr.graphviz()
    assert drawing.svg.count("Size: 1234") == drawing.source.count("Size: 1234") > 0
    with pytest.raises(AttributeError, match=r"'render' is.*pip install graphviz"):
        _ = drawing.render
    assert not hasattr(drawing, "_repr_html_")
    del a


# ---- Flags, log, backends


def test_flags():
    assert not dr.flag(dr.JitFlag.Debug)
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        assert dr.flag(dr.JitFlag.Debug)
        with dr.scoped_set_flag(dr.JitFlag.Debug, False):
            assert not dr.flag(dr.JitFlag.Debug)
        assert dr.flag(dr.JitFlag.Debug)
    assert not dr.flag(dr.JitFlag.Debug)


def test_the_log_tells_of_kernels(log_level, capsys, monkeypatch):
    dr.set_log_level(dr.LogLevel.Info)
    assert dr.log_level() is dr.LogLevel.Info
    monkeypatch.setattr(variants, "pinned", "compiled")
    dr.eval(dr.exp2(dr.arange(Float, 777)) * 13)
    dr.sync_thread()
    log = capsys.readouterr().err
    assert re.search(r"drjit: kernel k\w+: (compiled|loaded) in [\d.]+ ms, \d+ statements", log)
    assert re.search(r"drjit: kernel k\w+: launched, 777 lanes", log)
    dr.set_log_level(0)
    dr.eval(dr.exp2(dr.arange(Float, 779)) * 13)
    assert capsys.readouterr().err == ""


@pytest.mark.processor
def test_the_log_tells_what_runs_on_numpy(log_level, capsys, monkeypatch):
    dr.set_log_level(dr.LogLevel.Info)
    monkeypatch.setattr(variants, "pinned", "numpy")
    dr.eval(dr.exp2(dr.arange(Float, 778)) * dr.arange(Float, 778) * 13)
    assert re.search(r"ran on NumPy, 778 lanes, [\d.]+ ms", capsys.readouterr().err)


def test_profile_marks_go_to_the_log(capsys):
    with pytest.raises(TypeError, match=r"profile_range\(\): expected a name, got 1"):
        dr.profile_range(1)  # pyright: ignore[reportArgumentType]
    with dr.profile_enable(), dr.profile_range("render"):
        dr.profile_mark("half way")
    log = capsys.readouterr().err
    assert re.search("render: begin.*\n.*half way.*\n.*render: end", log)
    dr.profile_mark("nobody listens")
    assert capsys.readouterr().err == ""


def test_backends():
    assert type(dr.has_backend(dr.JitBackend.LLVM)) is int and dr.has_backend(dr.JitBackend.LLVM)
    assert not dr.has_backend(dr.JitBackend.Metal)
    with pytest.raises(RuntimeError, match=r"dr\.has_backend\(\)"):
        dr.has_backend(dr.JitBackend.Invalid)


def test_expand_threshold():
    before = dr.expand_threshold()
    dr.set_expand_threshold(10)
    assert dr.expand_threshold() == 10
    dr.set_expand_threshold(before)
    with pytest.raises(TypeError, match=r"dr\.set_expand_threshold\(\)"):
        dr.set_expand_threshold(-1)


@pytest.mark.processor
@pytest.mark.parametrize("first", [dr.zeros, lambda cls, n: cls(np.zeros(n, np.float32))])
@pytest.mark.parametrize("threads", [1, 16, 64])
def test_private_copies_have_bounded_memory(first, threads, monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    before, n = dr.thread_count(), 1 << 20
    dr.set_thread_count(threads)
    try:
        for size, copied in ((n, threads <= 16), (1 << 10, True)):
            target, index = first(Float, size), dr.arange(UInt, n) % size
            dr.eval(target, index)
            dr.sync_thread()
            dr.scatter_add(target, Float(1), index)
            source = dr.kernel_source(target)
            assert ("scatter_reduce_expand" in source) == copied
            np.testing.assert_array_equal(target.numpy(), np.full(size, n // size))
    finally:
        dr.set_thread_count(before)


# ---- drjit.detail


@pytest.mark.parametrize(
    ("cls", "op", "want"),
    [
        (Float, "Add", 0), (Float, "Mul", 1), (Float, "Min", np.inf), (Float16, "Max", -np.inf),
        (Int, "Max", -(2**31)), (UInt, "And", 2**32 - 1), (UInt, "Or", 0), (Bool, "And", True),
    ],
)  # fmt: skip
def test_reduce_identity(cls, op, want):
    got = dr.detail.reduce_identity(cls, dr.ReduceOp[op], 3)
    assert type(got) is cls
    np.testing.assert_array_equal(got.numpy(), [want] * 3)


def test_facts():
    with pytest.raises(TypeError, match="not defined for float32"):
        dr.detail.reduce_identity(Float, dr.ReduceOp.And)
    with pytest.raises(TypeError, match="one-dimensional"):
        dr.detail.reduce_identity(Array3f, dr.ReduceOp.Add)
    assert dr.detail.can_scatter_reduce(Float, dr.ReduceOp.Mul)
    assert not dr.detail.can_scatter_reduce(Bool, dr.ReduceOp.Add)
    assert not dr.detail.any_symbolic([Float(1), 3])
    assert len(dr.detail.llvm_version()) == 3
    dr.flush_kernel_cache()
    before = dr.detail.launch_stats()
    dr.eval(dr.arange(Float, 10) + 1)
    assert dr.detail.launch_stats()[0] == before[0] + 1
    dr.detail.malloc_clear_statistics()
    keep = dr.opaque(Float, 0, 100_000)
    assert dr.detail.malloc_watermark(Float._backend) >= 400_000
    del keep
    empty = dr.detail.reset((Float(3, 4), 1))
    assert len(empty[0]) == 0 and empty[1] == 1


@pytest.mark.processor
def test_import_tensor():
    got = dr.detail.import_tensor(np.arange(6, dtype=np.int32).reshape(2, 3), True)
    assert type(got) is dr.llvm.ad.TensorXi
    np.testing.assert_array_equal(got.numpy(), [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(TypeError, match="import_tensor"):
        dr.detail.import_tensor(3)


def _types() -> list[str]:
    """The kinds of the launches since the history was cleared."""
    return [entry["type"].name for entry in dr.kernel_history()]


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("mode", [dr.ReduceMode.Auto, dr.ReduceMode.Direct, dr.ReduceMode.Expand])
def test_a_sum_of_vectors_into_an_array_is_one_kernel(history, count, mode, tier):
    n = 40
    x = dr.opaque(Float, 2, n)
    index = dr.arange(UInt, n) // 2
    cls = getattr(dr.llvm, f"Array{count}f")
    target = dr.zeros(Float, n * count)
    dr.eval(target, index)
    dr.kernel_history_clear()
    dr.scatter_add(target, cls(*[x + k for k in range(count)]), index, mode=mode)
    dr.eval(target)
    assert _types() == ["Memset", "JIT"]
    want = np.zeros((n, count))
    want[: n // 2] = 2 * (2 + np.arange(count))
    np.testing.assert_array_equal(target.numpy(), want.ravel())


def test_scatters_into_zeros_are_one_launch(history, tier):
    x = dr.opaque(Float, 2, 10)
    target = dr.zeros(Float, 10)
    dr.eval(target)
    dr.kernel_history_clear()
    dr.scatter(target, x + 1, UInt(range(9, -1, -1)))
    dr.eval(target)
    assert _types() == ["Memset", "JIT"]
    assert list(target) == [3] * 10


@pytest.mark.parametrize(
    "make",
    [
        lambda x: TensorXf(Array3f(x, x + 1, x + 2)),
        lambda x: TensorXf(Matrix2f(x, x + 1, x + 2, x + 3)),
        lambda x: dr.ravel(Array3f(x, x + 1, x + 2), order="C"),
        lambda x: dr.ravel(Array3f(x, x + 1, x + 2), order="F"),
        lambda x: dr.concat([x, x + 1, x + 2]),
        lambda x: dr.stack([TensorXf(x), TensorXf(x) + 1]),
    ],
    ids=["tensor", "tensor of matrices", "ravel C", "ravel F", "concat", "stack"],
)
def test_copies_of_components_are_one_kernel(history, make, tier):
    x = dr.arange(Float, 17) * 1.0
    dr.make_opaque(x)
    dr.kernel_history_clear()
    found = make(x)
    dr.eval(found)
    assert _types() == ["JIT"]
    entries = np.sort(np.ravel(found.numpy()))
    count = entries.size // 17
    want = np.sort((np.arange(17) + np.arange(count)[:, None]).ravel())
    np.testing.assert_array_equal(entries, want)


@pytest.mark.parametrize("add", [False, True])
def test_a_loop_does_not_copy_the_target_in_its_state(history, add, tier):
    scatter = dr.scatter_add if add else dr.scatter

    def body(i, target):
        scatter(target, Float(2), i)
        return i + 10, target

    def target():
        made = dr.opaque(Float, 1, 20) + 1
        dr.eval(made)
        dr.kernel_history_clear()
        return made

    state = dr.arange(UInt, 20)
    found = dr.while_loop((state, target()), lambda i, _: i < 20, body)
    dr.eval(found)
    assert _types() == ["JIT"]
    want = 4 + 2 * (np.arange(20) >= 10) if add else np.full(20, 2)
    np.testing.assert_array_equal(found[1].numpy(), want)

    held = target()
    found = dr.while_loop((state, held), lambda i, _: i < 20, body)
    assert list(found[1]) == list(held)  # the array of the caller is the one that is written


def test_a_scatter_that_nobody_sees_is_skipped(history, tier):
    x = dr.opaque(Float, 2, 10)
    index = dr.arange(UInt, 10)
    dr.make_opaque(index)
    dr.kernel_history_clear()
    for make in (dr.empty, dr.zeros):
        target = make(Float, 10)
        dr.scatter(target, dr.sin(x), index)
        dr.scatter_add(target, dr.cos(x), index)
        del target
    counter = dr.opaque(UInt, 0)
    dr.kernel_history_clear()
    dr.scatter_inc(counter, dr.opaque(UInt, 0, 10))
    del counter
    dr.kernel_history_clear()
    target = dr.empty(Float, 10)
    dr.scatter(target, dr.tan(x), index)
    del target
    assert "scatter" not in dr.kernel_source(x + 1)
    assert dr.eval() is False
    assert dr.kernel_history() == []
    # What reads the target, or comes after, needs it.
    target = dr.zeros(Float, 10)
    dr.scatter(target, x, index)
    read = dr.gather(Float, target, index)
    dr.scatter_add(target, x, index)
    del target
    assert list(read) == [2] * 10
    target = UInt(0, 0)
    old = dr.scatter_inc(target, UInt(1, 1))
    del target
    assert sorted(old) == [0, 1]
    first, second = dr.zeros(Float, 3), dr.zeros(Float, 3)
    dr.scatter(first, 5, UInt(1))
    dr.scatter(second, dr.gather(Float, first, UInt(1)), UInt(2))
    del first
    assert list(second) == [0, 0, 5]


def test_a_value_in_whose_making_ctrl_c_came_is_not_live():
    from drjit.jit.ir.node import Node

    x = dr.arange(Float, 10)
    half = Node.__new__(Node)
    dr.whos(), dr.graphviz()
    assert not hasattr(half, "serial") and len(x) == 10
