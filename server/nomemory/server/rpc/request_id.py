"""The id of a call: the client's own if it can be logged, else a random one. It comes back in trailing metadata."""

from __future__ import annotations

import re
from secrets import token_hex

from nomemory.server.identity.metadata import Metadata

REQUEST_ID = "x-request-id"

_RANDOM_BYTES = 13
_USABLE = re.compile(r"[\x21-\x7e]{1,128}")


def request_id_of(metadata: Metadata) -> str:
    """Return the client's id where it is 1 to 128 visible ASCII characters, else 26 random hexadecimal digits."""
    own = dict(metadata).get(REQUEST_ID, "")
    return own if isinstance(own, str) and _USABLE.fullmatch(own) else token_hex(_RANDOM_BYTES)
