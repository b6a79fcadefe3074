"""Tests for `nomemory mcp --local`, which shares one server among all agents of a user."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from local_memory.conftest import empty_home
from local_memory.local import NOMEMORY, LocalHome, agent, recalled, shown
from server.fleet import until

from nomemory.agents.local_data_dir import read_current_user_name
from nomemory.agents.local_server import LocalServerError

PORT = "We put the gateway on port 7710."
FERRY = "The ferry to Aalborg leaves from quay four."


@pytest.fixture(scope="module")
def running() -> Iterator[LocalHome]:
    """A home with a running server without an embedder, started by a process with settings of another server."""
    with empty_home("none") as local, ExitStack() as use:
        with pytest.MonkeyPatch.context() as process:
            for variable in ("API_KEYS", "JWT_ISSUER", "TLS_CERT", "KEY_FILE", "HTTP", "METRICS", "LISTEN", "DATA"):
                process.setenv(f"NOMEMORY_{variable}", "elsewhere")
            use.enter_context(local.served())
        yield local


async def happened(look: Callable[[], object]) -> bool:
    return await asyncio.to_thread(until, lambda: bool(look()))


async def test_tools_are_listed_before_the_server_starts_and_then_remember_and_recall(at: LocalHome) -> None:
    at.home.create()
    with ExitStack() as no_server:
        no_server.enter_context(at.home.hold_start_lock())
        async with agent(at) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= {"recall", "remember"}
            assert not at.servers()
            no_server.close()
            remembered = await client.call_tool("remember", {"content": PORT})
            assert remembered.structured_content["outcome"] == "created"
            assert PORT in await recalled(client, "Which port is the gateway on?")


async def test_concurrent_agents_share_one_server_without_data_loss_when_an_agent_or_the_server_is_killed(
    at: LocalHome, tmp_path: Path
) -> None:
    async with agent(at) as second:
        async with agent(at, pid_file=tmp_path / "pid") as first:
            await asyncio.gather(
                first.call_tool("remember", {"content": PORT}), second.call_tool("remember", {"content": FERRY})
            )
            server = at.server()
            assert server
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert PORT in await recalled(second, "Which port is the gateway on?")
        assert FERRY in await recalled(second, "Where does the ferry leave from?")
        assert at.servers() == [server]

        os.kill(server, signal.SIGKILL)
        assert await happened(lambda: server not in at.servers())
        assert at.home.hooks.exists(), "files of the killed server are left"
        assert PORT in await recalled(second, "Which port is the gateway on?")
        assert at.servers() != [server]


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


def test_local_directories_and_the_socket_are_private(running: LocalHome) -> None:
    home = running.home
    for path in (home.root, home.data, home.hooks, Path(home.target.removeprefix("unix:"))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_environment_settings_of_another_server_are_ignored(running: LocalHome) -> None:
    with running.calls() as client:
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
    wrong = at.invoke("mcp", "--local", "--http", "127.0.0.1:0")
    assert (wrong.exit_code, "--http" in wrong.stderr) == (2, True)


def test_quickstart_can_be_repeated(running: LocalHome) -> None:
    for _ in range(2):
        assert running.invoke("quickstart").exit_code == 0
    counted = running.invoke("count", "--target", "local", "--user", "nomemory-quickstart", "--json")
    assert json.loads(counted.stdout)["count"] == 6


def test_quickstart_erases_its_messages_and_does_not_stop_a_server_that_an_agent_uses(running: LocalHome) -> None:
    assert running.invoke("quickstart").exit_code == 0
    assert "quickstart" in running.invoke("users", "--target", "local").stdout
    server = running.server()
    kept = running.invoke("quickstart", "--stop")
    assert (kept.exit_code, "keeps running" in kept.stdout) == (0, True)
    assert running.server() == server
    assert "quickstart" not in running.invoke("users", "--target", "local").stdout
