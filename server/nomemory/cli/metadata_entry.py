"""A metadata entry as the command line takes it: KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

import click

Entry = tuple[str, str]


def entry_option(text: str) -> Entry:
    """Read an entry for click: the first equals sign ends the key, and the value may be empty.

    Raises:
        click.BadParameter: it is none.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE.")
    return key, value


def entries_by_key(entries: Iterable[Entry]) -> dict[str, str]:
    """Return entries as a filter takes them.

    Raises:
        click.UsageError: one key has two values: no message has both.
    """
    chosen: dict[str, str] = {}
    for key, value in entries:
        if chosen.setdefault(key, value) != value:
            raise click.UsageError(f"--metadata has two values for {key!r}")
    return chosen
