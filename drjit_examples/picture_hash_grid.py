"""A network that learns a picture, in as few lines as it takes.

Features in grids of several resolutions, which are interpolated, make it quick and sharp; half
precision inside and single precision around it make it fast. neural_field is the same as a complete
program.
"""

import imageio.v3 as iio

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, Array3f, Float16, Float32, TensorXf, TensorXf16, Texture2f
from drjit.opt import Adam, GradScaler
from drjit_examples.common import PORTRAIT, Options, Panel, Progress, start, write_panels

RES = 256  # a step looks at one random position in each cell of a grid of this size


def main() -> None:
    options = Options(__doc__, output="picture_hash_grid.png")
    options.number("--iterations", 300, "steps of the training", low=0)
    arguments = options.parse()

    picture = TensorXf(iio.imread(PORTRAIT) / 255)
    texture = Texture2f(picture)
    rng = dr.rng(seed=0)

    # Ten grids, each half as fine again as the one before; nn.PermutoEncoding would be of
    # triangles in place of squares.
    grid = nn.HashGridEncoding(
        Float16, 2, n_levels=10, n_features_per_level=2, per_level_scale=1.5, rng=rng
    )
    print(grid)

    # The grid stays outside of the packed weights. A prefix keeps the names of the two apart.
    layers: list[nn.Module] = [nn.HashEncodingLayer(grid), nn.Cast(Float16)]
    for _ in range(3):
        layers += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
    net = nn.Sequential(*layers, nn.Linear(-1, 3, bias=False), nn.Exp(), prefix="mlp")
    net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")
    print(net)

    optimizer = Adam(lr=5e-3)
    optimizer.update(net)
    optimizer["grid"] = Float32(grid.params)
    optimizer.set_learning_rate(grid=2e-2)
    scaler = GradScaler()

    for _ in Progress(arguments.iterations):
        net.update(optimizer)
        grid.params[:] = Float16(optimizer["grid"])
        t = dr.arange(Float32, RES)
        p = (Array2f(dr.meshgrid(t, t)) + rng.random(Array2f, (2, RES * RES))) / RES
        colour = Array3f(net(nn.CoopVec(p)))
        loss = dr.squared_norm(texture.eval(p) - colour)
        dr.backward(scaler.scale(loss))
        scaler.step(optimizer)

    net.update(optimizer)
    grid.params[:] = Float16(optimizer["grid"])
    height, width, _ = picture.shape
    x, y = (dr.arange(Float32, n) + 0.5 for n in (width, height))
    at = Array2f(dr.meshgrid(x / width, y / height))
    learnt = dr.reshape(TensorXf(Array3f(net(nn.CoopVec(at))), flip_axes=True), picture.shape)
    panels = [
        Panel("photograph", picture.numpy()),
        Panel("network", dr.detach(learnt).numpy()),
    ]
    write_panels(arguments.output, panels, columns=2, size=width)
    print(f"{arguments.output}: {len(grid.params)} features in {grid.n_levels} grids.")


if __name__ == "__main__":
    start(main)
