"""`nomemory agent`: hooks for coding agents."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nomemory.agents import hook
from nomemory.agents.local_data_dir import LocalDataDir, current_user_name
from nomemory.cli.terminal import replace_control_characters

if TYPE_CHECKING:
    from nomemory.agents.install import Change, Installation

_NEXT_STEPS = {
    "claude-code": "New sessions are stored. To add the memory tools, too:\n"
    "  claude mcp add --scope user nomemory -- nomemory mcp --local",
    "codex": "Codex asks before it runs new hooks: start it, enter /hooks, and trust them. To add the memory tools:\n"
    "  codex mcp add nomemory -- nomemory mcp --local",
    "cursor": "Cursor hooks cannot add text to a prompt. Add the memory tools, too (docs/mcp.md).",
}
"""Instructions after an installation."""
Command = Callable[..., None]


@click.group("agent")
def agent() -> None:
    """Give coding agents a memory: Claude Code, Codex, Cursor (docs/coding-agents.md)."""


def _with_options(command: Command) -> Command:
    """Add the parameters of both commands."""
    command = click.option("--yes", is_flag=True, help="Change the file without asking.")(command)
    return click.argument("name", type=click.Choice(tuple(_NEXT_STEPS)))(command)


@agent.command("install")
@_with_options
@click.option("--user", metavar="ID", help="User id of the memory. Default: the name of the operating system user.")
def install(*, name: str, user: str | None, yes: bool) -> None:
    """Add the hooks to an agent's settings, after showing the changes."""
    installation = _prepare_installation(name, user or current_user_name())
    if "cache" in "/".join(Path(sys.executable).parts).lower():
        click.echo(
            "NoMemory runs from a cache. If the cache is cleared, the hooks stop working. Install NoMemory first."
        )
    if _apply(installation.install_change, yes=yes, then=installation.record):
        click.echo(f"The hooks are installed for {installation.title}. {_NEXT_STEPS[name]}")


@agent.command("uninstall")
@_with_options
def uninstall(*, name: str, yes: bool) -> None:
    """Remove the hooks from an agent's settings. Stored messages are kept."""
    installation = _prepare_installation(name)
    if _apply(installation.uninstall_change, yes=yes, then=lambda _change: installation.discard_record()):
        click.echo(f"The hooks are removed from {installation.title}.")


@agent.command("hook", hidden=True)
@click.argument("name", type=click.Choice(tuple(_NEXT_STEPS)))
def send_event(*, name: str) -> None:
    """Send an event from standard input to the local server. Plugins call this command."""
    hook.run(str(LocalDataDir.for_current_user().root), name, current_user_name())


def _prepare_installation(name: str, user: str = "") -> Installation:
    from nomemory.agents.install import Installation  # noqa: PLC0415 - slow to import, and not needed by a hook

    return Installation(name, LocalDataDir.for_current_user(), user)


def _apply(get_change: Callable[[], Change], then: Callable[[Change], None], *, yes: bool) -> bool:
    """Show a change, ask for confirmation, and apply it. Return whether the file has the intended content."""
    from nomemory.agents.install import InstallError  # noqa: PLC0415 - as above

    try:
        change = get_change()
        if change.before != change.after:
            click.echo(_render_diff(change))
            if not yes and not click.confirm(f"Change {change.path}?"):
                click.echo(f"{change.path} was not changed.")
                return False
            change.apply()
        then(change)
    except InstallError as error:
        raise click.ClickException(replace_control_characters(str(error))) from None
    return True


def _render_diff(change: Change) -> str:
    """Return a change as a unified diff."""
    before, after = (
        (content or b"").decode(errors="replace").splitlines(keepends=True) for content in (change.before, change.after)
    )
    old, new = ("/dev/null" if content is None else str(change.path) for content in (change.before, change.after))
    return replace_control_characters("".join(difflib.unified_diff(before, after, old, new)))
