"""Tests for the delays between retries."""

from __future__ import annotations

from nomemory.server.runtime.backoff import Backoff


def test_delays_double_up_to_the_maximum_and_reset_after_a_success() -> None:
    backoff = Backoff(0.2, 1.0)
    assert [backoff.compute_next_delay_s() for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.compute_next_delay_s() == 0.2


def test_first_retry_can_be_immediate() -> None:
    backoff = Backoff(0.1, 0.3, retry_immediately=True)
    assert [backoff.compute_next_delay_s() for _ in range(4)] == [0.0, 0.1, 0.2, 0.3]
    backoff.reset()
    assert backoff.compute_next_delay_s() == 0.0
