"""What all tests share: a cache folder of the session's own, the `tier` fixture, and the choice of
the cases that run."""

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Processes that share a run (pytest-xdist's workers) inherit the folder from the one that made it.
_owns_cache = "PYTEST_XDIST_WORKER" not in os.environ
if _owns_cache:
    os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="drjit-tests-")

os.environ["DRJIT_VERIFY"] = "1"  # an error in a module for GPUs does not end the process

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
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="run the files, and the tests of each file, in an order that this number determines",
    )
    parser.addoption(
        "--device",
        choices=["llvm", "cuda"],
        default="llvm",
        help="what the types of drjit.llvm stand for: with cuda, the tests that name them run on "
        "the emulated GPU, or on a real one if DRJIT_CUDA is set to an empty string",
    )
    parser.addoption(
        "--threads",
        choices=["early", "late"],
        help="what other threads are given is over before a test goes on, or begins later",
    )
    parser.addoption(
        "--assemble",
        action="store_true",
        help="ptxas assembles each PTX text that a test makes; one that it refuses fails the test",
    )
    parser.addoption(
        "--arm",
        action="store_true",
        help="each kernel text that a test compiles is also assembled for processors by ARM and "
        "Apple; one that LLVM refuses fails the test",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell may have a process in the background ignore Ctrl-C, with which some tests end loops.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--device") == "cuda":
        os.environ.setdefault("DRJIT_CUDA", "emulated")
        import drjit

        drjit.set_backend("cuda")
        sys.modules["drjit.llvm"] = drjit.llvm = drjit.cuda
        sys.modules["drjit.llvm.ad"] = drjit.cuda.ad
        pytest.raises = _raises_naming_cuda(pytest.raises)
        from drjit.jit.cpu.device import Cpu

        for name in ("allocate", "allocate_for", "upload", "filled", "copy"):
            setattr(Cpu, name, _refuse)
    if config.getoption("--threads"):
        from timing import have

        have(config.getoption("--threads"))
    if config.getoption("--assemble"):
        from assembling import register

        register(config)
    if config.getoption("--arm"):
        from lowering import register

        register(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--shuffle")
    return None if seed is None else f"order: --shuffle {seed}"


def _refuse(*_: Any) -> None:
    """Replaces methods of the processor's device: a computation on constants alone may end there by
    mistake."""
    raise AssertionError("the processor was to compute something")


def _raises_naming_cuda(raises: Callable) -> Callable:
    """`pytest.raises` for messages that name types."""

    def checked(*arguments: Any, **options: Any) -> Any:
        if isinstance(options.get("match"), str):
            options["match"] = options["match"].replace("llvm", "cuda")
        return raises(*arguments, **options)

    return checked


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file run in one process: they share kernels, and what takes long to set up."""
    from xdist.scheduler import LoadFileScheduling

    # Files with the most tests come first, so that all processes end at about the same time.
    config.option.loadscopereorder = config.getoption("--shuffle") is None
    return LoadFileScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests, half a million objects, stay to the end: they are hidden."""
    gc.disable()
    try:
        return (yield)
    finally:
        _hide_objects()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator:
    _leave_to_sweeps(items)
    for item in items:
        if item.path.name.startswith(_ABOUT_PYTHON):
            item.add_marker(pytest.mark.interpreter)
    if config.getoption("--device") == "cuda":
        about = [item for item in items if _is_about_the_processor(item)]
        config.hook.pytest_deselected(items=about)
        items[:] = [item for item in items if not _is_about_the_processor(item)]
    result = yield  # which deselects by markers
    step = config.getoption("--sample")
    config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % step])
    items[:] = items[::step]
    seed = config.getoption("--shuffle")
    if seed is not None:
        items[:] = _shuffled(items, random.Random(seed))
    return result


def _shuffled(items: list[pytest.Item], order: random.Random) -> list[pytest.Item]:
    """The tests in another order; those of a file stay together, as they share fixtures."""
    files = [list(tests) for _, tests in groupby(items, attrgetter("path"))]
    order.shuffle(files)
    for tests in files:
        order.shuffle(tests)
    return [item for tests in files for item in tests]


# Files about the processor, its targets, or other processes; those about GPUs choose their own.
# test_cuda_programs runs the programs of test_programs.
_NOT_ABOUT_DEVICES = (
    "test_ad_native", "test_background", "test_cache", "test_cost", "test_cuda", "test_derivatives",
    "test_device", "test_docs.py", "test_doctor", "test_editor", "test_examples",
    "test_freeze_native", "test_freeze_fast_path", "test_interface", "test_known_programs",
    "test_known_types", "test_lanes", "test_listing", "test_machine", "test_many_threads",
    "test_memory.py", "test_module", "test_names_in_kernels", "test_native", "test_numba_route",
    "test_numpy_target", "test_oracle", "test_package", "test_page", "test_processors",
    "test_program_graph", "test_programs", "test_python_target", "test_report",
    "test_robustness_process", "test_runtime", "test_signatures", "test_simd", "test_stepping",
    "test_tuples", "test_why",
)  # fmt: skip


# Files about objects, syntax, code objects, the collector and processes of Python, and those that
# show its texts: what .ci/run repeats on other versions.
_ABOUT_PYTHON = (
    "test_ad_graph", "test_ad_native", "test_annotations", "test_background", "test_cycles",
    "test_docs", "test_doctor", "test_flow_alias", "test_flow_bodies", "test_flow_syntax",
    "test_freeze", "test_interface", "test_known_", "test_many_threads", "test_messages",
    "test_module", "test_native", "test_package", "test_pickle", "test_printing", "test_program",
    "test_pytree", "test_python_target", "test_recorders", "test_robustness_process",
    "test_runtime", "test_sharing", "test_short_ways", "test_signatures", "test_simd_parse",
    "test_text_kernels", "test_tools", "test_transform", "test_tree", "test_tuples",
    "test_warnings",
)  # fmt: skip


def _is_about_the_processor(item: pytest.Item) -> bool:
    return item.path.name.startswith(_NOT_ABOUT_DEVICES) or bool(
        item.get_closest_marker("processor")
    )


def _leave_to_sweeps(items: list[pytest.Item]) -> None:
    """Of the cases of tests that are marked so, leaves all but every nth to the sweeps: of all, or
    of the compiled ones.

    What the latter examine is the same on both tiers, and other tests compare the tiers.
    """
    cases: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("every")
        compiled = item.get_closest_marker("compiled_every")
        if compiled is not None and item.callspec.params["tier"] == "compiled":
            marker = compiled
        if marker is None or item.get_closest_marker("sweep"):
            continue
        test = f"{item.nodeid.partition('[')[0]} {marker.name}"
        if cases[test] % marker.args[0]:
            item.add_marker(pytest.mark.sweep)
        cases[test] += 1


def pytest_unconfigure() -> None:
    if _owns_cache:
        shutil.rmtree(os.environ["DRJIT_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _warnings_of_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test was warned of, another is as well."""
    monkeypatch.setattr("drjit.jit.log._logged", set())


@pytest.fixture(scope="module", autouse=True)
def _leftovers() -> Iterator[None]:
    """What a file leaves behind, such as kernels and classes, is hidden."""
    yield
    _hide_objects()


def _hide_objects() -> None:
    """Hides what there is from the collector of cycles, which many tests call, and from what lists
    all arrays."""
    from drjit.jit import collector  # only here: it reads the environment that is set above

    gc.collect()
    gc.freeze()
    collector._later = collector._Marker()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = any(m.args[0] == "tier" for m in metafunc.definition.iter_markers("parametrize"))
    if "tier" in metafunc.fixturenames and not chosen:
        tiers = ["numpy", "compiled"]
        if metafunc.config.getoption("--device") == "cuda":
            del tiers[0]  # a GPU has one, besides debug mode
        metafunc.parametrize("tier", tiers, indirect=True)


@pytest.fixture
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pins the tier: a test that has this fixture runs once on NumPy and once compiled."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", request.param)
    return request.param


@pytest.fixture
def computing_nodes() -> Iterator[None]:
    """What tests compute from nodes, without classes of arrays, is on the chosen device."""
    import drjit as dr  # only here: it reads the environment that is set above
    from drjit.jit.ir import scope

    with scope.using(dr.llvm.Float._device):
        yield


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
