"""The plugin of OpenCode: its hooks called by Node.js with a real local server, and in OpenCode itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from local_memory.agent_model import model_for_agents
from local_memory.local import LocalHome
from server.fleet import until

HOST = Path(__file__).with_name("opencode_host.mjs")
RULE = "Use pnpm, never npm, in this repo. The gateway listens on port 7710."
RULES = "how to work on this project"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="requires Node.js")
needs_opencode = pytest.mark.skipif(shutil.which("opencode") is None, reason="requires OpenCode: npm i -g opencode-ai")


class Host:
    """A process that has loaded the plugin.

    Attributes:
        log: what the plugin logged so far.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.log: list[dict[str, str]] = []

    def call(self, hook: str, *parameters: object) -> list[Any]:
        """Call a hook; return its arguments after the call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([hook, *parameters]) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        self.log = reply["log"]
        return list(reply["parameters"])

    def prompt(self, session: str, text: str) -> list[dict[str, Any]]:
        """Send a prompt; return the parts that were added to it."""
        parts = [{"id": "prt_1", "type": "text", "text": text}]
        _, output = self.call("chat.message", {"sessionID": session}, {"message": {"id": "msg_1"}, "parts": parts})
        return list(output["parts"][1:])

    def idle(self, session: str) -> None:
        self.call("event", {"event": {"type": "session.idle", "properties": {"sessionID": session}}})


@contextmanager
def host(plugin: Path) -> Iterator[Host]:
    """Load the plugin until the context exits."""
    command = ["node", str(HOST), str(plugin)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Host(process)
    assert process.returncode == 0


@pytest.fixture
def plugin(served: LocalHome) -> Path:
    """The plugin as it is installed."""
    done = served.invoke("agent", "install", "opencode", "--user", served.user, "--yes")
    assert done.exit_code == 0, done.stderr
    return served.root / ".config/opencode/plugins/nomemory.js"


def message(number: int, role: str, *parts: dict[str, Any], **more: object) -> dict[str, Any]:
    """Return a message as OpenCode's API does."""
    info = {"id": f"msg_{number}", "role": role, "time": {"created": 1_772_442_000_000 + number}, **more}
    return {"info": info, "parts": [{"id": f"prt_{number}{index}", **part} for index, part in enumerate(parts)]}


def text(content: str, **more: object) -> dict[str, Any]:
    return {"type": "text", "text": content, **more}


def tool(name: str, output: str) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool": name,
        "state": {"status": "completed", "output": output, "time": {"end": 1_772_442_000_002}},
    }


SESSION = [
    message(1, "user", text(RULE), text("<file>read</file>", synthetic=True)),
    message(2, "assistant", {"type": "reasoning", "text": "Hm."}, tool("bash", "7710"), tool("nomemory_recall", "[]")),
    message(3, "assistant", text("The gateway is on port 7710.")),
    message(4, "assistant", text("A summary of the session."), summary=True),
]


@needs_node
def test_session_is_stored_once_and_recalled_in_another(served: LocalHome, plugin: Path) -> None:
    with host(plugin) as opencode:
        opencode.call("session", "s1", {"info": {}, "messages": SESSION})
        for _ in range(2):
            opencode.idle("s1")
        expected = [("1", RULE), ("bash", "7710"), ("2", "The gateway is on port 7710.")]
        assert until(lambda: served.list_turns() == expected), served.list_turns()
        with served.calls() as client:
            stored = next(client.iter_messages(served.user))
        assert (stored.conversation_id, dict(stored.metadata)) == ("s1", {"agent": "opencode", "project": "harbour"})
        question = "Which port does the gateway listen on?"
        sessions = (f"new {number}" for number in count())
        assert until(lambda: RULES in json.dumps(opencode.prompt(next(sessions), question)))  # indexed
        (added,) = opencode.prompt("s3", question)
        assert (added["synthetic"], added["sessionID"], added["messageID"]) == (True, "s3", "msg_1")
        assert added["id"] > "prt_1"
        assert RULES in added["text"]
        (related,) = opencode.prompt("s3", question)
        assert "7710" in related["text"]
        assert RULES not in related["text"]
        assert opencode.prompt("s1", "ok") == []
        assert opencode.log == []


@needs_node
def test_subagent_sessions_are_neither_stored_nor_changed(served: LocalHome, plugin: Path) -> None:
    with host(plugin) as opencode:
        opencode.call("session", "s1", {"info": {}, "messages": SESSION[:1]})
        opencode.call("session", "s2", {"info": {"parentID": "s1"}, "messages": SESSION[2:]})
        opencode.idle("s2")
        opencode.idle("s1")
        assert until(lambda: served.list_turns() == [("1", RULE)])
        opencode.call("session", "s3", {"info": {"parentID": "s1"}, "messages": []})
        assert until(lambda: opencode.prompt("s4", "Which port does the gateway listen on?") != [])
        assert opencode.prompt("s3", "Which port does the gateway listen on?") == []


@needs_node
def test_missing_hook_program_is_logged_once_and_does_not_stop_the_agent(plugin: Path) -> None:
    lines = plugin.read_text().splitlines(keepends=True)
    plugin.write_text("".join('const COMMAND = ["/gone"];\n' if "COMMAND =" in line else line for line in lines))
    with host(plugin) as opencode:
        opencode.call("session", "s1", {"info": {}, "messages": SESSION})
        for _ in range(2):
            assert opencode.prompt("s1", RULE) == []
            opencode.idle("s1")
        (entry,) = opencode.log
    assert entry == {
        "service": "nomemory",
        "level": "warn",
        "message": "NoMemory is unavailable (ENOENT). The agent continues without it.",
    }


@needs_opencode
def test_opencode_stores_turns_and_sends_related_messages_to_the_model(
    served: LocalHome, plugin: Path, tmp_path: Path
) -> None:
    project = tmp_path / "harbour"
    project.mkdir()
    with model_for_agents() as model:
        provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": model.url, "apiKey": "none"}}
        settings = {
            "autoupdate": False,
            "model": "test/test",
            "provider": {"test": {**provider, "models": {"test": {}}}},
        }
        plugin.parents[1].joinpath("opencode.json").write_text(json.dumps(settings))

        def run(prompt: str) -> None:
            command = [str(shutil.which("opencode")), "run", prompt]
            environment = {**served.environment, "PATH": os.environ["PATH"]}
            done = subprocess.run(
                command, cwd=project, env=environment, capture_output=True, text=True, timeout=180, check=False
            )
            assert done.returncode == 0, done.stderr

        run(RULE)
        assert until(lambda: [name for name, _ in served.list_turns()] == ["1", "2"]), served.list_turns()
        run("Which port does the gateway listen on?")
        assert RULES in json.dumps(model.bodies[-1]["messages"][-1])
