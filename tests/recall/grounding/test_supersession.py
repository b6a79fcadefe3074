"""Which statement took the place of which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.supersession import NEAR, SHARED, superseded
from nomemory.recall.model.evidence import Relation

IDS = st.sampled_from("abcdef")


def test_the_latest_message_on_the_same_thing_takes_the_place() -> None:
    relations = [Relation("a", "b", NEAR, SHARED), Relation("a", "c", NEAR, SHARED), Relation("b", "c", 9.0, 1.0)]
    assert superseded(relations, "abc") == {"a": "c", "b": "c"}


def test_what_is_less_near_or_shares_less_still_holds() -> None:
    assert superseded([Relation("a", "b", NEAR - 0.01, 1.0), Relation("a", "c", 9.0, SHARED - 0.01)], "abc") == {}


def test_what_is_not_in_the_view_takes_no_place_and_loses_none() -> None:
    relations = [Relation("a", "b", 9.0, 1.0), Relation("a", "c", 9.0, 1.0)]
    assert superseded(relations, "ab") == {"a": "b"}
    assert superseded(relations, "bc") == {}


@given(
    st.lists(
        st.builds(Relation, IDS, IDS, st.floats(0, 5), st.floats(0, 1)).filter(lambda item: item.earlier < item.later)
    ),
    st.sets(IDS),
)
def test_only_later_messages_of_the_view_are_named(relations: list[Relation], cited: set[str]) -> None:
    found = superseded(relations, cited)
    assert {*found, *found.values()} <= cited
    assert all(earlier < later for earlier, later in found.items())
