"""Plays the golden scenario with the tools of `nomemory mcp`.

`python -m proofs.conformance.mcp_player SCENARIO SERVER WRITTEN`. What no tool can say is done with the Python client,
so that later steps find what they need, and is marked as such.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import child_process
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from proofs.conformance import mcp_view
from proofs.conformance.expectation import NO_TOOL
from proofs.conformance.mcp_requests import AT_LEAST, NoToolError, ToolCall, tool_call
from proofs.conformance.play import CallRefusedError, Json, Play, play
from proofs.conformance.python_player import PythonPlay

_CODES: Final = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
_TIMEOUT_S: Final = 60


class McpPlay(Play):
    """Makes the calls of steps with the protocol's own client, each as its caller and for its user."""

    def __init__(self, reached: Json, url: str) -> None:
        """Take how to reach the server, as `golden_server` tells it, and where the tools are."""
        super().__init__()
        self._bearers: Mapping[str, str] = reached["bearers"]
        self._url = url
        self._otherwise = PythonPlay(reached)

    def outcome(self, step: Json) -> Json:
        """Take a step; return what came of it, or why no tool can take it."""
        try:
            return super().outcome(step)
        except NoToolError as missing:
            return {NO_TOOL: str(missing)}

    def replies(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make a step's call."""
        try:
            call = tool_call(step, request)
            if AT_LEAST in request:
                self._wait(call.user_id or step["as"], request[AT_LEAST])
            return self._answers(step, call)
        except NoToolError:
            with suppress(CallRefusedError):
                self.keep(step, self._otherwise.replies(step, request))
            raise

    def _wait(self, user_id: str, write_token: str) -> None:
        request = {"userId": user_id, "queryText": "anything", AT_LEAST: write_token}
        self._otherwise.replies({"call": "HybridSearch", "as": "service"}, request)

    def _answers(self, step: Json, call: ToolCall) -> list[object]:
        shown = {"authorization": f"Bearer {bearer}"} if (bearer := self._bearers[step["as"]]) else {}
        named = {"x-user-id": call.user_id} if call.user_id else {}
        connection = Connection(self._url, {**shown, **named})
        try:
            return asyncio.run(_asked(connection, step, call))
        except (MCPError, BaseExceptionGroup) as error:
            if connection.not_let_in is not None:
                raise CallRefusedError(connection.not_let_in) from None
            raise _innermost(error) from None


class Connection:
    """A connection of the protocol's own client. `not_let_in` is why, if it is refused."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.not_let_in: Json | None = None
        self._url = url
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Client]:
        """Connect for the time of a `with`."""
        hooks = {"response": [self._note]}
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=_TIMEOUT_S, event_hooks=hooks) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            yield client

    async def _note(self, response: httpx2.Response) -> None:
        if response.status_code not in _CODES:
            return
        await response.aread()
        body, code = response.json(), _CODES[response.status_code]
        self.not_let_in = {"code": code, "reason": body["reason"], "message": body["error"], "violations": []}


def _innermost(error: BaseException) -> BaseException:
    """Return what was raised, without the groups that the client's tasks put around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _asked(connection: Connection, step: Json, call: ToolCall) -> list[object]:
    async with connection.opened() as client:
        if call.tool not in {tool.name for tool in (await client.list_tools()).tools}:
            raise NoToolError(f"{call.tool} is not offered to {step['as']}")
        if step.get("all"):
            return [item async for item in _listed(client, step["call"], call)]
        return [await _answer(client, step["call"], call.tool, call.arguments)]


async def _listed(client: Client, call: str, asked: ToolCall) -> AsyncIterator[object]:
    """Yield what a listing has, page by page, passing the cursor on as it came."""
    cursor: Json = {}
    while True:
        page = await _answer(client, call, asked.tool, {**asked.arguments, **cursor})
        for item in page.get("items", ()):
            yield item
        if "nextCursor" not in page:
            return
        cursor = {"cursor": page["nextCursor"]}


async def _answer(client: Client, call: str, tool: str, arguments: Json) -> Json:
    result = await client.call_tool(tool, dict(arguments))
    if result.is_error:
        raise CallRefusedError((result.meta or {})["nomemory/refusal"])
    return mcp_view.reply(call, result.structured_content or {})


@contextmanager
def served(reached: Json) -> Iterator[str]:
    """Run `nomemory mcp` before the server for the time of a `with`; yield the URL of its tools."""
    arguments = ["mcp", "--http", "127.0.0.1:0", "--target", reached["target"], "--tls-ca", reached["authorities"]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOMEMORY_")}
    with child_process.start(child_process.NOMEMORY, *arguments, environment=environment) as process:
        try:
            assert process.stdout  # noqa: S101 - a pipe was asked for
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def main() -> None:
    """Play with tools that are served for the time of the play."""
    with served(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))) as url:
        play(lambda reached: McpPlay(reached, url))


if __name__ == "__main__":
    main()
