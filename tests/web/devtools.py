"""A headless browser that tests control with the DevTools protocol over pipes."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from web.chromium import PROGRAM, QUIET

PATIENCE_S: Final = 90.0
_POLL_S: Final = 0.02
_PIPED: Final = 'exec "$0" "$@" 3<&"$FROM_TEST" 4>&"$TO_TEST"'
KEYS: Final = {
    "Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "End": 35,
    "Home": 36, "PageUp": 33, "PageDown": 34,
}  # fmt: skip


class DevToolsError(Exception):
    """The browser rejected a command, or a script of the page failed."""


class PageLeftError(DevToolsError):
    """The page was replaced by another one before it answered."""


_LEFT: Final = ("Inspected target navigated or closed", "Execution context was destroyed.")


class Browser:
    """A running browser, which opens pages sequentially or side by side.

    Args: write: the pipe for commands. read: the pipe of responses and events.
    """

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._last = 0
        self.events: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        threading.Thread(target=self._take, args=(read,), daemon=True).start()

    def command(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Send a command; return its result.

        Raises:
            PageLeftError: the page that it is for is no longer there.
            DevToolsError: it is refused.
        """
        self._last += 1
        number = self._last
        sent = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        answered = self._answers[number] = queue.Queue()  # before a response can arrive
        pending = json.dumps(sent).encode() + b"\0"
        while pending:
            pending = pending[os.write(self._write, pending) :]
        answer = answered.get(timeout=PATIENCE_S)
        if "error" in answer:
            message = answer["error"]["message"]
            raise (PageLeftError if message in _LEFT else DevToolsError)(f"{method}: {message}")
        result: dict[str, Any] = answer["result"]
        return result

    def page(self, url: str = "about:blank", *, width: int = 1280, height: int = 800) -> Page:
        """Open a page in a separate context without stored data."""
        context = self.command("Target.createBrowserContext")["browserContextId"]
        target = self.command("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.command(f"{domain}.enable")
        page.resize(width, height)
        if url != "about:blank":
            page.go(url)
        return page

    def _take(self, read: int) -> None:
        pending = b""
        while part := os.read(read, 1 << 20):
            *whole, pending = (pending + part).split(b"\0")
            for raw in whole:
                message = json.loads(raw)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                else:
                    self.events[message.get("sessionId", "")].append(message)


class Page:
    """A page in a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def command(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command for this page."""
        return self._browser.command(method, self._session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        """Return the events of a kind, oldest first."""
        received = list(self._browser.events[self._session])
        return [event["params"] for event in received if event["method"] == method]

    def go(self, url: str) -> None:
        """Load a URL."""
        answer = self.command("Page.navigate", url=url)
        if "errorText" in answer:
            raise DevToolsError(answer["errorText"])
        self.until("document.readyState === 'complete'")

    def reload(self) -> None:
        """Reload the page."""
        self.value("window.isOld = true")
        self.command("Page.reload")
        self.until("!window.isOld && document.readyState === 'complete'")

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Set the size of the page in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, **features: str) -> None:
        """Set preferences of the system, for example `color_scheme="dark"`."""
        features_to_emulate = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()
        ]
        self.command("Emulation.setEmulatedMedia", features=features_to_emulate)

    def value(self, script: str) -> Any:  # noqa: ANN401 - whatever the script says
        """Return the value of an expression or of its promise.

        Raises: DevToolsError: The expression throws.
        """
        done = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise DevToolsError(details.get("exception", {}).get("description", details["text"]))
        return done["result"].get("value")

    def until(self, script: str, patience_s: float = PATIENCE_S) -> Any:  # noqa: ANN401 - as above
        """Wait until an expression is true, on this page or the next; return its value.

        Raises: TimeoutError: It does not become true.
        """
        deadline = time.monotonic() + patience_s
        while not (value := self._found(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never: {script}\n{self.value('document.body.innerText')}")
            time.sleep(_POLL_S)
        return value

    def _found(self, script: str) -> Any:  # noqa: ANN401 - as above
        try:
            return self.value(f"(async found => (await found) instanceof Node || found)({script})")
        except PageLeftError:
            return None

    def text(self, selector: str) -> str:
        """Return the displayed text of an element when it exists."""
        return str(self.until(f"document.querySelector({json.dumps(selector)})?.innerText"))

    def click(self, selector: str) -> None:
        """Click on the center of an element."""
        selector_json = json.dumps(selector)
        self.until(f"document.querySelector({selector_json})?.checkVisibility()")
        self.value(f"document.querySelector({selector_json}).scrollIntoView({{block: 'nearest'}})")
        box = self.value(f"document.querySelector({selector_json}).getBoundingClientRect().toJSON()")
        where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, **where)

    def write(self, selector: str, text: str) -> None:
        """Replace the content of a field."""
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.value(f"document.querySelector({json.dumps(selector)}).focus()")
        self.command("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        sent: dict[str, object] = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 * shift}
        if key == "Enter":
            sent["text"] = "\r"
        self.command("Input.dispatchKeyEvent", type="keyDown", **sent)
        self.command("Input.dispatchKeyEvent", type="keyUp", **sent)

    def picture(self) -> bytes:
        """Return a screenshot of the page as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])

    def complaints(self) -> list[str]:
        """Return the errors in the console of the page: exceptions and violations of its security policy."""
        thrown = [event["exceptionDetails"] for event in self.events("Runtime.exceptionThrown")]
        logged = [event["entry"] for event in self.events("Log.entryAdded")]
        return [item.get("exception", {}).get("description", item["text"]) for item in thrown] + [
            f"{message['text']} {message.get('url', '')}" for message in logged if message["level"] == "error"
        ]


@contextmanager
def driven() -> Iterator[Browser]:
    """Run a browser with a separate profile until the context exits."""
    profile = tempfile.mkdtemp(prefix="browser-")
    to_browser, from_test = os.pipe()[::-1]
    from_browser, to_test = os.pipe()
    arguments = [*QUIET, "--remote-debugging-pipe", f"--user-data-dir={profile}", "--hide-scrollbars", "about:blank"]
    browser = subprocess.Popen(
        ["bash", "-c", _PIPED, PROGRAM, *arguments],  # noqa: S607 - a shell that can hand over pipes by number
        pass_fds=(from_test, to_test),
        env={**os.environ, "FROM_TEST": str(from_test), "TO_TEST": str(to_test), "TZ": "UTC"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (from_test, to_test):
        os.close(end)
    try:
        yield Browser(to_browser, from_browser)
    finally:
        browser.kill()
        browser.wait(30)
        os.close(to_browser)
        shutil.rmtree(profile, ignore_errors=True)
