"""Tests for `nomemory mcp --local`, which shares one server among all agents of a user."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from local_memory.local import NOMEMORY, LocalHome, agent, recalled, shown
from server.fleet import until

from nomemory.agents.local_data_dir import read_current_user_name
from nomemory.agents.local_server import LocalServerError, is_running

PORT = "We put the gateway on port 7710."
FERRY = "The ferry to Aalborg leaves from quay four."


async def happened(look: Callable[[], object]) -> bool:
    return await asyncio.to_thread(until, lambda: bool(look()))


async def test_tools_are_listed_before_the_server_starts(at: LocalHome) -> None:
    at.home.create()
    with at.home.hold_start_lock():
        async with agent(at) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= {"recall", "remember"}
            assert not at.servers()


async def test_remembered_message_is_recalled(at: LocalHome) -> None:
    async with agent(at) as client:
        remembered = await client.call_tool("remember", {"content": PORT})
        assert remembered.structured_content["outcome"] == "created"
        assert PORT in await recalled(client, "Which port is the gateway on?")


async def test_second_agent_shares_the_server_and_survives_the_first(at: LocalHome, tmp_path: Path) -> None:
    async with agent(at) as second:
        async with agent(at, pid_file=tmp_path / "pid") as first:
            await first.call_tool("remember", {"content": PORT})
            await second.call_tool("remember", {"content": FERRY})
            server = at.server()
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert PORT in await recalled(second, "Which port is the gateway on?")
        assert FERRY in await recalled(second, "Where does the ferry leave from?")
        assert at.servers() == [server]


async def test_killed_server_is_restarted_without_data_loss(at: LocalHome) -> None:
    async with agent(at) as client:
        await client.call_tool("remember", {"content": PORT})
        killed = at.server()
        assert killed
        os.kill(killed, signal.SIGKILL)
        assert await happened(lambda: killed not in at.servers())
        assert PORT in await recalled(client, "Which port is the gateway on?")
        assert at.servers() != [killed]


async def test_concurrent_agents_start_one_server(at: LocalHome) -> None:
    async with agent(at) as first, agent(at) as second:
        await asyncio.gather(*(item.call_tool("messages_list", {}) for item in (first, second)))
        assert len(at.servers()) == 1


def test_a_new_server_starts_despite_files_of_a_killed_server(at: LocalHome) -> None:
    with at.served() as home:
        killed = at.server()
        assert killed
        os.kill(killed, signal.SIGKILL)
        assert until(lambda: not is_running(home))
        assert home.hooks.exists()
        with at.served():
            assert at.server() not in {killed, None}


def test_agent_killed_during_server_start_does_not_block_others(at: LocalHome) -> None:
    starter = subprocess.Popen([NOMEMORY, "mcp", "--local"], env=at.environment, stdin=subprocess.PIPE)
    assert until((at.home.root / "starting").exists)
    starter.kill()
    starter.wait()
    with at.served(), at.calls() as client:
        assert client.server_info()


def test_an_idle_local_server_exits(at: LocalHome) -> None:
    with at.served(idle_s=1.0) as home:
        server = at.server()
        with pytest.raises(subprocess.TimeoutExpired):  # twice the idle timeout
            subprocess.run(["tail", f"--pid={server}", "-f", os.devnull], timeout=2, check=False)  # noqa: S607 - coreutils
    assert until(lambda: not at.servers())
    assert not home.hooks.exists()


def test_agent_that_connects_during_shutdown_gets_a_new_server(at: LocalHome) -> None:
    with at.served(idle_s=0.2):
        pass
    with at.served(), at.calls() as client:
        assert client.server_info()


def test_local_directories_and_the_socket_are_private(at: LocalHome) -> None:
    with at.served() as home:
        for path in (home.root, home.data, home.hooks, Path(home.target.removeprefix("unix:"))):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_environment_settings_of_another_server_are_ignored(at: LocalHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("API_KEYS", "JWT_ISSUER", "TLS_CERT", "KEY_FILE", "HTTP", "METRICS", "LISTEN", "DATA"):
        monkeypatch.setenv(f"NOMEMORY_{variable}", "elsewhere")
    with at.served(), at.calls() as client:
        assert client.server_info()


async def test_the_reason_of_a_failed_start_is_reported_to_the_agent(at: LocalHome) -> None:
    at.home.create().data.touch()
    async with agent(at) as client:
        result = await client.call_tool("messages_list", {})
        assert result.is_error
        assert "data directory" in shown(result)


def test_too_long_socket_path_is_reported(tmp_path: Path) -> None:
    long = LocalHome(tmp_path / ("deep" * 30))
    with pytest.raises(LocalServerError, match="too long"), long.served():
        pass


def test_local_user_is_the_system_user_and_http_is_rejected(at: LocalHome) -> None:
    assert read_current_user_name() == subprocess.check_output(["id", "-un"], text=True).strip()  # noqa: S607 - coreutils
    wrong = at.run("mcp", "--local", "--http", "127.0.0.1:0")
    assert (wrong.returncode, "--http" in wrong.stderr) == (2, True)


def test_quickstart_shows_answers_and_ends_with_the_commands_to_continue(at: LocalHome) -> None:
    shown = at.run("quickstart")
    assert shown.returncode == 0, shown.stderr
    answers, next_steps = shown.stdout.split("Try next:")
    assert "port 7710" in answers.split("Which port does the gateway use?")[1]
    assert str(at.home.root) in answers
    assert f"claude mcp add --scope user nomemory -- {NOMEMORY} mcp --local" in next_steps
    commands = [line.strip() for line in next_steps.splitlines() if re.match(r" +(\S+/)?nomemory ", line)]
    recall, inspect, stop = (shlex.split(command)[1:] for command in commands)
    assert "port 7710" in at.run(*recall).stdout
    assert inspect == ["inspect", "--target", "local"]
    assert at.servers()
    stopped = at.run(*stop)
    assert (stopped.returncode, "was stopped" in stopped.stdout) == (0, True), stopped.stderr
    assert until(lambda: not at.servers())
    assert "quickstart" not in at.run("users", "--target", "local").stdout


def test_quickstart_can_be_repeated(at: LocalHome) -> None:
    for _ in range(2):
        assert at.run("quickstart").returncode == 0
    counted = at.run("count", "--target", "local", "--user", "nomemory-quickstart", "--json")
    assert json.loads(counted.stdout)["count"] == 6


def test_quickstart_does_not_stop_a_server_that_an_agent_uses(at: LocalHome) -> None:
    with at.served():
        server = at.server()
        kept = at.run("quickstart", "--stop")
        assert (kept.returncode, "keeps running" in kept.stdout) == (0, True)
        assert at.server() == server
