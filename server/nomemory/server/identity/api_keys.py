"""Callers with API keys: services."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from nomemory.server.identity.api_key import parse_key
from nomemory.server.identity.caller import Caller
from nomemory.server.identity.credentials import invalid_credentials
from nomemory.server.identity.key_file import KeyRecord, parse_keys
from nomemory.server.identity.namespace import namespace_of
from nomemory.server.identity.settings_error import IdentitySettingsError
from nomemory.server.identity.watched_file import FileUnusableError, WatchedFile


class ApiKeys:
    """The keys of a file, which is read again whenever it changes: a revoked key is good for no further call.

    Args:
        path: the file.
        now: gives the time, with its zone.

    Raises:
        IdentitySettingsError: the file cannot be used.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file = WatchedFile(path, lambda raw: parse_keys(raw).by_id())
        self._now = now
        try:
            self._file.content()
        except FileUnusableError as error:
            raise IdentitySettingsError(f"{error}. Make a key with: nomemory keys create") from None

    def caller(self, text: str) -> Caller:
        """Return the service that holds a key.

        Raises:
            Fault: CREDENTIALS_INVALID.
        """
        key = parse_key(text)
        record = self._records().get(key.id) if key else None
        if key is None or record is None or not key.matches(record.sha256):
            raise invalid_credentials("this API key is not valid")
        if record.is_expired(self._now()):
            raise invalid_credentials("this API key has expired")
        return Caller(record.name, record.scopes, namespace=namespace_of(record.namespace))

    def _records(self) -> dict[str, KeyRecord]:
        try:
            return self._file.content()
        except FileUnusableError:
            raise invalid_credentials("API keys cannot be checked at the moment") from None
