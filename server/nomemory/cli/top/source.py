"""Where the scrapes come from: `/metrics` of a server."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from typing import Final

from nomemory.cli.printable import one_line
from nomemory.cli.target import Target
from nomemory.cli.top.scrape import Scrape, parsed
from nomemory.client.identity import Identity
from nomemory.server.metrics import catalog

_PATH: Final = "/metrics"
_TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 16_000_000
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class NoScrapeError(Exception):
    """There is no scrape to be had; the text says why, and what to do."""


class Source:
    """Scrapes a server, over a connection of its own each time.

    Args:
        target: the address of its HTTP or of its metrics.
        token: the one for scrapes; None: the target's API key, if it has one.

    Raises:
        OSError: a certificate cannot be read, or does not belong to its key.
    """

    def __init__(self, target: Target, token: str | None) -> None:
        self._target = target
        self._tls = _tls(target.identity)
        credential = token or target.identity.get("api_key")
        self._headers = {"authorization": f"Bearer {credential}"} if credential else {}

    def scrape(self) -> Scrape:
        """Return what the server tells now.

        Raises:
            NoScrapeError: it does not.
        """
        try:
            status, body = self._answer()
        except (OSError, http.client.HTTPException) as error:
            raise NoScrapeError(self._away(error)) from None
        if status in _REFUSED:
            raise NoScrapeError(
                f"{self._target} refuses the scrape (HTTP {status}).\n"
                "  Give the token with NOMEMORY_METRICS_TOKEN, or a key with the scope admin with NOMEMORY_API_KEY."
            )
        return self._read(status, body)

    def _answer(self) -> tuple[int, bytes]:
        host, _, port = self._target.address.rpartition(":")
        place = host.strip("[]"), int(port)
        connection = (
            http.client.HTTPConnection(*place, timeout=_TIMEOUT_S)
            if self._tls is None
            else http.client.HTTPSConnection(*place, timeout=_TIMEOUT_S, context=self._tls)
        )
        try:
            connection.request("GET", _PATH, headers=self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_BYTES)
        finally:
            connection.close()

    def _read(self, status: int, body: bytes) -> Scrape:
        try:
            scrape = parsed(body.decode())
        except ValueError:
            scrape = Scrape({})
        if status != HTTPStatus.OK or not scrape.has(catalog.BUILD.name):
            raise NoScrapeError(f"What answers at {self._target} has no metrics of NoMemory (HTTP {status}).")
        return scrape

    def _away(self, error: Exception) -> str:
        why = one_line(str(getattr(error, "strerror", None) or error or type(error).__name__))
        return f"No metrics at {self._target}: {why}.\n  They are served by: nomemory serve --metrics {self._target}"


def _tls(identity: Identity) -> ssl.SSLContext | None:
    authorities, certificate = identity.get("tls_ca"), identity.get("tls_cert")
    if not (identity.get("tls") or authorities or certificate):
        return None
    context = ssl.create_default_context(cafile=authorities)
    if certificate:
        context.load_cert_chain(certificate, identity.get("tls_key"), password="")  # or OpenSSL asks for one
    return context
