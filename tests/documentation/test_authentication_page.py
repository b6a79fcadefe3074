"""Tests that run the key commands of docs/authentication.md in order."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli.command_line import Run
from documentation.blocks import Command, of_page

from nomemory.client import Client
from running_server import Server, settings_without_embedder, started

PAGE = "docs/authentication.md"
KEYS = "keys.json"
NOW = datetime.now(UTC)


@dataclass
class Keys:
    """The keys that the commands of the page created, by name."""

    run: Run
    made: dict[str, str] = field(default_factory=dict)

    def create(self, command: Command) -> None:
        """Run a key command, and store the key that it prints."""
        result = self.run(*command.words[1:])
        assert result.exit_code == 0, result.stderr
        if "create" in command.words:
            (self.made[command.words[command.words.index("--name") + 1]],) = re.findall(r"nm_[\w-]+", result.output)

    def key(self, shown: str) -> str:
        """Return the key of a placeholder `nm_…` or `nm_NAME…` on the page."""
        return self.made[shown.removeprefix("nm_").rstrip("…") or "chat"]


def commands(*second: str) -> list[Command]:
    """Return the commands of the page that begin with `nomemory` and a given word."""
    page_commands = [command for block in of_page(PAGE, "sh") for command in block.commands()]
    return [item for item in page_commands if item.program == "nomemory" and item.words[1] in second]


def test_documented_authentication_commands_work(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOMEMORY_API_KEYS", KEYS)
    keys = Keys(run)
    for command in commands("keys"):
        keys.create(command)
    assert sorted(keys.made) == ["chat", "desk", "operator", "shop"]
    settings = settings_without_embedder(tmp_path / "data")
    with started(settings) as server:
        for name in ("shop", "desk"):
            with Client(server.target, api_key=keys.made[name]) as client:
                client.write([{"user_id": "lin", "role": "user", "ts": NOW, "content": f"said at {name}"}])
        assert [run_list_command(command, keys, server, monkeypatch) for command in commands("list")] == [
            [],
            ["said at shop"],
            ["said at desk"],
            ["said at shop"],
        ]
        (line,) = (block.text for block in of_page(PAGE, "python"))
        line = line.replace("127.0.0.1:7700", server.target).replace("nm_…", keys.made["chat"])
        with eval(line, {"Client": Client}) as client:  # noqa: S307 - the page's own line
            assert not client.list_messages("lin").items


def run_list_command(command: Command, keys: Keys, server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a list command of the page with its key, and return the output."""
    monkeypatch.setenv("NOMEMORY_API_KEY", keys.key(command.variables["NOMEMORY_API_KEY"]))
    result = keys.run(*command.words[1:], "--target", server.target, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["content"] for line in result.stdout.splitlines()]
