"""The smallest training loop: a network with biases learns a colour gradient.

python examples/small_network.py [--iterations N]
"""

import argparse

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array3f16, Float16, TensorXf16
from drjit.opt import Adam

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=500)
arguments = parser.parse_args()

rng = dr.rng(seed=0)
net = nn.Sequential(
    nn.Linear(-1, 32, bias=False),
    nn.ReLU(),
    nn.Linear(-1, -1),
    nn.ReLU(),
    nn.Linear(-1, 3, bias=False),
    nn.Tanh(),
)
net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")

optimizer = Adam(lr=5e-3)
optimizer.update(net)

for step in range(arguments.iterations):
    net.update(optimizer)
    x, y = rng.random(Float16, 4096), rng.random(Float16, 4096)
    reference = Array3f16(x, y, x * y)
    found = Array3f16(net(nn.CoopVec(x, y)))
    loss = dr.mean(dr.square(reference - found))
    dr.backward(loss)
    if step % 100 == 0 or step == arguments.iterations - 1:
        dr.schedule(loss)
        print(f"step {step}: mean square error {dr.mean(dr.detach(loss)).numpy().item():.5f}")
    optimizer.step()
