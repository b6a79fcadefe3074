"""Player of the golden scenario with the tools of `nomemory mcp`.

Usage: `python -m proofs.conformance.mcp_player SCENARIO CONNECTION OUTPUT`. Steps that no tool supports are executed
with the Python client, because later steps depend on them, and are marked in the output.
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
from proofs.conformance.mcp_requests import AT_LEAST, NoToolError, ToolCall, build_tool_call
from proofs.conformance.play import Json, RejectedCallError, ScenarioPlayer, run_player
from proofs.conformance.python_player import PythonPlayer

_CODES: Final = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
_TIMEOUT_S: Final = 60


class McpPlayer(ScenarioPlayer):
    """Player that calls the tools through an MCP client, with the credentials and the user id of each step."""

    def __init__(self, connection: Json, url: str) -> None:
        """Create a player for a connection file and the URL of an MCP server."""
        super().__init__()
        self._bearers: Mapping[str, str] = connection["bearers"]
        self._url = url
        self._python_player = PythonPlayer(connection)

    def execute(self, step: Json) -> Json:
        """Execute a step; return its outcome, or the reason why no tool supports it."""
        try:
            return super().execute(step)
        except NoToolError as missing:
            return {NO_TOOL: str(missing)}

    def call(self, step: Json, request: Any) -> list[object]:  # noqa: ANN401 - JSON
        """Make the call of a step, and return its replies."""
        try:
            call = build_tool_call(step, request)
            if AT_LEAST in request:
                self._wait_for_write(call.user_id or step["as"], request[AT_LEAST])
            return self._call_tool(step, call)
        except NoToolError:
            with suppress(RejectedCallError):
                self.store_values(step, self._python_player.call(step, request))
            raise

    def _wait_for_write(self, user_id: str, write_token: str) -> None:
        request = {"userId": user_id, "queryText": "anything", AT_LEAST: write_token}
        self._python_player.call({"call": "HybridSearch", "as": "service"}, request)

    def _call_tool(self, step: Json, call: ToolCall) -> list[object]:
        credentials = {"authorization": f"Bearer {bearer}"} if (bearer := self._bearers[step["as"]]) else {}
        user = {"x-user-id": call.user_id} if call.user_id else {}
        mcp_connection = McpConnection(self._url, {**credentials, **user})
        try:
            return asyncio.run(_execute_call(mcp_connection, step, call))
        except (MCPError, BaseExceptionGroup) as error:
            if mcp_connection.rejection is not None:
                raise RejectedCallError(mcp_connection.rejection) from None
            raise _unwrap_exception_groups(error) from None


class McpConnection:
    """A connection of an MCP client; `rejection` has the error if the server rejected the connection."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.rejection: Json | None = None
        self._url = url
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Client]:
        """Yield a connected client."""
        hooks = {"response": [self._record_rejection]}
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=_TIMEOUT_S, event_hooks=hooks) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            yield client

    async def _record_rejection(self, response: httpx2.Response) -> None:
        if response.status_code not in _CODES:
            return
        await response.aread()
        body, code = response.json(), _CODES[response.status_code]
        self.rejection = {"code": code, "reason": body["reason"], "message": body["error"], "violations": []}


def _unwrap_exception_groups(error: BaseException) -> BaseException:
    """Return the single exception inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _execute_call(connection: McpConnection, step: Json, call: ToolCall) -> list[object]:
    async with connection.open() as client:
        if call.tool not in {tool.name for tool in (await client.list_tools()).tools}:
            raise NoToolError(f"the tool {call.tool} is not available to the caller {step['as']}")
        if step.get("all"):
            return [item async for item in _iterate_items(client, step["call"], call)]
        return [await _call_and_convert(client, step["call"], call.tool, call.arguments)]


async def _iterate_items(client: Client, call: str, first_page: ToolCall) -> AsyncIterator[object]:
    """Yield all items of a listing."""
    cursor: Json = {}
    while True:
        page = await _call_and_convert(client, call, first_page.tool, {**first_page.arguments, **cursor})
        for item in page.get("items", ()):
            yield item
        if "nextCursor" not in page:
            return
        cursor = {"cursor": page["nextCursor"]}


async def _call_and_convert(client: Client, call: str, tool: str, arguments: Json) -> Json:
    result = await client.call_tool(tool, dict(arguments))
    if result.is_error:
        raise RejectedCallError((result.meta or {})["nomemory/refusal"])
    return mcp_view.to_api_reply(call, result.structured_content or {})


@contextmanager
def run_mcp_server(connection: Json) -> Iterator[str]:
    """Run `nomemory mcp` for the server; yield its URL."""
    arguments = [
        "mcp",
        "--http",
        "127.0.0.1:0",
        "--target",
        connection["target"],
        "--tls-ca",
        connection["authorities"],
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOMEMORY_")}
    with child_process.start_program(child_process.NOMEMORY, *arguments, environment=environment) as process:
        try:
            assert process.stdout  # noqa: S101 - created as a pipe
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def main() -> None:
    """Run the scenario with a temporary MCP server."""
    with run_mcp_server(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))) as url:
        run_player(lambda connection: McpPlayer(connection, url))


if __name__ == "__main__":
    main()
