"""A register of erasures as a file of JSON lines.

The first line is the header, the last line the footer, and each line between them is an erasure. The footer contains
an HMAC of all other lines, so a file that was truncated or changed is detected.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from nomemory.server.runtime.secure_files import fsync_path
from nomemory.server.store.erasure_register import KINDS, ErasureEntry, RegisterError, RegisterKey

_FORMAT: Final = 1
_US: Final = 1_000_000

_NOT_A_REGISTER: Final = "{path} is not a register of erasures"
_NEWER: Final = "{path} was exported by a newer version of NoMemory"
_OTHER_LOG: Final = "{path} is the register of another message log"
_DAMAGED: Final = "{path} is damaged or incomplete: its HMAC does not match. Use another copy of the register"


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """A verified register file.

    Attributes:
        since_us: Unix time in microseconds at which the register was created; the file contains no earlier erasure.
        exported_us: Unix time of the export in microseconds; the file contains no later erasure.
    """

    path: Path
    since_us: int
    exported_us: int
    entries: int

    def read_erasures(self) -> Iterator[ErasureEntry]:
        """Yield the erasures in the file."""
        with self.path.open("rb") as lines:
            next(lines)
            for _ in range(self.entries):
                yield _parse_erasure(orjson.loads(next(lines)))


def read_register(path: Path, key: RegisterKey) -> RegisterFile:
    """Verify and open a register file; `key` is the register key of the message log that the file must belong to.

    Raises:
        RegisterError: the file is not a register, is damaged, or belongs to another message log.
        OSError: the file cannot be read.
    """
    with path.open("rb") as lines:
        try:
            first = next(lines, b"")
            header = orjson.loads(first)
            log, since_us, exported_us = header["log"], _parse_time(header["since"]), _parse_time(header["exported"])
        except (ValueError, KeyError, TypeError):
            raise RegisterError(_NOT_A_REGISTER.format(path=path)) from None
        if header.get("format") != _FORMAT:
            raise RegisterError(_NEWER.format(path=path))
        if log != key.fingerprint:
            raise RegisterError(_OTHER_LOG.format(path=path))
        try:
            entries = _verify_lines(first, lines, key)
        except (ValueError, KeyError, TypeError):
            raise RegisterError(_DAMAGED.format(path=path)) from None
    return RegisterFile(path, since_us, exported_us, entries)


def write_register(path: Path, key: RegisterKey, since_us: int, erasures: Iterable[ErasureEntry], now_us: int) -> int:
    """Write a register file atomically, readable only by its owner, and return the number of erasures.

    Args:
        path: the register file; an existing file is replaced.
        key: the key of the register of the message log.
        since_us: Unix time in microseconds at which the register was created.
        erasures: the entries of the register.
        now_us: Unix time of the export in microseconds.

    Raises:
        OSError: the file cannot be written; an existing file is not changed.
    """
    new = path.with_name(f"{path.name}.new")
    mac, entries = hmac.new(key.key, digestmod="sha256"), 0
    header = {
        "format": _FORMAT,
        "log": key.fingerprint,
        "since": format_time(since_us),
        "exported": format_time(now_us),
    }
    with suppress(FileNotFoundError):
        new.unlink()
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _write_line(file, header, mac)
            for erasure in erasures:
                _write_line(file, _encode_erasure(erasure), mac)
                entries += 1
            file.write(orjson.dumps({"entries": entries, "hmac": mac.hexdigest()}) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    fsync_path(path.parent)
    return entries


def format_time(us: int) -> str:
    """Format a Unix time in microseconds for a register file, such as `2026-07-01T10:00:00.000000Z`."""
    time = datetime.fromtimestamp(us // _US, UTC).replace(microsecond=us % _US, tzinfo=None)
    return f"{time.isoformat(timespec='microseconds')}Z"


def _parse_time(text: str) -> int:
    time = datetime.fromisoformat(text)
    return int(time.replace(microsecond=0).timestamp()) * _US + time.microsecond


def _write_line(file: Any, fields: dict[str, object], mac: hmac.HMAC) -> None:  # noqa: ANN401 - a binary file
    line = orjson.dumps(fields) + b"\n"
    mac.update(line)
    file.write(line)


def _verify_lines(header: bytes, lines: Iterator[bytes], key: RegisterKey) -> int:
    """Verify the lines after the header of a register file, and return the number of erasures.

    Raises:
        ValueError, KeyError, TypeError: a line is malformed, or the HMAC does not match.
    """
    mac, entries, line = hmac.new(key.key, header, "sha256"), 0, next(lines, b"")
    for following in lines:
        mac.update(line)
        _parse_erasure(orjson.loads(line))
        entries, line = entries + 1, following
    footer = orjson.loads(line)
    if footer["entries"] != entries or not hmac.compare_digest(str(footer["hmac"]), mac.hexdigest()):
        raise ValueError
    return entries


def _encode_erasure(erasure: ErasureEntry) -> dict[str, object]:
    return {
        "kind": erasure.kind,
        "id": erasure.digest.hex(),
        "epoch": erasure.epoch,
        "sequence": erasure.sequence,
        "time": format_time(erasure.erased_us),
    }


def _parse_erasure(fields: dict[str, Any]) -> ErasureEntry:
    kind = fields["kind"]
    if kind not in KINDS:
        raise ValueError(kind)
    return ErasureEntry(
        bytes.fromhex(fields["id"]), kind, str(fields["epoch"]), int(fields["sequence"]), _parse_time(fields["time"])
    )
