"""A message in the making: what the formats fill in, checked and turned into a message or a refusal.

What an import is made of: the records of a file, and what becomes of each message in them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from nomemory.client.messages import RoleName, chat_message
from nomemory.v1 import message_pb2


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a file.

    `number` counts lines, or items of the outermost array, from 1. `within` leads on inside of it, for people.
    """

    unit: Literal["line", "item"]
    number: int
    within: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a file: a line, or an item of the outermost array. `original` is how it stood there."""

    place: Place
    value: Any
    original: object

    def part(self, within: str, value: object) -> Record:
        """Return a part of it, where that stands inside of it."""
        return Record(replace(self.place, within=within), value, value)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message to send.

    `ignored` are the fields of the original that have no place in a message. The message `keeps_id` if its id is one
    that people chose or cite; any other id may be changed to keep the order of the file (`file_order.py`).
    """

    place: Place
    original: object
    message: message_pb2.ChatMessage
    ignored: tuple[str, ...] = ()
    keeps_id: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that cannot be sent, with each reason as "field: what is wrong"."""

    place: Place
    original: object
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the file that is not something said, such as an empty node."""

    place: Place


Parsed = Accepted | Refused | Skipped


class Format(Protocol):
    """A form of file that can be imported."""

    name: str
    """What `--format` calls it."""

    title: str
    """What people call it."""

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return every message of a record, in order."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says that a file may not: whose messages these are, and when and where they were said.

    `file` is the file's name without its ending.
    """

    user: str = ""
    start: datetime | None = None
    step: timedelta = timedelta(seconds=1)
    zone: tzinfo | None = None
    file: str = ""


ORIGINAL_ROLE: Final = "original_role"
"""The metadata key that marks a message whose role was another one in the source."""


ROLES: Final[Mapping[str, RoleName]] = MappingProxyType(
    {
        "user": "user",
        "assistant": "assistant",
        "system": "system",
        "developer": "system",
        "tool": "tool",
        "function": "tool",
    }
)
METADATA_VALUE_CHARS: Final = 1024  # the contract's limit


def speaker(role: str) -> tuple[RoleName | None, dict[str, str]]:
    """Return the role of a message (None: nothing corresponds to it), and the mark that keeps the source's own word."""
    word = role.lower().removeprefix("role_")
    known = ROLES.get(word)
    return known, {} if known in {word, None} else {ORIGINAL_ROLE: word}


@dataclass(frozen=True, slots=True)
class Draft:
    """What a format found out about one message.

    `role` is the source's own word. Without a `message_id` a stable one is derived; `position` tells apart what is
    otherwise equal. A derived id may be changed to keep the order of the file, and so may a given one unless it
    `keeps_id`. Where `ts` is None there is a reason to refuse it.
    """

    user_id: str
    ts: datetime | None
    role: str
    content: str
    message_id: str = ""
    keeps_id: bool = True
    position: str = ""
    name: str = ""
    conversation_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    expire_ts: datetime | None = None
    retracts: Sequence[str] = ()
    ignored: tuple[str, ...] = ()

    def finish(self, place: Place, original: object, found_wrong: Iterable[str]) -> Accepted | Refused:
        """Make the message, or say everything that is wrong with it, beside what the format itself found wrong."""
        reasons = list(found_wrong)
        role, mark = speaker(self.role)
        if role is None:
            reasons.append(f"role: must be one of {', '.join(ROLES)}")
        if role is None or self.ts is None or reasons:
            return Refused(place, original, tuple(reasons))
        try:
            message = chat_message(
                user_id=self.user_id,
                message_id=self.message_id or self._derived_id(),
                ts=self.ts,
                role=role,
                content=self.content,
                name=self.name,
                conversation_id=self.conversation_id,
                metadata={**self.metadata, **mark},
                expire_ts=self.expire_ts,
                retracts=self.retracts,
            )
        except UnicodeEncodeError:
            return Refused(place, original, ("a text in it is not valid Unicode (half of a surrogate pair)",))
        except ValueError as error:
            return Refused(place, original, (str(error),))
        return Accepted(place, original, message, self.ignored, keeps_id=self.keeps_id and bool(self.message_id))

    def _derived_id(self) -> str:
        moment = self.ts.timestamp() if self.ts else None
        return derived_id(
            "i", self.user_id, self.conversation_id, self.position, moment, self.role, self.name, self.content
        )


def derived_id(prefix: str, *parts: object) -> str:
    """Derive an id of 28 characters that is the same for the same parts, today and on another machine."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()
    return f"{prefix}_{base64.b32encode(digest).decode().rstrip('=').lower()}"


def metadata_text(value: object) -> str:
    """Write a metadata value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
