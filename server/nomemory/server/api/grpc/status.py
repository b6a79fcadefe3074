"""Conversion of faults to gRPC statuses."""

from __future__ import annotations

import grpc
from grpc_status import rpc_status

from nomemory.server.api.call import REQUEST_ID
from nomemory.server.api.errors import encode_status
from nomemory.server.faults import Fault


def build_grpc_status(fault: Fault, request_id: str) -> grpc.Status:
    """Return the gRPC status of a fault, with its details and the request id as trailing metadata."""
    status = rpc_status.to_status(encode_status(fault, request_id))
    with_id: grpc.Status = status._replace(trailing_metadata=(*status.trailing_metadata, (REQUEST_ID, request_id)))
    return with_id
