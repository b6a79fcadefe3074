"""A headless browser, and pages of separate origins for it."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
MISSING = "needs a browser on the PATH: apt-get install chromium"
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
    "--disable-features=AutofillServerCommunication,OptimizationHints,NetworkTimeServiceQuerying",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)  # fmt: skip


@contextmanager
def browsing(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a browser with a separate profile until the context exits."""
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [PROGRAM, *QUIET, f"--user-data-dir={profile}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield browser
        finally:
            browser.kill()
            browser.communicate(timeout=30)


@dataclass(frozen=True)
class Pages:
    """A web server of one page: it serves the page's configuration and collects the results that the page posts."""

    port: int
    configuration: dict[str, str]
    results: queue.Queue[Mapping[str, Any]]

    def origin(self, host: str) -> str:
        """Return the origin of the page for a host name of this machine; each is a separate origin."""
        return f"http://{host}:{self.port}"

    def visit(self, host: str, patience_s: float) -> Mapping[str, Any]:
        """Open the page in a browser and return its results.

        Raises:
            queue.Empty: The page did not post results in time.
        """
        with browsing(self.origin(host)):
            return self.results.get(timeout=patience_s)


@contextmanager
def serving_page(page: Path) -> Iterator[Pages]:
    """Serve a page on a free port."""
    configuration: dict[str, str] = {}
    results: queue.Queue[Mapping[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/configuration":
                self._answer("application/json", json.dumps(configuration).encode())
            elif self.path == "/":
                self._answer("text/html; charset=utf-8", page.read_bytes())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            results.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self._answer("text/plain", b"")

        def log_message(self, *_: object) -> None:
            """Disable logging."""

        def _answer(self, media_type: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", media_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Pages(server.server_address[1], configuration, results)
        finally:
            server.shutdown()
