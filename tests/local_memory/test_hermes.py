"""The memory provider of Hermes: with a real server and a stand-in for Hermes's base class, and in Hermes itself."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from identity.keyring import Keyring
from local_memory.agent_model import model_for_agents
from local_memory.local import LocalHome
from server.fleet import until

from nomemory.client.sync import Client
from nomemory.server.runtime.settings import Settings
from running_server import started

RULE = "Use pnpm, never npm, in this repo. The gateway listens on port 7710."
QUESTION = "Which port does the gateway listen on?"
ORDER = "install left-pad with npm"
needs_hermes = pytest.mark.skipif(shutil.which("hermes") is None, reason="requires Hermes: pipx install hermes-agent")


def tool_call(call_id: str, name: str) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "function": {"name": name}}]}


MESSAGES = [
    {"role": "user", "content": "An earlier question."},
    {"role": "assistant", "content": "An earlier answer."},
    {"role": "user", "content": RULE},
    tool_call("c1", "terminal"),
    {"role": "tool", "tool_call_id": "c1", "content": "port=7710"},
    tool_call("c2", "mcp_nomemory_recall"),
    {"role": "tool", "tool_call_id": "c2", "content": "an old message"},
    {"role": "assistant", "content": "Noted."},
]
TURN = [("1", RULE), ("terminal", "port=7710"), ("2", "Noted.")]


@pytest.fixture
def plugin(served: LocalHome) -> Path:
    """The plugin as it is installed."""
    done = served.invoke("agent", "install", "hermes", "--user", served.user, "--yes")
    assert done.exit_code == 0, done.stderr
    return served.root / ".hermes/plugins/nomemory/__init__.py"


@pytest.fixture
def hermes(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the plugin."""
    base = ModuleType("agent.memory_provider")
    vars(base)["MemoryProvider"] = object
    monkeypatch.setitem(sys.modules, "agent", ModuleType("agent"))
    monkeypatch.setitem(sys.modules, "agent.memory_provider", base)
    for name in ("NOMEMORY_TARGET", "NOMEMORY_USER", "NOMEMORY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    # A compiled file would be used again for a plugin that another test installs within the same second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location("nomemory_plugin", plugin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_TIMEOUT_S", 60.0)  # the programs start slowly on a busy machine
    return module


class Providers:
    """Creates providers as Hermes does, and shuts them down."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._created: list[Any] = []

    def register_memory_provider(self, provider: object) -> None:
        self._created.append(provider)

    def create(self, session: str, **chat: str) -> Any:  # noqa: ANN401 - a class of the loaded module
        self._module.register(self)
        provider = self._created[-1]
        assert provider.is_available()
        provider.initialize(session, **{"platform": "cli", "agent_context": "primary", **chat})
        return provider

    def shutdown(self) -> None:
        for provider in self._created:
            provider.shutdown()


@pytest.fixture
def providers(hermes: ModuleType) -> Iterator[Providers]:
    providers = Providers(hermes)
    yield providers
    providers.shutdown()


def has_texts(at: LocalHome, user: str, *texts: str) -> bool:
    return [text for _, text in at.list_turns(user)] == list(texts)


def test_a_turn_is_stored_and_recalled_in_another_session(served: LocalHome, providers: Providers) -> None:
    provider = providers.create("h1")
    provider.on_turn_start(2, RULE, model="test")
    provider.sync_turn(RULE, "Noted.", session_id="h1", messages=MESSAGES)
    assert until(lambda: served.list_turns() == TURN), served.list_turns()
    with served.calls() as client:
        (stored, *_) = client.iter_messages(served.user)
    assert (stored.conversation_id, dict(stored.metadata)) == ("h1", {"agent": "hermes"})
    assert until(lambda: "7710" in provider.prefetch(QUESTION, session_id="h2"))
    assert provider.prefetch(QUESTION) == ""
    provider.on_session_end(MESSAGES)
    provider.on_session_switch("h2", parent_session_id="h1", reset=True, reason="new_session")
    assert "7710" in provider.prefetch(QUESTION)
    provider.sync_turn("Thanks.", "You are welcome.")
    assert until(lambda: len(served.list_turns()) == 5)
    with served.calls() as client:
        assert next(client.iter_messages(served.user)).conversation_id == "h2"


def test_turn_sent_twice_is_stored_once(served: LocalHome) -> None:
    message = {"id": "m1", "time": "2026-03-02T09:00:00Z", "role": "user", "text": RULE, "name": ""}
    turn = {"hook_event_name": "Stop", "session_id": "h1", "messages": [message]}
    later = {**message, "id": "m2", "text": "ghp_" + "a1B2" * 9}
    for messages in ([message], [message], ["not a message", {**message, "id": ""}, later]):
        served.hook("hermes", {**turn, "messages": messages})
    assert until(lambda: len(served.list_turns()) == 2)
    assert served.list_turns() == [("1", RULE), ("1", "[secret removed]")]


def test_equal_turns_are_stored_separately(served: LocalHome, providers: Providers) -> None:
    provider = providers.create("h1")
    for _ in range(2):
        provider.sync_turn("yes", "Done.")
    assert until(lambda: sorted(served.list_turns()) == [("1", "yes")] * 2 + [("2", "Done.")] * 2), served.list_turns()


def test_turns_are_queued_and_logged_once_while_nomemory_is_missing(
    served: LocalHome,
    hermes: ModuleType,
    providers: Providers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
        broken.setattr(hermes, "HOOK_COMMAND", [sys.executable, "/gone/hook.py"])
        provider = providers.create("h1")
        provider.sync_turn(RULE, "Noted.")
        assert provider.prefetch(QUESTION) == ""
        assert until(lambda: caplog.messages != [])
    assert caplog.messages == ["NoMemory is unavailable (exit status 2). The agent continues without it."]
    provider.on_session_end([])
    assert until(lambda: served.list_turns() == [("1", RULE), ("2", "Noted.")])
    monkeypatch.setattr(hermes, "HOOK_COMMAND", ["/gone/python"])
    assert not provider.is_available()


def test_people_and_groups_of_a_chat_platform_have_separate_memories(
    served: LocalHome, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = {
        "telegram:7": {"user_id": "7", "chat_id": "7", "chat_type": "dm"},
        "telegram:-100": {"user_id": "7", "chat_id": "-100", "chat_type": "group"},
    }
    for user, chat in chats.items():
        provider = providers.create("t1", platform="telegram", **chat)
        provider.sync_turn(f"I am {user}.", "Hello.")
        assert until(partial(has_texts, served, user, f"I am {user}.", "Hello."))
    monkeypatch.setenv("NOMEMORY_USER", "everyone")
    providers.create("t2", platform="telegram", **chats["telegram:7"]).sync_turn("It is me.", "Hello.")
    assert until(lambda: len(served.list_turns("everyone")) == 2)
    assert served.list_turns() == []


@pytest.mark.parametrize("chat", [{"agent_context": "subagent"}, {"platform": "cron"}])
def test_scheduled_jobs_and_subagents_are_not_stored(
    served: LocalHome, providers: Providers, chat: dict[str, str]
) -> None:
    providers.create("h1", **chat).sync_turn("Run the job.", "Done.")
    providers.create("h2").sync_turn("Hello.", "Hello.")
    assert until(lambda: len(served.list_turns()) == 2)
    assert served.list_turns() == [("1", "Hello."), ("2", "Hello.")]


def test_a_server_with_an_api_key_is_used_instead_of_the_local_memory(
    served: LocalHome,
    providers: Providers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "nomemory_plugin")
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.key("query", "ingest", "act-as")
    settings = Settings.from_environment(
        data=tmp_path / "data", listen="127.0.0.1:0", api_keys=keyring.path, embedder="none"
    )
    with started(settings) as server, Client(server.target, api_key=key) as client:
        monkeypatch.setenv("NOMEMORY_TARGET", server.target)
        provider = providers.create("h1")
        provider.sync_turn(RULE, "Noted.")  # without the key
        assert until(lambda: caplog.messages != [])
        monkeypatch.setenv("NOMEMORY_API_KEY", key)
        provider.on_session_end([])
        assert until(lambda: client.count_messages(served.user) == 2)
        assert until(lambda: "Use pnpm" in provider.prefetch(ORDER, session_id="h2"))
        assert provider.prefetch(ORDER) == ""
        failures = caplog.messages.copy()
        for odd in ("", "\ud800", "x" * 40_000):
            assert provider.prefetch(odd) == ""
    assert served.list_turns() == []
    assert caplog.messages == failures == ["NoMemory is unavailable (exit status 1). The agent continues without it."]


@needs_hermes
def test_hermes_loads_the_provider_stores_turns_and_sends_related_messages_to_the_model(
    served: LocalHome, plugin: Path
) -> None:
    assert plugin.is_file()
    with model_for_agents() as model:
        provider = {"default": "test", "provider": "custom", "base_url": model.url, "api_key": "none"}
        settings = {"model": provider, "memory": {"provider": "nomemory"}}
        (served.root / ".hermes/config.yaml").write_text(json.dumps(settings))

        def run(prompt: str) -> None:
            environment = {**served.environment, "PATH": os.environ["PATH"]}
            command = [str(shutil.which("hermes")), "--oneshot", prompt]
            done = subprocess.run(
                command, cwd=served.root, env=environment, capture_output=True, text=True, timeout=180, check=False
            )
            assert done.returncode == 0, done.stderr

        run(RULE)
        assert until(lambda: [name for name, _ in served.list_turns()] == ["1", "2"]), served.list_turns()
        run(QUESTION)
        assert RULE in json.dumps(model.bodies[-1]["messages"][-1])
