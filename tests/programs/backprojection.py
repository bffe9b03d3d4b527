"""Computed tomography: the Radon transform of a phantom, and filtered backprojection of it (Kak and
Slaney, "Principles of Computerized Tomographic Imaging", chapter 3), then refined by gradients."""

import sys
from pathlib import Path

import drjit as dr

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import tomography as example
from tomography import backproject, phantom, project, ramp

from drjit.auto.ad import Float, TensorXf, Texture1f
from drjit.opt import Adam

example.SIZE, example.ANGLES, example.BINS, example.STEPS = SIZE, ANGLES, BINS, _ = 24, 20, 32, 48


def main() -> TensorXf:
    image = phantom()
    sinogram = project(image)
    print("phantom", dr.mean(image), "projections", dr.mean(sinogram), dr.max(sinogram))
    view = TensorXf(sinogram, (ANGLES, BINS))
    print(view[::7, ::5])
    plain = backproject(sinogram)
    filtered = backproject(ramp(sinogram))
    truth = image[:, :, 0]
    print("plain", dr.mean(plain), dr.max(plain))
    print("filtered", dr.mean(filtered), dr.sqrt(dr.mean(dr.square(filtered - truth))))
    print(filtered[::5, ::5])

    # a profile through the middle, looked up at other places
    profile = Texture1f(
        TensorXf(filtered[SIZE // 2].array, (SIZE, 1)), wrap_mode=dr.WrapMode.Repeat
    )
    print("profile", profile.eval(dr.linspace(Float, -0.5, 1.5, 7))[0])

    opt = Adam(lr=0.05, params={"image": TensorXf(filtered.array, (SIZE, SIZE, 1))})
    for i in range(8):
        loss = dr.mean(dr.square(project(opt["image"]) - sinogram))
        dr.backward(loss)
        if i == 0:
            print("gradient", dr.norm(opt["image"].grad), opt["image"].grad[10, ::6, 0])
        opt.step()
        opt["image"] = dr.clip(opt["image"], 0, 1)
        if i % 3 == 0:
            print("loss", i, loss)
    print("refined", dr.sqrt(dr.mean(dr.square(opt["image"][:, :, 0] - truth))))
    return filtered


if __name__ == "__main__":
    main()
