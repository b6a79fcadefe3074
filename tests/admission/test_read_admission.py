"""Tests for the admission control of reads."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from google.protobuf.descriptor import FileDescriptor

from nomemory.server.api.admission import read_admission
from nomemory.server.api.admission.expensive_reads import is_expensive
from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse at once."""
    monkeypatch.setattr(read_admission, "_REJECTION_DELAY_S", (0.0, 0.0))


def admission(user_max: int = 99, caller_max: int = 99, total_max: int = 99) -> ReadAdmission:
    return ReadAdmission(RoundRobinLimit(1), user_max, caller_max, total_max)


@pytest.mark.parametrize(
    ("reads", "refused", "admitted", "limit"),
    [
        (admission(user_max=2), ("ann", "other key"), ("bob", "key"), "2 per user"),
        (admission(caller_max=2), ("bob", "key"), ("ann", "other key"), "2 per caller"),
        (admission(total_max=2), ("bob", "other key"), None, "2 in total"),
    ],
)
async def test_reads_above_a_limit_are_rejected_until_one_ends(
    reads: ReadAdmission, refused: tuple[str, str], admitted: tuple[str, str] | None, limit: str
) -> None:
    async with reads.admit("ann", "key"):
        async with reads.admit("ann", "key"):
            with pytest.raises(Fault) as error:
                async with reads.admit(*refused):
                    pass
            if admitted is not None:
                async with reads.admit(*admitted):
                    pass
        async with reads.admit(*refused):
            pass
    assert error.value.reason == Reason.ERROR_REASON_OVERLOADED
    assert error.value.retry_after_s
    assert f"at most {limit}" in str(error.value)
    assert (reads.get_current_load().refused, reads.get_current_load().users) == (1, 0)


async def test_reads_without_user_are_counted_by_caller() -> None:
    reads = admission(user_max=1)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(reads.admit("", "key"))
        await stack.enter_async_context(reads.admit("", "other key"))
        with pytest.raises(Fault):
            await stack.enter_async_context(reads.admit("", "key"))
        assert reads.get_current_load().users == 2


def test_listing_is_expensive_with_an_unindexed_filter() -> None:
    def listed(**filter_values: object) -> bool:
        request = q.ListMessagesRequest(user_id="u", filter=message_pb2.Filter(**filter_values))  # type: ignore[arg-type]
        return is_expensive("ListMessages", request)

    assert not listed()
    assert not listed(conversation_id="c")
    assert listed(role=message_pb2.ROLE_TOOL)
    assert listed(metadata={"a": "1"})


@pytest.mark.parametrize(("file", "service"), [(q.DESCRIPTOR, "QueryService"), (r.DESCRIPTOR, "RecallService")])
def test_every_read_method_is_classified(file: FileDescriptor, service: str) -> None:
    for method in file.services_by_name[service].methods:
        is_expensive(method.name, message_pb2.Filter())
