"""Install and uninstall NoMemory's plugin, a separate file, in a coding agent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.agents.agent_files import FileChange, InstallError, build_hook_command, read_optional_file
from nomemory.agents.local_data_dir import LocalDataDir


@dataclass(frozen=True, slots=True)
class AgentPlugin:
    """An agent that loads plugins.

    Attributes:
        variable: the environment variable that overrides the settings directory.
        base_variable: the environment variable that overrides the base directory, which contains the settings
            directory.
        base: the default base directory, relative to the home directory.
        directory: the settings directory, relative to the base directory.
        file: the file of the plugin, relative to the settings directory.
        source: the name of the plugin's source file in the directory `agents/plugins`.
    """

    title: str
    variable: str
    base_variable: str
    base: str
    directory: str
    file: str
    source: str

    def path(self) -> Path:
        """Return the path of the plugin file, with symbolic links resolved."""
        configured = os.environ.get(self.variable, "")
        base = os.environ.get(self.base_variable, "") or Path.home() / self.base
        return ((Path(configured) if configured else Path(base) / self.directory) / self.file).resolve()


_PLUGINS: Final = Path(__file__).with_name("plugins")
_RUN_CLI: Final = "from nomemory.cli.main import main; main()"
_PLUGIN_MARK: Final = b"which `nomemory agent install "
"""Text that identifies NoMemory's plugins."""

PLUGINS: Final[Mapping[str, AgentPlugin]] = {
    "hermes": AgentPlugin("Hermes", "HERMES_HOME", "", "", ".hermes", "plugins/nomemory/__init__.py", "hermes.py"),
    "opencode": AgentPlugin(
        *("OpenCode", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
        *("opencode", "plugins/nomemory.js", "opencode.js"),
    ),
}


class PluginInstallation:
    """Installs and removes the plugin of an agent. The plugin is a single file.

    Args:
        name: the key of the agent in `PLUGINS`.
    """

    def __init__(self, name: str, home: LocalDataDir, user: str) -> None:
        self._plugin = PLUGINS[name]
        self.title = self._plugin.title
        command = build_hook_command(home, name)
        server_command = [sys.executable, "-P", "-c", _RUN_CLI, "agent", "send", name, "--user"]
        self._values = {
            "HOOK_COMMAND: Final[Sequence[str]] =": command,
            "SERVER_COMMAND: Final[Sequence[str]] =": server_command,
            "DEFAULT_USER: Final =": user,
            "const COMMAND =": [*command, user],
        }

    def build_install_change(self) -> FileChange:
        """Return the change that writes the plugin.

        Raises:
            InstallError: the file belongs to another plugin, or cannot be read.
        """
        path = self._plugin.path()
        lines = (_PLUGINS / self._plugin.source).read_text("utf-8").splitlines(keepends=True)
        return FileChange(path, self._read_installed_plugin(path), "".join(map(self._fill_in_constant, lines)).encode())

    def build_uninstall_change(self) -> FileChange:
        """Return the change that deletes the plugin.

        Raises:
            InstallError: the file belongs to another plugin, or cannot be read.
        """
        path = self._plugin.path()
        return FileChange(path, self._read_installed_plugin(path), None)

    def save_content(self, change: FileChange) -> None:
        """Do nothing, because the file contains only the plugin."""

    def discard_saved_content(self) -> None:
        """Do nothing, because installing a plugin saves no content."""

    def _fill_in_constant(self, line: str) -> str:
        """Fill in the value if a line of the plugin defines a constant.

        Values are JSON, which is valid in Python and JavaScript.
        """
        for definition, value in self._values.items():
            if line.startswith(definition):
                return f"{definition} {json.dumps(value)}{';' if definition.startswith('const') else ''}\n"
        return line

    def _read_installed_plugin(self, path: Path) -> bytes | None:
        content = read_optional_file(path)
        if content is not None and _PLUGIN_MARK not in content:
            raise InstallError(f"{path} is not a NoMemory plugin: move it elsewhere; nothing was changed")
        return content
