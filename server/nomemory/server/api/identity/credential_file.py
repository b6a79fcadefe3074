"""A file that lists valid credentials; it is read again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.credentials import IdentitySettingsError, invalid_credentials
from nomemory.server.api.identity.namespace import NamespaceName
from nomemory.server.api.identity.watched_file import FileUnusableError, WatchedFile

_Content = TypeVar("_Content")


class CredentialFile(Generic[_Content]):
    """A file that says which credentials are good now. It is read again whenever it changes.

    Args:
        path: the file.
        parse: reads its bytes; raises ValueError where they make no sense, in words that quote nothing of them.
        kind: what callers are told that cannot be checked while the file is unusable.
        advice: what to do about a file that cannot be used at first.

    Raises:
        IdentitySettingsError: it cannot be used.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], _Content], kind: str, advice: str = "") -> None:
        self._file = WatchedFile(path, parse)
        self._kind = kind
        try:
            self._file.content()
        except FileUnusableError as error:
            raise IdentitySettingsError(f"{error}{advice}") from None

    def content(self) -> _Content:
        """Return what the file says.

        Raises:
            Fault: CREDENTIALS_INVALID, it has become unusable.
        """
        try:
            return self._file.content()
        except FileUnusableError:
            raise invalid_credentials(f"{self._kind} cannot be checked at the moment") from None


class CallerRecord(BaseModel):
    """What a file says of a service: its name, what it may do, and its namespace."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    scopes: frozenset[Scope]
    namespace: NamespaceName | None = None


_Document = TypeVar("_Document", bound=BaseModel)


def parse_document(document: type[_Document], raw: bytes, what: str) -> _Document:
    """Read a file of JSON.

    Raises:
        ValueError: it is not a file of that; names the faulty places.
    """
    try:
        return document.model_validate_json(raw)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, fault["loc"])) or "the whole" for fault in error.errors()[:3])
        raise ValueError(f"is not a file of {what}: {places}") from None
