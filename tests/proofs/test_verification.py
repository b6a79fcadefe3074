"""Tests for the detection of lost, duplicated and resurrected messages by the torture test."""

from __future__ import annotations

import pytest

from proofs.torture.ledger import BatchWithoutIds, Ledger, MessageVersion
from proofs.torture.verification import compare_with_ledger, compare_with_log, find_partial_batches

FIRST, OTHER = MessageVersion("tortured one", 1, "c"), MessageVersion("tortured other", 2, "c")


def acknowledged(**states: MessageVersion | None) -> Ledger:
    ledger = Ledger(users=["u"])
    for item, state in states.items():
        ledger.record_attempt({("u", item): state})
        ledger.record_acknowledgment({("u", item): state}, "token")
    return ledger


@pytest.mark.parametrize(
    ("stored", "kinds"),
    [
        ([("a", FIRST), ("b", OTHER)], []),
        ([("b", OTHER)], ["lost"]),
        ([("a", OTHER), ("b", OTHER)], ["altered", "duplicated"]),
        ([("a", FIRST), ("a", FIRST), ("b", OTHER)], ["duplicated"]),
        ([("a", FIRST), ("b", OTHER), ("gone", MessageVersion("tortured gone", 3, "c"))], ["resurrected"]),
        ([("a", FIRST), ("b", OTHER), ("new", MessageVersion("tortured new", 3, "c"))], ["invented"]),
    ],
)
def test_differences_between_log_and_ledger_are_detected(
    stored: list[tuple[str, MessageVersion]], kinds: list[str]
) -> None:
    ledger = acknowledged(a=FIRST, b=OTHER, gone=None)
    assert [
        finding.kind for finding in compare_with_ledger("u", stored, ledger.get_allowed_states("u"), set())
    ] == kinds


@pytest.mark.parametrize("stored", [[], [("a", FIRST)]])
def test_unacknowledged_messages_may_be_stored_or_not(stored: list[tuple[str, MessageVersion]]) -> None:
    ledger = Ledger(users=["u"])
    ledger.record_attempt({("u", "a"): FIRST})
    assert not list(compare_with_ledger("u", stored, ledger.get_allowed_states("u"), set()))
    ledger.set_to_stored_states("u", dict(stored))
    assert ledger.get_certain_states("u") == {"a": dict(stored).get("a")}


def test_rejected_changes_keep_the_previous_state() -> None:
    ledger = acknowledged(a=FIRST)
    ledger.record_rejection(ledger.record_attempt({("u", "a"): OTHER, ("u", "b"): OTHER}))
    assert ledger.get_certain_states("u") == {"a": FIRST, "b": None}


@pytest.mark.parametrize(
    ("stored", "kinds"), [({}, []), ({"a": FIRST, "b": OTHER}, []), ({"a": FIRST}, ["partial batch"])]
)
def test_unacknowledged_batch_is_stored_completely_or_not_at_all(
    stored: dict[str, MessageVersion], kinds: list[str]
) -> None:
    ledger = Ledger(users=["u"])
    changes = {("u", "a"): FIRST, ("u", "b"): OTHER}
    ledger.record_attempt(changes)
    ledger.record_unknown_outcome(changes)
    assert [finding.kind for finding in find_partial_batches(ledger, {"u": stored})] == kinds
    ledger.allow_partial_deletion("u")  # a deletion by filter may have deleted one of them
    assert not list(find_partial_batches(ledger, {"u": stored}))


def test_partially_stored_batch_without_ids_is_detected() -> None:
    ledger = Ledger(users=["u"])
    batch = BatchWithoutIds("u", "request", (FIRST, OTHER))
    ledger.batches_without_ids[batch.request_id] = batch
    pending = set(batch.versions)
    assert not list(compare_with_ledger("u", [("m_1", FIRST), ("m_2", OTHER)], {}, pending))
    twice = [("m_1", FIRST), ("m_2", FIRST)]
    assert [finding.kind for finding in compare_with_ledger("u", twice, {}, pending)] == ["duplicated"]
    assert [finding.kind for finding in find_partial_batches(ledger, {"u": {"m_1": FIRST}})] == ["partial batch"]


@pytest.mark.parametrize(
    ("read_versions", "kinds"),
    [
        ([("b", OTHER), ("a", FIRST)], []),
        ([("a", FIRST)], ["not found"]),
        ([("a", FIRST), ("a", FIRST), ("b", OTHER)], ["duplicated"]),
        ([("a", FIRST), ("b", OTHER), ("c", FIRST)], ["resurrected"]),
        ([("a", FIRST), ("b", FIRST)], ["altered"]),
    ],
)
def test_differences_between_a_read_and_the_log_are_detected(
    read_versions: list[tuple[str, MessageVersion]], kinds: list[str]
) -> None:
    assert [finding.kind for finding in compare_with_log("read", read_versions, [("a", FIRST), ("b", OTHER)])] == kinds
