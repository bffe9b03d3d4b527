"""A normalizing flow: affine couplings (Dinh et al., "Density Estimation using Real NVP", 2016)
that turn a Gaussian into two moons, with small networks of cooperative vectors."""

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, Float, TensorXf, UInt
from drjit.opt import Adam

LAYERS, WIDTH, BATCH = 4, 16, 512


def moons(rng: dr.random.Generator, n: int) -> Array2f:
    u = rng.random(Float, n)
    noise = rng.normal(Array2f, (2, n)) * 0.08
    upper = dr.arange(UInt, n) % 2 == 0
    s, c = dr.sincos(dr.pi * u)
    p = dr.select(upper, Array2f(c - 0.5, s - 0.2), Array2f(0.5 - c, 0.2 - s))
    return p + noise


class Coupling:
    """Scales and shifts one coordinate by functions of the other."""

    def __init__(self, swap: bool) -> None:
        self.swap = swap
        self.net = nn.Sequential(
            nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2)
        )

    def split(self, p: Array2f) -> tuple[Float, Float]:
        return (p.y, p.x) if self.swap else (p.x, p.y)

    def join(self, a: Float, b: Float) -> Array2f:
        return Array2f(b, a) if self.swap else Array2f(a, b)

    def scale_and_shift(self, a: Float) -> tuple[Float, Float]:
        s, t = list(self.net(nn.CoopVec(a)))
        return dr.tanh(s), t

    def inverse(self, p: Array2f) -> tuple[Array2f, Float]:
        """From data to noise, with the logarithm of the determinant."""
        a, b = self.split(p)
        s, t = self.scale_and_shift(a)
        return self.join(a, (b - t) * dr.exp(-s)), -s

    def forward(self, p: Array2f) -> Array2f:
        a, b = self.split(p)
        s, t = self.scale_and_shift(a)
        return self.join(a, dr.fma(b, dr.exp(s), t))


class Flow:
    def __init__(self, rng: dr.random.Generator) -> None:
        self.couplings = [Coupling(i % 2 == 1) for i in range(LAYERS)]
        for c in self.couplings:
            c.net = nn.pack(c.net.alloc(TensorXf, size=1, rng=rng), layout="training")

    def parameters(self) -> dict[str, Float]:
        return {f"net{i}": c.net["weights"] for i, c in enumerate(self.couplings)}

    def update(self, values: Adam) -> None:
        for i, c in enumerate(self.couplings):
            c.net["weights"] = values[f"net{i}"]

    def log_likelihood(self, p: Array2f) -> Float:
        total = Float(0)
        for c in reversed(self.couplings):
            p, logdet = c.inverse(p)
            total += logdet
        return total - 0.5 * dr.squared_norm(p) - dr.log(dr.two_pi)

    def sample(self, z: Array2f) -> Array2f:
        for c in self.couplings:
            z = c.forward(z)
        return z


def main() -> TensorXf:
    rng = dr.rng(seed=1)
    flow = Flow(dr.rng(seed=2))
    opt = Adam(lr=0.01, params=flow.parameters())
    data = dr.rng(seed=3)
    points = moons(data, 4096)
    print("data", dr.mean(points, axis=1), dr.mean(dr.square(points), axis=1))
    for i in range(30):
        flow.update(opt)
        index = rng.integers(UInt, BATCH, 0, 4096)
        loss = -dr.mean(flow.log_likelihood(dr.gather(Array2f, points, index)))
        dr.backward(loss)
        opt.step()
        if i % 6 == 0:
            print("loss", i, loss)
    flow.update(opt)
    print("likelihood", dr.mean(flow.log_likelihood(points)))

    z = Array2f([0, 1, -1, 0.5, -0.3], [0, -1, 0.5, 1.5, 0.2])
    x = flow.sample(z)
    print("samples", x)
    back = x
    for c in reversed(flow.couplings):
        back, _ = c.inverse(back)
    print("round trip", dr.allclose(back, z, atol=1e-4))

    # the density sums to one, and its gradient points to the data
    n = 48
    c = (dr.arange(Float, n) + 0.5) / n * 5 - 2.5
    grid = Array2f(dr.meshgrid(c, c))
    density = dr.exp(flow.log_likelihood(grid))
    print("integral", dr.sum(density) * (5 / n) ** 2)
    dr.enable_grad(grid)
    dr.backward(flow.log_likelihood(grid))
    score = dr.gather(Array2f, grid.grad, UInt(500, 1000, 1500))
    print("score", score)
    return TensorXf(density, (n, n))


if __name__ == "__main__":
    main()
