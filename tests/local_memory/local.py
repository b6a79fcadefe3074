"""Home directories of local servers, their processes, and calls of agents."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mcp import StdioServerParameters
from mcp.client import Client
from mcp_types import CallToolResult, TextContent
from server.fleet import until

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.local_server import IDLE_S, ensure_running
from nomemory.cli.main import nomemory
from nomemory.client.sync import Client as Calls
from nomemory.server.embedding.local import get_cache_directory

NOMEMORY = str(Path(sys.executable).with_name("nomemory"))
HOOK = Path("server/nomemory/agents/hook.py").absolute()
BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)


@dataclass(frozen=True)
class LocalHome:
    """A home directory for a local server, and the user whose messages hooks store in it."""

    root: Path
    user: str = "ann"
    embedder: str = "auto"

    @property
    def home(self) -> LocalDataDir:
        return LocalDataDir(self.root / "nomemory")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "XDG_DATA_HOME": str(self.root),
            "NOMEMORY_EMBEDDER": self.embedder,
            "NOMEMORY_EMBEDDING_MODEL_CACHE_DIR": str(get_cache_directory()),
            "LC_ALL": "C.UTF-8",
        }

    @contextmanager
    def served(self, idle_s: float = IDLE_S) -> Iterator[LocalDataDir]:
        """Start the server if it is not running, and use it."""
        with ExitStack() as use:
            with pytest.MonkeyPatch.context() as process:
                process.setenv("NOMEMORY_EMBEDDER", self.embedder)
                ensure_running(self.home.create(), use, idle_s)
            yield self.home

    def server(self) -> int | None:
        """Return the running server process; None: there is none."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.home.hooks))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", packed)[0])

    def servers(self) -> list[int]:
        """Return all processes of local servers with this home directory."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal() and self._is_server(entry / "cmdline")
        ]

    def _is_server(self, command: Path) -> bool:
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            return False
        return b"nomemory.agents.local_server_main" in words and str(self.home.root).encode() in words

    def stop(self) -> None:
        for process in self.servers():
            os.kill(process, signal.SIGTERM)
        assert until(lambda: not self.servers())

    def run(self, *arguments: str, answer: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `nomemory` in its own process, and confirm its prompts."""
        return subprocess.run(
            [NOMEMORY, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            input=answer,
        )

    def invoke(self, *arguments: str, answer: str | None = None) -> Result:
        """Run `nomemory` in this process."""
        only_ours = dict.fromkeys(os.environ) | self.environment
        return CliRunner().invoke(nomemory, arguments, input=answer, env=only_ours)

    def hook(self, agent: str, event: Mapping[str, object] | bytes, user: str | None = None) -> str:
        """Run a hook as an agent does; return its output."""
        text = event if isinstance(event, bytes) else json.dumps(event).encode()
        command = [sys.executable, "-IS", str(HOOK), str(self.home.root), agent, user or self.user]
        done = subprocess.run(command, input=text, capture_output=True, timeout=30, check=False, env=self.environment)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def calls(self) -> Calls:
        return Calls(self.home.target)

    def list_turns(self, user: str | None = None) -> list[tuple[str, str]]:
        """Return sender and content of all messages, oldest first."""
        with self.calls() as client:
            newest_first = client.iter_messages(user or self.user)
            return [(item.name or str(item.role), item.content) for item in newest_first][::-1]


@asynccontextmanager
async def agent(at: LocalHome, user: str = "ann", pid_file: Path | None = None) -> AsyncIterator[Client]:
    """Run `nomemory mcp --local` as an agent does. The process id is written to the file."""
    words = [NOMEMORY, "mcp", "--local", "--user", user]
    shell = ["-c", f'echo $$ > "{pid_file or os.devnull}"; exec "$@"', "sh", *words]
    async with Client(StdioServerParameters(command="sh", args=shell, env=at.environment)) as client:
        yield client


async def recalled(client: Client, question: str) -> str:
    """Return the output of the tool `recall`."""
    result = await client.call_tool("recall", {"query": question})
    assert not result.is_error, result.content
    return shown(result)


def shown(result: CallToolResult) -> str:
    """Return the output of a tool."""
    (text,) = result.content
    assert isinstance(text, TextContent)
    return text.text


def claude_line(number: int, role: str, content: object, session: str = "s1", **more: object) -> dict[str, object]:
    """Return a transcript line in the format of Claude Code."""
    at = (BEGIN + timedelta(seconds=number)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "parentUuid": None, "isSidechain": False, "type": role, "message": {"role": role, "content": content},
        "uuid": f"{session}-{number}", "timestamp": at, "cwd": "/work/harbour", "sessionId": session,
        "version": "2.1.197", "gitBranch": "main", **more,
    }  # fmt: skip


def written(path: Path, *lines: object) -> Path:
    """Append lines to a transcript."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return path


def event(name: str, transcript: Path, session: str = "s1", **more: object) -> dict[str, object]:
    """Return a hook event of Claude Code or Codex."""
    return {
        "session_id": session, "transcript_path": str(transcript), "cwd": "/work/harbour", "hook_event_name": name,
        "permission_mode": "default", **more,
    }  # fmt: skip
