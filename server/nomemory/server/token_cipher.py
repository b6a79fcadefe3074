"""Sealed tokens: cursors and write tokens, which callers return unchanged.

A token is `PREFIX` and the base64url of: one byte of version, two of length (four in a long one), twelve of nonce, and
the AES-256-GCM ciphertext of the payload (NIST SP 800-38D). The prefix and the log's name are authenticated with it, so
a token of another kind, another log or another key does not open.
"""

from __future__ import annotations

import binascii
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_LENGTH_BYTES = {1: 2, 2: 4}  # by version
_NONCE = 12
KEY_BYTES = 32


class MalformedTokenError(Exception):
    """The text is not a whole token."""


class ForgedTokenError(Exception):
    """The token was not sealed with this key for this log, or was changed."""


class KeyFileError(Exception):
    """The key file does not hold a key; the text says what to do."""


class TokenCipher:
    """Seals and opens tokens. `key` is 32 bytes; `log` names the log, in its epoch, that the tokens speak of."""

    def __init__(self, key: bytes, log: str) -> None:
        self._cipher = AESGCM(key)
        self._log = log.encode()

    def close(self, prefix: str, payload: bytes) -> str:
        """Seal a payload."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher.encrypt(nonce, payload, self._bound(prefix))
        size = len(nonce) + len(sealed)
        version = 1 if size < 1 << 16 else 2
        header = bytes([version]) + size.to_bytes(_LENGTH_BYTES[version], "big")
        token = urlsafe_b64encode(header + nonce + sealed)
        return prefix + token.rstrip(b"=").decode()

    def open(self, prefix: str, token: str) -> bytes:
        """Return the payload of a token.

        Raises:
            MalformedTokenError: cut short, or no token at all.
            ForgedTokenError: whole, but not ours.
        """
        raw = _decode(prefix, token)
        try:
            return self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], self._bound(prefix))
        except InvalidTag:
            raise ForgedTokenError from None

    def _bound(self, prefix: str) -> bytes:
        return prefix.encode() + self._log


def _decode(prefix: str, token: str) -> bytes:
    """Return nonce and ciphertext of a whole token."""
    if not token.startswith(prefix) or not token.isascii():
        raise MalformedTokenError
    body = token[len(prefix) :]
    try:
        raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except binascii.Error:
        raise MalformedTokenError from None
    header = 1 + _LENGTH_BYTES.get(raw[0] if raw else 0, 0)
    size = len(raw) - header
    if header == 1 or size <= _NONCE or int.from_bytes(raw[1:header], "big") != size:
        raise MalformedTokenError
    return raw[header:]


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
