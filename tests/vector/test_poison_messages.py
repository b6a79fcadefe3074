"""Detection of messages that make the embedder fail."""

from __future__ import annotations

from nomemory.server.indexing.vector.backlog import PendingMessage
from nomemory.server.indexing.vector.poison_messages import PoisonMessageTracker


def test_only_messages_that_fail_alone_become_dead_letters() -> None:
    suspects = PoisonMessageTracker()
    guilty, innocent, other = (PendingMessage("ann", f"m{number}", number) for number in range(3))
    assert suspects.record_failure([guilty, innocent]) is None
    assert guilty in suspects
    assert innocent in suspects
    assert all(suspects.record_failure([guilty]) is None for _ in range(100)), "no message causes an outage"
    for _ in range(8):
        suspects.record_success([innocent, other])
        assert suspects.record_failure([guilty]) is None
    suspects.record_success([other])
    assert suspects.record_failure([guilty]) == guilty
    assert guilty not in suspects
    assert innocent not in suspects


def test_messages_with_more_failures_are_retried_later() -> None:
    suspects = PoisonMessageTracker()
    first, second = PendingMessage("ann", "m1", 1), PendingMessage("ann", "m2", 2)
    suspects.record_failure([first, second])
    suspects.record_failure([first])
    assert sorted([first, second], key=suspects.count_failures) == [second, first]


def test_the_number_of_tracked_messages_is_limited() -> None:
    suspects = PoisonMessageTracker()
    items = [PendingMessage("ann", f"m{number}", number) for number in range(2000)]
    suspects.record_failure(items)
    assert sum(item in suspects for item in items) == 1024
