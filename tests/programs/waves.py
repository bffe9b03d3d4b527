"""Waves on a drum: the wave equation with tensors and slices, steps recorded once by `freeze`, a
reaction-diffusion system, and how a sound changes with the stiffness of the skin."""

from typing import TypeVar

import drjit as dr
from drjit.auto.ad import Array2f, Bool, Float, Float16, TensorXf, TensorXf16, UInt

N = 18


Tensor = TypeVar("Tensor", TensorXf, TensorXf16)


def laplacian(u: Tensor) -> Tensor:
    """Second differences; the rim stays at rest."""
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    out = dr.zeros(type(u), u.shape)
    out[1:-1, 1:-1] = inner.array
    return out


def drum() -> tuple[TensorXf, TensorXf]:
    c = dr.linspace(Float, -1, 1, N)
    x, y = dr.meshgrid(c, c)
    p = Array2f(x, y)
    skin = dr.select(dr.norm(p) < 0.95, Float(1), 0)
    strike = dr.exp(-30 * dr.squared_norm(p - Array2f(0.3, 0.2)))
    return TensorXf(skin, (N, N)), TensorXf(strike * skin, (N, N))


class Drum:
    def __init__(self, stiffness: TensorXf | float) -> None:
        self.skin, self.u = drum()
        self.v = dr.zeros(TensorXf, (N, N))
        self.stiffness = stiffness
        self.heard: list[TensorXf] = []

    def step(self) -> None:
        self.v = (self.v + self.stiffness * laplacian(self.u)) * self.skin * 0.999
        self.u = self.u + self.v
        self.heard.append(self.u[N // 3, N // 2])


@dr.freeze
def frozen_step(
    u: TensorXf, v: TensorXf, skin: TensorXf, stiffness: Float
) -> tuple[TensorXf, TensorXf]:
    v = (v + TensorXf(stiffness, ()) * laplacian(u)) * skin * 0.999
    return u + v, v


def gray_scott(steps: int) -> tuple[TensorXf, TensorXf]:
    """Two substances on a torus, with shifts by concatenation."""
    u = dr.full(TensorXf, 1, (N, N))
    v = dr.zeros(TensorXf, (N, N))
    v[7:11, 6:12] = 0.5
    u[7:11, 6:12] = 0.25

    def diffuse(a: TensorXf) -> TensorXf:
        rows = dr.concat([a[1:], a[:1]], axis=0) + dr.concat([a[-1:], a[:-1]], axis=0)
        columns = dr.concat([a[:, 1:], a[:, :1]], axis=1) + dr.concat(
            [a[:, -1:], a[:, :-1]], axis=1
        )
        return rows + columns - 4 * a

    for _ in range(steps):
        reaction = u * v * v
        u = u + 0.16 * diffuse(u) - reaction + 0.035 * (1 - u)
        v = v + 0.08 * diffuse(v) + reaction - 0.095 * v
        dr.eval(u, v)
    return u, v


def main() -> TensorXf:
    skin, strike = drum()
    print("skin", dr.sum(skin), skin[N // 2, :4], "strike", dr.max(strike))
    d = Drum(0.2)
    for _ in range(12):
        d.step()
    sound = dr.concat([h.array if dr.width(h.shape) == 0 else dr.ravel(h) for h in d.heard])
    print("sound", sound)
    energy = dr.sum(dr.square(d.u)) + dr.sum(dr.square(d.v))
    print("energy", energy, d.u[::6, ::6])

    u, v = strike, dr.zeros(TensorXf, (N, N))
    k = dr.opaque(Float, 0.2)
    for _ in range(12):
        u, v = frozen_step(u, v, skin, k)
    print("frozen", frozen_step.n_recordings, dr.allclose(u, d.u, atol=1e-5), dr.sum(u))
    k = dr.opaque(Float, 0.1)
    for _ in range(3):
        u, v = frozen_step(u, v, skin, k)
    print("again", frozen_step.n_recordings, dr.sum(u))

    # what is heard, by the stiffness
    stiffness = Float(0.2)
    dr.enable_grad(stiffness)
    d = Drum(TensorXf(stiffness, ()))
    for _ in range(8):
        d.step()
    loudness = sum((dr.square(h) for h in d.heard), start=TensorXf(0))
    dr.backward(loudness)
    print("loudness", loudness, stiffness.grad)
    stiffness = Float(0.2)
    dr.enable_grad(stiffness)
    d = Drum(TensorXf(stiffness, ()))
    for _ in range(8):
        d.step()
    loudness = sum((dr.square(h) for h in d.heard), start=TensorXf(0))
    print("forward", dr.forward(stiffness) or loudness.grad)

    # half the precision
    half = TensorXf16(strike)
    for _ in range(3):
        half = half + TensorXf16(0.1) * laplacian(half)
    print("half", type(half).__name__, Float(dr.max(half.array)))
    small: Float16 = dr.mean(half.array)
    print("mean", dr.abs(Float(small) - dr.mean(Float(half.array))) < 1e-3)

    u, v = gray_scott(16)
    print("pattern", dr.mean(v), dr.max(v), v[9, ::3])
    alive: Bool = (v > 0.1).array
    print("alive", dr.count(alive), dr.compress(alive)[0])
    profile = dr.mean(v, axis=0)
    print("profile", profile[:9])
    blocks = dr.block_reduce(dr.ReduceOp.Max, v.array, N)
    print("rows", dr.gather(Float, blocks, dr.arange(UInt, 4, 14, 3)))
    padded = dr.zeros(TensorXf, (N + 2, N + 2))
    padded[1:-1, 1:-1] = u.array
    padded[0] = padded[-2].array
    padded[:, -1] = padded[:, 1].array
    print("padded", dr.sum(padded), padded[0, 5:8], padded[3:6, -1])
    print("moved", dr.moveaxis(dr.stack([u, v]), 0, -1).shape, dr.take(v, 9, axis=1)[4:8])
    return v


if __name__ == "__main__":
    main()
