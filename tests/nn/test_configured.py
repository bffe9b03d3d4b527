"""Encodings and networks by configuration, without PyTorch; see also test_torch_modules.py."""

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, ArrayXf, Float, TensorXf
from drjit.nn import configured

GRID = {"otype": "HashGrid", "n_levels": 3, "log2_hashmap_size": 6, "base_resolution": 4}
NETWORK = {"otype": "FullyFusedMLP", "n_neurons": 16, "n_hidden_layers": 1}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 1e-2)])
def test_values_and_gradients(dtype: str, tolerance: float) -> None:
    backend = "cuda" if dr.backend_v(Float) is dr.JitBackend.CUDA else "llvm"
    model = configured.model(configured.described(2, 3, GRID, NETWORK, dtype), backend, "float32")
    grid = nn.HashGridEncoding(Float, 2, n_levels=3, hashmap_size=64, base_resolution=4)
    assert model.n_params == grid.n_params + 16 * 6 + 3 * 16 == model.spans[-1].end
    for n in (5, 40):
        rng = np.random.default_rng(n)
        params = rng.uniform(-0.5, 0.5, model.n_params).astype(np.float32)
        x, seed = rng.random((n, 2), np.float32), rng.random((n, 3), np.float32)
        table, first, second = np.split(params, [grid.n_params, grid.n_params + 96])
        first, second = first.reshape(16, 6), second.reshape(3, 16)

        position, entries = Array2f(x.T), Float(table)
        dr.enable_grad(position, entries)
        grid.params = entries
        features = grid(position)
        f = features.numpy()
        h = first @ f
        y = second @ np.maximum(h, 0)
        of_h = (second.T @ seed.T) * (h > 0)
        dr.backward(dr.sum(features * ArrayXf(first.T @ of_h)))
        of_matrices = [of_h @ f.T, seed.T @ np.maximum(h, 0).T]
        of_params = np.concatenate([entries.grad.numpy(), *[m.ravel() for m in of_matrices]])

        given = TensorXf(x), Float(params)
        close = {"rtol": tolerance, "atol": tolerance * np.abs(of_params).max()}
        np.testing.assert_allclose(model.forward(*given).numpy(), y.T, **close)
        found = model.backward(model.result(seed), *given, True, True)
        np.testing.assert_allclose(found[0].numpy(), position.grad.numpy().T, **close)
        np.testing.assert_allclose(found[1].numpy(), of_params, **close)
    assert model.forward.n_recordings == model.backward.n_recordings == 1
