"""A session of Jupyter: what it shows, and that it works on after Ctrl-C, whatever that stopped.

Needs ipykernel, which comes with the extra `docs`.
"""

import os
import queue
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jupyter = pytest.importorskip("jupyter_client", reason="jupyter_client is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

ROOT = Path(__file__).parents[2]
SECONDS = 120

START = """
import sys, time
import numpy as np
import drjit as dr
from drjit.jit import progress
from drjit.jit.cpu import background
from drjit.llvm import Float, UInt
import drjit.llvm.ad as ad

def check():
    "Programs of all kinds give the right results."
    x = dr.arange(Float, 1000)
    y = dr.sin(x) + x * 2
    ok = np.allclose(y.numpy(), np.sin(np.arange(1000)) + np.arange(1000) * 2, atol=1e-3)
    n = UInt(3, 5, 1000)
    state = UInt(0), UInt(0, 0, 0)
    _, total = dr.while_loop(state, lambda i, t: i < n, lambda i, t: (i + 1, t + i))
    ok &= total.numpy().tolist() == [3, 10, 499500]
    z = ad.Float(0.5, 1)
    dr.enable_grad(z)
    dr.backward(dr.sin(z) * z)
    ok &= np.allclose(z.grad.numpy(), np.cos([0.5, 1]) * [0.5, 1] + np.sin([0.5, 1]))
    square = dr.freeze(lambda x: x * x + 1)
    for k in range(3):
        ok &= square(Float(k, 2)).numpy().tolist() == [k * k + 1, 5]
    target = dr.zeros(UInt, 4)
    dr.scatter_add(target, 1, dr.arange(UInt, 4000) % 4)
    ok &= target.numpy().tolist() == [1000] * 4
    clean = not (dr.flag(dr.JitFlag.SymbolicScope) or dr.flag(dr.JitFlag.FreezingScope))
    background.finish()  # a kernel that nobody waits for any more
    return bool(ok and clean and not progress._running)
"""


class Session:
    """A kernel of Jupyter; `run` executes a cell."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {
            "DRJIT_CACHE_DIR": str(folder / "cache"), "IPYTHONDIR": str(folder / "ipython"),
            "PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1", "DRJIT_TIER": "compiled",
        }  # fmt: skip
        self.manager = jupyter.KernelManager()
        # This environment's Python, whatever kernels are installed.
        self.manager.kernel_spec.argv[0] = sys.executable
        self.manager.start_kernel(env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def messages(self, code: str, interrupt: str | None = None) -> list[tuple[str, Any]]:
        """Executes a cell; returns its messages, the last of which is the reply. It is interrupted
        when it has printed a text; once more, if Python was in a finalizer the first time, which
        swallows what is raised there."""
        sent = self.client.execute(textwrap.dedent(code))
        found: list[tuple[str, Any]] = []
        end, interrupted = time.monotonic() + SECONDS, False
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=SECONDS / 10)
            except queue.Empty:
                if interrupted:
                    self.manager.interrupt_kernel()
                continue
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            found.append((kind, content))
            if kind == "stream" and interrupt and interrupt in content["text"]:
                time.sleep(0.3)
                self.manager.interrupt_kernel()
                interrupt, interrupted = None, True
            if kind == "status" and content["execution_state"] == "idle":
                return [*found, ("reply", self._reply(sent))]
        raise AssertionError(f"the cell is still running: {found}")

    def _reply(self, sent: str) -> Any:
        while True:
            message = self.client.get_shell_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") == sent:
                return message["content"]

    def run(self, code: str, interrupt: str | None = None) -> Any:
        """Executes a cell; returns the text that it printed, or the name of its error.

        The name is the reply's: IPython sends no message of an error that it cannot show. Such a
        one is an interruption at an instruction that belongs to no line (Python 3.11 has some).
        """
        found = self.messages(code, interrupt)
        if (reply := found[-1][1])["status"] == "error":
            return reply["ename"]
        return "".join(c["text"] for kind, c in found if kind == "stream" and c["name"] == "stdout")


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Iterator[Session]:
    opened = Session(tmp_path_factory.mktemp("jupyter"))
    try:
        assert opened.run(START) == ""
        assert opened.run("print(check())") == "True\n"
        yield opened
    finally:
        opened.close()


ENDLESS = {
    "a long kernel": """
        x = dr.arange(Float, 3_000_000)
        for _ in range(1500):
            x = dr.sin(x) + 1
        dr.eval(x)
        print("begin", flush=True)
        dr.sync_thread()
        time.sleep(60)
    """,
    "a long compilation": """
        x = dr.arange(Float, 1000)
        y = x
        for k in range(12000):
            y = dr.fma(y, y + k, x) / (k + 1.5)
        print("begin", flush=True)
        dr.eval(y)
        time.sleep(60)
    """,
    "a recording": """
        @dr.freeze
        def recorded(x):
            print("begin", flush=True)
            time.sleep(60)
            return x + 1
        recorded(dr.arange(Float, 10))
    """,
    "a recording whose kernel is long": """
        @dr.freeze
        def recorded(x):
            print("begin", flush=True)
            n = dr.opaque(UInt, 1)
            return dr.while_loop((x,), lambda x: n > 0, lambda x: (x + 1,))[0] * 2
        recorded(dr.arange(Float, 10)).numpy()
    """,
    "a symbolic loop without end": """
        n = dr.opaque(UInt, 1)
        r = dr.while_loop((dr.arange(UInt, 100),), lambda i: n > 0, lambda i: (i + n,))
        print("begin", flush=True)
        print(r[0].numpy())
    """,
    "tracing a loop": """
        def body(i):
            print("begin", flush=True)
            time.sleep(60)
            return i + 1,
        dr.while_loop((dr.arange(UInt, 100),), lambda i: i < 200, body)
    """,
    "an evaluated loop without end": """
        n = dr.opaque(UInt, 1)
        print("begin", flush=True)
        i = dr.arange(UInt, 100)
        dr.while_loop((i,), lambda i: n > 0, lambda i: (i + n,), mode="evaluated")
    """,
    "a backward pass": """
        class Slow(dr.CustomOp):
            def eval(self, x):
                return x * 2
            def forward(self):
                pass
            def backward(self):
                print("begin", flush=True)
                time.sleep(60)
        w = ad.Float(1, 2)
        dr.enable_grad(w)
        dr.backward(dr.custom(Slow, w) * w)
    """,
    "check_grad": """
        def f(x):
            print("begin", flush=True)
            time.sleep(60)
            return x
        dr.check_grad(f, ad.Float(1, 2))
    """,
}


@pytest.mark.processor
@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_a_session_works_after_ctrl_c(session: Session, code: str):
    assert session.run(code, interrupt="begin") == "KeyboardInterrupt"
    assert session.run("print(check())") == "True\n"


@pytest.mark.processor
def test_what_was_interrupted_can_be_repeated(session: Session):
    session.run(ENDLESS["a recording whose kernel is long"], interrupt="begin")
    cell = """
        @dr.freeze
        def recorded(x):
            print("traced", flush=True)
            if stop:
                print("begin", flush=True)
                time.sleep(60)
            return dr.sin(x) * 3
        stop = True
        recorded(dr.arange(Float, 10))
    """
    assert session.run(cell, interrupt="begin") == "KeyboardInterrupt"
    again = """
        stop = False
        for _ in range(3):
            y = recorded(dr.arange(Float, 10))
        print(np.allclose(y.numpy(), np.sin(np.arange(10)) * 3, atol=1e-5))
    """
    assert session.run(again) == "traced\nTrue\n"


def data(messages: list[tuple[str, Any]]) -> dict[str, Any]:
    shown = [c["data"] for kind, c in messages if kind == "execute_result"]
    assert len(shown) == 1, messages
    return shown[0]


def test_what_cells_show(session: Session):
    source = data(session.messages("def f(x):\n    return x * x\ndr.kernel_source(f, Float(1, 2))"))
    assert "line 2" in source["text/html"] and "return" in source["text/html"]
    assert "kernel" in data(session.messages("dr.kernels()"))["text/html"]
    assert data(session.messages("dr.graphviz()"))["image/svg+xml"].startswith("<svg")
    picture = data(session.messages("dr.picture(np.eye(3))"))
    assert "image/png" in picture and picture["text/plain"].startswith("<picture of 3 × 3")


def test_progress_is_below_the_cell_and_goes_away(session: Session):
    messages = session.messages(
        """
        progress.DELAY = 0.05
        with progress.Task("work", 10, "steps") as task:
            task.done = 4
            time.sleep(1)
        progress.DELAY = 2.0
        """
    )
    shown = [c["data"] for kind, c in messages if "display_data" in kind]
    assert (
        'value="4" max="10"' in shown[0]["text/html"] and "4 of 10 steps" in shown[0]["text/plain"]
    )
    assert shown[-1]["text/html"] == "" and len(shown) >= 3
    identities = {c["transient"]["display_id"] for kind, c in messages if "display_data" in kind}
    assert len(identities) == 1
