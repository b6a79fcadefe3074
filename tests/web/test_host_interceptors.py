"""A host's own interceptors see calls over HTTP as they see those over gRPC."""

from __future__ import annotations

import grpc
import httpx
from server.test_host_interceptors import ByName, Context, Host, Queries, Seen

from nomemory.server.composition.serving import serving
from nomemory.server.identity.access import Access
from nomemory.server.listen_address import Addresses, ListenAddress
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.settings import Settings

ANYWHERE = ListenAddress("127.0.0.1", 0)


async def listed(host: HostInterceptors, seen: list[Seen]) -> httpx.Response:
    settings = Settings.from_environment(drain_s=0.0, http=str(ANYWHERE))
    access = Access(ByName(), settings.limits.id_max_chars)
    async with (
        serving([Queries(seen)], Addresses(ANYWHERE, ANYWHERE), settings, access, host=host) as addresses,
        httpx.AsyncClient(base_url=f"http://{addresses.http}") as client,
    ):
        return await client.get("/v1/users/ann/messages", headers={"x-name": "chat"})


async def test_a_call_over_http_meets_them_in_their_order() -> None:
    seen: list[Seen] = []
    host = HostInterceptors((Host("outer", seen),), (Host("inner", seen),))
    assert (await listed(host, seen)).status_code == 200
    assert [(one.who, one.call is not None) for one in seen] == [("outer", False), ("inner", True), ("service", True)]


async def test_they_may_end_it() -> None:
    async def refuse(context: Context) -> None:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the quota is spent")

    seen: list[Seen] = []
    answer = await listed(HostInterceptors(inner=(Host("inner", seen, refuse),)), seen)
    assert (answer.status_code, answer.json()["error"]["message"]) == (429, "the quota is spent")
    assert [one.who for one in seen] == ["inner"]
