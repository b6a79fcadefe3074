"""What a group of settings is: a frozen model that takes its values from variables of the environment."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AliasGenerator, BaseModel, ConfigDict

PREFIX = "NOMEMORY_"
"""What the variables of the environment begin with."""


def variables(prefix: str = "") -> ConfigDict:
    """Return the configuration of a group whose variables are named after its fields, with a prefix."""
    named = AliasGenerator(validation_alias=lambda field: f"{PREFIX}{prefix}{field}".upper())
    return ConfigDict(frozen=True, extra="ignore", alias_generator=named)


class SettingsGroup(BaseModel):
    """Settings that belong together.

    Attributes:
        heading: the group's heading in docs/settings.md.
    """

    model_config = variables()
    heading: ClassVar[str]

    @classmethod
    def variables(cls) -> dict[str, str]:
        """Return the variable of each field."""
        return {name: str(field.validation_alias) for name, field in cls.model_fields.items()}
