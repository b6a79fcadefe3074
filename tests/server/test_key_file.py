"""Tests for the atomic and durable creation of the server key."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nomemory.server.runtime.token_cipher import KEY_BYTES
from nomemory.server.runtime.token_keys import KeyFileError, load_or_create_key


def test_key_file_is_created_once_with_owner_only_permissions(tmp_path: Path) -> None:
    path = tmp_path / "server.key"
    key = load_or_create_key(path)
    assert len(key) == KEY_BYTES
    assert load_or_create_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_key_is_synced_to_disk_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "server.key"
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space left"):
            load_or_create_key(path)
    assert not path.exists()
    assert len(load_or_create_key(path)) == KEY_BYTES


def test_directory_is_synced_after_the_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.key"
    synced: list[tuple[bool, bool]] = []

    def note(descriptor: int, sync: object = os.fsync) -> None:
        assert callable(sync)
        is_directory = os.fstat(descriptor).st_ino == tmp_path.stat().st_ino
        synced.append((is_directory, path.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    load_or_create_key(path)
    assert synced == [(False, False), (True, True)]


def test_a_partial_key_file_of_a_crash_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "server.key.new").write_bytes(b"half a")
    assert len(load_or_create_key(tmp_path / "server.key")) == KEY_BYTES


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 33])
def test_damaged_key_file_is_not_replaced(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "server.key"
    path.write_bytes(damaged)
    with pytest.raises(KeyFileError, match=r"server\.key does not contain a key of 32 bytes\. Restore it"):
        load_or_create_key(path)
    assert path.read_bytes() == damaged
