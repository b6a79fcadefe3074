"""Tests that error details are limited to the size of response headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from client.scripted_server import Scripted, scripted_server
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.server.api.grpc.status import build_grpc_status
from nomemory.server.faults import Fault, Reason, Violation
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import query_service_pb2_grpc
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

LONGEST_ID = "r" * 128
STATUS_MAX = 4_500


def bad_in_every_field() -> m.ChatMessage:
    metadata = {"k" * 65: "v"} | {f"k{n}": "v" * (1_025 if n == 0 else 1) for n in range(32)}
    message = new_message("u" * 129, "a" * 129, " ", role=99, name="n" * 129, conversation_id="c" * 129)  # type: ignore[arg-type]
    message.metadata.update(metadata)
    message.embedding.append(1.0)
    return message


def info_of(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


def test_violations_of_1000_invalid_messages_are_truncated_to_fit(vector_server: Server) -> None:
    request = i.WriteMessagesRequest(messages=[bad_in_every_field()] * 1_000)
    with pytest.raises(grpc.RpcError) as error:
        vector_server.ingest.WriteMessages(request, metadata=(("x-request-id", LONGEST_ID),))
    refused = refusal(error.value)
    status = rpc_status.from_call(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert status.ByteSize() <= STATUS_MAX
    assert info_of(status).metadata["violations"] == "10000"
    assert len(refused.fields) > 30
    assert refused.fields[:2] == ["messages[0].user_id", "messages[0].message_id"]


def test_non_ascii_error_message_fits_into_the_status() -> None:
    violations = [Violation(f"字段[{n}]", "太长了" * 20) for n in range(1_000)]
    with scripted_server() as script:
        error = refused_by(script, Fault(Reason.ERROR_REASON_SKILL_INVALID, "这" * 5_000, violations=violations))
    refused = refusal(error)
    assert refused.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.text.endswith("这…")
    assert refused.fields


def refused_by(script: Scripted, fault: Fault) -> grpc.RpcError:
    script.will("ListMessages", fault)
    with grpc.insecure_channel(script.target) as channel, pytest.raises(grpc.RpcError) as error:
        query_service_pb2_grpc.QueryServiceStub(channel).ListMessages(q.ListMessagesRequest())
    return error.value


violations = st.lists(st.builds(Violation, st.text(max_size=60), st.text(max_size=200)), max_size=300)


@given(message=st.text(max_size=2_000), named=violations)
def test_status_fits_into_response_headers(message: str, named: list[Violation]) -> None:
    ended = build_grpc_status(
        Fault(Reason.ERROR_REASON_INVALID_FIELD, message, violations=named, retry_after_s=1), LONGEST_ID
    )
    detailed = status_pb2.Status.FromString(dict(ended.trailing_metadata)["grpc-status-details-bin"])
    assert detailed.ByteSize() <= STATUS_MAX
    assert len(ended.details.encode()) <= 500
    assert message.startswith(ended.details.removesuffix("…"))
    bad_request = error_details_pb2.BadRequest()
    if named:
        assert detailed.details[1].Unpack(bad_request)
        total = info_of(detailed).metadata.get("violations", str(len(bad_request.field_violations)))
        assert total == str(len(named))
