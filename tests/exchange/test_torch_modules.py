"""Encodings and fused networks as modules of PyTorch, against plain PyTorch in double precision."""

import copy
import doctest
import itertools
import math
import re
import subprocess
import sys
import types

import numpy as np
import pytest

import drjit as dr
from drjit.nn import configured

torch = pytest.importorskip("torch")
modules = pytest.importorskip("drjit.interop.torch")

GRID = {"otype": "HashGrid", "n_levels": 4, "log2_hashmap_size": 6, "base_resolution": 4}
NETWORK = {"otype": "FullyFusedMLP", "n_neurons": 16, "n_hidden_layers": 2}
COMPOSITE = {
    "otype": "Composite",
    "nested": [
        {"n_dims_to_encode": 1, "otype": "DenseGrid", "n_levels": 2, "base_resolution": 3},
        {"n_dims_to_encode": 2, "otype": "TriangleWave", "n_frequencies": 3},
        {"otype": "Identity", "scale": 2.0},
        {"n_dims_to_encode": 2, "otype": "TiledGrid", "n_levels": 2, "n_features_per_level": 8},
    ],
}
ENCODINGS = {
    "identity": (3, {"otype": "Identity", "scale": 2, "offset": -0.5}),
    "frequency": (2, {"otype": "Frequency", "n_frequencies": 5}),
    "triangles": (2, {"otype": "trianglewave"}),
    "blobs": (2, {"otype": "OneBlob", "n_bins": 5}),
    "harmonics": (3, {"otype": "SphericalHarmonics", "degree": 4}),
    "hash": (3, GRID),
    "dense": (1, {**GRID, "otype": "Grid", "type": "Dense"}),
    "tiled": (2, {**GRID, "otype": "Grid", "type": "Tiled"}),
    "smooth": (2, {**GRID, "interpolation": "Smoothstep", "per_level_scale": 1.5}),
    "nearest": (2, {**GRID, "interpolation": "nearest", "n_features_per_level": 4}),
    "composite": (6, COMPOSITE),
}


# ---- What the modules compute, written down once more


def waves(x, n):
    return torch.stack([x * math.pi * 2.0**k for k in range(n)], -1)


def blobs(x, n):
    edges = torch.arange(n + 1, dtype=x.dtype) / n
    u = ((edges - x[..., None]) * n).clip(-1, 1)
    below = 15 / 16 * (u - 2 / 3 * u**3 + u**5 / 5)
    return below[..., 1:] - below[..., :-1]


def harmonics(x):
    """Of degree 4, as in the table of P.-P. Sloan (2013)."""
    x, y, z = (2 * x - 1).unbind(-1)
    pi = math.pi
    return torch.stack([
        torch.full_like(x, 0.5 / math.sqrt(pi)),
        *[math.sqrt(3 / (4 * pi)) * v for v in (-y, z, -x)],
        math.sqrt(15 / (4 * pi)) * x * y, -math.sqrt(15 / (4 * pi)) * y * z,
        math.sqrt(5 / (16 * pi)) * (3 * z * z - 1), -math.sqrt(15 / (4 * pi)) * x * z,
        math.sqrt(15 / (16 * pi)) * (x * x - y * y),
        -math.sqrt(35 / (32 * pi)) * y * (3 * x * x - y * y), math.sqrt(105 / (4 * pi)) * x * y * z,
        -math.sqrt(21 / (32 * pi)) * y * (5 * z * z - 1),
        math.sqrt(7 / (16 * pi)) * z * (5 * z * z - 3),
        -math.sqrt(21 / (32 * pi)) * x * (5 * z * z - 1),
        math.sqrt(105 / (16 * pi)) * z * (x * x - y * y),
        -math.sqrt(35 / (32 * pi)) * x * (x * x - 3 * y * y),
    ], -1)  # fmt: skip


PRIMES = (1, 2654435761, 805459861)


def grid(x, params, config, first):
    """The features of all levels, and where their parameters end."""
    kind = {"hashgrid": "Hash", "densegrid": "Dense", "tiledgrid": "Tiled"}.get(
        config["otype"].lower(), config.get("type", "Hash")
    )
    how = config.get("interpolation", "Linear").lower()
    width, base = config.get("n_features_per_level", 2), config.get("base_resolution", 16)
    dims, found = x.shape[1], []
    first = -(-first // width) * width
    for level in range(config["n_levels"]):
        scale = base * config.get("per_level_scale", 2.0) ** level - 1
        resolution = math.ceil(scale) + 1
        vertices = resolution**dims
        most = {"Hash": 2 ** config.get("log2_hashmap_size", 19), "Dense": 2**40}.get(
            kind, base**dims
        )
        size = -(-min(vertices, most) // width) * width
        hashed = kind == "Hash" and vertices > most
        q = x * scale + 0.5
        cell, t = q.floor().long(), q - q.floor()
        t = {"smoothstep": t * t * (3 - 2 * t), "nearest": 0 * t}.get(how, t)
        total = 0
        for corner in range(2**dims):
            number, weight = (
                torch.zeros(len(x), dtype=torch.long),
                torch.ones(len(x), dtype=x.dtype),
            )
            for k in range(dims):
                up = corner >> k & 1
                place = cell[:, k] + up
                if hashed:
                    number = number ^ (place * PRIMES[k] & 0xFFFFFFFF)
                else:
                    number = number + place * resolution**k
                weight = weight * (t[:, k] if up else 1 - t[:, k])
            entries = first + (number % size)[:, None] * width + torch.arange(width)
            total = total + weight[:, None] * params[entries]
        found.append(total)
        first += size * width
    return torch.cat(found, -1), first


def encode(x, params, config, first=0):
    kind = config["otype"].lower()
    if kind == "composite":
        found, start = [], 0
        taken = sum(c.get("n_dims_to_encode", 0) for c in config["nested"])
        for inner in config["nested"]:
            end = start + inner.get("n_dims_to_encode", x.shape[1] - taken)
            features, first = encode(x[:, start:end], params, inner, first)
            found.append(features)
            start = end
        return torch.cat(found, -1), first
    if "grid" in kind:
        return grid(x, params, config, first)
    if kind == "identity":
        return config.get("scale", 1.0) * x + config.get("offset", 0.0), first
    if kind == "sphericalharmonics":
        return harmonics(x), first
    n = config.get("n_frequencies", 12)
    angle = waves(x, n)
    features = {
        "frequency": lambda: torch.stack([angle.sin(), angle.cos()], -1),
        "trianglewave": lambda: 2 / math.pi * angle.cos().asin(),
        "oneblob": lambda: blobs(x, config["n_bins"]),
    }[kind]()
    return features.flatten(1), first


ACTIVATIONS = {
    "None": lambda v: v,
    "ReLU": torch.relu,
    "LeakyReLU": torch.nn.LeakyReLU(0.01),
    "Exponential": torch.exp,
    "Sine": torch.sin,
    "Sigmoid": torch.sigmoid,
    "Squareplus": lambda v: 0.05 * (10 * v + ((10 * v) ** 2 + 4).sqrt()),
    "Softplus": lambda v: torch.nn.functional.softplus(10 * v) / 10,
    "Tanh": torch.tanh,
}


def reference(module, x, params, encoding=None, network=None):
    features, first = (x, 0) if encoding is None else encode(x, params, encoding)
    if network is None:
        return features
    n = network["n_neurons"]
    sizes = [features.shape[1], *[n] * network["n_hidden_layers"], module.n_output_dims]
    for k, (columns, rows) in enumerate(itertools.pairwise(sizes)):
        matrix = params[first : first + rows * columns].reshape(rows, columns)
        first += rows * columns
        last = k == len(sizes) - 2
        name = (
            network.get("output_activation", "None") if last else network.get("activation", "ReLU")
        )
        features = ACTIVATIONS[name](features @ matrix.T)
    return features


def randomized(module):
    """A module whose parameters are large enough to be seen."""
    torch.manual_seed(0)
    with torch.no_grad():
        module.params.uniform_(-0.5, 0.5)
    return module


def both(module, x, **configs):
    """Values and gradients of a module, and those of the reference."""
    given = [(x, module.params), [t.detach().double() for t in (x, module.params)]]
    seed = torch.rand(len(x), module.n_output_dims, dtype=torch.float64)
    found = []
    for k, (position, params) in enumerate(given):
        position = position.detach().requires_grad_()
        params = params.detach().requires_grad_()
        if k == 0:
            module.params = torch.nn.Parameter(params.detach())
            params, y = module.params, module(position)
        else:
            y = reference(module, position, params, **configs)
        grads = torch.autograd.grad(
            (y.double() * seed).sum(), [position, params], allow_unused=True
        )
        found.append([y, *[None if g is None else g.double().detach() for g in grads]])
    return found


def check(found, tolerance):
    for a, b in zip(*found, strict=True):
        if b is None or not b.numel():
            assert a is None or not a.any()
            continue
        scale = float(b.detach().abs().max()) + 1e-3
        error = float((a.detach() - b.detach()).abs().max())
        assert error <= tolerance * scale, (error, scale)


TOLERANCES = {torch.float64: 1e-9, torch.float32: 3e-5, torch.float16: 1e-2}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings(name, dtype):
    dims, config = ENCODINGS[name]
    module = randomized(modules.Encoding(dims, config, dtype=dtype))
    x = torch.rand(33, dims, dtype=module.params.dtype) * 0.98 + 0.01
    found = both(module, x, encoding=config)
    assert found[0][0].dtype is dtype and found[0][0].shape == (33, module.n_output_dims)
    assert found[0][0].shape == found[1][0].shape
    check(found, TOLERANCES[dtype] * (30 if name in ("triangles", "frequency") else 1))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_networks(name, dtype):
    config = {**NETWORK, "activation": name.upper(), "output_activation": name}
    module = randomized(modules.Network(5, 3, config, dtype=dtype))
    x = torch.rand(33, 5, dtype=module.params.dtype) * 2 - 1
    check(both(module, x, network={**config, "activation": name}), 3 * TOLERANCES[dtype])


def test_activations_do_not_overflow_in_half_precision():
    x = torch.tensor([[-20000.0], [300.0], [20000.0]])
    for name in ("Squareplus", "Softplus", "Sigmoid", "Tanh"):
        config = {**NETWORK, "n_hidden_layers": 0, "output_activation": name}
        module = modules.Network(1, 1, config, dtype=torch.float16)
        module.params.data[:1] = 1
        expected = ACTIVATIONS[name](x.double())
        torch.testing.assert_close(module(x).double(), expected, rtol=2e-3, atol=1e-3)


MODEL = {"encoding_config": COMPOSITE, "network_config": NETWORK}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_both_for_any_number_of_positions(dtype):
    module = randomized(modules.NetworkWithInputEncoding(6, 3, **MODEL, dtype=dtype))
    x = torch.rand(1000, 6, dtype=module.params.dtype) * 0.98 + 0.01
    assert module(x[:0]).shape == (0, 3) and module(x[:0]).dtype is dtype
    for n in (0, 1, 15, 1000, 17):
        found = both(module, x[:n], encoding=COMPOSITE, network=NETWORK)
        check(found, 3 * TOLERANCES[dtype])
    wide = "float64" if dtype is torch.float64 else "float32"
    model = configured.model(module._description, "llvm", wide)
    assert model.forward.n_recordings == model.backward.n_recordings == 2  # one for 1 position


@pytest.mark.parametrize("name", ["smooth", "frequency", "blobs"])
def test_gradients_are_those_of_finite_differences(name):
    dims, encoding = ENCODINGS[name]
    network = {**NETWORK, "n_neurons": 4, "activation": "Tanh", "output_activation": "Sigmoid"}
    if "n_levels" in encoding:
        encoding = {**encoding, "n_levels": 2, "log2_hashmap_size": 4}
    module = randomized(
        modules.NetworkWithInputEncoding(dims, 2, encoding, network, dtype=torch.float64)
    )
    x = torch.rand(5, dims, dtype=torch.float64, requires_grad=True)

    def evaluated(x, params):
        return torch.func.functional_call(module, {"params": params}, x)

    params = module.params.detach().requires_grad_()
    assert torch.autograd.gradcheck(evaluated, (x, params), nondet_tol=1e-12)
    torch.library.opcheck(
        torch.ops.drjit.evaluate.default, (x, params, module._description),
        rtol=1e-5, atol=1e-8,
    )  # fmt: skip


def test_no_copies_on_the_processor(monkeypatch):
    module = modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK)
    model = configured.model(module._description, "llvm", "float32")
    x = torch.rand(100, 2, requires_grad=True)
    given, made = [], []
    for name in ("forward", "backward"):
        frozen = getattr(model, name)

        def recorded(*arrays, frozen=frozen):
            arrays_in = [a for a in arrays if dr.is_array_v(a)]
            given.append([a.numpy().ctypes.data for a in arrays_in])
            found = frozen(*arrays)
            results = found if isinstance(found, tuple) else (found,)
            made.append([r.numpy().ctypes.data for r in results])
            return found

        monkeypatch.setattr(model, name, recorded)
    y = module(x)
    assert given[0] == [x.data_ptr(), module.params.data_ptr()] and made[0] == [y.data_ptr()]
    seed = torch.rand(100, 3)
    of_x, of_params = torch.autograd.grad(y, [x, module.params], seed)
    assert given[1] == [seed.data_ptr(), x.data_ptr(), module.params.data_ptr()]
    assert made[1] == [of_x.data_ptr(), of_params.data_ptr()]


def test_what_is_given_may_be_changed_afterwards():
    module = randomized(modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK))
    x = torch.rand(100, 2)
    first = module(x)
    kept = first.clone()
    x.zero_()
    with torch.no_grad():
        module.params.zero_()
    assert torch.equal(first, kept) and not module(x).any()
    first.add_(1)
    assert not module(x).any()
    y = module(torch.rand(4, 2))
    with torch.no_grad():
        module.params.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_strides_and_types_of_positions():
    module = randomized(modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK))
    x = torch.rand(2, 40, dtype=torch.float64, requires_grad=True)
    y = module(x.T)
    expected = module(x.T.float().contiguous())
    assert torch.equal(y, expected)
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype is torch.float64 and x.grad.any()
    half = torch.rand(40, 2).half()
    assert torch.equal(module(half), module(half.float()))
    # Parameters may be of another type than the model.
    other = copy.deepcopy(module).double()
    check([[other(x.T.float())], [expected.double()]], 1e-5)
    other.half()(x.T.float()).sum().backward()
    assert other.params.grad.dtype is torch.float16 and other.params.grad.any()


def test_the_state(tmp_path):
    first = modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK)
    second = modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK, seed=5)
    x = torch.rand(9, 2)
    assert torch.equal(first.params, modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK).params)
    assert not torch.equal(first.params, second.params)
    assert list(first.state_dict()) == ["params"]
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert torch.equal(first(x), second(x))
    torch.save(first, tmp_path / "module.pt")
    whole = torch.load(tmp_path / "module.pt", weights_only=False)
    assert torch.equal(first(x), whole(x)) and repr(whole) == repr(first)
    assert repr(whole).startswith("NetworkWithInputEncoding(n_input_dims=2, n_output_dims=3")
    # An encoding without parameters has an empty tensor, as in tiny-cuda-nn.
    waves = modules.Encoding(2, {"otype": "Frequency"})
    assert waves.params.shape == (0,) and waves.n_output_dims == 48
    assert (first.n_input_dims, first.dtype, first.seed) == (2, torch.float32, 1337)


def test_initial_parameters():
    module = modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK)
    grid, bound = modules.Encoding(2, GRID).params.numel(), math.sqrt(6 / 32)
    table, first = module.params[:grid].abs(), module.params[grid + 8 * 16 :][:256].abs()
    assert 0.9e-4 < table.max() <= 1e-4 and 0.9 * bound < first.max() <= bound


def image(n):
    t = (torch.arange(n) + 0.5) / n
    y, x = torch.meshgrid(t, t, indexing="ij")
    colours = torch.stack([torch.sin(9 * x * y), torch.cos(7 * y), x * (1 - y)], -1)
    return torch.stack([x, y], -1).reshape(-1, 2), colours.reshape(-1, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_training(dtype):
    config = {**GRID, "n_levels": 6, "per_level_scale": 1.5, "log2_hashmap_size": 10}
    module = modules.NetworkWithInputEncoding(2, 3, config, NETWORK, dtype=dtype)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024, enabled=dtype is torch.float16)
    x, colours = image(32)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(module(x).float(), colours)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 50, losses[::20]


def test_compiled():
    module = randomized(modules.NetworkWithInputEncoding(2, 3, GRID, NETWORK))
    compiled = torch.compile(
        lambda x: (module(2 * x) ** 2).sum(), fullgraph=True, backend="aot_eager", dynamic=True
    )
    for n in (40, 17):
        x = (torch.rand(n, 2) / 2).requires_grad_()
        expected = (module(2 * x) ** 2).sum()
        wanted = torch.autograd.grad(expected, [x, module.params])
        found = compiled(x)
        check([[found, *torch.autograd.grad(found, [x, module.params])], [expected, *wanted]], 1e-5)


# ---- What is refused


@pytest.mark.parametrize(
    ("encoding", "network", "error", "message"),
    [
        ({"otype": "Fourier"}, None, ValueError, "'Fourier' is not supported; there are Grid, H"),
        ({}, None, ValueError, "the encoding None is not supported"),
        ("HashGrid", None, TypeError, "the configuration of an encoding is a dictionary"),
        ({"otype": "Grid", "stochastic_interpolation": True}, None, ValueError,
         "Grid: the setting 'stochastic_interpolation' is not supported; there are 'type', 'n_lev"),
        ({"otype": "Grid", "type": "Sparse"}, None, ValueError,
         "Grid: type 'Sparse' is not supported; there are Hash, Dense, Tiled"),
        ({"otype": "Grid", "n_features_per_level": 3}, None, ValueError, "must be 1, 2, 4 or 8"),
        ({"otype": "Grid", "n_levels": 0}, None, ValueError, "'n_levels' must be at least 1"),
        ({"otype": "Grid", "n_levels": 2.5}, None, TypeError, "must be an integer, got 2.5"),
        ({"otype": "Identity", "scale": "2"}, None, TypeError, "'scale' must be a number"),
        ({"otype": "SphericalHarmonics"}, None, ValueError, "a direction has 3 components, got 2"),
        ({"otype": "Composite", "nested": [5]}, None, TypeError, "is a dictionary, not 5"),
        ({"otype": "Identity", "scale": {1}}, None, TypeError, "a configuration has numbers"),
        ({"otype": "Composite"}, None, TypeError, "'nested' must be a list of encodings"),
        ({"otype": "Composite", "nested": [{"otype": "Identity", "n_dims_to_encode": 3}]}, None,
         ValueError, "for 3 components and 0 of them for the rest, but there are 2"),
        (GRID, {"otype": "CutlassResNet"}, ValueError,
         "the network 'CutlassResNet' is not supported; there are FullyFusedMLP, CutlassMLP"),
        (GRID, {**NETWORK, "activation": "GELU"}, ValueError, "activation 'GELU' is not supported"),
        (GRID, {**NETWORK, "feedback_alignment": True}, ValueError, "'feedback_alignment'"),
        (GRID, 3, TypeError, "the configuration of a network is a dictionary, not 3"),
    ],
)  # fmt: skip
def test_configurations(encoding, network, error, message):
    with pytest.raises(error, match=message):
        if network is None:
            modules.Encoding(2, encoding)
        else:
            modules.NetworkWithInputEncoding(2, 3, encoding, network)


def test_configurations_with_other_numbers_and_mappings():
    numbers = {"n_levels": np.int64(4), "per_level_scale": np.exp2(0.5)}
    config = types.MappingProxyType({**GRID, "otype": "DenseGrid", "type": "Hash", **numbers})
    plain = {**GRID, "per_level_scale": 2**0.5}
    x = torch.rand(5, 2)
    assert torch.equal(modules.Encoding(2, config)(x), modules.Encoding(2, plain)(x))


def test_arguments():
    module = modules.Network(2, 3, NETWORK)
    for x, error, message in (
        (
            torch.rand(5, 3),
            ValueError,
            r"Network: expected positions of shape \(N, 2\), got \(5, 3",
        ),
        (torch.rand(2), ValueError, r"got \(2,\)"),
        (torch.ones(5, 2, dtype=torch.int32), TypeError, "floating-point type, got torch.int32"),
    ):
        with pytest.raises(error, match=message):
            module(x)
    with pytest.raises(TypeError, match=r"torch\.float16, float32 or float64, not torch.int32"):
        modules.Network(2, 3, NETWORK, dtype=torch.int32)
    for sizes, message in (
        ((0, 3), "'n_input_dims' must be at least"),
        ((2, -1), "'n_output_dims'"),
    ):
        with pytest.raises(ValueError, match=message):
            modules.Network(*sizes, NETWORK)
    with pytest.raises(TypeError, match=r"float16, float32 or float64, not torch\.bfloat16"):
        copy.deepcopy(module).bfloat16()(torch.rand(5, 2))
    assert module.to("meta")(torch.rand(5, 2, device="meta")).shape == (5, 3)


def test_second_derivatives():
    module = randomized(modules.Network(2, 1, {**NETWORK, "activation": "Tanh"}))
    x = torch.rand(5, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="the modules have first derivatives only"):
        slope.sum().backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_tangents_are_refused():
    module = modules.Network(2, 1, NETWORK)
    x = torch.rand(5, 2)
    with pytest.raises(NotImplementedError, match="Network: there are derivatives in reverse mode"):
        torch.func.jvp(module, (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match="in reverse mode only"):
            module(torch.autograd.forward_ad.make_dual(x, x))
        assert module(x).shape == (5, 1)


def test_the_examples_of_the_docstrings():
    assert doctest.testmod(modules) == (0, 10)


def test_the_example(tmp_path):
    output = tmp_path / "picture.png"
    options = ["--iterations", "3", "--positions", "500", "--output", str(output)]
    command = [sys.executable, "-m", "drjit_examples.torch_field", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and re.search(r"PSNR \d+\.\d\d dB", done.stdout), done.stderr
    assert output.stat().st_size > 10000


def test_without_pytorch():
    code = (
        "import sys; sys.modules['torch'] = None\nimport drjit.interop\nimport drjit.interop.torch"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "PyTorch is not installed. Install it with `pip install torch`." in done.stderr
