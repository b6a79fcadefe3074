"""The settings of the server, which are read from environment variables.

`docs/settings.md` is generated from this package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict

from nomemory.server.runtime.settings import indexes, observing, serving, storage
from nomemory.server.runtime.settings.group import PREFIX, SettingsGroup
from nomemory.server.runtime.settings.identity import IdentitySettings
from nomemory.server.runtime.settings.limits import AdmissionSettings, LimitSettings
from nomemory.server.runtime.settings.mcp import McpSettings
from nomemory.server.runtime.settings.recall import RecallSettings


class UnknownSettingError(Exception):
    """A name does not belong to a setting; the message contains the name."""


class Settings(BaseModel):
    """All settings of a server, in groups."""

    model_config = ConfigDict(frozen=True)

    server: serving.ServerSettings
    http: serving.HttpSettings
    metrics: observing.MetricsSettings
    tracing: observing.TracingSettings
    identity: IdentitySettings
    processes: serving.ProcessSettings
    connections: serving.ConnectionSettings
    limits: LimitSettings
    timing: serving.TimingSettings
    reads: AdmissionSettings
    log: storage.LogSettings
    postgres: storage.PostgresSettings
    retention: storage.RetentionSettings
    erasure: storage.ErasureSettings
    vector: indexes.VectorSettings
    embedder: indexes.EmbedderSettings
    openai: indexes.OpenAISettings
    hybrid: indexes.HybridSettings
    recall: RecallSettings
    mcp: McpSettings

    @classmethod
    def from_environment(cls, **overrides: object) -> Self:
        """Read the settings from the environment variables.

        Args:
            overrides: values that take precedence over the environment, by variable name in lower case without
                `NOMEMORY_`.

        Raises:
            ValidationError: a value is invalid.
            UnknownSettingError: an override is not a setting.
        """
        variables = _list_known_variables()
        environment = ((name.upper(), value) for name, value in os.environ.items())
        values: dict[str, object] = {name: value for name, value in environment if name in variables}
        return cls._validate_groups(values | _convert_overrides(overrides))

    def copy_with_changes(self, **changes: object) -> Self:
        """Return a copy with changed values, whose names have the form of the overrides of `from_environment`.

        Raises:
            ValidationError: a value is invalid.
            UnknownSettingError: a change is not a change of a setting.
        """
        values = {
            variable: getattr(getattr(self, name), field)
            for name, group in list_settings_groups().items()
            for field, variable in group.map_variables_by_field().items()
        }
        return self._validate_groups(values | _convert_overrides(changes))

    @classmethod
    def _validate_groups(cls, values: dict[str, object]) -> Self:
        """Validate all groups. Each settings group ignores the variables of other groups."""
        return cls.model_validate(dict.fromkeys(cls.model_fields, values))


def list_settings_groups() -> dict[str, type[SettingsGroup]]:
    """Return the settings groups by name, in the order of docs/settings.md."""
    return {
        name: field.annotation
        for name, field in Settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsGroup)
    }


def strip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of an environment without the variables of settings. Case is ignored."""
    variables = _list_known_variables()
    return {name: value for name, value in environment.items() if name.upper() not in variables}


def _list_known_variables() -> set[str]:
    return {
        variable for group in list_settings_groups().values() for variable in group.map_variables_by_field().values()
    }


def _convert_overrides(overrides: Mapping[str, object]) -> dict[str, object]:
    """Return the overrides by environment variable."""
    values = {_get_variable(name): value for name, value in overrides.items()}
    if unknown := sorted(values.keys() - _list_known_variables()):
        raise UnknownSettingError(f"unknown settings: {', '.join(unknown)}")
    return values


def _get_variable(name: str) -> str:
    """Return the environment variable of an override. Variables of the OpenAI endpoint have no `NOMEMORY_` prefix."""
    return name.upper() if name.startswith("openai_") else f"{PREFIX}{name.upper()}"
