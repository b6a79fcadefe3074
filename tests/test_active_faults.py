"""Tests for active faults: start time and latest cause."""

from __future__ import annotations

from nomemory.server.runtime.active_faults import ERASURE, ERASURE_BLOCKED, ActiveFaults


def test_fault_keeps_its_start_time_and_has_the_latest_cause() -> None:
    faults = ActiveFaults()
    faults.report(ERASURE, ERASURE_BLOCKED, "the index lexical lags behind the message log", ago_s=60)
    (before,) = faults.list_active_faults()
    faults.report(ERASURE, ERASURE_BLOCKED, "the index e5 lags behind the message log")
    (now,) = faults.list_active_faults()
    assert (now.since_s, now.detail) == (before.since_s, "the index e5 lags behind the message log")
    faults.clear(ERASURE)
    assert not faults.list_active_faults()
