"""The file of the key that seals cursors and write tokens. While a key is rotated it holds two."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from nomemory.server.api.identity.watched_file import FileUnusableError, WatchedFile
from nomemory.server.runtime.secure_files import file_lock, write_atomically
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.token_cipher import KEY_BYTES, Ciphers, TokenCipher, ciphers_of


class KeyFileError(StartupError):
    """The key file does not hold a key, or cannot be rotated; the text says what to do."""


class FileTokenCipher(TokenCipher):
    """Seals and opens tokens with the keys that a file has now.

    While it cannot be read, the keys from before stay in use: what they sealed is in use, too.

    Args:
        path: the file, which is made where there is none.
        log: names the log, in its epoch, that the tokens speak of.

    Raises:
        KeyFileError: the file does not hold a key.
        OSError: it cannot be read or made.
    """

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(load_key(path), log)
        self._file = WatchedFile(path, _parse)

    def ciphers(self) -> Ciphers:
        """Return those of the file; looking whether it has changed costs one system call."""
        with suppress(FileUnusableError):  # it is in the log
            self._ciphers = self._file.content()
        return self._ciphers


def rotate_key(path: Path) -> None:
    """Put a new key before the one in use, which then only opens.

    Raises:
        KeyFileError: the file does not hold one key alone.
        OSError: it cannot be read or written.
    """
    with file_lock(path):
        keys = read_key(path)
        if len(keys) > KEY_BYTES:
            raise KeyFileError(f"{path} has an old key still: take it out first, or what it sealed is refused at once")
        # The server has to read what an administrator rotates.
        write_atomically(path, os.urandom(KEY_BYTES) + keys, like=path.stat())


def retire_key(path: Path) -> None:
    """Take out the old key. What it sealed is refused from then on.

    Raises:
        KeyFileError: there is no old key.
        OSError: the file cannot be read or written.
    """
    with file_lock(path):
        keys = read_key(path)
        if len(keys) == KEY_BYTES:
            raise KeyFileError(f"{path} has no old key")
        write_atomically(path, keys[:KEY_BYTES], like=path.stat())


def _parse(raw: bytes) -> Ciphers:
    if len(raw) not in (KEY_BYTES, 2 * KEY_BYTES):
        raise ValueError("does not hold a key")
    return ciphers_of(raw)


def load_key(path: Path) -> bytes:
    """Read the key file's one or two keys; where there is no file, one is made that only its owner can read.

    Raises:
        KeyFileError: the file does not hold a key.
        OSError: it cannot be read or made.
    """
    if not path.exists():
        write_atomically(path, os.urandom(KEY_BYTES))
    return read_key(path)


_NO_KEY = f"""\
{{path}} does not hold a key of {KEY_BYTES} bytes. Restore it from a backup, or delete it: then a new key is made, and \
cursors and write tokens in use are refused."""


def read_key(path: Path) -> bytes:
    """Read the key file's one or two keys.

    Raises:
        KeyFileError: the file does not hold a key.
        OSError: it cannot be read.
    """
    keys = path.read_bytes()
    if len(keys) not in (KEY_BYTES, 2 * KEY_BYTES):
        raise KeyFileError(_NO_KEY.format(path=path))
    return keys
