"""The ServerService, which returns the properties and the load of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import PUBLIC
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.v1 import server_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class ServerService:
    """Serves `nomemory.v1.ServerService`.

    Attributes:
        info: the fields of GetServerInfoResponse that are the same for all callers.
        reads: the admission of expensive reads; None on a recall-only server.
        spaces: the vector indexes of this server; None on a recall-only server.
        skills: returns the names of the available skills.
    """

    info: pb.GetServerInfoResponse
    reads: ReadAdmission | None = None
    spaces: ActiveSpace | None = None
    skills: Callable[[], Iterable[str]] = tuple
    full_name: str = "nomemory.v1.ServerService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods of the service by their short names."""
        return {"GetServerInfo": ServedMethod(PUBLIC, self.get_server_info)}

    async def get_server_info(
        self, _request: pb.GetServerInfoRequest, context: CallContext
    ) -> pb.GetServerInfoResponse:
        """Return the properties of the server and of the caller.

        The response contains the read load of the server only if the caller has no namespace.
        """
        caller = context.caller
        response = pb.GetServerInfoResponse(
            caller=pb.CallerInfo(user_id=caller.user_id or "", scopes=sorted(caller.scopes)),
            read_load=self._read_load() if context.namespace is None else None,
            skills=self.skills() if Scope.RECALL in caller.scopes else (),
        )
        response.MergeFrom(self.info)
        if self.spaces is not None:
            embedder = self.spaces.current_space.embedder
            response.embedding_model = embedder.model if embedder.kind != "none" else ""
            response.embedding_dimension = embedder.dimension
        return response

    def _read_load(self) -> pb.ReadLoad | None:
        if self.reads is None:
            return None
        load = self.reads.get_current_load()
        return pb.ReadLoad(running=load.running, waiting=load.waiting, users=load.users, rejected=load.refused)
