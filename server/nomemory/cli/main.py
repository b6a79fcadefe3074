"""The `nomemory` command."""

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
    "serve": "nomemory.cli.serve:run_serve",
    "import": "nomemory.cli.import_command:import_messages",
    "list": "nomemory.cli.query_commands:list_messages",
    "search": "nomemory.cli.query_commands:search_lexical",
    "semantic": "nomemory.cli.query_commands:search_semantic",
    "hybrid": "nomemory.cli.query_commands:search_hybrid",
    "neighbors": "nomemory.cli.query_commands:show_neighbors",
    "conversations": "nomemory.cli.query_commands:list_conversations",
    "count": "nomemory.cli.query_commands:count_messages",
    "users": "nomemory.cli.query_commands:list_users",
    "export": "nomemory.cli.export:export_messages",
    "recall": "nomemory.cli.recall:run_recall",
    "context": "nomemory.cli.context:show_context",
    "mcp": "nomemory.cli.agents.mcp:serve_mcp",
    "agent": "nomemory.cli.agents.agent:agent",
    "quickstart": "nomemory.cli.agents.quickstart:run_quickstart",
    "status": "nomemory.cli.query_commands:show_status",
    "inspect": "nomemory.cli.inspect:serve_inspector",
    "delete": "nomemory.cli.deletion:delete_messages",
    "erase": "nomemory.cli.deletion:erase_user",
    "info": "nomemory.cli.query_commands:show_server_info",
    "skill": "nomemory.cli.main:skill",
    "keys": "nomemory.cli.keys:keys",
    "cursor-key": "nomemory.cli.keys:change_cursor_key",
    "backup": "nomemory.cli.backup:create_backup",
    "restore": "nomemory.cli.backup:restore_backup",
    "erasures": "nomemory.cli.erasures:erasures",
    "migrate": "nomemory.cli.migrate:migrate_log",
    "doctor": "nomemory.cli.doctor.command:run_doctor",
}
"""Import path of each command. Commands are imported on use, to keep startup fast."""

_SKILL_COMMANDS: Final = {
    "new": "nomemory.cli.skill.new:create_skill",
    "check": "nomemory.cli.skill.check:check_skills",
}


class _LazyGroup(click.Group):
    """A group that imports its commands on use, and lists them in definition order.

    Args:
        import_paths: the import path of each command, as `module:attribute`.
    """

    def __init__(self, *args: Any, import_paths: Mapping[str, str], **options: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **options)
        self._import_paths = import_paths

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the command names in definition order."""
        return list(self._import_paths)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Return a command; None if there is no command with this name."""
        module, _, attribute = self._import_paths.get(cmd_name, "").partition(":")
        return getattr(import_module(module), attribute) if module else None


class RootGroup(_LazyGroup):
    """The top-level group, which turns operating system errors into messages."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; report an operating system error in one line, and end quietly on a broken pipe."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _silence_stdout()
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        except OSError as error:
            raise click.ClickException(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from None
        except UnicodeEncodeError:  # the locale could not decode an argument
            raise click.UsageError("An argument cannot be decoded in this locale. Set LC_ALL=C.UTF-8.") from None
        return result


@click.group(cls=RootGroup, import_paths=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nomemory")
def nomemory() -> None:
    """Store chat messages, search them, and answer questions with citations.

    Start a server with `nomemory serve` and load messages with `nomemory import`. Read messages with `list`, `search`,
    `semantic`, `hybrid` and `neighbors`, and ask questions with `recall`.
    """


@click.group("skill", cls=_LazyGroup, import_paths=_SKILL_COMMANDS)
def skill() -> None:
    """Write and check recall skills.

    A recall skill is a folder with a SKILL.md that describes how to search. See docs/skills.md for the format.
    """


def main() -> None:
    """Run the command line. Exit statuses: 0 for success, 1 for failure, 2 for incorrect usage."""
    code = _run_commands()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # skips the cleanup of the interpreter, which takes 0.2 s after a server has stopped


def _run_commands() -> int:
    _replace_unencodable_output()
    try:
        code = nomemory.main(standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0


def _replace_unencodable_output() -> None:
    """Print a question mark for characters that the locale's encoding cannot represent."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence_stdout() -> None:
    """Redirect stdout to /dev/null, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
