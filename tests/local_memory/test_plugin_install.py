"""Tests for the installation and removal of plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_memory.local import NOMEMORY, LocalHome

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.plugin_install import PluginInstallation

FILES = {"hermes": ".hermes/plugins/nomemory/__init__.py", "opencode": ".config/opencode/plugins/nomemory.js"}


@pytest.mark.parametrize("name", FILES)
def test_plugin_is_reinstalled_and_removed(at: LocalHome, name: str) -> None:
    path = at.root / FILES[name]
    for user in ("ann", 'o"brien'):
        done = at.invoke("agent", "install", name, "--user", user, "--yes")
        assert done.exit_code == 0, done.stderr
    text = path.read_text()
    assert ('"o\\"brien"' in text, '"ann"' in text, str(at.home.root) in text) == (True, False, True)
    assert at.invoke("agent", "uninstall", name, "--yes").exit_code == 0
    assert not path.exists()
    assert at.invoke("agent", "uninstall", name, "--yes").exit_code == 0


@pytest.mark.parametrize("name", FILES)
def test_file_of_another_plugin_is_unchanged(at: LocalHome, name: str) -> None:
    path = at.root / FILES[name]
    path.parent.mkdir(parents=True)
    path.write_text("# another plugin\n")
    for command in ("install", "uninstall"):
        refused = at.invoke("agent", command, name, "--yes")
        assert (refused.exit_code, "is not a NoMemory plugin" in refused.stderr) == (1, True)
    assert path.read_text() == "# another plugin\n"


def test_the_next_steps_of_hermes_name_the_program(at: LocalHome) -> None:
    shown = at.run("agent", "install", "hermes", "--yes").stdout
    assert "hermes config set memory.provider nomemory" in shown
    assert f"hermes mcp add nomemory --command {NOMEMORY} --args mcp --local" in shown


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("hermes", "HERMES_HOME", "plugins/nomemory/__init__.py"),
        ("opencode", "OPENCODE_CONFIG_DIR", "plugins/nomemory.js"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugins/nomemory.js"),
    ],
)
def test_configured_agent_directory_is_used(
    name: str, variable: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    change = PluginInstallation(name, LocalDataDir(tmp_path / "data"), "ann").build_install_change()
    assert change.path == (tmp_path / file).resolve()
