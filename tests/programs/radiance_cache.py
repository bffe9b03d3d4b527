"""A neural radiance cache (Mueller et al. 2021): a network with a hash grid learns the light that
leaves the walls of a room, trained with targets that it completes itself."""

from collections.abc import Callable

import drjit as dr
from drjit import hashgrid, nn
from drjit.auto.ad import (
    PCG32,
    Array2f,
    Array3f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    TensorXf,
    TensorXf16,
    UInt,
)
from drjit.opt import Adam, GradScaler

BATCH = 512
ALBEDO = [(0.7, 0.2, 0.2), (0.2, 0.7, 0.2), (0.7, 0.7, 0.7), (0.7, 0.7, 0.7), (0.4, 0.4, 0.8)] * 2


def wall_point(rng: PCG32) -> tuple[Array3f, UInt]:
    """A point of the cube's walls, and the number of the wall."""
    u, v = rng.next_float32(), rng.next_float32()
    k = rng.next_uint32_bounded(6)
    side = Float(k & 1)
    axis = k >> 1
    p = dr.select(
        axis == 0,
        Array3f(side, u, v),
        dr.select(axis == 1, Array3f(u, side, v), Array3f(u, v, side)),
    )
    return p, k


def emitted(p: Array3f, wall: UInt) -> Array3f:
    lamp = (wall == 3) & (dr.norm(p.xz - 0.5) < 0.3)
    return dr.select(lamp, Array3f(6, 5, 4), Array3f(0))


def next_wall(p: Array3f, wall: UInt, rng: PCG32) -> tuple[Array3f, UInt]:
    """Where a ray with a cosine distribution leaves the cube."""
    u, v = rng.next_float32(), rng.next_float32()
    r = dr.sqrt(u)
    s, c = dr.sincos(dr.two_pi * v)
    local = Array3f(r * c, r * s, dr.sqrt(1 - u))
    sign = 1 - 2 * Float(wall & 1)

    def rotated(axis: int) -> Callable[[Array3f, Float], Array3f]:
        def place(local: Array3f, sign: Float) -> Array3f:
            d = [local.x, local.y]
            d.insert(axis, local.z * sign)
            return Array3f(d)

        return place

    d = dr.switch(wall >> 1, [rotated(axis) for axis in range(3)], local, sign)
    t = [dr.select(d[i] > 0, 1 - p[i], -p[i]) / d[i] for i in range(3)]
    t = [dr.select((wall >> 1) == i, 1 / dr.abs(d[i]), t[i]) for i in range(3)]
    nearest = dr.minimum(dr.minimum(t[0], t[1]), t[2])
    axis = dr.select(nearest == t[0], UInt(0), dr.select(nearest == t[1], UInt(1), UInt(2)))
    component = dr.select(axis == 0, d.x, dr.select(axis == 1, d.y, d.z))
    hit = p + nearest * d
    return dr.clip(hit, 0, 1), axis * 2 + dr.select(component > 0, UInt(1), 0)


class Cache:
    def __init__(self) -> None:
        self.encoding = hashgrid.HashGridEncoding(
            Float16, 3, n_levels=4, n_features_per_level=2, base_resolution=4, hashmap_size=512,
            rng=dr.rng(seed=1),
        )  # fmt: skip
        net = nn.Sequential(
            nn.HashEncodingLayer(self.encoding),
            nn.Linear(-1, 16),
            nn.LeakyReLU(),
            nn.Linear(-1, 3),
            nn.Exp(),
        )
        net = net.alloc(TensorXf16, 3, rng=dr.rng(seed=2))
        self.net = nn.pack(net, layout="training")

    def __call__(self, p: Array3f) -> Array3f:
        return Array3f(ArrayXf(self.net(nn.CoopVec(p))))


def main() -> TensorXf:
    albedo = Array3f(*(Float([a[i] for a in ALBEDO[:6]]) for i in range(3)))
    cache = Cache()
    print("parameters", cache.encoding.n_params)
    scaler = GradScaler()
    opt = Adam(lr=0.01, promote_fp16=True)
    opt.update(cache.net)
    opt["grid"] = cache.encoding.params
    rng = PCG32(size=BATCH)
    dr.eval(rng)
    for i in range(40):
        cache.net["weights"] = opt["weights"]
        cache.encoding.set_params(Float16(opt["grid"]))
        p, wall = wall_point(rng)
        q, other = next_wall(p, wall, rng)
        with dr.suspend_grad():
            arriving = emitted(q, other) + cache(q)
            reflected = dr.gather(Array3f, albedo, wall) * arriving
        estimate = cache(p)
        # relative squares, so that dark places count
        error = dr.square(estimate - reflected) / (dr.square(dr.detach(estimate)) + 0.1)
        loss = dr.mean(error, axis=None)
        dr.backward(scaler.scale(loss))
        dr.eval(loss, rng)
        scaler.step(opt)
        if i % 10 == 0:
            print("loss", i, loss)
    n = 6
    c = (dr.arange(Float, n) + 0.5) / n
    x, z = dr.meshgrid(c, c)
    floor = cache(Array3f(x, Float(0), z))
    print("floor", dr.mean(floor, axis=1))
    walls = cache(Array3f([0, 1, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0]))
    print("red, green, back", walls)
    print("finite", dr.all(dr.all(dr.isfinite(floor))) == Bool(True))
    center = Array2f(x, z) - 0.5
    near = dr.squared_norm(center) < 0.1
    inner = dr.sum(dr.select(near, floor.x, 0)) / dr.count(near)
    print("below the lamp", inner)
    return TensorXf(dr.ravel(floor), (n, n, 3))


if __name__ == "__main__":
    main()
