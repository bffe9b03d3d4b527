"""What every process of tests/exchange/test_distributed.py runs: values against NumPy, and adjoints
against those of a single process."""

import sys

import numpy as np

import drjit as dr
from drjit import distributed
from drjit.llvm import Bool, Float16, Int8, Int64, UInt8, UInt32, UInt64
from drjit.llvm.ad import Array2f, Float, Float64, TensorXf, TensorXf64
from drjit.opt import SGD, GradScaler

distributed.init(sys.argv[1], world_size=int(sys.argv[2]), timeout=30)
k, n = distributed.rank(), distributed.world_size()
Op = dr.ReduceOp


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


def raises(kind, text, f, *arguments):
    try:
        f(*arguments)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


for cls in (Float16, Float, Float64, Int8, Int64, UInt8, UInt32, UInt64):
    for size in (0, 1, 15, 17):
        dtype = np.asarray(cls(0)).dtype
        all_data = [((np.arange(size) * 7 + 3 * r) % 11 + 1).astype(dtype) for r in range(n)]
        x = cls(all_data[k])
        close(distributed.all_reduce(x), np.sum(all_data, 0, dtype))
        close(distributed.all_reduce(x, Op.Max), np.max(all_data, 0))
        close(distributed.all_reduce(x, Op.Min), np.min(all_data, 0))
        close(distributed.all_reduce(x, Op.Mul), np.prod(all_data, 0, dtype))
        close(distributed.broadcast(x, n - 1), all_data[n - 1])
        close(distributed.all_gather(x), np.concatenate(all_data))
        close(x, all_data[k])  # unchanged
wide = [np.arange(4 * n) * (r + 1) for r in range(n)]
close(distributed.reduce_scatter(UInt32(wide[k])), np.sum(wide, 0)[4 * k : 4 * k + 4])
close(distributed.all_reduce(UInt32(2**31 + k), Op.Max), [2**31 + n - 1])
assert list(distributed.all_reduce(Bool(k == 0, True), Op.And)) == [False, True]
assert list(distributed.all_reduce(Bool(k == 0, False), Op.Or)) == [True, False]

tree = {"a": Array2f(k, [1, 2, 3]), "t": [dr.full(TensorXf, k, (2, 3))], "name": "x"}
found = distributed.all_gather(tree)
assert found["t"][0].shape == (2 * n, 3) and found["name"] == "x"
close(found["t"][0], np.repeat(np.arange(n), 2)[:, None] * np.ones(3))
close(found["a"], [np.repeat(np.arange(n), 3), np.tile([1, 2, 3], n)])

# The loss of all processes is the sum of theirs; weights differ between processes.
weights = [np.arange(1.0, 2 * n + 1) + 10 * r for r in range(n)]
for name, size, expected in (
    ("all_reduce", 2 * n, np.sum(weights, 0)),
    ("broadcast", 2 * n, np.sum(weights, 0) * (k == 0)),
    ("all_gather", 2, np.sum(weights, 0)[2 * k : 2 * k + 2]),
    ("reduce_scatter", 2 * n, np.concatenate([w[:2] for w in weights])),
):
    x = dr.arange(Float64, size)
    dr.enable_grad(x)
    y = getattr(distributed, name)(x)
    dr.backward(dr.sum(y * Float64(weights[k][: len(y)])))
    close(x.grad, expected)
    x = dr.arange(Float64, size)
    dr.enable_grad(x)
    y = getattr(distributed, name)(x)
    x.grad = Float64(weights[k][:size])
    dr.forward_to(y)
    close(y.grad, getattr(distributed, name)(Float64(weights[k][:size])))

for overlap in (True, False):
    parameters = {"x": dr.arange(Float, 5) + k, "y": dr.full(TensorXf, 1.0, (2, 2))}
    opt = distributed.DataParallel(SGD(0.5, parameters), bucket_bytes=16, overlap=overlap)
    close(opt["x"], np.arange(5))
    dr.backward(dr.sum(opt["x"] * (k + 1)) + dr.sum(opt["y"].array) * k)
    opt.step()
    close(opt["x"], np.arange(5) - 0.5 * (n + 1) / 2)
    close(opt["y"], np.full((2, 2), 1 - 0.5 * (n - 1) / 2))
    dr.backward(GradScaler().scale(dr.sum(opt["x"] * (dr.inf if k == 0 else 1))))
    opt.step(scaler=GradScaler())
    close(opt["x"], np.arange(5) - 0.5 * (n + 1) / 2)  # skipped by all

    # Gradients accumulate, are changed before the step, or are those of some processes only.
    before = np.asarray(opt["x"])
    dr.backward(dr.sum(opt["x"] * k))
    if k == 0:
        dr.backward(dr.sum(opt["x"]))
    distributed.all_reduce(Float(1))  # while gradients are on their way
    opt.step()
    close(opt["x"], before - 0.5 * (1 + n * (n - 1) / 2) / n)
    before = np.asarray(opt["x"])
    dr.backward(dr.sum(opt["x"] * opt["y"].array[0]))
    dr.set_grad(opt["x"], dr.clip(dr.grad(opt["x"]) * 1e6, -k, k))
    opt.step()
    close(opt["x"], before - 0.5 * np.sign(opt["y"].array[0]) * (n - 1) / 2)
    with dr.isolate_grad():
        dr.backward(dr.sum(opt["x"] * k))
    assert len(opt.state_dict()) == 3
    opt.step()

# Layers of a network of tensors are computed one after the other, and so are their gradients.
rng = np.random.default_rng(0)
w = [TensorXf64(rng.normal(size=(16, 16))) for _ in range(5)]
data = rng.normal(size=(n, 16, 8))
whole = SGD(1.0, {f"w{i}": v for i, v in enumerate(w)})
opt = distributed.DataParallel(SGD(1.0, {f"w{i}": v for i, v in enumerate(w)}), bucket_bytes=2100)


def loss(source, data):
    h = TensorXf64(data)
    for i in range(len(w)):
        h = dr.tanh(source[f"w{i}"] @ h)
    return dr.mean(dr.square(h))


for _ in range(3):
    dr.backward(loss(opt, data[k]))
    early = opt._averages._step.started
    opt.step()
    dr.backward(loss(whole, np.concatenate([*data], 1)))
    whole.step()
    for key in whole:
        np.testing.assert_allclose(np.asarray(opt[key]), np.asarray(whole[key]), atol=1e-9)
assert early == len(w)

# Gradients that were sent and then changed or accumulated, in one process or all, are sent again.
for change in ("clip", "accumulate", "accumulate in one"):
    joint = np.concatenate([*data], 1)
    dr.backward(loss(opt, data[k]))
    dr.backward(loss(whole, joint))
    assert opt._averages._step.started == len(w)
    if change == "clip":
        for source in (opt, whole):
            dr.set_grad(source["w3"], 2 * dr.grad(source["w3"]))
    elif change == "accumulate":
        dr.backward(loss(opt, data[k]))
        dr.backward(loss(whole, joint))
    else:
        if k == 0:
            dr.backward(loss(opt, data[0]))
        dr.backward(loss(whole, data[0]) / n)
    distributed.all_reduce(Float(1))  # while gradients are on their way
    opt.step()
    whole.step()
    for key in whole:
        np.testing.assert_allclose(np.asarray(opt[key]), np.asarray(whole[key]), atol=1e-9)

# What one kernel computes is not computed twice to send a part of it early.
parameters = {"a": dr.full(Float, 0.5, 100), "b": dr.full(Float, 2.0, 100)}
opt = distributed.DataParallel(SGD(1.0, parameters), bucket_bytes=16)
for _ in range(2):
    a, b = np.asarray(opt["a"]), np.asarray(opt["b"])
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.backward(dr.sum(dr.sin(dr.sin(opt["a"]) * opt["b"])) * (k + 1))
        assert opt._averages._step.started == 0
        opt.average()
        assert len(dr.kernel_history([dr.KernelType.JIT])) == 1
    opt.step()
    slope = (n + 1) / 2 * np.cos(np.sin(a) * b)
    np.testing.assert_allclose(np.asarray(opt["a"]), a - slope * b * np.cos(a), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(opt["b"]), b - slope * np.sin(a), rtol=1e-5)

# A frozen function computes gradients; the step follows.
opt = distributed.DataParallel(SGD(1.0, {"x": dr.arange(Float, 5)}))


@dr.freeze
def frozen(opt, factor):
    dr.backward(dr.sum(dr.square(opt["x"]) * factor))


for _ in range(4):
    before = np.asarray(opt["x"])
    frozen(opt, dr.opaque(Float, 0.1 * (k + 1)))
    opt.step()
    close(opt["x"], before * (1 - 0.1 * (n + 1)))
assert frozen.n_recordings == 1
raises(RuntimeError, "a frozen function cannot exchange", dr.freeze(lambda opt: opt.step()), opt)

raises(
    TypeError,
    "DataParallel(): processes differ: process 0 has the parameters 'x'",
    lambda: distributed.DataParallel(SGD(1.0, {"x": dr.arange(Float, 5 + k)})),
)
opt = distributed.DataParallel(SGD(1.0, {"x": dr.arange(Float, 5)}))
if k == 1:
    opt["x"] = Float(1, 2)
dr.backward(dr.sum(opt["x"]))
raises(TypeError, "DataParallel.step(): processes differ", opt.step)
opt["x"] = Float(1, 2)
dr.backward(dr.sum(opt["x"]))
opt.step()
close(opt["x"], [0, 1])
raises(TypeError, "processes differ: process 0 has", distributed.all_reduce, Float([1] * (k + 1)))
raises(TypeError, "llvm.ad.Float64", distributed.all_reduce, (Float, Float64)[k % 2](1, 2, 3, 4))
raises(RuntimeError, "cannot be divided among", distributed.reduce_scatter, Float([1] * (n + 1)))
raises(TypeError, "is not an array", distributed.all_reduce, [Float(1), 2.0])
raises(TypeError, "does not apply to", distributed.all_reduce, Bool(True))
raises(ValueError, "there is no process", distributed.broadcast, Float(1), n)
raises(
    RuntimeError, f"expected 7 processes, but there are {n}", lambda: distributed.init(world_size=7)
)
distributed.barrier()
if sys.argv[3:] == ["die"]:
    if k == 1:
        raise RuntimeError("process 1 ends")
    raises(distributed.DistributedError, "Another process has ended", distributed.barrier)
if sys.argv[3:] == ["die in training"]:
    dr.backward(dr.sum(opt["x"]))
    if k == 1:
        raise RuntimeError("process 1 ends")
    opt.step()
    dr.backward(dr.sum(opt["x"]))
    raises(distributed.DistributedError, "Another process has ended", opt.step)
print(f"process {k} is done", flush=True)
