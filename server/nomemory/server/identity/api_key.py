"""One API key: `nm_<id>_<secret>`. The id is no secret, it finds the record; the secret is 256 random bits.

A secret is kept as its plain SHA-256. Slow hashes with salt are for passwords, which people choose and others guess;
nobody can guess 256 random bits, so a slow hash would only slow every call down.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = "nm_"
_FORM: Final = re.compile(r"nm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key taken apart."""

    id: str
    secret: str = field(repr=False)

    def text(self) -> str:
        """Return the key as its holder sends it."""
        return f"{PREFIX}{self.id}_{self.secret}"

    def digest(self) -> str:
        """Return what is kept of the secret."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, digest: str) -> bool:
        """Return whether, compared in constant time, this is the key that a digest is of."""
        return hmac.compare_digest(self.digest(), digest)


def new_key() -> ApiKey:
    """Make a new key."""
    return ApiKey(secrets.token_hex(6), secrets.token_urlsafe(32))


def parse_key(text: str) -> ApiKey | None:
    """Take a key apart; None where the text is not of a key's form."""
    form = _FORM.fullmatch(text)
    return ApiKey(form[1], form[2]) if form else None
