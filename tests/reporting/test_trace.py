"""Reports as Chrome traces: rows are threads, slices nest, memory is a counter."""

import json
from pathlib import Path

import drjit as dr
from drjit.llvm.ad import Float
from drjit.reporting import trace


def test_a_saved_trace(tmp_path: Path) -> None:
    with dr.report() as r:
        for k in range(5):
            dr.eval(dr.sin(dr.arange(Float, 1000 + k)))
    r.save(tmp_path / "run.json")
    saved = json.loads((tmp_path / "run.json").read_text())
    rows, data = saved["traceEvents"], r.data()
    assert saved["otherData"]["ended"] == "completed"
    names = {e["tid"]: e["args"]["name"] for e in rows if e["name"] == "thread_name"}
    assert [*names.values()] == data["threads"]
    slices = [e for e in rows if e["ph"] == "X"]
    assert len(slices) == len(data["events"])
    assert all(e["dur"] >= 0 and e["tid"] in names for e in slices)
    launched = [e for e in slices if e["cat"] == "kernel"]
    assert len(launched) >= 5 and launched[0]["name"].startswith("test_trace.py:")
    assert "in test_a_saved_trace" in launched[0]["args"]["line"]
    assert [e["args"]["bytes"] for e in rows if e["ph"] == "C"] == [n for _, n in data["memory"]]


def test_slices_of_a_thread_are_nested() -> None:
    data = {
        "program": {"command": "x"}, "places": [["", 0, ""]], "threads": ["main"], "kernels": [],
        "memory": [],
        "events": [
            ["schedule", 0, 0.0, 100.0, 0, -1, ""], ["wait", 0, 50.0, 150.0, 0, -1, "joined"],
            ["wait", 0, 60.0, 70.0, 0, -1, ""], ["trace", 0, 100.0, 120.0, 0, -1, ""],
        ],
    }  # fmt: skip
    slices = [e for e in trace.chrome(data)["traceEvents"] if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in slices] == [(0, 100), (50, 50), (60, 10), (100, 20)]
    assert slices[1]["args"] == {"note": "joined"}
