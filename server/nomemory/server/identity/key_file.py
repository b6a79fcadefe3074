"""The file of API keys: their hashes, and what each is good for. No key can be read out of it."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_serializer

from nomemory.server.identity.namespace import NamespaceName
from nomemory.server.identity.scope import Scope

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
