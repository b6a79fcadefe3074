"""Namespaces of user ids, which isolate applications on one server.

If a caller in the namespace `acme` uses the user id `lin`, the server stores `acme/lin`. Because namespace names
contain no slash, no prefix starts with another prefix, and a caller cannot address users of other namespaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

_NAME: Final = r"[A-Za-z0-9_.-]{1,64}"
_NAME_PATTERN: Final = re.compile(_NAME)
_PREFIX: Final = re.compile(f"{_NAME}/")

NamespaceName = Annotated[str, Field(pattern=f"^{_NAME}$")]
"""The name of a namespace: 1 to 64 ASCII letters, digits, `_`, `.` and `-`."""


class ForeignUserError(Exception):
    """A response contains a user id from outside the caller's namespace, which makes the call fail with INTERNAL."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of user ids, identified by its name.

    Raises:
        ValueError: the name is not a valid namespace name.
    """

    name: str

    def __post_init__(self) -> None:
        if not is_namespace(self.name):
            raise ValueError("a namespace must be 1 to 64 ASCII letters, digits, dots, dashes and underscores")

    @property
    def prefix(self) -> str:
        """The prefix of the stored ids of the namespace's users."""
        return f"{self.name}/"

    def to_stored_id(self, user_id: str) -> str:
        """Add the prefix to a user id, unless the id is blank and validation will reject it."""
        return self.prefix + user_id if user_id.strip() else user_id

    def to_external_id(self, stored: str) -> str:
        """Remove the prefix from a stored id, unless the id is empty because a field mask excludes it.

        Raises:
            ForeignUserError: the stored id does not start with the prefix.
        """
        if not stored:
            return stored
        if not stored.startswith(self.prefix):
            raise ForeignUserError
        return stored.removeprefix(self.prefix)


def is_namespace(name: str) -> bool:
    """Return whether a text is a valid namespace name."""
    return _NAME_PATTERN.fullmatch(name) is not None


def create_namespace(name: str | None) -> Namespace | None:
    """Return the namespace with a name, or None if the name is None or empty.

    Raises:
        ValueError: the name is not a valid namespace name.
    """
    return Namespace(name) if name else None


def remove_namespace_prefix(stored: str) -> str:
    """Remove the namespace prefix, if any, from a stored user id."""
    prefix = _PREFIX.match(stored)
    return stored[prefix.end() :] if prefix else stored
