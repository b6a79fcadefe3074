"""Installation of NoMemory's hooks in the settings of a coding agent.

The original file is saved in the local data directory. If the settings have not been changed since the installation,
uninstalling restores the original file. If the settings have been changed, uninstalling removes only the hooks.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nomemory.agents import hook
from nomemory.agents.agent_files import FileChange, InstallError, build_hook_command, read_optional_file
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.transcript_sync import CURSOR_EVENTS
from nomemory.server.runtime.secure_files import write_atomically

Settings = dict[str, Any]
_TIMEOUT_S: Final = 5
"""Timeout of a hook in the agent, in seconds. The hook itself exits sooner."""
_MARK: Final = "/".join(Path(hook.__file__).parts[-3:])
"""Text that identifies NoMemory's entries."""


@dataclass(frozen=True, slots=True)
class HookAgent:
    """A coding agent with hooks.

    Attributes:
        variable: the environment variable that overrides the settings directory.
        directory: the default settings directory, relative to the home directory.
        file: the file that contains the hooks, relative to the settings directory.
        events: the names of the events that run the hook.
        base: fields that the file must have in addition to the hooks.
    """

    title: str
    variable: str
    directory: str
    file: str
    events: tuple[str, ...]
    base: Mapping[str, Any]

    def build_entry(self, command: str) -> Settings:
        """Return the settings entry that runs the command for an event; Cursor needs no `hooks` list in the entry."""
        grouped = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
        return {"command": command} if self.base else {"hooks": [grouped]}

    def path(self) -> Path:
        """Return the path of the hook file, with symbolic links resolved."""
        configured = os.environ.get(self.variable, "")
        return ((Path(configured) if configured else Path.home() / self.directory) / self.file).resolve()


_TURNS: Final = ("SessionStart", "UserPromptSubmit", "Stop")

AGENTS: Final[Mapping[str, HookAgent]] = {
    "claude-code": HookAgent(
        "Claude Code", "CLAUDE_CONFIG_DIR", ".claude", "settings.json", (*_TURNS, "SessionEnd"), {}
    ),
    "codex": HookAgent("Codex", "CODEX_HOME", ".codex", "hooks.json", _TURNS, {}),
    "cursor": HookAgent("Cursor", "", ".cursor", "hooks.json", ("sessionStart", *CURSOR_EVENTS), {"version": 1}),
}


class HookInstallation:
    """Installs the hooks in the settings of an agent, and removes them.

    Args:
        name: the key of the agent in `AGENTS`.
    """

    def __init__(self, name: str, home: LocalDataDir, user: str) -> None:
        self._agent = AGENTS[name]
        self.title = self._agent.title
        self._command = f"{shlex.join([*build_hook_command(home, name), user])} || true"
        self._before, self._after = home.root / f"{name}.before", home.root / f"{name}.after"

    def build_install_change(self) -> FileChange:
        """Return the change that adds the hooks, and removes the hooks of an earlier installation.

        Raises:
            InstallError: the file does not have the documented format.
        """
        path = self._agent.path()
        before = read_optional_file(path)
        settings = {**self._agent.base, **(_parse_settings(path, before) if before is not None else {})}
        hooks = _remove_entries(path, settings).setdefault("hooks", {})
        for event in self._agent.events:
            hooks.setdefault(event, []).append(self._agent.build_entry(self._command))
        return FileChange(path, before, _serialize_settings(settings, before))

    def build_uninstall_change(self) -> FileChange:
        """Return the change that removes the hooks.

        Raises:
            InstallError: the file does not have the documented format.
        """
        path = self._agent.path()
        before = read_optional_file(path)
        if before == read_optional_file(self._after):
            return FileChange(path, before, read_optional_file(self._before))
        return FileChange(path, before, _remove_hooks(path, before))

    def save_content(self, change: FileChange) -> None:
        """Save the content of the file before the change and after the change."""
        if change.old_content != read_optional_file(self._after):
            self._before.unlink(missing_ok=True)
            if (clean := _remove_hooks(change.path, change.old_content)) is not None:
                write_atomically(self._before, clean)
        write_atomically(self._after, change.new_content or b"")

    def discard_saved_content(self) -> None:
        """Delete the saved file contents."""
        self._before.unlink(missing_ok=True)
        self._after.unlink(missing_ok=True)


def _remove_hooks(path: Path, content: bytes | None) -> bytes | None:
    """Return the content of a file without NoMemory's entries; unchanged if there are none."""
    if content is None or _MARK.encode() not in content:
        return content
    return _serialize_settings(_remove_entries(path, _parse_settings(path, content)), content)


def _remove_entries(path: Path, settings: Settings) -> Settings:
    """Remove NoMemory's entries, and lists that become empty."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise InstallError(f"{path}: `hooks` must be an object that contains only lists; nothing was changed")
    for event, entries in list(hooks.items()):
        hooks[event] = [entry for entry in entries if _MARK not in json.dumps(entry)]
        if not hooks[event] and entries:
            del hooks[event]
    if not hooks:
        settings.pop("hooks", None)
    return settings


def _parse_settings(path: Path, content: bytes) -> Settings:
    try:
        settings = json.loads(content)
        json.dumps(settings, ensure_ascii=False).encode()  # fails for lone surrogates, which cannot be written
    except (ValueError, RecursionError):
        raise InstallError(f"{path} is not valid JSON; nothing was changed") from None
    if not isinstance(settings, dict):
        raise InstallError(f"{path} must be a JSON object; nothing was changed")
    return settings


def _serialize_settings(settings: Settings, before: bytes | None) -> bytes:
    """Return settings as JSON with the indentation of the previous content."""
    first = next((line for line in (before or b"").splitlines() if line[:1] in b" \t" and line.strip()), b"  x")
    indent = first[: len(first) - len(first.lstrip())].decode()
    return json.dumps(settings, indent=indent, ensure_ascii=False).encode() + b"\n"
