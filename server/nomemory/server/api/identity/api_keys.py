"""API keys.

A key has the form `nm_<id>_<secret>`. The id identifies the record of the key in the key file and is not secret. The
secret consists of 256 random bits, and the key file contains its unsalted SHA-256 hash. A slow, salted hash would delay
every call, and is not needed because a random 256-bit secret cannot be guessed.
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
from nomemory.server.api.identity.credentials import KEY_PREFIX, build_invalid_credentials_fault
from nomemory.server.api.identity.namespace import create_namespace
from nomemory.server.runtime.secure_files import write_atomically

_KEY_PATTERN: Final = re.compile(r"nm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A parsed API key."""

    id: str
    secret: str = field(repr=False)

    def text(self) -> str:
        """Return the text of the key, `nm_<id>_<secret>`."""
        return f"{KEY_PREFIX}{self.id}_{self.secret}"

    def digest(self) -> str:
        """Return the SHA-256 hash of the key's secret, in hexadecimal."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, digest: str) -> bool:
        """Compare the digest of the key's secret with `digest` in constant time."""
        return hmac.compare_digest(self.digest(), digest)


def generate_key() -> ApiKey:
    """Generate an API key with a random id and a random secret."""
    return ApiKey(secrets.token_hex(6), secrets.token_urlsafe(32))


def parse_key(text: str) -> ApiKey | None:
    """Parse an API key; return None if the text is not a well-formed key."""
    match = _KEY_PATTERN.fullmatch(text)
    return ApiKey(match[1], match[2]) if match else None


class KeyRecord(CallerRecord):
    """The record of an API key in the key file. `sha256` is the hash of the secret, in hexadecimal."""

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    created: AwareDatetime
    expires: AwareDatetime | None = None

    @field_serializer("scopes")
    def _serialize_scopes(self, scopes: frozenset[Scope]) -> list[str]:
        return sorted(scopes)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the API key has expired."""
        return self.expires is not None and now >= self.expires


class KeyFile(BaseModel):
    """The content of a key file, which contains no secrets.

    Deleting the record of a key revokes the key.
    """

    model_config = CallerRecord.model_config

    version: Literal[1] = 1
    keys: tuple[KeyRecord, ...] = ()

    def map_records_by_id(self) -> dict[str, KeyRecord]:
        """Return the records of the keys by key id."""
        return {key.id: key for key in self.keys}


def parse_keys(raw: bytes) -> KeyFile:
    """Parse a key file.

    Raises:
        ValueError: the file is malformed; the message names the invalid fields.
    """
    file = parse_document(KeyFile, raw, "API keys")
    if len(file.map_records_by_id()) != len(file.keys):
        raise ValueError("duplicate key id")
    return file


def read_keys(path: Path) -> KeyFile:
    """Read a key file, or return an empty `KeyFile` if the file does not exist.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is malformed.
    """
    return parse_keys(path.read_bytes()) if path.exists() else KeyFile()


def write_keys(path: Path, file: KeyFile) -> None:
    """Replace a key file atomically and keep its permissions, or create a file that only its owner can read."""
    content = file.model_dump_json(indent=2, exclude_none=True) + "\n"
    write_atomically(path, content.encode(), like=path.stat() if path.exists() else None)


class ApiKeyAuthenticator:
    """Authenticates services by API keys.

    A change to the key file takes effect with the next call.

    Raises:
        IdentitySettingsError: the file cannot be read or is malformed.
    """

    def __init__(self, path: Path) -> None:
        advice = ". Create a key with: nomemory keys create"
        self._file = CredentialFile(path, lambda raw: parse_keys(raw).map_records_by_id(), "API keys", advice)

    def authenticate(self, text: str) -> Caller:
        """Return the service that an API key belongs to.

        Raises:
            Fault: CREDENTIALS_INVALID.
        """
        key = parse_key(text)
        record = self._file.load().get(key.id) if key else None
        if key is None or record is None or not key.matches(record.sha256):
            raise build_invalid_credentials_fault("this API key is not valid")
        if record.is_expired(datetime.now(UTC)):
            raise build_invalid_credentials_fault("this API key has expired")
        return Caller(record.name, record.scopes, namespace=create_namespace(record.namespace))
