"""Generate docs/cli.md from the command definitions. With --check, only report whether the page is up to date."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import click
from generated_page import write_or_check_page
from usage import show_help

from nomemory.cli.main import nomemory

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
CONNECTION: Final = "`--target`, `--api-key`, `--tls`, `--tls-ca`, `--tls-client-cert`, `--tls-client-key`"
"""The connection options, as they appear in a command's list of shared options."""
SHARED_BY: Final = 5
"""Minimum number of commands with an identical option for the page to describe it once for all of them."""

HEAD = """# Command line

`scripts/gen_cli_docs.py` generates this page from `nomemory --help`. [First steps](first-steps.md) shows the main
commands in use.

## Conventions

- **Times** are a date (`2024-05-01`), a date and time (`2024-05-01T08:30`, `2024-05-01T08:30+08:00`), or an age (`7d`,
  `12h`, `30m`, `2w`). Times without a zone are UTC, and output is in UTC. `--since` is inclusive, `--until` exclusive:
  `--since 2024-05-01 --until 2024-06-01` selects May.
- **`--json`** writes one JSON object per line to standard output, with the field names of the API, times in RFC 3339,
  and the roles `user`, `assistant`, `system` and `tool`. All lines of a command have the same type: a message, a hit, a
  file, a check, a skill, or a single answer. Fields that describe a whole ranking, such as `sufficiency`, are repeated
  in each hit. Notices and the next cursor (`next_cursor`) go to standard error. `import` reads the output of
  `list --json`.
- **Text output** to pipes and files has no colors. To disable colors in a terminal, set `NO_COLOR=1`. Text output
  replaces a character that the locale's encoding does not support with `?`; JSON escapes it.
- **Exit statuses**: 0 success; 1 the command failed, or an import rejected some messages; 2 invalid usage; 130
  interrupted. Error messages go to standard error.
- **Control characters** in messages are shown as symbols (`␛`), so that a message cannot control the terminal. JSON
  escapes them.
- **Long messages** are cut after 400 characters; a search shows the part that matched. `--full` and `--json` show
  complete messages.
- **`import`** ignores `NOMEMORY_USER`; `--user` overrides the user in the file.

"""


def render_page() -> str:
    """Render docs/cli.md."""
    commands = list(_iterate_commands("", nomemory))
    counts = Counter(row for _, command in commands for row in map(_render_row, _select_documented_options(command)))
    shared = [row for row, count in counts.items() if count >= SHARED_BY]
    options = "\n".join(("## Shared options", "", *shared, ""))
    return HEAD + "\n".join((options, *(_render_command(name, command, shared) for name, command in commands)))


def _iterate_commands(prefix: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None  # noqa: S101 - the group lists the command
        if command.hidden:
            continue
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from _iterate_commands(f"{prefix}{name} ", command)


def _render_command(name: str, command: click.Command, shared: Collection[str]) -> str:
    context = click.Context(command, info_name=f"nomemory {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    rows = "\n".join(row for row in map(_render_row, _select_documented_options(command)) if row not in shared)
    others = ", ".join(
        f"`{option.opts[0]}`" for option in _select_documented_options(command) if _render_row(option) in shared
    )
    others = others.replace(CONNECTION, "[connection options](#shared-options)")
    also = f"Shared options: {others}." if others else ""
    heading = f"## nomemory {name}" + (f"\n\n`nomemory {name} {usage}`" if usage != "[OPTIONS]" else "")
    return "\n\n".join(part for part in (heading, _format_help_text(command), rows, also) if part) + "\n"


def _select_documented_options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def _format_help_text(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "")


def _render_row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    metavar = "" if option.is_flag else f" {_format_metavar(option)}"
    return f"- {names}{metavar}: {' '.join(_describe_option(option))}"


def _format_metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "/".join(f"`{choice}`" for choice in option.type.choices)
    return (option.metavar or option.type.name).upper().split()[0]


def _describe_option(option: click.Option) -> Iterator[str]:
    yield option.help or ""
    if option.required:
        yield "Required."
    if option.envvar:
        yield f"Environment: `{option.envvar}`."
    if option.show_default:
        yield f"Default: `{option.default}`."


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(write_or_check_page(PAGE, render_page()))
