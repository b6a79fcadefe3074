"""Sealed tokens: cursors and write tokens, which callers return unchanged.

A token is `PREFIX` and the base64url of: one byte of version, two of length (four in a long one), twelve of nonce, and
the AES-256-GCM ciphertext of the payload (NIST SP 800-38D). The prefix and the log's name are authenticated with it, so
a token of another kind, another log or another key does not open.
"""

from __future__ import annotations

import binascii
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_LENGTH_BYTES = {1: 2, 2: 4}  # by version
_NONCE = 12
KEY_BYTES = 32
Ciphers = tuple[AESGCM, ...]


class MalformedTokenError(Exception):
    """The text is not a whole token."""


class ForgedTokenError(Exception):
    """The token was not sealed with this key for this log, or was changed."""


class TokenCipher:
    """Seals and opens tokens.

    Args:
        keys: one key of 32 bytes, or two, one after the other: the first one seals, each of them opens.
        log: names the log, in its epoch, that the tokens speak of.
    """

    def __init__(self, keys: bytes, log: str) -> None:
        self._ciphers = ciphers_of(keys)
        self._log = log.encode()

    def ciphers(self) -> Ciphers:
        """Return the ciphers to use now; the first one seals."""
        return self._ciphers

    def close(self, prefix: str, payload: bytes) -> str:
        """Seal a payload."""
        nonce = os.urandom(_NONCE)
        sealed = self.ciphers()[0].encrypt(nonce, payload, self._bound(prefix))
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
        for cipher in self.ciphers():
            with suppress(InvalidTag):
                return cipher.decrypt(raw[:_NONCE], raw[_NONCE:], self._bound(prefix))
        raise ForgedTokenError

    def _bound(self, prefix: str) -> bytes:
        return prefix.encode() + self._log


def ciphers_of(keys: bytes) -> Ciphers:
    """Return the cipher of each key."""
    return tuple(AESGCM(keys[start : start + KEY_BYTES]) for start in range(0, len(keys), KEY_BYTES))


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
