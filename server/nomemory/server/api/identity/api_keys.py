"""Callers with API keys: services.

A key is `nm_<id>_<secret>`. The id is no secret, it finds the record in the file of keys; the secret is 256 random
bits. It is kept as its plain SHA-256. Slow hashes with salt are for passwords, which people choose and others guess;
nobody can guess 256 random bits, so a slow hash would only slow every call down.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, Field, field_serializer

from nomemory.server.api.identity.caller import Caller, Scope
from nomemory.server.api.identity.credential_file import CallerRecord, CredentialFile, parse_document
from nomemory.server.api.identity.credentials import KEY_PREFIX, invalid_credentials
from nomemory.server.api.identity.namespace import namespace_of
from nomemory.server.runtime.secure_files import write_atomically

_FORM: Final = re.compile(r"nm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key taken apart."""

    id: str
    secret: str = field(repr=False)

    def text(self) -> str:
        """Return the key as its holder sends it."""
        return f"{KEY_PREFIX}{self.id}_{self.secret}"

    def digest(self) -> str:
        """Return what is kept of the secret."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, digest: str) -> bool:
        """Return whether, compared in constant time, this is the key that a digest is of."""
        return hmac.compare_digest(self.digest(), digest)


def new_key() -> ApiKey:
    """Make a new key."""
    return ApiKey(secrets.token_hex(6), secrets.token_urlsafe(32))


def parse_key(text: str) -> ApiKey | None:
    """Take a key apart; None where the text is not of a key's form."""
    form = _FORM.fullmatch(text)
    return ApiKey(form[1], form[2]) if form else None


class KeyRecord(CallerRecord):
    """What is known of one key. `sha256` is of its secret, in hexadecimal; times carry their zone."""

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    created: AwareDatetime
    expires: AwareDatetime | None = None

    @field_serializer("scopes")
    def _in_order(self, scopes: frozenset[Scope]) -> list[str]:
        return sorted(scopes)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the key's time is over."""
        return self.expires is not None and now >= self.expires


class KeyFile(BaseModel):
    """The file. A key is revoked by taking it out. No key can be read out of it."""

    model_config = CallerRecord.model_config

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
    file = parse_document(KeyFile, raw, "API keys")
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


def write_keys(path: Path, file: KeyFile) -> None:
    """Put a new file in the old one's place in one step. Who may read it stays; at first that is its owner only."""
    content = file.model_dump_json(indent=2, exclude_none=True) + "\n"
    write_atomically(path, content.encode(), like=path.stat() if path.exists() else None)


class ApiKeyAuthenticator:
    """The keys of a file: a key that is taken out is good for no further call.

    Args:
        path: the file.

    Raises:
        IdentitySettingsError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        advice = ". Make a key with: nomemory keys create"
        self._file = CredentialFile(path, lambda raw: parse_keys(raw).by_id(), "API keys", advice)

    def authenticate(self, text: str) -> Caller:
        """Return the service that holds a key.

        Raises:
            Fault: CREDENTIALS_INVALID.
        """
        key = parse_key(text)
        record = self._file.content().get(key.id) if key else None
        if key is None or record is None or not key.matches(record.sha256):
            raise invalid_credentials("this API key is not valid")
        if record.is_expired(datetime.now(UTC)):
            raise invalid_credentials("this API key has expired")
        return Caller(record.name, record.scopes, namespace=namespace_of(record.namespace))
