"""A real browser for tests: headless Chromium, driven over its DevTools protocol with tornado's websocket client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 60, 60, 10
PR_SET_PDEATHSIG = 1
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-address=127.0.0.1",
    "--remote-debugging-port=0",
]
CANVASES = """(() => {
  const found = [];
  const look = (root) => root.querySelectorAll("*").forEach((element) => {
    if (element instanceof HTMLCanvasElement) found.push(element);
    if (element.shadowRoot) look(element.shadowRoot);
  });
  look(document);
  const drawn = (canvas) => canvas.width > 0 && canvas.height > 0 &&
    canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0);
  return found.filter(drawn).length;
})()"""
"""How many canvases have something on them; Bokeh's sit in shadow roots."""


class Page:
    """One page in the browser, and everything it said and asked for since it was opened.

    `messages` are those of the console, with their level; `errors` what was thrown and nobody caught, and what the
    browser itself complains of, such as a breach of the page's security policy; `requests` every URL that was asked
    for, the page's own first.
    """

    def __init__(self, address: str, downloads: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._downloads, self._number = downloads, 0
        self._socket: WebSocketClientConnection = self._loop.run_until_complete(self._connected(address))
        self.messages: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    @staticmethod
    async def _connected(address: str) -> WebSocketClientConnection:
        return await asyncio.wait_for(websocket_connect(address, max_message_size=1 << 28), START_SECONDS)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        return self._loop.run_until_complete(asyncio.wait_for(self._answer(method, parameters), ANSWER_SECONDS))

    async def _answer(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.write_message(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            raw = await self._socket.read_message()
            assert raw is not None, "the browser has closed the connection"
            message = json.loads(raw)
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str | None, what: dict[str, Any]) -> None:
        if event == "Runtime.consoleAPICalled":
            said = [str(one.get("value", one.get("description", one["type"]))) for one in what["args"]]
            self.messages.append((what["type"], " ".join(said)))
        elif event == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(f"{what['entry']['text']} {what['entry'].get('url', '')}".strip())
        elif event == "Network.requestWillBeSent":
            url = what["request"]["url"]
            if not url.startswith(("data:", "blob:")):  # these leave nobody's machine
                self.requests.append(url)

    @property
    def complaints(self) -> list[str]:
        """Whatever a page in good order does not say."""
        self.evaluate("new Promise(requestAnimationFrame)")  # events up to now have arrived
        return [text for level, text in self.messages if level in ("error", "warning", "assert")] + self.errors

    def go(self, url: str) -> None:
        """Open an address in this page and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def look(self, width: int = 1280, height: int = 900, *, dark: bool = False, print_: bool = False) -> None:
        """Choose the size of the window, and whether the reader likes it dark or wants it on paper."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        colours = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="print" if print_ else "", features=colours)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression, or what a promise comes to; what it throws fails the test."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            pytest.fail(f"{script:.200}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 30) -> Any:
        """The value of an expression as soon as there is something to it."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            if time.monotonic() > deadline:
                pytest.fail(f"still not so after {seconds:g} s: {script:.200}; complaints: {self.complaints}")
            time.sleep(0.05)
        return value

    def wait_for_canvases(self, count: int, seconds: float = 30) -> None:
        """Wait until so many canvases are drawn on."""
        self.wait_for(f"{CANVASES} >= {count}", seconds)

    def download(self, script: str, name: str, seconds: float = 30) -> bytes:
        """The file of this name that the page hands out when the script runs."""
        path = self._downloads / name
        path.unlink(missing_ok=True)
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self._downloads))
        self.evaluate(script)
        deadline = time.monotonic() + seconds
        while not path.exists():  # Chromium gives it this name when it is whole
            assert time.monotonic() < deadline, f"{name} was not downloaded within {seconds:g} s"
            time.sleep(0.05)
        return path.read_bytes()

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Keep a picture: of all of the page, or of what the window shows."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self) -> bytes:
        """The page on paper, as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF")["data"])

    def close(self) -> None:
        """Close the page; the browser stays."""
        with contextlib.suppress(AssertionError, asyncio.TimeoutError):
            self.call("Page.close")
        self._loop.run_until_complete(self._disconnected())
        self._loop.close()

    async def _disconnected(self) -> None:
        """Say goodbye from inside the loop: what closes the connection asks for the loop that runs."""
        self._socket.close()
        await asyncio.sleep(0.05)  # so that the connection is closed before its loop is


class Chromium:
    """A running browser."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port, self._folder = port, folder

    @contextlib.contextmanager
    def page(self, url: str | Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> Iterator[Page]:
        """A new page at this address, or with this file in it, closed afterwards."""
        blank = urllib.request.Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(blank, timeout=START_SECONDS) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        page = Page(address, self._folder)
        try:
            page.look(width, height, dark=dark)
            page.go(url.absolute().as_uri() if isinstance(url, Path) else url)
            yield page
        finally:
            page.close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser with nobody's settings that runs until the tests are over."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    folder = tmp_path_factory.mktemp("chromium")
    home, downloads = folder / "home", folder / "downloads"
    downloads.mkdir()
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={home}", "about:blank"],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_ends_with_us if sys.platform == "linux" else None,
        )
    try:
        yield Chromium(_port(process, home, folder / "log"), downloads)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its helpers; there is nothing to save
        process.wait(STOP_SECONDS)


def _ends_with_us() -> None:
    """Ask the kernel to end this process when its parent is gone: tests that are killed leave no browser behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _port(process: subprocess.Popen[bytes], home: Path, log: Path) -> int:
    """Where the browser listens, as soon as it does."""
    deadline, told = time.monotonic() + START_SECONDS, home / "DevToolsActivePort"
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(told.read_text().split("\n")[0])
        time.sleep(0.05)
    pytest.fail(f"the browser did not start: {log.read_text(errors='replace')[-2000:]}")
