"""The server's settings as the command line sees them: the environment, and options on top."""

from __future__ import annotations

from typing import Final

import click
from pydantic import ValidationError

from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError, parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.group import PREFIX

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def load_settings(**options: object) -> Settings:
    """Read the settings; an option that is not None overrides what the environment says.

    Raises:
        click.UsageError: a value is not valid; it names each.
    """
    try:
        return Settings.from_environment(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        lines = [f"{_setting(*fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise click.UsageError("Bad settings.\n" + "\n".join(f"  {line}" for line in lines)) from None


def _setting(_group: int | str, variable: int | str) -> str:
    """Return a setting's name as options and variables share it."""
    return str(variable).removeprefix(PREFIX).lower()


def parse_address(text: str) -> ListenAddress:
    """Read HOST:PORT for click.

    Raises:
        click.BadParameter: it is none.
    """
    try:
        return parse_listen_address(text)
    except ListenAddressError as error:
        raise click.BadParameter(str(error)) from None
