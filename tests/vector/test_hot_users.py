"""Who is being queried."""

from __future__ import annotations

from nomemory.server.vector.space import HotUsers


def test_a_user_is_hot_for_a_while_after_a_query() -> None:
    now = 0.0
    hot = HotUsers(60, lambda: now)
    assert hot.note("ann")
    now = 59.0
    assert not hot.note("ann"), "was hot already"
    assert hot.note("bob")
    assert hot.users() == ["bob", "ann"]
    now = 60.0
    assert not hot.note("ann")
    assert hot.users() == ["ann", "bob"]
    now = 119.5
    assert hot.users() == ["ann"]
    now = 120.0
    assert hot.users() == []
    assert hot.note("ann")


def test_only_the_latest_users_are_remembered() -> None:
    hot = HotUsers(60)
    for number in range(1000):
        hot.note(f"u{number}")
    assert hot.users() == [f"u{number}" for number in range(999, 743, -1)]
