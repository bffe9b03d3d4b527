"""What all tests share: a cache folder of the session's own, the `tier` fixture, and the choice of
the cases that run."""

import gc
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Processes that share a run (pytest-xdist's workers) inherit the folder from the one that made it.
_owns_cache = "PYTEST_XDIST_WORKER" not in os.environ
if _owns_cache:
    os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="drjit-tests-")

settings.register_profile(
    "drjit",
    deadline=None,  # the first evaluation compiles
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("drjit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample", type=int, default=1, metavar="N", help="run every Nth of the selected tests"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests, half a million objects, stay to the end: the collector of cycles, which many tests
    call, looks at none of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator:
    _compile_some_only(items)
    result = yield  # which deselects by markers
    step = config.getoption("--sample")
    config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % step])
    items[:] = items[::step]
    return result


def _compile_some_only(items: list[pytest.Item]) -> None:
    """Of the compiled cases of tests that are marked so, leaves all but every nth to the sweeps.

    What such a test examines is the same on both tiers, and other tests compare the tiers.
    """
    cases: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("compiled_every")
        if marker is None or item.callspec.params["tier"] != "compiled":
            continue
        test = item.nodeid.partition("[")[0]
        if cases[test] % marker.args[0]:
            item.add_marker(pytest.mark.sweep)
        cases[test] += 1


def pytest_unconfigure() -> None:
    if _owns_cache:
        shutil.rmtree(os.environ["DRJIT_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(params=["numpy", "compiled"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pins the tier: a test that has this fixture runs once on NumPy and once compiled."""
    monkeypatch.setattr("drjit.jit.cpu.kernel.tier", request.param)
    return request.param


@pytest.fixture
def quiet() -> Iterator[None]:
    """NumPy says nothing of overflow, division by zero and the like."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def debug() -> Iterator[None]:
    """Kernels run as Python, with their checks."""
    import drjit as dr  # only here: it reads the environment that is set above

    with dr.scoped_set_flag(dr.JitFlag.Debug):
        yield
