"""`nomemory agent`: hooks for coding agents."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from nomemory.agents import hook
from nomemory.agents.local_data_dir import LocalDataDir, read_current_user_name
from nomemory.cli.agents.program import CACHE_WARNING, get_program_path, runs_from_cache
from nomemory.cli.connection import CallError, Target, target_option
from nomemory.cli.terminal import replace_control_characters
from nomemory.client.errors import NoMemoryError

if TYPE_CHECKING:
    from nomemory.agents.agent_files import FileChange
    from nomemory.agents.install import HookInstallation
    from nomemory.agents.plugin_install import PluginInstallation

_NEXT_STEPS = {
    "claude-code": "New sessions are stored. To add the memory tools as well:\n"
    "  claude mcp add --scope user nomemory -- {program} mcp --local",
    "codex": "Codex asks before it runs new hooks: start it, enter /hooks, and trust them. To add the memory tools:\n"
    "  codex mcp add nomemory -- {program} mcp --local",
    "cursor": "Cursor hooks cannot add text to a prompt. Add the memory tools as well (docs/mcp.md).",
    "hermes": "Select it as the memory provider:\n  hermes config set memory.provider nomemory\n"
    "To add the memory tools as well:\n  hermes mcp add nomemory --command {program} --args mcp --local",
    "opencode": "New sessions are stored. To add the memory tools as well, see docs/coding-agents.md.",
}
"""Instructions after an installation."""
Command = Callable[..., None]


@click.group("agent")
def agent() -> None:
    """Give coding agents a memory: Claude Code, Codex, Cursor, Hermes, OpenCode (docs/coding-agents.md)."""


def _add_options(command: Command) -> Command:
    """Add the parameters that `install` and `uninstall` have in common."""
    command = click.option("--yes", is_flag=True, help="Change the file without asking.")(command)
    return click.argument("name", type=click.Choice(tuple(_NEXT_STEPS)))(command)


@agent.command("install")
@_add_options
@click.option("--user", metavar="ID", help="User id of the memory. Default: the name of the operating system user.")
def install(*, name: str, user: str | None, yes: bool) -> None:
    """Add the hooks or the plugin to an agent, after showing the changes."""
    installation = _prepare_installation(name, user or read_current_user_name())
    if runs_from_cache():
        click.echo(CACHE_WARNING)
    if _apply_change(installation.build_install_change, yes=yes, then=installation.save_content):
        next_steps = _NEXT_STEPS[name].format(program=get_program_path())
        click.echo(f"NoMemory is installed for {installation.title}. {next_steps}")


@agent.command("uninstall")
@_add_options
def uninstall(*, name: str, yes: bool) -> None:
    """Remove the hooks or the plugin from an agent. Stored messages are kept."""
    installation = _prepare_installation(name)
    if _apply_change(
        installation.build_uninstall_change, yes=yes, then=lambda _change: installation.discard_saved_content()
    ):
        click.echo(f"NoMemory is removed from {installation.title}.")


@agent.command("hook", hidden=True)
@click.argument("name", type=click.Choice(tuple(_NEXT_STEPS)))
def send_event(*, name: str) -> None:
    """Send an event from standard input to the local server. Plugins call this command."""
    hook.send_event(str(LocalDataDir.for_current_user().root), name, read_current_user_name())


@agent.command("send", hidden=True)
@click.argument("name", type=click.Choice(("hermes",)))
@click.option("--user", required=True, metavar="ID", help="User id of the memory.")
@target_option
def send_to_server(*, name: str, user: str, target: Target) -> None:
    """Send an event from standard input to a server. The memory provider of Hermes calls this command."""
    from nomemory.agents.server_events import answer_event  # noqa: PLC0415 - as below

    try:
        click.echo(answer_event(sys.stdin.buffer.read(), name, user, target.address, target.identity), nl=False)
    except NoMemoryError as error:
        raise CallError(error, target.address) from None


def _prepare_installation(name: str, user: str = "") -> HookInstallation | PluginInstallation:
    from nomemory.agents.install import HookInstallation  # noqa: PLC0415 - slow to import, and not needed by a hook
    from nomemory.agents.plugin_install import PLUGINS, PluginInstallation  # noqa: PLC0415 - as above

    installation = PluginInstallation if name in PLUGINS else HookInstallation
    return installation(name, LocalDataDir.for_current_user(), user)


def _apply_change(get_change: Callable[[], FileChange], then: Callable[[FileChange], None], *, yes: bool) -> bool:
    """Show a change, ask for confirmation, and write the file; return False if the user declines."""
    from nomemory.agents.agent_files import InstallError  # noqa: PLC0415 - as above

    try:
        change = get_change()
        if change.old_content != change.new_content:
            click.echo(_render_diff(change))
            if not yes and not _confirm_change(change):
                return False
            change.write_file()
        then(change)
    except InstallError as error:
        raise click.ClickException(replace_control_characters(str(error))) from None
    return True


def _confirm_change(change: FileChange) -> bool:
    """Ask whether to apply a change, and print a notice unless the answer is yes."""
    try:
        is_confirmed = click.confirm(f"Change {change.path}?")
    except click.Abort:
        click.echo(f"\n{change.path} was not changed. To change it without confirmation, use --yes.")
        raise
    if not is_confirmed:
        click.echo(f"{change.path} was not changed.")
    return is_confirmed


def _render_diff(change: FileChange) -> str:
    """Return a change as a unified diff."""
    before, after = (
        (content or b"").decode(errors="replace").splitlines(keepends=True)
        for content in (change.old_content, change.new_content)
    )
    old, new = (
        "/dev/null" if content is None else str(change.path) for content in (change.old_content, change.new_content)
    )
    return replace_control_characters("".join(difflib.unified_diff(before, after, old, new)))
