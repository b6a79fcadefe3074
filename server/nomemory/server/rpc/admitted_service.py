"""A service whose expensive reads are admitted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgenfunction
from typing import Any

from nomemory.server.admission.expensive_reads import is_expensive
from nomemory.server.admission.read_admission import ReadAdmission
from nomemory.server.rpc.call import Call, Reply, ServedMethod, Service


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
            name: ServedMethod(served.need, partial(self._answer(served), name, served.answer))
            for name, served in self.service.methods().items()
        }

    def _answer(self, served: ServedMethod) -> Any:  # noqa: ANN401 - as `ServedMethod.answer`
        return self._stream if isasyncgenfunction(served.answer) else self._unary

    async def _unary(self, name: str, read: Any, request: Any, call: Call) -> Reply:  # noqa: ANN401 - as `Unary`
        async with self._admitted(name, request, call):
            reply: Reply = await read(request, call)
            return reply

    async def _stream(self, name: str, read: Any, request: Any, call: Call) -> AsyncIterator[Reply]:  # noqa: ANN401 - as `ServerStream`
        async with self._admitted(name, request, call), aclosing(read(request, call)) as replies:
            async for reply in replies:
                yield reply

    def _admitted(self, name: str, request: Any, call: Call) -> AbstractAsyncContextManager[None]:  # noqa: ANN401 - the request type of the method
        if not is_expensive(name, request):
            return nullcontext()
        bound, caller = call.admission.bound, call.admission.caller
        user_id = bound.user_id if bound else getattr(request, "user_id", "")
        return self.admission.admit(user_id, (caller.name, caller.user_id))
