"""Encryption of opaque tokens: cursors and write tokens.

A token is a prefix followed by the base64url encoding of a version (1 byte), the length of the rest (2 bytes, or 4 in
version 2), a nonce (12 bytes), and the AES-256-GCM ciphertext of the payload (NIST SP 800-38D). The prefix and the name
of the message log are additional authenticated data: a token of another type or another message log is rejected.
"""

from __future__ import annotations

import binascii
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_LENGTH_BYTES = {1: 2, 2: 4}  # size of the length field, by token version
_NONCE = 12
KEY_BYTES = 32
Ciphers = tuple[AESGCM, ...]


class MalformedTokenError(Exception):
    """A token is truncated or malformed."""


class ForgedTokenError(Exception):
    """A token was modified, or was encrypted with another key or for another message log."""


class TokenCipher:
    """Encrypts and decrypts cursors and write tokens.

    Args:
        keys: one key of 32 bytes, or two concatenated keys. The first key encrypts, and decryption tries both.
        log: the name of the message log with its epoch.
    """

    def __init__(self, keys: bytes, log: str) -> None:
        self._ciphers = create_ciphers(keys)
        self._log = log.encode()

    def get_ciphers(self) -> Ciphers:
        """Return the ciphers of the current keys. The first cipher encrypts."""
        return self._ciphers

    def encrypt(self, prefix: str, payload: bytes) -> str:
        """Encrypt a payload and return the token."""
        nonce = os.urandom(_NONCE)
        ciphertext = self.get_ciphers()[0].encrypt(nonce, payload, self._build_associated_data(prefix))
        size = len(nonce) + len(ciphertext)
        version = 1 if size < 1 << 16 else 2
        header = bytes([version]) + size.to_bytes(_LENGTH_BYTES[version], "big")
        token = urlsafe_b64encode(header + nonce + ciphertext)
        return prefix + token.rstrip(b"=").decode()

    def decrypt(self, prefix: str, token: str) -> bytes:
        """Decrypt a token and return its payload.

        Raises:
            MalformedTokenError: the token is truncated or malformed.
            ForgedTokenError: no key authenticates the token.
        """
        raw = _decode_token(prefix, token)
        for cipher in self.get_ciphers():
            with suppress(InvalidTag):
                return cipher.decrypt(raw[:_NONCE], raw[_NONCE:], self._build_associated_data(prefix))
        raise ForgedTokenError

    def _build_associated_data(self, prefix: str) -> bytes:
        return prefix.encode() + self._log


def create_ciphers(keys: bytes) -> Ciphers:
    """Return an AES-GCM cipher for each of the concatenated keys."""
    return tuple(AESGCM(keys[start : start + KEY_BYTES]) for start in range(0, len(keys), KEY_BYTES))


def _decode_token(prefix: str, token: str) -> bytes:
    """Return the nonce and ciphertext of a token."""
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
