"""A service whose expensive reads are admitted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from inspect import isasyncgenfunction
from typing import Any

from nomemory.server.admission.expensive_reads import is_expensive
from nomemory.server.admission.read_admission import ReadAdmission
from nomemory.server.api.call import CallContext
from nomemory.server.api.service import Reply, ServedMethod, Service


@dataclass(frozen=True, slots=True)
class AdmittedService:
    """Serves what another service does, as far as there is room.

    A recall is one read: the searches that it makes itself are not admitted again.
    """

    service: Service
    admission: ReadAdmission

    @property
    def full_name(self) -> str:
        """The name of the service in the contract."""
        return self.service.full_name

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names."""
        return {
            name: replace(served, handler=partial(self._answer(served), name, served.handler))
            for name, served in self.service.methods().items()
        }

    def _answer(self, served: ServedMethod) -> Any:  # noqa: ANN401 - as `ServedMethod.handler`
        return self._stream if isasyncgenfunction(served.handler) else self._unary

    async def _unary(self, name: str, read: Any, request: Any, context: CallContext) -> Reply:  # noqa: ANN401 - as `UnaryHandler`
        async with self._admitted(name, request, context):
            reply: Reply = await read(request, context)
            return reply

    async def _stream(self, name: str, read: Any, request: Any, context: CallContext) -> AsyncIterator[Reply]:  # noqa: ANN401 - as `ServerStreamHandler`
        async with self._admitted(name, request, context), aclosing(read(request, context)) as replies:
            async for reply in replies:
                yield reply

    def _admitted(self, name: str, request: Any, context: CallContext) -> AbstractAsyncContextManager[None]:  # noqa: ANN401 - the request type of the method
        if not is_expensive(name, request):
            return nullcontext()
        user_id = context.bound.user_id if context.bound else getattr(request, "user_id", "")
        return self.admission.admit(user_id, (context.caller.name, context.caller.user_id))
