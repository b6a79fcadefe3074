"""Writes docs/cli.md from the command line itself. With --check it only tells whether the page is up to date."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from generated_page import keep

from nomemory.cli.main import nomemory

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"

HEAD = """# The command line

This page is generated from `nomemory --help` by `scripts/gen_cli_docs.py`.

```
nomemory serve --data ./data                                   # a server, until Ctrl-C
nomemory import chat.jsonl --wait                              # messages in; see importing.md
nomemory list --user ann --since 7d                            # the last week
nomemory search '"不吃辣" AND 火锅' --user ann                  # words and exact phrases
nomemory semantic 'does she eat spicy food?' --user ann        # what means the same
nomemory hybrid 'what can she eat?' --user ann                 # what answers a question
nomemory neighbors m_01HX… --user ann --before 5 --after 5     # what was said around it
nomemory recall 'what can she eat?' --user ann                 # an answer with its quotes
nomemory export --user ann --out ann.jsonl                     # messages out, as import reads them
```

## What all commands have in common

- **The server** is the one at `--target`, or at `NOMEMORY_TARGET`, or at `127.0.0.1:7700`. **The user** is `--user`, or
  `NOMEMORY_USER`. `import` does not read `NOMEMORY_USER`: there `--user` overrides what a file says.
- **Times** are a date (`2024-05-01`), a date and time (`2024-05-01T08:30`, `2024-05-01T08:30+08:00`), or how long ago
  (`7d`, `12h`, `30m`, `2w`). A date and a time without a zone are UTC, and times are shown in UTC. `--since` is
  inclusive, `--until` exclusive: `--since 2024-05-01 --until 2024-06-01` is May.
- **`--json`** writes one JSON object per line to standard output, with the contract's field names, times in RFC 3339,
  and roles as `user`, `assistant`, `system` and `tool`. All lines of a command are of one kind. A line is a message
  (`list`, `neighbors`), a hit (`search`, `semantic`, `hybrid`), a file (`import`), a check (`doctor`), a skill (`skill
  check`), or the one answer there is (`recall`, `status`, `info`, `delete`,
  `erase`). What holds of a whole ranking, such as
  `sufficiency`, stands on each of its hits. Notices and the next cursor (`next_cursor: …`) go to standard error. What
  `list --json` writes, `import` reads.
- **Plain text** goes to a pipe or a file; `NO_COLOR=1` asks for it in a terminal. Where the locale's encoding lacks a
  character, people see `?`, and JSON has it escaped.
- **Exit codes**: 0 done; 1 refused, failed, or some of an import was rejected; 2 wrong usage; 130 interrupted. Errors
  are a few lines on standard error.
- Control characters in what was said are shown as signs (`␛`), so that a message cannot drive the terminal. JSON keeps
  them, escaped.
- A message of more than 400 characters is cut for people (a search shows the passage that matched); `--full` shows it
  whole. JSON is always whole.

"""


def page() -> str:
    """Make the page."""
    return HEAD + "".join(_command(name, command) for name, command in _commands("", nomemory))


def _commands(prefix: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(f"{prefix}{name} ", command)


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"nomemory {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    rows = "".join(_row(parameter) for parameter in command.params if isinstance(parameter, click.Option))
    table = f"\n| option | what it does |\n|---|---|\n{rows}" if rows else ""
    return f"## nomemory {name}\n\n```\nnomemory {name} {usage}\n```\n\n{_text(command)}\n{table}\n"


def _text(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "")


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    metavar = "" if option.is_flag else f" {_metavar(option)}"
    return f"| {names}{metavar} | {' '.join(_facts(option))} |\n"


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(f"`{choice}`" for choice in option.type.choices)
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
    sys.exit(keep(PAGE, page()))
