"""A service whose reads pass the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import isasyncgenfunction
from typing import Any

from nomemory.server.admission.scheduler import Claim, ReadScheduler, cost_of
from nomemory.server.api.call import CallContext
from nomemory.server.api.service import Reply, ServedMethod, Service
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

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names."""
        return {
            name: replace(served, handler=partial(self._answer(served), name, served.handler))
            for name, served in self.service.methods().items()
        }

    def _answer(self, served: ServedMethod) -> Any:  # noqa: ANN401 - as `ServedMethod.handler`
        return self._each if isasyncgenfunction(served.handler) else self._run

    async def _run(self, name: str, read: Any, request: Any, context: CallContext) -> Reply:  # noqa: ANN401 - as `UnaryHandler`
        return await self.scheduler.run(self._claim(name, request, context), partial(read, request, context))

    def _each(self, name: str, read: Any, request: Any, context: CallContext) -> AsyncIterator[Reply]:  # noqa: ANN401 - as `ServerStreamHandler`
        return self.scheduler.each(self._claim(name, request, context), read(request, context))

    def _claim(self, name: str, request: Any, context: CallContext) -> Claim:  # noqa: ANN401 - the request type of the method
        user = context.bound.user_id if context.bound else getattr(request, "user_id", "")
        caller = (context.caller.name, context.caller.user_id)
        return Claim(user, caller, cost_of(name, request, self.settings), recurs=name == "ExportMessages")
