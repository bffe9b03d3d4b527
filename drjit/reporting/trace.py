"""A report as a Chrome trace, which https://ui.perfetto.dev and `chrome://tracing` open."""

from typing import Any


def chrome(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the events of a report as a Chrome trace, in its JSON object format: rows are
    threads, and the memory in use is a counter."""
    places, kernels = data["places"], data["kernels"]
    rows = [_metadata("process_name", {"name": data["program"]["command"]})]
    for number, name in enumerate(data["threads"]):
        rows.append(_metadata("thread_name", {"name": name}, tid=number))
        rows.append(_metadata("thread_sort_index", {"sort_index": number}, tid=number))
    open_until: dict[int, list[float]] = {}
    for kind, thread, start, end, place, ref, text in data["events"]:
        # Slices of a row have to be nested, and joined ones may overlap others.
        ends = open_until.setdefault(thread, [])
        while ends and ends[-1] <= start:
            ends.pop()
        if ends:
            end = min(end, ends[-1])
        ends.append(end)
        args = {"line": describe(places[place])} if place else {}
        if text:
            args["note"] = text
        name = kind
        if ref >= 0:
            name = kernels[ref]["title"] if kind == "kernel" else f"{kind} {kernels[ref]['title']}"
            args["kernel"] = kernels[ref]["name"]
        rows.append(
            {
                "ph": "X", "pid": 1, "tid": thread, "name": name, "cat": kind, "ts": start,
                "dur": round(max(end - start, 0), 1), "args": args,
            }
        )  # fmt: skip
    for time, nbytes in data["memory"]:
        rows.append({"ph": "C", "pid": 1, "name": "memory", "ts": time, "args": {"bytes": nbytes}})
    return {"traceEvents": rows, "displayTimeUnit": "ms", "otherData": data["program"]}


def _metadata(name: str, args: dict[str, Any], **row: int) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, **row, "name": name, "args": args}


def describe(place: list) -> str:
    """Returns a place as `train.py:41 in loss`."""
    path, line, function = place
    where = f"{path}:{line}"
    return where if function in ("", "<module>") else f"{where} in {function}"
