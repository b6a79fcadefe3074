"""Faults that stand: since when, and what they are about now."""

from __future__ import annotations

from nomemory.server.runtime.active_faults import ERASURE, ERASURE_BLOCKED, StandingFaults


def test_a_fault_keeps_its_time_and_says_what_is_wrong_now() -> None:
    faults = StandingFaults()
    faults.stand(ERASURE, ERASURE_BLOCKED, "the index lexical is behind", ago_s=60)
    (before,) = faults.all()
    faults.stand(ERASURE, ERASURE_BLOCKED, "the index e5 is behind")
    (now,) = faults.all()
    assert (now.since_s, now.detail) == (before.since_s, "the index e5 is behind")
    faults.clear(ERASURE)
    assert not faults.all()
