"""A key file for tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nomemory.server.api.identity.api_keys import KeyFile, KeyRecord, generate_key, read_keys, write_keys
from nomemory.server.api.identity.caller import Scope
from nomemory.server.runtime.secure_files import file_lock


@dataclass(frozen=True)
class Keyring:
    """Creates and revokes API keys."""

    path: Path

    def key(
        self, *scopes: str, name: str = "service", expires: datetime | None = None, namespace: str | None = None
    ) -> str:
        """Create a key."""
        key = generate_key()
        record = KeyRecord(
            id=key.id,
            name=name,
            scopes=frozenset(Scope(scope) for scope in scopes),
            sha256=key.digest(),
            created=datetime.now(UTC),
            expires=expires,
            namespace=namespace,
        )
        with file_lock(self.path):
            write_keys(self.path, KeyFile(keys=(*read_keys(self.path).keys, record)))
        return key.text()

    def revoke(self, key: str) -> None:
        """Remove a key."""
        key_id = key.split("_")[1]
        with file_lock(self.path):
            write_keys(self.path, KeyFile(keys=tuple(k for k in read_keys(self.path).keys if k.id != key_id)))
