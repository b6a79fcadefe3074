"""`nomemory agent`: the hooks of coding agents."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nomemory.agents import hook
from nomemory.agents.local_data_dir import LocalDataDir, current_user_name
from nomemory.cli.terminal import printable

if TYPE_CHECKING:
    from nomemory.agents.install import Change, Installation

_NEXT = {
    "claude-code": "Sessions that start from now on are remembered. For the memory's tools as well:\n"
    "  claude mcp add --scope user nomemory -- nomemory mcp --local",
    "codex": "Codex asks before it runs new hooks: start it, enter /hooks, and trust these. For the memory's tools:\n"
    "  codex mcp add nomemory -- nomemory mcp --local",
    "cursor": "Cursor lets no hook add to a prompt, so give it the memory's tools as well (docs/mcp.md).",
}
"""What to do then."""
Command = Callable[..., None]


@click.group("agent")
def agent() -> None:
    """Let coding agents remember: Claude Code, Codex, Cursor (docs/coding-agents.md)."""


def _changing(command: Command) -> Command:
    """Add what both commands take."""
    command = click.option("--yes", is_flag=True, help="Change the file without asking.")(command)
    return click.argument("name", type=click.Choice(tuple(_NEXT)))(command)


@agent.command("install")
@_changing
@click.option("--user", metavar="ID", help="Whose memory it is. Default: the name of the operating system's user.")
def install(*, name: str, user: str | None, yes: bool) -> None:
    """Put the hooks into an agent's settings, after showing what changes there."""
    installation = _installation(name, user or current_user_name())
    if "cache" in "/".join(Path(sys.executable).parts).lower():
        click.echo(
            "NoMemory runs from a cache, which may be emptied: the hooks would do nothing then. Install it first."
        )
    if _change(installation.added, yes=yes, then=installation.keep):
        click.echo(f"{installation.title} has the hooks. {_NEXT[name]}")


@agent.command("uninstall")
@_changing
def uninstall(*, name: str, yes: bool) -> None:
    """Take the hooks out of an agent's settings. What was stored stays."""
    installation = _installation(name)
    if _change(installation.removed, yes=yes, then=lambda _change: installation.forget()):
        click.echo(f"{installation.title} has no hooks of NoMemory.")


@agent.command("hook", hidden=True)
@click.argument("name", type=click.Choice(tuple(_NEXT)))
def handed_over(*, name: str) -> None:
    """Hand an event on standard input over, as a plugin's hooks do."""
    hook.run(str(LocalDataDir.for_current_user().root), name, current_user_name())


def _installation(name: str, user: str = "") -> Installation:
    from nomemory.agents.install import Installation  # noqa: PLC0415 - a hook does not need all that it loads

    return Installation(name, LocalDataDir.for_current_user(), user)


def _change(find: Callable[[], Change], then: Callable[[Change], None], *, yes: bool) -> bool:
    """Show a change, ask, and make it; returns whether the file is now as it should be."""
    from nomemory.agents.install import InstallError  # noqa: PLC0415 - as above

    try:
        change = find()
        if change.before != change.after:
            click.echo(_shown(change))
            if not yes and not click.confirm(f"Change {change.path}?"):
                return False
            change.make()
        then(change)
    except InstallError as error:
        raise click.ClickException(printable(str(error))) from None
    return True


def _shown(change: Change) -> str:
    """Return a change as a diff."""
    before, after = (
        (content or b"").decode(errors="replace").splitlines(keepends=True) for content in (change.before, change.after)
    )
    old, new = ("/dev/null" if content is None else str(change.path) for content in (change.before, change.after))
    return printable("".join(difflib.unified_diff(before, after, old, new)))
