"""A server of the contract with scripted responses, for situations that are rare with a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.api.grpc.status import build_grpc_status
from nomemory.server.faults import Fault
from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

REQUEST_ID = "01JSCRIPTED"

Answer = Message | Fault | grpc.StatusCode


class Scripted(grpc.GenericRpcHandler):
    """Answers each method with its script, repeating the last entry, and records `requests`."""

    def __init__(self) -> None:
        self.target = ""
        self.requests: list[Message] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self._scripts: dict[str, list[Answer]] = {}
        modules = (query_service_pb2, ingest_service_pb2, recall_service_pb2, server_service_pb2)
        self._methods = {
            f"/{service.full_name}/{method.name}": method
            for module in modules
            for service in module.DESCRIPTOR.services_by_name.values()
            for method in service.methods
        }

    def will(self, method: str, *answers: Answer) -> None:
        """Set the script of a method."""
        self._scripts[method] = list(answers)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Message, Message] | None:
        method = self._methods.get(handler_call_details.method)
        if method is None or method.name not in self._scripts:
            return None
        decode = GetMessageClass(method.input_type).FromString
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(self._collecting(method.name), decode, _encode)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._streaming(method.name), decode, _encode)
        return grpc.unary_unary_rpc_method_handler(self._answering(method.name), decode, _encode)

    def _answering(self, method: str) -> Callable[[Message, grpc.ServicerContext], Message]:
        def answer(request: Message, context: grpc.ServicerContext) -> Message:
            self.requests.append(request)
            return self._say(method, context)

        return answer

    def _collecting(self, method: str) -> Callable[[Iterator[Message], grpc.ServicerContext], Message]:
        def answer(requests: Iterator[Message], context: grpc.ServicerContext) -> Message:
            self.requests.extend(requests)
            return self._say(method, context)

        return answer

    def _streaming(self, method: str) -> Callable[[Message, grpc.ServicerContext], Iterator[Message]]:
        def answer(request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
            self.requests.append(request)
            yield self._say(method, context)

        return answer

    def _say(self, method: str, context: grpc.ServicerContext) -> Message:
        self.metadata.append(dict(context.invocation_metadata()))
        script = self._scripts[method]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, Fault):
            context.abort_with_status(build_grpc_status(answer, REQUEST_ID))
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "nobody is in")
        assert isinstance(answer, Message)
        return answer


@contextmanager
def scripted_server() -> Iterator[Scripted]:
    """Run a scripted server on a free port."""
    script = Scripted()
    server = grpc.server(ThreadPoolExecutor(2), handlers=[script])
    script.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield script
    finally:
        server.stop(None).wait()


def _encode(message: Message) -> bytes:
    return message.SerializeToString()
