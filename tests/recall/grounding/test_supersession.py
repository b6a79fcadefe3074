"""Tests for the supersession of statements."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.supersession import MIN_SHARED_TERMS, MIN_SIMILARITY, find_superseding_messages
from nomemory.recall.model.evidence import MessageRelation

IDS = st.sampled_from("abcdef")


def test_latest_message_on_the_same_topic_supersedes() -> None:
    relations = [
        MessageRelation("a", "b", MIN_SIMILARITY, MIN_SHARED_TERMS),
        MessageRelation("a", "c", MIN_SIMILARITY, MIN_SHARED_TERMS),
        MessageRelation("b", "c", 9.0, 1.0),
    ]
    assert find_superseding_messages(relations, "abc") == {"a": "c", "b": "c"}


def test_pairs_below_either_threshold_do_not_supersede() -> None:
    assert (
        find_superseding_messages(
            [
                MessageRelation("a", "b", MIN_SIMILARITY - 0.01, 1.0),
                MessageRelation("a", "c", 9.0, MIN_SHARED_TERMS - 0.01),
            ],
            "abc",
        )
        == {}
    )


def test_messages_outside_the_view_neither_supersede_nor_are_superseded() -> None:
    relations = [MessageRelation("a", "b", 9.0, 1.0), MessageRelation("a", "c", 9.0, 1.0)]
    assert find_superseding_messages(relations, "ab") == {"a": "b"}
    assert find_superseding_messages(relations, "bc") == {}


@given(
    st.lists(
        st.builds(MessageRelation, IDS, IDS, st.floats(0, 5), st.floats(0, 1)).filter(
            lambda item: item.earlier_id < item.later_id
        )
    ),
    st.sets(IDS),
)
def test_superseding_messages_are_later_and_in_the_view(relations: list[MessageRelation], cited: set[str]) -> None:
    superseding = find_superseding_messages(relations, cited)
    assert {*superseding, *superseding.values()} <= cited
    assert all(earlier < later for earlier, later in superseding.items())
