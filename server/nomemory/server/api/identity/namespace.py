"""Namespaces: what keeps applications on one server apart.

A caller in the namespace `acme` says `lin`, and the server stores `acme/lin`. A namespace's name has no slash, so no
prefix begins with another one, and nothing that a caller can say names a user outside of its own namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

_NAME: Final = r"[A-Za-z0-9_.-]{1,64}"
_FORM: Final = re.compile(_NAME)
_PREFIX: Final = re.compile(f"{_NAME}/")

NamespaceName = Annotated[str, Field(pattern=f"^{_NAME}$")]
"""A namespace's name in a file: 1 to 64 letters (a to z, A to Z), digits, `_`, `.` and `-`."""


class ForeignUserError(Exception):
    """A reply names a user outside of its caller's namespace. It never leaves the server."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of user ids.

    Raises:
        ValueError: the name is not of a namespace's form.
    """

    name: str

    def __post_init__(self) -> None:
        if not is_namespace(self.name):
            raise ValueError("a namespace has 1 to 64 letters, digits, dots, dashes and underscores")

    @property
    def prefix(self) -> str:
        """What the stored ids of its users begin with."""
        return f"{self.name}/"

    def stored_id(self, user_id: str) -> str:
        """Return the id under which a user is stored. A blank id names nobody: it stays, and is refused as blank."""
        return self.prefix + user_id if user_id.strip() else user_id

    def external_id(self, stored: str) -> str:
        """Return a stored id as the caller knows it. A field that a mask has emptied stays empty.

        Raises:
            ForeignUserError: the user is of another namespace, or of none.
        """
        if not stored:
            return stored
        if not stored.startswith(self.prefix):
            raise ForeignUserError
        return stored.removeprefix(self.prefix)


def is_namespace(name: str) -> bool:
    """Return whether a text can be a namespace's name."""
    return _FORM.fullmatch(name) is not None


def namespace_of(name: str | None) -> Namespace | None:
    """Return the namespace of a name; None for none.

    Raises:
        ValueError: the name is not of a namespace's form.
    """
    return Namespace(name) if name else None


def without_namespace(stored: str) -> str:
    """Return a stored id without its namespace: the part that the limit on ids is about."""
    prefix = _PREFIX.match(stored)
    return stored[prefix.end() :] if prefix else stored
