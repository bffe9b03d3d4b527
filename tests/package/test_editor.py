"""What an editor shows, by the protocol in which it speaks to pyright's language server."""

import importlib.util
import json
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
IMPORTS = "import drjit as dr\nfrom drjit.auto.ad import Array3f, Bool, Float, PCG32, UInt\n"
MISTAKE = "x = Float(1)\nx.lenght\ny: Array3f = dr.sin(x)\n"


class Server:
    """A language server that is asked about texts of one file."""

    def __init__(self, folder: Path):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyright.langserver", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.numbers, self.version = count(1), 0
        self.answers: Queue[Any] = Queue()
        self.diagnostics: Queue[Any] = Queue()
        self.settings = {"pythonPath": sys.executable, "analysis": {"extraPaths": [str(ROOT)]}}
        self.file = (folder / "program.py").as_uri()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        root = {"uri": folder.as_uri(), "name": "user"}
        markdown = {"contentFormat": ["markdown"], "documentationFormat": ["markdown"]}
        completion = {"completionItem": {"documentationFormat": ["markdown"]}}
        self.ask(
            "initialize",
            processId=None,
            rootUri=folder.as_uri(),
            workspaceFolders=[root],
            capabilities={
                "workspace": {"configuration": True},
                "textDocument": {"hover": markdown, "completion": completion},
            },
        )
        self._send("initialized", {})

    def _send(self, method: str, params: Any, **more: Any) -> None:
        self._write({"method": method, "params": params, **more})

    def _write(self, message: dict[str, Any]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
        self.process.stdin.flush()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while head := stream.readline():
            size = 0
            while head.strip():
                name, _, value = head.partition(b":")
                if name.lower() == b"content-length":
                    size = int(value)
                head = stream.readline()
            message = json.loads(stream.read(size)) if size else {}
            if message.get("method") == "workspace/configuration":
                wanted = [item.get("section") for item in message["params"]["items"]]
                found = [
                    {"python": self.settings}.get(s, self.settings["analysis"]) for s in wanted
                ]
                self._write({"id": message["id"], "result": found})
            elif "method" in message and "id" in message:
                self._write({"id": message["id"], "result": None})
            elif message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics.put(message["params"])
            elif "id" in message:
                self.answers.put(message)
        self.answers.put({"error": "the server has ended"})

    def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request."""
        self._send(method, params, id=next(self.numbers))
        answer = self.answers.get(timeout=300)
        assert "error" not in answer, answer
        return answer["result"]

    def show(self, text: str) -> dict[str, Any]:
        """Opens a text, and returns where it ends, as the parameters of a request."""
        self.version += 1
        document = {"uri": self.file, "version": self.version}
        if self.version == 1:
            self._send(
                "textDocument/didOpen",
                {"textDocument": {**document, "languageId": "python", "text": text}},
            )
        else:
            self._send(
                "textDocument/didChange",
                {"textDocument": document, "contentChanges": [{"text": text}]},
            )
        lines = text.split("\n")
        end = {"line": len(lines) - 1, "character": len(lines[-1])}
        return {"textDocument": {"uri": self.file}, "position": end}

    def completions(self, text: str) -> dict[str, Any]:
        """What can follow a text, by name."""
        found = self.ask("textDocument/completion", **self.show(IMPORTS + text))
        return {item["label"]: item for item in found["items"]}

    def said(self, item: Any) -> str:
        """The documentation of a completion."""
        value = self.ask("completionItem/resolve", **item).get("documentation", "")
        return value if isinstance(value, str) else value["value"]

    def hover(self, text: str) -> str:
        """What is shown for the name at the end of a text."""
        where = self.show(IMPORTS + text)
        where["position"]["character"] -= 1
        found = self.ask("textDocument/hover", **where)
        return found["contents"]["value"]

    def problems(self, text: str) -> list[tuple[int, str]]:
        """The lines of mistakes and what is said of them."""
        self.show(IMPORTS + text)
        while True:
            found = self.diagnostics.get(timeout=300)
            if found.get("version") == self.version:
                first = IMPORTS.count("\n")
                return [
                    (d["range"]["start"]["line"] - first + 1, d["message"])
                    for d in found["diagnostics"]
                    if d.get("severity") == 1
                ]

    def end(self) -> None:
        self.ask("shutdown")
        self._send("exit", None)
        self.process.wait(timeout=60)
        self.listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    try:
        found = Server(tmp_path_factory.mktemp("user"))
    except (OSError, AssertionError, Empty) as problem:
        pytest.skip(f"the language server does not start: {problem}")
    yield found
    found.end()


@pytest.mark.parametrize(
    ("text", "names", "missing"),
    [
        ("x = Float(1)\nx.", ["numpy", "grad", "item", "shape"], ["xy", "imag"]),
        ("v = Array3f(1)\nv.", ["x", "zyx", "grad"], ["w", "imag"]),
        ("(Array3f(1) * 2 > 0).x.", ["numpy", "state"], ["xy"]),
        ("dr.", ["minimum", "sum", "gather", "sin", "while_loop", "llvm"], ["sine", "np"]),
        ("dr.nn.", ["Linear", "CoopVec", "pack", "Sequential"], ["sum"]),
        ("PCG32().", ["next_float32", "next_uint32_bounded", "state"], ["next_float33"]),
        ('@dr.freeze\ndef f(x: Float) -> Float:\n    """A."""\n    return x\n\nf.',
         ["n_recordings", "clear", "enabled"], ["x"]),
        ('dr.opt.Adam(0.1, {"x": Float(1)}).', ["step", "keys", "set_learning_rate"], ["stop"]),
    ],
)  # fmt: skip
def test_what_follows_a_dot(server, text, names, missing):
    found = server.completions(text)
    assert set(names) <= found.keys()
    assert not found.keys() & set(missing)


@pytest.mark.parametrize(
    ("text", "name", "part"),
    [
        ("Float(1).", "numpy", "as a NumPy array"),
        ("dr.", "gather", "index"),
        ("dr.", "sin", "sine"),
        ("dr.nn.", "Linear", "layer"),
        ("PCG32().", "next_float32", "uniform number in"),
    ],
)
def test_completions_have_docstrings(server, text, name, part):
    assert part in server.said(server.completions(text)[name])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("dr.gather", ["dtype", "index", "Returns"]),
        ("x = Float(1)\ny = x * UInt(2)\ny", ["Float"]),
        ("v = Array3f(1)\nmask = v > 0\nmask", ["Array3b"]),
        ("rng = PCG32()\nu = rng.next_float32", ["Float", "uniform number in"]),
        ("dr.forward_to", ["Propagates the gradients"]),
        ("dr.nn.Linear", ["class Linear", "layer"]),
    ],
)
def test_what_the_pointer_shows(server, text, parts):
    shown = server.hover(text)
    for part in parts:
        assert part in shown


def test_mistakes_are_underlined(server):
    assert server.problems("x = dr.sin(Float(1))\nm: Bool = x > 0\n") == []
    found = server.problems(MISTAKE)
    assert [line for line, _ in found] == [2, 3]
    assert "lenght" in found[0][1] and "Array3f" in found[1][1]
