"""The command `nomemory`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_COMMANDS: Final = {
    "serve": "nomemory.cli.serve:serve",
    "import": "nomemory.cli.import_command:import_",
    "list": "nomemory.cli.reads:list_",
    "search": "nomemory.cli.reads:search",
    "semantic": "nomemory.cli.reads:semantic",
    "hybrid": "nomemory.cli.reads:hybrid",
    "neighbors": "nomemory.cli.reads:neighbors",
    "conversations": "nomemory.cli.reads:conversations",
    "count": "nomemory.cli.reads:count",
    "users": "nomemory.cli.reads:users",
    "export": "nomemory.cli.export:export",
    "recall": "nomemory.cli.recall:recall",
    "context": "nomemory.cli.context:context",
    "mcp": "nomemory.cli.agents.mcp:mcp",
    "agent": "nomemory.cli.agents.agent:agent",
    "quickstart": "nomemory.cli.agents.quickstart:quickstart",
    "status": "nomemory.cli.reads:status",
    "inspect": "nomemory.cli.inspect:inspect",
    "delete": "nomemory.cli.deletion:delete",
    "erase": "nomemory.cli.deletion:erase",
    "info": "nomemory.cli.reads:info",
    "skill": "nomemory.cli.main:skill",
    "keys": "nomemory.cli.keys:keys",
    "cursor-key": "nomemory.cli.keys:cursor_key",
    "backup": "nomemory.cli.backup:backup",
    "restore": "nomemory.cli.backup:restore",
    "migrate": "nomemory.cli.migrate:migrate",
    "doctor": "nomemory.cli.doctor.command:doctor",
}
"""The module of each command, and its name there: one is imported when it is asked for, so that none waits for all."""

_SKILL_COMMANDS: Final = {
    "new": "nomemory.cli.skill.new:new",
    "check": "nomemory.cli.skill.check:check",
}


class _Group(click.Group):
    """Commands in the order in which somebody meets them; one is imported when it is asked for.

    Args:
        places: the module of each, and its name there.
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **options: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Keep their order."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Import a command; None: there is none of this name."""
        module, _, attribute = self._places.get(cmd_name, "").partition(":")
        return getattr(import_module(module), attribute) if module else None


class Commands(_Group):
    """The commands. Errors become lines for people."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; what the system refuses is told in a line, and a reader that went away is no error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _silence_stdout()
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        except OSError as error:
            raise click.ClickException(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from None
        except UnicodeEncodeError:  # an argument that the locale could not decode is on its way to the server
            raise click.UsageError("An argument is not text in this locale: set LC_ALL=C.UTF-8.") from None
        return result


@click.group(cls=Commands, places=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nomemory")
def nomemory() -> None:
    """Keep what was said, find it again, and cite it.

    Start a server with `nomemory serve`, give it messages with `nomemory import`, read them with `list`, `search`,
    `semantic`, `hybrid` and `neighbors`, and ask about them with `recall`.
    """


@click.group("skill", cls=_Group, places=_SKILL_COMMANDS)
def skill() -> None:
    """Write and check recall skills.

    A recall skill is a folder with a SKILL.md that says how to search; docs/skills.md has its form.
    """


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 refused or failed, 2 wrong usage."""
    sys.exit(_run())


def _run() -> int:
    _replace_what_cannot_be_shown()
    try:
        code = nomemory.main(standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0


def _replace_what_cannot_be_shown() -> None:
    """Show a question mark for a character that the locale's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence_stdout() -> None:
    """Keep the interpreter from complaining, on its way out, that nobody reads what is still buffered."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
