"""A service whose reads pass the scheduler."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from nomemory.server.admission.scheduler import Claim, ReadScheduler, cost_of
from nomemory.server.identity.access import Need
from nomemory.server.rpc.call import Call, ClientStream, Reply, ServerStream, Service, Unary
from nomemory.server.settings import Settings


@dataclass(frozen=True, slots=True)
class AdmittedService:
    """Serves what another service does, each read when it is its turn.

    A recall is one read. What it reads itself belongs to it, and is not scheduled again.
    """

    service: Service
    scheduler: ReadScheduler
    settings: Settings

    @property
    def full_name(self) -> str:
        """The name of the service in the contract."""
        return self.service.full_name

    def needs(self) -> Mapping[str, Need]:
        """Return what each method needs of its caller."""
        return self.service.needs()

    def unary_methods(self) -> Mapping[str, Unary]:
        """Return the methods that take one request."""
        return {name: partial(self._run, name, read) for name, read in self.service.unary_methods().items()}

    def client_stream_methods(self) -> Mapping[str, ClientStream]:
        """Return the methods that take a stream of requests, as they are: they read nothing."""
        return self.service.client_stream_methods()

    def server_stream_methods(self) -> Mapping[str, ServerStream]:
        """Return the methods that answer with a stream."""
        return {name: partial(self._each, name, read) for name, read in self.service.server_stream_methods().items()}

    async def _run(self, name: str, read: Unary, request: Any, call: Call) -> Reply:  # noqa: ANN401 - as `Unary`
        return await self.scheduler.run(self._claim(name, request, call), partial(read, request, call))

    def _each(self, name: str, read: ServerStream, request: Any, call: Call) -> AsyncIterator[Reply]:  # noqa: ANN401 - as `ServerStream`
        replies = cast("AsyncGenerator[Reply, None]", read(request, call))  # gRPC wants no more of it than to iterate
        return self.scheduler.each(self._claim(name, request, call), replies)

    def _claim(self, name: str, request: Any, call: Call) -> Claim:  # noqa: ANN401 - the request type of the method
        admission = call.admission
        user = admission.bound.user_id if admission.bound else getattr(request, "user_id", "")
        caller = (admission.caller.name, admission.caller.user_id)
        return Claim(user, caller, cost_of(name, request, self.settings), recurs=name == "ExportMessages")
