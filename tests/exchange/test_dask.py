"""Tiles of a picture and sweeps over parameters in worker processes, by Dask."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import sweeping

import drjit as dr
from drjit import llvm
from drjit.jit.run import cache
from drjit.llvm.ad import Float
from drjit.opt import Adam

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    cache = tmp_path_factory.mktemp("kernels")
    environment = {
        "DRJIT_CACHE_DIR": str(cache),
        "DRJIT_NUM_THREADS": "1",
        "DRJIT_TIER": "compiled",
        "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
    }
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, env=environment, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


# Dask closes its sockets in the background.
pytestmark = pytest.mark.filterwarnings("ignore")


def kernels_of_worker():
    """How many kernels a worker has compiled, and how many it has loaded from the disk."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        picture = sweeping.tile(0, 16, 64)
        found = dr.kernel_history()
    cache.write_pending()  # otherwise, a thread writes the entries a moment later
    return picture.shape, [k["cache_disk"] for k in found]


def test_tiles_of_one_picture(client):
    whole = sweeping.tile(0, 64, 64)
    parts = client.map(sweeping.tile, range(0, 64, 16), rows=16, size=64)
    np.testing.assert_array_equal(np.concatenate(client.gather(parts)), whole)


def test_a_sweep_over_parameters(client):
    rates = [0.01, 0.1, 0.3, 1.0]
    losses = client.gather(client.map(sweeping.fitted, rates))
    np.testing.assert_allclose(losses, [sweeping.fitted(r) for r in rates], rtol=1e-5)


def test_arrays_functions_and_optimizers_travel(client):
    x = Float(1, 2, 3)
    assert list(client.submit(sweeping.twice, x).result()) == [2, 4, 6]
    assert list(client.submit(sweeping.saxpy, 2, x, y=x).result()) == [3, 6, 9]
    assert list(client.submit(lambda v: dr.sin(v) * 0 + len(v), x).result()) == [3, 3, 3]
    opt = Adam(0.1, {"x": x})
    first = client.submit(sweeping.continued, opt)
    second = client.submit(sweeping.continued, first).result()
    wanted = sweeping.continued(sweeping.continued(opt))
    np.testing.assert_allclose(np.asarray(second["x"]), np.asarray(wanted["x"]), rtol=1e-6)


def test_workers_share_kernels_on_the_disk(client):
    workers = [*client.scheduler_info()["workers"]]
    for number, worker in enumerate(workers):
        shape, loaded = client.submit(kernels_of_worker, workers=[worker], pure=False).result()
        assert shape == (16, 64) and loaded
        if number:
            assert all(loaded)


def test_an_error_of_a_worker_is_raised_with_its_text(client):
    future = client.submit(lambda: dr.gather(Float, Float(1, 2), llvm.UInt(7))[0])
    with pytest.raises(IndexError, match="out of bounds"):
        future.result()
    assert isinstance(pickle.loads(pickle.dumps(future.exception())), IndexError)
