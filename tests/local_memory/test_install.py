"""Tests for the installation and removal of hooks in the settings of an agent."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from local_memory.local import LocalHome

from nomemory.agents.install import AGENTS

FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "cursor": ".cursor/hooks.json"}
USER_HOOK = {"type": "command", "command": "say done"}
HOOK_JSON = json.dumps(USER_HOOK)
BEFORE = {
    "none": None,
    "ours only": "{}",
    "odd spaces": f'{{ "model":"opus" ,\n\n   "hooks" : {{"Stop": [ {{"hooks": [{HOOK_JSON}]}} ]}}, "é": "ü" }}',
    "tabs": '{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}',
}


def settings(at: LocalHome, name: str) -> Path:
    return at.root / FILES[name]


def put(path: Path, text: str | None) -> None:
    path.parent.mkdir(exist_ok=True)
    if text is not None:
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_uninstall_restores_the_original_settings_file(at: LocalHome, name: str, before: str | None) -> None:
    path = settings(at, name)
    put(path, before)
    for _ in range(2):  # repeating it changes nothing
        done = at.invoke("agent", "install", name, "--yes")
        assert done.exit_code == 0, done.stderr
    assert path.read_text().count("hook.py") == len(AGENTS[name].events)
    assert at.invoke("agent", "uninstall", name, "--yes").exit_code == 0
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == before


@pytest.mark.parametrize("name", FILES)
def test_uninstall_keeps_later_changes_of_the_settings_file(at: LocalHome, name: str) -> None:
    path = settings(at, name)
    at.invoke("agent", "install", name, "--yes")
    now = json.loads(path.read_text())
    now["hooks"]["Stop" if name != "cursor" else "stop"] = [{"hooks": [USER_HOOK]}, *now["hooks"].get("Stop", [])]
    path.write_text(json.dumps(now | {"later": True}))
    assert at.invoke("agent", "uninstall", name, "--yes").exit_code == 0
    rest = json.loads(path.read_text())
    assert rest.pop("version", 1) == 1
    assert rest == {"hooks": {"Stop" if name != "cursor" else "stop": [{"hooks": [USER_HOOK]}]}, "later": True}


def test_uninstall_after_reinstall_keeps_other_changes(at: LocalHome) -> None:
    path = settings(at, "claude-code")
    at.invoke("agent", "install", "claude-code", "--yes")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": True}))
    at.invoke("agent", "install", "claude-code", "--yes")
    assert at.run("agent", "uninstall", "claude-code", "--yes").returncode == 0
    assert json.loads(path.read_text()) == {"later": True}


def test_settings_without_nomemory_hooks_are_unchanged(at: LocalHome) -> None:
    path = settings(at, "codex")
    put(path, BEFORE["odd spaces"])
    assert at.invoke("agent", "uninstall", "codex", "--yes").exit_code == 0
    assert path.read_text(encoding="utf-8") == BEFORE["odd spaces"]


def test_install_shows_the_diff_and_asks_for_confirmation(at: LocalHome) -> None:
    path = settings(at, "codex")
    put(path, "{}")
    declined = at.run("agent", "install", "codex", answer="n\n")
    assert '+    "UserPromptSubmit": [' in declined.stdout
    assert f"Change {path}?" in declined.stdout
    assert declined.stdout.rstrip().endswith(f"{path} was not changed.")
    unanswered = at.run("agent", "install", "codex", answer="")
    assert unanswered.returncode == 130
    assert f"{path} was not changed. To change it without confirmation, use --yes." in unanswered.stdout
    assert path.read_text() == "{}"
    assert at.run("agent", "install", "codex", answer="y\n").returncode == 0
    assert path.read_text() != "{}"


@pytest.mark.parametrize(
    "broken",
    ["{", "[]", '// comment\n{"a": 1}', '{"hooks": 3}', '{"hooks": {"Stop": "x"}}', '{"a": "\\ud800"}', "[" * 90_000],
)
def test_malformed_settings_are_not_changed(at: LocalHome, broken: str) -> None:
    path = settings(at, "claude-code")
    put(path, broken)
    refused = at.invoke("agent", "install", "claude-code", "--yes")
    assert (refused.exit_code, "nothing was changed" in refused.stderr) == (1, True)
    assert path.read_text() == broken


def test_symbolic_link_is_preserved(at: LocalHome) -> None:
    real = at.root / "dotfiles.json"
    real.write_text('{"hooks": {}}')
    path = settings(at, "claude-code")
    path.parent.mkdir()
    path.symlink_to(real)
    at.invoke("agent", "install", "claude-code", "--yes")
    assert path.is_symlink()
    assert "hook.py" in real.read_text()


def test_installed_command_can_be_run_by_the_agent(at: LocalHome) -> None:
    at.run("agent", "install", "claude-code", "--user", "o'brien", "--yes")
    (entry,) = json.loads(settings(at, "claude-code").read_text())["hooks"]["Stop"]
    command = entry["hooks"][0]["command"]
    assert "o'brien" in shlex.split(command)
    done = subprocess.run(["sh", "-c", command], input=b"{}", capture_output=True, timeout=30, check=False)  # noqa: S607 - whichever there is
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_plugin_registers_the_same_events_and_existing_commands(at: LocalHome) -> None:
    plugin = Path("plugins/nomemory")
    hooks = json.loads((plugin / "hooks/hooks.json").read_text())["hooks"]
    assert tuple(hooks) == AGENTS["claude-code"].events
    (command,) = {entry["command"] for ((entry,),) in ((item["hooks"] for item in of) for of in hooks.values())}
    words = shlex.split(command.removesuffix(" || true"))
    done = at.run(*words[1:], answer="{}")
    assert (words[0], done.returncode, done.stdout, done.stderr) == ("nomemory", 0, "", "")
    (served,) = json.loads((plugin / ".claude-plugin/plugin.json").read_text())["mcpServers"].values()
    assert served == {"command": "nomemory", "args": ["mcp", "--local"]}
