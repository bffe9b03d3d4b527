"""Drives Chromium by the protocol of the W3C, WebDriver. It is JSON over HTTP: no package is needed
for the few commands of these tests.
"""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = (("chromium", "chromedriver"), ("google-chrome", "chromedriver"))
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--no-first-run", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--disable-dev-shm-usage",
)  # fmt: skip
# A report has unpacked its data when it has tabs.
LOADED = """return new Promise(done => (function look() {
    const tabs = document.getElementById("tabs");
    if (!tabs || tabs.firstChild) done(); else setTimeout(look, 5);
})())"""
KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "Shift": "\ue008", "Home": "\ue011", "End": "\ue010",
    "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Tab": "\ue004",
}  # fmt: skip


def found() -> tuple[str, str] | None:
    """The paths of a browser and of its driver, where they are installed."""
    for names in PROGRAMS:
        browser, driver = map(shutil.which, names)
        if browser and driver:
            return browser, driver
    return None


class Browser:
    """A window of a browser."""

    def __init__(self, address: str, browser: str, folder: Path) -> None:
        self._address = address
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={folder}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._send("/session", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/session/{session['sessionId']}"

    def _send(self, path: str, body: dict | None = None, method: str = "") -> Any:
        text = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, text, method=method or None)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())["value"]

    def open(self, page: Path, place: str = "") -> None:
        """Opens a file, anew even where only the part behind # is another."""
        self._send("/url", {"url": "about:blank"})
        self._send("/url", {"url": page.resolve().as_uri() + place})
        self.run(LOADED)

    def run(self, script: str, *arguments: object) -> Any:
        """Runs the body of a function in the page, and returns its result."""
        return self._send("/execute/sync", {"script": script, "args": arguments})

    def command(self, name: str, **parameters: object) -> Any:
        """A command of Chromium's own protocol for developers."""
        return self._send("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def resize(self, width: int, height: int = 900) -> None:
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=False)  # fmt: skip

    def scheme(self, name: str) -> None:
        """Has pages take the system for light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.command("Emulation.setEmulatedMedia", features=features)

    def press(self, *keys: str) -> None:
        """Presses keys one after the other; `Shift+Right` is two at once."""
        actions = []
        for key in keys:
            parts = [KEYS.get(k, k) for k in re.split(r"(?<=.)\+(?=.)", key)]
            actions += [{"type": "keyDown", "value": k} for k in parts]
            actions += [{"type": "keyUp", "value": k} for k in reversed(parts)]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._send("/actions", {"actions": [keyboard]})

    def click(self, x: float, y: float) -> None:
        self.hover(x, y)
        self._mouse({"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})

    def drag(self, x: float, y: float, to: float) -> None:
        self.hover(x, y)
        down, up = {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}
        way = [
            {"type": "pointerMove", "x": int(x + (to - x) * k / 4), "y": int(y)}
            for k in (1, 2, 3, 4)
        ]
        self._mouse(down, *way, up)

    def hover(self, x: float, y: float) -> None:
        self._mouse({"type": "pointerMove", "x": int(x), "y": int(y)})

    def _mouse(self, *actions: dict) -> None:
        mouse = {"type": "pointer", "id": "mouse", "actions": actions}
        self._send("/actions", {"actions": [mouse]})

    def wheel(self, x: float, y: float, delta: int) -> None:
        scroll = {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": delta}
        self._send("/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]})

    def center(self, selector: str) -> tuple[float, float]:
        """Where an element is, scrolled into view."""
        script = """
            const node = document.querySelector(arguments[0]);
            node.scrollIntoView({block: "center"});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        """
        x, y = self.run(script, selector)
        return x, y

    def complaints(self) -> list[str]:
        """What the console has said since it was asked last."""
        return [entry["message"] for entry in self._send("/se/log", {"type": "browser"})]

    def picture(self, path: Path, whole: bool = True) -> None:
        """Writes a picture of the page, PNG."""
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._send("", method="DELETE")


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A new browser, whose files are in a folder."""
    programs = found()
    assert programs is not None
    driver = subprocess.Popen([programs[1], "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout is not None
        started = (re.search(r"on port (\d+)\.", line) for line in driver.stdout)
        port = next(match[1] for match in started if match)
        window = Browser(f"http://127.0.0.1:{port}", programs[0], folder)
        try:
            yield window
        finally:
            window.close()
    finally:
        driver.terminate()
        driver.communicate()
