"""A texture with mip levels of one's own, optimized through a view that minifies it: the pyramid is
built by averaging blocks, levels are looked up by footprint (Williams, "Pyramidal Parametrics",
1983), and derivatives reach the finest level through all of them."""

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Bool, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam

SIZE, LEVELS = 32, 5


def checker(size: int) -> TensorXf:
    i, j = dr.meshgrid(dr.arange(UInt, size), dr.arange(UInt, size), indexing="ij")
    odd = ((i // 4 + j // 4) & 1) == 1
    u = Float(j) / size
    c = dr.select(odd, Array3f(0.9, 0.8 * u, 0.1), Array3f(0.1, 0.2, 0.9 - 0.5 * u))
    return TensorXf(dr.ravel(c), (size, size, 3))


def pyramid(finest: TensorXf) -> list[TensorXf]:
    levels = [finest]
    while len(levels) < LEVELS:
        h, w, c = levels[-1].shape
        blocks = dr.reshape(levels[-1], (h // 2, 2, w // 2, 2, c))
        levels.append(dr.mean(blocks, axis=(1, 3)))
    return levels


class MipTexture:
    def __init__(
        self, finest: TensorXf, wrap: dr.WrapMode = dr.WrapMode.Repeat, trilinear: bool = True
    ) -> None:
        self.trilinear = trilinear
        self.levels = [
            Texture2f(t, filter_mode=dr.FilterMode.Linear, wrap_mode=wrap) for t in pyramid(finest)
        ]

    def eval_level(self, k: int, uv: Array2f, active: Bool) -> Array3f:
        return Array3f(self.levels[k].eval(uv, active))

    @dr.syntax
    def eval(self, uv: Array2f, footprint: Float) -> Array3f:
        level = dr.clip(dr.log2(dr.maximum(footprint * SIZE, 1)), 0, LEVELS - 1)
        low = UInt(dr.floor(level))
        t = level - Float(low) if self.trilinear else Float(0)
        result = Array3f(0)
        for k in range(LEVELS):
            here, next_ = low == k, low + 1 == k
            weight = dr.select(here, 1 - t, dr.select(next_, t, 0))
            result += weight * self.eval_level(k, uv, here | next_)
        return result


def view(n: int) -> tuple[Array2f, Float, Float]:
    """A plane seen at a grazing angle: places and the size of a pixel's footprint there."""
    c = (dr.arange(Float, n) + 0.5) / n
    x, y = dr.meshgrid(c, c)
    depth = 0.35 / (y + 0.12)
    uv = Array2f((x - 0.5) * depth + 0.5, depth)
    return uv, depth / n * 1.5, y


def main() -> tuple[TensorXf, TensorXf]:
    goal = checker(SIZE)
    for wrap in (dr.WrapMode.Repeat, dr.WrapMode.Clamp, dr.WrapMode.Mirror):
        texture = MipTexture(goal, wrap)
        uv = Array2f([-0.3, 0.2, 1.4], [1.7, 0.01, -0.6])
        print("wrap", wrap.name, texture.eval(uv, Float(0.02, 0.1, 0.5)))
    print("levels", [dr.mean(t.tensor()[:, :, 0]).array[0] for t in texture.levels])

    n = 24
    uv, footprint, _ = view(n)
    texture = MipTexture(goal)
    target = texture.eval(uv, footprint)
    print("target", dr.mean(target, axis=1), dr.min(target.x), dr.max(target.z))
    plain = Array3f(texture.levels[0].eval(uv))
    print("aliased", dr.mean(dr.abs(plain - target), axis=1))
    nearest = MipTexture(goal, trilinear=False).eval(uv, footprint)
    print("levels only", dr.mean(dr.abs(nearest - target), axis=1))

    # the derivative of the picture by where it is looked up
    shift = Float(0)
    dr.enable_grad(shift)
    moved = MipTexture(goal).eval(uv + Array2f(shift, 0), footprint)
    dr.forward(shift)
    print("shift", dr.mean(dr.abs(moved.grad), axis=1))

    opt = Adam(lr=0.06, params={"texture": dr.full(TensorXf, 0.5, (SIZE, SIZE, 3))})
    rng = dr.rng(seed=9)
    seen = moved
    for i in range(20):
        jitter = rng.random(Array2f, (2, n * n)) - 0.5
        place = uv + jitter * footprint
        with dr.suspend_grad():
            wanted = MipTexture(goal).eval(place, footprint)
        seen = MipTexture(opt["texture"]).eval(place, footprint)
        loss = dr.mean(dr.squared_norm(seen - wanted))
        dr.backward(loss)
        opt.step()
        opt["texture"] = dr.clip(opt["texture"], 0, 1)
        if i % 6 == 0:
            print("loss", i, loss)
    result = opt["texture"]
    print("untouched", dr.count((result == 0.5).array))
    print("texture", dr.mean(result, axis=(0, 1)), result[16, ::8, 0])

    # a resampled copy through the library's filters
    small = dr.resample(goal, (8, 8, 3), filter="linear")
    print("resampled", dr.mean(small), small[3, :4, 2])
    blurred = dr.convolve(goal, "gaussian", 2.0, axis=(0, 1))
    print("convolved", dr.max(blurred), blurred[::11, 9, 1])
    return TensorXf(dr.ravel(seen), (n, n, 3)), result


if __name__ == "__main__":
    main()
