"""A token issuer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

SECRET = "a shared secret of more than thirty-two bytes"  # noqa: S105 - it guards nothing
ISSUER, AUDIENCE = "https://issuer.example", "nomemory"
TRUSTED = {"jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
"""The settings of a server that takes its tokens."""


def claims(user: str, **changed: Any) -> dict[str, Any]:  # noqa: ANN401 - a claim may be anything
    """Return the claims of a valid token; None removes a claim."""
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "exp": datetime.now(UTC) + timedelta(minutes=5),
        "scope": "query recall",
    }
    return {name: value for name, value in (good | changed).items() if value is not None}


def token(user: str, **changed: Any) -> str:  # noqa: ANN401 - as above
    """Sign a token with the shared secret."""
    return jwt.encode(claims(user, **changed), SECRET, "HS256")
