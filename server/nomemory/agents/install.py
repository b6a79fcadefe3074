"""Puts NoMemory's hooks into the settings of a coding agent, and takes them out again, byte for byte.

What a file was before is kept beside the data. As long as nobody has changed the file since, taking the hooks out
restores exactly that; otherwise the hooks alone are taken out, and the rest stays as it is now.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nomemory.agents import hook
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.transcript_sync import CURSOR_EVENTS
from nomemory.server.runtime.secure_files import write_atomically

Settings = dict[str, Any]
_TIMEOUT_S: Final = 5
"""After how long the agent itself gives up on a hook, which ends by itself before that."""
_MARK: Final = "/".join(Path(hook.__file__).parts[-3:])
"""What our entries have, and no others."""


class InstallError(Exception):
    """The agent's settings cannot be changed; the text says why."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent that has hooks.

    Attributes:
        title: what people call it.
        variable: of the environment, which says where its settings are.
        directory: where they are otherwise, in the home of the user.
        file: the file there that names hooks.
        events: that are hooked.
        base: what the file has beside the hooks.
    """

    title: str
    variable: str
    directory: str
    file: str
    events: tuple[str, ...]
    base: Mapping[str, Any]

    def entry(self, command: str) -> Settings:
        """Return what stands under an event; Cursor's file has a version, and no groups of commands."""
        one = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
        return {"command": command} if self.base else {"hooks": [one]}

    def path(self) -> Path:
        """Return the file; where it is a link, what that leads to."""
        named = os.environ.get(self.variable, "")
        return ((Path(named) if named else Path.home() / self.directory) / self.file).resolve()


_TURNS: Final = ("SessionStart", "UserPromptSubmit", "Stop")

AGENTS: Final[Mapping[str, Agent]] = {
    "claude-code": Agent("Claude Code", "CLAUDE_CONFIG_DIR", ".claude", "settings.json", (*_TURNS, "SessionEnd"), {}),
    "codex": Agent("Codex", "CODEX_HOME", ".codex", "hooks.json", _TURNS, {}),
    "cursor": Agent("Cursor", "", ".cursor", "hooks.json", tuple(CURSOR_EVENTS), {"version": 1}),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file. None stands for no file."""

    path: Path
    before: bytes | None
    after: bytes | None

    def make(self) -> None:
        """Change the file, unless somebody else has changed it meanwhile.

        Raises:
            InstallError: somebody has, or it cannot be written.
        """
        if _content(self.path) != self.before:
            raise InstallError(f"{self.path} has changed meanwhile: try again")
        try:
            if self.after is None:
                self.path.unlink(missing_ok=True)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.path, self.after, like=self.path.stat() if self.path.exists() else None)
        except OSError as error:
            raise InstallError(f"{self.path}: {error.strerror or error}") from None


class Installation:
    """The hooks of one agent.

    Args:
        name: the agent's.
        home: of the memory.
        user: whose memory it is.

    Attributes:
        title: what people call the agent.
    """

    def __init__(self, name: str, home: LocalDataDir, user: str) -> None:
        self._agent = AGENTS[name]
        self.title = self._agent.title
        command = [sys.executable, "-IS", str(Path(hook.__file__)), str(home.root), name, user]
        self._command = f"{shlex.join(command)} || true"
        self._before, self._after = home.root / f"{name}.before", home.root / f"{name}.after"

    def added(self) -> Change:
        """Return the change that puts the hooks in, and those of an earlier installation out.

        Raises:
            InstallError: the file is not of the form that the agent documents.
        """
        path = self._agent.path()
        before = _content(path)
        settings = {**self._agent.base, **(_parsed(path, before) if before is not None else {})}
        hooks = _without_ours(path, settings).setdefault("hooks", {})
        for event in self._agent.events:
            hooks.setdefault(event, []).append(self._agent.entry(self._command))
        return Change(path, before, _written(settings, before))

    def removed(self) -> Change:
        """Return the change that takes the hooks out.

        Raises:
            InstallError: as `added`.
        """
        path = self._agent.path()
        before = _content(path)
        if before == _content(self._after):
            return Change(path, before, _content(self._before))
        return Change(path, before, _cleaned(path, before))

    def keep(self, change: Change) -> None:
        """Remember what the file was before the first change of ours, and what it is now."""
        if change.before != _content(self._after):
            self._before.unlink(missing_ok=True)
            if (clean := _cleaned(change.path, change.before)) is not None:
                write_atomically(self._before, clean)
        write_atomically(self._after, change.after or b"")

    def forget(self) -> None:
        """Forget it."""
        self._before.unlink(missing_ok=True)
        self._after.unlink(missing_ok=True)


def _cleaned(path: Path, content: bytes | None) -> bytes | None:
    """Return the content of a file without our entries; as it is, where there are none."""
    if content is None or _MARK.encode() not in content:
        return content
    return _written(_without_ours(path, _parsed(path, content)), content)


def _without_ours(path: Path, settings: Settings) -> Settings:
    """Take our entries out, and what is empty then."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise InstallError(f"{path}: `hooks` is not of the form that is known; nothing was changed")
    for event, entries in list(hooks.items()):
        hooks[event] = [entry for entry in entries if _MARK not in json.dumps(entry)]
        if not hooks[event] and entries:
            del hooks[event]
    if not hooks:
        settings.pop("hooks", None)
    return settings


def _parsed(path: Path, content: bytes) -> Settings:
    try:
        settings = json.loads(content)
        json.dumps(settings, ensure_ascii=False).encode()  # half a surrogate pair could not be written again
    except (ValueError, RecursionError):
        raise InstallError(f"{path} is not JSON; nothing was changed") from None
    if not isinstance(settings, dict):
        raise InstallError(f"{path} is not a JSON object; nothing was changed")
    return settings


def _written(settings: Settings, before: bytes | None) -> bytes:
    """Write settings with the indentation that they had."""
    first = next((line for line in (before or b"").splitlines() if line[:1] in b" \t" and line.strip()), b"  x")
    indent = first[: len(first) - len(first.lstrip())].decode()
    return json.dumps(settings, indent=indent, ensure_ascii=False).encode() + b"\n"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path}: {error.strerror or error}") from None
