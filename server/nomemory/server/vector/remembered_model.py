"""The model that searches by meaning are answered with, as the data directory remembers it from run to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

import orjson
from pydantic import SecretStr

from nomemory.server.private_files import put
from nomemory.server.settings import Settings
from nomemory.server.settings.group import PREFIX

_ENDPOINT: Final = "OPENAI_BASE_URL"
_OPENAI: Final = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class RememberedModel:
    """How the model was chosen. No key is remembered.

    Attributes:
        collection: the name of its vectors.
        variables: the settings, by their variables, that the embedder was made from.
    """

    collection: str
    variables: Mapping[str, object]

    @classmethod
    def of(cls, settings: Settings, collection: str) -> Self:
        """Return what is to be remembered of the settings of a collection."""
        variables = {
            variable: value
            for field, variable in type(settings.embedder).names().items()
            if not isinstance(value := getattr(settings.embedder, field), SecretStr)
        }
        return cls(collection, {**variables, _ENDPOINT: _without_secrets(settings.openai.base_url)})

    def restored(self, settings: Settings) -> Settings:
        """Return the settings of now with this model.

        An endpoint gets the key of now only if it is the same one; else that of NOMEMORY_EMBEDDING_FORMER_API_KEY.

        Raises:
            ValidationError: what is remembered is no valid setting any more.
        """
        same = self.variables.get(_ENDPOINT) == _without_secrets(settings.openai.base_url)
        key = settings.embedder.former_api_key or (settings.openai.api_key if same else None)
        url = {_ENDPOINT: settings.openai.base_url} if same else {}
        changes = {name.removeprefix(PREFIX).lower(): value for name, value in {**self.variables, **url}.items()}
        return settings.with_changes(**changes, openai_api_key=key)


def read_remembered(path: Path) -> RememberedModel | None:
    """Return what was written; None if there is nothing that makes sense."""
    try:
        written = orjson.loads(path.read_bytes())
        return RememberedModel(str(written["collection"]), dict(written["variables"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_remembered(path: Path, model: RememberedModel) -> None:
    """Write in one step, so that a crash leaves the whole of this or the one before; nothing if it is there already.

    Raises:
        OSError: it cannot be written.
    """
    written = orjson.dumps({"collection": model.collection, "variables": model.variables}, default=str)
    if path.exists() and path.read_bytes() == written:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, written)


def _without_secrets(url: str | None) -> str:
    """Return an endpoint without what may be a name and a password in it; OpenAI's own, where none is set."""
    parts = urlsplit(url or _OPENAI)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
