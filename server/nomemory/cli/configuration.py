"""Load the server's settings from the environment and command line options."""

from __future__ import annotations

from typing import Final

import click
from pydantic import ValidationError

from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError, parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.group import PREFIX

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def load_settings(**options: object) -> Settings:
    """Return the server settings; options that are not None override the environment.

    Raises:
        click.UsageError: settings are invalid; the message names each invalid setting.
    """
    try:
        return Settings.from_environment(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        lines = [f"{_build_option_name(*fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise click.UsageError("Invalid settings:\n" + "\n".join(f"  {line}" for line in lines)) from None


def _build_option_name(_group: int | str, variable: int | str) -> str:
    """Return the lower-case name of a setting without the prefix `NOMEMORY_`."""
    return str(variable).removeprefix(PREFIX).lower()


def parse_address(text: str) -> ListenAddress:
    """Parse HOST:PORT.

    Raises:
        click.BadParameter: the text is not a valid address.
    """
    try:
        return parse_listen_address(text)
    except ListenAddressError as error:
        raise click.BadParameter(str(error)) from None
