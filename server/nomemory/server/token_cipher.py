"""Sealed tokens: cursors and write tokens, which callers return unchanged.

A token is `PREFIX` and the base64url of: one byte of version, two of length, twelve of nonce, and the AES-256-GCM
ciphertext of the payload (NIST SP 800-38D). The prefix and the log's name are authenticated with it, so a token of
another kind, another log or another key does not open.
"""

from __future__ import annotations

import binascii
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION = 1
_NONCE = 12
_HEADER = 3
KEY_BYTES = 32


class MalformedTokenError(Exception):
    """The text is not a whole token."""


class ForgedTokenError(Exception):
    """The token was not sealed with this key for this log, or was changed."""


class KeyFileError(Exception):
    """The key file does not hold a key; the text says what to do."""


class TokenCipher:
    """Seals and opens tokens. `key` is 32 bytes; `log_id` names the log that the tokens speak of."""

    def __init__(self, key: bytes, log_id: str) -> None:
        self._cipher = AESGCM(key)
        self._log_id = log_id.encode()

    def close(self, prefix: str, payload: bytes) -> str:
        """Seal a payload of up to 60,000 bytes."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher.encrypt(nonce, payload, self._bound(prefix))
        size = len(nonce) + len(sealed)
        token = urlsafe_b64encode(bytes([_VERSION]) + size.to_bytes(2, "big") + nonce + sealed)
        return prefix + token.rstrip(b"=").decode()

    def open(self, prefix: str, token: str) -> bytes:
        """Return the payload of a token.

        Raises:
            MalformedTokenError: cut short, or no token at all.
            ForgedTokenError: whole, but not ours.
        """
        raw = _decode(prefix, token)
        try:
            return self._cipher.decrypt(raw[_HEADER : _HEADER + _NONCE], raw[_HEADER + _NONCE :], self._bound(prefix))
        except InvalidTag:
            raise ForgedTokenError from None

    def _bound(self, prefix: str) -> bytes:
        return prefix.encode() + self._log_id


def _decode(prefix: str, token: str) -> bytes:
    if not token.startswith(prefix) or not token.isascii():
        raise MalformedTokenError
    body = token[len(prefix) :]
    try:
        raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except binascii.Error:
        raise MalformedTokenError from None
    whole = len(raw) > _HEADER + _NONCE and raw[0] == _VERSION and int.from_bytes(raw[1:3], "big") == len(raw) - _HEADER
    if not whole:
        raise MalformedTokenError
    return raw


def load_key(path: Path) -> bytes:
    """Read the key file; where there is none, one is made that only its owner can read.

    Raises:
        KeyFileError: the file does not hold a key.
        OSError: it cannot be read or made.
    """
    if not path.exists():
        _make_key(path)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise KeyFileError(_NO_KEY.format(path=path))
    return key


_NO_KEY = f"""\
{{path}} does not hold a key of {KEY_BYTES} bytes. Restore it from a backup, or delete it: then a new key is made, and \
cursors and write tokens in use are refused."""


def _make_key(path: Path) -> None:
    """Put a new key in its place in one step, so that a crash leaves the whole of it or none."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(os.urandom(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
