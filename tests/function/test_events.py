"""Events of the namespaces with traced arrays."""

import time

import pytest

import drjit as dr
from drjit.llvm import Event, Float


def test_an_event_is_over_when_the_work_before_it_is(tier: str):
    start, end = Event(), Event()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        before = time.perf_counter()
        start.record()
        x = dr.sin(dr.arange(Float, 100_000))
        dr.eval(x)
        end.record()
        end.wait()
        after = time.perf_counter()
        (entry,) = dr.kernel_history()
    assert start.query() and end.query()
    assert 0 < entry["execution_time"] <= start.elapsed_time(end) <= 1000 * (after - before)


def test_namespaces_share_the_class():
    assert dr.llvm.ad.Event is Event
    assert "Event" in dir(dr.llvm) and "Event" not in dir(dr.scalar)
    with pytest.raises(AttributeError, match="nothing is queued"):
        _ = dr.scalar.Event


def test_an_event_without_timing_measures_nothing():
    start, end = Event(enable_timing=False), Event(enable_timing=False)
    start.record()
    end.record()
    with pytest.raises(RuntimeError, match="timing enabled"):
        start.elapsed_time(end)
