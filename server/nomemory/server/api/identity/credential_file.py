"""Credential files, which are reloaded when they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.credentials import IdentitySettingsError, build_invalid_credentials_fault
from nomemory.server.api.identity.namespace import NamespaceName
from nomemory.server.api.identity.watched_file import UnusableFileError, WatchedFile

_Content = TypeVar("_Content")


class CredentialFile(Generic[_Content]):
    """A file with the credentials that the server accepts, reloaded when it changes.

    Args:
        parse: parses the content; raises ValueError for malformed content, without quoting it.
        kind: the kind of credential in error messages, such as `API keys`.
        advice: a text that the constructor appends to its error messages.

    Raises:
        IdentitySettingsError: the file cannot be read or is malformed.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], _Content], kind: str, advice: str = "") -> None:
        self._file = WatchedFile(path, parse)
        self._kind = kind
        try:
            self._file.load()
        except UnusableFileError as error:
            raise IdentitySettingsError(f"{error}{advice}") from None

    def load(self) -> _Content:
        """Return the parsed content of the file.

        Raises:
            Fault: CREDENTIALS_INVALID, the file has changed and cannot be read or is malformed.
        """
        try:
            return self._file.load()
        except UnusableFileError:
            raise build_invalid_credentials_fault(
                f"{self._kind} cannot be checked, because the server cannot load the configured file: retry later"
            ) from None


class CallerRecord(BaseModel):
    """The name, scopes and namespace of a service in a credential file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    scopes: frozenset[Scope]
    namespace: NamespaceName | None = None


_Document = TypeVar("_Document", bound=BaseModel)


def parse_document(document: type[_Document], raw: bytes, kind: str) -> _Document:
    """Parse a JSON credential file.

    `kind` is the kind of credential in error messages.

    Raises:
        ValueError: the file is malformed; the message names up to three invalid fields and the rules that they violate.
    """
    try:
        return document.model_validate_json(raw)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'top level'}: {problem['msg']}" for problem in error.errors()[:3]
        )
        raise ValueError(f"invalid credential file ({kind}): {problems}") from None
