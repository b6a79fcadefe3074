"""What a group of settings is: a frozen model that takes its values from variables of the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, AliasGenerator, BaseModel, ConfigDict, SecretStr
from pydantic_core import PydanticCustomError

PREFIX = "NOMEMORY_"
"""What the variables of the environment begin with."""

_Value = TypeVar("_Value")


def _check_filled(value: _Value) -> _Value:
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
    if not text.strip() or value == Path():  # which an empty text becomes
        raise PydanticCustomError("empty", "is set but empty: fill it, or unset it")
    return value


NonEmpty = Annotated[_Value, AfterValidator(_check_filled)]
"""A credential, or a file of them. A variable that a deployment meant to fill and did not would otherwise leave the
server unguarded, or guarded by less than its operator believes."""


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
        """Return the variable of each field that the environment sets."""
        return {name: str(field.validation_alias) for name, field in cls.model_fields.items()}
