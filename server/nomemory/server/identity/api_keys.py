"""Callers with API keys: services.

The file of API keys: their hashes, and what each is good for. No key can be read out of it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_serializer

from nomemory.server.identity.api_key import parse_key
from nomemory.server.identity.caller import Caller, Scope
from nomemory.server.identity.credentials import invalid_credentials
from nomemory.server.identity.half_configuration import IdentitySettingsError
from nomemory.server.identity.namespace import NamespaceName, namespace_of
from nomemory.server.identity.watched_file import FileUnusableError, WatchedFile

_STRICT: Final = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class KeyRecord(BaseModel):
    """What is known of one key. `sha256` is of its secret, in hexadecimal; times carry their zone."""

    model_config = _STRICT

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    scopes: frozenset[Scope]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    created: AwareDatetime
    expires: AwareDatetime | None = None
    namespace: NamespaceName | None = None

    @field_serializer("scopes")
    def _in_order(self, scopes: frozenset[Scope]) -> list[str]:
        return sorted(scopes)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the key's time is over."""
        return self.expires is not None and now >= self.expires


class KeyFile(BaseModel):
    """The file. A key is revoked by taking it out."""

    model_config = _STRICT

    version: Literal[1] = 1
    keys: tuple[KeyRecord, ...] = ()

    def by_id(self) -> dict[str, KeyRecord]:
        """Return the keys by their ids."""
        return {key.id: key for key in self.keys}


def parse_keys(raw: bytes) -> KeyFile:
    """Read the file's bytes.

    Raises:
        ValueError: they are not a file of keys; names the faulty places.
    """
    try:
        file = KeyFile.model_validate_json(raw)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, fault["loc"])) or "the whole" for fault in error.errors()[:3])
        raise ValueError(f"is not a file of API keys: {places}") from None
    if len(file.by_id()) != len(file.keys):
        raise ValueError("has two keys with the same id")
    return file


def read_keys(path: Path) -> KeyFile:
    """Read the file, or an empty one where there is none.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a file of keys.
    """
    return parse_keys(path.read_bytes()) if path.exists() else KeyFile()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others from changing the file meanwhile."""
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_keys(path: Path, file: KeyFile) -> None:
    """Put a new file in the old one's place in one step. Who may read it stays; at first that is its owner only."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    if path.exists():
        os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(file.model_dump_json(indent=2, exclude_none=True) + "\n")
            new.flush()
            os.fsync(new.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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
