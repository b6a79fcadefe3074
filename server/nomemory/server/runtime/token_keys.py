"""The key file, with the key that encrypts cursors and write tokens, or two keys during a key rotation."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from nomemory.server.api.identity.watched_file import UnusableFileError, WatchedFile
from nomemory.server.runtime.secure_files import file_lock, write_atomically
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.token_cipher import KEY_BYTES, Ciphers, TokenCipher, create_ciphers


class KeyFileError(StartupError):
    """The token key file is invalid, or its keys cannot be rotated."""


class FileTokenCipher(TokenCipher):
    """A `TokenCipher` that reloads its keys when the key file changes.

    If the file becomes unreadable, the previous keys remain in use.

    Args:
        path: the key file, which is created if it is missing.
        log: the name of the message log with its epoch.

    Raises:
        KeyFileError: the file does not contain a key.
        OSError: the file cannot be read or created.
    """

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(load_or_create_key(path), log)
        self._file = WatchedFile(path, _parse_keys)

    def get_ciphers(self) -> Ciphers:
        """Return the ciphers of the current keys; one system call detects changes of the file."""
        with suppress(UnusableFileError):  # WatchedFile logs the error
            self._ciphers = self._file.load()
        return self._ciphers


def rotate_key(path: Path) -> None:
    """Add a new key, which encrypts from then on. The previous key only decrypts.

    Raises:
        KeyFileError: the file does not contain exactly one key.
        OSError: the file cannot be read or written.
    """
    with file_lock(path):
        keys = read_key(path)
        if len(keys) > KEY_BYTES:
            raise KeyFileError(f"{path} still contains an old key: run `nomemory cursor-key retire` first")
        # Keep owner and mode: the server must be able to read the file after an administrator rotates the key.
        write_atomically(path, os.urandom(KEY_BYTES) + keys, like=path.stat())


def retire_key(path: Path) -> None:
    """Remove the previous key, whose tokens are rejected from then on.

    Raises:
        KeyFileError: the file does not contain a previous key.
        OSError: the file cannot be read or written.
    """
    with file_lock(path):
        keys = read_key(path)
        if len(keys) == KEY_BYTES:
            raise KeyFileError(f"{path} does not contain an old key: run `nomemory cursor-key rotate` first")
        write_atomically(path, keys[:KEY_BYTES], like=path.stat())


def _parse_keys(raw: bytes) -> Ciphers:
    if len(raw) not in (KEY_BYTES, 2 * KEY_BYTES):
        raise ValueError(f"must contain one or two keys of {KEY_BYTES} bytes, got {len(raw)} bytes")
    return create_ciphers(raw)


def load_or_create_key(path: Path) -> bytes:
    """Read the keys of the key file, or create the file with a random key if it is missing.

    Raises:
        KeyFileError: the file does not contain a key.
        OSError: the file cannot be read or created.
    """
    if not path.exists():
        write_atomically(path, os.urandom(KEY_BYTES))
    return read_key(path)


_NO_KEY = f"""\
{{path}} does not contain a key of {KEY_BYTES} bytes. Restore it from a backup. If you delete it, the server creates a \
new key and rejects existing cursors and write tokens."""


def read_key(path: Path) -> bytes:
    """Read the one or two keys of the key file.

    Raises:
        KeyFileError: the file does not contain a key.
        OSError: the file cannot be read.
    """
    keys = path.read_bytes()
    if len(keys) not in (KEY_BYTES, 2 * KEY_BYTES):
        raise KeyFileError(_NO_KEY.format(path=path))
    return keys
