"""Health state of the server, for the gRPC health service and for `/healthz`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grpc_health.v1 import health, health_pb2

HEALTH_SERVICE: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


class ServerHealth:
    """The health state of the server, which is the same for all services.

    Attributes:
        is_serving: whether the server reports that it accepts calls.
    """

    def __init__(self, service_names: Sequence[str]) -> None:
        self.is_serving = False
        self.servicer = health.aio.HealthServicer()
        self._names = ("", *service_names)

    async def set_serving(self, *, is_serving: bool) -> None:
        """Set the health state of all services to SERVING or NOT_SERVING."""
        self.is_serving = is_serving
        for name in self._names:
            await self.servicer.set(name, _SERVING if is_serving else _NOT_SERVING)

    async def shut_down(self) -> None:
        """Set the health state of all services to NOT_SERVING permanently."""
        self.is_serving = False
        await self.servicer.enter_graceful_shutdown()
