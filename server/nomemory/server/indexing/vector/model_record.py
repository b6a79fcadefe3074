"""The record of the active embedding model in the data directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

import orjson
from pydantic import SecretStr

from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.group import PREFIX

_ENDPOINT: Final = "OPENAI_BASE_URL"
_OPENAI: Final = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The settings of an embedding model, without API keys.

    Attributes:
        collection: the name of the model's vector collection.
        variables: the settings of the embedder, by the names of their environment variables.
    """

    collection: str
    variables: Mapping[str, object]

    @classmethod
    def from_settings(cls, settings: Settings, collection: str) -> Self:
        """Build the record of a collection from the settings."""
        variables = {
            variable: value
            for field, variable in type(settings.embedder).map_variables_by_field().items()
            if not isinstance(value := getattr(settings.embedder, field), SecretStr)
        }
        return cls(collection, {**variables, _ENDPOINT: _remove_credentials(settings.openai.base_url)})

    def restore_settings(self, settings: Settings) -> Settings:
        """Return the current settings, with the model replaced by the recorded one.

        The API key is NOMEMORY_PREVIOUS_EMBEDDING_API_KEY if it is set, otherwise the current key if the endpoint is
        unchanged.

        Raises:
            ValidationError: the recorded settings are no longer valid.
            UnknownSettingError: a recorded setting no longer exists.
        """
        same = self.variables.get(_ENDPOINT) == _remove_credentials(settings.openai.base_url)
        key = settings.embedder.previous_api_key or (settings.openai.api_key if same else None)
        url = {_ENDPOINT: settings.openai.base_url} if same else {}
        changes = {name.removeprefix(PREFIX).lower(): value for name, value in {**self.variables, **url}.items()}
        return settings.copy_with_changes(**changes, openai_api_key=key)


def read_model_record(path: Path) -> ModelRecord | None:
    """Read a model record; return None if the file is missing or malformed."""
    try:
        record = orjson.loads(path.read_bytes())
        return ModelRecord(str(record["collection"]), dict(record["variables"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_model_record(path: Path, record: ModelRecord) -> None:
    """Write a model record atomically, unless the file already contains this record.

    Raises:
        OSError: the file cannot be written.
    """
    content = orjson.dumps({"collection": record.collection, "variables": record.variables}, default=str)
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


def _remove_credentials(url: str | None) -> str:
    """Return an endpoint URL without user name and password; without a URL, return the endpoint of OpenAI."""
    parts = urlsplit(url or _OPENAI)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
