"""The base class of settings groups, whose values are read from environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, AliasGenerator, BaseModel, ConfigDict, SecretStr
from pydantic_core import PydanticCustomError

PREFIX = "NOMEMORY_"
"""Prefix of the environment variables."""

_Value = TypeVar("_Value")


def _check_not_empty(value: _Value) -> _Value:
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
    if not text.strip() or value == Path():  # pydantic converts an empty string to Path()
        raise PydanticCustomError("empty", "is set but empty: set a value, or unset the variable")
    return value


NonEmpty = Annotated[_Value, AfterValidator(_check_not_empty)]
"""A credential or credential file that must not be empty. An empty variable would otherwise silently disable a
protection that the operator meant to configure."""


def map_fields_to_variables(prefix: str = "") -> ConfigDict:
    """Return a model configuration that maps each field to the variable `NOMEMORY_<PREFIX><FIELD>`."""
    alias_generator = AliasGenerator(validation_alias=lambda field: f"{PREFIX}{prefix}{field}".upper())
    return ConfigDict(frozen=True, extra="ignore", alias_generator=alias_generator)


class SettingsGroup(BaseModel):
    """A group of related settings, as a frozen Pydantic model.

    Attributes:
        heading: the heading of the group in docs/settings.md.
    """

    model_config = map_fields_to_variables()
    heading: ClassVar[str]

    @classmethod
    def map_variables_by_field(cls) -> dict[str, str]:
        """Return the name of the environment variable of each field."""
        return {name: str(field.validation_alias) for name, field in cls.model_fields.items()}
