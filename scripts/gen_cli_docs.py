"""Writes docs/cli.md from the command line itself. With --check it only tells whether the page is up to date."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import click
from generated_page import keep
from usage import show_help

from nomemory.cli.main import nomemory

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
CONNECTION: Final = "`--target`, `--api-key`, `--tls`, `--tls-ca`, `--tls-client-cert`, `--tls-client-key`"
"""The options of a connection, as they stand in the list of those that a command shares with others."""
SHARED_BY: Final = 5
"""How many commands have to have an option, word for word, for the page to describe it once for all of them."""

HEAD = """# The command line

This page is generated from `nomemory --help` by `scripts/gen_cli_docs.py`.

[First steps](first-steps.md) shows the main ones at work.

## What all commands have in common

- **Times** are a date (`2024-05-01`), a date and time (`2024-05-01T08:30`, `2024-05-01T08:30+08:00`), or how long ago
  (`7d`, `12h`, `30m`, `2w`). A date and a time without a zone are UTC, and times are shown in UTC. `--since` is
  inclusive, `--until` exclusive: `--since 2024-05-01 --until 2024-06-01` is May.
- **`--json`** writes one JSON object per line to standard output, with the contract's field names, times in RFC 3339,
  and roles as `user`, `assistant`, `system` and `tool`. All lines of a command are of one kind: a message, a hit, a
  file, a check, a skill, or the one answer. What holds of a whole ranking, such as `sufficiency`, stands on each of its
  hits. Notices and the next cursor (`next_cursor: …`) go to standard error. `import` reads what `list --json` writes.
- **Plain text** goes to a pipe or a file. `NO_COLOR=1` asks for it in a terminal. A character that the locale's
  encoding lacks is shown as `?`, and is escaped in JSON.
- **Exit codes**: 0 done; 1 refused, failed, or some of an import was rejected; 2 wrong usage; 130 interrupted. Errors
  are a few lines on standard error.
- **Control characters** of messages are shown as signs (`␛`), so that a message cannot drive the terminal. JSON keeps
  them, escaped.
- **Long messages**, of more than 400 characters, are cut; a search shows the part that matched. `--full` shows them
  whole. JSON is always whole.
- `import` does not read `NOMEMORY_USER`: there `--user` overrides what a file says.

"""


def page() -> str:
    """Make the page."""
    commands = list(_commands("", nomemory))
    counted = Counter(row for _, command in commands for row in map(_row, _options(command)))
    shared = [row for row, count in counted.items() if count >= SHARED_BY]
    options = "\n".join(("## Options of many commands", "", *shared, ""))
    return HEAD + "\n".join((options, *(_command(name, command, shared) for name, command in commands)))


def _commands(prefix: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None  # noqa: S101 - it was listed
        if command.hidden:
            continue
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(f"{prefix}{name} ", command)


def _command(name: str, command: click.Command, shared: Collection[str]) -> str:
    context = click.Context(command, info_name=f"nomemory {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    own = "\n".join(row for row in map(_row, _options(command)) if row not in shared)
    others = ", ".join(f"`{option.opts[0]}`" for option in _options(command) if _row(option) in shared)
    others = others.replace(CONNECTION, "[those of a connection](#options-of-many-commands)")
    also = f"Also: {others}." if others else ""
    heading = f"## nomemory {name}" + (f"\n\n`nomemory {name} {usage}`" if usage != "[OPTIONS]" else "")
    return "\n\n".join(part for part in (heading, _text(command), own, also) if part) + "\n"


def _options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def _text(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "")


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    metavar = "" if option.is_flag else f" {_metavar(option)}"
    return f"- {names}{metavar}: {' '.join(_facts(option))}"


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "/".join(f"`{choice}`" for choice in option.type.choices)
    return (option.metavar or option.type.name).upper().split()[0]


def _facts(option: click.Option) -> Iterator[str]:
    yield option.help or ""
    if option.required:
        yield "Required."
    if option.envvar:
        yield f"Environment: `{option.envvar}`."
    if option.show_default:
        yield f"Default: `{option.default}`."


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(keep(PAGE, page()))
