"""HTTP endpoints of the API methods, at the paths of their `google.api.http` rules."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Protocol
from urllib.parse import unquote

from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nomemory.server.api.call import IncomingCall
from nomemory.server.api.errors import encode_status
from nomemory.server.api.http.conversion_threads import ConversionThreads
from nomemory.server.api.http.errors import build_error_reply, encode_error
from nomemory.server.api.http.http_rules import HttpRule, get_grpc_path
from nomemory.server.api.http.json_mapping import decode_message, encode_message, parse_json
from nomemory.server.api.http.json_reply import JsonReply
from nomemory.server.api.http.request_body import JSON, JSON_LINES, RequestBody
from nomemory.server.api.http.request_document import decode_request
from nomemory.server.api.http.request_metadata import build_incoming_call
from nomemory.server.api.http.stream_reply import EVENTS, LINES, StreamReply
from nomemory.server.api.limits import Reserve
from nomemory.server.api.pipeline import ReadNextRequest, ReadRequest
from nomemory.server.faults import Fault, Reason


class SegmentConvertor(StringConvertor):
    """Matches a path segment, which may be empty.

    A request with an empty id is therefore rejected for an invalid field, and not for an unknown path.
    """

    regex = "[^/]*"


register_url_convertor("segment", SegmentConvertor())


class RemoteStatusError(Exception):
    """The error status that another server returned. The endpoint returns the status unchanged to the client."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.code)
        self.status = status


class CallExecutor(Protocol):
    """Executes calls, either in the pipeline or on another server.

    All methods raise Fault or RemoteStatusError if a call fails.
    """

    async def execute_unary(self, incoming: IncomingCall, read: ReadRequest) -> bytes:
        """Execute a unary call and return the encoded response."""

    def execute_server_stream(self, incoming: IncomingCall, read: ReadRequest) -> AsyncGenerator[bytes]:
        """Execute a server-streaming call and yield the encoded responses."""

    async def execute_client_stream(self, incoming: IncomingCall, read_next: ReadNextRequest) -> bytes:
        """Execute a client-streaming call and return the encoded response."""


def build_call_routes(size_limits: Mapping[HttpRule, int], executor: CallExecutor) -> list[Route]:
    """Return the routes of the API methods, which match percent-encoded paths.

    In a percent-encoded path, `%2F` is part of an id.

    Args:
        size_limits: the maximum request size of each method, in bytes.
        executor: executes the calls of all methods.
    """
    threads = ConversionThreads()
    literal_first = sorted(size_limits, key=lambda rule: len(rule.path_fields))
    return [
        Route(
            _build_starlette_path(rule), CallEndpoint(rule, executor, threads, size_limits[rule]), methods=[rule.verb]
        )
        for rule in literal_first
    ]


def _build_starlette_path(rule: HttpRule) -> str:
    """Return the path of an HTTP rule in Starlette's syntax, such as `/v1/users/{user_id:segment}/messages`."""
    return rule.template.replace("}", ":segment}")


class CallEndpoint:
    """The HTTP endpoint of one API method.

    Args:
        threads: the threads that convert large messages.
        max_request_bytes: the maximum size of the body, or of one line in a body of JSON lines.
    """

    def __init__(
        self, rule: HttpRule, executor: CallExecutor, threads: ConversionThreads, max_request_bytes: int
    ) -> None:
        self._rule = rule
        self._executor = executor
        self._threads = threads
        self._max_request_bytes = max_request_bytes
        self._reply_type = GetMessageClass(rule.method.output_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request.

        Raises:
            Fault: the request is rejected before the call starts.
        """
        body = RequestBody(Headers(scope=scope), receive, self._max_request_bytes)
        self._check_body(body)
        incoming = build_incoming_call(scope, get_grpc_path(self._rule.method))
        read = partial(self._decode_request, body, _decode_path_values(scope), scope["query_string"])
        if self._rule.method.server_streaming:
            accepts_lines = JSON_LINES in Headers(scope=scope).get("accept", "")
            stream = StreamReply(send, LINES if accepts_lines else EVENTS)
            failed = await self._send_stream(incoming, body, read, stream)
            if failed is None or stream.is_started:
                last = stream.form.end if failed is None else stream.form.error(encode_error(failed))
                await stream.send(last, is_last=True)
                return
            reply = build_error_reply(failed)
        else:
            reply = await self._answer_unary(incoming, body, read)
        await reply(scope, receive, send)

    def _check_body(self, body: RequestBody) -> None:
        if not body.is_present:
            return
        if not self._rule.has_body:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "this method does not accept a body")
        body.require_media_type(*((JSON_LINES, JSON) if self._rule.method.client_streaming else (JSON,)))

    async def _answer_unary(self, incoming: IncomingCall, body: RequestBody, read: ReadRequest) -> JsonReply:
        try:
            async with body.cancel_on_disconnect():
                if self._rule.method.client_streaming:
                    encoded = await self._executor.execute_client_stream(
                        incoming, self._make_request_reader(body, read)
                    )
                else:
                    encoded = await self._executor.execute_unary(incoming, read)
                return JsonReply(await self._to_json(encoded))
        except Fault as fault:
            return build_error_reply(encode_status(fault, incoming.request_id))
        except RemoteStatusError as error:
            return build_error_reply(error.status)

    async def _send_stream(
        self,
        incoming: IncomingCall,
        body: RequestBody,
        read: ReadRequest,
        stream: StreamReply,
    ) -> status_pb2.Status | None:
        """Send the responses of a stream, and return the status of the error that ended the stream, or None."""
        try:
            async with (
                body.cancel_on_disconnect(),
                stream.send_heartbeats(),
                aclosing(self._executor.execute_server_stream(incoming, read)) as replies,
            ):
                async for encoded in replies:
                    await stream.send(stream.form.reply(await self._to_json(encoded)))
        except Fault as fault:
            return encode_status(fault, incoming.request_id)
        except RemoteStatusError as error:
            return error.status
        return None

    async def _decode_request(
        self, body: RequestBody, path_values: Mapping[str, str], query: bytes, reserve: Reserve
    ) -> ProtoMessage:
        raw = await body.read(reserve)
        return await self._threads.run(len(raw), lambda: decode_request(self._rule, path_values, query, raw))

    def _make_request_reader(self, body: RequestBody, read: ReadRequest) -> ReadNextRequest:
        """Return a function that reads the requests of a client stream.

        In a body of JSON lines, each line is a request. A body of another media type is a single request.
        """
        is_read = False

        async def read_line(reserve: Reserve) -> ProtoMessage | None:
            line = await body.read_line(reserve)
            if line is None:
                return None
            return await self._threads.run(
                len(line), lambda: decode_message(parse_json(line), self._rule.method.input_type)
            )

        async def read_whole(reserve: Reserve) -> ProtoMessage | None:
            nonlocal is_read
            if is_read:
                return None
            is_read = True
            return await read(reserve)

        return read_line if body.media_type == JSON_LINES else read_whole

    async def _to_json(self, encoded: bytes) -> bytes:
        return await self._threads.run(len(encoded), lambda: encode_message(self._reply_type.FromString(encoded)))


def _decode_path_values(scope: Scope) -> dict[str, str]:
    """Return the decoded values of the request fields in the path.

    Raises:
        Fault: MALFORMED_REQUEST, a value is not UTF-8.
    """
    try:
        return {name: unquote(value, errors="strict") for name, value in scope["path_params"].items()}
    except UnicodeDecodeError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the path is not UTF-8") from None
